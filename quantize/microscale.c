/* Encoding and decoding of q4 blocks: see microscale.h for what the bytes mean.
 *
 * The encoder tries scale bytes. Everything about one half block is put in whole numbers first: v
 * is the weight in units of row_scale (|v| < 2^15), so a weight decoded as b * c has the squared
 * error (v - b * c)^2, and the sum over the half block is sum(v^2) - b * (2 * P - b * Q) with P =
 * sum(v * c) and Q = sum(c^2). The byte that makes b * (2 * P - b * Q) largest wins. */
#include "quantize/microscale.h"
#include "format/dtype.h"
#include "quantize/float_cast.h"

#include <float.h>

_Alignas(64) const int8_t sp_q4_codebooks[64] = {
    -127, -104, -77, -59, -44, -31, -19, -8, 3, 13, 24, 36, 48, 63, 79,  110,
    -110, -79,  -63, -48, -36, -24, -13, -3, 8, 19, 31, 44, 59, 77, 104, 127,
    -98,  -80,  -65, -52, -41, -29, -18, -8, 2, 12, 22, 32, 43, 56, 69,  84,
    -84,  -69,  -56, -43, -32, -22, -12, -2, 8, 18, 29, 41, 52, 65, 80,  98,
};

/* The widest codebook reaches 127, the narrowest 84: byte 255 must serve the largest weight of the
 * row with either. */
static const float LARGEST = 97.0f * 255.0f;

float sp_q4_row_scale(float max)
{
    float scale = max / LARGEST;

    if (scale < FLT_MIN) return 0;
    return scale > FLT_MAX / (127.0f * 255.0f) ? FLT_MAX / (127.0f * 255.0f) : scale;
}

/* The nibble of the entry nearest to x; halfway the lower one. */
static unsigned nearest(const int8_t *entries, float x)
{
    unsigned n = 0;

    for (size_t i = 0; i < 15; i++)
        n += 2.0f * x > (float)(entries[i] + entries[i + 1]);
    return n;
}

static float gain_of(const float *v, uint8_t byte)
{
    const int8_t *entries = sp_q4_codebooks + sp_q4_codebook(byte);
    float b = sp_q4_scale(byte), inverse = 1.0f / b, p = 0, q = 0;

    for (size_t k = 0; k < SP_Q4_HALF; k++) {
        float c = entries[nearest(entries, v[k] * inverse)];

        p += v[k] * c;
        q += c * c;
    }
    return b * (2 * p - b * q);
}

static uint8_t search(const float *v)
{
    float best_gain = 0;
    uint8_t best = 0;

    for (unsigned b = 1; b < 256; b++) {
        float gain = gain_of(v, (uint8_t)b);

        if (gain > best_gain) {
            best_gain = gain;
            best = (uint8_t)b;
        }
    }
    return best;
}

/* Half h of row `lane`. */
static void encode_half(uint8_t *block, const float *x, float row_scale, size_t h, size_t lane)
{
    float v[SP_Q4_HALF], inverse;
    uint8_t byte, *codes = block + 128 * h + 4 * lane;
    const int8_t *entries;

    for (size_t k = 0; k < SP_Q4_HALF; k++)
        v[k] = row_scale > 0 ? x[k] / row_scale : 0;
    byte = search(v);
    entries = sp_q4_codebooks + sp_q4_codebook(byte);
    inverse = byte ? 1.0f / sp_q4_scale(byte) : 0;
    for (size_t k = 0; k < 8; k++) {
        unsigned low = byte ? nearest(entries, v[k] * inverse) : 0;
        unsigned high = byte ? nearest(entries, v[k + 8] * inverse) : 0;

        codes[64 * (k / 4) + k % 4] = (uint8_t)(low | high << 4);
    }
    block[256 + 16 * h + lane] = byte;
}

void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale)
{
    for (size_t lane = 0; lane < SP_PANEL_ROWS; lane++)
        for (size_t h = 0; h < 2; h++)
            encode_half(block, tile + lane * SP_BLOCK + h * SP_Q4_HALF, row_scale[lane], h, lane);
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
