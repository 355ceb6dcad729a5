/* OpenAI's Responses API: the tools of a request. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_TOOLS_H
#define SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_TOOLS_H

#include "cli/serve/request/serve_request.h"

/* Reads `tools` and `tool_choice`: converts the allowed functions to the format of the chat API. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_tools(struct sp_serve_request *request,
                                                           struct sp_err *err);

#endif
