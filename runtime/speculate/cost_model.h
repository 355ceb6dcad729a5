/* The cost in seconds of verifying or drafting n tokens, as a function of n, learned from noisy
 * timings.
 *
 * The model is a straight line through all timings, fitted by weighted least squares with a prior
 * for its shape, combined with the mean of the timings at n itself, which weighs more the more
 * there are: kernels have steps that a line does not. Noise of a shared machine only ever adds
 * time, so a mean follows shorter times quickly and longer ones slowly, and an outlier counts in
 * part. Passes that touch the pages of the weights for the first time take many times as long as
 * later ones: a time that is much shorter than expected discards all timings before it. */
#ifndef SP_RUNTIME_SPECULATE_COST_MODEL_H
#define SP_RUNTIME_SPECULATE_COST_MODEL_H

#include <stddef.h>

enum { SP_COST_LENGTHS = 256 };

/* Valid when zeroed, except for `shape` and `steepest`. */
struct sp_cost_model {
    double shape;    /* prior of the slope, relative to the cost at n = 0 */
    double steepest; /* greatest slope, relative to the cost at n = 0 */
    double mean[SP_COST_LENGTHS], weight[SP_COST_LENGTHS];
    size_t n_timings;
    double base, slope; /* of the fitted line */
};

void sp_cost_model_record(struct sp_cost_model *cost, size_t n,
                          double seconds); /* n < SP_COST_LENGTHS */

/* Sets the mean of `weight` >= 0 earlier timings at n < SP_COST_LENGTHS. */
void sp_cost_model_set(struct sp_cost_model *cost, size_t n, double seconds, double weight);

/* Expected seconds; 1 + shape n before the first timing. */
double sp_cost_model_at(const struct sp_cost_model *cost, size_t n);

#endif
