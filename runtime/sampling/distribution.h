/* Distributions over tokens, and what is done with them: draws that are keyed by the position, and
 * the residuals of rejection sampling. logit_transforms.h makes them from rows of logits.
 *
 * A draw takes the token with the smallest E / p, E exponential noise of (seed, position, id). It
 * draws from p exactly, and two similar distributions mostly give the same token under the same
 * noise, which is why draft and target agree. */
#ifndef SP_RUNTIME_SAMPLING_DISTRIBUTION_H
#define SP_RUNTIME_SAMPLING_DISTRIBUTION_H

#include "format/base/err.h"
#include "runtime/vector/rng.h"
#include "runtime/vector/vector.h"

/* The tokens that are left after truncation, in ascending id, with probabilities that add up to 1.
 * Valid when zeroed; the owner calls sp_distribution_release. */
struct sp_distribution {
    uint32_t *ids; /* [n] owned */
    double *probs; /* [n] owned */
    size_t n, cap;
};

void sp_distribution_release(struct sp_distribution *distribution);

/* Makes room for n tokens. On failure the distribution can only be released. */
SP_MUST_CHECK enum sp_status sp_distribution_reserve(struct sp_distribution *distribution, size_t n,
                                                     struct sp_err *err);

/* Draws the token of (seed, position, purpose) from a distribution. *clarity (may be NULL) is the
 * margin of the winner, 0..1: 1 - (its E / p) / (the runner-up's). */
uint32_t sp_distribution_draw(const struct sp_distribution *distribution,
                              const struct sp_vector *vector, uint64_t seed, uint64_t position,
                              enum sp_purpose purpose, double *clarity);

/* The probability of a token, 0 if it is not in the distribution. */
double sp_distribution_at(const struct sp_distribution *distribution, uint32_t id);

/* Sets *out to the distribution in which this token has probability 1. */
SP_MUST_CHECK enum sp_status sp_distribution_certain(struct sp_distribution *out, uint32_t id,
                                                     struct sp_err *err);

/* Sets *out to the normalized max(p - q, 0), or to p if that is 0 everywhere. */
SP_MUST_CHECK enum sp_status sp_distribution_residual(struct sp_distribution *out,
                                                      const struct sp_distribution *p,
                                                      const struct sp_distribution *q,
                                                      struct sp_err *err);

#endif
