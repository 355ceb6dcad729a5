/* The double-precision part of fmath.h: for rotation tables, samplers and single numbers, so
 * written for accuracy and simplicity rather than for vectors. Polynomials are the Taylor series
 * themselves; each ends where the next term is below half a unit in the last place. */
#include "runtime/vector/fmath.h"
#include "runtime/vector/fmath_exp.h"

/* pi / 2 as a sum of three numbers. */
#define HALF_PI_1 0x1.921fb54442d18p+0
#define HALF_PI_2 0x1.1a62633145c07p-54
#define TWO_OVER_PI 0x1.45f306dc9c883p-1

double sp_exp(double x)
{
    return sp_exp_inline(x);
}

double sp_log(double x)
{
    /* The Taylor series of (ln((1 + s) / (1 - s)) - 2 s) / s^3. */
    static const double series[] = {
        2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
        2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21,
    };
    double e = 0;

    if (x != x) return x;
    if (x == 0) return -INFINITY;
    if (x < 0) return NAN;
    if (x == INFINITY) return x;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    /* Finds e and m with x = 2^e m, sqrt(1/2) <= m < sqrt(2); 0x3fe6a09e667f3bcd is sqrt(1/2). */
    uint64_t shifted = bits_of_double(x) - UINT64_C(0x3fe6a09e667f3bcd);
    uint64_t exponent = (shifted + (UINT64_C(1024) << 52)) >> 52;
    e += (double)(int)exponent - 1024;
    double f = double_of_bits(bits_of_double(x) - ((exponent - 1024) << 52)) - 1;
    double s = f / (2 + f);
    double z = s * s;
    /* 2 s = f - s f. */
    double tail = s * (f - z * polynomial(series, 10, z));
    return e * LN2_HIGH + (f - (tail - e * LN2_LOW));
}

double sp_pow(double a, double b)
{
    return sp_exp(b * sp_log(a));
}

float sp_logf(float x)
{
    return (float)sp_log((double)x);
}

float sp_softplusf(float x)
{
    if (x > 20) return x;
    double e = sp_exp((double)x), w = 1 + e;
    return (float)(sp_log(w) + (e - (w - 1)) / w); /* the quotient corrects the rounding of w */
}

void sp_sin_cos(double *sin, double *cos, double x)
{
    static const double sin_series[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
    };
    static const double cos_series[] = {
        1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000,
    };
    double t = x * TWO_OVER_PI + ROUND;
    double n = t - ROUND;
    /* The first product is exact inside fma and cancels against x, so no digit is lost. */
    double r = fma(-n, HALF_PI_1, x);
    r = fma(-n, HALF_PI_2, r);
    double z = r * r;
    double s = r + r * z * polynomial(sin_series, 7, z);
    double c = 1 - (z * 0.5 - z * z * polynomial(cos_series, 7, z));
    uint64_t quadrant = bits_of_double(t) & 3;

    *sin = quadrant & 1 ? c : s;
    *cos = quadrant & 1 ? s : c;
    if (quadrant & 2) *sin = -*sin;
    if (quadrant == 1 || quadrant == 2) *cos = -*cos;
}
