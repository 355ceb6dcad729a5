/* OpenAI's Responses API: the items of an answer as JSON. */
#ifndef SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_OUT_H
#define SP_CLI_SERVE_OPENAI_SERVE_RESPONSES_OUT_H

#include "cli/serve/jobs/serve_job.h"

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
