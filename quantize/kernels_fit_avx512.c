/* The search of microscale_fit.h with AVX-512 VBMI and VNNI, 16 rows at a time.
 *
 * sp_q4_place puts 4 k of 16 rows into two registers of 16-bit numbers, a and b. Packed to bytes
 * they become one register with 32-bit lane = row and 4 k in it:
 *
 *   a  rows 0 1 | 4 5 | 8 9 | 12 13      b  rows 2 3 | 6 7 | 10 11 | 14 15       (| every 128 bits)
 *   pack(a, b)  rows 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15
 *
 * The entries of the search come from a table of 256, in four registers, as u = c + 128. Dot
 * products are of bytes: P from v = 256 * high + low with u, less 128 * sum(v); Q from |c| with
 * itself. */
#include "quantize/microscale_fit.h"

#include <immintrin.h>

enum { GROUPS = 4 }; /* groups of 4 k in a half block */

struct half {
    __m512i a[GROUPS], b[GROUPS]; /* v */
    __m512i high[GROUPS],
        low[GROUPS]; /* its bytes, [row][4 k]; v = 256 * high + low, both signed */
    __m512i bias;    /* 128 * sum(v), lane = row */
};

struct codebook {
    __m512i u[4]; /* for x = 0..63, 64..127, -128..-65, -64..-1 */
};

/* Repeats a row's 16-bit number, in a 32-bit lane, for the 4 k of that row in a, and in b. */
static inline __m512i spread_a(__m512i rows)
{
    return _mm512_shuffle_epi8(rows,
                               _mm512_set4_epi32(0x05040504, 0x05040504, 0x01000100, 0x01000100));
}

static inline __m512i spread_b(__m512i rows)
{
    return _mm512_shuffle_epi8(rows,
                               _mm512_set4_epi32(0x0d0c0d0c, 0x0d0c0d0c, 0x09080908, 0x09080908));
}

static void load_half(struct half *half, const int16_t *v)
{
    const __m512i ones = _mm512_set1_epi8(1), round = _mm512_set1_epi16(128);
    __m512i sum_high = _mm512_setzero_si512(), sum_low = sum_high;

    for (int g = 0; g < GROUPS; g++) {
        __m512i a = _mm512_load_si512(v + 64 * g), b = _mm512_load_si512(v + 64 * g + 32);
        __m512i high_a = _mm512_srai_epi16(_mm512_add_epi16(a, round), 8);
        __m512i high_b = _mm512_srai_epi16(_mm512_add_epi16(b, round), 8);
        __m512i low_a = _mm512_sub_epi16(a, _mm512_slli_epi16(high_a, 8));
        __m512i low_b = _mm512_sub_epi16(b, _mm512_slli_epi16(high_b, 8));

        half->a[g] = a;
        half->b[g] = b;
        half->high[g] = _mm512_packs_epi16(high_a, high_b);
        half->low[g] = _mm512_packs_epi16(low_a, low_b);
        sum_high = _mm512_dpbusd_epi32(sum_high, ones, half->high[g]);
        sum_low = _mm512_dpbusd_epi32(sum_low, ones, half->low[g]);
    }
    half->bias = _mm512_add_epi32(_mm512_slli_epi32(sum_high, 15), _mm512_slli_epi32(sum_low, 7));
}

static inline __m512i look_up(const struct codebook *book, __m512i x)
{
    __m512i up = _mm512_permutex2var_epi8(book->u[0], x, book->u[1]);
    __m512i down = _mm512_permutex2var_epi8(book->u[2], x, book->u[3]);

    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), up, down);
}

/* The byte of codebook t nearest to `scale`, per row, as a float. */
static inline __m512 bytes_near(__m512 scale, int t)
{
    __m512 n = _mm512_mul_ps(_mm512_sub_ps(scale, _mm512_set1_ps((float)t)), _mm512_set1_ps(0.25f));

    n = _mm512_roundscale_ps(n, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    n = _mm512_min_ps(_mm512_max_ps(n, _mm512_set1_ps(t ? 0.0f : 1.0f)), _mm512_set1_ps(63));
    return _mm512_fmadd_ps(n, _mm512_set1_ps(4), _mm512_set1_ps((float)t));
}

/* p[r] and q[r] for the multipliers inverse * sp_q4_ratios[r]. */
static inline void find_sums(__m512 *p, __m512 *q, const struct half *half, __m512 inverse,
                             const struct codebook *book)
{
    __m512i m_a[SP_Q4_N_RATIOS], m_b[SP_Q4_N_RATIOS], sum[SP_Q4_N_RATIOS];
    __m512i high[SP_Q4_N_RATIOS], low[SP_Q4_N_RATIOS];

    for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
        __m512 scaled = _mm512_mul_ps(inverse, _mm512_set1_ps(sp_q4_ratios[r]));
        __m512i m = _mm512_cvttps_epi32(
            _mm512_min_ps(_mm512_max_ps(scaled, _mm512_set1_ps(128.0f)), _mm512_set1_ps(32767.0f)));

        m_a[r] = spread_a(m);
        m_b[r] = spread_b(m);
        high[r] = low[r] = sum[r] = _mm512_setzero_si512();
    }
    for (int g = 0; g < GROUPS; g++) {
        for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
            __m512i x = _mm512_packs_epi16(_mm512_mulhrs_epi16(half->a[g], m_a[r]),
                                           _mm512_mulhrs_epi16(half->b[g], m_b[r]));
            __m512i u = look_up(book, x);
            __m512i size = _mm512_abs_epi8(_mm512_xor_si512(u, _mm512_set1_epi8(-128)));

            high[r] = _mm512_dpbusd_epi32(high[r], u, half->high[g]);
            low[r] = _mm512_dpbusd_epi32(low[r], u, half->low[g]);
            sum[r] = _mm512_dpbusd_epi32(sum[r], size, size);
        }
    }
    for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
        __m512i all = _mm512_add_epi32(_mm512_slli_epi32(high[r], 8), low[r]);

        p[r] = _mm512_cvtepi32_ps(_mm512_sub_epi32(all, half->bias));
        q[r] = _mm512_cvtepi32_ps(sum[r]);
    }
}

/* Tries the entries of codebook t at all sizes near the estimate. */
static inline void try_codebook(__m512 *best, __m512 *best_gain, const struct half *half,
                                __m512 estimate, int t, const struct sp_q4_tables *tables)
{
    __m512 inverse = _mm512_div_ps(_mm512_set1_ps(65536.0f), estimate);
    __m512 p[SP_Q4_N_RATIOS], q[SP_Q4_N_RATIOS];
    struct codebook book;

    for (int i = 0; i < 4; i++)
        book.u[i] = _mm512_xor_si512(_mm512_load_si512(tables->nearest[t] + 64 * i),
                                     _mm512_set1_epi8(-128));
    find_sums(p, q, half, inverse, &book);
    for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
        __m512 b = bytes_near(_mm512_div_ps(p[r], q[r]), t);
        __m512 gain = _mm512_mul_ps(
            b, _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(2.0f), p[r]), _mm512_mul_ps(b, q[r])));
        __mmask16 better = _mm512_cmp_ps_mask(gain, *best_gain, _CMP_GT_OQ);

        *best_gain = _mm512_mask_mov_ps(*best_gain, better, gain);
        *best = _mm512_mask_mov_ps(*best, better, b);
    }
}

/* The largest of each row's numbers, as a float; a and b hold the largest per k. */
static inline __m512 max_of_rows(__m512i a, __m512i b)
{
    /* The larger of k and k + 2 of each row, then the larger of the two that remain. */
    __m512i low = _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0x88));
    __m512i high = _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0xdd));
    __m512i pairs = _mm512_max_epi16(low, high);
    __m512i odd = _mm512_srai_epi32(pairs, 16);
    __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(pairs, 16), 16);

    return _mm512_cvtepi32_ps(_mm512_max_epi32(odd, even));
}

/* The scale bytes of 16 rows, one in each 32-bit lane. */
static __m512i search(const struct half *half, const struct sp_q4_tables *tables)
{
    __m512i max_a = half->a[0], max_b = half->b[0], min_a = max_a, min_b = max_b;
    __m512i all = _mm512_set1_epi16(-1);
    __m512 best = _mm512_setzero_ps(), best_gain = best, max, min;

    for (int g = 1; g < GROUPS; g++) {
        max_a = _mm512_max_epi16(max_a, half->a[g]);
        max_b = _mm512_max_epi16(max_b, half->b[g]);
        min_a = _mm512_min_epi16(min_a, half->a[g]);
        min_b = _mm512_min_epi16(min_b, half->b[g]);
    }
    max = max_of_rows(max_a, max_b);
    /* min(v) = -1 - max(-1 - v), and -1 - v is v with all bits inverted. */
    min = max_of_rows(_mm512_xor_si512(min_a, all), _mm512_xor_si512(min_b, all));
    min = _mm512_sub_ps(_mm512_set1_ps(-1.0f), min);
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        __m512 estimate = _mm512_max_ps(_mm512_mul_ps(max, _mm512_set1_ps(tables->high[t])),
                                        _mm512_mul_ps(min, _mm512_set1_ps(tables->low[t])));

        try_codebook(&best, &best_gain, half, estimate, t, tables);
    }
    return _mm512_cvtps_epi32(best);
}

/* Counts the midpoints below each weight and stores the counts as nibbles. */
static void store_codes(uint8_t *codes, const struct half *half, __m512i bytes,
                        const struct sp_q4_tables *tables)
{
    const __m512i one = _mm512_set1_epi16(1);
    __m512i n_a[GROUPS], n_b[GROUPS];

    for (int g = 0; g < GROUPS; g++)
        n_a[g] = n_b[g] = _mm512_setzero_si512();
    for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
        __m512i sums = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)tables->sums[i]));
        /* permutevar selects by the lowest two bits, the codebook. */
        __m512i sum = _mm512_castps_si512(_mm512_permutevar_ps(_mm512_castsi512_ps(sums), bytes));
        __m512i middle = _mm512_srai_epi32(_mm512_madd_epi16(bytes, sum), 1);
        __m512i middle_a = spread_a(middle), middle_b = spread_b(middle);

        for (int g = 0; g < GROUPS; g++) {
            __mmask32 above_a = _mm512_cmpgt_epi16_mask(half->a[g], middle_a);
            __mmask32 above_b = _mm512_cmpgt_epi16_mask(half->b[g], middle_b);

            n_a[g] = _mm512_mask_add_epi16(n_a[g], above_a, n_a[g], one);
            n_b[g] = _mm512_mask_add_epi16(n_b[g], above_b, n_b[g], one);
        }
    }
    for (int g = 0; g < 2; g++) {
        __m512i a = _mm512_or_si512(n_a[g], _mm512_slli_epi16(n_a[g + 2], 4));
        __m512i b = _mm512_or_si512(n_b[g], _mm512_slli_epi16(n_b[g + 2], 4));

        _mm512_storeu_si512(codes + 64 * g, _mm512_packus_epi16(a, b));
    }
}

void sp_q4_fit_avx512(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables)
{
    for (int h = 0; h < 2; h++) {
        struct half half;
        __m512i bytes;

        load_half(&half, v + 256 * h);
        bytes = search(&half, tables);
        store_codes(block + 128 * h, &half, bytes, tables);
        _mm_storeu_si128((__m128i *)(block + 256 + 16 * h), _mm512_cvtepi32_epi8(bytes));
    }
}
