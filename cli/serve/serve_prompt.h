/* The prompt of what a client asks for: ids, text as it is, or a conversation through the chat
 * template. */
#ifndef SP_CLI_SERVE_SERVE_PROMPT_H
#define SP_CLI_SERVE_SERVE_PROMPT_H

#include "cli/serve/serve.h"

/* Valid when zeroed. */
struct sp_serve_prompt {
    struct sp_ids ids; /* owned */
    char *text;        /* [size] what the template made of the conversation; owned; NULL: nothing */
    size_t size;
};
void sp_serve_prompt_release(struct sp_serve_prompt *prompt);

/* which: of several prompts without a template. g->conversation.has_end_id and end_id become those
 * of the template that was used: its own end of a turn ends the answer. Templates and the tokenizer
 * are read by one thread at a time. */
SP_MUST_CHECK enum sp_status sp_serve_prompt_read(struct sp_serve_prompt *out,
                                                  const struct sp_serve_request *request,
                                                  size_t which, struct sp_generation *g,
                                                  struct sp_err *err);

/* How many tokens it has. For several threads at the same time. */
SP_MUST_CHECK enum sp_status sp_serve_prompt_count(size_t *n_tokens, const struct sp_serve *serve,
                                                   const struct sp_serve_request *request,
                                                   struct sp_err *err);

#endif
