/* The response format that a request states, as a grammar: one function for each API. */
#ifndef SP_CLI_SERVE_REQUEST_SERVE_RESPONSE_FORMAT_H
#define SP_CLI_SERVE_REQUEST_SERVE_RESPONSE_FORMAT_H

#include "cli/serve/request/serve_request.h"

/* Each function sets request->grammar from the members of one API: OpenAI's `response_format` and
 * llama-server's `grammar` and `json_schema`; the Responses API's `text.format`; ollama's
 * `format`; Anthropic's `output_format` or `output_config`. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_response_format(struct sp_serve_request *request,
                                                                  struct sp_err *err);
SP_MUST_CHECK enum sp_status
sp_serve_responses_read_response_format(struct sp_serve_request *request, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_serve_ollama_read_response_format(struct sp_serve_request *request,
                                                                  struct sp_err *err);
SP_MUST_CHECK enum sp_status
sp_serve_anthropic_read_response_format(struct sp_serve_request *request, struct sp_err *err);

#endif
