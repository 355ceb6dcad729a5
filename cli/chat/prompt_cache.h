/* --prompt-cache: stores the processed prompt in a file for later runs. */
#ifndef SP_CLI_CHAT_PROMPT_CACHE_H
#define SP_CLI_CHAT_PROMPT_CACHE_H

#include "runtime/spectool.h"

/* Restores the session from the file. If the file does not exist, fails with SP_E_IO if it could
 * not be written later. A note says that the file of a run without the draft is not used. */
SP_MUST_CHECK enum sp_status sp_prompt_cache_load(struct sp_session *session, const char *path,
                                                  struct sp_err *err);

/* Saves a prompt of n tokens that was just processed, n_reused of which were cached, unless too
 * few were processed for the file to pay. A failure does not affect the answer: a note says so. */
void sp_prompt_cache_keep(struct sp_session *session, const char *path, size_t n, size_t n_reused);

#endif
