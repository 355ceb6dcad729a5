/* The encoders of quantize/types/tile.h with the primitives of simd.h.
 *
 * Four columns of LANES of a tile's rows fill four registers, register j with rows j, 4 + j, ...,
 * one in each quad of 4 lanes. Packed pairwise from 32 to 16 and to 8 bits, they are in the order
 * of rows in a block:
 *
 *   pack(0, 1)  rows 0 1 | 4 5 ...     pack(2, 3)  rows 2 3 | 6 7 ...     both  0 1 2 3 | 4 5 6 7
 * ...
 *
 * An instruction set adds these primitives:
 *
 *   load_quads(p, ld)          quads of p, p + ld, ...
 *   transpose_quads(x)         transposes the 4 x 4 numbers of each quad of four registers
 *   spread_quads(x, y)         x[j] = number j of each quad of y, in all its lanes
 *   pack_words(a, b)           quads of a and b, to 16 bits
 *   pack_bytes, pack_unsigned  the same of words, to 8 bits with and without a sign
 *   store_words, store_lanes   the lowest 16, and 8, bits of each lane
 *   store_codes(codes, c)      32 numbers of c as bytes */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_TILE_LOOPS_H
#define SP_QUANTIZE_KERNELS_KERNELS_TILE_LOOPS_H

#include "format/base/bytes.h"
#include "quantize/kernels/kernels.h"
#include "quantize/simd/simd.h"

#include <float.h>
#include <math.h>

#ifdef REGISTER

static uint32_t max_bits(const float *x, size_t n)
{
    uints max[4] = {{0}};
    size_t i = 0;

    for (; n - i >= 4 * LANES; i += 4 * LANES)
        for (size_t j = 0; j < 4; j++)
            max[j] = larger_bits(max[j], (uints)magnitude(load(x + i + LANES * j, LANES)));
    for (; i < n; i += LANES)
        max[0] = larger_bits(max[0], (uints)magnitude(load(x + i, n - i)));
    return largest_of(larger_bits(larger_bits(max[0], max[1]), larger_bits(max[2], max[3])));
}

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        enum { N = SP_BLOCK / LANES };
        ints codes[N], sums[2] = {{0}};
        uints bits = {0};
        UNROLL
        for (size_t i = 0; i < N; i++)
            bits = larger_bits(bits, (uints)magnitude(load(x + LANES * i, LANES)));
        float max = sp_float_of_bits(largest_of(bits)), inverse = 127.0f / max;
        const ints keep = splat_int(inverse > 0 && !isinf(inverse) ? -1 : 0);
        UNROLL
        for (size_t i = 0; i < N; i++) {
            codes[i] = to_ints(load(x + LANES * i, LANES) * inverse) & keep;
            sums[2 * i / N] += codes[i];
        }
        store_codes(q, codes);
        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        start_q4[2 * b] = 2 - 64 * sum_lanes(sums[0]);
        start_q4[2 * b + 1] = 2 - 64 * sum_lanes(sums[1]);
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
    }
    sp_acts_set_sums(acts, t);
}

/* Loads four columns of LANES rows. */
INLINE void load_columns(floats x[4], const float *from, size_t ld)
{
    for (size_t j = 0; j < 4; j++)
        x[j] = load_quads(from + j * ld, 4 * ld);
}

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    for (size_t r = 0; r < SP_PANEL_ROWS; r += LANES) {
        for (size_t c = 0; c < 16; c += 4) {
            floats columns[4];
            load_columns(columns, x + r * ld + c, ld);
            transpose_quads(columns);
            for (size_t j = 0; j < 4; j++)
                store(out + (c + j) * ld_out + r, LANES, columns[j]);
        }
    }
}

/* The largest magnitude of each row; lane = row. */
INLINE floats max_of_rows(const float *tile)
{
    floats max[4] = {{0}}, x[4];

    for (size_t k = 0; k < SP_BLOCK; k += 4) {
        load_columns(x, tile + k, SP_BLOCK);
        for (size_t j = 0; j < 4; j++)
            max[j] = (floats)larger_bits((uints)max[j], (uints)magnitude(x[j]));
    }
    transpose_quads(max);
    return larger(larger(max[0], max[1]), larger(max[2], max[3]));
}

/* scale_of of quantize/types/q8.c: bf16 in 32-bit lanes. */
INLINE uints scales_of(floats max)
{
    uints bits = (uints)(max / 127.0f);
    uints half = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    floats scale = (floats)(half << 16);

    half = (uints)select(below(splat(FLT_MAX / 127.0f), scale), (floats)(half - 1), (floats)half);
    return (uints)select(below(scale, splat(FLT_MIN)), splat(0), (floats)half);
}

/* Encodes LANES rows of a q8 block. */
INLINE void encode_rows(uint8_t *codes, uint8_t *scales, const float *tile)
{
    uints half = scales_of(max_of_rows(tile));
    floats scale = (floats)(half << 16), inverse[4], x[4];

    spread_quads(inverse, select(below(splat(0), scale), 1.0f / scale, splat(0)));
    for (size_t k = 0; k < SP_BLOCK; k += 4) {
        ints n[4];
        load_columns(x, tile + k, SP_BLOCK);
        for (size_t j = 0; j < 4; j++) {
            floats v = number_at_least(x[j] * inverse[j], -127);
            n[j] = to_ints(number_at_most(v, 127));
        }
        bytes packed = pack_bytes(pack_words(n[0], n[1]), pack_words(n[2], n[3]));
        store_bytes(codes + SP_PANEL_ROWS * k, packed ^ -128);
    }
    store_words(scales, (ints)half);
}

static void encode_q8(uint8_t *block, const float *tile)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row += LANES)
        encode_rows(block + 4 * row, block + 512 + 2 * row, tile + row * SP_BLOCK);
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row += LANES) {
        floats factors[4], x[4];
        spread_quads(factors, load(inverse + row, LANES));
        for (size_t k = 0; k < SP_BLOCK; k += 4) {
            int16_t *to = v + SP_PANEL_ROWS * k + 2 * row;
            ints n[4];
            load_columns(x, tile + row * SP_BLOCK + k, SP_BLOCK);
            for (size_t j = 0; j < 4; j++)
                n[j] = to_ints(x[j] * factors[j]);
            store_bytes(to, (bytes)pack_words(n[0], n[1]));
            store_bytes(to + 32, (bytes)pack_words(n[2], n[3]));
        }
    }
}

#endif

#endif
