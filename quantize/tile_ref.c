/* The inner loops of the encoders in plain C: the specification. */
#include "quantize/tile.h"

#include "format/base/bytes.h"
#include "format/dtype.h"
#include "quantize/affine.h"

static uint32_t max_bits(const float *x, size_t n)
{
    uint32_t max = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = sp_bits_of_float(x[i]) & 0x7fffffff;

        max = bits > max ? bits : max;
    }
    return max;
}

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    for (size_t r = 0; r < 16; r++)
        for (size_t c = 0; c < 16; c++)
            out[c * ld_out + r] = x[r * ld + c];
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row++) {
        const float *x = tile + row * SP_BLOCK;

        /* Adding 1.5 * 2^23 leaves the integer, rounded to even, in the low bits. */
        for (size_t k = 0; k < SP_BLOCK; k++) {
            uint32_t bits = sp_bits_of_float(x[k] * inverse[row] + 12582912.0f);

            v[sp_q4_place(row, k)] = (int16_t)(bits & 0xffff);
        }
    }
}

const struct sp_tile_kernels sp_tile_ref = {
    .max_bits = max_bits,
    .transpose = transpose,
    .encode_q8 = sp_q8_encode_block,
    .whole_q4 = whole_q4,
    .fit_q4 = sp_q4_fit_ref,
    .gptq = &sp_gptq_ref,
};
