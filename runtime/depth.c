#include "runtime/depth.h"

#include <stdbool.h>

static const double forget = 0.97;     /* weight that a count keeps from round to round */
static const double prior_weight = 2;  /* rounds that a borrowed acceptance counts for */
static const double first_prior = 0.6; /* acceptance of the first guess before any is known */
static const double smoothing = 0.25;  /* share of a new measurement in a cost */

enum { FIRST_WAIT = 16, LONGEST_WAIT = 256 };

/* Value of a sparsely measured, roughly linear table at i: interpolated between the measured
 * neighbours, extrapolated flat. 0 when nothing is measured. */
static double interpolate(const double *table, size_t n, size_t i)
{
    size_t below = i, above = i;

    while (below > 0 && table[below] <= 0)
        below--;
    while (above < n && table[above] <= 0)
        above++;
    if (above == n || table[above] <= 0) return table[below] > 0 ? table[below] : 0;
    if (table[below] <= 0 || below == above) return table[above];
    return table[below] +
           (table[above] - table[below]) * (double)(i - below) / (double)(above - below);
}

double sp_depth_plain_seconds(const struct sp_depth *depth)
{
    return interpolate(depth->verify_seconds, depth->max + 2, 1);
}

static double seconds(const struct sp_depth *d, size_t n)
{
    double draft = n ? interpolate(d->draft_seconds, d->max + 1, n) : 0;

    return draft + interpolate(d->verify_seconds, d->max + 2, n + 1);
}

static double rate(const struct sp_depth *d, size_t n)
{
    double tokens = 1, chain = 1, p = first_prior;

    for (size_t i = 1; i <= n; i++) {
        p = (d->accepted[i] + prior_weight * p) / (d->tried[i] + prior_weight);
        chain *= p;
        tokens += chain;
    }
    return tokens / seconds(d, n);
}

/* Before anything can be weighed: a whole proposal, a plain step, and a single guess have to be
 * measured. Each is a round like any other, so measuring costs next to nothing. */
static bool unmeasured(const struct sp_depth *d, size_t *depth)
{
    const size_t wanted[] = {d->max, 0, 1};

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *depth = wanted[i];
        if (d->verify_seconds[wanted[i] + 1] <= 0) return true;
    }
    *depth = 0;
    return false;
}

size_t sp_depth_choose(struct sp_depth *d, size_t limit)
{
    size_t best = 0, best_drafted = 0;
    double best_rate, drafted_rate = 0;

    if (limit > d->max) limit = d->max;
    if (limit == 0) return 0;
    if (limit == d->max && unmeasured(d, &best)) return best;
    if (seconds(d, 0) <= 0) return limit;
    best_rate = rate(d, 0);
    for (size_t n = 1; n <= limit; n++) {
        double r = rate(d, n);
        if (r > drafted_rate) {
            drafted_rate = r;
            best_drafted = n;
        }
    }
    if (drafted_rate > best_rate) best = best_drafted;
    if (best) {
        d->plain_run = 0;
        d->plain_wait = FIRST_WAIT;
        return best;
    }
    if (d->plain_wait == 0) d->plain_wait = FIRST_WAIT;
    if (++d->plain_run < d->plain_wait) return 0;
    d->plain_run = 0;
    if (d->plain_wait < LONGEST_WAIT) d->plain_wait *= 2;
    return best_drafted;
}

static void measure(double *cost, double seconds_now)
{
    *cost = *cost > 0 ? *cost + smoothing * (seconds_now - *cost) : seconds_now;
}

void sp_depth_record(struct sp_depth *d, size_t drafted, size_t accepted, double draft_seconds,
                     double verify_seconds)
{
    if (drafted > d->max) return;
    measure(&d->verify_seconds[drafted + 1], verify_seconds);
    if (drafted == 0) return;
    measure(&d->draft_seconds[drafted], draft_seconds);
    for (size_t i = 1; i <= drafted && i <= accepted + 1; i++) {
        d->tried[i] = forget * d->tried[i] + 1;
        d->accepted[i] = forget * d->accepted[i] + (i <= accepted ? 1 : 0);
    }
}
