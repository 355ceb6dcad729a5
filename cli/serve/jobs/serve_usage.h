/* The numbers of tokens of all answers to a request. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_USAGE_H
#define SP_CLI_SERVE_JOBS_SERVE_USAGE_H

#include "runtime/spectool.h"

/* Numbers of tokens. The tokens of a prompt are counted once. */
struct sp_serve_usage {
    size_t n_prompt, n_reused, n_ids, n_reasoning, drafted, accepted;
    double prompt_seconds, generation_seconds; /* sums of all answers */
    size_t n_repeating; /* answers that repeat their last tokens without end */
    size_t period;      /* number of tokens that the last of these repeats; 0: none does */
};

/* Adds the tokens of an answer; `first`: it is the first one to its prompt. period: the number of
 * tokens that it repeats without end; 0: it does not. */
void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *result,
                        const struct sp_chat_answer *message, bool first, size_t period);

/* Writes the text that the log shows for n answers, or with `json` members of a JSON object; `last`
 * is the result of the last one. Returns `text`. */
enum { SP_SERVE_USAGE_TEXT = 512 };
const char *sp_serve_usage_describe(char text[SP_SERVE_USAGE_TEXT],
                                    const struct sp_serve_usage *usage, size_t n,
                                    const struct sp_result *last, bool json);

#endif
