/* The encoders' inner loops with AVX-512: quantize/tile.h.
 *
 * Four columns of a tile's 16 rows fill four registers, register j with rows j, 4 + j, 8 + j, 12 +
 * j, one in each 128 bits. Packed pairwise from 32 to 16 and to 8 bits, they are in the order of
 * rows in a block:
 *
 *   pack(0, 1)  rows 0 1 | 4 5 | 8 9 | 12 13      pack(2, 3)  rows 2 3 | 6 7 | 10 11 | 14 15
 *   packed once more      rows 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15 */
#include "format/dtype.h"
#include "quantize/tile.h"

#include <float.h>
#include <immintrin.h>

enum { GROUPS = SP_BLOCK / 4 }; /* groups of four columns */

static uint32_t max_bits(const float *x, size_t n)
{
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i max[4] = {_mm512_setzero_si512()};
    size_t i = 0;

    max[1] = max[2] = max[3] = max[0];
    for (; n - i >= 64; i += 64) {
        for (size_t j = 0; j < 4; j++) {
            __m512i bits = _mm512_and_si512(_mm512_loadu_si512(x + i + 16 * j), size);

            max[j] = _mm512_max_epu32(max[j], bits);
        }
    }
    for (; i < n; i += 16) {
        __mmask16 there = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
        __m512i bits = _mm512_and_si512(_mm512_maskz_loadu_epi32(there, x + i), size);

        max[0] = _mm512_max_epu32(max[0], bits);
    }
    return _mm512_reduce_max_epu32(
        _mm512_max_epu32(_mm512_max_epu32(max[0], max[1]), _mm512_max_epu32(max[2], max[3])));
}

/* Transposes 4 x 4 numbers in each 128 bits of four registers. */
static inline void transpose_quarters(__m512 *x)
{
    __m512 a = _mm512_unpacklo_ps(x[0], x[1]), b = _mm512_unpackhi_ps(x[0], x[1]);
    __m512 c = _mm512_unpacklo_ps(x[2], x[3]), d = _mm512_unpackhi_ps(x[2], x[3]);

    x[0] = _mm512_shuffle_ps(a, c, 0x44);
    x[1] = _mm512_shuffle_ps(a, c, 0xee);
    x[2] = _mm512_shuffle_ps(b, d, 0x44);
    x[3] = _mm512_shuffle_ps(b, d, 0xee);
}

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    __m512 q[4][4]; /* [rows 4 i + j][j]: after the quarters, [i][c] = columns c, 4 + c, ... */

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++)
            q[i][j] = _mm512_loadu_ps(x + (4 * i + j) * ld);
        transpose_quarters(q[i]);
    }
    for (size_t c = 0; c < 4; c++) {
        __m512 a = _mm512_shuffle_f32x4(q[0][c], q[1][c], 0x44);
        __m512 b = _mm512_shuffle_f32x4(q[0][c], q[1][c], 0xee);
        __m512 d = _mm512_shuffle_f32x4(q[2][c], q[3][c], 0x44);
        __m512 e = _mm512_shuffle_f32x4(q[2][c], q[3][c], 0xee);

        _mm512_storeu_ps(out + c * ld_out, _mm512_shuffle_f32x4(a, d, 0x88));
        _mm512_storeu_ps(out + (4 + c) * ld_out, _mm512_shuffle_f32x4(a, d, 0xdd));
        _mm512_storeu_ps(out + (8 + c) * ld_out, _mm512_shuffle_f32x4(b, e, 0x88));
        _mm512_storeu_ps(out + (12 + c) * ld_out, _mm512_shuffle_f32x4(b, e, 0xdd));
    }
}

/* Loads columns 4 g..4 g + 3 of all rows. */
static inline void load_group(__m512 *x, const float *tile, size_t g)
{
    for (size_t j = 0; j < 4; j++) {
        const float *from = tile + j * SP_BLOCK + 4 * g;
        __m512 rows = _mm512_castps128_ps512(_mm_loadu_ps(from));

        rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 4 * SP_BLOCK), 1);
        rows = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 8 * SP_BLOCK), 2);
        x[j] = _mm512_insertf32x4(rows, _mm_loadu_ps(from + 12 * SP_BLOCK), 3);
    }
}

/* Distributes one number per row to the registers of a group. */
static inline void spread(__m512 *x, __m512 rows)
{
    x[0] = _mm512_permute_ps(rows, 0x00);
    x[1] = _mm512_permute_ps(rows, 0x55);
    x[2] = _mm512_permute_ps(rows, 0xaa);
    x[3] = _mm512_permute_ps(rows, 0xff);
}

/* The largest magnitude of each row; lane = row. */
static inline __m512 max_of_rows(const float *tile)
{
    __m512 max[4], x[4];

    for (size_t j = 0; j < 4; j++)
        max[j] = _mm512_setzero_ps();
    for (size_t g = 0; g < GROUPS; g++) {
        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++)
            max[j] = _mm512_max_ps(max[j], _mm512_abs_ps(x[j]));
    }
    transpose_quarters(max);
    return _mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3]));
}

/* scale_of of quantize/affine.c: bf16 in 32-bit lanes. */
static inline __m512i scales_of(__m512 max)
{
    const __m512 limit = _mm512_set1_ps(FLT_MAX / 127.0f), least = _mm512_set1_ps(FLT_MIN);
    __m512i bits = _mm512_castps_si512(_mm512_div_ps(max, _mm512_set1_ps(127.0f)));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i half = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(half, 16));
    __mmask16 normal = _mm512_cmp_ps_mask(scale, least, _CMP_GE_OQ);
    __mmask16 large = _mm512_cmp_ps_mask(scale, limit, _CMP_GT_OQ);

    half = _mm512_mask_sub_epi32(half, large, half, _mm512_set1_epi32(1));
    return _mm512_maskz_mov_epi32(normal, half);
}

static void encode_q8(uint8_t *block, const float *tile)
{
    const __m512 low = _mm512_set1_ps(-127.0f), high = _mm512_set1_ps(127.0f);
    __m512i half = scales_of(max_of_rows(tile));
    __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(half, 16)), inverse[4], x[4];
    __mmask16 any = _mm512_test_epi32_mask(half, half);

    spread(inverse, _mm512_maskz_div_ps(any, _mm512_set1_ps(1.0f), scale));
    for (size_t g = 0; g < GROUPS; g++) {
        __m512i n[4], codes;

        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++) {
            x[j] = _mm512_mul_ps(x[j], inverse[j]);
            n[j] = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(x[j], low), high));
        }
        codes = _mm512_packs_epi16(_mm512_packs_epi32(n[0], n[1]), _mm512_packs_epi32(n[2], n[3]));
        _mm512_storeu_si512(block + 64 * g, _mm512_xor_si512(codes, _mm512_set1_epi8(-128)));
    }
    _mm256_storeu_si256((__m256i *)(block + 512), _mm512_cvtepi32_epi16(half));
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    __m512 factors[4], x[4];

    spread(factors, _mm512_loadu_ps(inverse));
    for (size_t g = 0; g < GROUPS; g++) {
        __m512i n[4];

        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++)
            n[j] = _mm512_cvtps_epi32(_mm512_mul_ps(x[j], factors[j]));
        _mm512_store_si512(v + 64 * g, _mm512_packs_epi32(n[0], n[1]));
        _mm512_store_si512(v + 64 * g + 32, _mm512_packs_epi32(n[2], n[3]));
    }
}

const struct sp_tile_kernels sp_tile_avx512 = {
    .max_bits = max_bits,
    .transpose = transpose,
    .encode_q8 = encode_q8,
    .whole_q4 = whole_q4,
    .fit_q4 = sp_q4_fit_avx512,
    .gptq = &sp_gptq_avx512,
};
