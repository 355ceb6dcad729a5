/* Encoding and decoding of q8 blocks: q8.h explains the bytes. */
#include "quantize/types/q8.h"
#include "format/dtype.h"
#include "quantize/types/float_cast.h"

#include <float.h>

/* The nearest bf16 to max / 127. Rounding moves it by at most 2^-9 of itself, so that max / scale
 * stays below 127.25 and no code leaves -127..127. Two exceptions: a scale that is not a normal
 * number becomes 0 (all weights are below 2^-119 then), and one whose 127-fold would overflow is
 * one step smaller. */
static uint16_t scale_of(float max)
{
    uint16_t half = sp_bf16_of_f32(max / 127.0f);
    float scale = sp_f32_of_bf16(half);

    if (scale < FLT_MIN) return 0;
    return scale > FLT_MAX / 127.0f ? (uint16_t)(half - 1) : half;
}

/* x rounded to nearest even, plus 128: the sum with 1.5 * 2^23 has no fraction. The limits matter
 * after the second exception only. */
static uint8_t code_of(float x)
{
    float limited = x < -127.0f ? -127.0f : x > 127.0f ? 127.0f : x;

    return (uint8_t)sp_bits_of_float(limited + (12582912.0f + 128.0f));
}

static float max_of(const float *x)
{
    float max = 0;

    for (size_t k = 0; k < SP_BLOCK; k++) {
        float size = x[k] < 0 ? -x[k] : x[k];
        max = size > max ? size : max;
    }
    return max;
}

static void encode_lane(uint8_t *block, const float *x, size_t lane)
{
    uint16_t scale = scale_of(max_of(x));
    float inverse = scale ? 1.0f / sp_f32_of_bf16(scale) : 0.0f;

    for (size_t k = 0; k < SP_BLOCK; k++)
        block[64 * (k / 4) + 4 * lane + k % 4] = code_of(x[k] * inverse);
    sp_put16(block + 512 + 2 * lane, scale);
}

void sp_q8_encode_block(uint8_t *block, const float *tile)
{
    for (size_t lane = 0; lane < SP_PANEL_ROWS; lane++)
        encode_lane(block, tile + lane * SP_BLOCK, lane);
}

void sp_q8_decode_row(float *out, const uint8_t *panel, size_t cols, size_t lane)
{
    for (size_t k = 0; k < cols; k++) {
        const uint8_t *block = panel + k / SP_BLOCK * SP_Q8_BLOCK_SIZE;
        size_t i = k % SP_BLOCK;
        int code = block[64 * (i / 4) + 4 * lane + i % 4] - 128;
        out[k] = (float)code * sp_f32_of_bf16(sp_get16(block + 512 + 2 * lane));
    }
}
