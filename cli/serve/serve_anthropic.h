/* Anthropic's Messages API: what it asks (serve_anthropic.c), its conversations
 * (serve_anthropic_messages.c), and how it is told an answer (serve_anthropic_out.c).
 *
 * https://platform.claude.com/docs/en/api/messages; members of newer and beta releases as its
 * client libraries type them. */
#ifndef SP_CLI_SERVE_SERVE_ANTHROPIC_H
#define SP_CLI_SERVE_SERVE_ANTHROPIC_H

#include "cli/serve/serve.h"

/* What /v1/messages/count_tokens is sent: all that the prompt is made of. */
SP_MUST_CHECK enum sp_status sp_serve_anthropic_read_prompt(struct sp_serve_request *request,
                                                            const struct sp_serve *serve,
                                                            struct sp_err *err);
/* ... and what says how to answer. */
SP_MUST_CHECK enum sp_status sp_serve_anthropic_read(struct sp_serve_request *request,
                                                     const struct sp_serve *serve,
                                                     struct sp_err *err);

/* ask->messages, and ask->begun where the last message is the assistant's, from the body's system
 * and messages. */
SP_MUST_CHECK enum sp_status
sp_serve_anthropic_read_messages(struct sp_serve_request *request,
                                 const struct sp_conversation *conversation, struct sp_err *err);

/* {"type": "error", "error": {"type": ..., "message": ...}} */
void sp_serve_anthropic_fail(struct sp_json_out *out, int status, const char *sentence);

/* The error (400) of a request with a `thread`, a conversation that the server keeps: with the code
 * that tells client libraries to go on without. */
void sp_serve_anthropic_refuse_thread(struct sp_json_out *out, const char *sentence);

#endif
