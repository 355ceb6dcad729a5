/* Exponential and related functions, written as fixed sequences of IEEE operations (+ - * / fma and
 * integer arithmetic), so that every compiler, instruction set and C library gives the same bits.
 * The decoder calls no libm function whose result could differ.
 *
 * The inline functions are without branches, so that compilers vectorize loops over them
 * (vector_each.h); vector_loops.h mirrors sp_expf operation by operation. A NaN gives a NaN (which
 * one is not specified); results below 2^-126 are rounded to denormals, not flushed.
 *
 * Errors against the true value, tests/runtime/test_fmath.c, in units of the last place:
 *
 *   sp_expf 1   sp_tanhf 2   sp_sigmoidf, sp_siluf 3   doubles 1 (except sp_pow, sp_sin_cos)
 *   sp_gelu_tanhf 4 and sp_gelu_erff 8 above -0.5; below, 2^-22 absolute */
#ifndef SP_RUNTIME_VECTOR_FMATH_H
#define SP_RUNTIME_VECTOR_FMATH_H

#include "format/base/bytes.h"

#include <math.h>

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2; e^r by a polynomial of degree 6 with an
 * error below 3.1e-9. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. Below
 * SP_EXP_LOW the result is 0, above SP_EXP_HIGH infinity. */
#define SP_EXP_LOW (-104.0f)
#define SP_EXP_HIGH 89.0f
#define SP_EXP_LOG2E 0x1.715476p+0f
#define SP_EXP_ROUND 0x1.8p23f
#define SP_EXP_ROUND_BITS 0x4b400000u
#define SP_EXP_LN2_HIGH 0x1.62e43p-1f
#define SP_EXP_LN2_LOW (-0x1.05c61p-29f)
#define SP_EXP_C2 0x1.fffffcp-2f
#define SP_EXP_C3 0x1.555492p-3f
#define SP_EXP_C4 0x1.5558f2p-5f
#define SP_EXP_C5 0x1.123a2p-7f
#define SP_EXP_C6 0x1.6a23cep-10f

static inline float sp_expf(float x)
{
    float c = SP_EXP_HIGH < x ? SP_EXP_HIGH : x;
    c = SP_EXP_LOW > c ? SP_EXP_LOW : c;
    float t = fmaf(c, SP_EXP_LOG2E, SP_EXP_ROUND);
    float n = t - SP_EXP_ROUND;
    float r = fmaf(n, -SP_EXP_LN2_HIGH, c);
    r = fmaf(n, -SP_EXP_LN2_LOW, r);
    float p = fmaf(SP_EXP_C6, r, SP_EXP_C5);
    p = fmaf(p, r, SP_EXP_C4);
    p = fmaf(p, r, SP_EXP_C3);
    p = fmaf(p, r, SP_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    /* 2^n as two factors, both normal numbers: one product is exact, the other rounds once. */
    uint32_t u = sp_bits_of_float(t) - SP_EXP_ROUND_BITS + 254;
    uint32_t half = u >> 1;
    return p * sp_float_of_bits(half << 23) * sp_float_of_bits((u - half) << 23);
}

/* tanh is an odd polynomial below SP_TANH_LIMIT, else 1 - 2 / (e^2|x| + 1). */
#define SP_TANH_LIMIT 0.6f
#define SP_TANH_C3 (-0x1.55553ep-2f)
#define SP_TANH_C5 0x1.1109aep-3f
#define SP_TANH_C7 (-0x1.b898dep-5f)
#define SP_TANH_C9 0x1.54b8ap-6f
#define SP_TANH_C11 (-0x1.825856p-8f)

static inline float sp_tanhf(float x)
{
    float a = sp_float_of_bits(sp_bits_of_float(x) & 0x7fffffff);
    float z = x * x;
    float p = fmaf(SP_TANH_C11, z, SP_TANH_C9);
    p = fmaf(p, z, SP_TANH_C7);
    p = fmaf(p, z, SP_TANH_C5);
    p = fmaf(p, z, SP_TANH_C3);
    float small = fmaf(p * z, a, a);
    float large = 1.0f - 2.0f / (sp_expf(a + a) + 1.0f);
    uint32_t sign = sp_bits_of_float(x) & 0x80000000;
    return sp_float_of_bits(sp_bits_of_float(a < SP_TANH_LIMIT ? small : large) | sign);
}

/* 1 / (1 + e^-x); 0 below -89. */
static inline float sp_sigmoidf(float x)
{
    return 1.0f / (1.0f + sp_expf(-x));
}

/* x / (1 + e^-x); NaN at -infinity. */
static inline float sp_siluf(float x)
{
    return x / (1.0f + sp_expf(-x));
}

/* x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), which is x / (1 + e^-2u) and so without
 * cancellation; NaN at -infinity. */
#define SP_GELU_C1 0x1.988454p+0f /* sqrt(8/pi) */
#define SP_GELU_C3 0x1.2444f2p-4f /* sqrt(8/pi) * 0.044715 */

static inline float sp_gelu_tanhf(float x)
{
    float u = x * fmaf(SP_GELU_C3, x * x, SP_GELU_C1);
    return x / (1.0f + sp_expf(-u));
}

/* x times the normal distribution function: x/2 (1 + erf(x / sqrt 2)). The tail below -|x| is
 * e^(-x^2/2) t C(t), t = 1 / (1 + 0.35 |x| / sqrt 2), C fitted to 1e-8 of it. NaN at -infinity. */
#define SP_PHI_STEP 0x1.fadaa8p-3f /* 0.35 / sqrt(2) */
#define SP_PHI_C0 0x1.94743p-4f
#define SP_PHI_C1 0x1.939c8ap-4f
#define SP_PHI_C2 0x1.81d17p-4f
#define SP_PHI_C3 0x1.3143b8p-4f
#define SP_PHI_C4 0x1.370a7ep-4f
#define SP_PHI_C5 0x1.3a1794p-5f
#define SP_PHI_C6 (-0x1.03595cp-7f)
#define SP_PHI_C7 0x1.6220bap-4f
#define SP_PHI_C8 (-0x1.3e500cp-4f)
#define SP_PHI_C9 0x1.35794ep-6f

static inline float sp_gelu_erff(float x)
{
    float a = sp_float_of_bits(sp_bits_of_float(x) & 0x7fffffff);
    float t = 1.0f / fmaf(a, SP_PHI_STEP, 1.0f);
    float p = fmaf(SP_PHI_C9, t, SP_PHI_C8);
    p = fmaf(p, t, SP_PHI_C7);
    p = fmaf(p, t, SP_PHI_C6);
    p = fmaf(p, t, SP_PHI_C5);
    p = fmaf(p, t, SP_PHI_C4);
    p = fmaf(p, t, SP_PHI_C3);
    p = fmaf(p, t, SP_PHI_C2);
    p = fmaf(p, t, SP_PHI_C1);
    p = fmaf(p, t, SP_PHI_C0);
    float tail = p * t * sp_expf(x * x * -0.5f), rest = 1.0f - tail;
    return x * (x < 0.0f ? tail : rest);
}

/* gpt-oss: g = min(gate, limit), u = up within -limit..limit; g sigmoid(1.702 g) (u + 1). */
#define SP_SWIGLU_ALPHA 1.702f

static inline float sp_swiglu_clampedf(float gate, float up, float limit)
{
    float g = limit < gate ? limit : gate;
    float u = limit < up ? limit : up;
    u = -limit > u ? -limit : u;
    return g / (1.0f + sp_expf(-(g * SP_SWIGLU_ALPHA))) * (u + 1.0f);
}

/* ln(1 + e^x); x itself above 20. */
float sp_softplusf(float x);

/* Natural logarithm: -infinity at 0, NaN below 0; within 0.51 units of the last place. */
float sp_logf(float x);

double sp_exp(double x);
double sp_log(double x);

/* a^b, a > 0: e^(b ln a), so the relative error is about |b ln a| 2^-53. */
double sp_pow(double a, double b);

/* |x| < 2^30; absolute error below 2^-52. */
void sp_sin_cos(double *sin, double *cos, double x);

#endif
