/* spectool verify --lossless and --reference: generates from the same prompts with and without
 * drafting and compares tokens and logit bits; holds the logits against the reference decoder. */
#ifndef SP_CLI_VERIFY_PROMPTS_H
#define SP_CLI_VERIFY_PROMPTS_H

#include "cli/base/backend_opts.h"

struct sp_verify_options {
    bool lossless, reference, json;
    struct sp_opt_list ids;
    /* sessions 0: no comparison of sessions that run at the same time */
    int64_t n_predict, sessions;
    const char *format;
    struct sp_backend_opts backend;
};

/* Runs the comparisons on the packed file at `path`. args->options is a struct sp_verify_options;
 * the operands are the name of the file, for messages, and the prompts. SP_E_CHECK names the first
 * difference. */
SP_MUST_CHECK enum sp_status sp_verify_prompts(const char *path, const struct sp_args *args,
                                               struct sp_err *err);

#endif
