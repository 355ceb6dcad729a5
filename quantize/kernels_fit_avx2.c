/* The search of microscale_fit.h with AVX2, 8 rows at a time.
 *
 * sp_q4_place puts 4 k of 8 rows into two registers of 16-bit numbers, a and b. Packed to bytes
 * they become one register with 32-bit lane = row and 4 k in it, and unpacked again they are a and
 * b:
 *
 *   a  rows 0 1 | 4 5      b  rows 2 3 | 6 7      pack(a, b)  rows 0 1 2 3 | 4 5 6 7
 *
 * The entry nearest to x is looked up by the upper four bits of x: an index, and two values of x
 * above which the index is one more; then the entry by that index. Sums over k end as two 32-bit
 * lanes a row, added at the end. */
#include "quantize/microscale_fit.h"

#include <immintrin.h>

enum { GROUPS = 4 }; /* groups of 4 k in a half block */

struct half {
    __m256i a[GROUPS], b[GROUPS]; /* v of 8 rows */
};

struct codebook {
    __m256i index, first, second, entries;
};

/* Repeats a row's 16-bit number, in a 32-bit lane, for the 4 k of that row in a, and in b. */
static inline __m256i spread_a(__m256i rows)
{
    return _mm256_shuffle_epi8(rows,
                               _mm256_set_epi32(0x05040504, 0x05040504, 0x01000100, 0x01000100,
                                                0x05040504, 0x05040504, 0x01000100, 0x01000100));
}

static inline __m256i spread_b(__m256i rows)
{
    return _mm256_shuffle_epi8(rows,
                               _mm256_set_epi32(0x0d0c0d0c, 0x0d0c0d0c, 0x09080908, 0x09080908,
                                                0x0d0c0d0c, 0x0d0c0d0c, 0x09080908, 0x09080908));
}

static inline __m256i load_twice(const void *table)
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

/* The byte of codebook t nearest to `scale`, per row. */
static inline __m256i bytes_near(__m256 scale, int t)
{
    __m256 n = _mm256_mul_ps(_mm256_sub_ps(scale, _mm256_set1_ps((float)t)), _mm256_set1_ps(0.25f));
    __m256i count = _mm256_castps_si256(_mm256_add_ps(n, _mm256_set1_ps(12582912.0f)));

    count = _mm256_sub_epi32(count, _mm256_set1_epi32(0x4b400000));
    count = _mm256_max_epi32(count, _mm256_set1_epi32(t ? 0 : 1));
    count = _mm256_min_epi32(count, _mm256_set1_epi32(63));
    return _mm256_add_epi32(_mm256_slli_epi32(count, 2), _mm256_set1_epi32(t));
}

/* P and Q of the entries nearest to v times each row's multiplier. */
static inline void find_sums(__m256 *p, __m256 *q, const struct half *half, __m256i multiplier,
                             const struct codebook *book)
{
    __m256i m_a = spread_a(multiplier), m_b = spread_b(multiplier);
    __m256i p_a = _mm256_setzero_si256(), p_b = p_a, q_a = p_a, q_b = p_a;

    for (int g = 0; g < GROUPS; g++) {
        __m256i x = _mm256_packs_epi16(_mm256_mulhrs_epi16(half->a[g], m_a),
                                       _mm256_mulhrs_epi16(half->b[g], m_b));
        __m256i c = look_up(book, x);
        __m256i c_a = _mm256_srai_epi16(_mm256_unpacklo_epi8(c, c), 8);
        __m256i c_b = _mm256_srai_epi16(_mm256_unpackhi_epi8(c, c), 8);

        p_a = _mm256_add_epi32(p_a, _mm256_madd_epi16(half->a[g], c_a));
        p_b = _mm256_add_epi32(p_b, _mm256_madd_epi16(half->b[g], c_b));
        q_a = _mm256_add_epi32(q_a, _mm256_madd_epi16(c_a, c_a));
        q_b = _mm256_add_epi32(q_b, _mm256_madd_epi16(c_b, c_b));
    }
    *p = _mm256_cvtepi32_ps(_mm256_hadd_epi32(p_a, p_b));
    *q = _mm256_cvtepi32_ps(_mm256_hadd_epi32(q_a, q_b));
}

/* Tries the entries of codebook t at all sizes near the estimate. */
static inline void try_codebook(__m256i *best, __m256 *best_gain, const struct half *half,
                                __m256 estimate, int t, const struct sp_q4_tables *tables)
{
    struct codebook book = {load_twice(tables->index[t]), load_twice(tables->first[t]),
                            load_twice(tables->second[t]), load_twice(tables->entries[t])};
    __m256 inverse = _mm256_div_ps(_mm256_set1_ps(65536.0f), estimate);

    for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
        __m256 m = _mm256_mul_ps(inverse, _mm256_set1_ps(sp_q4_ratios[r])), p, q, b, gain, better;
        __m256i byte;

        m = _mm256_min_ps(_mm256_max_ps(m, _mm256_set1_ps(128.0f)), _mm256_set1_ps(32767.0f));
        find_sums(&p, &q, half, _mm256_cvttps_epi32(m), &book);
        byte = bytes_near(_mm256_div_ps(p, q), t);
        b = _mm256_cvtepi32_ps(byte);
        gain = _mm256_mul_ps(
            b, _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(2.0f), p), _mm256_mul_ps(b, q)));
        better = _mm256_cmp_ps(gain, *best_gain, _CMP_GT_OQ);
        *best_gain = _mm256_blendv_ps(*best_gain, gain, better);
        *best = _mm256_blendv_epi8(*best, byte, _mm256_castps_si256(better));
    }
}

/* The largest of each row's numbers, as a float; a and b hold the largest per k. */
static inline __m256 max_of_rows(__m256i a, __m256i b)
{
    /* The larger of k and k + 2 of each row, then the larger of the two that remain. */
    __m256 low = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    __m256 high = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xdd);
    __m256i pairs = _mm256_max_epi16(_mm256_castps_si256(low), _mm256_castps_si256(high));
    __m256i odd = _mm256_srai_epi32(pairs, 16);
    __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16);

    return _mm256_cvtepi32_ps(_mm256_max_epi32(odd, even));
}

/* The scale bytes of 8 rows, one in each 32-bit lane. */
static __m256i search(const struct half *half, const struct sp_q4_tables *tables)
{
    __m256i max_a = half->a[0], max_b = half->b[0], min_a = max_a, min_b = max_b;
    __m256i best = _mm256_setzero_si256(), all = _mm256_set1_epi16(-1);
    __m256 best_gain = _mm256_setzero_ps(), max, min;

    for (int g = 1; g < GROUPS; g++) {
        max_a = _mm256_max_epi16(max_a, half->a[g]);
        max_b = _mm256_max_epi16(max_b, half->b[g]);
        min_a = _mm256_min_epi16(min_a, half->a[g]);
        min_b = _mm256_min_epi16(min_b, half->b[g]);
    }
    max = max_of_rows(max_a, max_b);
    /* min(v) = -1 - max(-1 - v), and -1 - v is v with all bits inverted. */
    min = max_of_rows(_mm256_xor_si256(min_a, all), _mm256_xor_si256(min_b, all));
    min = _mm256_sub_ps(_mm256_set1_ps(-1.0f), min);
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        __m256 estimate = _mm256_max_ps(_mm256_mul_ps(max, _mm256_set1_ps(tables->high[t])),
                                        _mm256_mul_ps(min, _mm256_set1_ps(tables->low[t])));

        try_codebook(&best, &best_gain, half, estimate, t, tables);
    }
    return best;
}

/* Counts the midpoints below each weight and stores the counts as nibbles. */
static void store_codes(uint8_t *codes, const struct half *half, __m256i bytes,
                        const struct sp_q4_tables *tables)
{
    __m256i n_a[GROUPS], n_b[GROUPS];

    for (int g = 0; g < GROUPS; g++)
        n_a[g] = n_b[g] = _mm256_setzero_si256();
    for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
        __m256 sums = _mm256_castsi256_ps(load_twice(tables->sums[i]));
        /* permutevar selects by the lowest two bits, the codebook. */
        __m256i sum = _mm256_castps_si256(_mm256_permutevar_ps(sums, bytes));
        __m256i middle = _mm256_srai_epi32(_mm256_madd_epi16(bytes, sum), 1);
        __m256i middle_a = spread_a(middle), middle_b = spread_b(middle);

        for (int g = 0; g < GROUPS; g++) {
            n_a[g] = _mm256_sub_epi16(n_a[g], _mm256_cmpgt_epi16(half->a[g], middle_a));
            n_b[g] = _mm256_sub_epi16(n_b[g], _mm256_cmpgt_epi16(half->b[g], middle_b));
        }
    }
    for (int g = 0; g < 2; g++) {
        __m256i a = _mm256_or_si256(n_a[g], _mm256_slli_epi16(n_a[g + 2], 4));
        __m256i b = _mm256_or_si256(n_b[g], _mm256_slli_epi16(n_b[g + 2], 4));

        _mm256_storeu_si256((__m256i *)(codes + 64 * g), _mm256_packus_epi16(a, b));
    }
}

/* Stores the lowest byte of each 32-bit lane. */
static inline void store_bytes(uint8_t *out, __m256i bytes)
{
    __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));

    _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(words, words));
}

void sp_q4_fit_avx2(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables)
{
    for (int part = 0; part < 4; part++) {
        int h = part / 2, rows = 8 * (part % 2);
        struct half half;
        __m256i bytes;

        for (int g = 0; g < GROUPS; g++) {
            const int16_t *from = v + 256 * h + 64 * g + 2 * rows;

            half.a[g] = _mm256_load_si256((const __m256i *)from);
            half.b[g] = _mm256_load_si256((const __m256i *)(from + 32));
        }
        bytes = search(&half, tables);
        store_codes(block + 128 * h + 4 * rows, &half, bytes, tables);
        store_bytes(block + 256 + 16 * h + rows, bytes);
    }
}
