/* Tests the intervals of eval against scipy: Student's quantiles, and strata of blocks whose
 * variances and degrees of freedom are combined. */
#include "cli/eval/eval.h"
#include "tests/support/unit_test.h"

#include <math.h>

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

/* scipy.stats.t.ppf(0.975, freedom). */
TEST(quantiles)
{
    static const struct {
        double freedom, quantile, tolerance;
    } cases[] = {
        {1, 12.706204736174694, 1e-10},    {1.5, 12.706204736174694, 1e-10},
        {2, 4.302652729749462, 1e-9},      {3, 3.1824463052837078, 2e-3},
        {3.5, 2.9400886379827282, 2e-3},   {5, 2.5705818356363146, 2e-4},
        {10, 2.228138851986274, 1e-5},     {30, 2.0422724563012378, 1e-7},
        {123.4, 1.9793749463174197, 1e-9}, {1e6, 1.959966356814107, 1e-9},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_near(sp_eval_quantile(cases[i].freedom), cases[i].quantile, cases[i].tolerance);
}

static struct sp_eval_result result_of(size_t n_scored, double mean, struct sp_eval_block *blocks,
                                       size_t n_blocks)
{
    return (struct sp_eval_result){
        .text = {.n_scored = n_scored, .divergence = {.mean = mean}},
        .blocks = blocks,
        .n_blocks = n_blocks,
        .trial = {.n_rounds = n_blocks, .per_round = {mean, 0.5}},
    };
}

#define BLOCK(x)                                                                                   \
    {                                                                                              \
        .means = { [SP_EVAL_DIVERGENCE] = (x) }                                                    \
    }

/* Two texts of two files: means, standard errors and intervals by numpy and scipy, from the blocks'
 * variances (n - 1), weights of 1/3 and 2/3, and the formula of Welch and Satterthwaite. */
TEST(strata)
{
    struct sp_eval_block a1[] = {BLOCK(1), BLOCK(2), BLOCK(4), BLOCK(3)};
    struct sp_eval_block a2[] = {BLOCK(2), BLOCK(5), BLOCK(5)};
    struct sp_eval_block b1[] = {BLOCK(0.5), BLOCK(2.5), BLOCK(3), BLOCK(3)};
    struct sp_eval_block b2[] = {BLOCK(1), BLOCK(5), BLOCK(4)};
    struct sp_eval_result a[] = {result_of(10, 2.6, a1, 4), result_of(20, 4.1, a2, 3)};
    struct sp_eval_result b[] = {result_of(10, 2.2, b1, 4), result_of(20, 3.4, b2, 3)};
    const struct sp_eval_file first = {.results = a}, second = {.results = b};
    struct sp_eval_estimate e = sp_eval_mean(&first, SP_EVAL_DIVERGENCE, 0, 2);

    assert_near(e.mean, 3.6, 1e-12);
    assert_near(e.error, 0.7005289007176939, 1e-12);
    /* 2.42 degrees of freedom count as 2: 4.302652729911275 standard errors. */
    assert_near(e.half, 0.7005289007176939 * 4.302652729911275, 1e-12);
    e = sp_eval_difference(&first, &second, SP_EVAL_DIVERGENCE, 0, 2);
    assert_near(e.mean, 0.6, 1e-12);
    assert_near(e.error, 0.24689428936987745, 1e-12);
    assert_near(e.half, 0.24689428936987745 * 4.302652729911275, 1e-12);
    e = sp_eval_mean(&first, SP_EVAL_DIVERGENCE, 0, 1);
    assert_near(e.mean, 2.6, 1e-12);
    assert_near(e.error, sqrt(5.0 / 12), 1e-12);
    assert_near(e.half, sqrt(5.0 / 12) * 3.1824463052837078, 2e-3);
    e = sp_eval_exp(e);
    assert_near(e.mean, exp(2.6), 1e-12);
    assert_near(e.error, exp(2.6) * sqrt(5.0 / 12), 1e-12);
    /* Rounds: 4 of mean 2.6 and 3 of mean 4.1, both with a standard error of 0.5. */
    e = sp_eval_per_round(&first, 0, 2);
    assert_near(e.mean, (4 * 2.6 + 3 * 4.1) / 7, 1e-12);
    assert_near(e.error, 0.5 * 5 / 7, 1e-12);
}

TEST(an_interval_without_blocks_is_unknown)
{
    struct sp_eval_block one[] = {BLOCK(1)}, even[] = {BLOCK(1), BLOCK(1)};
    struct sp_eval_result results[] = {result_of(3, 1, one, 1), result_of(5, 1, even, 2)};
    const struct sp_eval_file file = {.results = results};
    struct sp_eval_estimate e = sp_eval_mean(&file, SP_EVAL_DIVERGENCE, 0, 2);

    assert_near(e.mean, 1, 1e-12);
    assert_true(isnan(e.error) && isnan(e.half));
    e = sp_eval_mean(&file, SP_EVAL_DIVERGENCE, 1, 1);
    assert_true(e.mean == 1 && e.error == 0 && e.half == 0);
}
