#include "cli/eval/eval.h"
#include "runtime/spectool_measure.h"

#include <math.h>

/* The mean of one text: its number of positions, and the variance of the mean. */
struct stratum {
    double n, mean, variance, freedom;
};

/* Abramowitz and Stegun 26.7.5: Cornish and Fisher's expansion at the normal quantile. It is exact
 * to 0.2 % from three degrees of freedom on; for fewer, those of the next lower integer count. */
double sp_eval_quantile(double freedom)
{
    const double z = 1.959963984540054, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z,
                 z9 = z7 * z * z;
    double f = freedom;

    if (f < 2) return 12.706204736432095;
    if (f < 3) return 4.302652729911275;
    return z + (z3 + z) / (4 * f) + (5 * z5 + 16 * z3 + 3 * z) / (96 * f * f) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * f * f * f) +
           (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / (92160 * f * f * f * f);
}

/* Sums of strata: `n` holds all positions before the first is added. */
struct sum {
    double n, mean, variance, squares;
};

static void add(struct sum *sum, const struct stratum *s)
{
    double part = s->n / sum->n, variance = part * part * s->variance;

    sum->mean += part * s->mean;
    sum->variance += variance;
    if (variance > 0) sum->squares += variance * variance / s->freedom;
}

static struct sp_eval_estimate estimate(const struct sum *sum)
{
    struct sp_eval_estimate e = {.mean = sum->mean, .error = sqrt(sum->variance)};

    if (isnan(e.error))
        e.half = NAN;
    else if (sum->squares > 0)
        e.half = e.error * sp_eval_quantile(sum->variance * sum->variance / sum->squares);
    return e;
}

/* Of file `a`, or of its difference from `b`. Its mean is that of the positions, not of the blocks,
 * whose sizes may differ by one. */
static struct stratum stratum_of(const struct sp_eval_result *a, const struct sp_eval_result *b,
                                 enum sp_eval_figure figure)
{
    const struct sp_evaluation *t = &a->text;
    const struct sp_estimate means[] = {t->loss,        t->right,      t->reference_loss,
                                        t->loss_change, t->divergence, t->agreement,
                                        t->prob_change};
    struct stratum s = {.n = (double)t->n_scored, .mean = means[figure].mean};
    double n = (double)a->n_blocks, mean = 0, squares = 0;

    if (b) s.mean -= stratum_of(b, NULL, figure).mean;
    for (size_t i = 0; i < a->n_blocks; i++)
        mean += (a->blocks[i].means[figure] - (b ? b->blocks[i].means[figure] : 0)) / n;
    for (size_t i = 0; i < a->n_blocks; i++) {
        double x = a->blocks[i].means[figure] - (b ? b->blocks[i].means[figure] : 0) - mean;
        squares += x * x;
    }
    s.freedom = n - 1;
    s.variance = a->n_blocks > 1 ? squares / (n - 1) / n : NAN;
    return s;
}

struct sp_eval_estimate sp_eval_difference(const struct sp_eval_file *a,
                                           const struct sp_eval_file *b, enum sp_eval_figure figure,
                                           size_t first, size_t n)
{
    struct sum sum = {0};

    for (size_t i = first; i < first + n; i++)
        sum.n += (double)a->results[i].text.n_scored;
    for (size_t i = first; i < first + n; i++) {
        struct stratum s = stratum_of(&a->results[i], b ? &b->results[i] : NULL, figure);
        add(&sum, &s);
    }
    return estimate(&sum);
}

struct sp_eval_estimate sp_eval_mean(const struct sp_eval_file *file, enum sp_eval_figure figure,
                                     size_t first, size_t n)
{
    return sp_eval_difference(file, NULL, figure, first, n);
}

struct sp_eval_estimate sp_eval_per_round(const struct sp_eval_file *file, size_t first, size_t n)
{
    struct sum sum = {0};

    for (size_t i = first; i < first + n; i++)
        sum.n += (double)file->results[i].trial.n_rounds;
    for (size_t i = first; i < first + n && sum.n > 0; i++) {
        const struct sp_draft_eval *t = &file->results[i].trial;
        struct stratum s = {.n = (double)t->n_rounds,
                            .mean = t->per_round.mean,
                            .variance = t->per_round.error * t->per_round.error,
                            .freedom = (double)t->n_rounds - 1};
        if (t->n_rounds == 1) s.variance = NAN;
        if (t->n_rounds) add(&sum, &s);
    }
    return estimate(&sum);
}

struct sp_eval_estimate sp_eval_exp(struct sp_eval_estimate x)
{
    double e = sp_perplexity((struct sp_estimate){x.mean, 0}).mean;

    return (struct sp_eval_estimate){e, e * x.error, e * x.half};
}

struct sp_eval_counts sp_eval_count(const struct sp_eval *eval, const struct sp_eval_file *file,
                                    size_t first, size_t n)
{
    struct sp_eval_counts c = {0};
    double squares = 0;

    for (size_t i = first; i < first + n; i++) {
        const struct sp_eval_result *r = &file->results[i];
        c.n_tokens += eval->texts[i].n_ids;
        c.n_scored += r->text.n_scored;
        c.n_bytes += r->n_bytes;
        c.n_windows += r->text.n_windows;
        c.n_rounds += r->trial.n_rounds;
        c.n_generated += r->trial.n_tokens;
        c.drafted += r->trial.drafted;
        c.accepted += r->trial.accepted;
        c.n_places += r->trial.n_places;
        squares += (double)r->text.n_scored * r->text.prob_change_rms * r->text.prob_change_rms;
    }
    c.rms = sqrt(squares / (double)c.n_scored);
    return c;
}
