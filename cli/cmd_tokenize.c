/* spectool tokenize: text to token ids. */
#include "cli/commands.h"
#include "cli/base/ids.h"
#include "cli/base/token_source.h"
#include "runtime/spectool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    bool ids, json, special, batch;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_FLAG, 0, "ids", NULL, NULL, AT(ids), .help = "Print only the ids, separated by commas"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print a JSON array of ids"},
    {SP_OPT_FLAG, 0, "special", NULL, NULL, AT(special),
     .help = "Add the special tokens of the tokenizer's post-processor"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help = "Read one JSON string per line from standard input, print one JSON array per line"},
    {.kind = SP_OPT_END},
};

static void print_json(const uint32_t *ids, size_t n)
{
    struct sp_json_out out = {.file = stdout};

    sp_ids_to_json(&out, NULL, ids, n);
    putchar('\n');
}

static void print_ids(const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s%" PRIu32, i ? "," : "", ids[i]);
    putchar('\n');
}

/* A token a line: its id, and its text in quotes. */
static void print_tokens(const struct sp_tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_json_out out = {.file = stdout};
        struct sp_token_info info = {0};
        printf("%8" PRIu32 "  ", ids[i]);
        if (sp_tokenizer_token(tokenizer, ids[i], &info)) {
            sp_json_out_string(&out, NULL, info.bytes, info.len);
        }
        puts(info.special ? "  special" : "");
    }
}

static enum sp_status tokenize(const struct sp_token_job *job, const char *text, size_t size,
                               struct sp_err *err)
{
    const struct options *o = job->options;
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (o->special ? SP_ENCODE_ADD_SPECIAL : 0);
    struct sp_ids ids = {0};
    enum sp_status st;

    if ((st = sp_tokenizer_encode(job->tokenizer, text, size, flags, &ids.at, &ids.n, err))) {
        return st;
    }
    if (o->json || o->batch)
        print_json(ids.at, ids.n);
    else if (o->ids)
        print_ids(ids.at, ids.n);
    else
        print_tokens(job->tokenizer, ids.at, ids.n);
    sp_ids_release(&ids);
    return SP_OK;
}

static enum sp_status tokenize_value(const struct sp_token_job *job, const struct sp_json *value,
                                     struct sp_err *err)
{
    size_t len;
    const char *string = sp_json_to_string(value, &len);

    if (string == NULL) return sp_fail(err, SP_E_INPUT, "expected a JSON string");
    return tokenize(job, string, len, err);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_token_job job = {.text = tokenize, .value = tokenize_value};

    return sp_token_command(args, o->batch, job, err);
}

static const struct options defaults = {0};

const struct sp_command sp_cmd_tokenize = {
    .name = "tokenize",
    .summary = "Convert text to token ids",
    .operands = "SOURCE [TEXT]",
    .min_operands = 1,
    .max_operands = 2,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .details =
        "SOURCE is a packed file, a checkpoint folder, or a tokenizer.json. Without TEXT, or with "
        "-, the text is read from standard input. Special tokens in the text are recognised.",
    .run = run,
};
