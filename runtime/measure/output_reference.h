/* The output distributions of a model at some positions, kept to measure how far a changed model
 * moves away from them.
 *
 * A distribution p is kept as bf16, and the kept numbers, which add up to nearly 1, are what is
 * compared with. That changes a divergence by less than 1e-6. */
#ifndef SP_RUNTIME_MEASURE_OUTPUT_REFERENCE_H
#define SP_RUNTIME_MEASURE_OUTPUT_REFERENCE_H

#include "runtime/vector/vector.h"

struct sp_output_reference {
    uint16_t *probs;   /* [n_rows][n] bf16; owned */
    double *sums;      /* [n_rows] of the probabilities; owned */
    double *entropies; /* [n_rows] -sum of p ln p; owned */
    size_t n_rows, n;  /* n: logits of a row */
};

SP_MUST_CHECK enum sp_status sp_output_reference_init(struct sp_output_reference *reference,
                                                      size_t n_rows, size_t n, struct sp_err *err);
void sp_output_reference_release(struct sp_output_reference *reference); /* a zeroed one is fine */

/* Sets row i to the distribution of logits[n]. Returns false if one is not finite. scratch: [n
 * rounded up to a multiple of 16], aligned to 64 bytes. Several threads may set different rows. */
SP_MUST_CHECK bool sp_output_reference_set(struct sp_output_reference *reference, size_t i,
                                           const struct sp_vector *vector, const float *logits,
                                           float *scratch);

/* *divergence = KL(row i || the distribution of these logits), in nats; a rounding error below zero
 * becomes zero. Otherwise as sp_output_reference_set. */
SP_MUST_CHECK bool sp_output_reference_compare(double *divergence,
                                               const struct sp_output_reference *reference,
                                               size_t i, const struct sp_vector *vector,
                                               const float *logits, float *scratch);

#endif
