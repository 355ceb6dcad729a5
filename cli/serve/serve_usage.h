/* The figures of all answers to a request. */
#ifndef SP_CLI_SERVE_SERVE_USAGE_H
#define SP_CLI_SERVE_SERVE_USAGE_H

#include "runtime/spectool.h"

/* Tokens. Those of a prompt are counted once. */
struct sp_serve_usage {
    size_t n_prompt, n_reused, n_ids, n_reasoning, drafted, accepted;
};

/* Adds those of an answer. first: to its prompt. */
void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *result,
                        const struct sp_chat_answer *message, bool first);

/* What the log says of n answers, the last of which is this one; returns `text`. */
enum { SP_SERVE_USAGE_TEXT = 240 };
const char *sp_serve_usage_describe(char text[SP_SERVE_USAGE_TEXT],
                                    const struct sp_serve_usage *usage, size_t n,
                                    const struct sp_result *last);

#endif
