/* From logits to a token: transforms in a fixed order, then a draw that is keyed by the position.
 *
 *   1. logit bias (added), repeat penalty (negative logit x r, else / r), presence penalty (once
 * per distinct token of the history), frequency penalty (per occurrence)
 *   2. temperature 0: the largest logit, ties to the lowest id
 *   3. top-k: the k largest
 *   4. softmax of logit / temperature over what is left
 *   5. typical-p (Meister et al. 2022), renormalise; top-p: both while the probability before a
 * token is below p; min-p: at least min_p times the largest
 *   6. renormalise; the token with the smallest E / p, E exponential noise of (seed, position, id)
 * (order and edge rules of ollama's sampler). Step 6 draws from p exactly, and two distributions
 * that are alike mostly give the same token under the same noise, which is what makes drafts agree.
 *
 * struct sp_sampler (runtime/spectool.h) holds slots, one per sequence: options and the recent
 * tokens that penalties look at. */
#ifndef SP_RUNTIME_SAMPLING_DISTRIBUTION_H
#define SP_RUNTIME_SAMPLING_DISTRIBUTION_H

#include "runtime/sampling/chooser.h"
#include "runtime/vector/rng.h"
#include "runtime/spectool.h"
#include "runtime/vector/vector.h"

#include <stdbool.h>

/* What is left of the vocabulary, in ascending id, with probabilities that add up to 1. */
struct sp_distribution {
    uint32_t *ids; /* [n], owned by whoever owns the struct */
    double *probs; /* [n] */
    size_t n, cap;
};

/* Tokens that penalties look at, oldest first: older[0..n_older-1], then newer[0..n_newer-1]. */
struct sp_history {
    const uint32_t *older, *newer;
    size_t n_older, n_newer;
};

/* SP_E_USAGE naming the option that is out of its range; n_vocab bounds the ids of biases. */
SP_MUST_CHECK enum sp_status sp_sampling_check(const struct sp_sampling *sampling, size_t n_vocab,
                                               struct sp_err *err);

/* Does a distribution depend on the history: are there penalties, and tokens to look back on? */
bool sp_sampling_looks_back(const struct sp_sampling *sampling);

/* Room for the transforms of one row at a time. */
struct sp_sampler_scratch;
SP_MUST_CHECK enum sp_status sp_sampler_scratch_new(struct sp_sampler_scratch **out, size_t n_vocab,
                                                    const struct sp_vector *vector,
                                                    struct sp_err *err);
void sp_sampler_scratch_free(struct sp_sampler_scratch *scratch); /* NULL is fine */

/* The distribution of a row: one entry of probability 1 at temperature 0. A NaN or infinite logit
 * is SP_E_INPUT naming `position`. *out grows as needed. */
SP_MUST_CHECK enum sp_status
sp_sampler_distribution(struct sp_distribution *out, struct sp_sampler_scratch *scratch,
                        const struct sp_sampling *sampling, const struct sp_logits *logits,
                        const struct sp_history *history, uint64_t position, struct sp_err *err);
void sp_distribution_release(struct sp_distribution *distribution);

/* The token that (seed, position, purpose) draws from a distribution. *clarity (NULL: not asked
 * for): how clearly it won, 1 - (its E / p) / (the runner-up's), 0..1. */
uint32_t sp_distribution_draw(const struct sp_distribution *distribution,
                              const struct sp_vector *vector, uint64_t seed, uint64_t position,
                              enum sp_purpose purpose, double *clarity);

/* Probability of a token, 0 outside the distribution. */
double sp_distribution_at(const struct sp_distribution *distribution, uint32_t id);

/* *out = this token with probability 1. */
SP_MUST_CHECK enum sp_status sp_distribution_certain(struct sp_distribution *out, uint32_t id,
                                                     struct sp_err *err);

/* *out = max(p - q, 0), normalised; p itself where nothing is left. */
SP_MUST_CHECK enum sp_status sp_distribution_residual(struct sp_distribution *out,
                                                      const struct sp_distribution *p,
                                                      const struct sp_distribution *q,
                                                      struct sp_err *err);

#endif
