#include "convert/create/create_job.h"

#include "convert/source/source.h"
#include "format/base/warnings.h"
#include "format/pack_contents.h"
#include "format/tokenizer/bpe_files.h"
#include "quantize/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sp_create_job_release(struct sp_create_job *job)
{
    sp_plan_release(&job->plan);
    sp_calibration_release(&job->calibration);
    sp_strbuf_release(&job->smoothing);
    sp_source_release(&job->target);
    sp_source_release(&job->draft);
    sp_named_source_release(&job->named);
    sp_modelfile_release(&job->file);
    free(job->records.at);
    free(job->warnings);
}

void sp_create_job_tell(struct sp_create_job *job)
{
    const struct sp_create_callbacks *callbacks = &job->options->callbacks;

    for (char *line = job->warnings; line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        if (callbacks->note) callbacks->note(callbacks->context, line);
        line = end ? end + 1 : NULL;
    }
    free(job->warnings);
    job->warnings = NULL;
}

static enum sp_status note_gaps(struct sp_create_job *job, const struct sp_source *source,
                                bool is_target, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (source->n_skipped) {
        st = sp_warn(&job->warnings, err,
                     "%s: %zu tensors that text generation does not use are left "
                     "out",
                     source->path, source->n_skipped);
    }
    if (!st && is_target && !sp_source_has_text(source, SP_SECTION_TOKENIZER)) {
        struct sp_err missing = {0};
        if (source->gguf)
            (void)sp_fail(&missing, SP_E_INPUT, "%s: no tokenizer", source->path);
        else
            (void)sp_tokenizer_files_fail(source->path, &missing);
        st = sp_warn(&job->warnings, err,
                     "%s: the packed file will accept and print token IDs only", missing.text);
    }
    return st;
}

/* The tokenizers of two parts of one packed file were compared when it was made. */
static enum sp_status check_draft(struct sp_create_job *job, struct sp_err *err)
{
    const struct sp_source *target = &job->target, *draft = &job->draft;
    const struct sp_source *sources[2] = {target, draft};
    struct sp_draft_compat_side sides[2] = {{.config = &target->config},
                                            {.config = &draft->config}};
    bool together = target->pack && draft->pack &&
                    sp_pack_identity(target->pack) == sp_pack_identity(draft->pack);
    struct sp_vocab_order order = {0};
    enum sp_status st = SP_OK;

    for (int i = 0; i < 2 && !st && !together; i++) {
        st = sp_source_read_text(&sides[i].tokenizer, sources[i], SP_SECTION_TOKENIZER, err);
        if (st) break;
        st = sp_source_read_text(&sides[i].tokenizer_config, sources[i],
                                 SP_SECTION_TOKENIZER_CONFIG, err);
    }
    if (!st) {
        st = sp_draft_compat_check(&order, &sides[0], &sides[1], sp_source_same(target, draft),
                                   &job->warnings, err);
    }
    if (!st && order.rows) st = sp_source_reorder_vocab(&job->draft, order.rows, target, err);
    free(order.rows);
    for (int i = 0; i < 2; i++) {
        free(sides[i].tokenizer.at);
        free(sides[i].tokenizer_config.at);
    }
    return st;
}

static enum sp_status check_pair(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st;

    if (job->target.config.draft.kind != SP_DRAFT_NONE)
        return sp_fail(err, SP_E_INPUT, "%s: %s is a draft and cannot be a target",
                       job->target.path, job->target.config.architecture);
    if (!job->has_draft) return SP_OK;
    st = sp_config_fit_target(&job->draft.config, &job->target.config, err);
    if (!st) st = check_draft(job, err);
    if (st) sp_context(err, "%s with %s", job->target.path, job->draft.path);
    return st;
}

static enum sp_status show_plan(const struct sp_create_job *job, struct sp_err *err)
{
    const struct sp_create_callbacks *c = &job->options->callbacks;
    char *tensors = NULL, *groups = NULL;
    enum sp_status st;

    if (c->plan == NULL) return SP_OK;
    st = sp_plan_print(&tensors, &job->plan, err);
    if (!st) st = sp_plan_groups_print(&groups, &job->plan, &job->calibration.sensitivities, err);
    if (!st) {
        c->plan(c->context, tensors);
        c->plan(c->context, "");
        c->plan(c->context, groups);
    }
    free(tensors);
    free(groups);
    return st;
}

static unsigned bits_of(enum sp_dtype type)
{
    unsigned code_bits = sp_dtype_code_bits(type), bits = sp_dtype_info(type)->bits;

    return code_bits ? code_bits : bits ? bits : 8;
}

/* Adds a matrix of the target to those that cannot be stored in blocks, or that keep more bits than
 * the requested type has, although the user chose no other type for it. */
static void count_kept(struct sp_create_report *report, const struct sp_plan_item *item,
                       const struct sp_create_options *options)
{
    const enum sp_role role = item->spec->role;
    const bool is_table = role == SP_ROLE_EMBEDDING || role == SP_ROLE_HEAD;
    struct sp_create_kept *kept = is_table ? &report->kept_tables : &report->kept_key_values;

    if (item->part != SP_PART_TARGET) return;
    report->n_blocks += sp_dtype_is_block(item->to);
    if (item->rule == sp_policy_odd_width) {
        report->n_kept_widths++;
        report->kept_widths.type = item->to;
        report->kept_widths.size += item->size;
    }
    if (options->target_type == SP_DTYPE_NONE || strchr(item->rule, '=')) return; /* by a rule */
    if (is_table ? options->output_type != SP_DTYPE_NONE : role != SP_ROLE_KEY_VALUE) return;
    if (item->layout != SP_PANEL || !sp_dtype_is_block(item->to)) return;
    if (bits_of(item->to) <= bits_of(options->target_type)) return;
    kept->type = item->to;
    kept->size += item->size;
}

static enum sp_status make_report(struct sp_create_report *out, const struct sp_create_job *job,
                                  struct sp_err *err)
{
    const struct sp_sensitivities *measured = &job->calibration.sensitivities;
    struct sp_create_report report = {
        .target_type = job->options->target_type,
        .embeds = sp_source_has_text(&job->target, SP_SECTION_POOLING),
        .uniform = job->uniform,
        .check = job->options->budget.check,
    };
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < job->plan.n_items; i++) {
        const struct sp_plan_item *item = &job->plan.items[i];
        report.n_tensors[item->part]++;
        report.n_weights[item->part] += sp_spec_elements(item->spec);
        report.source_size[item->part] += item->source_size;
        report.size[item->part] += item->size;
        count_kept(&report, item, job->options);
    }
    if (measured->n) st = sp_plan_groups_predict(&report.predicted_kl, &job->plan, measured, err);
    if (isnan(report.predicted_kl)) report.predicted_kl = 0;
    *out = report;
    return st;
}

enum sp_status sp_create_job_check(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st;

    if ((st = check_pair(job, err))) return st;
    if ((st = sp_generation_check(&job->target, &job->warnings, err))) return st;
    if ((st = note_gaps(job, &job->target, true, err))) return st;
    if (job->has_draft && (st = note_gaps(job, &job->draft, false, err))) return st;
    sp_create_job_tell(job);
    return SP_OK;
}

/* True if the output would be its source again. */
static bool is_unchanged(const struct sp_create_job *job)
{
    const struct sp_create_options *o = job->options;
    size_t i = 0;

    if (!job->in_place || o->draft_choice || o->budget.size || o->budget.bits > 0) return false;
    while (i < job->plan.n_items && job->plan.items[i].bytes)
        i++;
    return i == job->plan.n_items && job->smoothing.len == 0 && job->calibration.caches.n == 0;
}

enum sp_status sp_create_job_run(struct sp_create_job *job, struct sp_create_report *report,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct sp_create_report done;

    if ((st = sp_create_job_check(job, err))) return st;
    if ((st = sp_create_job_plan(job, err))) return st;
    sp_create_job_tell(job);
    if ((st = make_report(&done, job, err))) return st;
    job->predicted_kl = done.predicted_kl;
    if (job->options->dry_run) {
        st = show_plan(job, err);
    } else if (is_unchanged(job)) {
        st = sp_warn(&job->warnings, err, "%s has these types already and stays as it is",
                     job->output);
        sp_create_job_tell(job);
    } else {
        st = sp_create_job_write(&done.file_size, job, err);
    }
    if (!st && report) *report = done;
    return st;
}
