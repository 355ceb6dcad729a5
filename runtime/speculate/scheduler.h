/* Threads that generate from one package at the same time, each with a session of its own.
 *
 * One of them works at a time: it has the turn. Who needs a pass, of the target or of the draft,
 * hands in its share and gives up the turn. When all who are in have done so, shares of one model
 * go through the layers together, in one pass, and each of these threads takes the turn again to go
 * on with what the pass brought. So the engine has one caller at a time, weights are read once for
 * all, and since a row's results do not depend on the rows beside it, nobody can tell from his text
 * that others were there.
 *
 * Guesses go first: as long as anybody makes some, the others wait, and then the target checks
 * those of all in one pass.
 *
 * While one has the turn the others wait: callbacks of a session are to return soon, and not to
 * wait for another session. */
#ifndef SP_RUNTIME_SPECULATE_SCHEDULER_H
#define SP_RUNTIME_SPECULATE_SCHEDULER_H

#include "runtime/model/decoder.h"

struct sp_scheduler; /* opaque */

SP_MUST_CHECK enum sp_status sp_scheduler_open(struct sp_scheduler **out, struct sp_err *err);
void sp_scheduler_close(struct sp_scheduler *scheduler); /* NULL is fine; nobody is in */

/* Waits for the turn. Every use of the engine is between these two. */
void sp_scheduler_acquire(struct sp_scheduler *scheduler);
void sp_scheduler_release(struct sp_scheduler *scheduler);

/* How many are in. For one of them. */
size_t sp_scheduler_n_active(struct sp_scheduler *scheduler);

/* How many rows of a prompt to hand in at once, `most` at most. Beside others, fewer: these need
 * not wait long for their next token. */
size_t sp_scheduler_prompt_rows(struct sp_scheduler *scheduler, size_t most);

/* Whose pass comes next. */
enum sp_priority {
    SP_PRIORITY_FIFO,      /* who waits longest, and those that fit with it */
    SP_PRIORITY_DRAFT,     /* before those: guesses */
    SP_PRIORITY_EXCLUSIVE, /* by age, and with nobody */
};

/* The pass that a share was in. */
struct sp_pass {
    size_t n_rows, n_seqs; /* all of them */
    size_t n_draft_rows;   /* rows: guesses */
    double seconds;        /* without the waiting */
};

/* Has a pass run with this share, perhaps together with those of others. The logits are valid until
 * the next call, or until the turn is left. */
void sp_scheduler_run(struct sp_scheduler *scheduler, const struct sp_batch_seq *seq,
                      enum sp_priority priority, struct sp_pass *pass);

#endif
