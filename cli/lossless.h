/* spectool verify --lossless: the same prompts plain and speculatively, tokens and logit bits
 * compared. */
#ifndef SP_CLI_LOSSLESS_H
#define SP_CLI_LOSSLESS_H

#include "cli/base/backend_opts.h"

struct sp_lossless_options {
    bool lossless, json;
    struct sp_opt_list ids;
    int64_t n_predict, sessions; /* 0: none at the same time */
    const char *format;
    struct sp_backend_opts backend;
};

/* args->options is a struct sp_lossless_options; operands: the file, then prompts. SP_E_CHECK names
 * the first difference. */
SP_MUST_CHECK enum sp_status sp_lossless_verify(const struct sp_args *args, struct sp_err *err);

#endif
