/* What drafts share that pair a hidden state with the token after it: Qwen3.5's built-in head
 * (draft_mtp.c), EAGLE-3 (draft_eagle3.c) and P-EAGLE (draft_peagle.c).
 *
 * Slot t of their cache pairs the state h_t, made from the target's row t, with token t+1; the
 * layer's output o says which token follows, t+2. Further guesses feed o in place of the state that
 * nobody knows yet; P-EAGLE feeds one fixed state and a mask token, all guesses at once. The pair
 * of the newest committed row waits until its token is known, so states are kept until the next
 * proposal, which runs all waiting pairs in one pass; the last row of that pass is already the
 * first guess. Slots behind the true pairs are guesses: true pairs overwrite them. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_FEATURE_HEAD_H
#define SP_RUNTIME_SPECULATE_DRAFT_FEATURE_HEAD_H

#include "runtime/speculate/drafter.h"

enum { SP_FEATURE_HEAD_MAX = 16 };

struct sp_feature_head {
    struct sp_drafter base;
    const struct sp_model *embedder, *head; /* whose tables are read: the draft's or the target's */
    struct sp_decoder *decoder;
    size_t draft_len; /* most guesses of a proposal */
    bool parallel;    /* ... which are made in one pass */
    size_t n_hidden, n_rows /* of the head */, max_rows;
    /* Positions whose state has been handed over; those from n_kept on are in `hidden`, the last
     * one always. Slots below n_true hold true pairs: n_kept <= n_true <= n_have. */
    size_t n_have, n_kept, n_true;
    float *hidden; /* [max_rows, and depth where parallel][n_hidden] */
    float *logits; /* [depth][n_rows] of the last proposal; NULL where it is made in one pass */
    /* The head's logits by the target's ids, where it has ids of its own; else NULL. */
    struct sp_logits (*translate)(struct sp_feature_head *pairs, struct sp_logits logits);
};

/* Everything but embedder, head, depth and parallel, which the caller has set, and translate.
 * `tap`: which of the draft's own rows is fed back; static; NULL: none. On failure
 * sp_feature_head_release cleans up. */
SP_MUST_CHECK enum sp_status sp_feature_head_init(struct sp_feature_head *pairs,
                                                  const struct sp_drafter_ops *ops,
                                                  const struct sp_drafter_setup *setup,
                                                  const unsigned *tap, struct sp_err *err);
void sp_feature_head_release(struct sp_feature_head *pairs);

/* Takes n committed states over: room for them at the returned place, [n][n_hidden]. */
float *sp_feature_head_commit(struct sp_feature_head *pairs, const struct sp_commit *commit);

/* Runs the waiting pairs and, in the same pass, n_more slots: their states are at
 * sp_feature_head_behind, their tokens at ids[n_cached + 1]... The decoder's logits = those of the
 * last pair and of these slots. Returns the row of that pair. */
size_t sp_feature_head_begin(struct sp_feature_head *pairs, const uint32_t *ids, size_t n_cached,
                             size_t n_more);

/* Room for the states of `depth` slots behind the committed ones, where parallel. */
float *sp_feature_head_behind(struct sp_feature_head *pairs);

/* Rows of struct sp_drafter_ops. */
size_t sp_feature_head_max_draft_len(const struct sp_model *draft);
size_t sp_feature_head_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached);
struct sp_logits sp_feature_head_logits(const struct sp_drafter *base, size_t i);
SP_MUST_CHECK enum sp_status sp_feature_head_propose(struct sp_drafter *base, uint32_t *ids,
                                                     size_t n_cached, size_t *n,
                                                     const struct sp_proposal *proposal,
                                                     struct sp_err *err);
void sp_feature_head_catch_up(struct sp_drafter *base, const uint32_t *ids, size_t n_cached);
bool sp_feature_head_truncate(struct sp_drafter *base, size_t len, size_t n_same);
size_t sp_feature_head_cache_size(const struct sp_drafter *base);
SP_MUST_CHECK enum sp_status sp_feature_head_state(struct sp_drafter *base,
                                                   struct sp_session_file *file, size_t n_cached,
                                                   struct sp_err *err);

#endif
