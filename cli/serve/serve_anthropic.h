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

#endif
