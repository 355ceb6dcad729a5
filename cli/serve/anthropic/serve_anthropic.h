/* Anthropic's Messages API: its requests (serve_anthropic.c), its conversations
 * (serve_anthropic_messages.c) and its responses (serve_anthropic_out.c).
 *
 * https://platform.claude.com/docs/en/api/messages; members of newer and beta releases follow the
 * types of its client libraries. */
#ifndef SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_H
#define SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_H

#include "cli/serve/jobs/serve.h"

/* The members of requests: all, and those that make up the prompt; /v1/messages/count_tokens has no
 * others. */
extern const struct sp_serve_field sp_serve_anthropic_fields[], sp_serve_anthropic_prompt_fields[];

/* Sets request->messages from the body's `system` and `messages`, and request->partial if the last
 * message is the assistant's. */
SP_MUST_CHECK enum sp_status sp_serve_anthropic_read_messages(struct sp_serve_request *request,
                                                              struct sp_err *err);

#endif
