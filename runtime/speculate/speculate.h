/* Speculative decoding: propose, verify, accept, roll back.
 *
 * One contract for the rounds of every kind of draft (Leviathan et al. 2023, greedy and position-
 * keyed form):
 *   1. The drafter proposes d1..dn for the positions after cur.
 *   2. The target runs the rows [cur, d1..dn] in one pass; row i predicts the token after it.
 *   3. Row by row the chooser picks the target's own token. The walk continues while that equals
 *      the draft token, and stops at the first that differs (the correction), after the last (the
 *      bonus) or at an end-of-sequence token.
 *   4. What was emitted is committed, except the last token, which is the new cur.
 *
 * Three invariants: every emitted token was chosen from a row that plain decoding would have
 * computed, bit for bit; after a round both caches hold exactly the emitted prefix without cur;
 * the drafter never decides which token is emitted. */
#ifndef SP_RUNTIME_SPECULATE_SPECULATE_H
#define SP_RUNTIME_SPECULATE_SPECULATE_H

#include "runtime/speculate/drafter.h"
#include "runtime/speculate/prompt_pages.h"
#include "runtime/speculate/scheduler.h"

/* The number of rows that can be verified and timed with any drafter. */
enum { SP_TIMED_ROWS = SP_DRAFT_NGRAM_MAX + 1 };

/* Called with each chosen token and the row that chose it. Nonzero: stop and drop the rest of the
 * round. `drafted`: the token is an accepted draft token. */
typedef int sp_emit_fn(void *context, uint32_t id, const struct sp_logits *logits, bool drafted);

struct sp_speculator {
    const struct sp_model *target;    /* borrowed */
    struct sp_scheduler *scheduler;   /* borrowed */
    struct sp_decoder *decoder;       /* the target's, owned */
    struct sp_drafter *drafter;       /* of the file's draft model */
    struct sp_drafter *ngram;         /* owned; NULL: none */
    struct sp_prompt_pages *pages;    /* owned; NULL: no prompt cache */
    struct sp_drafter *grammar_draft; /* of the current answer's grammar; borrowed; NULL: none */
    size_t n_positions;
    size_t max_draft_len; /* of the file's draft */
    size_t prompt_rows;   /* rows of a pass over the prompt */
    size_t max_rows;      /* rows of the largest pass */
    uint32_t *ids;        /* [n_positions and a block], owned */
    size_t n_ids;         /* tokens of the sequence */
    size_t n_cached;      /* tokens in the target's cache, <= n_ids */
    size_t n_reused;      /* tokens of the last prompt that were cached already */
    size_t n_prompt;      /* tokens of the last prompt */
    size_t n_last;        /* tokens of the sequence at which the answer ends at the latest */
    const uint32_t *ends; /* [n_ends] tokens that end the answer; borrowed */
    size_t n_ends;
    enum sp_logits_need needs; /* what the current answer needs of the target's rows */
    double row_seconds;        /* of one of many rows in a pass of the target; 0: not known */
    double draft_size;         /* products of a row of the draft, relative to the target */
};

struct sp_speculator_options {
    struct sp_sequence_setup setup; /* without `decoder`; its scheduler is held by the caller of
                                       every function below but those that open, close or clear */
    size_t prompt_rows;             /* rows of a prompt pass */
    bool ngram;                     /* also draft by n-gram lookup in the text so far */
    double draft_size;              /* products of a row of the draft, relative to the target */
    const struct sp_speculator *shared_with; /* of the same options, whose workspaces to use; NULL:
                                                this one opens them */
};

SP_MUST_CHECK enum sp_status sp_speculator_open(struct sp_speculator **out,
                                                const struct sp_speculator_options *options,
                                                struct sp_err *err);
void sp_speculator_close(struct sp_speculator *s); /* NULL is fine */

/* Gives the caches of target and draft memory for n positions, and for a round and a timed pass
 * after them. SP_E_NOMEM, with the numbers, if there is too little; the sequence stays as it is. */
SP_MUST_CHECK enum sp_status sp_speculator_grow(struct sp_speculator *s, size_t n,
                                                struct sp_err *err);

/* The bytes that the caches of target and draft hold. */
size_t sp_speculator_cache_size(const struct sp_speculator *s);
/* The bytes that they hold for a sequence of n tokens. */
size_t sp_speculator_cache_size_for(const struct sp_speculator *s, size_t n);
/* Empties the caches and returns their memory. */
void sp_speculator_clear(struct sp_speculator *s);

/* The number of leading tokens of a prompt that are cached and need not be processed again. The
 * last token of a prompt always is, with some drafts one more. */
size_t sp_speculator_find(const struct sp_speculator *s, const uint32_t *prompt, size_t n);

/* Processes prompt[0..n-1], 1 <= n <= n_positions, reusing the prefix that is cached or that
 * the prompt cache has, and sets *logits to those of the last row, valid until the next pass.
 * `progress` (may be NULL) is called between passes with the number of rows done; a nonzero return
 * cancels with SP_E_CANCELLED. SP_E_NOMEM, before any pass, if there is too little memory for the
 * caches of the prompt. */
SP_MUST_CHECK enum sp_status sp_speculator_prompt(struct sp_speculator *s, const uint32_t *prompt,
                                                  size_t n, struct sp_logits *logits,
                                                  int (*progress)(void *, size_t, size_t),
                                                  void *context, struct sp_err *err);

/* Appends the token that was chosen from the prompt's last row; it becomes cur. */
void sp_speculator_begin(struct sp_speculator *s, uint32_t id);

/* The most tokens that this drafter (NULL: none) can propose now within the context. */
size_t sp_speculator_limit(struct sp_speculator *s, struct sp_drafter *drafter);

/* What the controller of the draft length should know before a proposal of this drafter. */
struct sp_draft_outlook sp_speculator_outlook(const struct sp_speculator *s,
                                              const struct sp_drafter *drafter);

/* First half of a round: asks a drafter for n draft tokens, 1 <= n <= sp_speculator_limit.
 * proposal->draft_len decides how many of them to make and to verify; NULL: all. A later proposal
 * replaces an earlier one. Sets the members of `round` that describe drafting. */
SP_MUST_CHECK enum sp_status sp_speculator_propose(struct sp_speculator *s,
                                                   struct sp_drafter *drafter, size_t n,
                                                   const struct sp_proposal *proposal,
                                                   struct sp_round *round, struct sp_err *err);

/* Second half of a round: verifies round->drafted draft tokens (0: a plain step) and emits the
 * accepted ones and one more token. At least one position must be free, and the caches must have
 * grown to n_cached before sp_speculator_propose. Sets the rest of `round`. If the chooser fails,
 * the caches hold all that was emitted, and only a prompt may follow. */
SP_MUST_CHECK enum sp_status sp_speculator_verify(struct sp_speculator *s,
                                                  const struct sp_chooser *chooser,
                                                  sp_emit_fn *emit, void *context,
                                                  struct sp_round *round, struct sp_err *err);

/* Growth and both halves with up to `draft_len` tokens of the file's draft model. */
SP_MUST_CHECK enum sp_status sp_speculator_round(struct sp_speculator *s, size_t draft_len,
                                                 const struct sp_proposal *proposal,
                                                 sp_emit_fn *emit, void *context,
                                                 struct sp_round *round, struct sp_err *err);

/* Times one target pass of n_rows rows of different tokens, which all get logits (at most the
 * larger of SP_TIMED_ROWS and max_draft_len + 1) and one proposal of n tokens (0: none). All
 * committed positions stay as they were. Call after sp_speculator_begin. */
SP_MUST_CHECK enum sp_status sp_speculator_time(struct sp_speculator *s, size_t n_rows, size_t n,
                                                const struct sp_chooser *chooser,
                                                double *verify_seconds, double *draft_seconds,
                                                struct sp_err *err);

/* ---- several drafters (draft_mix.c) ----
 *
 * One round of an answer by several drafters: the grammar of the answer (jump-forward decoding),
 * the n-gram lookup in the text so far, and the file's draft model.
 *
 * Each has a draft length controller of its own. The grammar and the n-gram lookup cost nothing, so
 * they are asked first, in this order; a proposal of theirs is verified if it promises more tokens
 * a second than the draft model has brought so far, an n-gram's if it promises half as much again.
 * With a given draft length they are verified
 * wherever they propose anything, and the draft model proposes elsewhere. */

/* The controllers of a session. Looking up costs and accepts otherwise in every text, so what is
 * learned of it stays with the session; all sessions of a package draft with one model. */
struct sp_draft_mix {
    struct sp_drafting_controller ngram_controller, grammar_controller;
    struct sp_draft_length draft, ngram, grammar_draft;
    bool ngram_if_automatic; /* no lookup with a given draft length */
};

/* The drafter whose tokens were verified. */
enum sp_proposed_by { SP_PROPOSED_BY_DRAFT, SP_PROPOSED_BY_NGRAM, SP_PROPOSED_BY_GRAMMAR };

/* `drafting`: of the draft model; must outlive *mix, which must stay where it is. */
void sp_draft_mix_init(struct sp_draft_mix *mix, struct sp_drafting_controller *drafting,
                       bool ngram_if_automatic);

/* Runs one round. most: the greatest number of draft tokens, 0 for a plain step; automatic: the
 * controllers choose how many of these to draft and to verify. *by: the drafter whose tokens were
 * verified, SP_PROPOSED_BY_DRAFT if there were none. Fills *round. */
SP_MUST_CHECK enum sp_status sp_draft_mix_round(struct sp_draft_mix *mix,
                                                struct sp_speculator *speculator, size_t most,
                                                bool automatic, const struct sp_chooser *chooser,
                                                sp_emit_fn *emit, void *context,
                                                struct sp_round *round, enum sp_proposed_by *by,
                                                struct sp_err *err);

#endif
