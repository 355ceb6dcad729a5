/* The difference between a decoded tensor and the original: sums in double, added chunk by chunk.
 *
 * The order of addition is fixed within a chunk; chunks must be added or merged in their order in
 * the tensor for equal figures on every run. */
#ifndef SP_QUANTIZE_MEASURE_H
#define SP_QUANTIZE_MEASURE_H

#include <stddef.h>
#include <stdint.h>

/* Valid when zeroed. */
struct sp_measure {
    uint64_t n;
    double sum_ref2;  /* sum of want^2 */
    double sum_got2;  /* sum of got^2 */
    double sum_dot;   /* sum of want * got */
    double sum_diff2; /* sum of (got - want)^2 */
    double max_diff;  /* largest |got - want| */
};

void sp_measure_add(struct sp_measure *m, const float *want, const float *got, size_t n);
void sp_measure_merge(struct sp_measure *m, const struct sp_measure *other);

/* Root mean square of the difference over that of the original; 0 if both are 0, infinite if only
 * the original is. */
double sp_measure_relative_rms(const struct sp_measure *m);

/* Cosine between the two; 1 if both are all zero, 0 if only one is. */
double sp_measure_cosine(const struct sp_measure *m);

#endif
