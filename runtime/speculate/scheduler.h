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

struct sp_turns; /* opaque */

SP_MUST_CHECK enum sp_status sp_turns_open(struct sp_turns **out, struct sp_err *err);
void sp_turns_close(struct sp_turns *turns); /* NULL is fine; nobody is in */

/* Waits for the turn. Every use of the engine is between these two. */
void sp_turns_enter(struct sp_turns *turns);
void sp_turns_leave(struct sp_turns *turns);

/* How many are in. For one of them. */
size_t sp_turns_n_in(struct sp_turns *turns);

/* How many rows of a prompt to hand in at once, `most` at most. Beside others, fewer: these need
 * not wait long for their next token. */
size_t sp_turns_prompt_rows(struct sp_turns *turns, size_t most);

/* Whose pass comes next. */
enum sp_precedence {
    SP_PASS_BY_AGE, /* who waits longest, and those that fit with it */
    SP_PASS_FIRST,  /* before those: guesses */
    SP_PASS_ALONE,  /* by age, and with nobody */
};

/* The pass that a share was in. */
struct sp_pass {
    size_t n_rows, n_seqs; /* all of them */
    size_t n_uncertain;    /* rows: guesses */
    double seconds;        /* without the waiting */
};

/* Has a pass run with this share, perhaps together with those of others. The logits are valid until
 * the next call, or until the turn is left. */
void sp_turns_pass(struct sp_turns *turns, const struct sp_batch_seq *seq,
                   enum sp_precedence precedence, struct sp_pass *pass);

#endif
