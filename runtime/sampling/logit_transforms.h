/* From logits to a distribution: transforms in the order in which sp_sampler_distribution calls
 * them, each with its formula at its function. Bias and penalties change the logits; at temperature
 * 0 the largest one is certain. Otherwise the most likely tokens are kept, first by their logits,
 * then by their probabilities, the softmax of logit / temperature over those that are left, which
 * are normalized again at the end. Order and edge rules are those of ollama's sampler. */
#ifndef SP_RUNTIME_SAMPLING_LOGIT_TRANSFORMS_H
#define SP_RUNTIME_SAMPLING_LOGIT_TRANSFORMS_H

#include "format/base/err.h"
#include "format/base/pool.h"
#include "runtime/backend/logits.h"
#include "runtime/spectool.h"
#include "runtime/vector/rng.h"
#include "runtime/vector/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sorting of many keys, for choosing the tokens that a truncated distribution keeps. */

struct sp_top_n {
    uint64_t key;
    uint32_t at; /* index of the ranked element in the caller's array */
};

/* Sorts by ascending key; equal keys keep their order. `spare` holds n elements of scratch. Linear
 * in n: a whole vocabulary takes one or two milliseconds, a comparison sort about thirty. */
void sp_top_n_sort(struct sp_top_n *ranks, struct sp_top_n *spare, size_t n);

struct sp_history;

/* Distributions over tokens, and what is done with them: draws that are keyed by the position, and
 * the residuals of rejection sampling. logit_transforms.h makes them from rows of logits.
 *
 * A draw takes the token with the smallest E / p, E exponential noise of (seed, position, id). It
 * draws from p exactly, and two similar distributions mostly give the same token under the same
 * noise, which is why draft and target agree. */

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

/* DRY ("don't repeat yourself"), the penalty against repeated sequences that p-e-w published with
 * text-generation-webui (pull request 5677), with the breakers of several tokens of llama.cpp.
 *
 * If the last n tokens occurred before, the token that followed them then is penalized by
 * multiplier * base ^ (n - allowed length), where n is the longest such match and at least the
 * allowed length. No match extends over a breaker, and a token that is one is not penalized. */

/* The token sequences that write a breaker, of the whole vocabulary. Immutable. */
struct sp_dry_breakers;

/* Finds the sequences of the breakers of `sampling`. *out = NULL: DRY is off, or there is no
 * breaker. SP_E_USAGE: a text is empty, too long or not valid UTF-8, or no tokenizer is given. */
SP_MUST_CHECK enum sp_status sp_dry_breakers_open(struct sp_dry_breakers **out,
                                                  const struct sp_sampling *sampling,
                                                  size_t n_vocab, struct sp_err *err);
void sp_dry_breakers_close(struct sp_dry_breakers *breakers); /* NULL is fine */

/* Buffers; valid when zeroed. The owner calls sp_dry_scratch_release. */
struct sp_dry_scratch {
    uint32_t *recent;  /* [window] the newest token first */
    uint32_t *matches; /* [window] length of the match that ends i tokens before the newest */
    uint32_t *longest; /* [n_vocab] 1 + the longest match before each token; 0: none */
    size_t cap_recent, cap_matches, cap_longest;
};
void sp_dry_scratch_release(struct sp_dry_scratch *scratch);

/* True if the option is on and its window is not empty. */
bool sp_dry_is_on(const struct sp_sampling *sampling);

/* Penalizes the logits after a history, of which the last dry_penalty_last_n tokens count. */
SP_MUST_CHECK enum sp_status sp_dry_penalize(struct sp_dry_scratch *scratch, float *logits,
                                             size_t n_vocab, const struct sp_sampling *sampling,
                                             const struct sp_history *history, struct sp_err *err);

/* The tokens that penalties read, oldest first: older[0..n_older-1], then newer[0..n_newer-1]. Each
 * penalty reads as many of the last ones as its option says. Borrowed. */
struct sp_history {
    const uint32_t *older, *newer;
    size_t n_older, n_newer;
    const struct sp_dry_breakers *breakers; /* of DRY; NULL: none */
};

/* Token i of a history, counted from the newest. */
static inline uint32_t sp_history_at(const struct sp_history *h, size_t i)
{
    return i < h->n_newer ? h->newer[h->n_newer - 1 - i]
                          : h->older[h->n_older - 1 - (i - h->n_newer)];
}

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

/* Buffers for the transforms of one row at a time. pool: computes exponentials; borrowed; NULL: the
 * calling thread does. */
struct sp_sampler_scratch;
SP_MUST_CHECK enum sp_status sp_sampler_scratch_new(struct sp_sampler_scratch **out, size_t n_vocab,
                                                    const struct sp_vector *vector,
                                                    struct sp_pool *pool, struct sp_err *err);
void sp_sampler_scratch_free(struct sp_sampler_scratch *scratch); /* NULL is fine */

/* Computes the distribution of a row; at temperature 0 it has a single entry of probability 1.
 * SP_E_INPUT: a logit is NaN or infinite; the message names `position`. *out grows as needed. */
SP_MUST_CHECK enum sp_status
sp_sampler_distribution(struct sp_distribution *out, struct sp_sampler_scratch *scratch,
                        const struct sp_sampling *sampling, const struct sp_logits *logits,
                        const struct sp_history *history, uint64_t position, struct sp_err *err);

#endif
