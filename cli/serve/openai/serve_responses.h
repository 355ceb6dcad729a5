/* What the sources of OpenAI's Responses API share. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_H
#define SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_H

#include "cli/serve/jobs/serve_job.h"
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

/* Reads `tools` and `tool_choice`: converts the allowed functions to the format of the chat API. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_tools(struct sp_serve_request *request,
                                                           struct sp_err *err);

enum { SP_RESPONSES_ID_SIZE = SP_SERVE_ID_SIZE + 24 };

/* True if the request asks for a summary of the reasoning, as which the reasoning itself serves. */
bool sp_serve_responses_wants_summary(const struct sp_serve_response *response);

/* Writes the id of a part of the message, which is an item of the output. Returns `id`. */
const char *sp_serve_responses_id(char id[SP_RESPONSES_ID_SIZE],
                                  const struct sp_serve_response *response, size_t part);

/* Returns the text of a part or, for a call, its arguments. Borrowed from the message. */
const char *sp_serve_responses_text(size_t *size, const struct sp_serve_response *response,
                                    size_t part);

/* Writes the member "logprobs" with the tokens of a part. */
void sp_serve_responses_write_logprobs(struct sp_serve_response *response, size_t part);

/* Writes the only part of an item's content or summary; partial: without its text. */
void sp_serve_responses_write_content(struct sp_serve_response *response, const char *key,
                                      size_t part, bool partial);

/* Writes an item; partial: without its content. */
void sp_serve_responses_write_item(struct sp_serve_response *response, const char *key, size_t part,
                                   const char *status, bool partial);

/* Writes the response object; result NULL: it is in progress or, with a sentence, has failed. */
void sp_serve_responses_write(struct sp_serve_response *response, const char *key,
                              const struct sp_result *result, const char *sentence);

#endif
