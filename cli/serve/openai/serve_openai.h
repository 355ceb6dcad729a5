/* The OpenAI API: its requests (serve_openai.c), its responses (serve_openai_out.c), and what its
 * chat, completions and Responses APIs share. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_OPENAI_H
#define SP_CLI_SERVE_OPENAI_SERVE_OPENAI_H

#include "cli/serve/jobs/serve.h"
#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"

enum sp_status sp_serve_openai_read_chat(struct sp_serve_request *request, struct sp_err *err);
enum sp_status sp_serve_openai_read_text(struct sp_serve_request *request, struct sp_err *err);

/* ---- shared by its APIs ---- */

/* Reads the sampling settings, and the length limit, not 0, from the members of `limits`. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_settings(struct sp_serve_request *request,
                                                           const struct sp_request_setting *limits,
                                                           struct sp_err *err);
/* Reads the body's chat_template_kwargs. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_kwargs(struct sp_serve_request *request,
                                                         struct sp_err *err);
/* Reads the level of reasoning effort from the member `key`. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_effort(struct sp_serve_request *request,
                                                         const struct sp_json *object,
                                                         const char *key, struct sp_err *err);

/* Writes {"error": {"message": ...}}. */
void sp_serve_openai_fail(struct sp_json_out *out, const struct sp_serve_failure *failure);

/* Writes it into a stream. */
void sp_serve_openai_fail_stream(struct sp_serve_response *response,
                                 const struct sp_serve_failure *failure);

/* Writes "timings" as llama-server does: prompt_n counts the tokens that were not cached. */
void sp_serve_openai_write_timings(struct sp_json_out *out, const struct sp_result *result);

/* Adapters by number, their place on the command line, and scale, as llama-server has them. A
 * request for an adapter by its name needs none of this. Reads the member `lora`, [{"id",
 * "scale"}], of which one scale may differ from 0. */
SP_MUST_CHECK enum sp_status sp_serve_openai_read_lora(struct sp_serve_request *request,
                                                       struct sp_err *err);

/* ---- the Responses API (serve_responses*.c) ---- */

/* Reads a request. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read(struct sp_serve_request *request,
                                                     struct sp_err *err);

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

/* Reads `tools` and `tool_choice`: converts the allowed functions to the format of the chat API. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_tools(struct sp_serve_request *request,
                                                           struct sp_err *err);

#endif
