/* What a config.json says of weights that are quantized already: by which method, and how many
 * weights may share a scale. Which tensors are, and how, only the tensors tell. */
#ifndef SP_FORMAT_MODEL_PREQUANTIZED_H
#define SP_FORMAT_MODEL_PREQUANTIZED_H

#include "format/base/err.h"
#include "format/base/json.h"

#include <stddef.h>
#include <stdint.h>

enum { SP_MAX_TILES = 16 };

/* A part of a matrix that one scale holds for. */
struct sp_tile {
    uint64_t rows, cols;
};

/* The sizes stated, each once; whole rows and whole matrices need no statement. */
struct sp_prequantized {
    struct sp_tile tiles[SP_MAX_TILES];
    size_t n_tiles;
};

/* Reads the quantization_config (or compression_config) of a config.json, of the root or else of
 * its text_config; there may be none. SP_E_UNSUPPORTED names a method or format that is not
 * implemented, SP_E_INPUT a key with a nonsensical value. */
SP_MUST_CHECK enum sp_status sp_prequantized_parse(struct sp_prequantized *out,
                                                   const struct sp_json *root, struct sp_err *err);

#endif
