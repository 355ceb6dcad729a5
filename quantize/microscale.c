/* Encoding and decoding of q4 blocks: see microscale.h for what the bytes mean.
 *
 * The encoder turns a block into whole numbers, weights in units of their row's scale; what follows
 * is integer arithmetic in the main (microscale_fit.h). */
#include "quantize/microscale.h"
#include "format/dtype.h"
#include "format/bytes.h"

#include <float.h>

_Alignas(64) const int8_t sp_q4_codebooks[64] = {
    -127, -107, -74, -58, -44, -30, -18, -7, 3,  14, 25, 36, 50, 67, 85,  105,
    -105, -85,  -67, -50, -36, -25, -14, -3, 7,  18, 30, 44, 58, 74, 107, 127,
    -99,  -82,  -64, -49, -38, -27, -18, -9, -1, 7,  16, 25, 36, 47, 60,  75,
    -75,  -60,  -47, -36, -25, -16, -7,  1,  9,  18, 27, 38, 49, 64, 82,  99,
};

/* Codebooks end between 75 and 127. Byte 255 with this end on the row's largest weight leaves the
 * search room on both sides. */
static const float LARGEST = 97.0f * 255.0f;

float sp_q4_row_scale(float max)
{
    float scale = max / LARGEST;

    if (scale < FLT_MIN) return 0;
    return scale > FLT_MAX / (127.0f * 255.0f) ? FLT_MAX / (127.0f * 255.0f) : scale;
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
