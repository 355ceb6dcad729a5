/* How far a decoded tensor is from the original: sums in double, added up chunk by chunk.
 *
 * The order of addition is fixed within a chunk and by the caller between chunks; for equal figures
 * on every run, add or merge chunks in their order in the tensor. */
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

/* Root mean square of the difference over that of the original; 0 where both are 0, infinite where
 * only the original is. */
double sp_measure_relative_rms(const struct sp_measure *m);

/* Cosine between the two; 1 where both are all zero, 0 where only one is. */
double sp_measure_cosine(const struct sp_measure *m);

#endif
