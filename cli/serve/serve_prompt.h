/* The prompt of a request: token ids, text as it is, or a conversation through the chat template.
 */
#ifndef SP_CLI_SERVE_SERVE_PROMPT_H
#define SP_CLI_SERVE_SERVE_PROMPT_H

#include "cli/serve/serve.h"

/* Valid when zeroed. */
struct sp_serve_prompt {
    const uint32_t *ids; /* [n_ids]; borrowed from one of the following */
    size_t n_ids;
    struct sp_ids raw;               /* owned */
    struct sp_chat *chat;            /* of the request's own template; owned; NULL: the file's */
    struct sp_chat_prompt *rendered; /* by the template; owned; NULL: raw */
};
void sp_serve_prompt_release(struct sp_serve_prompt *prompt);

/* which: of several prompts without a template. Templates are used by one thread at a time. */
SP_MUST_CHECK enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out,
                                                  const struct sp_serve_request *request,
                                                  size_t which, const struct sp_generation *g,
                                                  struct sp_err *err);

/* How many tokens it has. For several threads at the same time. */
SP_MUST_CHECK enum sp_status sp_serve_prompt_count(size_t *n_tokens, const struct sp_serve *serve,
                                                   const struct sp_serve_request *request,
                                                   struct sp_err *err);

#endif
