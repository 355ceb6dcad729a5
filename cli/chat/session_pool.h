/* The sessions of the server, or of a batch: conversations that take turns find what they had read.
 */
#ifndef SP_CLI_CHAT_SESSION_POOL_H
#define SP_CLI_CHAT_SESSION_POOL_H

#include "runtime/spectool.h"

struct sp_session_pool; /* opaque */

/* Up to n of them: `first`, borrowed, and others like it, which are opened when they are needed. */
SP_MUST_CHECK enum sp_status sp_session_pool_new(struct sp_session_pool **out,
                                                 struct sp_session *first, size_t n,
                                                 struct sp_err *err);
void sp_session_pool_free(struct sp_session_pool *sessions); /* NULL is fine; not the first */

/* The one to answer a prompt with, until it is given back: what has to be read, and what is
 * overwritten that may be wanted again, is the least. Where there is no memory for another one it
 * is one of those there are; where all are taken this waits for one. Any thread may call. */
struct sp_session *sp_session_pool_take(struct sp_session_pool *sessions, const uint32_t *prompt,
                                        size_t n_prompt);
void sp_session_pool_give(struct sp_session_pool *sessions, struct sp_session *session);

#endif
