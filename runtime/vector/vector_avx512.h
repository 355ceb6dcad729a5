/* Code for the files of the AVX-512 tables: lanes, the tree of sums, and fmath.h's exponential, 16
 * lanes at a time. It is empty unless the including file is compiled for AVX-512. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_AVX512_H
#define SP_RUNTIME_VECTOR_VECTOR_AVX512_H

#include "runtime/vector/fmath.h"
#include "runtime/vector/vector_tables.h"

#include <immintrin.h>

#ifdef __AVX512F__

enum { LANES = 16 };

/* A mask of the first n lanes (n may be above 16). */
INLINE __mmask16 lanes(size_t n)
{
    return (__mmask16)(n < LANES ? (1u << n) - 1 : 0xffff);
}

/* Adds 16 sums as a tree, 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
INLINE float tree_sum(__m512 s)
{
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Computes sp_expf of each lane. */
INLINE __m512 exp16(__m512 x)
{
    __m512 c = _mm512_min_ps(_mm512_set1_ps(SP_EXP_HIGH), x);
    c = _mm512_max_ps(_mm512_set1_ps(SP_EXP_LOW), c);
    __m512 round = _mm512_set1_ps(SP_EXP_ROUND), one = _mm512_set1_ps(1);
    __m512 t = _mm512_fmadd_ps(c, _mm512_set1_ps(SP_EXP_LOG2E), round);
    __m512 n = _mm512_sub_ps(t, round);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-SP_EXP_LN2_HIGH), c);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-SP_EXP_LN2_LOW), r);
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(SP_EXP_C6), r, _mm512_set1_ps(SP_EXP_C5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(SP_EXP_C2));
    p = _mm512_fmadd_ps(p, r, one);
    p = _mm512_fmadd_ps(p, r, one);
    __m512i u =
        _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)(SP_EXP_ROUND_BITS - 254)));
    __m512i half = _mm512_srli_epi32(u, 1), rest = _mm512_sub_epi32(u, half);
    p = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(half, 23)));
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(rest, 23)));
}

/* A mask of the lanes of the vector at i that are in first..last-1. */
INLINE __mmask16 lanes_between(size_t i, size_t first, size_t last)
{
    __mmask16 below = first > i ? lanes(first - i) : 0;

    return (__mmask16)(lanes(last - i) & ~below);
}

#endif

#endif
