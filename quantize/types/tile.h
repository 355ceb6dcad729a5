/* The inner loops of the encoders of weights, which work on a tile, 32 columns of a panel's 16 rows
 * as [16][32] finite floats, and the encoder of activations. Each instruction set implements them.
 * Every table computes the same bits; kernels_ref.c is the specification. */
#ifndef SP_QUANTIZE_TYPES_TILE_H
#define SP_QUANTIZE_TYPES_TILE_H

#include "quantize/types/gptq.h"

struct sp_acts;

struct sp_tile_kernels {
    /* Sets q, scale, both starts and the sums of row t from x; cols % 32 == 0
     * (quantize/kernels/kernels.h). */
    void (*quantize_row)(const struct sp_acts *acts, size_t t);
    /* The largest magnitude of n numbers, as f32 bits: those of finite floats order like the
     * floats, and NaN is the largest. */
    uint32_t (*max_bits)(const float *x, size_t n);
    /* out[c][r] = x[r][c], both 16 x 16, rows ld_out and ld elements apart. */
    void (*transpose)(float *out, size_t ld_out, const float *x, size_t ld);
    /* Encodes a q8 block (quantize/types/q8.h). */
    void (*encode_q8)(uint8_t *block, const float *tile);
    /* v[512], 64-byte aligned: the tile times each row's inverse[16], rounded to nearest even, in
     * the order of sp_q4_place. All results are below 2^15 in magnitude. */
    void (*whole_q4)(int16_t *v, const float *tile, const float *inverse);
    sp_q4_fit_fn *fit_q4;
    const struct sp_gptq_kernels *gptq;
};

/* The initializer of a table: the static functions of the file that defines it. */
#define SP_TILE_TABLE(gptq_kernels)                                                                \
    {                                                                                              \
        .quantize_row = quantize_row, .max_bits = max_bits, .transpose = transpose,                \
        .encode_q8 = encode_q8, .whole_q4 = whole_q4, .fit_q4 = fit_q4, .gptq = &gptq_kernels,     \
    }

extern const struct sp_tile_kernels sp_tile_ref, sp_tile_avx2, sp_tile_avx512, sp_tile_neon;

#endif
