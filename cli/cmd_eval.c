/* spectool eval: measures how well one or two packed files predict texts, how much they differ from
 * a reference, and how many of their draft tokens are accepted. */
#include "cli/commands.h"
#include "cli/create_callbacks.h"
#include "cli/packed_checkpoint.h"
#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/out.h"
#include "cli/base/signals.h"
#include "cli/chat/conversation.h"
#include "cli/base/user_folder.h"
#include "cli/eval/eval.h"
#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "runtime/spectool_measure.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct sp_opt_list texts;
    const char *ids, *against;
    int64_t stride, n_windows, n_places, n_predict;
    bool json;
    struct sp_backend_opts backend;
};

#define AT(member) .offset = offsetof(struct options, member)

static const struct sp_opt opts[] = {
    {SP_OPT_LIST, 'f', "text", NULL, "TEXTFILE", AT(texts), .path = true,
     .help = "File with a text; - is standard input. Special tokens in it are recognized; "
             "repeatable"},
    {SP_OPT_STRING, 0, "ids", NULL, "ID,ID,...", AT(ids), .help = "The text as token IDs"},
    {SP_OPT_STRING, 0, "against", NULL, "FILE|DIR", AT(against), .path = true,
     .help = "Compare with this packed file or checkpoint folder as the reference"},
    {SP_OPT_INT, 0, "num-ctx", NULL, "N", AT(backend.n_context), .min = 1, .max = 1 << 30,
     .shown = "the model's maximum, at most 2048", .help = "Tokens per window"},
    {SP_OPT_INT, 0, "stride", NULL, "N", AT(stride), .min = 1, .max = 1 << 30,
     .shown = "half a window", .help = "Distance between the starts of two windows"},
    {SP_OPT_INT, 0, "windows", NULL, "N", AT(n_windows), .min = 1, .max = 1 << 30, .shown = "all",
     .help = "Evaluate only the first N windows of each text"},
    {SP_OPT_FLAG, 0, "json", NULL, NULL, AT(json), .help = "Print the results as JSON"},
    {SP_OPT_HEADING, .help = "Draft"},
    {SP_OPT_INT, 0, "places", NULL, "N", AT(n_places), .min = 0, .max = 1 << 20, .shown = "16",
     .help = "Measure drafting at N positions of each text; 0: skip"},
    {SP_OPT_INT, 'n', "num-predict", NULL, "N", AT(n_predict), .min = 2, .max = 1 << 20,
     .shown = "32", .help = "Number of tokens to generate at each position"},
    SP_OPT_DRAFT_DEPTH(
        struct options, backend, 0,
        "Draft tokens per round, up to what the draft can propose; auto: at most 16; 0: skip"),
    {SP_OPT_HEADING, .help = "Machine"},
    SP_OPT_REFERENCE(struct options, backend),
    SP_OPT_THREADS(struct options, backend),
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
    struct sp_package *packages[SP_EVAL_FILES], *reference; /* owned */
    struct sp_package_info infos[SP_EVAL_FILES];
    struct sp_eval eval; /* owned */
    struct sp_progress progress;
    struct sp_eval_result *result; /* of the text that is being read */
    struct sp_err *err;
    enum sp_status block_status; /* of keeping the blocks of this text */
};

static int show_progress(void *context, size_t done, size_t total)
{
    struct job *job = context;

    sp_progress_show(&job->progress, done, total);
    return sp_signals_caught();
}

static void release_eval(struct sp_eval *eval)
{
    for (size_t i = 0; i < eval->n_files; i++) {
        struct sp_eval_file *file = &eval->files[i];
        for (size_t k = 0; file->results && k < eval->n_texts; k++) {
            sp_draft_eval_release(&file->results[k].trial);
            free(file->results[k].blocks);
        }
        free(file->results);
    }
    for (size_t i = 0; eval->texts && i < eval->n_texts; i++)
        free(eval->texts[i].ids);
    free(eval->texts);
}

/* ---- the texts ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The second file must read a text as the same tokens. */
static enum sp_status check_same_ids(struct job *job, const char *path, const struct sp_text *text,
                                     const struct sp_ids *ids)
{
    struct sp_ids others = {0};
    enum sp_status st = SP_OK;

    if (job->eval.n_files < 2) return SP_OK;
    if ((st = sp_prompt_raw(&others, job->packages[1], text->at, text->size, true, job->err)))
        return st;
    if (others.n != ids->n || memcmp(others.at, ids->at, ids->n * sizeof *ids->at) != 0) {
        st = sp_fail(job->err, SP_E_INPUT, "%s and %s read %s as different tokens",
                     job->eval.files[0].name, job->eval.files[1].name, path);
    }
    sp_ids_release(&others);
    return st;
}

static enum sp_status read_file(struct job *job, struct sp_eval_text *out, const char *path)
{
    struct sp_text text;
    struct sp_ids ids = {0};
    enum sp_status st;

    if ((st = sp_input_text(&text, path, "a text", SP_INPUT_MOST, job->err))) return st;
    st = sp_prompt_raw(&ids, job->packages[0], text.at, text.size, true, job->err);
    if (st) sp_context(job->err, "%s", sp_input_name(path));
    if (!st) st = check_same_ids(job, sp_input_name(path), &text, &ids);
    out->name = base_name(sp_input_name(path));
    sp_hash128_text(out->digest, text.at, text.size);
    out->ids = ids.at;
    out->n_ids = ids.n;
    free(text.at);
    return st;
}

static enum sp_status read_ids(struct job *job, struct sp_eval_text *out)
{
    struct sp_ids ids = {0};
    uint8_t *bytes = NULL;
    enum sp_status st;

    if ((st = sp_ids_parse(&ids, job->options->ids, job->err))) return st;
    *out = (struct sp_eval_text){.name = "ids", .ids = ids.at, .n_ids = ids.n};
    if ((st = sp_new(&bytes, ids.n, 4, job->err))) return st;
    for (size_t i = 0; i < ids.n; i++)
        sp_put32(bytes + 4 * i, ids.at[i]);
    sp_hash128_text(out->digest, bytes, 4 * ids.n);
    free(bytes);
    return SP_OK;
}

static enum sp_status read_texts(struct job *job)
{
    const struct options *o = job->options;
    struct sp_eval *eval = &job->eval;
    enum sp_status st;

    eval->n_texts = o->ids ? 1 : o->texts.n;
    if ((st = sp_new(&eval->texts, eval->n_texts, sizeof *eval->texts, job->err))) return st;
    for (size_t i = 0; i < eval->n_files && !st; i++) {
        struct sp_eval_file *file = &eval->files[i];
        st = sp_new(&file->results, eval->n_texts, sizeof *file->results, job->err);
        for (size_t k = 0; k < eval->n_texts && !st; k++) {
            file->results[k].text = (struct sp_evaluation)SP_EVALUATION_INIT;
            file->results[k].trial = (struct sp_draft_eval)SP_DRAFT_EVAL_INIT;
        }
    }
    if (!st && o->ids) return read_ids(job, &eval->texts[0]);
    for (size_t i = 0; i < eval->n_texts && !st; i++)
        st = read_file(job, &eval->texts[i], o->texts.items[i]);
    return st;
}

/* Counts the bytes of text of the scored tokens. */
static enum sp_status count_bytes(struct job *job, struct sp_eval_result *result, size_t file,
                                  const struct sp_eval_text *t)
{
    char *text = NULL;
    enum sp_status st;

    if (!job->infos[file].has_tokenizer) return SP_OK;
    st = sp_tokenizer_decode(sp_package_tokenizer(job->packages[file]),
                             t->ids + result->text.first_scored, result->text.n_scored, false,
                             &text, &result->n_bytes, job->err);
    free(text);
    return st;
}

/* ---- the reference ---- */

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

static enum sp_status open_model(struct sp_package **out, const struct job *job, const char *name)
{
    char *path = NULL;
    enum sp_status st = sp_packed_checkpoint_find(&path, name, NULL, job->command, job->err);

    if (!st) st = sp_backend_open_package(out, path, &job->options->backend, job->err);
    free(path);
    return st;
}

static enum sp_status open_reference(struct job *job)
{
    const char *name = job->options->against;

    if (name == NULL) return SP_OK;
    if (is_checkpoint(name)) return open_checkpoint(job, name);
    return open_model(&job->reference, job, name);
}

/* ---- measurements ---- */

static void keep_block(void *context, const struct sp_evaluation_block *block)
{
    struct job *job = context;
    struct sp_eval_result *r = job->result;

    if (job->block_status) return;
    job->block_status =
        sp_grow(&r->blocks, &r->cap_blocks, r->n_blocks + 1, sizeof *r->blocks, job->err);
    if (job->block_status) return;
    r->blocks[r->n_blocks++] =
        (struct sp_eval_block){.means = {[SP_EVAL_LOSS] = block->loss,
                                         [SP_EVAL_RIGHT] = block->right,
                                         [SP_EVAL_REFERENCE_LOSS] = block->reference_loss,
                                         [SP_EVAL_LOSS_CHANGE] = block->loss_change,
                                         [SP_EVAL_DIVERGENCE] = block->divergence,
                                         [SP_EVAL_AGREEMENT] = block->agreement,
                                         [SP_EVAL_PROB_CHANGE] = block->prob_change}};
}

static enum sp_status read_text(struct job *job, size_t file, size_t i)
{
    const struct options *o = job->options;
    const char *name = job->eval.files[file].name;
    const struct sp_eval_text *text = &job->eval.texts[i];
    struct sp_eval_result *result = &job->eval.files[file].results[i];
    struct sp_evaluation_request request = {
        .size = sizeof request,
        .ids = text->ids,
        .n = text->n_ids,
        .n_window = (size_t)o->backend.n_context,
        .stride = (size_t)o->stride,
        .max_windows = (size_t)o->n_windows,
        .reference = job->reference,
        .cache = sp_backend_cache_type(&o->backend),
        .context = job,
        .progress = show_progress,
        .block = keep_block,
    };
    enum sp_status st;

    job->result = result;
    sp_progress_begin(&job->progress, "reading", "tokens");
    st = sp_package_evaluate(job->packages[file], &request, &result->text, job->err);
    sp_progress_end(&job->progress);
    if (st && job->eval.n_texts > 1) sp_context(job->err, "%s", text->name);
    if (st && o->against)
        sp_context(job->err, "%s against %s", name, o->against);
    else if (st)
        sp_context(job->err, "%s", name);
    if (!st) st = job->block_status;
    return st ? st : count_bytes(job, result, file, text);
}

static enum sp_status try_draft(struct job *job, struct sp_session *session, size_t file, size_t i)
{
    const struct options *o = job->options;
    const struct sp_eval_text *text = &job->eval.texts[i];
    struct sp_eval_result *result = &job->eval.files[file].results[i];
    struct sp_draft_eval_request request = {
        .size = sizeof request,
        .ids = text->ids,
        .n = result->text.first_scored + result->text.n_scored,
        .n_places = (size_t)o->n_places,
        .n_predict = (size_t)o->n_predict,
        .draft_len = (int)o->backend.draft_len,
        .context = job,
        .progress = show_progress,
    };
    enum sp_status st;

    sp_progress_begin(&job->progress, "drafting", "tokens");
    st = sp_session_eval_draft(session, &request, &result->trial, job->err);
    sp_progress_end(&job->progress);
    return st;
}

static bool wants_trial(const struct options *o)
{
    return o->n_places && o->backend.draft_len;
}

static enum sp_status measure_file(struct job *job, size_t file)
{
    struct sp_backend_opts backend = job->options->backend;
    struct sp_eval_file *f = &job->eval.files[file];
    struct sp_session *session = NULL;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < job->eval.n_texts && !st; i++)
        st = read_text(job, file, i);
    if (st || job->infos[file].draft == NULL || !wants_trial(job->options)) return st;
    backend.n_context = (int64_t)f->results[0].text.n_window;
    st = sp_backend_open_session(&session, job->packages[file], &backend, false, 0, job->err);
    for (size_t i = 0; i < job->eval.n_texts && !st; i++)
        st = try_draft(job, session, file, i);
    sp_session_close(session);
    if (!st) f->draft = job->infos[file].draft;
    return st;
}

static enum sp_status open_files(struct job *job, const struct sp_args *args)
{
    enum sp_status st;

    for (size_t i = 0; i < args->n_operands; i++) {
        struct sp_eval_file *file = &job->eval.files[i];
        file->name = args->operands[i];
        job->eval.n_files++;
        if ((st = open_model(&job->packages[i], job, file->name))) return st;
        job->infos[i] = (struct sp_package_info)SP_PACKAGE_INFO_INIT;
        sp_package_describe(job->packages[i], &job->infos[i]);
        if (wants_trial(job->options))
            sp_backend_note_no_draft(args, &job->infos[i], trial_options);
    }
    if (job->eval.n_files == 1 || job->infos[0].n_vocab == job->infos[1].n_vocab) return SP_OK;
    return sp_fail(job->err, SP_E_INPUT, "%s: the vocabulary has %zu tokens, that of %s %zu",
                   args->operands[0], job->infos[0].n_vocab, args->operands[1],
                   job->infos[1].n_vocab);
}

static enum sp_status run(const struct sp_args *args, struct sp_err *err)
{
    const struct options *o = args->options;
    struct job job = {.options = o, .command = args->command->name, .err = err};
    enum sp_status st;

    if (o->texts.n == 0 && o->ids == NULL && args->n_operands > 1) {
        return sp_fail(err, SP_E_USAGE,
                       "expected either --text TEXTFILE or --ids; %s stands for a second packed "
                       "file",
                       args->operands[1]);
    }
    if ((o->texts.n > 0) == (o->ids != NULL))
        return sp_fail(err, SP_E_USAGE, "expected either --text TEXTFILE or --ids");
    if ((st = sp_backend_check_reference(args, &o->backend, err))) return st;
    sp_signals_catch();
    job.eval.reference = o->against;
    job.eval.kv_type = o->backend.kv_type ? o->backend.kv_type : sp_backend_kv_types[0];
    if ((st = open_files(&job, args))) goto done;
    if ((st = read_texts(&job))) goto done;
    if ((st = open_reference(&job))) goto done;
    for (size_t i = 0; i < job.eval.n_files; i++)
        if ((st = measure_file(&job, i))) goto done;
    if (o->json)
        sp_eval_print_json(&job.eval);
    else
        st = sp_eval_print(&job.eval, err);
done:
    release_eval(&job.eval);
    sp_package_close(job.reference);
    for (size_t i = 0; i < SP_EVAL_FILES; i++)
        sp_package_close(job.packages[i]);
    return st;
}

static const struct options defaults = {
    .n_places = 16, .n_predict = 32, .backend = SP_BACKEND_DEFAULTS};

const struct sp_command sp_cmd_eval = {
    .name = "eval",
    .summary = "Measure quality on texts: perplexity, KL divergence, acceptance",
    .operands = "FILE [FILE2]",
    .min_operands = 1,
    .max_operands = SP_EVAL_FILES,
    SP_COMMAND_OPTIONS(opts, defaults),
    .takes_model = true,
    .details = "Every token is scored once, given at least (window - stride) tokens of context "
               "where the text has that many before it. Logarithms are natural; +- is half of the "
               "95% confidence interval. FILE2 is measured on the same positions, and the "
               "differences have intervals of their own. The results do not depend on threads or "
               "kernels.",
    .group_offset = offsetof(struct options, backend.group),
    .run = run,
};
