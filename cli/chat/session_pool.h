/* The sessions of the server or of a batch. Alternating conversations find their prompts cached,
 * each in a session. */
#ifndef SP_CLI_CHAT_SESSION_POOL_H
#define SP_CLI_CHAT_SESSION_POOL_H

#include "runtime/spectool.h"

struct sp_session_pool; /* opaque */

/* Creates a pool of up to n sessions: `first`, which is borrowed, and others like it, which are
 * opened when they are needed. */
SP_MUST_CHECK enum sp_status sp_session_pool_new(struct sp_session_pool **out,
                                                 struct sp_session *first, size_t n,
                                                 struct sp_err *err);
void sp_session_pool_free(
    struct sp_session_pool *sessions); /* accepts NULL; does not close the first session */

/* Takes a session to answer a prompt with by an adapter with a finite scale, lora NULL: none, until
 * sp_session_pool_give. It is the one with the least to process and the least useful cache to
 * overwrite. If memory does not suffice for a new session, an existing one is used; if all are
 * taken the call blocks. Any thread may call. */
struct sp_session *sp_session_pool_take(struct sp_session_pool *sessions,
                                        const struct sp_lora *lora, float scale,
                                        const uint32_t *prompt, size_t n_prompt);
/* True if the session of this number, below the n of sp_session_pool_new, is taken. [any thread] */
bool sp_session_pool_is_taken(struct sp_session_pool *sessions, size_t number);
/* Clears the least recently used session that is not taken and has memory in its caches. Returns
 * false if there is none. [any thread] */
bool sp_session_pool_clear_oldest(struct sp_session_pool *sessions);
void sp_session_pool_give(struct sp_session_pool *sessions, struct sp_session *session);

#endif
