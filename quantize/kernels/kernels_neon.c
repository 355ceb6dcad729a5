/* Matrix products of block types with NEON and its dot products (FEAT_DotProd): one 128-bit
 * register is four of a panel's 16 lanes.
 *
 * SDOT multiplies such a register by four activations, which are one 32-bit lane of another
 * register, so that 16 of a row's activations serve four dot products after one load.
 *
 * The 16 registers of weights of half of the lanes, with the scales of their rows, leave a dozen of
 * the 32 registers for a row of activations, which costs 7 loads and 2 stores in addition to 28
 * arithmetic operations. No tile needs code of its own, and no register is spilled. */
#include "quantize/kernels/kernels_neon.h"

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

const struct sp_kernels sp_kernels_neon = {
    .name = "neon",
    .matmul = MATMULS(sp_floats_neon),
    .groupwise = sp_groupwise_neon,
    .peak = sp_peak_neon,
    .tile = &sp_tile_neon,
};
