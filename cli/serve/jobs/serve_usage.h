/* The numbers of tokens of all answers to a request. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_USAGE_H
#define SP_CLI_SERVE_JOBS_SERVE_USAGE_H

#include "runtime/spectool.h"

/* Numbers of tokens. The tokens of a prompt are counted once. */
struct sp_serve_usage {
    size_t n_prompt, n_reused, n_ids, n_reasoning, drafted, accepted;
    double prompt_seconds, generation_seconds; /* sums of all answers */
};

/* Adds the tokens of an answer; `first`: it is the first one to its prompt. */
void sp_serve_usage_add(struct sp_serve_usage *usage, const struct sp_result *result,
                        const struct sp_chat_answer *message, bool first);

/* Writes the text that the log shows for n answers, or with `json` members of a JSON object; `last`
 * is the result of the last one, and `period` the number of tokens that it repeats without end; 0:
 * it does not. Returns `text`. */
enum { SP_SERVE_USAGE_TEXT = 480 };
const char *sp_serve_usage_describe(char text[SP_SERVE_USAGE_TEXT],
                                    const struct sp_serve_usage *usage, size_t n,
                                    const struct sp_result *last, size_t period, bool json);

#endif
