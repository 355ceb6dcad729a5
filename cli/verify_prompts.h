/* spectool verify --lossless and --reference: generates from the same prompts with and without
 * drafting and compares tokens and logit bits; holds the logits against the reference decoder. */
#ifndef SP_CLI_VERIFY_PROMPTS_H
#define SP_CLI_VERIFY_PROMPTS_H

#include "cli/base/backend_opts.h"
#include "cli/base/ids.h"

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

/* ---- the reference (reference_verify.c) ----
 *
 * spectool verify --reference: holds the logits of a generation against the reference decoder. */

/* The file, opened for the reference decoder in each mode. A zeroed struct is closed. */
struct sp_reference_verify {
    struct sp_package *modes[SP_REFERENCE_CHECKED + 1]; /* owned */
};

SP_MUST_CHECK enum sp_status sp_reference_verify_open(struct sp_reference_verify *v,
                                                      const char *path, struct sp_err *err);
void sp_reference_verify_close(struct sp_reference_verify *v);

/* Compares the logits that chose the ids of `answer`, and prints a line. SP_E_CHECK: a
 * kernel computes something else. */
SP_MUST_CHECK enum sp_status
sp_reference_verify_prompt(const struct sp_reference_verify *v, struct sp_package *package,
                           const struct sp_verify_options *options, const struct sp_ids *ids,
                           const struct sp_result *answer, size_t prompt, struct sp_err *err);

#endif
