/* The interface that chooses tokens from logits: the only place where greedy and sampled
 * generation differ.
 *
 * The same chooser serves the draft and the target. Coupled acceptance (greedy, or sampling with
 * noise that is keyed by the position): draft and target make the same choice from their own
 * logits, so a draft token is accepted exactly if the target would have chosen it anyway.
 * Rejection sampling: the draft token is accepted with probability min(1, p/q), else the target
 * draws from the normalized max(p - q, 0) (Leviathan et al. 2023). */
#ifndef SP_RUNTIME_SAMPLING_CHOOSER_H
#define SP_RUNTIME_SAMPLING_CHOOSER_H

#include "format/base/err.h"
#include "runtime/backend/logits.h"
#include "runtime/spectool_measure.h"
#include "runtime/vector/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_NO_DRAFT_TOKEN UINT32_MAX

struct sp_chooser {
    /* Chooses the draft token for position `pos`, given all tokens before it, ids[0..pos-1].
     * *confidence (may be NULL) estimates how likely the target accepts it, 0..1. The number is
     * only a hint: the draft length controller learns its meaning from acceptances. */
    enum sp_status (*propose)(void *state, uint32_t *id, double *confidence,
                              const struct sp_logits *logits, const uint32_t *ids, size_t pos,
                              struct sp_err *err);
    /* Takes over ids[pos] as the draft token of position `pos`, without logits. *possible is true
     * on entry and becomes false if the target can never choose that token. NULL: the chooser
     * keeps no state of draft tokens. */
    enum sp_status (*adopt)(void *state, bool *possible, const uint32_t *ids, size_t pos,
                            struct sp_err *err);
    /* Chooses the target's token for position `pos`. draft_token is the token that propose or
     * adopt gave for it, or SP_NO_DRAFT_TOKEN; an equal *id means that it was accepted.
     * SP_E_INPUT: a logit is not finite. *id depends on the arguments and the seed alone. */
    enum sp_status (*choose)(void *state, uint32_t *id, const struct sp_logits *logits,
                             const uint32_t *ids, size_t pos, uint32_t draft_token,
                             struct sp_err *err);
    /* What `choose`, and `propose` without a confidence, need of a row; they may complete it. */
    enum sp_logits_need needs;
    void *state; /* borrowed */
};

/* ---- the largest logit (greedy_chooser.c) ---- */

/* Chooses the largest logit, ties to the lowest id; its softmax probability is the confidence.
 * Borrows `vector`. */
struct sp_chooser sp_greedy_chooser(const struct sp_vector *vector);

/* softmax(logits)[id] at temperature 1: how sure a draft is of the token that it chose greedily. */
double sp_greedy_confidence(const struct sp_vector *vector, const struct sp_logits *logits,
                            uint32_t id);

struct sp_simulated_choice {
    struct sp_simulation simulation;
    const struct sp_vector *vector; /* borrowed */
};

/* A mock chooser that accepts each draft token with a fixed probability, whatever the logits are.
 * Proposing and verifying take the same work as with a greedy chooser, so a run measures the speed
 * with a draft of that acceptance rate. Its text is meaningless. Borrows `choice`. */
struct sp_chooser sp_simulated_chooser(struct sp_simulated_choice *choice);

#endif
