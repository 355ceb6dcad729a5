#include "convert/create/create.h"

#include "convert/create/create_job.h"
#include "convert/source/token_tables.h"
#include "convert/source/source_adapter.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "format/modelfile/modelfile_place.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "format/packfile_write.h"

#include <stdlib.h>
#include <string.h>

/* The path of a FROM or DRAFT value: absolute, under the home folder, or relative to the
 * Modelfile. */
static enum sp_status resolve(char **out, const char *modelfile, const char *value,
                              const char *home, struct sp_err *err)
{
    enum sp_status st;
    char *folder = NULL;

    if (value[0] == '/') return sp_copy_text(out, value, strlen(value), err);
    if (home && value[0] == '~' && (value[1] == '/' || value[1] == 0)) {
        return value[1] ? sp_file_join(out, home, value + 2, err)
                        : sp_copy_text(out, home, strlen(home), err);
    }
    if ((st = sp_file_folder(&folder, modelfile, err))) return st;
    st = sp_file_join(out, folder, value, err);
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
    if ((st = sp_create_open_source(out, named->path ? named->path : path, part, warnings, err)) ||
        named->adapter == NULL)
        return st;
    if ((st = sp_source_merge(out, named->adapter, warnings, err))) sp_source_release(out);
    return st;
}

/* Opens the model of a FROM or DRAFT record or, where `record` is NULL, of the option `given`. */
static enum sp_status open_model(struct sp_source *out, struct sp_named_source *named,
                                 const struct sp_modelfile *file,
                                 const struct sp_modelfile_record *record, const char *given,
                                 enum sp_part part, const struct sp_create_options *options,
                                 char **warnings, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if (record == NULL) return open_named(out, named, given, given, part, options, warnings, err);
    if ((st = resolve(&path, file->path, record->value, options->home, err))) return st;
    st = open_named(out, named, path, record->value, part, options, warnings, err);
    if (st) add_place(file, record, err);
    free(path);
    return st;
}

static enum sp_status open_draft(struct sp_create_job *job, const struct sp_modelfile *file,
                                 const struct sp_modelfile_record *record,
                                 const struct sp_create_options *options, struct sp_err *err)
{
    struct sp_named_source named = {0};
    enum sp_status st = open_model(&job->draft, &named, file, record, options->draft, SP_PART_DRAFT,
                                   options, &job->warnings, err);

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

/* Refuses an output that exists, before weights are read. */
static enum sp_status check_output(const struct sp_create_options *options, struct sp_err *err)
{
    const char *path = options->output ? options->output : SP_CREATE_OUTPUT;

    if (options->dry_run || options->only_read) return SP_OK;
    if (options->output == NULL && !options->force && sp_file_exists(path))
        return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_OUTPUT, "%s exists already", path);
    return sp_pack_writer_check(path, options->force, err);
}

static enum sp_status read_modelfile(struct sp_modelfile *out,
                                     const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;
    const char *path = options->modelfile ? options->modelfile : "Modelfile";
    const struct sp_modelfile_record *template;
    struct sp_text text;

    if (options->modelfile == NULL && !sp_file_exists(path)) {
        return sp_fail(
            err, SP_E_IO,
            "there is no Modelfile in this folder: name a model (spectool create FOLDER), or "
            "write a Modelfile with the lines FROM FOLDER and, for a draft, DRAFT FOLDER");
    }
    if (sp_file_is_folder(path))
        return sp_fail(err, SP_E_INPUT, "%s is a folder, expected a Modelfile", path);
    if ((st = sp_file_read_text(&text, path, SP_MODELFILE_MAX_SIZE, err))) return st;
    st = sp_modelfile_parse(out, path, text.at, text.size, err);
    free(text.at);
    if (st) return st;
    if ((st = check_output(options, err))) return st;
    st = sp_modelfile_check(out, options->callbacks.note, options->callbacks.context, err);
    if (st) return st;
    template = sp_modelfile_find(out, SP_MODELFILE_TEMPLATE, NULL);
    if (template == NULL || options->check_template == NULL) return SP_OK;
    st = options->check_template(template->value, template->value_size, err);
    if (st) add_place(out, template, err);
    return st;
}

/* Tells the user what becomes of the target's built-in prediction head. */
static enum sp_status note_head(struct sp_create_job *job, bool has_own, struct sp_err *err)
{
    const struct sp_source *target = &job->target;

    if (!target->has_mtp && target->checkpoint && target->config.n_mtp_layers && !has_own) {
        return sp_warn(&job->warnings, err,
                       "%s: the config has a built-in prediction head, but the checkpoint does not "
                       "have its tensors: no built-in draft",
                       target->path);
    }
    if (!target->has_mtp || !has_own) return SP_OK;
    return sp_warn(&job->warnings, err,
                   "%s: the draft that is named is used, and the built-in prediction head is left "
                   "out",
                   target->path);
}

/* Opens the built-in prediction head as the draft. Nobody asked for it unless there is a type for
 * drafts, so a head of unknown parts is left out with a warning. */
static enum sp_status open_head(struct sp_create_job *job, const struct sp_create_options *options,
                                struct sp_err *err)
{
    struct sp_err why = {0};
    enum sp_status st = sp_source_open_mtp(&job->draft, &job->target, &why);

    if (st == SP_OK) {
        return sp_warn(&job->warnings, err, "%s: the built-in prediction head becomes the draft",
                       job->target.path);
    }
    if ((st != SP_E_UNSUPPORTED && st != SP_E_INPUT) || options->draft_type != SP_DTYPE_NONE)
        return sp_fail_as(err, &why);
    job->has_draft = false;
    return sp_warn(&job->warnings, err, "the built-in prediction head is left out: %s", why.text);
}

static enum sp_status open_sources(struct sp_create_job *job, const struct sp_modelfile *file,
                                   const struct sp_create_options *options, struct sp_err *err)
{
    const struct sp_modelfile_record *from = sp_modelfile_find(file, SP_MODELFILE_FROM, NULL);
    const struct sp_modelfile_record *draft = sp_modelfile_find(file, SP_MODELFILE_DRAFT, NULL);
    const struct sp_modelfile_record *adapter = sp_modelfile_find(file, SP_MODELFILE_ADAPTER, NULL);
    bool has_own;
    enum sp_status st = open_model(&job->target, &job->named, file, from, options->from,
                                   SP_PART_TARGET, options, &job->warnings, err);

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
    has_own = draft != NULL || options->draft != NULL;
    job->has_draft = has_own || job->target.has_mtp;
    if (!job->has_draft && options->draft_type != SP_DTYPE_NONE) {
        return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_NO_DRAFT,
                             "%s: a type is given for the draft, but there is none",
                             options->from ? options->from : file->path);
    }
    if ((st = note_head(job, has_own, err)) || !job->has_draft) return st;
    if (!has_own) return open_head(job, options, err);
    return open_draft(job, file, draft, options, err);
}

/* The records that the packed file stores: those of an ollama model that FROM names, as far as the
 * Modelfile does not have its own, and then the Modelfile's. */
static enum sp_status make_records(struct sp_create_job *job, const struct sp_modelfile *file,
                                   const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile base = {0};
    const struct sp_modelfile_record *template;
    struct sp_strbuf text = {0};
    struct sp_text own, inherited = {0};

    if ((st = sp_modelfile_print(&own, file, err))) return st;
    if (job->named.manifest) {
        if ((st = sp_strbuf_append(&text, "FROM ollama\n", 12, err)) ||
            (st = sp_ollama_append_records(&text, job->named.manifest, file, &options->stores,
                                           &job->warnings, err)) ||
            (st = sp_modelfile_parse(&base, job->named.manifest, text.at, text.len, err)) ||
            (st = sp_modelfile_check(&base, options->callbacks.note, options->callbacks.context,
                                     err)))
            goto done;
        template = sp_modelfile_find(&base, SP_MODELFILE_TEMPLATE, NULL);
        if (template && options->check_template &&
            (st = options->check_template(template->value, template->value_size, err))) {
            sp_context(err, "%s: its template, which a TEMPLATE line would replace",
                       job->named.manifest);
            goto done;
        }
        if ((st = sp_modelfile_print(&inherited, &base, err))) goto done;
    }
    text.len = 0;
    if ((st = sp_strbuf_append(&text, inherited.at, inherited.size, err))) goto done;
    if ((st = sp_strbuf_append(&text, own.at, own.size, err))) goto done;
    if ((st = sp_strbuf_append(&text, "", 1, err))) goto done;
    job->records = (struct sp_text){text.at, text.len - 1};
    text = (struct sp_strbuf){0};
done:
    sp_modelfile_release(&base);
    sp_strbuf_release(&text);
    free(own.at);
    free(inherited.at);
    return st;
}

/* The job of a request, before its sources are open. */
static struct sp_create_job job_of(const struct sp_create_options *options, const char *output)
{
    return (struct sp_create_job){
        .output = options->output ? options->output : output,
        .force = options->force,
        .dry_run = options->dry_run,
        .only_read = options->only_read,
        .outline = options->outline,
        .n_threads = options->n_threads,
        .draft_choice = options->draft_choice,
        .callbacks = &options->callbacks,
        .inputs = {.target_request = {.type = options->target_type,
                                      .output_type = options->output_type},
                   .draft_request = {.type = options->draft_type, .draft = true},
                   .rules = options->rules,
                   .budget = options->budget,
                   .allow_lossy = options->allow_lossy,
                   .calibration_path = options->calibration},
    };
}

enum sp_status sp_create(struct sp_create_report *report, const struct sp_create_options *options,
                         struct sp_err *err)
{
    enum sp_status st;
    struct sp_modelfile file = {0};
    struct sp_create_job job = job_of(options, SP_CREATE_OUTPUT);

    if (options->from) {
        if ((st = check_output(options, err))) goto done;
    } else {
        if ((st = read_modelfile(&file, options, err))) goto done;
    }
    if ((st = open_sources(&job, &file, options, err))) goto done;
    if ((st = make_records(&job, &file, options, err))) goto done;
    st = sp_create_job_run(&job, report, err);
done:
    sp_create_job_release(&job);
    sp_modelfile_release(&file);
    return st;
}

/* ---- quantize ---- */

/* The requested types must change a part that the file has. */
static enum sp_status check_request(const struct sp_create_options *options, bool has_draft,
                                    struct sp_err *err)
{
    if (options->draft_type != SP_DTYPE_NONE && !has_draft)
        return sp_fail(err, SP_E_USAGE, "%s has no draft to quantize", options->from);
    if (options->draft_type == SP_DTYPE_NONE && options->target_type == SP_DTYPE_NONE &&
        options->output_type == SP_DTYPE_NONE && options->rules.n == 0 &&
        options->budget.size == 0 && !(options->budget.bits > 0) && !options->draft_choice &&
        options->budget.check.uniform == SP_DTYPE_NONE) {
        return sp_fail(err, SP_E_USAGE, "%s: expected a type for its target or draft",
                       options->from);
    }
    return SP_OK;
}

static enum sp_status read_records(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st = sp_pack_read_section(job->target.pack, SP_PART_FILE, SP_SECTION_MODELFILE,
                                             &job->records, err);

    if (st || job->records.at) return st;
    return sp_copy_text(&job->records.at, "", 0, err);
}

/* Opens both parts of a packed file. */
static enum sp_status open_pack(struct sp_create_job *job, const char *path, struct sp_err *err)
{
    enum sp_status st =
        sp_create_open_source(&job->target, path, SP_PART_TARGET, &job->warnings, err);

    if (st) return st;
    job->has_draft =
        sp_pack_find_section(job->target.pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL;
    if (job->has_draft &&
        (st = sp_create_open_source(&job->draft, path, SP_PART_DRAFT, &job->warnings, err)))
        return st;
    return read_records(job, err);
}

enum sp_status sp_create_job_open(struct sp_create_job *job,
                                  const struct sp_create_options *options, struct sp_err *err)
{
    const struct sp_modelfile none = {0};
    enum sp_status st;

    *job = job_of(options, NULL);
    if (sp_pack_is_file(options->from)) return open_pack(job, options->from, err);
    st = open_sources(job, &none, options, err);
    return st ? st : make_records(job, &none, options, err);
}

static enum sp_status open_parts(struct sp_create_job *job, const struct sp_create_options *options,
                                 struct sp_err *err)
{
    enum sp_status st;
    bool is_pack;

    if (!sp_file_exists(options->from))
        return sp_fail(err, SP_E_IO, "%s does not exist, expected a packed file", options->from);
    if ((st = sp_pack_recognize(&is_pack, options->from, err))) return st;
    if (!is_pack) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: not a packed file; spectool create makes one from a checkpoint or a "
                       "GGUF file",
                       options->from);
    }
    if ((st = open_pack(job, options->from, err))) return st;
    return check_request(options, job->has_draft, err);
}

enum sp_status sp_requantize(struct sp_create_report *report,
                             const struct sp_create_options *options, struct sp_err *err)
{
    struct sp_create_job job = job_of(options, options->from);
    enum sp_status st;

    if (options->output == NULL) job.force = job.in_place = true;
    if (options->output && !options->dry_run &&
        (st = sp_pack_writer_check(options->output, options->force, err)))
        return st;
    st = open_parts(&job, options, err);
    if (!st) st = sp_create_job_run(&job, report, err);
    sp_create_job_release(&job);
    return st;
}
