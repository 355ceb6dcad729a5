#include "convert/create/create.h"

#include "convert/create/create_job.h"
#include "convert/source/source.h"
#include "format/base/file.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/modelfile/modelfile.h"
#include "format/modelfile/modelfile_check.h"
#include "format/pack_contents.h"
#include "format/packfile.h"
#include "format/packfile_write.h"

#include <stdlib.h>
#include <string.h>

/* The path of a record's value: absolute, under the home folder, or relative to the Modelfile. */
static enum sp_status resolve(char **out, const struct sp_create_job *job, const char *value,
                              struct sp_err *err)
{
    const char *home = job->options->home;
    enum sp_status st;
    char *folder = NULL;

    if (value[0] == '/') return sp_copy_text(out, value, strlen(value), err);
    if (home && value[0] == '~' && (value[1] == '/' || value[1] == 0)) {
        return value[1] ? sp_file_join(out, home, value + 2, err)
                        : sp_copy_text(out, home, strlen(home), err);
    }
    if ((st = sp_file_folder(&folder, job->file.path, err))) return st;
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

/* Opens a part with the tables that its head shares. */
static enum sp_status open_part(struct sp_create_job *job, const char *path, enum sp_part part,
                                struct sp_err *err)
{
    struct sp_source *source = part == SP_PART_TARGET ? &job->target : &job->draft;
    enum sp_status st = sp_source_open(source, path, part, &job->warnings, err);

    return st ? st : sp_source_share_head(source, &job->warnings, err);
}

/* Opens the file or folder `path` or, if there is none, the model `name`; *named is what the name
 * stands for. */
static enum sp_status open_named(struct sp_create_job *job, struct sp_named_source *named,
                                 const char *path, const char *name, enum sp_part part,
                                 struct sp_err *err)
{
    enum sp_status st;

    if (!sp_file_exists(path) &&
        (st = sp_source_name_find(named, name, &job->options->stores, err)))
        return st;
    if (named->adapter && part == SP_PART_DRAFT) {
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: a draft with an adapter is not supported",
                       named->manifest);
    }
    st = open_part(job, named->path ? named->path : path, part, err);
    if (st || named->adapter == NULL) return st;
    return sp_source_merge(&job->target, named->adapter, &job->warnings, err);
}

/* Opens the model of a FROM or DRAFT record or, where `record` is NULL, of the option `given`. */
static enum sp_status open_model(struct sp_create_job *job, struct sp_named_source *named,
                                 const struct sp_modelfile_record *record, const char *given,
                                 enum sp_part part, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if (record == NULL) return open_named(job, named, given, given, part, err);
    if ((st = resolve(&path, job, record->value, err))) return st;
    st = open_named(job, named, path, record->value, part, err);
    if (st) add_place(&job->file, record, err);
    free(path);
    return st;
}

static enum sp_status open_draft(struct sp_create_job *job,
                                 const struct sp_modelfile_record *record, struct sp_err *err)
{
    struct sp_named_source named = {0};
    enum sp_status st = open_model(job, &named, record, job->options->draft, SP_PART_DRAFT, err);

    sp_named_source_release(&named);
    return st ? st : sp_source_share_embedding(&job->draft, &job->target, &job->warnings, err);
}

static enum sp_status merge_record(struct sp_create_job *job,
                                   const struct sp_modelfile_record *record, struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = resolve(&path, job, record->value, err))) return st;
    st = sp_source_merge(&job->target, path, &job->warnings, err);
    if (st) add_place(&job->file, record, err);
    free(path);
    return st;
}

/* Refuses an output that exists, before weights are read. */
static enum sp_status check_output(const struct sp_create_job *job, struct sp_err *err)
{
    const struct sp_create_options *options = job->options;

    if (options->dry_run || options->only_read) return SP_OK;
    if (options->output == NULL && !options->force && sp_file_exists(job->output))
        return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_OUTPUT, "%s exists already", job->output);
    return sp_pack_writer_check(job->output, options->force, err);
}

/* Checks the records, and that the template can be run. */
static enum sp_status check_records(const struct sp_modelfile_record **template,
                                    const struct sp_modelfile *file,
                                    const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st =
        sp_modelfile_check(file, options->callbacks.note, options->callbacks.context, err);

    *template = st ? NULL : sp_modelfile_find(file, SP_MODELFILE_TEMPLATE, NULL);
    if (*template == NULL || options->check_template == NULL) return st;
    return options->check_template((*template)->value, (*template)->value_size, err);
}

static enum sp_status read_modelfile(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st;
    const char *named = job->options->modelfile, *path = named ? named : "Modelfile";
    const struct sp_modelfile_record *template;
    struct sp_text text;

    if (named == NULL && !sp_file_exists(path)) {
        return sp_fail(
            err, SP_E_IO,
            "there is no Modelfile in this folder: name a model (spectool create FOLDER), or "
            "write a Modelfile with the lines FROM FOLDER and, for a draft, DRAFT FOLDER");
    }
    if (sp_file_is_folder(path))
        return sp_fail(err, SP_E_INPUT, "%s is a folder, expected a Modelfile", path);
    if ((st = sp_file_read_text(&text, path, SP_MODELFILE_MAX_SIZE, err))) return st;
    st = sp_modelfile_parse(&job->file, path, text.at, text.size, err);
    free(text.at);
    if (st || (st = check_output(job, err))) return st;
    if ((st = check_records(&template, &job->file, job->options, err)) && template)
        add_place(&job->file, template, err);
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
static enum sp_status open_head(struct sp_create_job *job, struct sp_err *err)
{
    struct sp_err why = {0};
    enum sp_status st = sp_source_open_mtp(&job->draft, &job->target, &why);

    if (st == SP_OK) {
        return sp_warn(&job->warnings, err, "%s: the built-in prediction head becomes the draft",
                       job->target.path);
    }
    if ((st != SP_E_UNSUPPORTED && st != SP_E_INPUT) || job->options->draft_type != SP_DTYPE_NONE)
        return sp_fail_as(err, &why);
    job->has_draft = false;
    return sp_warn(&job->warnings, err, "the built-in prediction head is left out: %s", why.text);
}

static enum sp_status open_sources(struct sp_create_job *job, struct sp_err *err)
{
    const struct sp_modelfile *file = &job->file;
    const struct sp_create_options *options = job->options;
    const struct sp_modelfile_record *from = sp_modelfile_find(file, SP_MODELFILE_FROM, NULL);
    const struct sp_modelfile_record *draft = sp_modelfile_find(file, SP_MODELFILE_DRAFT, NULL);
    const struct sp_modelfile_record *adapter = sp_modelfile_find(file, SP_MODELFILE_ADAPTER, NULL);
    bool has_own = draft != NULL || options->draft != NULL;
    enum sp_status st = open_model(job, &job->named, from, options->from, SP_PART_TARGET, err);

    if (st) return st;
    if (adapter && job->named.adapter) {
        st = sp_fail(err, SP_E_UNSUPPORTED,
                     "the model of FROM has an adapter (%s), and only one can be merged",
                     job->named.manifest);
        add_place(file, adapter, err);
        return st;
    }
    if (adapter && (st = merge_record(job, adapter, err))) return st;
    job->has_draft = has_own || job->target.has_mtp;
    if (!job->has_draft && options->draft_type != SP_DTYPE_NONE) {
        return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_NO_DRAFT,
                             "%s: a type is given for the draft, but there is none",
                             options->from ? options->from : file->path);
    }
    if ((st = note_head(job, has_own, err)) || !job->has_draft) return st;
    return has_own ? open_draft(job, draft, err) : open_head(job, err);
}

/* The records of an ollama model that FROM names, as far as the Modelfile does not have its own. */
static enum sp_status inherit_records(struct sp_text *out, struct sp_create_job *job,
                                      struct sp_err *err)
{
    const char *manifest = job->named.manifest;
    const struct sp_modelfile_record *template;
    struct sp_modelfile base = {0};
    struct sp_strbuf text = {0};
    enum sp_status st;

    if ((st = sp_strbuf_append(&text, "FROM ollama\n", 12, err)) ||
        (st = sp_ollama_append_records(&text, manifest, &job->file, &job->options->stores,
                                       &job->warnings, err)) ||
        (st = sp_modelfile_parse(&base, manifest, text.at, text.len, err)))
        goto done;
    if ((st = check_records(&template, &base, job->options, err))) {
        if (template)
            sp_context(err, "%s: its template, which a TEMPLATE line would replace", manifest);
        goto done;
    }
    st = sp_modelfile_print(out, &base, err);
done:
    sp_modelfile_release(&base);
    sp_strbuf_release(&text);
    return st;
}

/* The records that the packed file stores: those that are inherited, and then the Modelfile's. */
static enum sp_status make_records(struct sp_create_job *job, struct sp_err *err)
{
    struct sp_strbuf text = {0};
    struct sp_text own, inherited = {0};
    enum sp_status st = sp_modelfile_print(&own, &job->file, err);

    if (st) return st;
    if (job->named.manifest && (st = inherit_records(&inherited, job, err))) goto done;
    if ((st = sp_strbuf_append(&text, inherited.at, inherited.size, err))) goto done;
    if ((st = sp_strbuf_append(&text, own.at, own.size, err))) goto done;
    if ((st = sp_strbuf_append(&text, "", 1, err))) goto done;
    job->records = (struct sp_text){text.at, text.len - 1};
    text = (struct sp_strbuf){0};
done:
    sp_strbuf_release(&text);
    free(own.at);
    free(inherited.at);
    return st;
}

enum sp_status sp_create(struct sp_create_report *report, const struct sp_create_options *options,
                         struct sp_err *err)
{
    struct sp_create_job job = {.options = options,
                                .output = options->output ? options->output : SP_CREATE_OUTPUT};
    enum sp_status st = options->from ? check_output(&job, err) : read_modelfile(&job, err);

    if (!st) st = open_sources(&job, err);
    if (!st) st = make_records(&job, err);
    if (!st) st = sp_create_job_run(&job, report, err);
    sp_create_job_release(&job);
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

/* Opens both parts of a packed file, and reads its records. */
static enum sp_status open_pack(struct sp_create_job *job, const char *path, struct sp_err *err)
{
    const struct sp_pack *pack;
    enum sp_status st = open_part(job, path, SP_PART_TARGET, err);

    if (st) return st;
    pack = job->target.pack;
    job->has_draft = sp_pack_find_section(pack, SP_PART_DRAFT, SP_SECTION_CONFIG) != NULL;
    if (job->has_draft && (st = open_part(job, path, SP_PART_DRAFT, err))) return st;
    st = sp_pack_read_section(pack, SP_PART_FILE, SP_SECTION_MODELFILE, &job->records, err);
    return st || job->records.at ? st : sp_copy_text(&job->records.at, "", 0, err);
}

enum sp_status sp_create_job_open(struct sp_create_job *job,
                                  const struct sp_create_options *options, struct sp_err *err)
{
    enum sp_status st;

    *job = (struct sp_create_job){.options = options, .output = options->output};
    if (sp_pack_is_file(options->from)) return open_pack(job, options->from, err);
    st = open_sources(job, err);
    return st ? st : make_records(job, err);
}

static enum sp_status open_parts(struct sp_create_job *job, struct sp_err *err)
{
    const char *from = job->options->from;
    enum sp_status st;
    bool is_pack;

    if (!sp_file_exists(from))
        return sp_fail(err, SP_E_IO, "%s does not exist, expected a packed file", from);
    if ((st = sp_pack_recognize(&is_pack, from, err))) return st;
    if (!is_pack) {
        return sp_fail(err, SP_E_INPUT,
                       "%s: not a packed file; spectool create makes one from a checkpoint or a "
                       "GGUF file",
                       from);
    }
    if ((st = open_pack(job, from, err))) return st;
    return check_request(job->options, job->has_draft, err);
}

enum sp_status sp_requantize(struct sp_create_report *report,
                             const struct sp_create_options *options, struct sp_err *err)
{
    struct sp_create_job job = {.options = options,
                                .output = options->output ? options->output : options->from,
                                .in_place = options->output == NULL};
    enum sp_status st = SP_OK;

    if (options->output && !options->dry_run)
        st = sp_pack_writer_check(options->output, options->force, err);
    if (!st) st = open_parts(&job, err);
    if (!st) st = sp_create_job_run(&job, report, err);
    sp_create_job_release(&job);
    return st;
}
