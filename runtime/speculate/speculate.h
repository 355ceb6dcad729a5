/* The loop that makes text: propose, verify, accept, roll back.
 *
 * One round contract for every kind of draft (Leviathan et al. 2023, greedy and position-keyed
 * form):
 *   1. the drafter proposes d1..dn for the positions after cur;
 *   2. the target runs the rows [cur, d1..dn] in one pass: row i predicts the token after it;
 *   3. row by row the chooser picks the target's own token; the walk goes on while it equals the
 *      guess, and stops at the first that differs (the correction), after the last (the bonus), or
 * at an end-of-sequence token;
 *   4. what was emitted becomes committed, except the last token, which is the new cur.
 * Three invariants: every emitted token was chosen from a row the plain loop would have computed,
 * bit for bit; after a round both caches hold exactly the emitted prefix minus cur; the drafter
 * never decides anything. */
#ifndef SP_RUNTIME_SPECULATE_SPECULATE_H
#define SP_RUNTIME_SPECULATE_SPECULATE_H

#include "runtime/speculate/draft_ngram.h"
#include "runtime/speculate/scheduler.h"

/* Rows that can be timed, or verified, whatever the drafter's limit. */
enum { SP_TIMED_ROWS = SP_DRAFT_NGRAM_MAX + 1 };

/* Told each chosen token with the row that chose it; nonzero: stop here, drop the rest of the
 * round. `drafted`: the drafter had guessed it. */
typedef int sp_emit_fn(void *context, uint32_t id, const struct sp_logits *logits, bool drafted);

struct sp_speculator {
    const struct sp_model *target;  /* borrowed */
    struct sp_scheduler *scheduler; /* borrowed */
    struct sp_decoder *decoder;     /* the target's, owned */
    struct sp_drafter *drafter;     /* of the file's draft, owned; NULL: none */
    struct sp_drafter *ngram;       /* owned; NULL: none */
    struct sp_drafter
        *grammar_draft; /* of the grammar of the answer in hand; borrowed; NULL: none */
    size_t n_positions;
    size_t max_draft_len; /* of the file's draft */
    size_t prompt_rows;   /* rows of a prompt pass */
    size_t max_rows;      /* most rows of any pass */
    uint32_t *ids;        /* [n_positions and a block], owned */
    size_t n_ids;         /* tokens known */
    size_t n_cached;      /* of these, in the target's cache */
    size_t n_reused;      /* prompt tokens that the last prompt found in the cache */
};

struct sp_speculator_options {
    size_t n_positions; /* context */
    size_t prompt_rows; /* rows of a prompt pass */
    enum sp_kv_type kv_type;
    bool ngram; /* guesses may be looked up in the text so far */
    struct sp_scheduler
        *scheduler; /* must outlive the speculator, and be entered for all it is asked */
    /* Speculators of the same options but this may share the room for their passes, which one has
     * opened for max_batch of them (0: for itself) and the others are told of. */
    size_t max_batch;
    const struct sp_speculator *shared_with; /* NULL: it has room of its own */
};

/* draft NULL: none. Models and engine must outlive the speculator. */
SP_MUST_CHECK enum sp_status
sp_speculator_open(struct sp_speculator **out, const struct sp_model *target,
                   const struct sp_model *draft, const struct sp_backend *backend,
                   const struct sp_speculator_options *options, struct sp_err *err);
void sp_speculator_close(struct sp_speculator *s); /* NULL is fine */

/* How many of the first tokens of a prompt are cached and need not be read again; the last one is,
 * and perhaps one more for a draft. */
size_t sp_speculator_find(const struct sp_speculator *s, const uint32_t *prompt, size_t n);

/* Brings the caches to prompt[0..n-1], reusing what they already hold of it, and tells the logits
 * of the last row (valid until the next pass). 1 <= n <= n_positions. A nonzero return of
 * `progress` (may be NULL; called between passes with the rows done) cancels: SP_E_CHECK. */
SP_MUST_CHECK enum sp_status sp_speculator_prompt(struct sp_speculator *s, const uint32_t *prompt,
                                                  size_t n, struct sp_logits *logits,
                                                  int (*progress)(void *, size_t, size_t),
                                                  void *context, struct sp_err *err);

/* Appends a token chosen from the prompt's last row: the first cur. */
void sp_speculator_begin(struct sp_speculator *s, uint32_t id);

/* Most guesses that this drafter (NULL: none) of the speculator's can make now, and the context
 * take. */
size_t sp_speculator_limit(struct sp_speculator *s, struct sp_drafter *drafter);

/* The first half of a round: asks for n guesses, 1 <= n <= sp_speculator_limit. guesser->depth says
 * how many to make and to verify of them; without it, all. Another proposal replaces them. Fills
 * what `round` says of guesses. */
SP_MUST_CHECK enum sp_status sp_speculator_propose(struct sp_speculator *s,
                                                   struct sp_drafter *drafter, size_t n,
                                                   const struct sp_proposal *proposal,
                                                   struct sp_round *round, struct sp_err *err);

/* The other half: verifies round->drafted guesses (0: a plain step) and emits what they bring; at
 * least one position must be free. Fills the rest of `round`. Where the chooser fails, the caches
 * hold all that was emitted: the next thing is a prompt. */
SP_MUST_CHECK enum sp_status sp_speculator_verify(struct sp_speculator *s,
                                                  const struct sp_chooser *chooser,
                                                  sp_emit_fn *emit, void *context,
                                                  struct sp_round *round, struct sp_err *err);

/* Both for `depth` guesses of the file's draft, fewer if it cannot give as many. */
SP_MUST_CHECK enum sp_status sp_speculator_round(struct sp_speculator *s, size_t draft_len,
                                                 const struct sp_proposal *proposal,
                                                 sp_emit_fn *emit, void *context,
                                                 struct sp_round *round, struct sp_err *err);

/* Seconds of one target pass of n_rows rows of different tokens (all their logits; at most the
 * larger of SP_TIMED_ROWS and max_draft_len + 1) and of one proposal of n guesses (0: none), now;
 * leaves every committed position as it was. After begin. */
SP_MUST_CHECK enum sp_status sp_speculator_time(struct sp_speculator *s, size_t n_rows, size_t n,
                                                const struct sp_chooser *chooser,
                                                double *verify_seconds, double *draft_seconds,
                                                struct sp_err *err);

#endif
