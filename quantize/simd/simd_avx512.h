/* The primitives of simd.h with AVX-512 (F, BW, DQ, VL, VNNI, VBMI): 16 lanes. The file is
 * empty unless the including file is compiled for AVX-512. */
#ifndef SP_QUANTIZE_SIMD_SIMD_AVX512_H
#define SP_QUANTIZE_SIMD_SIMD_AVX512_H

#ifdef __AVX512VBMI__

#define REGISTER 64
#define VECTOR __m512i
#define X86(operation) _mm512_##operation
#include "quantize/simd/simd_x86.h"

enum {
    SCORE_QUERIES = 8,
    SCORE_REGISTERS = 18,
    SCORE_VECTORS = 2,
    WEIGH_QUERIES = 8,
    WEIGH_ACCUMULATORS = 24,
    WEIGH_VECTORS = 8,
    CODE_QUERIES = 4,
    CODE_BLOCKS = 2,
    CODE_VECTORS = 4,
    FIT_SIZES = 4,
    STATE_ROWS = 4,
};

typedef __mmask16 mask;

INLINE mask first_lanes(size_t n)
{
    return (mask)(n < LANES ? (1u << n) - 1 : 0xffff);
}

INLINE mask below(floats a, floats b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

INLINE floats select(mask m, floats yes, floats no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

INLINE floats load(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

INLINE void store(float *p, size_t n, floats x)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}

INLINE floats load_halves(const void *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}

INLINE void store_halves(void *p, size_t n, floats x)
{
    _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

INLINE floats load_bf16(const void *p)
{
    return (floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
}

INLINE uint32_t largest_of(uints x)
{
    return _mm512_reduce_max_epu32((__m512i)x);
}

INLINE int32_t sum_lanes(ints x)
{
    return _mm512_reduce_add_epi32((__m512i)x);
}

INLINE float largest_lane(floats x)
{
    return _mm512_reduce_max_ps(x);
}

INLINE float tree_sum(const floats s[N_SUMS])
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(s[0]), _mm512_extractf32x8_ps(s[0], 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Quarter r of a register holds the sums of row r. */
INLINE void tree_sums(float out[STATE_ROWS], const floats s[STATE_ROWS][N_SUMS])
{
    const __m512i firsts = _mm512_set4_epi32(12, 8, 4, 0);
    __m512 low =
        _mm512_shuffle_f32x4(s[0][0], s[1][0], 0x44) + _mm512_shuffle_f32x4(s[0][0], s[1][0], 0xee);
    __m512 high =
        _mm512_shuffle_f32x4(s[2][0], s[3][0], 0x44) + _mm512_shuffle_f32x4(s[2][0], s[3][0], 0xee);
    __m512 s4 = _mm512_shuffle_f32x4(low, high, 0x88) + _mm512_shuffle_f32x4(low, high, 0xdd);
    __m512 s2 = s4 + _mm512_permute_ps(s4, 0x4e);
    __m512 s1 = s2 + _mm512_permute_ps(s2, 0xb1);

    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, s1)));
}

/* ---- products: kernels_groupwise_loops.h ---- */

INLINE ints load_lane_bytes(const void *p)
{
    return (ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}

/* ---- q8 caches: runtime/vector/vector_q8_loops.h ---- */

INLINE void store_codes(int8_t codes[32], const ints c[32 / LANES])
{
    for (size_t i = 0; i < 32 / LANES; i++)
        _mm_storeu_si128((__m128i *)codes + i, _mm512_cvtepi32_epi8((__m512i)c[i]));
}

enum { KEY_SURPLUS = 128 }; /* VPDPBUSD multiplies unsigned bytes of keys */

INLINE bytes keys_of(bytes codes)
{
    return codes;
}

INLINE ints dot_keys(ints sum, bytes keys, query_codes q, size_t i)
{
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)keys, (__m512i)splat_four(q + 4 * i));
}

/* A weight of 15 bits is two unsigned bytes. */
struct weights {
    uint8_t low[16], high[16];
};

INLINE void store_weights(struct weights *w, const ints c[N_SUMS])
{
    static const uint8_t order[32] = {0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
                                      1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61};
    __m512i split = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)order));
    __m512i halves = _mm512_permutexvar_epi8(split, (__m512i)c[0]);

    _mm256_storeu_si256((__m256i *)w->low, _mm512_castsi512_si256(halves));
}

typedef bytes value_codes;

INLINE value_codes values_of(bytes codes)
{
    return codes;
}

struct weighed {
    ints low, high;
};

INLINE void weigh(struct weighed *sum, value_codes x, held_weights w, size_t i)
{
    __m512i low = (__m512i)splat_four((const int8_t *)w->low + 4 * i);
    __m512i high = (__m512i)splat_four((const int8_t *)w->high + 4 * i);

    sum->low = (ints)_mm512_dpbusd_epi32((__m512i)sum->low, low, (__m512i)x);
    sum->high = (ints)_mm512_dpbusd_epi32((__m512i)sum->high, high, (__m512i)x);
}

INLINE ints weighed_sum(const struct weighed *sum)
{
    return (sum->high << 8) + sum->low;
}

/* ---- encoders: kernels_tile_loops.h, kernels_fit_loops.h ---- */

INLINE floats load_quads(const float *p, size_t ld)
{
    __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(p));

    x = _mm512_insertf32x4(x, _mm_loadu_ps(p + ld), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(p + 2 * ld), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(p + 3 * ld), 3);
}

INLINE void store_words(uint8_t *p, ints x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)x));
}

INLINE void store_lanes(uint8_t *p, ints x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)x));
}

INLINE words count_above(words n, words a, words b)
{
    __mmask32 above = _mm512_cmpgt_epi16_mask((__m512i)a, (__m512i)b);

    return (words)_mm512_mask_add_epi16((__m512i)n, above, (__m512i)n, _mm512_set1_epi16(1));
}

/* The entries + 128, which VPDPBUSD multiplies, for x = 0..63, 64..127, -128..-65, -64..-1. */
struct codebook {
    __m512i u[4];
};

INLINE struct codebook load_codebook(const struct sp_q4_tables *tables, int t)
{
    struct codebook book;

    for (int i = 0; i < 4; i++)
        book.u[i] = (__m512i)(load_bytes(tables->nearest[t] + 64 * i) ^ -128);
    return book;
}

INLINE bytes look_up(const struct codebook *book, bytes x)
{
    __m512i up = _mm512_permutex2var_epi8(book->u[0], (__m512i)x, book->u[1]);
    __m512i down = _mm512_permutex2var_epi8(book->u[2], (__m512i)x, book->u[3]);

    return (bytes)_mm512_mask_blend_epi8(_mm512_movepi8_mask((__m512i)x), up, down);
}

/* v = 256 * high + low, both signed bytes [row][4 k]; bias = 128 * the sum of v. */
struct fit_values {
    words a[SP_Q4_GROUPS], b[SP_Q4_GROUPS];
    bytes high[SP_Q4_GROUPS], low[SP_Q4_GROUPS];
    ints bias;
};

INLINE void prepare_values(struct fit_values *v)
{
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum_high = _mm512_setzero_si512(), sum_low = sum_high;

    for (int g = 0; g < SP_Q4_GROUPS; g++) {
        words high_a = (v->a[g] + 128) >> 8, high_b = (v->b[g] + 128) >> 8;
        v->high[g] = pack_bytes(high_a, high_b);
        v->low[g] = pack_bytes(v->a[g] - (high_a << 8), v->b[g] - (high_b << 8));
        sum_high = _mm512_dpbusd_epi32(sum_high, ones, (__m512i)v->high[g]);
        sum_low = _mm512_dpbusd_epi32(sum_low, ones, (__m512i)v->low[g]);
    }
    v->bias = ((ints)sum_high << 15) + ((ints)sum_low << 7);
}

struct entry_sums {
    ints high, low, squares;
};

INLINE void add_entries(struct entry_sums *s, const struct fit_values *v, bytes u, int g)
{
    __m512i size = _mm512_abs_epi8((__m512i)(u ^ -128)), x = (__m512i)u;

    s->high = (ints)_mm512_dpbusd_epi32((__m512i)s->high, x, (__m512i)v->high[g]);
    s->low = (ints)_mm512_dpbusd_epi32((__m512i)s->low, x, (__m512i)v->low[g]);
    s->squares = (ints)_mm512_dpbusd_epi32((__m512i)s->squares, size, size);
}

INLINE void read_sums(floats *p, floats *q, const struct entry_sums *s, const struct fit_values *v)
{
    *p = to_floats((s->high << 8) + s->low - v->bias);
    *q = to_floats(s->squares);
}

#endif

#endif
