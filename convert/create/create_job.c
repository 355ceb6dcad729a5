#include "convert/create/create_job.h"

#include "convert/create/plan.h"
#include "convert/create/write.h"
#include "convert/source/source.h"
#include "convert/source/token_tables.h"
#include "format/base/warnings.h"
#include "format/pack_contents.h"
#include "format/tokenizer/bpe_files.h"
#include "quantize/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_create_open_source(struct sp_source *out, const char *path, enum sp_part part,
                                     char **warnings, struct sp_err *err)
{
    enum sp_status st = sp_source_open(out, path, part, warnings, err);

    if (st || !(st = sp_source_share_head(out, warnings, err))) return st;
    sp_source_release(out);
    return st;
}

void sp_create_job_release(struct sp_create_job *job)
{
    sp_made_plan_release(&job->made);
    sp_source_release(&job->target);
    sp_source_release(&job->draft);
    sp_named_source_release(&job->named);
    free(job->records.at);
    free(job->warnings);
}

/* Passes on the warnings collected so far, line by line. */
static void report_warnings(struct sp_create_job *job)
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
    const struct sp_create_callbacks *c = job->callbacks;
    char *tensors = NULL, *groups = NULL;
    enum sp_status st;

    if (c->plan == NULL) return SP_OK;
    st = sp_plan_print(&tensors, &job->made.plan, err);
    if (!st)
        st = sp_plan_groups_print(&groups, &job->made.plan,
                                  sp_calibration_sensitivities(job->made.calibration), err);
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
    const struct sp_dtype_info *info = sp_dtype_info(type);

    return info->code_bits ? info->code_bits : info->bits ? info->bits : 8;
}

/* Adds a matrix of the target to those that cannot be stored in blocks, or that keep more bits than
 * the requested type has, although the user chose no other type for it. */
static void count_kept(struct sp_create_report *report, const struct sp_plan_item *item,
                       const struct sp_policy_request *request)
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
    if (request->type == SP_DTYPE_NONE || strchr(item->rule, '=')) return; /* by a rule */
    if (is_table ? request->output_type != SP_DTYPE_NONE : role != SP_ROLE_KEY_VALUE) return;
    if (item->layout != SP_PANEL || !sp_dtype_is_block(item->to)) return;
    if (bits_of(item->to) <= bits_of(request->type)) return;
    kept->type = item->to;
    kept->size += item->size;
}

static enum sp_status make_report(struct sp_create_report *out, const struct sp_create_job *job,
                                  struct sp_err *err)
{
    struct sp_create_report report = {
        .target_type = job->inputs.target_request.type,
        .embeds = sp_source_has_text(&job->target, SP_SECTION_POOLING),
        .uniform = job->made.uniform,
        .check = job->inputs.budget.check,
    };
    const struct sp_sensitivities *measured = sp_calibration_sensitivities(job->made.calibration);
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

static enum sp_status make_plan(struct sp_create_job *job, struct sp_err *err)
{
    struct sp_plan_inputs *inputs = &job->inputs;

    inputs->target = &job->target;
    inputs->draft = job->has_draft ? &job->draft : NULL;
    inputs->records = job->records;
    return sp_plan_make(&job->made, inputs, &job->warnings, err);
}

enum sp_status sp_create_job_check(struct sp_create_job *job, struct sp_err *err)
{
    enum sp_status st;

    if ((st = check_pair(job, err))) return st;
    if ((st = sp_generation_check(&job->target, &job->warnings, err))) return st;
    if ((st = note_gaps(job, &job->target, true, err))) return st;
    if (job->has_draft && (st = note_gaps(job, &job->draft, false, err))) return st;
    report_warnings(job);
    return SP_OK;
}

static enum sp_status write(uint64_t *size, const struct sp_create_job *job,
                            const struct sp_pack_input *input, struct sp_err *err)
{
    if (job->only_read) return sp_pack_input_read(input, job->n_threads, job->callbacks, err);
    if (job->outline) return sp_pack_input_measure(size, input, job->output, err);
    return sp_pack_input_write(input, job->output, job->force, job->n_threads, job->callbacks, size,
                               err);
}

/* True if the output would be its source again. */
static bool is_unchanged(const struct sp_create_job *job)
{
    const struct sp_budget *budget = &job->inputs.budget;
    const struct sp_plan *plan = &job->made.plan;
    size_t i = 0;

    if (!job->in_place || job->draft_choice || budget->size || budget->bits > 0) return false;
    while (i < plan->n_items && plan->items[i].bytes)
        i++;
    return i == plan->n_items && job->made.smoothing.len == 0;
}

enum sp_status sp_create_job_run(struct sp_create_job *job, struct sp_create_report *report,
                                 struct sp_err *err)
{
    enum sp_status st;
    struct sp_create_report done;

    if ((st = sp_create_job_check(job, err))) return st;
    if ((st = make_plan(job, err))) return st;
    report_warnings(job);
    if ((st = make_report(&done, job, err))) return st;
    if (job->dry_run) {
        st = show_plan(job, err);
    } else if (is_unchanged(job)) {
        st = sp_warn(&job->warnings, err, "%s has these types already and stays as it is",
                     job->output);
        report_warnings(job);
    } else {
        struct sp_pack_input input = {
            .target = &job->target,
            .draft = job->has_draft ? &job->draft : NULL,
            .records = job->records,
            .smoothing = {job->made.smoothing.at, job->made.smoothing.len},
            .budget = job->inputs.budget,
            .draft_choice = job->draft_choice,
            .predicted_kl = done.predicted_kl,
            .plan = job->made.plan, /* still owned by the job */
        };

        st = write(&done.file_size, job, &input, err);
    }
    if (!st && report) *report = done;
    return st;
}
