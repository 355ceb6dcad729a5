/* OpenAI's Responses API: what it asks (serve_responses.c, its conversation and tools in
 * serve_responses_input.c and serve_responses_tools.c), and how it is told an answer
 * (serve_responses_out.c), as it comes in numbered events (serve_responses_events.c).
 *
 * Nothing is kept between requests: each brings its whole conversation.
 * https://platform.openai.com/docs/api-reference/responses */
#ifndef SP_CLI_SERVE_SERVE_RESPONSES_H
#define SP_CLI_SERVE_SERVE_RESPONSES_H

#include "cli/serve/serve_openai.h"

/* ---- the request ---- */

/* *messages = `instructions` and `input` as messages of the chat API, an array owned by the caller:
 * all that the system and the developer say first is one message, and what the assistant thought,
 * said and called in a row is another. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_input(struct sp_json **messages,
                                                           const struct sp_json *body,
                                                           struct sp_err *err);

/* `tools` and `tool_choice`: functions in the chat API's form, those that are allowed. */
SP_MUST_CHECK enum sp_status sp_serve_responses_read_tools(struct sp_serve_request *request,
                                                           struct sp_err *err);

/* Does the request's `include` have it? */
bool sp_serve_responses_includes(const struct sp_json *body, const char *name);

/* What stands before a thought in `encrypted_content`, which is not encrypted here: that of other
 * servers is not taken for one. */
#define SP_SERVE_REASONING_TAG "spectool:"

/* ---- the answer ---- */

enum { SP_RESPONSES_ID_SIZE = SP_SERVE_ID_SIZE + 24 };

/* Has the request asked for a summary of thoughts? They are told as one. */
bool sp_serve_responses_sums_up(const struct sp_serve_response *response);

/* The id of the part of what was said, an item of the output; returns `id`. */
const char *sp_serve_responses_id(char id[SP_RESPONSES_ID_SIZE],
                                  const struct sp_serve_response *response, size_t part);

/* The text of a part; of a call its arguments. Borrowed. */
const char *sp_serve_responses_text(size_t *size, const struct sp_serve_response *response,
                                    size_t part);

/* Member "logprobs": of the tokens of a part. */
void sp_serve_responses_write_logprobs(struct sp_serve_response *response, size_t part);

/* The one part of an item's content or summary; begun: without its text. */
void sp_serve_responses_write_content(struct sp_serve_response *response, const char *key,
                                      size_t part, bool begun);

/* An item; begun: nothing of it is said yet. */
void sp_serve_responses_write_item(struct sp_serve_response *response, const char *key, size_t part,
                                   const char *status, bool begun);

/* The response. result NULL: not there, in progress or, with a sentence, failed. */
void sp_serve_responses_write(struct sp_serve_response *response, const char *key,
                              const struct sp_result *result, const char *sentence);

/* The dialect's calls for streams. */
void sp_serve_responses_begin(struct sp_serve_response *response);
void sp_serve_responses_wait(struct sp_serve_response *response);
void sp_serve_responses_piece(struct sp_serve_response *response, const struct sp_chat_part *piece);
void sp_serve_responses_end(struct sp_serve_response *response, const struct sp_result *result);
void sp_serve_responses_broken(struct sp_serve_response *response, int status,
                               const char *sentence);

#endif
