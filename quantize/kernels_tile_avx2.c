/* The encoders' inner loops with AVX2: quantize/tile.h.
 *
 * Four columns of 8 of a tile's rows fill four registers, register j with rows j and 4 + j, one in
 * each 128 bits. Packed pairwise from 32 to 16 and to 8 bits, they are in the order of rows in a
 * block:
 *
 *   pack(0, 1)  rows 0 1 | 4 5      pack(2, 3)  rows 2 3 | 6 7      once more  0 1 2 3 | 4 5 6 7 */
#include "format/dtype.h"
#include "quantize/tile.h"

#include <float.h>
#include <immintrin.h>
#include <string.h>

enum { GROUPS = SP_BLOCK / 4 }; /* groups of four columns */

static inline uint32_t largest(__m256i x)
{
    __m128i y = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));

    y = _mm_max_epu32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_max_epu32(y, _mm_shuffle_epi32(y, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(y);
}

static uint32_t max_bits(const float *x, size_t n)
{
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    __m256i max[4] = {_mm256_setzero_si256()};
    float rest[8] = {0};
    size_t i = 0;

    max[1] = max[2] = max[3] = max[0];
    for (; n - i >= 32; i += 32) {
        for (size_t j = 0; j < 4; j++) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i + 8 * j));

            max[j] = _mm256_max_epu32(max[j], _mm256_and_si256(bits, size));
        }
    }
    for (; i < n; i += 8) {
        __m256i bits;

        memcpy(rest, x + i, (n - i < 8 ? n - i : 8) * sizeof *x);
        bits = _mm256_loadu_si256((const __m256i *)rest);
        max[0] = _mm256_max_epu32(max[0], _mm256_and_si256(bits, size));
    }
    return largest(
        _mm256_max_epu32(_mm256_max_epu32(max[0], max[1]), _mm256_max_epu32(max[2], max[3])));
}

/* Transposes 4 x 4 numbers in each 128 bits of four registers. */
static inline void transpose_halves(__m256 *x)
{
    __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);

    x[0] = _mm256_shuffle_ps(a, c, 0x44);
    x[1] = _mm256_shuffle_ps(a, c, 0xee);
    x[2] = _mm256_shuffle_ps(b, d, 0x44);
    x[3] = _mm256_shuffle_ps(b, d, 0xee);
}

/* Transposes 8 x 8 numbers. */
static inline void transpose_eight(float *out, size_t ld_out, const float *x, size_t ld)
{
    __m256 top[4], bottom[4]; /* rows 0..3 and 4..7; then columns c and 4 + c of each */

    for (size_t j = 0; j < 4; j++) {
        top[j] = _mm256_loadu_ps(x + j * ld);
        bottom[j] = _mm256_loadu_ps(x + (4 + j) * ld);
    }
    transpose_halves(top);
    transpose_halves(bottom);
    for (size_t c = 0; c < 4; c++) {
        _mm256_storeu_ps(out + c * ld_out, _mm256_permute2f128_ps(top[c], bottom[c], 0x20));
        _mm256_storeu_ps(out + (4 + c) * ld_out, _mm256_permute2f128_ps(top[c], bottom[c], 0x31));
    }
}

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    for (size_t r = 0; r < 16; r += 8)
        for (size_t c = 0; c < 16; c += 8)
            transpose_eight(out + c * ld_out + r, ld_out, x + r * ld + c, ld);
}

/* Loads columns 4 g..4 g + 3 of 8 rows. */
static inline void load_group(__m256 *x, const float *tile, size_t g)
{
    for (size_t j = 0; j < 4; j++) {
        const float *from = tile + j * SP_BLOCK + 4 * g;

        x[j] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)),
                                    _mm_loadu_ps(from + 4 * SP_BLOCK), 1);
    }
}

/* Distributes one number per row to the registers of a group. */
static inline void spread(__m256 *x, __m256 rows)
{
    x[0] = _mm256_permute_ps(rows, 0x00);
    x[1] = _mm256_permute_ps(rows, 0x55);
    x[2] = _mm256_permute_ps(rows, 0xaa);
    x[3] = _mm256_permute_ps(rows, 0xff);
}

/* The largest magnitude of each row; lane = row. */
static inline __m256 max_of_rows(const float *tile)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 max[4], x[4];

    for (size_t j = 0; j < 4; j++)
        max[j] = _mm256_setzero_ps();
    for (size_t g = 0; g < GROUPS; g++) {
        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++)
            max[j] = _mm256_max_ps(max[j], _mm256_andnot_ps(sign, x[j]));
    }
    transpose_halves(max);
    return _mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3]));
}

/* scale_of of quantize/affine.c: bf16 in 32-bit lanes. */
static inline __m256i scales_of(__m256 max)
{
    const __m256 limit = _mm256_set1_ps(FLT_MAX / 127.0f), least = _mm256_set1_ps(FLT_MIN);
    __m256i bits = _mm256_castps_si256(_mm256_div_ps(max, _mm256_set1_ps(127.0f)));
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i half = _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(half, 16));
    __m256 normal = _mm256_cmp_ps(scale, least, _CMP_GE_OQ);
    __m256 large = _mm256_cmp_ps(scale, limit, _CMP_GT_OQ);

    half = _mm256_add_epi32(half, _mm256_castps_si256(large)); /* all ones are -1 */
    return _mm256_and_si256(half, _mm256_castps_si256(normal));
}

/* Encodes 8 rows of a q8 block. */
static inline void encode_rows(uint8_t *codes, uint8_t *scales, const float *tile)
{
    const __m256 low = _mm256_set1_ps(-127.0f), high = _mm256_set1_ps(127.0f);
    __m256i half = scales_of(max_of_rows(tile));
    __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(half, 16)), inverse[4], x[4];
    __m256 any = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_GT_OQ);

    spread(inverse, _mm256_and_ps(_mm256_div_ps(_mm256_set1_ps(1.0f), scale), any));
    for (size_t g = 0; g < GROUPS; g++) {
        __m256i n[4], bytes;

        load_group(x, tile, g);
        for (size_t j = 0; j < 4; j++) {
            x[j] = _mm256_mul_ps(x[j], inverse[j]);
            n[j] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x[j], low), high));
        }
        bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
        _mm256_storeu_si256((__m256i *)(codes + 64 * g),
                            _mm256_xor_si256(bytes, _mm256_set1_epi8(-128)));
    }
    _mm_storeu_si128((__m128i *)scales, _mm_packus_epi32(_mm256_castsi256_si128(half),
                                                         _mm256_extracti128_si256(half, 1)));
}

static void encode_q8(uint8_t *block, const float *tile)
{
    encode_rows(block, block + 512, tile);
    encode_rows(block + 32, block + 512 + 16, tile + 8 * SP_BLOCK);
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    for (size_t rows = 0; rows < SP_PANEL_ROWS; rows += 8) {
        __m256 factors[4], x[4];

        spread(factors, _mm256_loadu_ps(inverse + rows));
        for (size_t g = 0; g < GROUPS; g++) {
            int16_t *to = v + 64 * g + 2 * rows;
            __m256i n[4];

            load_group(x, tile + rows * SP_BLOCK, g);
            for (size_t j = 0; j < 4; j++)
                n[j] = _mm256_cvtps_epi32(_mm256_mul_ps(x[j], factors[j]));
            _mm256_store_si256((__m256i *)to, _mm256_packs_epi32(n[0], n[1]));
            _mm256_store_si256((__m256i *)(to + 32), _mm256_packs_epi32(n[2], n[3]));
        }
    }
}

const struct sp_tile_kernels sp_tile_avx2 = {
    .max_bits = max_bits,
    .transpose = transpose,
    .encode_q8 = encode_q8,
    .whole_q4 = whole_q4,
    .fit_q4 = sp_q4_fit_avx2,
    .gptq = &sp_gptq_avx2,
};
