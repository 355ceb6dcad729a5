/* Means over texts and their confidence intervals.
 *
 * Positions of a text depend on each other, so that the spread of single positions gives intervals
 * that are too narrow. The spread of the means of blocks of them does not (batch means: Flegal and
 * Jones, Annals of Statistics 38, 2010). Several texts are strata: the variance of their common
 * mean is the sum of the variances, weighted with the squares of the parts of the positions, and
 * its degrees of freedom are those of Welch and Satterthwaite. Intervals are those of Student's
 * distribution. The difference of two files is that of their blocks, which are the same positions.
 */
#ifndef SP_CLI_EVAL_EVAL_STATS_H
#define SP_CLI_EVAL_EVAL_STATS_H

#include "cli/eval/eval.h"

/* A mean, its standard error, and half of its 95 % confidence interval. `error` and `half` are NaN
 * if a text has fewer than two blocks. */
struct sp_eval_estimate {
    double mean, error, half;
};

/* A figure over texts first..first+n-1 of a file. */
struct sp_eval_estimate sp_eval_mean(const struct sp_eval_file *file, enum sp_eval_figure figure,
                                     size_t first, size_t n);
/* A figure of file `a` minus the same figure of file `b`. */
struct sp_eval_estimate sp_eval_difference(const struct sp_eval_file *a,
                                           const struct sp_eval_file *b, enum sp_eval_figure figure,
                                           size_t first, size_t n);
/* The tokens that a round of the draft generates; rounds count as independent of each other. */
struct sp_eval_estimate sp_eval_per_round(const struct sp_eval_file *file, size_t first, size_t n);

/* e^x: the perplexity of a mean loss. The error is to first order. */
struct sp_eval_estimate sp_eval_exp(struct sp_eval_estimate x);

/* Counts over texts first..first+n-1. */
struct sp_eval_counts {
    size_t n_tokens, n_scored, n_bytes, n_windows;
    size_t n_rounds, n_generated, drafted, accepted, n_places; /* of the draft */
    double rms;                                                /* of the change of probability */
};
struct sp_eval_counts sp_eval_count(const struct sp_eval *eval, const struct sp_eval_file *file,
                                    size_t first, size_t n);

/* The factor of a standard error with so many degrees of freedom, at least 1, that gives half of
 * the 95 % interval: Student's quantile 0.975. */
double sp_eval_quantile(double freedom);

#endif
