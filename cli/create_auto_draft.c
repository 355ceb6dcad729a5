/* The file is created with the draft as it is stored, in a temporary file, and from that once more
 * for each type that is measured, and for the one that is chosen.
 *
 * Acceptance is that of sp_session_eval_draft, with as many draft tokens per round as the draft
 * proposes: a round of n emits 1 + a1 + a1 a2 + ... + a1..an tokens on average, where ai is how
 * often draft token i was accepted if those before it were. The cost of a round is the bytes that
 * it reads from memory, which bound generation on a CPU. A type ends before the last text where it
 * is clearly slower than the fastest so far: by 2 % and by four standard errors of the mean of the
 * ratios of their speed-ups on the same texts, of three at least. */

#include "cli/base/backend_opts.h"
#include "cli/base/input_text.h"
#include "cli/base/signals.h"
#include "cli/base/out.h"
#include "cli/base/user_folder.h"
#include "cli/create_callbacks.h"
#include "cli/eval/eval.h"
#include "convert/create/calibration.h"
#include "format/base/mem.h"
#include "format/base/number_text.h"
#include "format/packfile.h"
#include "format/packfile_layout.h"
#include "format/packfile_write.h"
#include "runtime/spectool_measure.h"

#include <inttypes.h>
#include <math.h>
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

enum {
    PLACES = 4,
    PREDICT = 48,
    CONTEXT = 2048,
    /* Passes of more rows are no longer bound by the memory. */
    MOST_DRAFTED = 8,
    N_BLOCK = SP_N_BLOCK_DTYPES,
    N_TYPES = N_BLOCK + 1,
};

/* The draft in a type, at the draft length with the highest speed-up. */
struct trial {
    enum sp_dtype type;
    uint64_t size; /* bytes of the draft */
    double first;  /* how often the first draft token of a round was accepted */
    size_t draft_len;
    double tokens, cost; /* of a round; the cost in bytes */
    double plain;        /* bytes of a pass without drafting */
    double speed_up;     /* below 1: slower */
    size_t n_texts;      /* fewer than there are: it was clearly slower */
};

struct job {
    struct sp_create_options options;
    const char *command;
    const char *calibration; /* of the draft; NULL: none */
    struct sp_temp_file temporary;
    struct sp_backend_opts backend;
    struct sp_eval_text *texts; /* [n_texts] owned */
    size_t n_texts;
    double *speed_ups; /* [2][n_texts] owned: on each text, of this type and of the fastest */
    double fastest;    /* speed-up of the fastest type so far */
    struct trial trials[N_TYPES]; /* the first: as it is stored */
    struct sp_progress progress;  /* over all types */
    char label[64];               /* of the progress */
    size_t n_done, n_left_out;    /* texts, of all types */
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
    struct sp_text text;
    enum sp_status st;

    if ((st = sp_input_text(&text, path, "a text", SP_INPUT_MOST, job->err))) return st;
    st = add_text(job, package, sp_input_name(path), text.at, text.size);
    if (st) sp_context(job->err, "%s", sp_input_name(path));
    free(text.at);
    return st;
}

static enum sp_status read_texts(struct job *job, const struct sp_opt_list *files)
{
    static const char *const names[SP_N_CREATE_TEXTS] = {"built-in 1", "built-in 2", "built-in 3",
                                                         "built-in 4", "built-in 5", "built-in 6"};
    size_t n = files->n ? files->n : SP_N_CREATE_TEXTS;
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_package *package = NULL;
    enum sp_status st;

    if ((st = sp_new(&job->texts, n, sizeof *job->texts, job->err))) return st;
    if ((st = sp_new(&job->speed_ups, 2 * n, sizeof *job->speed_ups, job->err))) return st;
    if ((st = sp_backend_open_package(&package, job->temporary.path, &job->backend, job->err)))
        return st;
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

/* ---- the trials ---- */

/* Embedding and output matrix may have more bits than the type that was requested. */
static bool is_table(const struct sp_pack_tensor *t)
{
    return strcmp(t->name, "embed_tokens.weight") == 0 || strcmp(t->name, "lm_head.weight") == 0;
}

/* *size = the bytes of the draft in the file, and *stored = the type of most of the weights in its
 * layers. */
static enum sp_status read_draft(uint64_t *size, enum sp_dtype *stored, const char *path,
                                 struct sp_err *err)
{
    uint64_t n_weights[SP_N_PACKED_DTYPES] = {0}, most = 0;
    struct sp_pack *pack = NULL;
    enum sp_status st;

    if ((st = sp_pack_open(&pack, path, err))) return st;
    *stored = SP_DTYPE_NONE;
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->part != SP_PART_DRAFT) continue;
        *size += t->size;
        if (t->rank < 2 || is_table(t)) continue;
        n_weights[t->dtype] += sp_n_elements(t->shape, t->rank);
        if (n_weights[t->dtype] <= most) continue;
        most = n_weights[t->dtype];
        *stored = t->dtype;
    }
    sp_pack_close(pack);
    return SP_OK;
}

static int show_progress(void *context, size_t done, size_t total)
{
    const size_t each = (size_t)PLACES * PREDICT;
    struct job *job = context;

    sp_progress_show(&job->progress, job->n_done * each + (total ? each * done / total : 0),
                     (N_TYPES * job->n_texts - job->n_left_out) * each);
    return sp_signals_caught();
}

/* The draft is quantized in no time beside its measurement. */
static int cancel(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return sp_signals_caught();
}

/* Opens the file with its draft in the type, which stays mapped after it is removed. */
static enum sp_status open_package(struct sp_package **package, struct job *job, struct trial *t)
{
    struct sp_create_options options = {.from = job->temporary.path,
                                        .draft_type = t->type,
                                        .n_threads = (unsigned)job->backend.n_threads,
                                        .callbacks = {.progress = cancel},
                                        .allow_lossy = true};
    struct sp_temp_file temporary = {0};
    enum sp_dtype type;
    enum sp_status st;

    if (t == job->trials)
        return sp_backend_open_package(package, options.from, &job->backend, job->err);
    if (sp_dtype_code_bits(t->type)) options.calibration = job->calibration;
    if ((st = sp_temp_file_open(&temporary, "draft.bin", job->err))) goto done;
    options.output = temporary.path;
    st = sp_requantize(NULL, &options, job->err);
    if (!st) st = read_draft(&t->size, &type, temporary.path, job->err);
    if (!st) st = sp_backend_open_package(package, temporary.path, &job->backend, job->err);
done:
    sp_temp_file_remove(&temporary);
    return st;
}

/* Chooses the draft length. A pass that verifies several rows reads the weights once, like a pass
 * of one row. */
static void choose_length(struct trial *t, const struct sp_session *session, size_t max_draft_len,
                          const size_t *tried, const size_t *accepted)
{
    double all = 1, sum = 1;

    t->speed_up = 0;
    t->plain = (double)sp_session_read_size(session, 0, 0);
    for (size_t i = 0; i < max_draft_len && i < MOST_DRAFTED; i++) {
        double cost = (double)sp_session_read_size(session, 0, i + 1), speed_up;
        all *= tried[i] ? (double)accepted[i] / (double)tried[i] : 0;
        sum += all;
        speed_up = sum * t->plain / cost;
        if (i == 0) t->first = all;
        if (i > 0 && !(speed_up > t->speed_up)) continue;
        t->draft_len = i + 1;
        t->tokens = sum;
        t->cost = cost;
        t->speed_up = speed_up;
    }
}

/* True if the type need not be measured on more than the first n texts. */
static bool is_clearly_slower(const struct job *job, size_t n)
{
    const double *fastest = job->speed_ups + job->n_texts;
    double sum = 0, squares = 0, mean;

    if (n < 3 || !(job->fastest > 0)) return false;
    for (size_t k = 0; k < n; k++)
        sum += log(job->speed_ups[k] / fastest[k]);
    mean = sum / (double)n;
    for (size_t k = 0; k < n; k++)
        squares += pow(log(job->speed_ups[k] / fastest[k]) - mean, 2);
    return mean < -0.02 && mean < -4 * sqrt(squares / (double)(n - 1) / (double)n);
}

/* Measures the type on one text after the other. */
static enum sp_status try_texts(struct job *job, struct trial *t, struct sp_session *session,
                                size_t max_draft_len)
{
    size_t tried[SP_DRAFT_EVAL_LENGTH] = {0}, accepted[SP_DRAFT_EVAL_LENGTH] = {0};
    size_t n_rounds = 0;

    for (size_t k = 0; k < job->n_texts; k++) {
        struct sp_draft_eval eval = SP_DRAFT_EVAL_INIT;
        struct sp_draft_eval_request request = {
            .size = sizeof request,
            .ids = job->texts[k].ids,
            .n = job->texts[k].n_ids,
            .n_places = PLACES,
            .n_predict = PREDICT,
            .draft_len = SP_DRAFT_LENGTH_AUTO,
            .context = job,
            .progress = show_progress,
        };
        size_t n_tried[SP_DRAFT_EVAL_LENGTH] = {0}, n_accepted[SP_DRAFT_EVAL_LENGTH] = {0};
        enum sp_status st = sp_session_eval_draft(session, &request, &eval, job->err);
        if (st) return st;
        job->n_done++;
        t->n_texts++;
        for (size_t i = 0; i < eval.n_draft_positions; i++) {
            tried[i] += n_tried[i] = eval.draft_positions[i].tried;
            accepted[i] += n_accepted[i] = eval.draft_positions[i].accepted;
        }
        n_rounds += eval.n_rounds;
        sp_draft_eval_release(&eval);
        choose_length(t, session, max_draft_len, n_tried, n_accepted);
        job->speed_ups[k] = t->speed_up;
        if (is_clearly_slower(job, k + 1)) break;
    }
    choose_length(t, session, max_draft_len, tried, accepted);
    job->n_left_out += job->n_texts - t->n_texts;
    if (n_rounds == 0) {
        return sp_fail(job->err, SP_E_USAGE,
                       "nothing was drafted: the texts are empty, or the model ends them at once");
    }
    if (t->n_texts < job->n_texts || !(t->speed_up > job->fastest)) return SP_OK;
    job->fastest = t->speed_up;
    memcpy(job->speed_ups + job->n_texts, job->speed_ups, job->n_texts * sizeof *job->speed_ups);
    return SP_OK;
}

static enum sp_status try_type(struct job *job, struct trial *t)
{
    struct sp_package_info info = SP_PACKAGE_INFO_INIT;
    struct sp_backend_opts backend = job->backend;
    struct sp_package *package = NULL;
    struct sp_session *session = NULL;
    enum sp_status st;

    snprintf(job->label, sizeof job->label, "drafting in %s, type %td of %d",
             sp_dtype_info(t->type)->name, t - job->trials + 1, N_TYPES);
    job->progress.label = job->label;
    if ((st = open_package(&package, job, t))) goto done;
    sp_package_describe(package, &info);
    backend.n_context = info.max_positions < CONTEXT ? (int64_t)info.max_positions : CONTEXT;
    if ((st = sp_backend_open_session(&session, package, &backend, false, 0, job->err))) goto done;
    st = try_texts(job, t, session, info.max_draft_len);
done:
    sp_session_close(session);
    sp_package_close(package);
    return st;
}

static enum sp_status measure(struct job *job)
{
    enum sp_dtype stored;
    enum sp_status st;

    if ((st = read_draft(&job->trials->size, &stored, job->temporary.path, job->err))) return st;
    if (sp_dtype_is_block(stored)) {
        return sp_fail(job->err, SP_E_USAGE,
                       "--quantize-draft auto: the draft is stored in %s already, and in a smaller "
                       "type it would be rounded twice",
                       sp_dtype_info(stored)->name);
    }
    sp_progress_begin(&job->progress, "drafting", "tokens");
    for (size_t i = 0; i < N_TYPES; i++)
        job->trials[i].type = i ? sp_block_dtypes[i - 1].dtype : stored;
    /* Usually the smaller types are fast, and slower ones end early behind them. */
    for (size_t i = 0; i < N_TYPES && !st; i++)
        st = try_type(job, &job->trials[N_TYPES - 1 - i]);
    sp_progress_end(&job->progress);
    return st;
}

/* ---- the choice ---- */

/* Returns the fastest type of those that were measured on all texts, as the fastest one is; of
 * equally fast ones the smallest. */
static const struct trial *fastest(const struct trial *trials)
{
    const struct trial *best = trials;

    for (const struct trial *t = trials + 1; t < trials + N_TYPES; t++) {
        bool same = !(t->speed_up < best->speed_up) && !(t->speed_up > best->speed_up);
        if (t->n_texts < best->n_texts) continue;
        if (t->n_texts > best->n_texts || t->speed_up > best->speed_up ||
            (same && t->size < best->size))
            best = t;
    }
    return best;
}

static void add_row(struct sp_table *table, const struct job *job, const struct trial *t)
{
    char size[SP_AMOUNT_TEXT];

    sp_table_add(table, "%s%s", sp_dtype_info(t->type)->name, t == job->trials ? ", stored" : "");
    sp_table_add(table, "%s", sp_out_size(size, t->size));
    sp_table_add(table, "%.1f%%", 100 * t->first);
    sp_table_add(table, "%zu", t->draft_len);
    sp_table_add(table, "%.3f", t->tokens);
    sp_table_add(table, "%.2f", (t->cost - t->plain) / 1e6);
    sp_table_add(table, "%.2f", t->cost / 1e6);
    sp_table_add(table, "%.2fx%s", t->speed_up, t->n_texts < job->n_texts ? " *" : "");
}

static enum sp_status print_trials(const struct job *job)
{
    static const char *const heading[] = {
        "",      "",     "first",    "",      "tokens",    "drafting", "round", "expected",
        "draft", "size", "accepted", "depth", "per round", "MB",       "MB",    "speed-up"};
    struct sp_table table = {.align = "lrrrrrrl", .err = job->err};
    enum sp_status st;

    fprintf(stderr, "types of the draft, by acceptance on %zu text%s and by bytes read:\n",
            job->n_texts, job->n_texts == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof heading / sizeof *heading; i++)
        sp_table_add(&table, "%s", heading[i]);
    for (size_t i = 0; i < N_TYPES; i++)
        add_row(&table, job, &job->trials[i]);
    if (!(st = sp_table_print(stderr, &table, 2))) {
        fprintf(stderr, "  a pass without drafting reads %.2f MB\n", job->trials->plain / 1e6);
        if (job->n_left_out)
            fputs("  * clearly slower than another type before the last text\n", stderr);
    }
    sp_table_release(&table);
    return st;
}

/* The members of the receipt after its digests. */
static enum sp_status receipt_members(char **members, const struct job *job,
                                      const struct trial *chosen)
{
    size_t size = 0;
    FILE *out = open_memstream(members, &size);
    struct sp_json_out json = {.file = out};
    char number[40];

    if (out == NULL) return sp_fail(job->err, SP_E_NOMEM, "no memory for a receipt");
    fprintf(out, "\"type\":\"%s\",\"plain_bytes\":%.0f,\"texts\":[",
            sp_dtype_info(chosen->type)->name, chosen->plain);
    for (size_t i = 0; i < job->n_texts; i++) {
        const struct sp_eval_text *t = &job->texts[i];
        fprintf(out, "%s{\"name\":", i ? "," : "");
        sp_json_out_quoted(&json, t->name, strlen(t->name));
        fprintf(out, ",\"digest\":\"%s\",\"positions\":%zu}", t->digest, t->n_ids);
    }
    fputs("],\"results\":[", out);
    for (size_t i = 0; i < N_TYPES; i++) {
        const struct trial *t = &job->trials[i];
        fprintf(out,
                "%s{\"type\":\"%s\",\"size\":%" PRIu64 ",\"draft_length\":%zu,\"round_bytes\":%.0f",
                i ? "," : "", sp_dtype_info(t->type)->name, t->size, t->draft_len, t->cost);
        sp_number_print(number, sizeof number, "%.17g", t->tokens);
        fprintf(out, ",\"tokens_per_round\":%s", number);
        sp_number_print(number, sizeof number, "%.17g", t->speed_up);
        fprintf(out, ",\"speed_up\":%s,\"n_texts\":%zu}", number, t->n_texts);
    }
    fputs("]", out);
    return sp_close_text(out, members, job->err);
}

/* Writes the output from the temporary file, and completes the report. */
static enum sp_status write_chosen(struct job *job, struct sp_create_report *report,
                                   const struct trial *chosen)
{
    const struct sp_create_options *o = &job->options;
    struct sp_create_listener listener = {.command = job->command};
    struct sp_create_report last;
    char *members = NULL;
    enum sp_status st;
    struct sp_create_options options = {
        .from = job->temporary.path,
        .output = o->output ? o->output : SP_CREATE_OUTPUT,
        .draft_type = chosen == job->trials ? SP_DTYPE_NONE : chosen->type,
        .n_threads = o->n_threads,
        .force = o->force,
    };

    if (chosen != job->trials && sp_dtype_code_bits(chosen->type))
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
    char types[64] = "";

    for (size_t i = 0; i < N_BLOCK; i++) {
        strcat(types, i == 0 ? "" : i + 1 < N_BLOCK ? ", " : " and ");
        strcat(types, sp_dtype_info(sp_block_dtypes[i].dtype)->name);
    }
    fflush(stdout);
    sp_note(job->command,
            "--quantize-draft auto would measure the draft as it is stored and in %s: %d tokens "
            "at each of %d positions of %zu texts",
            types, PREDICT, PLACES, n_texts);
}

/* A calibration of the draft is used when the draft gets its type. One of the target is used in the
 * first step, unless the target keeps its types. */
static enum sp_status divide_calibration(struct job *job)
{
    struct sp_create_options *o = &job->options;
    struct sp_calibration_file file = {0};
    enum sp_status st;

    if (o->calibration == NULL) return SP_OK;
    st = sp_calibration_open(&file, o->calibration, NULL, job->err);
    if (!st && sp_calibration_has(&file, SP_PART_DRAFT)) {
        bool keeps = o->target_type == SP_DTYPE_NONE && o->output_type == SP_DTYPE_NONE &&
                     o->budget.size == 0 && !(o->budget.bits > 0) &&
                     sp_type_rules_first(&o->rules, SP_PART_TARGET) == NULL;
        job->calibration = o->calibration;
        if (keeps) o->calibration = NULL;
    }
    sp_calibration_release(&file);
    return st;
}

enum sp_status sp_create_auto_draft(struct sp_create_report *report,
                                    const struct sp_create_options *options,
                                    const struct sp_opt_list *texts, const char *command,
                                    struct sp_err *err)
{
    struct job job = {
        .options = *options, .command = command, .backend = SP_BACKEND_DEFAULTS, .err = err};
    struct sp_create_options first;
    const struct trial *t;
    enum sp_status st;

    job.backend.n_threads = options->n_threads;
    if ((st = divide_calibration(&job))) return st;
    if ((st = check(&job, report))) return st;
    if (options->dry_run) {
        note_intention(&job, texts->n ? texts->n : SP_N_CREATE_TEXTS);
        return SP_OK;
    }
    if (!(st = sp_temp_file_open(&job.temporary, "packed.bin", err))) {
        first = job.options;
        first.output = job.temporary.path;
        st = sp_create_checked(report, &first, false, command, err);
    }
    if (!st) st = read_texts(&job, texts);
    if (!st) st = measure(&job);
    if (!st && !(st = print_trials(&job))) {
        t = fastest(job.trials);
        sp_word_wrap_print(
            stderr, 0,
            "the draft becomes %s: %.3f tokens per round at draft depth %zu, speed-up %.2f",
            sp_dtype_info(t->type)->name, t->tokens, t->draft_len, t->speed_up);
        st = write_chosen(&job, report, t);
    }
    sp_temp_file_remove(&job.temporary);
    for (size_t i = 0; i < job.n_texts; i++)
        free(job.texts[i].ids);
    free(job.texts);
    free(job.speed_ups);
    return st;
}
