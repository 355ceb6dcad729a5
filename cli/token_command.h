/* The part that the commands tokenize and detokenize share. */
#ifndef SP_CLI_TOKEN_COMMAND_H
#define SP_CLI_TOKEN_COMMAND_H

#include "cli/base/opt.h"
#include "format/base/json.h"
#include "runtime/spectool.h"

/* The functions of a command; `options` are the command's own. */
struct sp_token_job {
    const struct sp_tokenizer *tokenizer;
    const void *options;
    const char *what, *what_line; /* input to announce: all of it, a line of a batch */
    enum sp_status (*text)(const struct sp_token_job *job, const char *text, size_t size,
                           struct sp_err *err);
    enum sp_status (*value)(const struct sp_token_job *job, const struct sp_json *value,
                            struct sp_err *err);
};

/* Runs a command with the operands SOURCE [TEXT...]. It calls job->text with the texts, separated
 * by blanks, or all of standard input or, if `batch`, job->value with the JSON value of each line
 * of standard input. It sets the tokenizer and the options of `job`. */
SP_MUST_CHECK enum sp_status sp_token_command(const struct sp_args *args, bool batch,
                                              struct sp_token_job job, struct sp_err *err);

#endif
