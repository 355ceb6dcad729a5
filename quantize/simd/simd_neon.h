/* The primitives of simd.h with NEON and its dot products (FEAT_DotProd): 4 lanes. The
 * file is empty unless the including file is compiled for these. */
#ifndef SP_QUANTIZE_SIMD_SIMD_NEON_H
#define SP_QUANTIZE_SIMD_SIMD_NEON_H

#ifdef __ARM_FEATURE_DOTPROD

#define REGISTER 16
#include "quantize/simd/simd.h"
#include "quantize/types/microscale_fit.h"

#include <arm_neon.h>

enum {
    SCORE_QUERIES = 4,
    SCORE_REGISTERS = 24,
    SCORE_VECTORS = 8,
    WEIGH_QUERIES = 4,
    WEIGH_ACCUMULATORS = 16,
    WEIGH_VECTORS = 16,
    CODE_QUERIES = 8,
    CODE_BLOCKS = 1,
    CODE_VECTORS = 8,
    FIT_SIZES = 1,
    STATE_ROWS = 1,
};

INLINE mask first_lanes(size_t n)
{
    return splat_int(n < LANES ? (int32_t)n : LANES) > (ints){0, 1, 2, 3};
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

INLINE floats load_bf16(const void *p)
{
    return (floats)vshll_n_u16(vld1_u16(p), 16);
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

INLINE int32_t sum_lanes(ints x)
{
    return vaddvq_s32((int32x4_t)x);
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

/* ---- products: kernels_groupwise_loops.h ---- */

INLINE ints load_lane_bytes(const void *p)
{
    uint8x8_t lanes = vdup_n_u8(0);

    memcpy(&lanes, p, LANES);
    return (ints)vmovl_u16(vget_low_u16(vmovl_u8(lanes)));
}

INLINE bytes load_table_16(const void *table)
{
    return load_bytes(table);
}

INLINE bytes look_up_16(bytes table, bytes i)
{
    return (bytes)vqtbl1q_s8((int8x16_t)table, (uint8x16_t)i);
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

INLINE bytes keys_of(bytes codes)
{
    return codes ^ -128;
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

INLINE value_codes values_of(bytes codes)
{
    return codes;
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

/* ---- encoders: kernels_tile_loops.h, kernels_fit_loops.h ---- */

INLINE floats load_quads(const float *p, size_t ld)
{
    (void)ld;
    return load(p, LANES);
}

INLINE void transpose_quads(floats x[4])
{
    float32x4x2_t a = vtrnq_f32((float32x4_t)x[0], (float32x4_t)x[1]);
    float32x4x2_t b = vtrnq_f32((float32x4_t)x[2], (float32x4_t)x[3]);

    for (size_t j = 0; j < 2; j++) {
        x[j] = (floats)vcombine_f32(vget_low_f32(a.val[j]), vget_low_f32(b.val[j]));
        x[j + 2] = (floats)vcombine_f32(vget_high_f32(a.val[j]), vget_high_f32(b.val[j]));
    }
}

INLINE void spread_quads(floats x[4], floats y)
{
    for (size_t j = 0; j < 4; j++)
        x[j] = splat(y[j]);
}

INLINE words pack_words(ints a, ints b)
{
    return (words)narrow(a, b);
}

INLINE bytes pack_bytes(words a, words b)
{
    return (bytes)vcombine_s8(vqmovn_s16((int16x8_t)a), vqmovn_s16((int16x8_t)b));
}

INLINE bytes pack_unsigned(words a, words b)
{
    return (bytes)vcombine_s8(vmovn_s16((int16x8_t)a), vmovn_s16((int16x8_t)b));
}

INLINE void store_words(uint8_t *p, ints x)
{
    vst1_u8(p, vreinterpret_u8_s16(vmovn_s32((int32x4_t)x)));
}

INLINE void store_lanes(uint8_t *p, ints x)
{
    int8x8_t four = vmovn_s16(narrow(x, x));

    memcpy(p, &four, 4);
}

INLINE words spread_a(ints rows)
{
    static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5};

    return (words)vqtbl1q_s8((int8x16_t)rows, vld1q_u8(order));
}

INLINE words spread_b(ints rows)
{
    static const uint8_t order[16] = {8, 9, 8, 9, 8, 9, 8, 9, 12, 13, 12, 13, 12, 13, 12, 13};

    return (words)vqtbl1q_s8((int8x16_t)rows, vld1q_u8(order));
}

INLINE words larger_words(words a, words b)
{
    return (words)vmaxq_s16((int16x8_t)a, (int16x8_t)b);
}

INLINE words scale_words(words a, words m)
{
    return (words)vqrdmulhq_s16((int16x8_t)a, (int16x8_t)m);
}

/* By the upper four bits of x: an index, and two values of x above which the index is one more;
 * then the entry by that index. */
struct codebook {
    int8x16_t index, first, second, entries;
};

INLINE struct codebook load_codebook(const struct sp_q4_tables *tables, int t)
{
    return (struct codebook){vld1q_s8(tables->index[t]), vld1q_s8(tables->first[t]),
                             vld1q_s8(tables->second[t]), vld1q_s8(tables->entries[t])};
}

INLINE bytes look_up(const struct codebook *book, bytes x)
{
    uint8x16_t bin = vshrq_n_u8((uint8x16_t)x, 4);
    bytes n = (bytes)vqtbl1q_s8(book->index, bin);

    n -= x > (bytes)vqtbl1q_s8(book->first, bin);
    n -= x > (bytes)vqtbl1q_s8(book->second, bin);
    return (bytes)vqtbl1q_s8(book->entries, (uint8x16_t)n);
}

struct fit_values {
    words a[SP_Q4_GROUPS], b[SP_Q4_GROUPS];
};

INLINE void prepare_values(struct fit_values *v)
{
    (void)v;
}

/* Four 32-bit lanes of each row, and sums of its squares. */
struct entry_sums {
    int32x4_t rows[4], squares;
};

INLINE void add_entries(struct entry_sums *s, const struct fit_values *v, bytes c, int g)
{
    int16x8_t a = (int16x8_t)v->a[g], b = (int16x8_t)v->b[g];
    int16x8_t c_a = vmovl_s8(vget_low_s8((int8x16_t)c)), c_b = vmovl_high_s8((int8x16_t)c);

    s->rows[0] = vmlal_s16(s->rows[0], vget_low_s16(a), vget_low_s16(c_a));
    s->rows[1] = vmlal_high_s16(s->rows[1], a, c_a);
    s->rows[2] = vmlal_s16(s->rows[2], vget_low_s16(b), vget_low_s16(c_b));
    s->rows[3] = vmlal_high_s16(s->rows[3], b, c_b);
    s->squares = vdotq_s32(s->squares, (int8x16_t)c, (int8x16_t)c);
}

INLINE void read_sums(floats *p, floats *q, const struct entry_sums *s, const struct fit_values *v)
{
    int32x4_t a = vpaddq_s32(s->rows[0], s->rows[1]), b = vpaddq_s32(s->rows[2], s->rows[3]);

    (void)v;
    *p = to_floats((ints)vpaddq_s32(a, b));
    *q = to_floats((ints)s->squares);
}

INLINE floats max_words_of_rows(words a, words b)
{
    int16x8_t pairs = vpmaxq_s16((int16x8_t)a, (int16x8_t)b), rows = vpmaxq_s16(pairs, pairs);

    return to_floats((ints)vmovl_s16(vget_low_s16(rows)));
}

/* Four bytes of each lane select a sum in the table. */
INLINE ints select_sums(const int32_t sums[4], ints i)
{
    ints four = (i & 3) * 0x04040404 + 0x03020100;

    return (ints)vqtbl1q_s8(vreinterpretq_s8_s32(vld1q_s32(sums)), (uint8x16_t)four);
}

INLINE ints multiply_lanes(ints a, ints b)
{
    return a * b;
}

#endif

#endif
