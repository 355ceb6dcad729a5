/* struct sp_vector with 4 lanes, one element each, bit-equal to vector_ref.c. The 16 running sums
 * of the contract are four vectors. Ends of rows go through load4 and store4, which touch no byte
 * outside the row. Attention is in vector_kv_neon.c and vector_q8_neon.c. */
#include "runtime/vector/vector_neon.h"
#include "runtime/vector/vector_each.h"

#include <assert.h>

/* ---- fmath.h, lane by lane ---- */

static float32x4_t tanh4(float32x4_t x)
{
    uint32x4_t sign = vdupq_n_u32(0x80000000);
    float32x4_t one = vdupq_n_f32(1), a = vabsq_f32(x), z = vmulq_f32(x, x);
    float32x4_t p = vfmaq_f32(vdupq_n_f32(SP_TANH_C9), vdupq_n_f32(SP_TANH_C11), z);
    p = vfmaq_f32(vdupq_n_f32(SP_TANH_C7), p, z);
    p = vfmaq_f32(vdupq_n_f32(SP_TANH_C5), p, z);
    p = vfmaq_f32(vdupq_n_f32(SP_TANH_C3), p, z);
    float32x4_t small = vfmaq_f32(a, vmulq_f32(p, z), a);
    float32x4_t e = vaddq_f32(exp4(vaddq_f32(a, a)), one);
    float32x4_t large = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2), e));
    uint32x4_t is_small = vcltq_f32(a, vdupq_n_f32(SP_TANH_LIMIT));
    return vbslq_f32(sign, x, vbslq_f32(is_small, small, large));
}

/* Returns 1 + e^-x. */
static float32x4_t one_plus_exp(float32x4_t x)
{
    return vaddq_f32(vdupq_n_f32(1), exp4(vnegq_f32(x)));
}

static float32x4_t silu4(float32x4_t x)
{
    return vdivq_f32(x, one_plus_exp(x));
}

static float32x4_t gelu_tanh4(float32x4_t x)
{
    float32x4_t t = vfmaq_f32(vdupq_n_f32(SP_GELU_C1), vdupq_n_f32(SP_GELU_C3), vmulq_f32(x, x));

    return vdivq_f32(x, one_plus_exp(vmulq_f32(x, t)));
}

static float32x4_t gelu_erf4(float32x4_t x)
{
    float32x4_t one = vdupq_n_f32(1), a = vabsq_f32(x);
    float32x4_t t = vdivq_f32(one, vfmaq_f32(one, a, vdupq_n_f32(SP_PHI_STEP)));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(SP_PHI_C8), vdupq_n_f32(SP_PHI_C9), t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C7), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C6), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C5), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C4), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C3), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C2), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C1), p, t);
    p = vfmaq_f32(vdupq_n_f32(SP_PHI_C0), p, t);
    float32x4_t e = exp4(vmulq_n_f32(vmulq_f32(x, x), -0.5f));
    float32x4_t tail = vmulq_f32(vmulq_f32(p, t), e);
    return vmulq_f32(x, vbslq_f32(vcltzq_f32(x), tail, vsubq_f32(one, tail)));
}

/* Returns a < b ? a : b. The minimum instruction differs if one of them is a NaN. */
static float32x4_t smaller(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

/* Returns a > b ? a : b. */
static float32x4_t larger(float32x4_t a, float32x4_t b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* ---- rows ---- */

/* s += a * b for n elements, at most 16; a constant 16 removes all branches. */
INLINE void dot16(float32x4_t s[N_SUMS], const float *a, const float *b, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        if (LANES * g >= n) continue;
        size_t i = LANES * g, left = n - i;
        s[g] = vfmaq_f32(s[g], load4(a + i, left), load4(b + i, left));
    }
}

static float dot(const float *a, const float *b, size_t n)
{
    float32x4_t s[N_SUMS] = {{0}};
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        dot16(s, a + i, b + i, 16);
    dot16(s, a + i, b + i, n - i);
    return tree_sum(s);
}

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);

    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = vmulq_n_f32(load4(x + i, n - i), r);
        if (w) v = vmulq_f32(v, load4(w + i, n - i));
        store4(y + i, n - i, v);
    }
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, vaddq_f32(load4(y + i, n - i), load4(x + i, n - i)));
}

static void scale(float *y, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, vmulq_n_f32(load4(y + i, n - i), factor));
}

static void fma_row(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, vfmaq_n_f32(load4(y + i, n - i), load4(x + i, n - i), f));
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, vmulq_f32(load4(y + i, n - i), load4(x + i, n - i)));
}

static void silu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = silu4(load4(y + i, n - i));
        store4(y + i, n - i, vmulq_f32(v, load4(up + i, n - i)));
    }
}

static void gelu_tanh_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = gelu_tanh4(load4(y + i, n - i));
        store4(y + i, n - i, vmulq_f32(v, load4(up + i, n - i)));
    }
}

static void gelu_erf_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = gelu_erf4(load4(y + i, n - i));
        store4(y + i, n - i, vmulq_f32(v, load4(up + i, n - i)));
    }
}

static void relu2_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t r = vmaxq_f32(vdupq_n_f32(0), load4(y + i, n - i));
        store4(y + i, n - i, vmulq_f32(vmulq_f32(r, r), load4(up + i, n - i)));
    }
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, silu4(load4(y + i, n - i)));
}

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = vfmaq_f32(load4(y + i, n - i), load4(a + i, n - i), load4(b + i, n - i));
        store4(y + i, n - i, v);
    }
}

static void softcap(float *y, float cap, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t v = tanh4(vdivq_f32(load4(y + i, n - i), vdupq_n_f32(cap)));
        store4(y + i, n - i, vmulq_n_f32(v, cap));
    }
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t s = vdivq_f32(vdupq_n_f32(1), one_plus_exp(load4(gate + i, n - i)));
        store4(y + i, n - i, vmulq_f32(load4(y + i, n - i), s));
    }
}

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    float32x4_t top = vdupq_n_f32(limit), bottom = vdupq_n_f32(-limit);

    for (size_t i = 0; i < n; i += LANES) {
        float32x4_t g = smaller(top, load4(y + i, n - i));
        float32x4_t u = larger(bottom, smaller(top, load4(up + i, n - i)));
        float32x4_t e = one_plus_exp(vmulq_n_f32(g, SP_SWIGLU_ALPHA));
        u = vaddq_f32(u, vdupq_n_f32(1));
        store4(y + i, n - i, vmulq_f32(vdivq_f32(g, e), u));
    }
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    float r = factor / sqrtf(dot(x, x, n) + eps);

    for (size_t i = 0; i < n; i += LANES)
        store4(y + i, n - i, vmulq_n_f32(load4(x + i, n - i), r));
}

static void rope(float *head, const float *cos, const float *sin, size_t n_rot)
{
    size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i += LANES) {
        size_t n = half - i;
        float32x4_t a = load4(head + i, n), b = load4(head + half + i, n);
        float32x4_t c = load4(cos + i, n), s = load4(sin + i, n);
        store4(head + i, n, vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c));
        store4(head + half + i, n, vfmaq_f32(vmulq_f32(a, s), b, c));
    }
}

/* sums += (decayed s) . k, like dot16. */
INLINE void decay16(float32x4_t sums[N_SUMS], const float *s, const float *k, float decay, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        if (LANES * g >= n) continue;
        size_t i = LANES * g, left = n - i;
        float32x4_t x = vmulq_n_f32(load4(s + i, left), decay);
        sums[g] = vfmaq_f32(sums[g], x, load4(k + i, left));
    }
}

/* s = k d + decayed s; sums += s . q, like dot16. */
INLINE void correct16(float32x4_t sums[N_SUMS], float *s, const float *k, float d, const float *q,
                      float decay, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        if (LANES * g >= n) continue;
        size_t i = LANES * g, left = n - i;
        float32x4_t x = vmulq_n_f32(load4(s + i, left), decay);
        x = vfmaq_n_f32(x, load4(k + i, left), d);
        sums[g] = vfmaq_f32(sums[g], x, load4(q + i, left));
        store4(s + i, left, x);
    }
}

static float decay_row(const float *s, const float *k, float decay, size_t dk)
{
    float32x4_t sums[N_SUMS] = {{0}};
    size_t i = 0;

    for (; dk - i >= 16; i += 16)
        decay16(sums, s + i, k + i, decay, 16);
    decay16(sums, s + i, k + i, decay, dk - i);
    return tree_sum(sums);
}

static float correct_row(float *s, const float *k, float d, const float *q, float decay, size_t dk)
{
    float32x4_t sums[N_SUMS] = {{0}};
    size_t i = 0;

    for (; dk - i >= 16; i += 16)
        correct16(sums, s + i, k + i, d, q + i, decay, 16);
    correct16(sums, s + i, k + i, d, q + i, decay, dk - i);
    return tree_sum(sums);
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        delta[j] = (v[j] - decay_row(s, k, decay, dk)) * beta;
        out[j] = correct_row(s, k, delta[j], q, decay, dk);
    }
}

static void state_step(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++)
        out[j] = correct_row(state + j * dk, k, delta[j], q, decay, dk);
}

static void state_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i += LANES) {
            float32x4_t x = vmulq_n_f32(load4(s + i, dk - i), decay);
            store4(s + i, dk - i, vfmaq_n_f32(x, load4(k + i, dk - i), delta[j]));
        }
    }
}

/* Each of 16 lanes keeps its first maximum; of the lanes with the largest, the one with the lowest
 * index is chosen. x * 0 is NaN if x is not finite. */
struct maxima {
    float32x4_t best[N_SUMS], check[N_SUMS];
    uint32x4_t at[N_SUMS];
};

/* Updates the maxima with n elements, at most 16, from element 16 * at on. */
INLINE void update_maxima(struct maxima *m, const float *x, uint32_t at, size_t n)
{
    UNROLL
    for (size_t g = 0; g < N_SUMS; g++) {
        if (LANES * g >= n) continue;
        float32x4_t v = load4(x + LANES * g, n - LANES * g);
        uint32x4_t above = vcgtq_f32(v, m->best[g]);
        if (n < LANES * N_SUMS) above = vandq_u32(above, lanes_between(LANES * g, 0, n));
        m->check[g] = vfmaq_n_f32(m->check[g], v, 0);
        m->best[g] = vbslq_f32(above, v, m->best[g]);
        m->at[g] = vbslq_u32(above, vdupq_n_u32(at), m->at[g]);
    }
}

static size_t argmax(const float *x, size_t n)
{
    enum { N = LANES * N_SUMS };
    struct maxima m;
    float values[N], checks[N];
    uint32_t where[N];
    size_t i = 0, winner = 0;

    assert(n <= UINT32_MAX);
    for (size_t g = 0; g < N_SUMS; g++) {
        m.best[g] = vdupq_n_f32(-INFINITY);
        m.check[g] = vdupq_n_f32(0);
        m.at[g] = vdupq_n_u32(0);
    }
    for (; n - i >= N; i += N)
        update_maxima(&m, x + i, (uint32_t)(i / N), N);
    update_maxima(&m, x + i, (uint32_t)(i / N), n - i);
    for (size_t g = 0; g < N_SUMS; g++) {
        vst1q_f32(values + LANES * g, m.best[g]);
        vst1q_f32(checks + LANES * g, m.check[g]);
        vst1q_u32(where + LANES * g, m.at[g]);
    }
    for (size_t j = 0; j < N; j++) {
        bool earlier = where[j] < where[winner];
        if (checks[j] != 0) return SIZE_MAX;
        if (values[j] > values[winner] || (values[j] == values[winner] && earlier)) winner = j;
    }
    return n ? (size_t)where[winner] * N + winner : SIZE_MAX;
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    float32x4_t most[N_SUMS], sums[N_SUMS] = {{0}};
    size_t start = first - first % 16;
    float lanes_max[LANES], m = -INFINITY;

    for (size_t g = 0; g < N_SUMS; g++)
        most[g] = vdupq_n_f32(-INFINITY);
    for (size_t i = start; i < last; i += 16) {
        UNROLL
        for (size_t g = 0; g < N_SUMS; g++) {
            float32x4_t v = vld1q_f32(s + i + LANES * g);
            uint32x4_t seen = lanes_between(i + LANES * g, first, last);
            most[g] = vbslq_f32(vandq_u32(seen, vcgtq_f32(v, most[g])), v, most[g]);
        }
    }
    vst1q_f32(lanes_max, larger(larger(most[0], most[1]), larger(most[2], most[3])));
    for (size_t i = 0; i < LANES; i++)
        m = lanes_max[i] > m ? lanes_max[i] : m;
    *max = m + 0.0f;
    for (size_t i = start; i < last; i += 16) {
        UNROLL
        for (size_t g = 0; g < N_SUMS; g++) {
            float *at = s + i + LANES * g;
            uint32x4_t seen = lanes_between(i + LANES * g, first, last);
            float32x4_t v = vld1q_f32(at), e = exp4(vsubq_f32(v, vdupq_n_f32(*max)));
            sums[g] = vaddq_f32(sums[g], vbslq_f32(seen, e, vdupq_n_f32(0)));
            vst1q_f32(at, vbslq_f32(seen, e, v));
        }
    }
    *sum = tree_sum(sums);
}

const struct sp_vector sp_vector_neon = SP_VECTOR_TABLE("neon", neon);
