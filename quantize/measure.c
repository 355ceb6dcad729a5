/* Error sums of one tensor: see measure.h. Several lanes make the additions independent; their
 * order is part of the result. */
#include "quantize/measure.h"

#include <math.h>

enum { LANES = 8 }; /* independent sums: element i goes to lane i % 8 */

void sp_measure_add(struct sp_measure *m, const float *want, const float *got, size_t n)
{
    double ref2[LANES] = {0}, got2[LANES] = {0}, dot[LANES] = {0}, diff2[LANES] = {0};
    double max_diff[LANES] = {0};
    size_t i = 0;

    m->n += n;
    while (i < n) {
        size_t lanes = n - i < LANES ? n - i : LANES;

        for (size_t j = 0; j < lanes; j++) {
            double w = want[i + j], g = got[i + j], d = g - w;
            double size = d < 0 ? -d : d;

            ref2[j] += w * w;
            got2[j] += g * g;
            dot[j] += w * g;
            diff2[j] += d * d;
            max_diff[j] = size > max_diff[j] ? size : max_diff[j];
        }
        i += lanes;
    }
    for (size_t j = 0; j < LANES; j++) {
        struct sp_measure lane = {0, ref2[j], got2[j], dot[j], diff2[j], max_diff[j]};

        sp_measure_merge(m, &lane);
    }
}

void sp_measure_merge(struct sp_measure *m, const struct sp_measure *other)
{
    m->n += other->n;
    m->sum_ref2 += other->sum_ref2;
    m->sum_got2 += other->sum_got2;
    m->sum_dot += other->sum_dot;
    m->sum_diff2 += other->sum_diff2;
    if (other->max_diff > m->max_diff) m->max_diff = other->max_diff;
}

double sp_measure_relative_rms(const struct sp_measure *m)
{
    if (m->sum_diff2 == 0) return 0;
    return sqrt(m->sum_diff2) / sqrt(m->sum_ref2);
}

double sp_measure_cosine(const struct sp_measure *m)
{
    if (m->sum_ref2 == 0 && m->sum_got2 == 0) return 1;
    if (m->sum_ref2 == 0 || m->sum_got2 == 0) return 0;
    return m->sum_dot / (sqrt(m->sum_ref2) * sqrt(m->sum_got2));
}
