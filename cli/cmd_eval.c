/* spectool eval: measures how well a packed file predicts a text, how much it differs from a
 * reference, and how many of its draft tokens are accepted. */
#include "cli/commands.h"
#include "cli/create_callbacks.h"
#include "cli/base/backend_opts.h"
#include "cli/eval.h"
#include "cli/base/ids.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/chat/prompt.h"
#include "cli/base/temp_file.h"
#include "cli/eval_print.h"
#include "format/base/file.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *text, *ids, *against;
    int64_t stride, n_windows, n_places, n_predict;
    bool json;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_STRING, 't', "text", NULL, "TEXTFILE", AT(text), .path = true,
     .help = "File with the text; - is standard input. Special tokens in it are recognized"},
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "The text as token IDs"},
    {SP_OPT_STRING, 0, "against", NULL, "FILE|DIR", AT(against), .path = true,
     .help = "Compare with this packed file or checkpoint folder as the reference"},
    {SP_OPT_INT, 0, "num-ctx", NULL, "N", AT(backend.n_context), .min = 1, .max = 1 << 30,
     .shown = "the model's maximum, at most 2048", .help = "Tokens per window"},
    {SP_OPT_INT, 0, "stride", NULL, "N", AT(stride), .min = 1, .max = 1 << 30,
     .shown = "half a window", .help = "Distance between the starts of two windows"},
    {SP_OPT_INT, 0, "windows", NULL, "N", AT(n_windows), .min = 1, .max = 1 << 30, .shown = "all",
     .help = "Evaluate only the first N windows"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the results as JSON"},
    {SP_OPT_HEADING, .help = "Draft"},
    {SP_OPT_INT, 0, "places", NULL, "N", AT(n_places), .min = 0, .max = 1 << 20, .shown = "16",
     .help = "Measure drafting at N positions of the text; 0: skip"},
    {SP_OPT_INT, 0, "num-predict", NULL, "N", AT(n_predict), .min = 2, .max = 1 << 20,
     .shown = "32", .help = "Number of tokens to generate at each position"},
    SP_OPT_DRAFT_DEPTH(
        struct options, backend, 0,
        "Draft tokens per round, up to what the draft can propose; auto: at most 16; 0: skip"),
    {SP_OPT_HEADING, .help = "Machine"},
    SP_OPT_THREADS_BY(struct options, backend, 0),
    SP_OPT_RANKS(struct options, backend),
    SP_OPT_KERNELS(struct options, backend),
    SP_OPT_KV_TYPE(struct options, backend),
    {.kind = SP_OPT_END},
};

/* The options that control the trial of the draft. */
static const char *const trial_options[] = {"places", "num-predict", "draft-depth", NULL};

struct job {
    const struct options *options;
    const char *command;
    struct sp_package *package, *reference; /* the measured file and the reference; owned */
    struct sp_package_info info;
    struct sp_ids ids; /* token IDs of the text; owned */
    struct sp_progress progress;
    struct sp_err *err;
};

static int show_progress(void *context, size_t done, size_t total)
{
    struct job *job = context;

    sp_progress_show(&job->progress, done, total);
    return sp_signals_caught();
}

static void begin_progress(struct job *job, const char *label)
{
    sp_progress_begin(&job->progress, label);
    job->progress.unit = "tokens";
}

/* ---- the text ---------------------------------------------------------------------------------
 */

static enum sp_status read_ids(struct job *job)
{
    const struct options *o = job->options;
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    if (o->ids) return sp_ids_parse(&job->ids, o->ids, job->err);
    if ((st = sp_input_text(&text, &size, o->text, SP_INPUT_MOST, job->err))) return st;
    st = sp_prompt_raw(&job->ids, job->package, text, size, true, job->err);
    if (st) sp_context(job->err, "%s", sp_input_name(o->text));
    free(text);
    return st;
}

/* Counts the bytes of text of the scored tokens. */
static enum sp_status count_bytes(struct sp_eval *eval, const struct job *job)
{
    char *text = NULL;
    enum sp_status st;

    if (!job->info.has_tokenizer) return SP_OK;
    st = sp_package_decode(job->package, job->ids.at + eval->text.first_scored, eval->text.n_scored,
                           false, &text, &eval->n_bytes, job->err);
    free(text);
    return st;
}

/* ---- the reference ----------------------------------------------------------------------------
 */

static bool is_checkpoint(const char *path)
{
    static const char suffix[] = ".safetensors";
    size_t len = strlen(path), n = sizeof suffix - 1;

    return sp_file_is_folder(path) || (len > n && strcmp(path + len - n, suffix) == 0);
}

/* Packs a checkpoint without quantization into a temporary file that stays mapped. */
static enum sp_status open_checkpoint(struct job *job, const char *path)
{
    struct sp_create_listener listener = {.command = job->command};
    struct sp_create_options create = {.from = path,
                                       .n_threads = (unsigned)job->options->backend.n_threads};
    struct sp_temp_file temporary = {0};
    enum sp_status st;

    if ((st = sp_temp_file_open(&temporary, "reference.bin", job->err))) goto done;
    create.output = temporary.path;
    sp_create_attach(&create.callbacks, &listener);
    st = sp_create(NULL, &create, job->err);
    sp_progress_end(&listener.progress);
    if (st) goto done;
    st = sp_backend_open_package(&job->reference, temporary.path, &job->options->backend, job->err);
done:
    sp_temp_file_remove(&temporary);
    return st;
}

static enum sp_status open_reference(struct job *job)
{
    const char *path = job->options->against;

    if (path == NULL) return SP_OK;
    if (is_checkpoint(path)) return open_checkpoint(job, path);
    return sp_backend_open_package(&job->reference, path, &job->options->backend, job->err);
}

/* ---- measurements ------------------------------------------------------------------------------
 */

static enum sp_status read_text(struct sp_eval *eval, struct job *job)
{
    const struct options *o = job->options;
    struct sp_evaluation_request request = {
        .size = sizeof request,
        .ids = job->ids.at,
        .n = job->ids.n,
        .n_window = (size_t)o->backend.n_context,
        .stride = (size_t)o->stride,
        .max_windows = (size_t)o->n_windows,
        .reference = job->reference,
        .cache = sp_backend_cache_type(&o->backend),
        .context = job,
        .progress = show_progress,
    };
    enum sp_status st;

    begin_progress(job, "reading");
    st = sp_package_evaluate(job->package, &request, &eval->text, job->err);
    sp_progress_end(&job->progress);
    if (st && o->against)
        sp_context(job->err, "%s against %s", eval->name, o->against);
    else if (st)
        sp_context(job->err, "%s", eval->name);
    return st ? st : count_bytes(eval, job);
}

static enum sp_status try_draft(struct sp_eval *eval, struct job *job)
{
    const struct options *o = job->options;
    struct sp_backend_opts backend = o->backend;
    struct sp_session *session = NULL;
    struct sp_draft_eval_request request = {
        .size = sizeof request,
        .ids = job->ids.at,
        .n = eval->text.first_scored + eval->text.n_scored,
        .n_places = (size_t)o->n_places,
        .n_predict = (size_t)o->n_predict,
        .draft_len = (int)o->backend.draft_len,
        .context = job,
        .progress = show_progress,
    };
    enum sp_status st;

    if (job->info.draft == NULL || o->n_places == 0 || o->backend.draft_len == 0) return SP_OK;
    backend.n_context = (int64_t)eval->text.n_window;
    st = sp_backend_open_session(&session, job->package, &backend, false, 0, job->err);
    if (st) return st;
    begin_progress(job, "drafting");
    st = sp_session_eval_draft(session, &request, &eval->trial, job->err);
    sp_progress_end(&job->progress);
    sp_session_close(session);
    if (st == SP_OK) eval->draft = job->info.draft;
    return st;
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct job job = {.options = o, .command = args->command->name, .err = err};
    struct sp_eval eval = {.text = SP_EVALUATION_INIT,
                           .trial = SP_DRAFT_EVAL_INIT,
                           .name = args->operands[0],
                           .reference = o->against,
                           .kv_type =
                               o->backend.kv_type ? o->backend.kv_type : sp_backend_kv_types[0]};
    enum sp_status st;

    if ((o->text != NULL) == (o->ids != NULL)) {
        return sp_fail(err, SP_E_USAGE, "expected either --text TEXTFILE or --ids");
    }
    sp_signals_catch();
    if ((st = sp_backend_open_package(&job.package, eval.name, &o->backend, err))) goto done;
    job.info = (struct sp_package_info)SP_PACKAGE_INFO_INIT;
    sp_package_describe(job.package, &job.info);
    if (o->n_places && o->backend.draft_len)
        sp_backend_note_no_draft(args, &job.info, trial_options);
    if ((st = read_ids(&job))) goto done;
    eval.n_tokens = job.ids.n;
    if ((st = open_reference(&job))) goto done;
    if ((st = read_text(&eval, &job))) goto done;
    if ((st = try_draft(&eval, &job))) goto done;
    if (o->json)
        sp_eval_print_json(&eval);
    else
        sp_eval_print(&eval);
done:
    sp_draft_eval_release(&eval.trial);
    sp_package_close(job.reference);
    sp_package_close(job.package);
    sp_ids_release(&job.ids);
    return st;
}

static const struct options defaults = {
    .n_places = 16, .n_predict = 32, .backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_eval = {
    .name = "eval",
    .summary = "Measure quality on a text: perplexity, KL divergence, draft acceptance",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .opts = opts,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .details = "Every token is scored once, given at least (window - stride) tokens of context "
               "where the text has that many before it. Logarithms are natural; +- is one standard "
               "error. The results do not depend on threads or kernels.",
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
