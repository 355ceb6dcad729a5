/* The primitives of quantize/simd.h with NEON and its dot products (FEAT_DotProd): 4 lanes. The
 * file is empty unless the including file is compiled for these. */
#ifndef SP_QUANTIZE_SIMD_NEON_H
#define SP_QUANTIZE_SIMD_NEON_H

#ifdef __ARM_FEATURE_DOTPROD

#define REGISTER 16
#include "quantize/simd.h"

#include <arm_neon.h>

/* Sizes of tiles: most queries, accumulators, and vectors of one query, of scores and of weighted
 * sums; of q8 queries, blocks of keys and vectors of dims; rows of a state. */
enum {
    SCORE_QUERIES = 4,
    SCORE_ACCUMULATORS = 16,
    SCORE_VECTORS = 8,
    WEIGH_QUERIES = 4,
    WEIGH_ACCUMULATORS = 16,
    WEIGH_VECTORS = 16,
    CODE_QUERIES = 8,
    CODE_BLOCKS = 1,
    CODE_VECTORS = 8,
    STATE_ROWS = 1,
};

typedef ints mask;

INLINE mask first_lanes(size_t n)
{
    return splat_int(n < LANES ? (int32_t)n : LANES) > (ints){0, 1, 2, 3};
}

INLINE mask below(floats a, floats b)
{
    return a < b;
}

INLINE floats select(mask m, floats yes, floats no)
{
    return (floats)vbslq_f32((uint32x4_t)m, (float32x4_t)yes, (float32x4_t)no);
}

INLINE floats load(const float *p, size_t n)
{
    float rest[LANES] = {0};

    if (n >= LANES) return (floats)vld1q_f32(p);
    memcpy(rest, p, n * sizeof *p);
    return (floats)vld1q_f32(rest);
}

INLINE void store(float *p, size_t n, floats x)
{
    if (n >= LANES)
        vst1q_f32(p, (float32x4_t)x);
    else
        memcpy(p, &x, n * sizeof *p);
}

INLINE floats load_halves(const void *p, size_t n)
{
    uint8x8_t halves = vdup_n_u8(0);

    memcpy(&halves, p, n >= LANES ? sizeof halves : 2 * n);
    return (floats)vcvt_f32_f16(vreinterpret_f16_u8(halves));
}

INLINE void store_halves(void *p, size_t n, floats x)
{
    float16x4_t halves = vcvt_f16_f32((float32x4_t)x);

    memcpy(p, &halves, n >= LANES ? sizeof halves : 2 * n);
}

INLINE floats fmadd(floats a, floats b, floats c)
{
    return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

INLINE floats at_most(float limit, floats x)
{
    return (floats)vminq_f32(vdupq_n_f32(limit), (float32x4_t)x);
}

INLINE floats at_least(float limit, floats x)
{
    return (floats)vmaxq_f32(vdupq_n_f32(limit), (float32x4_t)x);
}

INLINE floats number_at_most(floats x, float limit)
{
    return (floats)vminnmq_f32((float32x4_t)x, vdupq_n_f32(limit));
}

INLINE floats number_at_least(floats x, float limit)
{
    return (floats)vmaxnmq_f32((float32x4_t)x, vdupq_n_f32(limit));
}

INLINE floats larger(floats a, floats b)
{
    return select(a > b, a, b);
}

INLINE ints to_ints(floats x)
{
    return (ints)vcvtnq_s32_f32((float32x4_t)x);
}

INLINE uints larger_bits(uints a, uints b)
{
    return (uints)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

INLINE uint32_t largest_of(uints x)
{
    return vmaxvq_u32((uint32x4_t)x);
}

INLINE float largest_lane(floats x)
{
    return vmaxvq_f32((float32x4_t)x);
}

INLINE float tree_sum(const floats s[N_SUMS])
{
    float32x4_t s4 = (float32x4_t)((s[0] + s[2]) + (s[1] + s[3]));
    float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));

    return vget_lane_f32(vpadd_f32(s2, s2), 0);
}

INLINE void tree_sums(float out[STATE_ROWS], const floats s[STATE_ROWS][N_SUMS])
{
    out[0] = tree_sum(s[0]);
}

/* ---- q8 caches: runtime/vector/vector_q8_loops.h ---- */

/* Returns sum + x . w for four bytes of each lane of x and of lane i, a constant, of w. */
INLINE ints dot_lane(ints sum, bytes x, int8x16_t w, size_t i)
{
    switch (i) {
    case 0:
        return (ints)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)x, w, 0);
    case 1:
        return (ints)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)x, w, 1);
    case 2:
        return (ints)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)x, w, 2);
    default:
        return (ints)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)x, w, 3);
    }
}

/* Combines the low halves of the lanes of two vectors. */
INLINE int16x8_t narrow(ints a, ints b)
{
    return vcombine_s16(vmovn_s32((int32x4_t)a), vmovn_s32((int32x4_t)b));
}

INLINE void store_codes(int8_t codes[32], const ints c[32 / LANES])
{
    for (size_t i = 0; i < 32; i += 8)
        vst1_s8(codes + i, vmovn_s16(narrow(c[i / LANES], c[i / LANES + 1])));
}

enum { KEY_SURPLUS = 0 };

INLINE bytes load_keys(const uint8_t *p)
{
    return load_bytes(p) ^ -128;
}

typedef int8x16_t query_codes;

INLINE query_codes load_query(const int8_t *codes)
{
    return vld1q_s8(codes);
}

INLINE ints dot_keys(ints sum, bytes keys, query_codes q, size_t i)
{
    return dot_lane(sum, keys, q, i);
}

/* The negative of a weight of 15 bits has two signed bytes as digits, 256 * high + low. */
struct weights {
    int8_t low[16], high[16];
};

INLINE void store_weights(struct weights *w, const ints c[N_SUMS])
{
    for (size_t i = 0; i < N_SUMS; i += 2) {
        int16x8_t negative = vnegq_s16(narrow(c[i], c[i + 1]));
        vst1_s8(w->low + LANES * i, vmovn_s16(negative));
        vst1_s8(w->high + LANES * i, vrshrn_n_s16(negative, 8));
    }
}

typedef struct {
    int8x16_t low, high;
} held_weights;

INLINE held_weights hold_weights(const struct weights *w)
{
    return (held_weights){vld1q_s8(w->low), vld1q_s8(w->high)};
}

typedef bytes value_codes;

INLINE value_codes load_values(const uint8_t *p)
{
    return load_bytes(p);
}

struct weighed {
    ints low, high;
};

INLINE void weigh(struct weighed *sum, value_codes x, held_weights w, size_t i)
{
    sum->low = dot_lane(sum->low, x, w.low, i);
    sum->high = dot_lane(sum->high, x, w.high, i);
}

INLINE ints weighed_sum(const struct weighed *sum)
{
    return -((sum->high << 8) + sum->low);
}

#endif

#endif
