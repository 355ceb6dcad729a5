#include "runtime/speculate/drafting_controller.h"

#include <string.h>

static const double line_weight = 2;   /* weight of the line, in timings at a length */
static const double shape_weight = 10; /* weight of the prior of the line's slope */
static const double longest_memory = 8;
static const double quick = 0.3;   /* least weight of a shorter time in the mean */
static const double outlier = 1.5; /* a longer time counts as this multiple of the expected one */
static const double stale = 3;     /* a time this many times shorter disproves the earlier ones */

static const double shortest = 1e-9;

enum { FREE_TIMINGS = 2 }; /* the first timings are never cut as outliers */

/* Minimizes sum of weight (mean - base - slope n)^2 + shape_weight (slope - shape base)^2. */
static void fit_line(struct sp_cost_model *c)
{
    double w = 0, x = 0, xx = 0, y = 0, xy = 0, a, b, d, det;

    for (size_t n = 0; n < SP_COST_LENGTHS; n++) {
        double weight = c->weight[n], len = (double)n;
        w += weight;
        x += weight * len;
        xx += weight * len * len;
        y += weight * c->mean[n];
        xy += weight * len * c->mean[n];
    }
    a = w + shape_weight * c->shape * c->shape;
    b = x - shape_weight * c->shape;
    d = xx + shape_weight;
    det = a * d - b * b;
    c->base = (y * d - b * xy) / det;
    c->slope = (a * xy - b * y) / det;
    if (c->slope < 0) {
        c->slope = 0;
        c->base = y / w;
    } else if (c->base < 0 || c->slope > c->steepest * c->base) {
        c->base = y / (w + c->steepest * x);
        c->slope = c->steepest * c->base;
    }
}

double sp_cost_model_at(const struct sp_cost_model *c, size_t n)
{
    double line = c->base + c->slope * (double)n;

    if (c->n_timings == 0) return 1 + c->shape * (double)n;
    return (line_weight * line + c->weight[n] * c->mean[n]) / (line_weight + c->weight[n]);
}

void sp_cost_model_set(struct sp_cost_model *c, size_t n, double seconds, double weight)
{
    c->mean[n] = seconds > shortest ? seconds : shortest;
    c->weight[n] = weight;
    c->n_timings++;
    fit_line(c);
}

void sp_cost_model_record(struct sp_cost_model *c, size_t n, double seconds)
{
    double weight, most = outlier * sp_cost_model_at(c, n);

    if (seconds < shortest) seconds = shortest;
    if (c->n_timings > 0 && stale * outlier * seconds < most) {
        memset(c->weight, 0, sizeof c->weight);
        memset(c->mean, 0, sizeof c->mean);
        c->n_timings = 0;
    }
    weight = 1 / (c->weight[n] + 1);
    if (c->n_timings >= FREE_TIMINGS && seconds > most) seconds = most;
    if (seconds < c->mean[n] && weight < quick) weight = quick;
    c->mean[n] += weight * (seconds - c->mean[n]);
    if (c->weight[n] < longest_memory) c->weight[n]++;
    c->n_timings++;
    fit_line(c);
}
