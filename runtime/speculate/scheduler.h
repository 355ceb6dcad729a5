/* Batches the forward passes of threads that generate from one package at the same time, each in a
 * session of its own.
 *
 * Only one thread runs at a time: it holds the scheduler. A thread that needs a forward pass, of
 * the target or of the draft, submits its batch entry and blocks. Once every active thread has
 * submitted one, the entries of one model run through the layers as one batch, and each of their
 * threads then acquires the scheduler again and goes on. So the backend has a single caller at a
 * time, and the weights are read once for the whole batch. Batching does not change any output,
 * since no row's result depends on another row.
 *
 * Passes of the draft go first: while any thread still proposes draft tokens, the others wait, and
 * then one pass of the target verifies the tokens of all.
 *
 * While a thread holds the scheduler the others wait. A callback of a session must therefore
 * return soon and must not wait for another session. A scheduler without passes is a lock that
 * threads get in the order in which they ask for it. */
#ifndef SP_RUNTIME_SPECULATE_SCHEDULER_H
#define SP_RUNTIME_SPECULATE_SCHEDULER_H

#include "runtime/model/decoder.h"

struct sp_scheduler; /* opaque */

SP_MUST_CHECK enum sp_status sp_scheduler_open(struct sp_scheduler **out, struct sp_err *err);
void sp_scheduler_close(struct sp_scheduler *scheduler); /* NULL is fine; no thread may be active */

/* Waits until the calling thread holds the scheduler; a pass for which all active threads wait runs
 * before. The backend may only be used between acquire and release. */
void sp_scheduler_acquire(struct sp_scheduler *scheduler);
void sp_scheduler_release(struct sp_scheduler *scheduler);

/* The number of active threads. Only for a thread that holds the scheduler. */
size_t sp_scheduler_n_active(struct sp_scheduler *scheduler);

/* The number of prompt rows to submit in one pass, at most `most`. With other active threads it is
 * smaller, so that they do not wait long for their next token. */
size_t sp_scheduler_prompt_rows(struct sp_scheduler *scheduler, size_t most);
/* The same for the target: beside answers the rows of all prompts are to take three quarters of the
 * time of a pass without prompts. */
size_t sp_scheduler_target_rows(struct sp_scheduler *scheduler, size_t most);

/* Which entry runs next. */
enum sp_priority {
    SP_PRIORITY_FIFO,      /* the oldest entry, with those that fit in a batch with it */
    SP_PRIORITY_DRAFT,     /* draft passes: before all FIFO entries */
    SP_PRIORITY_EXCLUSIVE, /* by age, in a batch of its own */
};

/* The batch that an entry ran in. */
struct sp_pass {
    size_t number;         /* 1 for the first pass of the scheduler, then 2 ... */
    size_t n_rows, n_seqs; /* of the whole batch */
    size_t n_draft_rows;   /* rows that are draft tokens */
    size_t n_prompts;      /* sequences with several rows that are none */
    double seconds;        /* time of the pass, waiting excluded */
};

/* Runs a forward pass of this entry, perhaps in a batch with entries of other threads, and returns
 * when it is done. The logits stay valid until the next call or until the scheduler is released.
 * The caller holds the scheduler, which other threads may hold in between. */
void sp_scheduler_run(struct sp_scheduler *scheduler, const struct sp_batch_seq *seq,
                      enum sp_priority priority, struct sp_pass *pass);

/* Learns from a pass of the target how long answers and the rows of prompts take. */
void sp_scheduler_learn(struct sp_scheduler *scheduler, const struct sp_pass *pass);

#endif
