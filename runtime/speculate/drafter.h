/* A drafter proposes the next tokens; the target checks them (runtime/speculate/speculate.h).
 *
 * State between rounds, for every kind (C = n_cached):
 *   ids[0..C-1]  tokens in the target's cache: committed
 *   ids[C]       the newest token, emitted, not yet seen by the target ("cur", the anchor)
 * propose() guesses ids[C+1..]; it may leave guesses in the drafter's own caches. commit() tells
 * what became true: the drafter drops whatever contradicts it. A drafter can make generation slow,
 * never wrong. Each kind is one file and one row of the table in drafter.c. */
#ifndef SP_RUNTIME_SPECULATE_DRAFTER_H
#define SP_RUNTIME_SPECULATE_DRAFTER_H

#include "runtime/sampling/chooser.h"
#include "runtime/speculate/draft_length.h"
#include "runtime/speculate/scheduler.h"

struct sp_drafter; /* each kind's own struct begins with it */

struct sp_drafter_setup {
    const struct sp_model *target;
    const struct sp_model *draft;
    const struct sp_decoder *decoder; /* the target's; outlives the drafter */
    const struct sp_backend *backend;
    struct sp_scheduler *scheduler; /* outlives the drafter */
    /* Drafters of one file's draft share the room for their passes, which the first one opens for
     * max_batch >= 1 of them. */
    size_t max_batch;
    const struct sp_drafter *shared_with; /* one that has it; NULL: this one is the first */
    size_t n_positions;                   /* context of the session */
    size_t max_rows;                      /* most rows one commit brings */
    enum sp_kv_type kv_type;
};

/* Rows that the target has just committed, in position order. */
struct sp_commit {
    const uint32_t *ids;   /* the whole sequence from position 0 */
    size_t first, n;       /* positions first..first+n-1 */
    const float *features; /* [n][n_taps * H] if the drafter wants taps, else NULL */
};

/* How guesses are made out of logits, and who says how many. */
struct sp_proposal {
    const struct sp_chooser *chooser;
    struct sp_draft_length *draft_len; /* judges every guess; NULL: as many as were asked for */
};

struct sp_drafter_ops {
    enum sp_draft_kind kind;
    bool stepwise; /* each guess costs a pass of its own; else a whole block comes at once */
    /* Most tokens that any proposal of this draft holds. */
    size_t (*max_draft_len)(const struct sp_model *draft);
    /* What commit() is given: the target's residual stream after these layers (SP_TAP_FINAL: after
     * the final norm). Borrowed from the draft, or static; NULL: nothing. */
    const unsigned *(*taps)(const struct sp_model *draft, unsigned *n_taps);
    enum sp_status (*check)(const struct sp_model *target, const struct sp_model *draft,
                            struct sp_err *err);
    /* Without the turn: runs nothing. */
    enum sp_status (*open)(struct sp_drafter **out, const struct sp_drafter_setup *setup,
                           struct sp_err *err);
    /* Most tokens one proposal can hold behind ids[0..n_cached]; 0: there is nothing to propose. */
    size_t (*limit)(struct sp_drafter *drafter, const uint32_t *ids, size_t n_cached);
    /* Reads what it has not read of ids[0..n_cached - 1], if that is more than one round leaves: a
     * prompt, or what plain steps wrote. Before a proposal, whose time it would distort. Others may
     * have the turn meanwhile. NULL: nothing ever waits. */
    void (*catch_up)(struct sp_drafter *drafter, const uint32_t *ids, size_t n_cached);
    /* Writes guesses to ids[n_cached + 1 .. n_cached + *n]; 1 <= *n <= limit. Made by
     * sp_propose_token, one after the other, until it says that no more are wanted; *n becomes how
     * many there are. Others may have the turn meanwhile, in this function and in catch_up alone.
     */
    enum sp_status (*propose)(struct sp_drafter *drafter, uint32_t *ids, size_t n_cached, size_t *n,
                              const struct sp_proposal *proposal, struct sp_err *err);
    /* Logits behind entry i of the last proposal, over the rows of the draft's head; `best` is not
     * told. */
    struct sp_logits (*logits)(const struct sp_drafter *drafter, size_t i);
    void (*commit)(struct sp_drafter *drafter, const struct sp_commit *commit);
    /* Forgets everything from position len on; of the text, ids[0..n_same-1] stay what they were,
     * n_same >= len. False, and nothing is changed: what a proposal at len would read is gone
     * (windows forget). len 0 is always possible. */
    bool (*truncate)(struct sp_drafter *drafter, size_t len, size_t n_same);
    size_t (*cache_size)(const struct sp_drafter *drafter);
    /* What it remembers of the n_cached positions; read: into one that was truncated to nothing,
     * and is truncated again on failure. NULL: the next commit brings all that it takes. */
    enum sp_status (*state)(struct sp_drafter *drafter, struct sp_session_file *file,
                            size_t n_cached, struct sp_err *err);
    void (*close)(struct sp_drafter *drafter);
};

/* Time that a drafter's passes took, those of sp_drafter_pass. */
struct sp_pass_time {
    double away;    /* until they were done, the waiting included */
    double seconds; /* of the passes themselves, whoever shared them */
    double part;    /* ... divided by the rows of all: what this drafter's cost */
};

struct sp_drafter {
    const struct sp_drafter_ops *ops; /* static */
    struct sp_scheduler *scheduler;   /* borrowed; NULL: it runs no passes */
    struct sp_pass_time time;
};

/* Runs a pass of the draft's, together with those of others who make guesses at the same time. */
void sp_drafter_pass(struct sp_drafter *drafter, const struct sp_batch_seq *seq,
                     enum sp_priority priority);

/* Do the draft's shapes fit this target, so that opening a drafter is safe? A packed file's pair
 * was checked in full when it was created; a file from a stranger gets this check every time. */
SP_MUST_CHECK enum sp_status sp_drafter_check(const struct sp_model *target,
                                              const struct sp_model *draft, struct sp_err *err);

/* Writes the guess for position `pos` to ids[pos]; *more = false: this was the last one wanted. */
SP_MUST_CHECK enum sp_status sp_propose_token(const struct sp_proposal *proposal, bool *more,
                                              uint32_t *ids, size_t pos,
                                              const struct sp_logits *logits, struct sp_err *err);

/* The same where the draft itself says how sure it is of the guess, 0..1. */
SP_MUST_CHECK enum sp_status sp_propose_rated_token(const struct sp_proposal *proposal, bool *more,
                                                    uint32_t *ids, size_t pos,
                                                    const struct sp_logits *logits,
                                                    double confidence, struct sp_err *err);

/* The same for ids[pos] that no logits chose. *kept = false, and no more are wanted: the target
 * will never choose it, and it is no guess. */
SP_MUST_CHECK enum sp_status sp_propose_copied_token(const struct sp_proposal *proposal, bool *kept,
                                                     bool *more, const uint32_t *ids, size_t pos,
                                                     double confidence, struct sp_err *err);

/* The row of a kind; NULL if there is none. */
const struct sp_drafter_ops *sp_drafter_find(enum sp_draft_kind kind);

extern const struct sp_drafter_ops sp_draft_lm_ops, sp_draft_dflash_ops, sp_draft_mtp_ops,
    sp_draft_dflash2_ops, sp_draft_assistant_ops, sp_draft_dspark_ops, sp_draft_eagle3_ops,
    sp_draft_peagle_ops;

#endif
