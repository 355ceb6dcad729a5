/* OpenAI's Responses API: an answer as numbered events. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_EVENTS_H
#define SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_EVENTS_H

#include "cli/serve/jobs/serve.h"

/* These functions implement the streams of struct sp_serve_api. */
void sp_serve_responses_begin(struct sp_serve_response *response);
void sp_serve_responses_keep_alive(struct sp_serve_response *response);
void sp_serve_responses_part(struct sp_serve_response *response, const struct sp_chat_part *part);
void sp_serve_responses_end(struct sp_serve_response *response, const struct sp_result *result);
void sp_serve_responses_fail_stream(struct sp_serve_response *response,
                                    const struct sp_serve_failure *failure);

#endif
