/* spectool embed: writes the embeddings of texts as JSON or as a NumPy array. */
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/backend_opts.h"
#include "cli/base/embed_inputs.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "format/base/atomic_file.h"
#include "format/json/json_write.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *ids, *prompt, *pooling, *output;
    int64_t n_dimensions;
    bool batch, json, truncate;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "Token IDs of one text"},
    {SP_OPT_FLAG, 0, "batch", NULL, NULL, AT(batch),
     .help = "Read one JSON string, or array of token IDs, per line from standard input"},
    {SP_OPT_STRING, 0, "prompt", NULL, "NAME", AT(prompt),
     .help = "Put this prompt of the file before each text; \"\" means none",
     .shown = "the file's default"},
    {SP_OPT_FLAG, 0, "truncate", NULL, NULL, AT(truncate),
     .help = "Shorten texts that are too long for the model, instead of refusing them"},
    {SP_OPT_INT, 0, "dimensions", NULL, "N", AT(n_dimensions), .min = 1, .max = 1 << 20,
     .shown = "all", .help = "Keep the first N numbers of each embedding"},
    SP_OPT_POOLING(struct options, pooling, sp_embed_poolings,
                   "Which hidden states become the embedding: of the last token, the mean over all "
                   "tokens, or of the first token (cls)"),
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json),
     .help = "Print an object per text: its embedding and its number of tokens"},
    {SP_OPT_STRING, 'o', "output", NULL, "X.npy", AT(output), .path = true,
     .help = "Write a NumPy array [texts, numbers] instead"},
    SP_OPT_THREADS(struct options, backend),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_MEMORY(struct options, backend),
    {.kind = SP_OPT_END},
};

/* ---- texts ---- */

static enum sp_status read_line(void *context, size_t number, const char *text, size_t size,
                                struct sp_err *err)
{
    struct sp_embed_inputs *inputs = context;
    struct sp_json *value = NULL;
    enum sp_status st = sp_json_parse(&value, text, size, SP_JSON_STRICT, err);

    (void)number;
    if (st == SP_OK) st = sp_embed_inputs_add_json(inputs, value, err);
    sp_json_free(value);
    return st;
}

static enum sp_status read_input(struct sp_embed_inputs *inputs, struct sp_err *err)
{
    struct sp_text text = {0};
    enum sp_status st = sp_input_text(&text, NULL, "a text", SP_INPUT_MOST, err);

    if (st == SP_OK) st = sp_embed_inputs_add(inputs, text.at, text.size, err);
    free(text.at);
    return st;
}

/* Reads the texts from the one place that the arguments name. */
static enum sp_status read_texts(struct sp_embed_inputs *inputs, const struct sp_args *args,
                                 struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_ids ids = {0};
    enum sp_status st = SP_OK;

    if (o->batch)
        return sp_each_line(read_line, NULL, inputs,
                            "one JSON string or array of token IDs per line", err);
    if (o->ids != NULL) {
        if ((st = sp_ids_parse(&ids, o->ids, err))) return st;
        return sp_embed_inputs_add_ids(inputs, ids.at, ids.n, err);
    }
    if (sp_args_text(args) == NULL) return read_input(inputs, err);
    for (size_t i = 1; i < args->n_operands && !st; i++)
        st = sp_embed_inputs_add(inputs, args->operands[i], strlen(args->operands[i]), err);
    return st;
}

static enum sp_status check_options(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    int n = (o->batch ? 1 : 0) + (o->ids ? 1 : 0) + (args->n_operands > 1 ? 1 : 0);

    if (n > 1) return sp_fail(err, SP_E_USAGE, "expected only one of TEXT, --ids and --batch");
    if (o->json && o->output)
        return sp_fail(err, SP_E_USAGE, "expected only one of --json and --output");
    if (o->output == NULL) return SP_OK;
    return sp_atomic_file_check_replaced(o->output, sp_npy_magic, SP_NPY_MAGIC, "NumPy array", err);
}

/* ---- embeddings ---- */

static int show_progress(void *context, size_t done, size_t total)
{
    if (done == total)
        sp_progress_end(context);
    else
        sp_progress_show(context, done, total);
    return sp_signals_caught();
}

static void print_embeddings(const float *rows, const struct sp_embed_inputs *inputs,
                             size_t n_dimensions, bool objects)
{
    for (size_t i = 0; i < inputs->n; i++, rows += n_dimensions) {
        struct sp_json_out out = {.file = stdout};
        if (objects) sp_json_out_begin(&out, NULL, '{');
        sp_json_out_begin(&out, objects ? "embedding" : NULL, '[');
        for (size_t k = 0; k < n_dimensions; k++)
            sp_json_out_double(&out, NULL, (double)rows[k]);
        sp_json_out_end(&out, ']');
        if (objects) sp_json_out_put(&out, "tokens:%zu}", inputs->texts[i].n);
        putchar('\n');
    }
}

static enum sp_status write_array(const char *path, const float *rows, size_t n_rows, size_t n_cols,
                                  struct sp_err *err)
{
    uint8_t *bytes = NULL;
    size_t size;
    enum sp_status st;

    if (!sp_mul(&size, n_rows * n_cols, 4) || !sp_add(&size, size, SP_NPY_HEADER))
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu embeddings", n_rows);
    if ((st = sp_new(&bytes, size, 1, err))) return st;
    sp_npy_header(bytes, n_rows, n_cols);
    sp_npy_row(bytes + SP_NPY_HEADER, rows, n_rows * n_cols);
    st = sp_atomic_file_write_file(path, true, bytes, size, err);
    free(bytes);
    return st;
}

static struct sp_embedding_request request_of(const struct options *o)
{
    return (struct sp_embedding_request){.size = sizeof(struct sp_embedding_request),
                                         .pooling = sp_embed_pooling_of(o->pooling),
                                         .n_dimensions = (size_t)o->n_dimensions};
}

/* Refuses what embeds nothing before texts are read, perhaps from a terminal. */
static enum sp_status check_model(struct sp_package *package, const struct options *o,
                                  struct sp_err *err)
{
    struct sp_embedding_request none = request_of(o);
    float *rows = NULL;
    size_t width;
    enum sp_status st = sp_package_embed(package, &none, &rows, &width, err);

    free(rows);
    return st;
}

static enum sp_status embed(struct sp_package *package, const struct sp_embed_inputs *inputs,
                            const struct options *o, struct sp_err *err)
{
    struct sp_progress progress;
    struct sp_embedding_request request = request_of(o);
    float *rows = NULL;
    size_t width;
    enum sp_status st;

    sp_progress_begin(&progress, "embedding", "tokens");
    request.texts = inputs->texts;
    request.n_texts = inputs->n;
    request.context = &progress;
    request.progress = show_progress;
    st = sp_package_embed(package, &request, &rows, &width, err);
    sp_progress_end(&progress);
    if (st == SP_OK && o->output)
        st = write_array(o->output, rows, inputs->n, width, err);
    else if (st == SP_OK)
        print_embeddings(rows, inputs, width, o->json);
    free(rows);
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_embed_inputs inputs = {.prompt = o->prompt, .truncate = o->truncate};
    struct sp_package *package = NULL;
    char *path = NULL;
    enum sp_status st;

    if ((st = check_options(args, err))) return st;
    sp_signals_catch();
    if ((st = sp_packed_checkpoint_find(&path, args->operands[0], NULL, args->command->name, err)))
        goto done;
    if ((st = sp_backend_open_package(&package, path, &o->backend, err))) goto done;
    inputs.package = package;
    if ((st = check_model(package, o, err))) goto done;
    if ((st = read_texts(&inputs, args, err))) goto done;
    if (inputs.n == 0) goto done;
    st = embed(package, &inputs, o, err);
done:
    sp_embed_inputs_release(&inputs);
    sp_package_close(package);
    free(path);
    return st;
}

static const struct options defaults = {.backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_embed = {
    .name = "embed",
    .summary = "Compute embeddings of texts",
    .operands = "FILE [TEXT...]",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .group_offset = offsetof(struct options, backend.group),
    .details = "Each TEXT gives one embedding, a JSON array in a line of its own. Without TEXT, or "
               "with -, standard input is one text.",
    .run = run,
};
