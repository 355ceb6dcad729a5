/* OpenAI's Responses API: the items of an answer as JSON. */
#ifndef SP_CLI_SERVE_SERVE_RESPONSES_OUT_H
#define SP_CLI_SERVE_SERVE_RESPONSES_OUT_H

#include "cli/serve/serve_job.h"

enum { SP_RESPONSES_ID_SIZE = SP_SERVE_ID_SIZE + 24 };

/* Does the request ask for a summary of the reasoning? The reasoning itself serves as one. */
bool sp_serve_responses_sums_up(const struct sp_serve_response *response);

/* Writes the id of a part of the message, which is an item of the output; returns `id`. */
const char *sp_serve_responses_id(char id[SP_RESPONSES_ID_SIZE],
                                  const struct sp_serve_response *response, size_t part);

/* The text of a part; of a call its arguments. Borrowed. */
const char *sp_serve_responses_text(size_t *size, const struct sp_serve_response *response,
                                    size_t part);

/* Writes the member "logprobs" with the tokens of a part. */
void sp_serve_responses_write_logprobs(struct sp_serve_response *response, size_t part);

/* The one part of an item's content or summary; begun: without its text. */
void sp_serve_responses_write_content(struct sp_serve_response *response, const char *key,
                                      size_t part, bool begun);

/* An item; begun: without its content. */
void sp_serve_responses_write_item(struct sp_serve_response *response, const char *key, size_t part,
                                   const char *status, bool begun);

/* The response. result NULL: not there, in progress or, with a sentence, failed. */
void sp_serve_responses_write(struct sp_serve_response *response, const char *key,
                              const struct sp_result *result, const char *sentence);

#endif
