/* The specification of struct sp_vector: every function as the plain loop that vector.h describes.
 * The tables of instruction sets give identical bits, which tests/runtime/test_vector.c checks.
 * Baseline C without libm, except fmaf and sqrtf, which IEEE 754 defines to the bit. */
#include "runtime/vector/fmath.h"
#include "runtime/vector/vector_each.h"
#include "runtime/vector/vector_tables.h"

enum { SUMS = 16 };

/* Adds 16 sums as a tree, 16 -> 8 -> 4 -> 2 -> 1: s[j] + s[j + half]. */
static float tree_sum(float s[SUMS])
{
    for (size_t half = SUMS / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            s[j] += s[j + half];
    return s[0];
}

static float dot(const float *a, const float *b, size_t n)
{
    float s[SUMS] = {0};

    for (size_t i = 0; i < n; i++)
        s[i % SUMS] = fmaf(a[i], b[i], s[i % SUMS]);
    return tree_sum(s);
}

/* ---- rows ---- */

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    float r = 1.0f / sqrtf(dot(x, x, n) / (float)n + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

static void add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void scale(float *y, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= factor;
}

static void fma_row(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(x[i], f, y[i]);
}

static void mul(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void silu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_siluf(y[i]) * up[i];
}

static void gelu_tanh_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_gelu_tanhf(y[i]) * up[i];
}

static void gelu_erf_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_gelu_erff(y[i]) * up[i];
}

static void relu2_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float r = y[i] < 0 ? 0 : y[i];
        y[i] = r * r * up[i];
    }
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_siluf(y[i]);
}

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a[i], b[i], y[i]);
}

static void exp_mul(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= sp_expf(x[i] * f);
}

static void softcap(float *y, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cap * sp_tanhf(y[i] / cap);
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= sp_sigmoidf(gate[i]);
}

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_swiglu_clampedf(y[i], up[i], limit);
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    float r = factor / sqrtf(dot(x, x, n) + eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * r;
}

static void rope(float *head, const float *cos, const float *sin, size_t n_rot)
{
    size_t half = n_rot / 2;

    for (size_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = fmaf(a, cos[i], -(b * sin[i]));
        head[i + half] = fmaf(b, cos[i], a * sin[i]);
    }
}

static void delta_step(float *state, float *out, float *delta, const float *q, const float *k,
                       const float *v, float decay, float beta, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i++)
            s[i] *= decay;
        delta[j] = (v[j] - dot(s, k, dk)) * beta;
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(delta[j], k[i], s[i]);
        out[j] = dot(s, q, dk);
    }
}

static void state_step(float *state, float *out, const float *delta, const float *q, const float *k,
                       float decay, size_t dk, size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(delta[j], k[i], s[i] * decay);
        out[j] = dot(s, q, dk);
    }
}

static void state_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk;
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(delta[j], k[i], s[i] * decay);
    }
}

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) < INFINITY)) return SIZE_MAX;
        if (x[i] > x[best]) best = i;
    }
    return n ? best : SIZE_MAX;
}

static void softmax(float *s, size_t first, size_t last, float *max, float *sum)
{
    float sums[SUMS] = {0};
    float m = -INFINITY;

    for (size_t i = first; i < last; i++)
        m = s[i] > m ? s[i] : m;
    m += 0.0f; /* makes a maximum of -0 +0, whichever zero came first */
    for (size_t i = first; i < last; i++) {
        s[i] = sp_expf(s[i] - m);
        sums[i % SUMS] += s[i];
    }
    *max = m;
    *sum = tree_sum(sums);
}

const struct sp_vector sp_vector_ref = SP_VECTOR_TABLE("scalar", sp_kv_f32_ref, sp_kv_f16_ref,
                                                       sp_kv_q8_ref, sp_kv_q8_q4_ref, sp_kv_q4_ref);
