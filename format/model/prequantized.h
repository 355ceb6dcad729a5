/* The quantization_config of a checkpoint whose weights are quantized already: the method, and how
 * many weights share a scale. Which tensors are quantized, and in which format, follows from the
 * tensors alone. */
#ifndef SP_FORMAT_MODEL_PREQUANTIZED_H
#define SP_FORMAT_MODEL_PREQUANTIZED_H

#include "format/base/err.h"
#include "format/base/json.h"

#include <stddef.h>
#include <stdint.h>

enum { SP_MAX_TILES = 16 };

/* The part of a matrix that shares one scale. */
struct sp_tile {
    uint64_t rows, cols;
};

/* The tile sizes that a config states, each once. Tiles of a whole row or a whole matrix are always
 * possible and not listed. */
struct sp_prequantized {
    struct sp_tile tiles[SP_MAX_TILES];
    size_t n_tiles;
};

/* Reads the quantization_config (or compression_config) of a config.json, from the root or else
 * from its text_config. Without one *out is zeroed. Returns SP_E_UNSUPPORTED with the name of a
 * method or format that is not implemented, SP_E_INPUT with the key of an invalid value. */
SP_MUST_CHECK enum sp_status sp_prequantized_parse(struct sp_prequantized *out,
                                                   const struct sp_json *root, struct sp_err *err);

#endif
