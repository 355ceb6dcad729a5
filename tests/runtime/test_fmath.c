/* Bounds the errors of the float (double) functions against the C library's double (long double)
 * ones, over every 997th float or millions of doubles, and checks special values. */
#include "runtime/vector/fmath.h"
#include "tests/support/unit_test.h"

#include <float.h>

/* Return |got - want| in units in the last place of a float (double) near want. */
static double ulps_float(float got, double want)
{
    double size = fabs(want) < FLT_MIN ? 0x1p-149 : ldexp(1, ilogb(want) - 23);

    if ((float)want == got) return 0; /* also for equal infinities */
    return fabs((double)got - want) / size;
}

static double ulps_double(double got, long double want)
{
    double size = fabsl(want) < DBL_MIN ? 0x1p-1074 : ldexp(1, ilogbl(want) - 52);

    return (double)(fabsl((long double)got - want) / (long double)size);
}

struct float_case {
    const char *name;
    float (*ours)(float);
    double (*truth)(double);
    float low, high;
    double limit; /* units in the last place */
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* The published formula: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static double gelu(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
    return x / 2 * erfc(-x / sqrt(2));
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

static const struct float_case float_cases[] = {
    {"exp", sp_expf, exp, -110, 88.7228f, 1},
    {"tanh", sp_tanhf, tanh, -100, 100, 2},
    {"sigmoid", sp_sigmoidf, sigmoid, -87, 100, 3},
    {"silu", sp_siluf, silu, -87, 100, 3},
    {"gelu", sp_gelu_tanhf, gelu, -0.5f, 100, 4},
    {"gelu (erf)", sp_gelu_erff, gelu_erf, -0.5f, 100, 8},
    {"log", sp_logf, log, 0x1p-149f, FLT_MAX, 0.51},
    {"softplus", sp_softplusf, softplus, -87, 100, 0.51},
};

TEST(test_errors_of_floats)
{
    for (size_t i = 0; i < sizeof float_cases / sizeof *float_cases; i++) {
        const struct float_case *c = &float_cases[i];
        double worst = 0;
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 997) {
            float x = sp_float_of_bits((uint32_t)bits);
            if (!(x >= c->low && x <= c->high)) continue;
            double error = ulps_float(c->ours(x), c->truth((double)x));
            if (error > worst) worst = error;
        }
        print_message("%s: %.3f ulp\n", c->name, worst);
        assert_true(worst <= c->limit);
    }
}

TEST(test_gelu_far_below_zero)
{
    for (double x = -20; x < 0; x += 1.7e-5) {
        float f = (float)x;
        assert_true(fabs((double)sp_gelu_tanhf(f) - gelu((double)f)) < 0x1p-22);
        assert_true(fabs((double)sp_gelu_erff(f) - gelu_erf((double)f)) < 0x1p-22);
    }
}

static double uniform(uint64_t *seed) /* 0..1 */
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

TEST(test_errors_of_doubles)
{
    uint64_t seed = 1;
    double exp_worst = 0, log_worst = 0, turn_worst = 0;

    for (size_t i = 0; i < 1000000; i++) {
        double x = uniform(&seed) * 1453 - 744;
        exp_worst = fmax(exp_worst, ulps_double(sp_exp(x), expl((long double)x)));
        double y = i % 2 ? uniform(&seed) * 3 : exp(x);
        if (y > 0) log_worst = fmax(log_worst, ulps_double(sp_log(y), logl((long double)y)));
        double angle = uniform(&seed) * (i % 2 ? 1e3 : 0x1p20), s, c;
        sp_sin_cos(&s, &c, i % 4 < 2 ? angle : -angle);
        angle = i % 4 < 2 ? angle : -angle;
        turn_worst = fmax(turn_worst, fabs(s - (double)sinl((long double)angle)));
        turn_worst = fmax(turn_worst, fabs(c - (double)cosl((long double)angle)));
    }
    print_message("exp %.3f ulp, log %.3f ulp, sin and cos %.3g\n", exp_worst, log_worst,
                  turn_worst);
    assert_true(exp_worst <= 1 && log_worst <= 1 && turn_worst < 0x1p-52);
}

TEST(test_pow)
{
    assert_true(sp_pow(10000, 0) == 1);
    assert_true(fabs(sp_pow(2, 10) - 1024) < 1e-11);
    for (int i = 0; i < 64; i++) {
        double want = pow(1e6, -2.0 * i / 128);
        assert_true(fabs(sp_pow(1e6, -2.0 * i / 128) - want) < 16 * 0x1p-53 * want);
    }
}

/* Every angle of a rotation table is rounded to the nearest float. */
TEST(test_angles_round_to_the_nearest_float)
{
    for (size_t pos = 0; pos < 40960; pos += 7) {
        for (int i = 0; i < 64; i += 3) {
            float angle = (float)pos * (float)pow(1e6, -i / 64.0);
            double s, c;
            sp_sin_cos(&s, &c, (double)angle);
            assert_true((float)s == (float)sinl((long double)angle));
            assert_true((float)c == (float)cosl((long double)angle));
        }
    }
}

TEST(test_special_values)
{
    assert_true(sp_expf(0) == 1 && sp_expf(-0.0f) == 1);
    assert_true(sp_expf(INFINITY) == INFINITY && sp_expf(88.73f) == INFINITY);
    assert_true(sp_expf(-INFINITY) == 0 && sp_expf(-104.0f) == 0);
    assert_true(sp_expf(-103.0f) == 0x1p-149f); /* denormals are not flushed */
    assert_true(isnan(sp_expf(NAN)) && isnan(sp_tanhf(NAN)) && isnan(sp_siluf(NAN)));
    assert_true(sp_tanhf(INFINITY) == 1 && sp_tanhf(-INFINITY) == -1);
    assert_int_equal(sp_bits_of_float(sp_tanhf(-0.0f)), 0x80000000);
    assert_true(sp_sigmoidf(INFINITY) == 1 && sp_sigmoidf(-INFINITY) == 0);
    assert_true(sp_siluf(200) == 200 && sp_siluf(-200) == 0);
    assert_true(sp_gelu_tanhf(200) == 200 && sp_gelu_tanhf(-200) == 0);
    assert_true(sp_gelu_tanhf(3e38f) == 3e38f);
    assert_true(sp_exp(710) == INFINITY && sp_exp(-INFINITY) == 0 && isnan(sp_exp((double)NAN)));
    assert_true(sp_log(1) == 0 && sp_log(0) == -INFINITY && isnan(sp_log(-1)));
    assert_true(sp_log((double)INFINITY) == INFINITY && isnan(sp_log((double)NAN)));
    assert_true(fabs(sp_log(0x1p-1074) + 744.4400719213812) < 1e-12);
}

/* architectures reference: gelu(-1), gelu(1), gelu(2), silu(1) to eight places. */
TEST(test_known_values)
{
    assert_true(fabs((double)sp_gelu_tanhf(-1) + 0.15880801) < 2e-8);
    assert_true(fabs((double)sp_gelu_tanhf(1) - 0.84119199) < 1e-7);
    assert_true(fabs((double)sp_gelu_tanhf(2) - 1.95459769) < 2e-7);
    assert_true(fabs((double)sp_siluf(1) - 0.73105858) < 1e-7);
}
