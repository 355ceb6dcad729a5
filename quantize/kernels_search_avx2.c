/* The q4 encoder's search with AVX2: microscale_search.h, 8 rows at a time.
 *
 * As with AVX-512, a register holds a pair of k: 32-bit lane = row, in it two 16-bit weights, and
 * two registers are packed into one of bytes for the lookup. The lookup goes by the upper four bits
 * of x: an index, and two values above which it is one more; then the entry by that index. */
#include "quantize/microscale_search.h"

#include <immintrin.h>

struct codebook {
    __m256i index, first, second, entries;
};

static inline __m256i load_twice(const int8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

static inline __m256i look_up(const struct codebook *book, __m256i x)
{
    __m256i bin = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
    __m256i n = _mm256_shuffle_epi8(book->index, bin);

    n = _mm256_sub_epi8(n, _mm256_cmpgt_epi8(x, _mm256_shuffle_epi8(book->first, bin)));
    n = _mm256_sub_epi8(n, _mm256_cmpgt_epi8(x, _mm256_shuffle_epi8(book->second, bin)));
    return _mm256_shuffle_epi8(book->entries, n);
}

/* Per row the byte of codebook t nearest to `scale`. */
static inline __m256i bytes_near(__m256 scale, int t)
{
    __m256 n = _mm256_mul_ps(_mm256_sub_ps(scale, _mm256_set1_ps((float)t)), _mm256_set1_ps(0.25f));
    __m256i count = _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(12582912.0f)));

    count = _mm256_sub_epi32(count, _mm256_set1_epi32(0x4b400000));
    count = _mm256_max_epi32(count, _mm256_set1_epi32(t ? 0 : 1));
    count = _mm256_min_epi32(count, _mm256_set1_epi32(63));
    return _mm256_add_epi32(_mm256_slli_epi32(count, 2), _mm256_set1_epi32(t));
}

static inline __m256 gains_of(const __m256i *v, __m256 b, const struct codebook *book)
{
    __m256i m = _mm256_cvttps_epi32(_mm256_div_ps(_mm256_set1_ps(32768.0f), b));
    __m256i p = _mm256_setzero_si256(), q = p;

    m = _mm256_min_epi32(m, _mm256_set1_epi32(32767));
    m = _mm256_or_si256(m, _mm256_slli_epi32(m, 16));
    for (int j = 0; j < SP_Q4_PAIRS; j += 2) {
        __m256i x =
            _mm256_packs_epi16(_mm256_mulhrs_epi16(v[j], m), _mm256_mulhrs_epi16(v[j + 1], m));
        __m256i c = look_up(book, x);
        __m256i c0 = _mm256_srai_epi16(_mm256_unpacklo_epi8(c, c), 8);
        __m256i c1 = _mm256_srai_epi16(_mm256_unpackhi_epi8(c, c), 8);

        p = _mm256_add_epi32(
            p, _mm256_add_epi32(_mm256_madd_epi16(v[j], c0), _mm256_madd_epi16(v[j + 1], c1)));
        q = _mm256_add_epi32(
            q, _mm256_add_epi32(_mm256_madd_epi16(c0, c0), _mm256_madd_epi16(c1, c1)));
    }
    return _mm256_mul_ps(b,
                         _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(2.0f), _mm256_cvtepi32_ps(p)),
                                       _mm256_mul_ps(b, _mm256_cvtepi32_ps(q))));
}

/* Of the two 16-bit numbers in each lane the larger or smaller, as floats. */
static inline __m256 larger_half(__m256i pairs)
{
    __m256i odd = _mm256_srai_epi32(pairs, 16);
    __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16);

    return _mm256_cvtepi32_ps(_mm256_max_epi32(odd, even));
}

static inline __m256 smaller_half(__m256i pairs)
{
    __m256i odd = _mm256_srai_epi32(pairs, 16);
    __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16);

    return _mm256_cvtepi32_ps(_mm256_min_epi32(odd, even));
}

/* Eight rows of one half block; the bytes as 32-bit numbers. */
static __m256i search_rows(const int16_t *weights, const struct sp_q4_search *tables,
                           const struct codebook *books)
{
    __m256i v[SP_Q4_PAIRS], max, min, best = _mm256_setzero_si256();
    __m256 best_gain = _mm256_setzero_ps();

    for (int j = 0; j < SP_Q4_PAIRS; j++)
        v[j] = _mm256_load_si256((const __m256i *)(weights + 32 * j));
    max = min = v[0];
    for (int j = 1; j < SP_Q4_PAIRS; j++) {
        max = _mm256_max_epi16(max, v[j]);
        min = _mm256_min_epi16(min, v[j]);
    }
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        __m256 up = _mm256_mul_ps(larger_half(max), _mm256_set1_ps(tables->high[t]));
        __m256 down = _mm256_mul_ps(smaller_half(min), _mm256_set1_ps(tables->low[t]));
        __m256 guess = _mm256_max_ps(up, down);

        for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
            __m256i b = bytes_near(_mm256_mul_ps(guess, _mm256_set1_ps(sp_q4_ratios[r])), t);
            __m256 gain = gains_of(v, _mm256_cvtepi32_ps(b), &books[t]);
            __m256 better = _mm256_cmp_ps(gain, best_gain, _CMP_GT_OQ);

            best_gain = _mm256_blendv_ps(best_gain, gain, better);
            best = _mm256_blendv_epi8(best, b, _mm256_castps_si256(better));
        }
    }
    return best;
}

void sp_q4_search_avx2(uint8_t *bytes, const int16_t *v, const struct sp_q4_search *tables)
{
    struct codebook books[SP_Q4_N_CODEBOOKS];

    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++)
        books[t] = (struct codebook){load_twice(tables->index[t]), load_twice(tables->first[t]),
                                     load_twice(tables->second[t]), load_twice(tables->entries[t])};
    for (int h = 0; h < 2; h++) {
        __m256i low = search_rows(v + 256 * h, tables, books);
        __m256i high = search_rows(v + 256 * h + 16, tables, books);
        /* 16 numbers below 256, put back in order after the lane-wise pack. */
        __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
        __m128i packed =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));

        _mm_storeu_si128((__m128i *)(bytes + 16 * h), packed);
    }
}
