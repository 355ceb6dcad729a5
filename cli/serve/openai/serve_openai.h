/* The OpenAI API: its requests (serve_openai.c), its responses (serve_openai_out.c), and what its
 * chat, completions and Responses APIs share. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_OPENAI_H
#define SP_CLI_SERVE_OPENAI_SERVE_OPENAI_H

#include "cli/serve/jobs/serve.h"
#include "cli/serve/request/serve_request.h"
#include "format/json/json_write.h"

/* The members of requests. */
extern const struct sp_serve_field sp_serve_openai_chat_fields[], sp_serve_openai_text_fields[];

/* ---- shared by its APIs ---- */

/* Reads a limit of the length, a setting, which is not 0 unless the prompt alone is wanted. */
sp_serve_read_fn sp_serve_openai_read_limit;
/* Reads the level of reasoning effort. */
sp_serve_read_fn sp_serve_openai_read_effort;

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
sp_serve_read_fn sp_serve_openai_read_lora;

/* ---- the Responses API (serve_responses*.c) ---- */

/* The members of requests. */
extern const struct sp_serve_field sp_serve_responses_fields[];

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

/* Reads `tools`: converts the functions to the format of the chat API. */
sp_serve_read_fn sp_serve_responses_read_tools;

#endif
