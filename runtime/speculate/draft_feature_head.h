/* The common part of drafts that pair a hidden state of the target with the token after it: the
 * multi-token prediction head of Qwen3.5 (draft_mtp.c), EAGLE-3 and P-EAGLE (draft_eagle3.c).
 *
 * Slot t of their cache pairs the state h_t, from row t of the target, with token t+1; the layer's
 * output o predicts token t+2. Further draft tokens feed o in place of a state that is not known
 * yet; P-EAGLE feeds one fixed state and a mask token for all draft tokens at once. The pair of the
 * newest committed row waits until its token is known, so states are kept until the next proposal,
 * which runs all waiting pairs in one pass; the last row of that pass yields the first draft token.
 * Slots after the committed pairs hold draft tokens, and committed pairs overwrite them. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_FEATURE_HEAD_H
#define SP_RUNTIME_SPECULATE_DRAFT_FEATURE_HEAD_H

#include "runtime/speculate/draft_vocab.h"
#include "runtime/speculate/drafter.h"

enum { SP_FEATURE_HEAD_MAX = 16 };

struct sp_feature_head {
    struct sp_drafter base;
    const struct sp_model *embedder,
        *head;        /* the model whose embedding and head are used: the draft's or the target's */
    size_t draft_len; /* most draft tokens of a proposal */
    bool parallel;    /* all draft tokens come from one pass */
    size_t n_hidden, n_rows /* of the head */, max_rows;
    /* Positions [0, n_have) have been committed. Their states from n_kept on are in `hidden`, and
     * the last always. Slots below n_true hold committed pairs: n_kept <= n_true <= n_have. */
    size_t n_have, n_kept, n_true;
    float *hidden; /* [max_rows + (parallel ? draft_len : 0)][n_hidden] */
    float *logits; /* [draft_len][n_rows] of the last proposal, if it needed rows; NULL if it comes
                      from one pass */
    enum sp_logits_need needs; /* of the last proposal */
    size_t row;                /* of its first pass: that of the last committed pair */
    struct sp_draft_vocab vocabulary;
};

/* Opens everything but embedder, head and parallel, which the caller has set. `tap`: the row of the
 * draft that is fed back; static; NULL: none. */
SP_MUST_CHECK enum sp_status sp_feature_head_init(struct sp_feature_head *pairs,
                                                  const struct sp_drafter_setup *setup,
                                                  const unsigned *tap, struct sp_err *err);

/* Returns the place for n committed states, [n][n_hidden], which the caller fills. */
float *sp_feature_head_commit(struct sp_feature_head *pairs, const struct sp_commit *commit);

/* The states of draft_len slots after the committed ones; only for parallel heads. */
float *sp_feature_head_next_states(struct sp_feature_head *pairs);

/* Members of struct sp_drafter_ops. A parallel head begins with *n - 1 slots behind the waiting
 * pairs, whose states are at sp_feature_head_next_states and whose tokens are in ids. */
size_t sp_feature_head_limit(struct sp_drafter *base, const uint32_t *ids, size_t n_cached);
struct sp_logits sp_feature_head_logits(const struct sp_drafter *base, size_t i);
void sp_feature_head_begin(struct sp_drafter *base, uint32_t *ids, size_t n_cached, size_t *n,
                           const struct sp_proposal *proposal);
struct sp_logits sp_feature_head_next(struct sp_drafter *base, uint32_t *ids, size_t n_cached,
                                      size_t i, double *confidence);
size_t sp_feature_head_n_unread(const struct sp_drafter *base, size_t n_cached);
void sp_feature_head_catch_up(struct sp_drafter *base, const uint32_t *ids, size_t n_cached);
bool sp_feature_head_truncate(struct sp_drafter *base, size_t len, size_t n_same);
SP_MUST_CHECK enum sp_status sp_feature_head_page(struct sp_drafter *base,
                                                  struct sp_cache_file *file, size_t span,
                                                  bool resumes, struct sp_err *err);

#endif
