/* Matrix products of q2 to q6 and q8 with NEON's products of matrices of bytes (FEAT_I8MM), for two
 * rows of activations and more. All else is the set neon's.
 *
 * SMMLA multiplies two rows of activations by two lanes, eight columns of each:
 *
 *   weights     k..k+7 of lane r                  k..k+7 of lane r + 1
 *   codes       k..k+7 of row t                   k..k+7 of row t + 1
 *   sums        t times r        t times r + 1    t + 1 times r    t + 1 times r + 1
 *
 * Accumulators stay in this order until a panel is done. For two rows and four lanes of a block of
 * q4, 8 SMMLA and 16 other instructions take the place of 16 SDOT and 16 others; of q8, 8 and 6
 * that of 16 and 6. It was tested under emulation and never timed, so it is used by name only. */
#include "quantize/kernels/kernels_neon.h"

/* Two rows of activations. */
struct pair {
    int8x16_t q[2][2];   /* [half of the block][columns 0..7, 8..15]: codes of both rows */
    float32x4_t x_scale; /* of the first row twice, of the second twice */
};

/* Row t and the next one; of the last row, itself. */
INLINE struct pair load_pair(const struct sp_act_block *at, size_t t, size_t n_rows)
{
    const size_t other = t + 1 < n_rows ? t + 1 : t;
    const float32x2_t first = vdup_n_f32(at->scale[t * at->ld_block]);
    const float32x2_t second = vdup_n_f32(at->scale[other * at->ld_block]);
    struct pair pair = {.x_scale = vcombine_f32(first, second)};

    UNROLL
    for (size_t h = 0; h < 2; h++) {
        int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(at->q + t * at->ld + 16 * h));
        int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(at->q + other * at->ld + 16 * h));
        pair.q[h][0] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        pair.q[h][1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
    }
    return pair;
}

/* Puts eight columns of lanes 0 and 1 into w[0] and w[2], of lanes 2 and 3 into w[1] and w[3]. */
INLINE void zip_columns(int8x16_t w[4])
{
    UNROLL
    for (size_t i = 0; i < 4; i += 2) {
        int32x4_t a = vreinterpretq_s32_s8(w[i]), b = vreinterpretq_s32_s8(w[i + 1]);
        w[i] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
        w[i + 1] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    }
}

/* Lanes 2 l and 2 l + 1, twice. */
INLINE int32x4_t twice(int32x4_t x, size_t l)
{
    int32x2_t lanes = l ? vget_high_s32(x) : vget_low_s32(x);

    return vcombine_s32(lanes, lanes);
}

INLINE int16x4_t twice16(int16x4_t x, size_t l)
{
    int32x2_t lanes = vreinterpret_s32_s16(x);

    return vreinterpret_s16_s32(l ? vdup_lane_s32(lanes, 1) : vdup_lane_s32(lanes, 0));
}

/* Returns i + w . q for 16 columns of lanes 2 l and 2 l + 1 and both rows. */
INLINE int32x4_t dot_pair(int32x4_t i, const int8x16_t w[4], size_t l, const int8x16_t q[2])
{
    return vmmlaq_s32(vmmlaq_s32(i, q[0], w[l]), q[1], w[2 + l]);
}

INLINE void multiply_microscale(struct sums *acc, size_t half, struct microscale_weights *m,
                                const struct sp_act_block *at, size_t n_rows)
{
    UNROLL
    for (size_t i = 0; i < 4; i++)
        zip_columns(m->w[i / 2][i % 2]);
    for (size_t t = 0; t < n_rows; t += 2) {
        const struct pair pair = load_pair(at, t, n_rows);
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            const size_t g = i / 2, l = i % 2;
            float32x4_t *a = &acc->row[t + l][2 * half + g];
            int32x4_t i0 = dot_pair(twice(m->start[0][g], l), m->w[0][g], l, pair.q[0]);
            int32x4_t i1 = dot_pair(twice(m->start[1][g], l), m->w[1][g], l, pair.q[1]);
            int32x4_t u = vmull_s16(vshrn_n_s32(i0, 2), twice16(m->scale[0][g], l));
            u = vmlal_s16(u, vshrn_n_s32(i1, 2), twice16(m->scale[1][g], l));
            *a = vfmaq_f32(*a, vcvtq_f32_s32(u), pair.x_scale);
        }
    }
}

INLINE void multiply_q8(struct sums *acc, size_t half, struct q8_weights *m,
                        const struct sp_act_block *at, size_t n_rows)
{
    UNROLL
    for (size_t i = 0; i < 4; i++)
        zip_columns(m->w[i / 2][i % 2]);
    for (size_t t = 0; t < n_rows; t += 2) {
        const struct pair pair = load_pair(at, t, n_rows);
        UNROLL
        for (size_t i = 0; i < 4; i++) {
            const size_t g = i / 2, l = i % 2;
            float32x4_t *a = &acc->row[t + l][2 * half + g];
            int32x4_t sum = dot_pair(vdupq_n_s32(0), m->w[g][0], l, pair.q[0]);
            int32x4_t scale = twice(vreinterpretq_s32_f32(m->scale[g]), l);
            sum = dot_pair(sum, m->w[g][1], l, pair.q[1]);
            *a = vfmaq_f32(*a, vcvtq_f32_s32(sum),
                           vmulq_f32(vreinterpretq_f32_s32(scale), pair.x_scale));
        }
    }
}

INLINE void settle(struct sums *acc, size_t n_rows)
{
    for (size_t t = 0; t < n_rows; t += 2) {
        UNROLL
        for (size_t g = 0; g < QUARTERS; g++) {
            float64x2_t a = vreinterpretq_f64_f32(acc->row[t][g]);
            float64x2_t b = vreinterpretq_f64_f32(acc->row[t + 1][g]);
            acc->row[t][g] = vreinterpretq_f32_f64(vzip1q_f64(a, b));
            acc->row[t + 1][g] = vreinterpretq_f32_f64(vzip2q_f64(a, b));
        }
    }
}

static void matmul(const struct sp_matmul *m)
{
    static sp_matmul_fn *const of_pairs[] = MATMULS(NULL);
    sp_matmul_fn *product = m->n_rows > 1 ? of_pairs[m->dtype] : NULL;

    (product ? product : sp_kernels_matmul(&sp_kernels_neon, m->dtype))(m);
}

const struct sp_kernels sp_kernels_neon_i8mm = {
    .name = "neon-i8mm",
    .others = matmul,
    .groupwise = sp_groupwise_neon,
    .peak = sp_peak_neon,
    .tile = &sp_tile_neon,
};
