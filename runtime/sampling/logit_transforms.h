/* From logits to a distribution: transforms in a fixed order.
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
 *   6. renormalize
 *
 * Order and edge rules are those of ollama's sampler. */
#ifndef SP_RUNTIME_SAMPLING_LOGIT_TRANSFORMS_H
#define SP_RUNTIME_SAMPLING_LOGIT_TRANSFORMS_H

#include "runtime/backend/logits.h"
#include "runtime/sampling/distribution.h"
#include "runtime/sampling/dry.h"
#include "runtime/spectool.h"

#include <stdbool.h>

/* The tokens that penalties read, oldest first: older[0..n_older-1], then newer[0..n_newer-1]. Each
 * penalty reads as many of the last ones as its option says. Borrowed. */
struct sp_history {
    const uint32_t *older, *newer;
    size_t n_older, n_newer;
    const struct sp_dry_breakers *breakers; /* of DRY; NULL: none */
};

/* Checks the ranges of all options. SP_E_USAGE names one; n_vocab bounds the ids of biases. */
SP_MUST_CHECK enum sp_status sp_sampling_check(const struct sp_sampling *sampling, size_t n_vocab,
                                               struct sp_err *err);

/* True if all numbers among the options are equal, whatever their lists and seeds. */
bool sp_sampling_same(const struct sp_sampling *a, const struct sp_sampling *b);

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

#endif
