/* Encoding and decoding of q4 blocks: microscale.h explains the bytes.
 *
 * The encoder turns a block into whole numbers, weights in units of their row's scale; the rest is
 * mostly integer arithmetic (microscale_fit.h). */
#include "quantize/microscale.h"
#include "format/dtype.h"
#include "format/base/bytes.h"

#include <float.h>

_Alignas(64) const int8_t sp_q4_codebooks[64] = {
    -64, -46, -37, -29, -22, -16, -10, -4, 1,  6,  12, 18, 24, 31, 39, 48,
    -48, -39, -31, -24, -18, -12, -6,  -1, 4,  10, 16, 22, 29, 37, 46, 64,
    -57, -48, -38, -29, -22, -16, -11, -6, -1, 3,  7,  12, 17, 23, 30, 42,
    -42, -30, -23, -17, -12, -7,  -3,  1,  6,  11, 16, 22, 29, 38, 48, 57,
};

/* The product of byte and entry that the largest weight of a row is scaled to. Codebooks end
 * between 41 and 64; an end of 49 at byte 255 lets the search go further in both directions. */
static const float LARGEST = 49.0f * 255.0f;

float sp_q4_row_scale(float max)
{
    float scale = max / LARGEST;

    if (scale < FLT_MIN) return 0;
    return scale > FLT_MAX / (64.0f * 255.0f) ? FLT_MAX / (64.0f * 255.0f) : scale;
}

void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale,
                        const struct sp_tile_kernels *kernels, const struct sp_q4_tables *tables)
{
    _Alignas(64) int16_t v[SP_PANEL_ROWS * SP_BLOCK];
    float inverse[SP_PANEL_ROWS];

    for (size_t row = 0; row < SP_PANEL_ROWS; row++)
        inverse[row] = row_scale[row] > 0 ? 1.0f / row_scale[row] : 0;
    kernels->whole_q4(v, tile, inverse);
    kernels->fit_q4(block, v, tables);
}

void sp_q4_decode_row(float *out, const uint8_t *panel, size_t cols, size_t lane)
{
    float row_scale = sp_float_of_bits(sp_get32(panel + 4 * lane));

    for (size_t k = 0; k < cols; k++) {
        const uint8_t *block = panel + SP_Q4_PANEL_HEAD + k / SP_BLOCK * SP_Q4_BLOCK_SIZE;
        size_t h = k % SP_BLOCK / SP_Q4_HALF, i = k % SP_Q4_HALF;
        uint8_t pair = block[128 * h + 64 * (i % 8 / 4) + 4 * lane + i % 4];
        uint8_t byte = block[256 + 16 * h + lane];
        unsigned nibble = i < 8 ? pair & 15u : pair >> 4;

        out[k] = row_scale * (float)(byte * sp_q4_codebooks[sp_q4_codebook(byte) | nibble]);
    }
}
