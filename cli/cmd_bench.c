/* spectool bench: measures a packed file on this machine, or a temporary file of random weights in
 * the shape of a known model. */
#include "cli/bench/bench.h"
#include "cli/create_callbacks.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/user_folder.h"
#include "cli/base/signals.h"
#include "convert/create/synthetic.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_bench_options bench;
    int64_t n_predict, n_repeat;
    const char *svg;
    bool json;
    const char *shape, *shape_draft, *type, *draft_type, *output_type;
    int64_t n_layers;
    bool force;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_LIST, 0, "ids", NULL, "ID,ID,...", AT(bench.ids),
     .help = "A prompt as token IDs; repeatable"},
    {SP_OPT_LIST, 0, "prompt", NULL, "TEXT", AT(bench.texts),
     .help = "A prompt as the text of a user's message; repeatable"},
    {SP_OPT_LIST, 0, "text", NULL, "FILE", AT(bench.files), .path = true,
     .help = "A prompt as a file with the text of a user's message; repeatable"},
    {SP_OPT_INT, 'n', "num-predict", NULL, "N", AT(n_predict), .min = 2, .max = 1 << 20,
     .shown = "128", .help = "Number of tokens to generate per prompt"},
    {SP_OPT_INT, 0, "repeat", NULL, "N", AT(n_repeat), .min = 1, .max = 1000, .shown = "5",
     .help = "Number of runs per measurement; medians are reported"},
    {SP_OPT_STRING, 0, "depths", NULL, "N,N,...", AT(bench.depths),
     .shown = "64,1024,4096, as far as they fit the context",
     .help = "Context lengths, in tokens, at which forward passes are timed"},
    {SP_OPT_NUMBER, 0, "simulate-acceptance", NULL, "P", AT(bench.acceptance), .min = 0, .max = 1,
     .help = "Accept each draft token with probability P instead of comparing it, to estimate the "
             "speed-up of a draft of this cost with that acceptance; the text is meaningless"},
    SP_OPT_NUM_CTX(struct options, bench.backend),
    SP_OPT_DRAFT_DEPTH(struct options, bench.backend, 0,
                       "Maximum number of draft tokens per round; 0: measure without drafting"),
    SP_OPT_DRAFT_BY(struct options, bench.backend, "model"),
    SP_OPT_THREADS(struct options, bench.backend),
    SP_OPT_RANKS(struct options, bench.backend),
    SP_OPT_KERNELS(struct options, bench.backend),
    SP_OPT_KV_TYPE(struct options, bench.backend),
    SP_OPT_HUGE_PAGES(struct options, bench.backend),
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the results as JSON"},
    {SP_OPT_STRING, 0, "svg", NULL, "FILE", AT(svg), .path = true,
     .help = "Also draw a chart; an existing chart is replaced, any other file is not"},
    {SP_OPT_HEADING, .help = "Without a model (random weights)"},
    {SP_OPT_CHOICE, 0, "synthetic", NULL, "SHAPE", AT(shape), .choices = sp_synthetic_targets,
     .help = "Create a model of this shape with random weights and measure it; it is kept if FILE "
             "is given, else removed afterwards"},
    {SP_OPT_INT, 0, "layers", NULL, "N", AT(n_layers), .min = 1, .max = 1 << 10, .shown = "all",
     .help = "Number of its layers, for a model that memory cannot hold"},
    {SP_OPT_CHOICE, 0, "synthetic-draft", NULL, "SHAPE", AT(shape_draft),
     .choices = sp_synthetic_drafts, .help = "Draft model for --synthetic"},
    {SP_OPT_CHOICE, 'q', "quantize", NULL, "TYPE", AT(type), .choices = sp_cmd_types,
     .shown = "bf16", .help = "Type of the synthetic model's weights"},
    {SP_OPT_CHOICE, 0, "quantize-draft", "draft-quantize", "TYPE", AT(draft_type),
     .choices = sp_cmd_types, .shown = "bf16", .help = "Type of the synthetic draft's weights"},
    {SP_OPT_CHOICE, 0, "quantize-output", NULL, "TYPE", AT(output_type), .choices = sp_cmd_types,
     .help = "Type of its embedding and output matrix; overrides --quantize"},
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(force),
     .help = "Overwrite FILE if it is a packed file"},
    {.kind = SP_OPT_END},
};

static enum sp_status check_options(const struct sp_args *args, struct sp_err *err)
{
    static const char *const of_synthetic[] = {"layers",         "synthetic-draft", "quantize",
                                               "quantize-draft", "quantize-output", "force"};
    const struct options *o = args->options;

    if (o->shape == NULL && args->n_operands == 0)
        return sp_fail(err, SP_E_USAGE, "expected FILE or --synthetic");
    for (size_t i = 0; i < sizeof of_synthetic / sizeof *of_synthetic && !o->shape; i++) {
        if (!sp_args_given(args, of_synthetic[i])) continue;
        return sp_fail(err, SP_E_USAGE, "--%s requires --synthetic", of_synthetic[i]);
    }
    if (o->draft_type && o->shape_draft == NULL)
        return sp_fail(err, SP_E_USAGE, "--quantize-draft requires --synthetic-draft");
    return o->svg ? sp_bench_check_svg(o->svg, err) : SP_OK;
}

/* Writes the random weights to the given file or to a temporary one. *path is borrowed. */
static enum sp_status make_synthetic(const char **path, struct sp_temp_file *temporary,
                                     const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_create_listener listener = {.command = args->command->name};
    struct sp_synthetic_options options = {
        .shape = o->shape,
        .draft = o->shape_draft,
        .n_layers = (unsigned)o->n_layers,
        .target_type = sp_create_type(o->type),
        .draft_type = sp_create_type(o->draft_type),
        .output_type = sp_create_type(o->output_type),
        .force = o->force,
    };
    enum sp_status st;

    if (args->n_operands == 0 && (st = sp_temp_file_open(temporary, "synthetic.bin", err)))
        return st;
    *path = args->n_operands ? args->operands[0] : temporary->path;
    sp_create_attach(&options.callbacks, &listener);
    st = sp_synthetic_write(*path, &options, err);
    sp_progress_end(&listener.progress);
    return st;
}

static void note_draftless(const struct sp_args *args, const struct sp_package *package)
{
    static const char *const drafting[] = {"draft-depth", "draft-by", NULL};
    const struct options *o = args->options;
    struct sp_package_info info;

    sp_backend_describe(&info, package, &o->bench.backend);
    if (o->bench.backend.draft_len) sp_backend_note_no_draft(args, &info, drafting);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct sp_bench_options options = o->bench;
    struct sp_bench bench = {.synthetic = o->shape, .n_layers = (size_t)o->n_layers};
    struct sp_bench_printer printer = {.bench = &bench};
    struct sp_package *package = NULL;
    struct sp_temp_file temporary = {0};
    const char *path = NULL;
    char name[64], *packed = NULL;
    enum sp_status st;

    options.n_predict = (size_t)o->n_predict;
    options.n_repeat = (size_t)o->n_repeat;
    if ((st = check_options(args, err))) goto done;
    sp_signals_catch();
    if (o->shape) {
        st = make_synthetic(&path, &temporary, args, err);
    } else {
        st = sp_packed_checkpoint_find(&packed, args->operands[0], NULL, args->command->name, err);
        path = packed;
    }
    if (st) goto done;
    if ((st = sp_backend_open_package(&package, path, &o->bench.backend, err))) goto done;
    sp_temp_file_remove(&temporary); /* the removed file stays mapped */
    sp_signals_release();
    note_draftless(args, package);
    snprintf(name, sizeof name, "synthetic %s", o->shape ? o->shape : "");
    if (o->n_layers) {
        size_t len = strlen(name);
        snprintf(name + len, sizeof name - len, " (%d layers)", (int)o->n_layers);
    }
    bench.name = args->n_operands ? args->operands[0] : name;
    if ((st = sp_bench_measure(&bench, package, &options, o->json ? NULL : &printer, err)))
        goto done;
    if (o->json) sp_bench_print_json(&bench);
    if (o->svg) st = sp_bench_write_svg(&bench, o->svg, err);
done:
    sp_table_release(&printer.table);
    sp_bench_release(&bench);
    sp_package_close(package);
    sp_temp_file_remove(&temporary);
    free(packed);
    return st;
}

static const struct options defaults = {
    .n_predict = 128,
    .n_repeat = 5,
    .bench = {.acceptance = -1,
              .backend = {.draft_len = SP_DRAFT_LENGTH_AUTO, .draft_by = "model"}}};

const struct sp_command sp_cmd_bench = {
    .name = "bench",
    .summary = "Benchmark a packed file on this machine",
    .operands = "[FILE]",
    .max_operands = 1,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .group_offset = offsetof(struct options, bench.backend.group),
    .run = run,
};
