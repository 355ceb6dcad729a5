/* Code for the files of the AVX2 tables: ends of rows, the tree of sums, and fmath.h's exponential,
 * 8 lanes at a time. It is empty unless the including file is compiled for AVX2. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_AVX2_H
#define SP_RUNTIME_VECTOR_VECTOR_AVX2_H

#include "runtime/vector/fmath.h"
#include "runtime/vector/vector_tables.h"

#include <immintrin.h>

#ifdef __AVX2__

enum { LANES = 8 };

/* A mask of the first n lanes, n < 8. */
INLINE __m256i lanes(size_t n)
{
    static const int32_t ones_zeros[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};

    return _mm256_loadu_si256((const __m256i *)(ones_zeros + LANES - n));
}

/* Loads p[0..n-1] and zeros; all of p[0..7] if n >= 8. */
INLINE __m256 load8(const float *p, size_t n)
{
    return n >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes(n));
}

INLINE void store8(float *p, size_t n, __m256 v)
{
    if (n >= LANES)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, lanes(n), v);
}

INLINE size_t above(size_t n, size_t subtracted)
{
    return n > subtracted ? n - subtracted : 0;
}

/* Adds 16 sums as a tree, 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
INLINE float tree_sum(__m256 low, __m256 high)
{
    __m256 s8 = _mm256_add_ps(low, high);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));

    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}

/* Computes sp_expf of each lane. */
INLINE __m256 exp8(__m256 x)
{
    __m256 c = _mm256_min_ps(_mm256_set1_ps(SP_EXP_HIGH), x);
    c = _mm256_max_ps(_mm256_set1_ps(SP_EXP_LOW), c);
    __m256 round = _mm256_set1_ps(SP_EXP_ROUND), one = _mm256_set1_ps(1);
    __m256 t = _mm256_fmadd_ps(c, _mm256_set1_ps(SP_EXP_LOG2E), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-SP_EXP_LN2_HIGH), c);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-SP_EXP_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(SP_EXP_C6), r, _mm256_set1_ps(SP_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(SP_EXP_C2));
    p = _mm256_fmadd_ps(p, r, one);
    p = _mm256_fmadd_ps(p, r, one);
    __m256i u =
        _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)(SP_EXP_ROUND_BITS - 254)));
    __m256i half = _mm256_srli_epi32(u, 1), rest = _mm256_sub_epi32(u, half);
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(half, 23)));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(rest, 23)));
}

/* A mask of the lanes of the vector at i that are in first..last-1. */
INLINE __m256 lanes_between(size_t i, size_t first, size_t last)
{
    __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int low = first > i ? (int)(first - i) : 0, high = last - i < LANES ? (int)(last - i) : LANES;

    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(low), index),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32(high), index)));
}

#endif

#endif
