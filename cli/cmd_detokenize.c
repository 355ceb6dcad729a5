/* spectool detokenize: token ids to text. */
#include "cli/commands.h"
#include "cli/base/ids.h"
#include "cli/base/out.h"
#include "cli/base/token_source.h"

#include <stdlib.h>

struct options {
    bool json, skip_special, batch;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print a JSON string"},
    {SP_OPT_FLAG, 0, "skip-special", NULL, NULL, AT(skip_special), .help = "Omit special tokens"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help =
         "Read one JSON array of ids per line from standard input, print one JSON string per line"},
    {.kind = SP_OPT_END},
};

/* Plain text is printed as it is; only a terminal gets a line end behind it. */
static enum sp_status detokenize(const struct sp_token_job *job, const struct sp_ids *ids,
                                 struct sp_err *err)
{
    const struct options *o = job->options;
    struct sp_json_out out = {.file = stdout};
    enum sp_status st;
    char *text = NULL;
    size_t size;

    st = sp_tokenizer_decode(job->tokenizer, ids->at, ids->n, o->skip_special, &text, &size, err);
    if (st) return st;
    if (o->json || o->batch) {
        sp_json_out_string(&out, NULL, text, size);
        putchar('\n');
    } else {
        fwrite(text, 1, size, stdout);
        if (sp_out_is_terminal(stdout)) putchar('\n');
    }
    free(text);
    return SP_OK;
}

static enum sp_status detokenize_value(const struct sp_token_job *job, const struct sp_json *value,
                                       struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};

    st = sp_ids_of_json(&ids, value, err);
    if (st == SP_OK) st = detokenize(job, &ids, err);
    sp_ids_release(&ids);
    return st;
}

static enum sp_status detokenize_text(const struct sp_token_job *job, const char *text, size_t size,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};

    (void)size; /* text of ids: what follows a NUL is none */
    if ((st = sp_ids_parse(&ids, text, err))) return st;
    st = detokenize(job, &ids, err);
    sp_ids_release(&ids);
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_token_job job = {.text = detokenize_text, .value = detokenize_value};

    return sp_token_command(args, o->batch, job, err);
}

static const struct options defaults = {0};

const struct sp_command sp_cmd_detokenize = {
    .name = "detokenize",
    .summary = "Convert token ids to text",
    .operands = "SOURCE [ID,ID,...]",
    .min_operands = 1,
    .max_operands = 2,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .details = "SOURCE is a packed file, a checkpoint folder, or a tokenizer.json. Without ids, or "
               "with -, the ids are read from standard input.",
    .run = run,
};
