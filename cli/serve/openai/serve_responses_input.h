/* OpenAI's Responses API: the conversation of a request. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_INPUT_H
#define SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_INPUT_H

#include "cli/serve/request/serve_request.h"

/* *messages = `instructions` and `input` of the request's body as messages of the chat API, an
 * array owned by the caller. The leading texts of system and developer form one message;
 * consecutive reasoning, text and calls of the assistant form another. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_input(struct sp_json **messages,
                                                           struct sp_serve_request *request,
                                                           struct sp_err *err);

/* True if the request's `include` contains the item. */
bool sp_serve_responses_includes(const struct sp_json *body, const char *name);

/* The prefix of reasoning in `encrypted_content`, which this server does not encrypt. Content of
 * other servers, without this prefix, is ignored. */
#define SP_SERVE_REASONING_TAG "spectool:"

#endif
