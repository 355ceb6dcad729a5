/* The prompt of a request as token ids: from ids, a raw text, or messages for the chat template. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_PROMPT_H
#define SP_CLI_SERVE_JOBS_SERVE_PROMPT_H

#include "cli/serve/jobs/serve.h"

/* The prompt of a request. Valid when zeroed. */
struct sp_serve_prompt {
    const uint32_t *ids; /* [n_ids] the prompt; borrowed from `raw` or `rendered` */
    size_t n_ids;
    struct sp_ids raw;    /* a prompt without a template; owned */
    struct sp_chat *chat; /* chat of the request's own template; owned; NULL: the file's */
    struct sp_chat_prompt *rendered; /* the rendered prompt; owned; NULL: the prompt is raw */
};
void sp_serve_prompt_release(struct sp_serve_prompt *prompt);

/* Reads the prompt; `which` is its index among several raw prompts. A text that cannot fit into the
 * context is refused before it is encoded; a prompt that is too long is SP_E_USAGE. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out,
                                                  const struct sp_serve *serve,
                                                  const struct sp_serve_request *request,
                                                  size_t which, struct sp_err *err);

/* *n = the number of tokens of the prompt. [any thread] */
SP_MUST_CHECK enum sp_status sp_serve_prompt_count(size_t *n_tokens, const struct sp_serve *serve,
                                                   const struct sp_serve_request *request,
                                                   struct sp_err *err);

#endif
