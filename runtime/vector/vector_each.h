/* The functions of struct sp_vector that treat elements one by one: the loops that vector.h
 * describes, which the file of each instruction set includes and compiles for itself. Compilers
 * vectorize them, since the functions of fmath.h are inline and without branches, and vectors of
 * IEEE operations have the bits of single ones. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_EACH_H
#define SP_RUNTIME_VECTOR_VECTOR_EACH_H

#include "runtime/vector/fmath.h"
#include "runtime/vector/fmath_exp.h"
#include "runtime/vector/rng.h"
#include "runtime/vector/vector.h"

#include <stddef.h>

/* y = x * r * w, r as the norms compute it; w NULL: no weights. */
static void weigh_row(float *y, const float *x, const float *w, float r, size_t n)
{
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

static void mul_add(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a[i], b[i], y[i]);
}

static void silu(float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_siluf(y[i]);
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

/* y = max(y, 0) * up */
static void relu_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] > 0 ? y[i] * up[i] : 0;
}

/* y = max(y, 0)^2 * up */
static void relu2_mul(float *y, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float r = y[i] < 0 ? 0 : y[i];
        y[i] = r * r * up[i];
    }
}

static sp_gate_fn *const gates[] = {
    [SP_SILU] = silu_mul, [SP_GELU_TANH] = gelu_tanh_mul, [SP_GELU_ERF] = gelu_erf_mul,
    [SP_RELU] = relu_mul, [SP_RELU2] = relu2_mul,
};

static void swiglu_clamped(float *y, const float *up, float limit, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_swiglu_clampedf(y[i], up[i], limit);
}

static void sigmoid_mul(float *y, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= sp_sigmoidf(gate[i]);
}

static void softcap(float *y, float cap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = cap * sp_tanhf(y[i] / cap);
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

static void state_replay(float *state, const float *delta, const float *k, float decay, size_t dk,
                         size_t dv)
{
    for (size_t j = 0; j < dv; j++) {
        float *s = state + j * dk, d = delta[j];
        for (size_t i = 0; i < dk; i++)
            s[i] = fmaf(d, k[i], s[i] * decay);
    }
}

static void soften(double *y, const float *x, size_t n, double max, double temperature)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_exp_inline(((double)x[i] - max) / temperature);
}

static void uniform(double *y, const uint32_t *ids, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_rng_uniform(key, ids[i]);
}

#endif
