/* Encoding and decoding of q4 blocks: see microscale.h for what the bytes mean.
 *
 * The encoder turns a block into whole numbers v, weights in units of their row's scale, lets the
 * search (microscale_search.h) choose the scale bytes, and finds the codes exactly: the entry c
 * nearest to v / b is the number of midpoints between entries below it, v > b * (c + c') / 2. */
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

enum { PAIR_WORDS = 2 * SP_PANEL_ROWS, HALF_WORDS = SP_Q4_PAIRS * PAIR_WORDS };

/* v[h][pair][row][2] = the weights in units of their row's scale, rounded to nearest even. */
static void to_whole(int16_t *v, const float *tile, const float *row_scale)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row++) {
        const float *x = tile + row * SP_BLOCK;
        float inverse = row_scale[row] > 0 ? 1.0f / row_scale[row] : 0;
        int16_t whole[SP_BLOCK];

        /* Adding 1.5 * 2^23 leaves the integer in the low bits. */
        for (size_t k = 0; k < SP_BLOCK; k++)
            whole[k] = (int16_t)(sp_bits_of_float(x[k] * inverse + 12582912.0f) & 0xffff);
        for (size_t pair = 0; pair < SP_BLOCK / 2; pair++)
            memcpy(v + pair * PAIR_WORDS + 2 * row, whole + 2 * pair, 2 * sizeof *v);
    }
}

/* between[i][row][2] = the largest v that still takes entry i or less of the row's codebook. */
static void find_midpoints(int16_t between[15][PAIR_WORDS], const uint8_t *bytes)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row++) {
        const int8_t *entries = sp_q4_codebooks + sp_q4_codebook(bytes[row]);

        for (size_t i = 0; i < 15; i++) {
            int middle = (bytes[row] * (entries[i] + entries[i + 1])) >> 1;

            between[i][2 * row] = between[i][2 * row + 1] = (int16_t)middle;
        }
    }
}

/* codes[row][2] of one pair. */
static void find_codes(int16_t *codes, const int16_t *v, int16_t between[15][PAIR_WORDS])
{
    for (size_t w = 0; w < PAIR_WORDS; w++) {
        int16_t code = 0;

        for (size_t i = 0; i < 15; i++)
            code = (int16_t)(code + (v[w] > between[i][w]));
        codes[w] = code;
    }
}

/* The 128 bytes of codes of one half block. */
static void encode_codes(uint8_t *out, const int16_t *v, const uint8_t *bytes)
{
    int16_t between[15][PAIR_WORDS], low[PAIR_WORDS], high[PAIR_WORDS];

    find_midpoints(between, bytes);
    for (size_t pair = 0; pair < SP_Q4_PAIRS / 2; pair++) {
        uint8_t *pairs = out + 64 * (pair / 2) + 2 * (pair % 2);

        find_codes(low, v + pair * PAIR_WORDS, between);
        find_codes(high, v + (pair + SP_Q4_PAIRS / 2) * PAIR_WORDS, between);
        for (size_t w = 0; w < PAIR_WORDS; w++)
            pairs[4 * (w / 2) + w % 2] = (uint8_t)(low[w] | high[w] << 4);
    }
}

void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale,
                        sp_q4_search_fn *search, const struct sp_q4_search *tables)
{
    _Alignas(64) int16_t v[2 * HALF_WORDS];

    to_whole(v, tile, row_scale);
    search(block + 256, v, tables);
    encode_codes(block, v, block + 256);
    encode_codes(block + 128, v + HALF_WORDS, block + 256 + 16);
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
