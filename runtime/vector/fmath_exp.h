/* sp_exp as an inline function without branches, so that compilers can vectorize loops over it. */
#ifndef SP_RUNTIME_VECTOR_FMATH_EXP_H
#define SP_RUNTIME_VECTOR_FMATH_EXP_H

#include <stdint.h>
#include <string.h>

/* ln 2 as a sum. LN2_HIGH ends in 21 zero bits: its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2E 0x1.71547652b82fep+0
#define ROUND 0x1.8p52 /* adding it rounds to an integer */

static inline uint64_t bits_of_double(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double double_of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sum of c[i] x^i, i < n, from the highest power down. */
static inline double polynomial(const double *c, int n, double x)
{
    double sum = c[n - 1];

    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* e^x, as sp_exp (runtime/vector/fmath.h). */
static inline double sp_exp_inline(double given)
{
    /* The Taylor series of (e^r - 1 - r) / r^2. */
    static const double series[] = {
        1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    };

    double x = given > 710 ? 710 : given;
    x = x < -746 ? -746 : x;
    double t = x * LOG2E + ROUND;
    double n = t - ROUND;
    double high = x - n * LN2_HIGH; /* exact */
    double low = n * LN2_LOW;
    double r = high - low;
    double rest = (high - r) - low; /* the rounding error of r */
    double p = 1 + (r + (r * r * polynomial(series, 12, r) + rest));
    /* 2^n as two factors, both normal numbers. */
    uint64_t u = bits_of_double(t) - bits_of_double(ROUND) + 2046;
    uint64_t half = u >> 1;
    double y = p * double_of_bits(half << 52) * double_of_bits((u - half) << 52);
    return given != given ? given : y;
}

#endif
