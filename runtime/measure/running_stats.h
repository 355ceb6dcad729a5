/* Mean and variance of a stream of numbers (Welford 1962), in the order in which they come. */
#ifndef SP_RUNTIME_MEASURE_RUNNING_STATS_H
#define SP_RUNTIME_MEASURE_RUNNING_STATS_H

#include "runtime/spectool_measure.h"

#include <math.h>

/* Valid when zeroed. */
struct sp_running_stats {
    size_t n;
    double mean, squares; /* sum of the squared distances from the mean */
};

static inline void sp_running_stats_add(struct sp_running_stats *t, double x)
{
    double before = x - t->mean;

    t->n++;
    t->mean += before / (double)t->n;
    t->squares += before * (x - t->mean);
}

/* The standard error of a single number is not known and given as 0. */
static inline struct sp_estimate sp_running_stats_estimate(const struct sp_running_stats *t)
{
    double n = (double)t->n;

    return (struct sp_estimate){t->mean, t->n > 1 ? sqrt(t->squares / (n - 1) / n) : 0};
}

#endif
