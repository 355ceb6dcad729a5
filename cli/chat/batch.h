/* run --batch: reads a prompt per line from standard input and writes an answer per line to
 * standard output, in the same order. Several answers are generated at a time, in batched passes.
 */
#ifndef SP_CLI_CHAT_BATCH_H
#define SP_CLI_CHAT_BATCH_H

#include "cli/chat/generation.h"

/* Runs the batch in n sessions, one of which is that of `generation`, which is open. A line that
 * cannot be answered gets an error in its place. SP_E_NOMEM: at least one line failed for lack of
 * memory. SP_E_CHECK: a signal was caught; the completed answers were written. */
SP_MUST_CHECK enum sp_status sp_batch(struct sp_generation *generation, size_t n_sessions,
                                      struct sp_err *err);

#endif
