/* --prompt-cache: prompts that were read stay read, in a file, from one run to the next. */
#ifndef SP_CLI_CHAT_PROMPT_CACHE_H
#define SP_CLI_CHAT_PROMPT_CACHE_H

#include "runtime/spectool.h"

/* Lets the session go on from the file; if it is not there, SP_E_IO where it could not be written.
 * One of a run without the draft is of no use with it: a note says so. */
SP_MUST_CHECK enum sp_status sp_prompt_cache_load(struct sp_session *session, const char *path,
                                                  struct sp_err *err);

/* Keeps a prompt of n tokens that was just read, n_reused of which were cached; unless so few were
 * read that the file would not be worth its writing. Failing costs no answer: a note says so. */
void sp_prompt_cache_keep(struct sp_session *session, const char *path, size_t n, size_t n_reused);

#endif
