/* A tokenizer from a packed file, a checkpoint folder, or a tokenizer.json. */
#ifndef SP_CLI_BASE_TOKEN_SOURCE_H
#define SP_CLI_BASE_TOKEN_SOURCE_H

#include "cli/base/opt.h"
#include "format/base/json.h"
#include "format/packfile.h"
#include "runtime/tokenizer/tokenizer.h"

/* Valid when zeroed. */
struct sp_token_source {
    struct sp_tokenizer *tokenizer; /* owned, as is what it reads from: */
    struct sp_pack *pack;
    uint8_t *blob;
};

/* On failure *out is zeroed. */
SP_MUST_CHECK enum sp_status sp_token_source_open(struct sp_token_source *out, const char *path,
                                                  struct sp_err *err);
void sp_token_source_close(struct sp_token_source *source);

/* What tokenize and detokenize do: options are the command's own. */
struct sp_token_job {
    const struct sp_tokenizer *tokenizer;
    const void *options;
    enum sp_status (*text)(const struct sp_token_job *job, const char *text, size_t size,
                           struct sp_err *err);
    enum sp_status (*value)(const struct sp_token_job *job, const struct sp_json *value,
                            struct sp_err *err);
};

/* Runs a command of the operands SOURCE [TEXT]: job->text on TEXT or all of standard input; with
 * `batch` job->value on the JSON value of each of its lines. Tokenizer and options are set here. */
SP_MUST_CHECK enum sp_status sp_token_command(const struct sp_args *args, bool batch,
                                              struct sp_token_job job, struct sp_err *err);

#endif
