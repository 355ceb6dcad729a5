#include "convert/export/export.h"

#include "convert/create/create_job.h"
#include "convert/export/export_plan.h"
#include "format/base/atomic_file.h"
#include "format/modelfile/modelfile.h"
#include "format/family/config_publish.h"
#include "format/base/file.h"
#include "format/base/atomic_folder.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"
#include "format/pack_contents.h"
#include "format/safetensors_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char target_folder[] = "target", draft_folder[] = "draft", modelfile[] = "Modelfile";

/* One checkpoint: of a part, or of a target with the prediction head that is built into it. */
struct checkpoint {
    struct sp_source *source; /* NULL: there is none; borrowed */
    struct sp_export_plan plan;
    struct sp_text config; /* config.json */
    uint64_t size;         /* bytes of tensors */
    size_t n_lossy;        /* tensors that were quantized and are rounded */
    enum sp_dtype type;
};

struct job {
    struct sp_create_job sources;     /* which nothing is created from */
    struct checkpoint checkpoints[2]; /* target, draft */
    struct sp_text modelfile;
    const struct sp_create_options *options;
};

static bool is_built_in(const struct job *job)
{
    return job->sources.has_draft && job->sources.draft.config.draft.kind == SP_DRAFT_MTP;
}

/* ---- before anything is written ---- */

static enum sp_status plan_checkpoint(struct job *job, struct checkpoint *c,
                                      struct sp_source *source, struct sp_err *err)
{
    enum sp_status st;

    c->source = source;
    c->type = job->options->target_type;
    if (c->type == SP_DTYPE_NONE &&
        (st = sp_config_stated_dtype(&c->type, &source->texts[SP_SECTION_CONFIG], err)))
        return st;
    if (c->type == SP_DTYPE_NONE) c->type = SP_BF16;
    if ((st = sp_export_plan_add(&c->plan, source, NULL, c->type, err))) return st;
    if (source == &job->sources.target && is_built_in(job)) {
        st = sp_export_plan_add(&c->plan, &job->sources.draft, source, c->type, err);
        if (st) return st;
    }
    for (size_t i = 0; i < c->plan.n_items; i++) {
        c->size += sp_export_size(&c->plan.items[i]);
        c->n_lossy += c->plan.items[i].rounded;
    }
    return SP_OK;
}

/* The differences between the exported files and those that were packed. */
static enum sp_status tell(struct job *job, const struct checkpoint *c, bool text_only,
                           struct sp_err *err)
{
    char **warnings = &job->sources.warnings;
    const char *part = sp_part_name(c->source->part);
    enum sp_status st = SP_OK;

    if (text_only) {
        st = sp_warn(warnings, err,
                     "%s: config.json is that of the language model only, because a packed file "
                     "has no other part of a multimodal checkpoint",
                     part);
    }
    if (!st && c->source->config.n_mtp_layers && c->source->config.draft.kind == SP_DRAFT_NONE &&
        !(c->source == &job->sources.target && is_built_in(job))) {
        st = sp_warn(warnings, err,
                     "%s: the prediction head that config.json states is not in the packed file",
                     part);
    }
    if (!st && c->n_lossy) {
        st = sp_warn(warnings, err,
                     "%s: %zu tensors are stored quantized, and their values are rounded to %s; "
                     "f32 keeps them exactly",
                     part, c->n_lossy, sp_dtype_info(c->type)->name);
    }
    sp_create_job_tell(&job->sources);
    return st;
}

/* The type that most of its numbers have. */
static enum sp_dtype common_type(const struct sp_export_plan *plan)
{
    static const enum sp_dtype types[] = {SP_BF16, SP_F16, SP_F32};
    uint64_t n[3] = {0};
    size_t best = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        for (size_t k = 0; k < 3; k++) {
            if (plan->items[i].tensor.dtype != types[k]) continue;
            n[k] += sp_export_elements(&plan->items[i]);
        }
    }
    for (size_t k = 1; k < 3; k++)
        if (n[k] > n[best]) best = k;
    return types[best];
}

static enum sp_status publish_config(struct job *job, struct checkpoint *c, struct sp_err *err)
{
    const struct sp_source *s = c->source;
    bool text_only;
    enum sp_status st = sp_config_publish(&c->config, &text_only, &s->texts[SP_SECTION_CONFIG],
                                          &s->config, common_type(&c->plan), err);

    if (st) {
        sp_context(err, "%s: %s config.json", s->path, sp_part_name(s->part));
        return st;
    }
    return tell(job, c, text_only, err);
}

static enum sp_status show_plan(const struct job *job, struct sp_err *err)
{
    const struct sp_create_callbacks *callbacks = &job->options->callbacks;
    char shape[SP_SHAPE_TEXT], *text = NULL;
    size_t size;
    FILE *stream;
    enum sp_status st;

    if (callbacks->plan == NULL) return SP_OK;
    stream = open_memstream(&text, &size);
    if (stream == NULL) return sp_fail(err, SP_E_NOMEM, "no memory for the table of tensors");
    fputs("part    tensor                                            \tshape              from   "
          "to            bytes",
          stream);
    for (int i = 0; i < 2; i++) {
        const struct sp_export_plan *plan = &job->checkpoints[i].plan;
        for (const struct sp_export_item *t = plan->items; t < plan->items + plan->n_items; t++) {
            fprintf(stream, "\n%-6s  %-50s\t%-17s  %-5s  %-4s  %12" PRIu64, sp_part_name(t->part),
                    t->tensor.name, sp_shape_text(shape, t->tensor.shape, t->tensor.rank),
                    t->from == SP_DTYPE_NONE ? "mixed" : sp_dtype_info(t->from)->name,
                    sp_dtype_info(t->tensor.dtype)->name, sp_export_size(t));
        }
    }
    if (!(st = sp_close_text(stream, &text, err))) callbacks->plan(callbacks->context, text);
    free(text);
    return st;
}

/* Bytes of an item's cuts as they are stored. */
static enum sp_status stored_size(uint64_t *out, const struct sp_export_plan *plan,
                                  const struct sp_export_item *item, struct sp_err *err)
{
    uint64_t size = 0;
    enum sp_status st;

    for (size_t i = item->first_cut; i < item->first_cut + item->n_cuts; i++) {
        const struct sp_export_cut *c = &plan->cuts[i];
        struct sp_stored stored;
        if ((st = sp_source_stored(&stored, c->source, c->spec, err))) return st;
        if (item->marks_tokens) continue;
        size += (uint64_t)((double)stored.size * (double)(c->span.n_rows * c->span.n_cols) /
                           (double)sp_spec_elements(c->spec));
    }
    *out = size;
    return SP_OK;
}

static enum sp_status report_of(struct sp_create_report *out, const struct job *job,
                                struct sp_err *err)
{
    struct sp_create_report report = {0};
    enum sp_status st;

    for (int i = 0; i < 2; i++) {
        const struct sp_export_plan *plan = &job->checkpoints[i].plan;
        for (size_t k = 0; k < plan->n_items; k++) {
            const struct sp_export_item *item = &plan->items[k];
            uint64_t stored;
            if ((st = stored_size(&stored, plan, item, err))) return st;
            report.n_tensors[item->part]++;
            report.n_weights[item->part] += sp_export_elements(item);
            report.source_size[item->part] += stored;
            report.size[item->part] += sp_export_size(item);
        }
        if (!job->options->dry_run) report.file_size += job->checkpoints[i].size;
    }
    *out = report;
    return SP_OK;
}

/* ---- writing ---- */

/* What an export consists of: nothing else may be in a folder that one replaces. */
static bool is_ours(const char *inside, const char *name)
{
    if (inside == NULL) {
        return strcmp(name, target_folder) == 0 || strcmp(name, draft_folder) == 0 ||
               strcmp(name, modelfile) == 0;
    }
    for (int s = SP_SECTION_CONFIG; s <= SP_SECTION_TEMPLATE; s++)
        if (strcmp(name, sp_section_name((enum sp_section)s)) == 0) return true;
    return sp_safetensors_is_weights_name(name);
}

static enum sp_status write_text(const char *folder, const char *name, const struct sp_text *text,
                                 struct sp_err *err)
{
    enum sp_status st;
    char *path = NULL;

    if ((st = sp_file_join(&path, folder, name, err))) return st;
    st = sp_atomic_file_write_file(path, false, text->at, text->size, err);
    free(path);
    return st;
}

static enum sp_status write_texts(const struct checkpoint *c, const char *folder,
                                  struct sp_err *err)
{
    const struct sp_source *source = c->source;
    enum sp_status st = write_text(folder, sp_section_name(SP_SECTION_CONFIG), &c->config, err);

    for (int s = SP_SECTION_GENERATION; s <= SP_SECTION_TEMPLATE && !st; s++) {
        enum sp_section section = (enum sp_section)s;
        struct sp_text text = {0};
        st = sp_source_read_text(&text, source, section, err);
        if (!st && text.at) st = write_text(folder, sp_section_name(section), &text, err);
        free(text.at);
    }
    return st;
}

static enum sp_status write_all(const struct job *job, const struct sp_atomic_folder *folder,
                                struct sp_err *err)
{
    const struct sp_create_options *o = job->options;
    struct sp_export_progress progress = {&o->callbacks, 0,
                                          job->checkpoints[0].size + job->checkpoints[1].size};
    struct sp_pool *pool = NULL;
    char *path = NULL;
    enum sp_status st;

    if ((st = sp_pool_open(&pool, o->n_threads, err))) goto done;
    for (int i = 0; i < 2; i++) {
        const struct checkpoint *c = &job->checkpoints[i];
        if (c->source == NULL) continue;
        free(path);
        path = NULL;
        st = sp_atomic_folder_add(&path, folder, i == 0 ? target_folder : draft_folder, err);
        if (st || (st = write_texts(c, path, err)) ||
            (st = sp_export_write(&c->plan, path, o->shard_size ? o->shard_size : SP_EXPORT_SHARD,
                                  pool, &progress, err)))
            goto done;
        progress.before += c->size;
    }
    st = write_text(sp_atomic_folder_path(folder), modelfile, &job->modelfile, err);
done:
    free(path);
    sp_pool_close(pool);
    return st;
}

static enum sp_status write_folder(const struct job *job, struct sp_err *err)
{
    struct sp_atomic_folder *folder = NULL;
    enum sp_status st =
        sp_atomic_folder_open(&folder, job->options->output, job->options->force, is_ours, err);

    if (st) return st;
    if (!(st = write_all(job, folder, err))) st = sp_atomic_folder_commit(folder, err);
    sp_atomic_folder_close(folder);
    return st;
}

static enum sp_status run_job(struct job *job, struct sp_create_report *report, struct sp_err *err)
{
    struct sp_create_report done;
    enum sp_status st;

    if ((st = sp_create_job_open(&job->sources, job->options, err))) return st;
    /* A packed file was checked when it was packed. */
    if (job->sources.target.pack == NULL && (st = sp_create_job_check(&job->sources, err)))
        return st;
    if (job->sources.target.config.pooling.mode != SP_POOL_NONE) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "%s is an embedding model: its sentence-transformers files are not exported",
                       job->sources.target.path);
    }
    if ((st = plan_checkpoint(job, &job->checkpoints[0], &job->sources.target, err))) return st;
    if (job->sources.has_draft && !is_built_in(job)) {
        if ((st = plan_checkpoint(job, &job->checkpoints[1], &job->sources.draft, err))) return st;
    }
    for (int i = 0; i < 2; i++) {
        struct checkpoint *c = &job->checkpoints[i];
        if (c->source && (st = publish_config(job, c, err))) return st;
    }
    st = sp_modelfile_recreate(&job->modelfile, "./target",
                               job->checkpoints[1].source ? "./draft" : NULL, &job->sources.records,
                               err);
    if (st || (st = report_of(&done, job, err))) return st;
    st = job->options->dry_run ? show_plan(job, err) : write_folder(job, err);
    if (!st && report) *report = done;
    return st;
}

enum sp_status sp_export(struct sp_create_report *report, const struct sp_create_options *options,
                         struct sp_err *err)
{
    struct job job = {.options = options};
    enum sp_status st = run_job(&job, report, err);

    for (int i = 0; i < 2; i++) {
        sp_export_plan_release(&job.checkpoints[i].plan);
        free(job.checkpoints[i].config.at);
    }
    sp_create_job_release(&job.sources);
    free(job.modelfile.at);
    return st;
}
