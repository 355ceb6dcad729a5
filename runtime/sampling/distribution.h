/* From logits to a token: transforms in a fixed order, then a draw that is keyed by the position.
 *
 *   1. logit bias (added), repeat penalty (negative logit x r, else / r),
 *      presence penalty (once per distinct token), frequency penalty (per occurrence), then DRY
 *      (dry.h)
 *   2. temperature 0: the largest logit, ties to the lowest id
 *   3. top-n-sigma and top-k: the logits near the largest, and the k largest
 *   4. softmax of logit / temperature over the remaining tokens
 *   5. typical-p (Meister et al. 2022), then renormalize; top-p: both keep tokens while the
 *      probability before a token is below p; min-p: at least min_p times the largest; XTC: with
 *      a probability that is keyed by (seed, position), the least likely of the tokens at or above
 *      a threshold replaces all of these
 *   6. renormalize; the token with the smallest E / p, E exponential noise of (seed, position, id)
 *
 * Order and edge rules are those of ollama's sampler. Step 6 draws from p exactly, and two similar
 * distributions mostly give the same token under the same noise, which is why draft and target
 * agree.
 *
 * struct sp_sampler (runtime/spectool.h) holds slots, one per sequence: its options and the recent
 * tokens that penalties read. */
#ifndef SP_RUNTIME_SAMPLING_DISTRIBUTION_H
#define SP_RUNTIME_SAMPLING_DISTRIBUTION_H

#include "runtime/sampling/chooser.h"
#include "runtime/sampling/dry.h"
#include "runtime/vector/rng.h"
#include "runtime/spectool.h"
#include "runtime/vector/vector.h"

#include <stdbool.h>

/* The tokens that are left after truncation, in ascending id, with probabilities that add up to 1.
 * Valid when zeroed; the owner calls sp_distribution_release. */
struct sp_distribution {
    uint32_t *ids; /* [n] owned */
    double *probs; /* [n] owned */
    size_t n, cap;
};

/* The tokens that penalties read, oldest first: older[0..n_older-1], then newer[0..n_newer-1]. Each
 * penalty reads as many of the last ones as its option says. Borrowed. */
struct sp_history {
    const uint32_t *older, *newer;
    size_t n_older, n_newer;
    const struct sp_dry_breakers *breakers; /* of DRY; NULL: none */
};

/* Checks the ranges of all options. SP_E_USAGE names the option; n_vocab bounds the ids of
 * biases. */
SP_MUST_CHECK enum sp_status sp_sampling_check(const struct sp_sampling *sampling, size_t n_vocab,
                                               struct sp_err *err);

/* True if distributions depend on the history: a penalty is set and its window is not empty. */
bool sp_sampling_looks_back(const struct sp_sampling *sampling);

/* True if XTC excludes the same tokens of equal rows at two positions. */
bool sp_sampling_excludes_alike(const struct sp_sampling *a, uint64_t position_a,
                                const struct sp_sampling *b, uint64_t position_b);

/* Buffers for the transforms of one row at a time. */
struct sp_sampler_scratch;
SP_MUST_CHECK enum sp_status sp_sampler_scratch_new(struct sp_sampler_scratch **out, size_t n_vocab,
                                                    const struct sp_vector *vector,
                                                    struct sp_err *err);
void sp_sampler_scratch_free(struct sp_sampler_scratch *scratch); /* NULL is fine */

/* Computes the distribution of a row; at temperature 0 it has a single entry of probability 1.
 * SP_E_INPUT: a logit is NaN or infinite; the message names `position`. *out grows as needed. */
SP_MUST_CHECK enum sp_status
sp_sampler_distribution(struct sp_distribution *out, struct sp_sampler_scratch *scratch,
                        const struct sp_sampling *sampling, const struct sp_logits *logits,
                        const struct sp_history *history, uint64_t position, struct sp_err *err);
void sp_distribution_release(struct sp_distribution *distribution);

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
