/* Anthropic's Messages API: the messages of a request. */
#ifndef SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_MESSAGES_H
#define SP_CLI_SERVE_ANTHROPIC_SERVE_ANTHROPIC_MESSAGES_H

#include "cli/serve/jobs/serve.h"

/* Sets request->messages from the body's `system` and `messages`, and request->partial if the last
 * message is the assistant's. */
SP_MUST_CHECK enum sp_status
sp_serve_anthropic_read_messages(struct sp_serve_request *request,
                                 const struct sp_conversation *conversation, struct sp_err *err);

#endif
