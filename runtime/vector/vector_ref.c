/* The specification of struct sp_vector: plain loops, as vector.h describes them, of the functions
 * that are not in vector_each.h. The tables of instruction sets give identical bits, which
 * tests/runtime/test_vector.c checks. Baseline C without libm, except fmaf and sqrtf, which IEEE
 * 754 defines to the bit. */
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

static void rms_norm(float *y, const float *x, const float *w, size_t n, float eps)
{
    weigh_row(y, x, w, 1.0f / sqrtf(dot(x, x, n) / (float)n + eps), n);
}

static void l2_norm(float *y, const float *x, size_t n, float eps, float factor)
{
    weigh_row(y, x, NULL, factor / sqrtf(dot(x, x, n) + eps), n);
}

static void exp_mul(float *y, const float *x, float f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= sp_expf(x[i] * f);
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

const struct sp_vector sp_vector_ref = SP_VECTOR_TABLE("scalar", sp_kv_ref);
