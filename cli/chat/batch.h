/* run --batch: a prompt a line on standard input, an answer a line on standard output, in the same
 * order; several are generated at a time, in passes that they share. */
#ifndef SP_CLI_CHAT_BATCH_H
#define SP_CLI_CHAT_BATCH_H

#include "cli/chat/generation.h"

/* Of `generation`, which is open, its session is one of the n. A line that cannot be answered gets
 * an error in its place. SP_E_NOMEM: so did some for lack of memory. SP_E_CHECK: a signal was
 * caught; what was complete is out. */
SP_MUST_CHECK enum sp_status sp_batch(struct sp_generation *generation, size_t n_sessions,
                                      struct sp_err *err);

#endif
