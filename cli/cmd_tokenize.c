/* spectool tokenize and spectool detokenize: convert text to token ids, and token ids to text. */
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "format/base/mem.h"
#include "format/base/strbuf.h"
#include "runtime/spectool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT(type, member) .offset = offsetof(struct type, member)

/* ---- what both share ---- */

/* The functions of a command; `options` are the command's own. */
struct token_job {
    const struct sp_tokenizer *tokenizer;
    const void *options;
    const char *what, *what_line; /* input to announce: all of it, a line of a batch */
    enum sp_status (*text)(const struct token_job *job, const char *text, size_t size,
                           struct sp_err *err);
    enum sp_status (*value)(const struct token_job *job, const struct sp_json *value,
                            struct sp_err *err);
};

static enum sp_status token_line(void *context, size_t number, const char *text, size_t size,
                                 struct sp_err *err)
{
    const struct token_job *job = context;
    struct sp_json *value = NULL;
    enum sp_status st = sp_json_parse(&value, text, size, SP_JSON_STRICT, err);

    (void)number;
    if (st == SP_OK) st = job->value(job, value, err);
    sp_json_free(value);
    return st;
}

/* Passes the operands after the first one, separated by blanks, or else standard input. */
static enum sp_status token_text(const struct token_job *job, const struct sp_args *args,
                                 struct sp_err *err)
{
    struct sp_strbuf text = {0};
    struct sp_text input = {0};
    enum sp_status st = SP_OK;

    if (sp_args_text(args) == NULL) st = sp_input_text(&input, NULL, job->what, SP_INPUT_MOST, err);
    text = (struct sp_strbuf){.at = input.at, .len = input.size};
    for (size_t i = 1; sp_args_text(args) && i < args->n_operands && !st; i++) {
        st = sp_strbuf_append(&text, " ", i > 1, err);
        if (!st) st = sp_strbuf_append(&text, args->operands[i], strlen(args->operands[i]), err);
    }
    if (!st) st = job->text(job, text.at, text.len, err);
    sp_strbuf_release(&text);
    return st;
}

/* Runs a command with the operands SOURCE [TEXT...]. It calls job->text with the texts, separated
 * by blanks, or all of standard input or, if `batch`, job->value with the JSON value of each line
 * of standard input. It sets the tokenizer and the options of `job`. */
static enum sp_status run_job(const struct sp_args *args, bool batch, struct token_job job,
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
    st = batch ? sp_each_line(token_line, NULL, &job, job.what_line, err)
               : token_text(&job, args, err);
    sp_tokenizer_close(tokenizer);
    return st;
}

/* ---- tokenize ---- */

struct tokenize_options {
    bool ids, json, special, batch;
};

static const struct sp_opt tokenize_opts[] = {
    {SP_OPT_FLAG, 0, "ids", NULL, NULL, AT(tokenize_options, ids),
     .help = "Print only the token IDs, separated by commas"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(tokenize_options, json),
     .help = "Print a JSON array of token IDs"},
    {SP_OPT_FLAG, 0, "special", NULL, NULL, AT(tokenize_options, special),
     .help = "Add the special tokens of the tokenizer's post-processor"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(tokenize_options, batch),
     .help = "Read one JSON string per line from standard input, print one JSON array per line"},
    {.kind = SP_OPT_END},
};

/* Prints a line per token: its id and its quoted text. */
static void print_tokens(const struct sp_tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct sp_json_out out = {.file = stdout};
        struct sp_token_info info = {0};
        printf("%8" PRIu32 "  ", ids[i]);
        if (sp_tokenizer_token(tokenizer, ids[i], &info))
            sp_json_out_string(&out, NULL, info.bytes, info.len);
        puts(info.special ? "  special" : "");
    }
}

static enum sp_status tokenize(const struct token_job *job, const char *text, size_t size,
                               struct sp_err *err)
{
    const struct tokenize_options *o = job->options;
    unsigned flags = SP_ENCODE_PARSE_SPECIAL | (o->special ? SP_ENCODE_ADD_SPECIAL : 0);
    struct sp_ids ids = {0};
    struct sp_json_out out = {.file = stdout};
    enum sp_status st;

    if ((st = sp_tokenizer_encode(job->tokenizer, text, size, flags, &ids.at, &ids.n, err)))
        return st;
    if (o->json || o->batch) sp_ids_to_json(&out, NULL, ids.at, ids.n);
    for (size_t i = 0; o->ids && !o->json && !o->batch && i < ids.n; i++)
        printf("%s%" PRIu32, i ? "," : "", ids.at[i]);
    if (o->json || o->batch || o->ids)
        putchar('\n');
    else
        print_tokens(job->tokenizer, ids.at, ids.n);
    sp_ids_release(&ids);
    return SP_OK;
}

static enum sp_status tokenize_value(const struct token_job *job, const struct sp_json *value,
                                     struct sp_err *err)
{
    size_t len;
    const char *string = sp_json_to_string(value, &len);

    if (string == NULL) return sp_fail(err, SP_E_INPUT, "expected a JSON string");
    return tokenize(job, string, len, err);
}

static enum sp_status run_tokenize(const struct sp_args *args, struct sp_err *err)
{
    const struct tokenize_options *o = args->options;
    struct token_job job = {.text = tokenize,
                            .value = tokenize_value,
                            .what = "a text",
                            .what_line = "one JSON string per line"};

    return run_job(args, o->batch, job, err);
}

const struct sp_command sp_cmd_tokenize = {
    .name = "tokenize",
    .summary = "Convert text to token IDs",
    .operands = "SOURCE [TEXT]",
    .min_operands = 1,
    .max_operands = 2,
    .text_operand = "TEXT",
    .opts = tokenize_opts,
    .options_size = sizeof(struct tokenize_options),
    .details =
        "SOURCE is a packed file, a checkpoint folder, a GGUF file, the name of a stored model, or "
        "a tokenizer.json. Without TEXT, or with "
        "-, the text is read from standard input. Special tokens in the text are recognized.",
    .run = run_tokenize,
};

/* ---- detokenize ---- */

struct detokenize_options {
    bool json, skip_special, batch;
};

static const struct sp_opt detokenize_opts[] = {
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(detokenize_options, json),
     .help = "Print a JSON string"},
    {SP_OPT_FLAG, 0, "skip-special", NULL, NULL, AT(detokenize_options, skip_special),
     .help = "Omit special tokens"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(detokenize_options, batch),
     .help = "Read one JSON array of token IDs per line from standard input, print one JSON string "
             "per line"},
    {.kind = SP_OPT_END},
};

/* Prints the text of the ids; only on a terminal a line end follows. */
static enum sp_status detokenize(const struct token_job *job, const struct sp_ids *ids,
                                 struct sp_err *err)
{
    const struct detokenize_options *o = job->options;
    struct sp_json_out out = {.file = stdout};
    char *text = NULL;
    size_t size;
    enum sp_status st =
        sp_tokenizer_decode(job->tokenizer, ids->at, ids->n, o->skip_special, &text, &size, err);

    if (st) return st;
    if (o->json || o->batch) {
        sp_json_out_string(&out, NULL, text, size);
        putchar('\n');
    } else {
        sp_out_text(stdout, text, size);
        if (sp_out_is_terminal(stdout)) putchar('\n');
    }
    free(text);
    return SP_OK;
}

static enum sp_status detokenize_value(const struct token_job *job, const struct sp_json *value,
                                       struct sp_err *err)
{
    struct sp_ids ids = {0};
    enum sp_status st = sp_ids_of_json(&ids, value, err);

    if (st == SP_OK) st = detokenize(job, &ids, err);
    sp_ids_release(&ids);
    return st;
}

/* Blanks out the tokens' texts in lines as print_tokens writes them: an id, the quoted text, and
 * perhaps "special". Other lines stay. */
static void blank_token_texts(char *text)
{
    for (char *line = text; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        size_t quote = strspn(line, " ");
        quote += strspn(line + quote, "0123456789");
        quote += strspn(line + quote, " ");
        if (quote < len && line[quote] == '"') {
            char *last = line + len - 1;
            if (len > quote + 9 && strncmp(line + len - 9, "  special", 9) == 0) last -= 9;
            if (last > line + quote && *last == '"') memset(line + quote, ' ', len - quote);
        }
        line += len + (line[len] == '\n');
    }
}

static enum sp_status detokenize_text(const struct token_job *job, const char *text, size_t size,
                                      struct sp_err *err)
{
    enum sp_status st;
    struct sp_ids ids = {0};
    char *copy = NULL;

    /* anything after a NUL is not an id */
    if ((st = sp_copy_text(&copy, text, size, err))) return st;
    blank_token_texts(copy);
    st = sp_ids_parse(&ids, copy, err);
    if (st == SP_OK) st = detokenize(job, &ids, err);
    sp_ids_release(&ids);
    free(copy);
    return st;
}

static enum sp_status run_detokenize(const struct sp_args *args, struct sp_err *err)
{
    const struct detokenize_options *o = args->options;
    struct token_job job = {.text = detokenize_text,
                            .value = detokenize_value,
                            .what = "token IDs",
                            .what_line = "one JSON array of token IDs per line"};

    return run_job(args, o->batch, job, err);
}

const struct sp_command sp_cmd_detokenize = {
    .name = "detokenize",
    .summary = "Convert token IDs to text",
    .operands = "SOURCE [ID...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .opts = detokenize_opts,
    .options_size = sizeof(struct detokenize_options),
    .details = "SOURCE is a packed file, a checkpoint folder, a GGUF file, the name of a stored "
               "model, or a tokenizer.json. Token IDs are "
               "separated by commas or blanks. Without IDs, or with -, they are read from standard "
               "input, also as `spectool tokenize` lists them.",
    .run = run_detokenize,
};
