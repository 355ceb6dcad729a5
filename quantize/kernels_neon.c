/* Matrix products with NEON and its dot products (FEAT_DotProd): one 128-bit register is four of a
 * panel's 16 lanes.
 *
 * SDOT multiplies such a register by four activations, which are one 32-bit lane of another
 * register, so that 16 of a row's activations serve four dot products after one load.
 *
 * The 16 registers of weights of half of the lanes, with the scales of their rows, leave a dozen of
 * the 32 registers for a row of activations, which costs 7 loads and 2 stores in addition to 28
 * arithmetic operations. No tile needs code of its own, and no register
 * is spilled. */
#define MAX_ROWS 4
#include "quantize/kernels_neon.h"
#include "format/base/bytes.h"

#include <math.h>

/* Returns i + w . q for 16 columns of each lane's row, four in each w. */
INLINE int32x4_t dot16(int32x4_t i, const int8x16_t w[4], int8x16_t q)
{
    i = vdotq_laneq_s32(i, w[0], q, 0);
    i = vdotq_laneq_s32(i, w[1], q, 1);
    i = vdotq_laneq_s32(i, w[2], q, 2);
    return vdotq_laneq_s32(i, w[3], q, 3);
}

/* acc[0..1] += the weights times row t. */
INLINE void microscale_row(float32x4_t *acc, const struct microscale_weights *m,
                           const struct sp_act_block *at, size_t t)
{
    const int8_t *q = at->q + t * at->ld;
    const float x_scale = at->scale[t * at->ld_block];
    int8x16_t codes[2] = {vld1q_s8(q), vld1q_s8(q + SP_MICROSCALE_HALF)};

    UNROLL
    for (size_t g = 0; g < 2; g++) {
        int32x4_t i0 = dot16(m->start[0][g], m->w[0][g], codes[0]);
        int32x4_t i1 = dot16(m->start[1][g], m->w[1][g], codes[1]);
        int32x4_t u = vmull_s16(vshrn_n_s32(i0, 2), m->scale[0][g]);
        u = vmlal_s16(u, vshrn_n_s32(i1, 2), m->scale[1][g]);
        acc[g] = vfmaq_n_f32(acc[g], vcvtq_f32_s32(u), x_scale);
    }
}

INLINE void multiply_microscale(struct sums *acc, size_t half, struct microscale_weights *m,
                                const struct sp_act_block *at, size_t n_rows)
{
    for (size_t t = 0; t < n_rows; t++)
        microscale_row(acc->row[t] + 2 * half, m, at, t);
}

/* acc[0..1] += the weights times row t. */
INLINE void q8_row(float32x4_t *acc, const struct q8_weights *m, const struct sp_act_block *at,
                   size_t t)
{
    const int8_t *q = at->q + t * at->ld;
    const float x_scale = at->scale[t * at->ld_block];
    int8x16_t q0 = vld1q_s8(q), q1 = vld1q_s8(q + SP_BLOCK / 2);

    UNROLL
    for (size_t g = 0; g < 2; g++) {
        int32x4_t i = dot16(dot16(vdupq_n_s32(0), m->w[g][0], q0), m->w[g][1], q1);
        float32x4_t scale = vmulq_n_f32(m->scale[g], x_scale);
        acc[g] = vfmaq_f32(acc[g], vcvtq_f32_s32(i), scale);
    }
}

INLINE void multiply_q8(struct sums *acc, size_t half, struct q8_weights *m,
                        const struct sp_act_block *at, size_t n_rows)
{
    for (size_t t = 0; t < n_rows; t++)
        q8_row(acc->row[t] + 2 * half, m, at, t);
}

INLINE void settle(struct sums *acc, size_t n_rows)
{
    (void)acc, (void)n_rows;
}

/* ---- f32, f16, bf16 ---- */

/* Four weights of one column. */
INLINE float32x4_t float_weights(enum sp_dtype dtype, const uint8_t *bytes, size_t g)
{
    switch (dtype) {
    case SP_F32:
        return vreinterpretq_f32_u8(vld1q_u8(bytes + 16 * g));
    case SP_F16:
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes + 8 * g)));
    default:
        return widen_bf16(bytes + 8 * g);
    }
}

/* One panel; four rows have 16 accumulators. */
INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t column = LANES * (dtype == SP_F32 ? 4 : 2);
    const size_t cols = m->acts->cols, ld = m->acts->ld;
    const float *from = m->acts->x + m->first * ld;
    const uint8_t *w = m->panels;
    float32x4_t acc[MAX_ROWS][QUARTERS];

    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        UNROLL
        for (size_t g = 0; g < QUARTERS; g++)
            acc[t][g] = vdupq_n_f32(0);
    }
    for (size_t k = 0; k < cols; k++, w += column) {
        float32x4_t x[MAX_ROWS];
        __builtin_prefetch((const void *)((uintptr_t)w + PREFETCH_AHEAD));
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            x[t] = vld1q_dup_f32(from + t * ld + k);
        UNROLL
        for (size_t g = 0; g < QUARTERS; g++) {
            float32x4_t weights = float_weights(dtype, w, g);
            UNROLL
            for (size_t t = 0; t < n_rows; t++)
                acc[t][g] = vfmaq_f32(acc[t][g], weights, x[t]);
        }
    }
    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        UNROLL
        for (size_t g = 0; g < QUARTERS; g++)
            vst1q_f32(m->y + t * m->ldy + 4 * g, acc[t][g]);
    }
}

PRODUCT(static void matmul_f32, multiply(SP_F32, *m))
PRODUCT(static void matmul_f16, multiply(SP_F16, *m))
PRODUCT(static void matmul_bf16, multiply(SP_BF16, *m))

/* ---- activations ---- */

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        uint32x4_t size = vdupq_n_u32(0);
        UNROLL
        for (size_t i = 0; i < SP_BLOCK; i += 4) {
            /* Magnitudes are compared as integers, so that a NaN is the largest. */
            size = vmaxq_u32(size, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i))));
        }
        float max = sp_float_of_bits(vmaxvq_u32(size)), inverse = 127.0f / max;
        int32x4_t keep = vdupq_n_s32(inverse > 0 && !isinf(inverse) ? -1 : 0);
        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        UNROLL
        for (size_t h = 0; h < 2; h++) {
            int32x4_t code[4];
            UNROLL
            for (size_t i = 0; i < 4; i++) {
                float32x4_t v = vmulq_n_f32(vld1q_f32(x + 16 * h + 4 * i), inverse);
                code[i] = vandq_s32(vcvtnq_s32_f32(v), keep);
            }
            int16x8_t low = vcombine_s16(vmovn_s32(code[0]), vmovn_s32(code[1]));
            int16x8_t high = vcombine_s16(vmovn_s32(code[2]), vmovn_s32(code[3]));
            start_q4[2 * b + h] = 2 - 64 * vaddvq_s16(vaddq_s16(low, high));
            vst1q_s8(q + 16 * h, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
        }
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
    }
    sp_acts_set_sums(acts, t);
}

const struct sp_kernels sp_kernels_neon = {
    .name = "neon",
    .quantize_row = quantize_row,
    .matmul = SP_MATMULS(matmul_f32, matmul_f16, matmul_bf16),
    .groupwise = sp_groupwise_neon,
    .peak = sp_peak_neon,
    .tile = &sp_tile_neon,
};
