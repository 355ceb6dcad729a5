/* spectool calibrate: runs texts through a packed file's target to collect the input statistics by
 * which GPTQ weighs errors. */
#include "cli/commands.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/chat/conversation.h"
#include "format/base/mem.h"
#include "format/packfile.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>

enum { FEW_TOKENS = 4096 };

struct options {
    const char *output;
    bool force, sensitivity;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 'o', "output", NULL, "OUT", AT(output), .path = true,
     .shown = "./calibration.bin", .help = "Calibration file to write"},
    {SP_OPT_FLAG, 0, "sensitivity", NULL, NULL, AT(sensitivity),
     .help = "Also measure how much each group of matrices, and the type of each KV cache, matters "
             "to the "
             "output; when interrupted, the same command continues the measurement"},
    {SP_OPT_FLAG, 0, "force", NULL, NULL, AT(force),
     .help = "Overwrite an existing calibration or packed file (never any other file)"},
    SP_OPT_THREADS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    {.kind = SP_OPT_END},
};

struct job {
    struct sp_package *package; /* package of the file; owned */
    struct sp_ids *ids;         /* [n_texts] token ids of each text; owned */
    /* [n_texts] texts, whose ids are borrowed from `ids`; owned */
    struct sp_calibration_text *texts;
    size_t n_texts;
    struct sp_progress progress;
    bool is_measuring; /* the progress is that of the sensitivities */
};

static int show_progress(void *context, size_t done, size_t total)
{
    struct job *job = context;

    sp_progress_show(&job->progress, done, total);
    return sp_signals_caught();
}

/* The bar of the sensitivities replaces that of the texts. */
static int show_layer_progress(void *context, size_t done, size_t total)
{
    struct job *job = context;

    if (!job->is_measuring) {
        sp_progress_end(&job->progress);
        sp_progress_begin(&job->progress, "measuring sensitivities", "layers");
        job->is_measuring = true;
    }
    return show_progress(context, done, total);
}

static enum sp_status read_text(struct sp_ids *ids, const struct sp_package *package,
                                const char *path, struct sp_err *err)
{
    struct sp_text text;
    enum sp_status st;

    if ((st = sp_input_text(&text, path, "a text", SP_INPUT_MOST, err))) return st;
    st = sp_prompt_raw(ids, package, text.at, text.size, true, err);
    if (st) sp_context(err, "%s", sp_input_name(path));
    free(text.at);
    return st;
}

static enum sp_status read_texts(struct job *job, char **paths, size_t n, struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_new(&job->ids, n, sizeof *job->ids, err))) return st;
    if ((st = sp_new(&job->texts, n, sizeof *job->texts, err))) return st;
    job->n_texts = n;
    for (size_t i = 0; i < n && !st; i++) {
        st = read_text(&job->ids[i], job->package, paths[i], err);
        job->texts[i] = (struct sp_calibration_text){job->ids[i].at, job->ids[i].n};
    }
    return st;
}

/* Prints a note if matrices of the target are q2 to q6: their errors are in the statistics. */
static enum sp_status note_quantized(const char *path, const char *command, struct sp_err *err)
{
    struct sp_pack *pack = NULL;
    enum sp_status st = sp_pack_open(&pack, path, err);
    bool is_quantized = false;

    if (st) return st;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        is_quantized |= t->part == SP_PART_TARGET && sp_dtype_code_bits(t->dtype) > 0;
    }
    sp_pack_close(pack);
    if (is_quantized)
        sp_note(command,
                "the model is quantized: statistics of the unquantized one, or of q8, are better");
    return SP_OK;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    const char *output = o->output ? o->output : "calibration.bin";
    char size[SP_AMOUNT_TEXT], groups[40] = "";
    struct job job = {0};
    struct sp_calibration made = SP_CALIBRATION_INIT;
    char *path = NULL;
    enum sp_status st;

    sp_signals_catch();
    if ((st = sp_packed_checkpoint_find(&path, args->operands[0], NULL, args->command->name, err)))
        goto done;
    if ((st = sp_backend_open_package(&job.package, path, &o->backend, err))) goto done;
    if ((st = note_quantized(path, args->command->name, err))) goto done;
    if ((st = read_texts(&job, args->operands + 1, args->n_operands - 1, err))) goto done;
    sp_progress_begin(&job.progress, "reading", "tokens");
    st = sp_package_calibrate(
        job.package,
        &(struct sp_calibration_request){.size = sizeof(struct sp_calibration_request),
                                         .texts = job.texts,
                                         .n_texts = job.n_texts,
                                         .path = output,
                                         .force = o->force,
                                         .context = &job,
                                         .progress = show_progress,
                                         .sensitivity = o->sensitivity,
                                         .layer_progress = show_layer_progress},
        &made, err);
    sp_progress_end(&job.progress);
    if (st) goto done;
    if (made.n_groups) snprintf(groups, sizeof groups, ", %zu groups", made.n_groups);
    fprintf(stderr, "%s: %zu tokens, %zu matrices%s, %s\n", output, made.n_tokens, made.n_matrices,
            groups, sp_out_size(size, made.n_bytes));
    if (made.n_tokens < FEW_TOKENS) {
        sp_note(args->command->name,
                "few tokens: use 16 to 64 thousand, of every kind of text the model is used for");
    }
done:
    for (size_t i = 0; job.ids && i < job.n_texts; i++)
        sp_ids_release(&job.ids[i]);
    free(job.ids);
    free(job.texts);
    sp_package_close(job.package);
    free(path);
    return st;
}

static const struct options defaults = {.backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_calibrate = {
    .name = "calibrate",
    .summary = "Collect activation statistics, to improve quantized models",
    .operands = "FILE TEXTFILE...",
    .min_operands = 2,
    .max_operands = 10000,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details = "Runs the target of FILE, and its draft, over the texts (- is standard input) and "
               "writes statistics of the inputs of their matrices, for --calibration of create and "
               "quantize.",
    .run = run,
};
