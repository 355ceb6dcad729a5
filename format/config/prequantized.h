/* The quantization_config of a checkpoint whose weights are quantized already: the method, and how
 * many weights share a scale. Which tensors are quantized follows from the tensors alone. */
#ifndef SP_FORMAT_CONFIG_PREQUANTIZED_H
#define SP_FORMAT_CONFIG_PREQUANTIZED_H

#include "format/base/err.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

enum { SP_MAX_TILES = 16 };

/* The part of a matrix that shares one scale. */
struct sp_tile {
    uint64_t rows, cols;
};

/* How the tensors of a quantized weight are named and laid out. */
enum sp_quant_layout {
    SP_QUANT_NONE,   /* no method is stated */
    SP_QUANT_SCALED, /* X_scale and its kin: FP8, compressed-tensors, modelopt, MXFP4 */
    SP_QUANT_MLX,    /* P.weight in words, P.scales, P.biases */
    SP_QUANT_AWQ,    /* P.qweight [K, N / 8] in the order of AWQ's gemm kernel */
    SP_QUANT_AWQ_V,  /* P.qweight [N, K / 8], with padded zero points and scales: AWQ's gemv */
    SP_QUANT_GPTQ,   /* P.qweight [K * bits / 32, N] */
    SP_QUANT_BITNET, /* P.weight [N / 4, K] of bytes, P.weight_scale */
    SP_QUANT_BNB,    /* bitsandbytes: blocks of 4 bits over a flattened matrix, or P.SCB */
};

/* What a config states. Tiles are listed once; those of a whole row or a whole matrix are always
 * possible and not listed. */
struct sp_prequantized {
    enum sp_quant_layout layout;
    struct sp_tile tiles[SP_MAX_TILES];
    size_t n_tiles;
    unsigned bits;       /* GPTQ: of a code where the shapes leave it open */
    bool zeros_less_one; /* GPTQ: stored zero points are one less than the real ones */
    bool scales_divide;  /* BitNet: codes are divided by their scale */
    /* compressed-tensors: all groups state zero points, and an index of groups by column. */
    bool has_zeros, has_index;
    const struct sp_json *json; /* MLX: the object that holds the overrides; borrowed */
};

/* Reads the quantization_config (or quantization, or compression_config) of a config.json, from
 * the root or else from its text_config. Without one *out is zeroed. Returns SP_E_UNSUPPORTED with
 * the name of a method, format or option that is not implemented, SP_E_INPUT with the key of an
 * invalid value. out->json is borrowed from `root`. */
SP_MUST_CHECK enum sp_status sp_prequantized_parse(struct sp_prequantized *out,
                                                   const struct sp_json *root, struct sp_err *err);

/* Reads a quantize_config.json or quant_config.json beside a config.json that states nothing;
 * `method` is its quant_method unless it states one; NULL: it must. */
SP_MUST_CHECK enum sp_status sp_prequantized_parse_file(struct sp_prequantized *out,
                                                        const struct sp_json *root,
                                                        const char *method, struct sp_err *err);

/* The numbers of one module that MLX quantized. */
enum sp_mlx_mode { SP_MLX_AFFINE, SP_MLX_MXFP4, SP_MLX_NVFP4, SP_MLX_MXFP8 };

struct sp_mlx_format {
    enum sp_mlx_mode mode;
    unsigned bits, group;
    bool quantized; /* false: the config says that the module is not */
};

/* *out = the format of the module path[0..len-1]: an entry of its own, or that of all. */
SP_MUST_CHECK enum sp_status sp_prequantized_mlx(struct sp_mlx_format *out,
                                                 const struct sp_prequantized *stated,
                                                 const char *path, size_t len, struct sp_err *err);

#endif
