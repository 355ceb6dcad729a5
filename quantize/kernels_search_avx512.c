/* The q4 encoder's search with AVX-512 VBMI and VNNI: microscale_search.h, 16 rows at a time.
 *
 * One register holds a pair of k of all 16 rows: 32-bit lane = row, in it two 16-bit weights. Two
 * such registers are packed into one of bytes for the lookup, which takes all 256 entries from four
 * registers, and unpacked again for the dot products.
 *
 *   x    pack(mulhrs(v[j], m), mulhrs(v[j + 1], m))       saturates to -128..127
 *   c    lookup of x; low and high bytes of it widened      = the entries for v[j] and v[j + 1]
 *   P, Q dpwssd(v, c), dpwssd(c, c)                           exact, lane = row */
#include "quantize/microscale_search.h"

#include <immintrin.h>

struct codebook {
    __m512i nearest[4]; /* entries for x = 0..63, 64..127, -128..-65, -64..-1 */
};

static inline __m512i look_up(const struct codebook *book, __m512i x)
{
    __m512i up = _mm512_permutex2var_epi8(book->nearest[0], x, book->nearest[1]);
    __m512i down = _mm512_permutex2var_epi8(book->nearest[2], x, book->nearest[3]);

    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), up, down);
}

/* Per row the byte of codebook t nearest to `scale`. */
static inline __m512i bytes_near(__m512 scale, int t)
{
    __m512 n = _mm512_mul_ps(_mm512_sub_ps(scale, _mm512_set1_ps((float)t)), _mm512_set1_ps(0.25f));
    __m512i count = _mm512_castps_si512(_mm512_add_ps(n, _mm512_set1_ps(12582912.0f)));

    count = _mm512_sub_epi32(count, _mm512_set1_epi32(0x4b400000));
    count = _mm512_max_epi32(count, _mm512_set1_epi32(t ? 0 : 1));
    count = _mm512_min_epi32(count, _mm512_set1_epi32(63));
    return _mm512_add_epi32(_mm512_slli_epi32(count, 2), _mm512_set1_epi32(t));
}

static inline __m512 gains_of(const __m512i *v, __m512 b, const struct codebook *book)
{
    __m512i m = _mm512_cvttps_epi32(_mm512_div_ps(_mm512_set1_ps(32768.0f), b));
    __m512i p = _mm512_setzero_si512(), q = p;

    m = _mm512_min_epi32(m, _mm512_set1_epi32(32767));
    m = _mm512_or_si512(m, _mm512_slli_epi32(m, 16));
    for (int j = 0; j < SP_Q4_PAIRS; j += 2) {
        __m512i x =
            _mm512_packs_epi16(_mm512_mulhrs_epi16(v[j], m), _mm512_mulhrs_epi16(v[j + 1], m));
        __m512i c = look_up(book, x);
        __m512i c0 = _mm512_srai_epi16(_mm512_unpacklo_epi8(c, c), 8);
        __m512i c1 = _mm512_srai_epi16(_mm512_unpackhi_epi8(c, c), 8);

        p = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(p, v[j], c0), v[j + 1], c1);
        q = _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(q, c0, c0), c1, c1);
    }
    return _mm512_mul_ps(b,
                         _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(2.0f), _mm512_cvtepi32_ps(p)),
                                       _mm512_mul_ps(b, _mm512_cvtepi32_ps(q))));
}

/* Of the two 16-bit numbers in each lane the larger or smaller, as floats. */
static inline __m512 larger_half(__m512i pairs)
{
    __m512i odd = _mm512_srai_epi32(pairs, 16);
    __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);

    return _mm512_cvtepi32_ps(_mm512_max_epi32(odd, even));
}

static inline __m512 smaller_half(__m512i pairs)
{
    __m512i odd = _mm512_srai_epi32(pairs, 16);
    __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);

    return _mm512_cvtepi32_ps(_mm512_min_epi32(odd, even));
}

static void search_half(uint8_t *bytes, const int16_t *weights, const struct sp_q4_search *tables)
{
    __m512i v[SP_Q4_PAIRS], max, min, best = _mm512_setzero_si512();
    __m512 best_gain = _mm512_setzero_ps();

    for (int j = 0; j < SP_Q4_PAIRS; j++)
        v[j] = _mm512_load_si512(weights + 32 * j);
    max = min = v[0];
    for (int j = 1; j < SP_Q4_PAIRS; j++) {
        max = _mm512_max_epi16(max, v[j]);
        min = _mm512_min_epi16(min, v[j]);
    }
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        __m512 up = _mm512_mul_ps(larger_half(max), _mm512_set1_ps(tables->high[t]));
        __m512 down = _mm512_mul_ps(smaller_half(min), _mm512_set1_ps(tables->low[t]));
        __m512 guess = _mm512_max_ps(up, down);
        struct codebook book;

        for (int i = 0; i < 4; i++)
            book.nearest[i] = _mm512_load_si512(tables->nearest[t] + 64 * i);
        for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
            __m512i b = bytes_near(_mm512_mul_ps(guess, _mm512_set1_ps(sp_q4_ratios[r])), t);
            __m512 gain = gains_of(v, _mm512_cvtepi32_ps(b), &book);
            __mmask16 better = _mm512_cmp_ps_mask(gain, best_gain, _CMP_GT_OQ);

            best_gain = _mm512_mask_mov_ps(best_gain, better, gain);
            best = _mm512_mask_mov_epi32(best, better, b);
        }
    }
    _mm_storeu_si128((__m128i *)bytes, _mm512_cvtepi32_epi8(best));
}

void sp_q4_search_avx512(uint8_t *bytes, const int16_t *v, const struct sp_q4_search *tables)
{
    search_half(bytes, v, tables);
    search_half(bytes + 16, v + 256, tables);
}
