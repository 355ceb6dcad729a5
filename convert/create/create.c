/* create and requantize: open the sources, check, plan, and hand over to the writer. */
#include "convert/create/create.h"

#include "convert/source/generation_config.h"
#include "convert/source/source_adapter.h"
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "format/modelfile/modelfile_place.h"
#include "convert/create/draft_compat.h"
#include "convert/create/make_plan.h"
#include "convert/create/plan_groups.h"
#include "convert/source/shared_tables.h"
#include "convert/source/vocab_order.h"
#include "convert/create/write.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/pack_contents.h"
#include "format/packfile_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The job of create and of quantize. */
struct job {
    struct sp_source target, draft;
    struct sp_named_source named; /* of the target */
    bool has_draft;
    struct sp_plan_inputs inputs; /* the user's options; sources and records: make_plan */
    char *records;
    size_t records_size;
    struct sp_made_plan made;
    char *warnings;
    const char *output;
    const char *draft_choice; /* borrowed; NULL: none */
    bool force, dry_run;
    unsigned n_threads;
    const struct sp_create_callbacks *callbacks;
};

static void release_job(struct job *job)
{
    sp_made_plan_release(&job->made);
    sp_source_release(&job->target);
    sp_source_release(&job->draft);
    sp_named_source_release(&job->named);
    free(job->records);
    free(job->warnings);
}

/* Passes on the warnings collected so far, line by line. */
static void tell_notes(struct job *job)
{
    for (char *line = job->warnings; line && *line;) {
        char *end = strchr(line, '\n');

        if (end) *end = 0;
        if (job->callbacks->note) job->callbacks->note(job->callbacks->context, line);
        line = end ? end + 1 : NULL;
    }
    free(job->warnings);
    job->warnings = NULL;
}

static enum sp_status note_gaps(struct job *job, const struct sp_source *source, bool is_target,
                                struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (source->n_skipped) {
        st = sp_warn(&job->warnings, err,
                     "%s: %zu tensors that text generation does not use are left "
                     "out",
                     source->path, source->n_skipped);
    }
    if (!st && is_target && !sp_source_has_text(source, SP_SECTION_TOKENIZER)) {
        st = sp_warn(&job->warnings, err,
                     "%s: no %s: the packed file will accept and print token IDs only",
                     source->path, source->gguf ? "tokenizer" : "tokenizer.json");
    }
    return st;
}

/* A source with the texts of its tokenizer. */
struct side {
    struct sp_draft_compat_side compat;
    struct sp_source_text tokenizer, tokenizer_config;
};

static enum sp_status open_side(struct side *side, const struct sp_source *source,
                                struct sp_err *err)
{
    enum sp_status st = sp_source_text_open(&side->tokenizer, source, SP_SECTION_TOKENIZER, err);

    if (!st) {
        st = sp_source_text_open(&side->tokenizer_config, source, SP_SECTION_TOKENIZER_CONFIG, err);
    }
    side->compat = (struct sp_draft_compat_side){
        .config = &source->config,
        .tokenizer = side->tokenizer.at,
        .tokenizer_size = side->tokenizer.size,
        .tokenizer_config = side->tokenizer_config.at,
        .tokenizer_config_size = side->tokenizer_config.size,
    };
    return st;
}

static void release_side(struct side *side)
{
    free(side->tokenizer.owned);
    free(side->tokenizer_config.owned);
}

/* The tokenizers of two parts of one packed file were compared when it was made. */
static enum sp_status check_draft(struct job *job, struct sp_err *err)
{
    const struct sp_source *target = &job->target, *draft = &job->draft;
    struct side sides[2] = {{.compat.config = &target->config}, {.compat.config = &draft->config}};
    struct sp_vocab_order order = {0};
    enum sp_status st = SP_OK;

    if (!target->pack || !draft->pack ||
        sp_pack_identity(target->pack) != sp_pack_identity(draft->pack)) {
        st = open_side(&sides[0], target, err);
        if (!st) st = open_side(&sides[1], draft, err);
    }
    if (!st) {
        st = sp_draft_compat_check(&order, &sides[0].compat, &sides[1].compat,
                                   sp_source_same(target, draft), &job->warnings, err);
    }
    if (!st && order.rows) st = sp_source_reorder_vocab(&job->draft, order.rows, target, err);
    free(order.rows);
    release_side(&sides[0]);
    release_side(&sides[1]);
    return st;
}

static enum sp_status check_target(const struct job *job, struct sp_err *err)
{
    if (job->target.config.draft.kind == SP_DRAFT_NONE) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s: %s is a draft and cannot be a target", job->target.path,
                   job->target.config.architecture);
}

static enum sp_status check_pair(struct job *job, struct sp_err *err)
{
    enum sp_status st;

    if ((st = check_target(job, err)) || !job->has_draft) return st;
    st = sp_config_fit_target(&job->draft.config, &job->target.config, err);
    if (!st) st = check_draft(job, err);
    if (st) sp_context(err, "%s with %s", job->target.path, job->draft.path);
    return st;
}

/* n is 0 if there is no calibration. */
static const struct sp_sensitivities *sensitivities_of(const struct job *job)
{
    static const struct sp_sensitivities none = {0};

    if (job->made.calibration == NULL) return &none;
    return sp_calibration_sensitivities(job->made.calibration);
}

static enum sp_status show_groups(const struct job *job, struct sp_err *err)
{
    enum sp_status st;
    char *text = NULL;

    st = sp_plan_groups_print(&text, &job->made.plan, sensitivities_of(job), err);
    if (st) return st;
    job->callbacks->plan(job->callbacks->context, "");
    job->callbacks->plan(job->callbacks->context, text);
    free(text);
    return SP_OK;
}

static enum sp_status show_plan(const struct job *job, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (job->callbacks->plan == NULL) return SP_OK;
    job->callbacks->plan(job->callbacks->context, sp_plan_heading());
    for (size_t i = 0; i < job->made.plan.n_items && !st; i++) {
        char *line = NULL;

        if ((st = sp_plan_line(&line, &job->made.plan.items[i], err))) break;
        job->callbacks->plan(job->callbacks->context, line);
        free(line);
    }
    return st ? st : show_groups(job, err);
}

static unsigned bits_of(enum sp_dtype type)
{
    const struct sp_dtype_info *info = sp_dtype_info(type);

    return info->code_bits ? info->code_bits : info->bits ? info->bits : 8;
}

/* Adds a matrix of the target to those that keep more bits than the requested type has, although
 * the user chose no other type for it. A matrix that cannot be stored in blocks is not counted. */
static void count_kept(struct sp_create_report *report, const struct sp_plan_item *item,
                       const struct sp_policy_request *request)
{
    const enum sp_role role = item->spec->role;
    const bool is_table = role == SP_ROLE_EMBEDDING || role == SP_ROLE_HEAD;
    struct sp_create_kept *kept = is_table ? &report->kept_tables : &report->kept_key_values;

    if (item->part != SP_PART_TARGET || request->type == SP_DTYPE_NONE) return;
    if (is_table ? request->output_type != SP_DTYPE_NONE : role != SP_ROLE_KEY_VALUE) return;
    if (item->layout != SP_PANEL || !sp_dtype_is_block(item->to)) return;
    if (bits_of(item->to) <= bits_of(request->type)) return;
    kept->type = item->to;
    kept->size += item->size;
}

static enum sp_status make_report(struct sp_create_report *out, const struct job *job,
                                  struct sp_err *err)
{
    struct sp_create_report report = {.target_type = job->inputs.target_request.type};
    const struct sp_sensitivities *measured = sensitivities_of(job);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < job->made.plan.n_items; i++) {
        const struct sp_plan_item *item = &job->made.plan.items[i];

        report.n_tensors[item->part]++;
        report.n_weights[item->part] += sp_spec_elements(item->spec);
        report.source_size[item->part] += item->source_size;
        report.size[item->part] += item->size;
        count_kept(&report, item, &job->inputs.target_request);
    }
    if (measured->n)
        st = sp_plan_groups_predict(&report.predicted_kl, &job->made.plan, measured, err);
    if (isnan(report.predicted_kl)) report.predicted_kl = 0;
    *out = report;
    return st;
}

static enum sp_status make_plan(struct job *job, struct sp_err *err)
{
    struct sp_plan_inputs *inputs = &job->inputs;

    inputs->target = &job->target;
    inputs->draft = job->has_draft ? &job->draft : NULL;
    inputs->records = job->records;
    inputs->records_size = job->records_size;
    return sp_plan_make(&job->made, inputs, &job->warnings, err);
}

/* Everything after the sources are open. */
static enum sp_status run_job(struct job *job, struct sp_create_report *report, struct sp_err *err)
{
    enum sp_status st;
    struct sp_create_report done;

    if ((st = check_pair(job, err))) return st;
    if ((st = sp_generation_check(&job->target, &job->warnings, err))) return st;
    if ((st = note_gaps(job, &job->target, true, err))) return st;
    if (job->has_draft && (st = note_gaps(job, &job->draft, false, err))) return st;
    tell_notes(job);
    if ((st = make_plan(job, err))) return st;
    tell_notes(job);
    if ((st = make_report(&done, job, err))) return st;
    if (job->dry_run) {
        st = show_plan(job, err);
    } else {
        struct sp_pack_input input = {
            .target = &job->target,
            .draft = job->has_draft ? &job->draft : NULL,
            .records = job->records,
            .records_size = job->records_size,
            .budget = job->inputs.budget,
            .draft_choice = job->draft_choice,
            .predicted_kl = done.predicted_kl,
            .plan = job->made.plan, /* still owned by the job */
        };

        st = sp_pack_input_write(&input, job->output, job->force, job->n_threads, job->callbacks,
                                 &done.file_size, err);
    }
    if (!st && report) *report = done;
    return st;
}

/* ---- create ---- */

static bool begins_with_home(const char *path)
{
    return path[0] == '~' && (path[1] == '/' || path[1] == 0);
}

/* The path of a FROM or DRAFT value: absolute, under the home folder, or relative to the
 * Modelfile. */
static enum sp_status resolve(char **out, const char *modelfile, const char *value,
                              const char *home, struct sp_err *err)
{
    enum sp_status st;
    const char *slash = strrchr(modelfile, '/');
    char *folder = NULL;

    if (value[0] == '/') return sp_copy_text(out, value, strlen(value), err);
    if (home && begins_with_home(value)) {
        return value[1] ? sp_file_join(out, home, value + 2, err)
                        : sp_copy_text(out, home, strlen(home), err);
    }
    /* A Modelfile in the root has an empty name before its slash, and "/" is meant. */
    st = sp_copy_text(&folder, modelfile,
                      slash == NULL        ? 0
                      : slash == modelfile ? 1
                                           : (size_t)(slash - modelfile),
                      err);
    if (!st) st = sp_file_join(out, folder, value, err);
    free(folder);
    return st;
}

/* Puts the place of a record's value in front of the message: "Modelfile:3:6: FROM: ". */
static void add_place(const struct sp_modelfile *file, const struct sp_modelfile_record *record,
                      struct sp_err *err)
{
    unsigned long line, column;

    sp_modelfile_place(file, record->value_first, &line, &column);
    sp_context(err, "%s:%lu:%lu: %s", file->path, line, column,
               sp_modelfile_command_name(record->command));
}

/* On failure *out is zeroed. */
static enum sp_status open_source(struct sp_source *out, const char *path, enum sp_part part,
                                  char **warnings, struct sp_err *err)
{
    enum sp_status st = sp_source_open(out, path, part, warnings, err);

    if (st || !(st = sp_source_share_head(out, warnings, err))) return st;
    sp_source_release(out);
    return st;
}

/* Opens the file or folder `path` or, if there is none, the model `name`; *named is what the name
 * stands for. */
static enum sp_status open_named(struct sp_source *out, struct sp_named_source *named,
                                 const char *path, const char *name, enum sp_part part,
                                 const struct sp_create_options *options, char **warnings,
                                 struct sp_err *err)
{
    enum sp_status st;

    if (!sp_file_exists(path) && (st = sp_source_name_find(named, name, &options->stores, err)))
        return st;
    if (named->adapter && part == SP_PART_DRAFT) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: a draft with an adapter is not supported",
                       named->manifest);
    }
    if ((st = open_source(out, named->path ? named->path : path, part, warnings, err)) ||
        named->adapter == NULL) {
        return st;
    }
    if ((st = sp_source_merge(out, named->adapter, warnings, err))) sp_source_release(out);
    return st;
}

/* Opens the model of a FROM or DRAFT record. */
static enum sp_status open_record(struct sp_source *out, struct sp_named_source *named,
                                  const struct sp_modelfile *file,
                                  const struct sp_modelfile_record *record,
                                  const struct sp_create_options *options, char **warnings,
                                  struct sp_err *err)
{
    enum sp_status st;
    bool is_from = record->command == SP_MODELFILE_FROM;
    char *path = NULL;

    if ((st = resolve(&path, file->path, record->value, options->home, err))) return st;
    st = open_named(out, named, path, record->value, is_from ? SP_PART_TARGET : SP_PART_DRAFT,
                    options, warnings, err);
    if (st) add_place(file, record, err);
    free(path);
    return st;
}

static enum sp_status open_draft(struct job *job, const struct sp_modelfile *file,
                                 const struct sp_modelfile_record *record,
                                 const struct sp_create_options *options, struct sp_err *err)
{
    struct sp_named_source named = {0};
    enum sp_status st;

    st = open_record(&job->draft, &named, file, record, options, &job->warnings, err);
    sp_named_source_release(&named);
    return st ? st : sp_source_share_embedding(&job->draft, &job->target, &job->warnings, err);
}

static enum sp_status merge_record(struct sp_source *target, const struct sp_modelfile *file,
                                   const struct sp_modelfile_record *record, const char *home,
                                   char **warnings, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = resolve(&path, file->path, record->value, home, err))) return st;
    st = sp_source_merge(target, path, warnings, err);
    if (st) add_place(file, record, err);
    free(path);
    return st;
}

/* The default output exists: offers another name, after the folder or file of FROM. */
static enum sp_status offer_name(const char *output, const char *name, struct sp_err *err)
{
    static const char *const endings[] = {".safetensors", ".gguf", ".bin", NULL};
    size_t len = strlen(name);

    while (len > 0 && name[len - 1] == '/')
        len--;
    for (size_t i = len; i > 0; i--) {
        if (name[i - 1] != '/') continue;
        len -= i;
        name += i;
        break;
    }
    for (const char *const *e = endings; *e != NULL; e++) {
        size_t n = strlen(*e);
        if (len > n && strncmp(name + len - n, *e, n) == 0) len -= n;
    }
    if (len == 0 || *name == '.') {
        name = "FILE";
        len = strlen(name);
    }
    return sp_fail(err, SP_E_USAGE,
                   "%s exists already: --force replaces it, -o %.*s.bin writes another file",
                   output, (int)len, name);
}

/* Refuses an output that exists, before any other work. `from`: FROM's value. */
static enum sp_status check_output(const struct sp_create_options *options, const char *from,
                                   struct sp_err *err)
{
    const char *path = options->output ? options->output : SP_CREATE_OUTPUT;

    if (options->dry_run) return SP_OK;
    if (options->output == NULL && !options->force && sp_file_exists(path))
        return offer_name(path, from, err);
    return sp_pack_writer_check(path, options->force, err);
}

static enum sp_status read_modelfile(struct sp_modelfile *out,
                                     const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;
    const char *path = options->modelfile ? options->modelfile : "Modelfile";
    const struct sp_modelfile_record *template, *from;
    char *text = NULL;
    size_t size;

    if (options->modelfile == NULL && !sp_file_exists(path)) {
        return sp_fail(err, SP_E_IO,
                       "there is no Modelfile in this folder: write one with the lines FROM FOLDER "
                       "and, for a draft, DRAFT FOLDER, or name another file");
    }
    if (sp_file_is_folder(path)) {
        return sp_fail(err, SP_E_INPUT,
                       "%s is a folder, expected a Modelfile that contains FROM %s", path, path);
    }
    if ((st = sp_file_read_text(&text, &size, path, SP_MODELFILE_MAX_SIZE, err))) return st;
    st = sp_modelfile_parse(out, path, text, size, err);
    free(text);
    if (st) return st;
    from = sp_modelfile_find(out, SP_MODELFILE_FROM, NULL);
    if ((st = check_output(options, from ? from->value : "", err))) return st;
    st = sp_modelfile_check(out, options->callbacks.note, options->callbacks.context, err);
    if (st) return st;
    template = sp_modelfile_find(out, SP_MODELFILE_TEMPLATE, NULL);
    if (template == NULL || options->check_template == NULL) return SP_OK;
    st = options->check_template(template->value, template->value_size, err);
    if (st) add_place(out, template, err);
    return st;
}

/* Tells the user what becomes of the target's built-in prediction head. */
static enum sp_status note_head(struct job *job, bool has_record, struct sp_err *err)
{
    const struct sp_source *target = &job->target;

    if (!target->has_mtp && target->checkpoint && target->config.n_mtp_layers && !has_record) {
        return sp_warn(&job->warnings, err,
                       "%s: the config has a built-in prediction head, but the checkpoint does not "
                       "have its tensors: no built-in draft",
                       target->path);
    }
    if (!target->has_mtp) return SP_OK;
    return sp_warn(&job->warnings, err,
                   has_record ? "%s: the draft of the DRAFT line is used, and the built-in "
                                "prediction head is left out"
                              : "%s: the built-in prediction head becomes the draft",
                   target->path);
}

static enum sp_status open_sources(struct job *job, const struct sp_modelfile *file,
                                   const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_modelfile_record *from = sp_modelfile_find(file, SP_MODELFILE_FROM, NULL);
    const struct sp_modelfile_record *draft = sp_modelfile_find(file, SP_MODELFILE_DRAFT, NULL);
    const struct sp_modelfile_record *adapter = sp_modelfile_find(file, SP_MODELFILE_ADAPTER, NULL);

    st = open_record(&job->target, &job->named, file, from, options, &job->warnings, err);
    if (st) return st;
    if (adapter && job->named.adapter) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "the model of FROM has an adapter (%s), and only one can be merged",
                     job->named.manifest);
        add_place(file, adapter, err);
        return st;
    }
    if (adapter &&
        (st = merge_record(&job->target, file, adapter, options->home, &job->warnings, err)))
        return st;
    job->has_draft = draft != NULL || job->target.has_mtp;
    if (!job->has_draft && options->draft_type != SP_DTYPE_NONE) {
        return sp_fail(err, SP_E_USAGE, "%s: --quantize-draft is given, but there is no DRAFT line",
                       file->path);
    }
    if ((st = note_head(job, draft != NULL, err)) || !job->has_draft) return st;
    if (draft == NULL) return sp_source_open_mtp(&job->draft, &job->target, err);
    return open_draft(job, file, draft, options, err);
}

/* The records that the packed file stores: those of an ollama model that FROM names, as far as the
 * Modelfile does not have its own, and then the Modelfile's. */
static enum sp_status make_records(struct job *job, const struct sp_modelfile *file,
                                   const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile base = {0};
    const struct sp_modelfile_record *template;
    struct sp_strbuf text = {0};
    char *own = NULL, *inherited = NULL;
    size_t own_size, size = 0;

    if ((st = sp_modelfile_print(&own, &own_size, file, err))) return st;
    if (job->named.manifest) {
        if ((st = sp_strbuf_append(&text, "FROM ollama\n", 12, err)) ||
            (st = sp_ollama_append_records(&text, job->named.manifest, file, &options->stores,
                                           err)) ||
            (st = sp_modelfile_parse(&base, job->named.manifest, text.at, text.len, err)) ||
            (st = sp_modelfile_check(&base, options->callbacks.note, options->callbacks.context,
                                     err))) {
            goto done;
        }
        template = sp_modelfile_find(&base, SP_MODELFILE_TEMPLATE, NULL);
        if (template && options->check_template &&
            (st = options->check_template(template->value, template->value_size, err))) {
            sp_context(err, "%s: its template, which a TEMPLATE line would replace",
                       job->named.manifest);
            goto done;
        }
        if ((st = sp_modelfile_print(&inherited, &size, &base, err))) goto done;
    }
    text.len = 0;
    if ((st = sp_strbuf_append(&text, inherited, size, err)) ||
        (st = sp_strbuf_append(&text, own, own_size, err)) ||
        (st = sp_strbuf_append(&text, "", 1, err))) {
        goto done;
    }
    job->records = text.at;
    job->records_size = text.len - 1;
    text = (struct sp_strbuf){0};
done:
    sp_modelfile_release(&base);
    sp_strbuf_release(&text);
    free(own);
    free(inherited);
    return st;
}

enum sp_status sp_create(struct sp_create_report *report, const struct sp_create_options *options,
                         struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    struct job job = {
        .output = options->output ? options->output : SP_CREATE_OUTPUT,
        .force = options->force,
        .dry_run = options->dry_run,
        .n_threads = options->n_threads,
        .callbacks = &options->callbacks,
        .inputs = {.target_request = {.type = options->target_type,
                                      .output_type = options->output_type},
                   .draft_request = {.type = options->draft_type, .draft = true},
                   .rules = options->rules,
                   .budget = options->budget,
                   .calibration_path = options->calibration},
    };

    if (options->from) {
        if ((st = check_output(options, options->from, err))) goto done;
        st = open_named(&job.target, &job.named, options->from, options->from, SP_PART_TARGET,
                        options, &job.warnings, err);
        if (st) goto done;
    } else {
        if ((st = read_modelfile(&file, options, err))) goto done;
        if ((st = open_sources(&job, &file, options, err))) goto done;
    }
    if ((st = make_records(&job, &file, options, err))) goto done;
    st = run_job(&job, report, err);
done:
    release_job(&job);
    sp_modelfile_release(&file);
    return st;
}

/* ---- requantize ---- */

/* The requested types must change a part that the file has. */
static enum sp_status check_request(const struct sp_requantize_options *options, bool has_draft,
                                    struct sp_err *err)
{
    if (options->draft_type != SP_DTYPE_NONE && !has_draft) {
        return sp_fail(err, SP_E_USAGE, "%s has no draft to quantize", options->input);
    }
    if (options->draft_type == SP_DTYPE_NONE && options->target_type == SP_DTYPE_NONE &&
        options->output_type == SP_DTYPE_NONE && options->rules.n == 0 &&
        options->budget.size == 0 && !(options->budget.bits > 0) && !options->draft_choice) {
        return sp_fail(err, SP_E_USAGE, "%s: expected a type for its target or draft",
                       options->input);
    }
    return SP_OK;
}

static enum sp_status read_records(struct job *job, struct sp_err *err)
{
    enum sp_status st;

    st = sp_pack_read_section(job->target.pack, SP_PART_FILE, SP_SECTION_MODELFILE, &job->records,
                              &job->records_size, err);
    if (st || job->records) return st;
    return sp_copy_text(&job->records, "", 0, err);
}

static enum sp_status open_parts(struct job *job, const struct sp_requantize_options *options,
                                 struct sp_err *err)
{
    enum sp_status st;

    if ((st = open_source(&job->target, options->input, SP_PART_TARGET, &job->warnings, err))) {
        return st;
    }
    if (job->target.pack == NULL) {
        return sp_fail(err, SP_E_INPUT, "%s: not a packed file; spectool create makes one from it",
                       options->input);
    }
    job->has_draft =
        sp_pack_find_section(job->target.pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL;
    if ((st = check_request(options, job->has_draft, err))) return st;
    if (job->has_draft) {
        st = open_source(&job->draft, options->input, SP_PART_DRAFT, &job->warnings, err);
    }
    return st ? st : read_records(job, err);
}

enum sp_status sp_requantize(struct sp_create_report *report,
                             const struct sp_requantize_options *options, struct sp_err *err)
{
    enum sp_status st;
    struct job job = {
        .output = options->output ? options->output : options->input,
        .force = options->force || options->output == NULL,
        .dry_run = options->dry_run,
        .n_threads = options->n_threads,
        .callbacks = &options->callbacks,
        .inputs = {.target_request = {.type = options->target_type,
                                      .output_type = options->output_type},
                   .draft_request = {.type = options->draft_type, .draft = true},
                   .rules = options->rules,
                   .budget = options->budget,
                   .calibration_path = options->calibration},
    };

    job.inputs.allow_lossy = options->allow_lossy;
    job.draft_choice = options->draft_choice;
    if (options->output && !options->dry_run &&
        (st = sp_pack_writer_check(options->output, options->force, err))) {
        return st;
    }
    st = open_parts(&job, options, err);
    if (!st) st = run_job(&job, report, err);
    release_job(&job);
    return st;
}
