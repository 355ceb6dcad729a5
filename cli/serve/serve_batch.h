/* Answers requests of OpenAI's and Anthropic's APIs that are lines of a batch, as the server
 * answers the same requests.
 *
 * OpenAI: {"custom_id", "method", "url", "body"} becomes {"id", "custom_id", "response": {
 * "status_code", "request_id", "body"}, "error"}. https://platform.openai.com/docs/guides/batch
 * Anthropic: {"custom_id", "params"} becomes {"custom_id", "result": {"type", ...}}.
 * https://docs.anthropic.com/en/api/creating-message-batches */
#ifndef SP_CLI_SERVE_SERVE_BATCH_H
#define SP_CLI_SERVE_SERVE_BATCH_H

#include "cli/chat/batch.h"

struct sp_serve_batch; /* opaque */

/* Starts n_sessions threads that generate in the sessions of `pool`. All arguments are borrowed
 * until sp_serve_batch_close. refused: an option of the command that the APIs do not have, so that
 * every request is refused; NULL: none. */
SP_MUST_CHECK enum sp_status sp_serve_batch_open(struct sp_serve_batch **out,
                                                 struct sp_loaded_model *loaded,
                                                 struct sp_session_pool *pool, size_t n_sessions,
                                                 const char *refused, struct sp_err *err);
void sp_serve_batch_close(struct sp_serve_batch *batch); /* accepts NULL */

/* The function of struct sp_batch_api; `batch` is the struct sp_serve_batch. */
SP_MUST_CHECK enum sp_status sp_serve_batch_answer(void *batch, FILE *out, size_t number,
                                                   const struct sp_json *line, struct sp_err *err);

#endif
