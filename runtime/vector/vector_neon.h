/* Code for the files of the NEON tables: ends of rows, the tree of sums, and fmath.h's exponential,
 * 4 lanes at a time. It is empty unless the including file is compiled for 64-bit ARM. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_NEON_H
#define SP_RUNTIME_VECTOR_VECTOR_NEON_H

#include "runtime/vector/fmath.h"
#include "runtime/vector/vector_tables.h"

#ifdef __aarch64__

#include <arm_neon.h>

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = 4, N_SUMS = 4 /* registers of the 16 running sums */ };

/* Loads p[0..n-1] and zeros; all of p[0..3] if n >= 4. */
INLINE float32x4_t load4(const float *p, size_t n)
{
    float rest[LANES] = {0};

    if (n >= LANES) return vld1q_f32(p);
    memcpy(rest, p, n * sizeof *p);
    return vld1q_f32(rest);
}

INLINE void store4(float *p, size_t n, float32x4_t v)
{
    float rest[LANES];

    if (n >= LANES) {
        vst1q_f32(p, v);
    } else {
        vst1q_f32(rest, v);
        memcpy(p, rest, n * sizeof *p);
    }
}

/* Adds 16 sums as a tree, 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
INLINE float tree_sum(const float32x4_t s[N_SUMS])
{
    float32x4_t s4 = vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3]));
    float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));

    return vget_lane_f32(vpadd_f32(s2, s2), 0);
}

INLINE uint32x4_t magnitude(float32x4_t x)
{
    return vreinterpretq_u32_f32(vabsq_f32(x));
}

/* Computes sp_expf of each lane. The limits are numbers, so a NaN passes them. */
INLINE float32x4_t exp4(float32x4_t x)
{
    float32x4_t c = vmaxq_f32(vdupq_n_f32(SP_EXP_LOW), vminq_f32(vdupq_n_f32(SP_EXP_HIGH), x));
    float32x4_t round = vdupq_n_f32(SP_EXP_ROUND), one = vdupq_n_f32(1);
    float32x4_t t = vfmaq_f32(round, c, vdupq_n_f32(SP_EXP_LOG2E));
    float32x4_t n = vsubq_f32(t, round);
    float32x4_t r = vfmaq_f32(c, n, vdupq_n_f32(-SP_EXP_LN2_HIGH));
    r = vfmaq_f32(r, n, vdupq_n_f32(-SP_EXP_LN2_LOW));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(SP_EXP_C5), vdupq_n_f32(SP_EXP_C6), r);
    p = vfmaq_f32(vdupq_n_f32(SP_EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(SP_EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(SP_EXP_C2), p, r);
    p = vfmaq_f32(one, p, r);
    p = vfmaq_f32(one, p, r);
    uint32x4_t u = vsubq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(SP_EXP_ROUND_BITS - 254));
    uint32x4_t half = vshrq_n_u32(u, 1), rest = vsubq_u32(u, half);
    p = vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(half, 23)));
    return vmulq_f32(p, vreinterpretq_f32_u32(vshlq_n_u32(rest, 23)));
}

/* A mask of the lanes of the vector at i that are in first..last-1. */
INLINE uint32x4_t lanes_between(size_t i, size_t first, size_t last)
{
    static const uint32_t ascending[LANES] = {0, 1, 2, 3};
    uint32x4_t index = vaddq_u32(vld1q_u32(ascending), vdupq_n_u32((uint32_t)i));

    return vandq_u32(vcgeq_u32(index, vdupq_n_u32((uint32_t)first)),
                     vcltq_u32(index, vdupq_n_u32((uint32_t)last)));
}

#endif

#endif
