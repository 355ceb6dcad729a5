#include "cli/token_command.h"
#include "cli/base/input_text.h"
#include "cli/base/lines.h"
#include "cli/packed_checkpoint.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status token_line(void *context, size_t number, const char *text, size_t size,
                                 struct sp_err *err)
{
    const struct sp_token_job *job = context;
    struct sp_json *value = NULL;
    enum sp_status st = sp_json_parse(&value, text, size, SP_JSON_STRICT, err);

    (void)number;
    if (st == SP_OK) st = job->value(job, value, err);
    sp_json_free(value);
    return st;
}

/* Passes the operands after the first one, separated by blanks. */
static enum sp_status token_operands(const struct sp_token_job *job, const struct sp_args *args,
                                     struct sp_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *joined = open_memstream(&text, &size);
    enum sp_status st;

    for (size_t i = 1; joined != NULL && i < args->n_operands; i++)
        fprintf(joined, "%s%s", i > 1 ? " " : "", args->operands[i]);
    if (joined == NULL) return sp_fail(err, SP_E_NOMEM, "out of memory for the arguments");
    if (!(st = sp_close_text(joined, &text, err))) st = job->text(job, text, size, err);
    free(text);
    return st;
}

static enum sp_status token_input(const struct sp_token_job *job, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;
    size_t size;

    if ((st = sp_input_text(&text, &size, NULL, job->what, SP_INPUT_MOST, err))) return st;
    st = job->text(job, text, size, err);
    free(text);
    return st;
}

enum sp_status sp_token_command(const struct sp_args *args, bool batch, struct sp_token_job job,
                                struct sp_err *err)
{
    const char *text = sp_args_text(args);
    struct sp_tokenizer *tokenizer = NULL;
    char *path = NULL;
    enum sp_status st;

    if (text != NULL && batch) {
        return sp_fail(err, SP_E_USAGE, "--batch reads standard input, unexpected argument %s",
                       text);
    }
    st = sp_packed_checkpoint_or_folder(&path, args->operands[0], args->command->name, err);
    if (st) return st;
    st = sp_tokenizer_open_file(&tokenizer, path, err);
    free(path);
    if (st) return st;
    job.tokenizer = tokenizer;
    job.options = args->options;
    st = batch          ? sp_each_line(token_line, NULL, &job, job.what_line, err)
         : text != NULL ? token_operands(&job, args, err)
                        : token_input(&job, err);
    sp_tokenizer_close(tokenizer);
    return st;
}
