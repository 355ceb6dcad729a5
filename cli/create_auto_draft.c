/* The file is created with the draft as it is stored, in a temporary file, and from that once more
 * for each type that is measured, and for the one that is chosen. */
#include "cli/create_auto_draft.h"

#include "cli/base/input_text.h"
#include "cli/base/word_wrap.h"
#include "cli/base/temp_file.h"
#include "cli/create_callbacks.h"
#include "cli/create_check.h"
#include "cli/draft_types.h"
#include "convert/create/calibration.h"
#include "format/base/mem.h"
#include "format/base/number_text.h"
#include "format/packfile_layout.h"
#include "format/packfile_write.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Continuations of these are prose, dialog, an explanation, source code, a list and numbers. */
const char *const sp_create_texts[SP_N_CREATE_TEXTS] = {
    "The old lighthouse keeper climbed the stairs every evening, long before the ships came near "
    "the coast. He had done so for thirty years, and on that night in November he noticed",
    "\"Where have you been all day?\" she asked when he finally opened the door. He put down his "
    "bag and looked at the clock. \"You would not believe",
    "Photosynthesis is the process by which plants turn light into chemical energy. It takes place "
    "in the chloroplasts, where",
    "def fibonacci(n):\n    \"\"\"Return the first n Fibonacci numbers.\"\"\"\n    numbers = []\n"
    "    a, b = 0, 1\n    for i in range(n):\n",
    "Here are ten tips for a healthy diet:\n\n1. Eat more vegetables.\n2. Drink enough water.\n3. ",
    "A train leaves the station at 9 o'clock and travels at 80 kilometers per hour. Another train "
    "leaves one hour later and travels at 120 kilometers per hour. To find out when",
};

enum { PLACES = 4, PREDICT = 48 };

enum { N_TRIED = SP_N_BLOCK_DTYPES };

struct job {
    struct sp_create_options options;
    const char *command;
    const char *calibration; /* of the draft; NULL: none */
    struct sp_temp_file temporary;
    struct sp_eval_text *texts; /* [n_texts] owned */
    size_t n_texts;
    struct sp_draft_type types[N_TRIED + 1];
    size_t n_types;
    struct sp_err *err;
};

/* ---- the texts ---- */

static enum sp_status add_text(struct job *job, const struct sp_package *package, const char *name,
                               const char *text, size_t size)
{
    struct sp_eval_text *t = &job->texts[job->n_texts];
    const char *slash = strrchr(name, '/');
    enum sp_status st;

    t->name = slash ? slash + 1 : name;
    if (!sp_pack_name_valid(t->name, strlen(t->name))) {
        return sp_fail(job->err, SP_E_USAGE,
                       "--draft-text: the name of text %zu is not 1 to %d bytes of printable UTF-8",
                       job->n_texts + 1, SP_PACK_MAX_NAME);
    }
    sp_hash128_text(t->digest, text, size);
    st = sp_tokenizer_encode(sp_package_tokenizer(package), text, size,
                             SP_ENCODE_ADD_SPECIAL | SP_ENCODE_PARSE_SPECIAL, &t->ids, &t->n_ids,
                             job->err);
    if (st) return st;
    job->n_texts++;
    return SP_OK;
}

static enum sp_status add_file(struct job *job, const struct sp_package *package, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    enum sp_status st;

    if ((st = sp_input_text(&text, &size, path, "a text", SP_INPUT_MOST, job->err))) return st;
    st = add_text(job, package, sp_input_name(path), text, size);
    if (st) sp_context(job->err, "%s", sp_input_name(path));
    free(text);
    return st;
}

static enum sp_status read_texts(struct job *job, const struct sp_opt_list *files,
                                 const struct sp_backend_opts *backend)
{
    static const char *const names[SP_N_CREATE_TEXTS] = {"built-in 1", "built-in 2", "built-in 3",
                                                         "built-in 4", "built-in 5", "built-in 6"};
    size_t n = files->n ? files->n : SP_N_CREATE_TEXTS;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_package *package = NULL;
    enum sp_status st;

    if ((st = sp_new(&job->texts, n, sizeof *job->texts, job->err))) return st;
    if ((st = sp_backend_open_package(&package, job->temporary.path, backend, job->err))) return st;
    sp_package_describe(package, &info);
    if (!info.has_tokenizer) {
        st = sp_fail(job->err, SP_E_USAGE,
                     "--quantize-draft auto: the model has no tokenizer, so that no text can be "
                     "read to measure the draft on");
    }
    for (size_t i = 0; i < n && !st; i++) {
        st = files->n
                 ? add_file(job, package, files->items[i])
                 : add_text(job, package, names[i], sp_create_texts[i], strlen(sp_create_texts[i]));
    }
    sp_package_close(package);
    return st;
}

/* ---- the choice ---- */

static enum sp_status measure(struct job *job, const struct sp_backend_opts *backend)
{
    struct sp_draft_types_request request = {.path = job->temporary.path,
                                             .texts = job->texts,
                                             .n_texts = job->n_texts,
                                             .n_places = PLACES,
                                             .n_predict = PREDICT,
                                             .backend = backend,
                                             .calibration = job->calibration};
    enum sp_dtype types[N_TRIED + 1], stored;
    enum sp_status st;

    if ((st = sp_draft_types_stored(&stored, request.path, job->err))) return st;
    if (sp_dtype_is_block(stored)) {
        return sp_fail(job->err, SP_E_USAGE,
                       "--quantize-draft auto: the draft is stored in %s already, and in a smaller "
                       "type it would be rounded twice",
                       sp_dtype_info(stored)->name);
    }
    for (size_t i = 0; i <= N_TRIED; i++)
        types[i] = i ? sp_block_dtypes[i - 1].dtype : stored;
    job->n_types = N_TRIED + 1;
    return sp_draft_types_measure(job->types, types, job->n_types, &request, job->err);
}

/* The members of the receipt after its digests. */
static enum sp_status receipt_members(char **members, const struct job *job, size_t chosen)
{
    size_t size = 0;
    FILE *out = open_memstream(members, &size);
    struct sp_json_out json = {.file = out};
    char number[40];

    if (out == NULL) return sp_fail(job->err, SP_E_NOMEM, "no memory for a receipt");
    fprintf(out, "\"type\":\"%s\",\"plain_bytes\":%.0f,\"texts\":[",
            sp_dtype_info(job->types[chosen].type)->name, job->types[chosen].plain);
    for (size_t i = 0; i < job->n_texts; i++) {
        const struct sp_eval_text *t = &job->texts[i];
        fprintf(out, "%s{\"name\":", i ? "," : "");
        sp_json_out_quoted(&json, t->name, strlen(t->name));
        fprintf(out, ",\"digest\":\"%s\",\"positions\":%zu}", t->digest, t->n_ids);
    }
    fputs("],\"results\":[", out);
    for (size_t i = 0; i < job->n_types; i++) {
        const struct sp_draft_type *t = &job->types[i];
        fprintf(out,
                "%s{\"type\":\"%s\",\"size\":%" PRIu64 ",\"draft_length\":%zu,\"round_bytes\":%.0f",
                i ? "," : "", sp_dtype_info(t->type)->name, t->size, sp_draft_lengths[t->best],
                t->cost[t->best]);
        sp_number_print(number, sizeof number, "%.17g", t->tokens[t->best]);
        fprintf(out, ",\"tokens_per_round\":%s", number);
        sp_number_print(number, sizeof number, "%.17g", t->speed_up);
        fprintf(out, ",\"speed_up\":%s}", number);
    }
    fputs("]", out);
    return sp_close_text(out, members, job->err);
}

/* Writes the output from the temporary file, and completes the report. */
static enum sp_status write_chosen(struct job *job, struct sp_create_report *report, size_t chosen)
{
    const struct sp_create_options *o = &job->options;
    struct sp_create_listener listener = {.command = job->command};
    struct sp_create_report last;
    char *members = NULL;
    enum sp_status st;
    struct sp_create_options options = {
        .from = job->temporary.path,
        .output = o->output ? o->output : SP_CREATE_OUTPUT,
        .draft_type = chosen ? job->types[chosen].type : SP_DTYPE_NONE,
        .n_threads = o->n_threads,
        .force = o->force,
    };

    if (chosen && sp_dtype_info(options.draft_type)->code_bits)
        options.calibration = job->calibration;
    if ((st = receipt_members(&members, job, chosen))) return st;
    options.draft_choice = members;
    sp_create_attach(&options.callbacks, &listener);
    st = sp_requantize(&last, &options, job->err);
    sp_progress_end(&listener.progress);
    free(members);
    if (st) return st;
    report->size[SP_PART_DRAFT] = last.size[SP_PART_DRAFT];
    report->file_size = last.file_size;
    return SP_OK;
}

static enum sp_status choose(struct job *job, struct sp_create_report *report)
{
    size_t chosen = sp_draft_types_fastest(job->types, job->n_types);
    const struct sp_draft_type *t = &job->types[chosen];
    enum sp_status st;

    fprintf(stderr, "types of the draft, by acceptance on %zu text%s and by bytes read:\n",
            job->n_texts, job->n_texts == 1 ? "" : "s");
    if ((st = sp_draft_types_print(stderr, job->types, job->n_types, false, job->err))) return st;
    sp_draft_type_print_choice(stderr, "the draft becomes", t);
    return write_chosen(job, report, chosen);
}

/* ---- the whole ---- */

/* Refuses what the first step would refuse, before it works for long. */
static enum sp_status check(const struct job *job, struct sp_create_report *report)
{
    const struct sp_create_options *o = &job->options;
    struct sp_create_options plan = *o;
    const char *output = o->output ? o->output : SP_CREATE_OUTPUT;
    enum sp_status st;

    if (!o->dry_run && (st = sp_pack_writer_check(output, o->force, job->err))) return st;
    plan.dry_run = true;
    if (!o->dry_run) plan.callbacks = (struct sp_create_callbacks){0};
    plan.budget.no_check |= !o->dry_run;
    if ((st = sp_create_checked(report, &plan, false, job->command, job->err))) return st;
    if (report->n_weights[SP_PART_DRAFT] == 0)
        return sp_fail(job->err, SP_E_USAGE, "--quantize-draft auto: there is no draft");
    return SP_OK;
}

static void note_intention(const struct job *job, size_t n_texts)
{
    char sentence[256], types[64] = "";

    for (size_t i = 0; i < N_TRIED; i++) {
        strcat(types, i == 0 ? "" : i + 1 < N_TRIED ? ", " : " and ");
        strcat(types, sp_dtype_info(sp_block_dtypes[i].dtype)->name);
    }
    fflush(stdout);
    snprintf(sentence, sizeof sentence,
             "--quantize-draft auto would measure the draft as it is stored and in %s: %d tokens "
             "at each of %d positions of %zu texts",
             types, PREDICT, PLACES, n_texts);
    sp_note(job->command, sentence);
}

/* A calibration of the draft is used when the draft gets its type. One of the target is used in the
 * first step, unless the target keeps its types. */
static enum sp_status divide_calibration(struct job *job)
{
    struct sp_create_options *o = &job->options;
    struct sp_calibration_file *file = NULL;
    enum sp_status st;

    if (o->calibration == NULL) return SP_OK;
    if ((st = sp_calibration_open(&file, o->calibration, job->err))) return st;
    if (sp_calibration_has(file, SP_PART_DRAFT)) {
        bool keeps = o->target_type == SP_DTYPE_NONE && o->output_type == SP_DTYPE_NONE &&
                     o->budget.size == 0 && !(o->budget.bits > 0) &&
                     sp_type_rules_first(&o->rules, SP_PART_TARGET) == NULL;
        job->calibration = o->calibration;
        if (keeps) o->calibration = NULL;
    }
    sp_calibration_close(file);
    return SP_OK;
}

static enum sp_status create_first(struct job *job, struct sp_create_report *report)
{
    struct sp_create_options first = job->options;
    enum sp_status st;

    if ((st = sp_temp_file_open(&job->temporary, "packed.bin", job->err))) return st;
    first.output = job->temporary.path;
    return sp_create_checked(report, &first, false, job->command, job->err);
}

enum sp_status sp_create_auto_draft(struct sp_create_report *report,
                                    const struct sp_create_options *options,
                                    const struct sp_opt_list *texts, const char *command,
                                    struct sp_err *err)
{
    struct sp_backend_opts backend = SP_BACKEND_DEFAULTS;
    struct job job = {.options = *options, .command = command, .err = err};
    enum sp_status st;

    backend.n_threads = options->n_threads;
    if ((st = divide_calibration(&job))) return st;
    if ((st = check(&job, report))) return st;
    if (options->dry_run) {
        note_intention(&job, texts->n ? texts->n : SP_N_CREATE_TEXTS);
        return SP_OK;
    }
    st = create_first(&job, report);
    if (!st) st = read_texts(&job, texts, &backend);
    if (!st) st = measure(&job, &backend);
    if (!st) st = choose(&job, report);
    sp_temp_file_remove(&job.temporary);
    for (size_t i = 0; i < job.n_texts; i++)
        free(job.texts[i].ids);
    free(job.texts);
    return st;
}
