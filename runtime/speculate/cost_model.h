/* What something costs by its length, learned from noisy timings: verifying n guesses, making n.
 *
 * A straight line through all timings, by weighted least squares with a prior for its shape, and on
 * top of it the mean of what was timed at the length itself, which counts the more the more often
 * that was: kernels have steps that a line does not. Noise of a shared machine only ever adds, so a
 * mean follows shorter times quickly, longer ones slowly, and no outlier far. */
#ifndef SP_RUNTIME_SPECULATE_COST_MODEL_H
#define SP_RUNTIME_SPECULATE_COST_MODEL_H

#include <stddef.h>

enum { SP_COST_LENGTHS = 256 };

/* Valid when zeroed, apart from `shape` and `steepest`. */
struct sp_cost_model {
    double shape;    /* prior: cost of one more, as a share of the cost at length 0 */
    double steepest; /* most that this share can be */
    double mean[SP_COST_LENGTHS], weight[SP_COST_LENGTHS];
    size_t n_timings;
    double base, slope; /* the line */
};

void sp_cost_model_record(struct sp_cost_model *cost, size_t n,
                          double seconds); /* n < SP_COST_LENGTHS */

/* Expected seconds; before the first timing 1 + shape n. */
double sp_cost_model_at(const struct sp_cost_model *cost, size_t n);

#endif
