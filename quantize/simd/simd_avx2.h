/* The primitives of simd.h with AVX2, FMA and F16C: 8 lanes. The file is empty unless the
 * including file is compiled for AVX2. */
#ifndef SP_QUANTIZE_SIMD_SIMD_AVX2_H
#define SP_QUANTIZE_SIMD_SIMD_AVX2_H

#ifdef __AVX2__

#define REGISTER 32
#define VECTOR __m256i
#define X86(operation) _mm256_##operation
#include "quantize/simd/simd_x86.h"

enum {
    SCORE_QUERIES = 6,
    SCORE_REGISTERS = 14,
    SCORE_VECTORS = 4,
    WEIGH_QUERIES = 4,
    WEIGH_ACCUMULATORS = 8,
    WEIGH_VECTORS = 8,
    CODE_QUERIES = 4,
    CODE_BLOCKS = 1,
    CODE_VECTORS = 4,
    FIT_SIZES = 1,
    STATE_ROWS = 2,
};

INLINE mask first_lanes(size_t n)
{
    return splat_int(n < LANES ? (int32_t)n : LANES) > (ints){0, 1, 2, 3, 4, 5, 6, 7};
}

INLINE floats select(mask m, floats yes, floats no)
{
    return _mm256_blendv_ps(no, yes, (__m256)m);
}

INLINE floats load(const float *p, size_t n)
{
    return n >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, (__m256i)first_lanes(n));
}

INLINE void store(float *p, size_t n, floats x)
{
    if (n >= LANES)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, (__m256i)first_lanes(n), x);
}

INLINE floats load_halves(const void *p, size_t n)
{
    __m128i halves = _mm_setzero_si128();

    memcpy(&halves, p, n >= LANES ? sizeof halves : 2 * n);
    return _mm256_cvtph_ps(halves);
}

INLINE void store_halves(void *p, size_t n, floats x)
{
    __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);

    memcpy(p, &halves, n >= LANES ? sizeof halves : 2 * n);
}

INLINE floats load_bf16(const void *p)
{
    return (floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16);
}

INLINE uint32_t largest_of(uints x)
{
    __m256i v = (__m256i)x;
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));

    return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE int32_t sum_lanes(ints x)
{
    __m256i v = (__m256i)x;
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));

    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

INLINE float largest_lane(floats x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));

    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

INLINE float tree_sum(const floats s[N_SUMS])
{
    __m256 s8 = s[0] + s[1];
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Half r of a register holds the sums of row r. */
INLINE void tree_sums(float out[STATE_ROWS], const floats s[STATE_ROWS][N_SUMS])
{
    __m256 a = s[0][0] + s[0][1], b = s[1][0] + s[1][1];
    __m256 s4 = _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31);
    __m256 s2 = s4 + _mm256_permute_ps(s4, 0x4e), s1 = s2 + _mm256_permute_ps(s2, 0xb1);

    out[0] = _mm256_cvtss_f32(s1);
    out[1] = _mm_cvtss_f32(_mm256_extractf128_ps(s1, 1));
}

/* ---- products: kernels_groupwise_loops.h ---- */

INLINE ints load_lane_bytes(const void *p)
{
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}

/* ---- q8 caches: runtime/vector/vector_q8_loops.h ---- */

/* Packs work within 128-bit halves: dwords come out in the order 0 2 4 6 | 1 3 5 7. */
INLINE void store_codes(int8_t codes[32], const ints c[32 / LANES])
{
    __m256i low = _mm256_packs_epi32((__m256i)c[0], (__m256i)c[1]);
    __m256i high = _mm256_packs_epi32((__m256i)c[2], (__m256i)c[3]);
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

    store_bytes(codes, (bytes)_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
}

enum { KEY_SURPLUS = 0 };

INLINE bytes keys_of(bytes codes)
{
    return codes ^ -128;
}

/* The product of signed bytes is |key| times q with the sign of the key; two products of at most
 * 127 * 127 fit 16 bits. */
INLINE ints dot_keys(ints sum, bytes keys, query_codes q, size_t i)
{
    __m256i k = (__m256i)keys, x = _mm256_sign_epi8((__m256i)splat_four(q + 4 * i), k);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(k), x);

    return sum + (ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* Pairs of 16 bits for positions (0, 2) and (1, 3) of every four. */
struct weights {
    int32_t pairs[8];
};

/* Combines c0 | c2 << 16 and c1 | c3 << 16 of each half; the other lanes are unused. */
INLINE void store_weights(struct weights *w, const ints c[N_SUMS])
{
    for (size_t i = 0; i < N_SUMS; i++) {
        __m256i v = (__m256i)c[i];
        v = _mm256_or_si256(v, _mm256_slli_epi32(_mm256_srli_si256(v, 8), 16));
        v = _mm256_permute4x64_epi64(v, 0x08);
        _mm_storeu_si128((__m128i *)w->pairs + i, _mm256_castsi256_si128(v));
    }
}

/* Positions 0 and 2, and 1 and 3, of each lane, widened. */
typedef struct {
    words even, odd;
} value_codes;

INLINE value_codes values_of(bytes codes)
{
    words x = (words)codes;

    return (value_codes){x << 8 >> 8, x >> 8};
}

struct weighed {
    ints sum;
};

INLINE void weigh(struct weighed *sum, value_codes x, held_weights w, size_t i)
{
    __m256i even = _mm256_set1_epi32(w->pairs[2 * i]), odd = _mm256_set1_epi32(w->pairs[2 * i + 1]);

    sum->sum += (ints)_mm256_madd_epi16((__m256i)x.even, even) +
                (ints)_mm256_madd_epi16((__m256i)x.odd, odd);
    __asm__("" : "+x"(sum->sum)); /* no sums put off: GCC 12 would spill them */
}

INLINE ints weighed_sum(const struct weighed *sum)
{
    return sum->sum;
}

/* ---- encoders: kernels_tile_loops.h, kernels_fit_loops.h ---- */

INLINE floats load_quads(const float *p, size_t ld)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + ld), 1);
}

/* The lowest 16 bits of each lane; the others are 0. */
INLINE __m128i words_of(ints x)
{
    __m256i v = (__m256i)x;

    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

INLINE void store_words(uint8_t *p, ints x)
{
    _mm_storeu_si128((__m128i *)p, words_of(x));
}

INLINE void store_lanes(uint8_t *p, ints x)
{
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words_of(x), words_of(x)));
}

/* By the upper four bits of x: an index, and two values of x above which the index is one more;
 * then the entry by that index. */
struct codebook {
    __m256i index, first, second, entries;
};

INLINE struct codebook load_codebook(const struct sp_q4_tables *tables, int t)
{
    return (struct codebook){load_in_each(tables->index[t]), load_in_each(tables->first[t]),
                             load_in_each(tables->second[t]), load_in_each(tables->entries[t])};
}

INLINE bytes look_up(const struct codebook *book, bytes bytes_of_x)
{
    __m256i x = (__m256i)bytes_of_x;
    __m256i bin = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
    __m256i n = _mm256_shuffle_epi8(book->index, bin);

    n = _mm256_sub_epi8(n, _mm256_cmpgt_epi8(x, _mm256_shuffle_epi8(book->first, bin)));
    n = _mm256_sub_epi8(n, _mm256_cmpgt_epi8(x, _mm256_shuffle_epi8(book->second, bin)));
    return (bytes)_mm256_shuffle_epi8(book->entries, n);
}

struct fit_values {
    words a[SP_Q4_GROUPS], b[SP_Q4_GROUPS];
};

INLINE void prepare_values(struct fit_values *v)
{
    (void)v;
}

/* Two 32-bit lanes a row. */
struct entry_sums {
    ints p_a, p_b, q_a, q_b;
};

INLINE void add_entries(struct entry_sums *s, const struct fit_values *v, bytes c, int g)
{
    __m256i x = (__m256i)c;
    __m256i c_a = _mm256_srai_epi16(_mm256_unpacklo_epi8(x, x), 8);
    __m256i c_b = _mm256_srai_epi16(_mm256_unpackhi_epi8(x, x), 8);

    s->p_a += (ints)_mm256_madd_epi16((__m256i)v->a[g], c_a);
    s->p_b += (ints)_mm256_madd_epi16((__m256i)v->b[g], c_b);
    s->q_a += (ints)_mm256_madd_epi16(c_a, c_a);
    s->q_b += (ints)_mm256_madd_epi16(c_b, c_b);
}

INLINE void read_sums(floats *p, floats *q, const struct entry_sums *s, const struct fit_values *v)
{
    (void)v;
    *p = to_floats((ints)_mm256_hadd_epi32((__m256i)s->p_a, (__m256i)s->p_b));
    *q = to_floats((ints)_mm256_hadd_epi32((__m256i)s->q_a, (__m256i)s->q_b));
}

#endif

#endif
