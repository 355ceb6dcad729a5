#include "convert/create/create_job.h"

#include "convert/create/plan.h"
#include "convert/source/source.h"
#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The work on one plan. */
struct maker {
    struct sp_create_job *job;
    struct sp_plan_choice *choices[3]; /* by part: one for each spec; owned */
    size_t n_calibrated, n_without;    /* matrices that become q2 to q6, with and without */
};

static const struct sp_source *source_of(const struct maker *m, enum sp_part part)
{
    if (part == SP_PART_TARGET) return &m->job->target;
    return m->job->has_draft ? &m->job->draft : NULL;
}

/* Does a step for each part that there is. */
static enum sp_status each_part(struct maker *m,
                                enum sp_status (*step)(struct maker *m, enum sp_part part,
                                                       struct sp_err *err),
                                struct sp_err *err)
{
    enum sp_status st = step(m, SP_PART_TARGET, err);

    return st || !m->job->has_draft ? st : step(m, SP_PART_DRAFT, err);
}

/* ---- calibration ---- */

/* What sp_plan_smooth may apply. The smoothing of a packed target stays as it is: its norms are
 * copied. */
static const struct sp_smoothing *smoothing_of(const struct maker *m)
{
    static const struct sp_smoothing none = {0};

    return m->job->target.smoothing.n ? &none : &m->job->calibration.smoothing;
}

static enum sp_status smooth(struct maker *m, struct sp_err *err)
{
    struct sp_smoothing applied = {0};
    struct sp_json_out text = {0};
    enum sp_status st =
        sp_plan_smooth(&applied, &m->job->plan, smoothing_of(m), &m->job->target, err);

    if (st) sp_context(err, "%s", m->job->options->calibration);
    if (!st && applied.n) sp_smoothing_print(&text, &applied);
    m->job->smoothing = text.text;
    if (!st) st = sp_json_out_check(&text, err);
    sp_smoothing_release(&applied);
    return st;
}

/* The caches that the calibration describes must be those of the target. */
static enum sp_status check_caches(const struct sp_create_job *job, struct sp_err *err)
{
    const size_t n = job->calibration.caches.n;

    if (n == 0 || n == job->target.config.n_layers) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "%s: made for another model: caches of %zu layers, but %s has %u",
                   job->options->calibration, n, job->target.path, job->target.config.n_layers);
}

static enum sp_status calibrate_part(struct maker *m, enum sp_part part, struct sp_err *err)
{
    size_t used, without;
    enum sp_status st = sp_calibration_apply(&m->job->calibration, &m->job->plan,
                                             source_of(m, part), part, &used, &without, err);

    m->n_calibrated += used;
    m->n_without += without;
    return st;
}

static enum sp_status calibrate(struct maker *m, struct sp_err *err)
{
    enum sp_status st;
    const char *path = m->job->options->calibration;

    if (path == NULL) return SP_OK;
    if ((st = smooth(m, err)) || (st = each_part(m, calibrate_part, err))) return st;
    if (m->n_calibrated == 0 && m->job->smoothing.len == 0 && m->job->calibration.caches.n == 0) {
        return sp_fail(
            err, SP_E_USAGE,
            "%s: has no effect, because it does not state what types of KV caches cost, no matrix "
            "that it has statistics of becomes q2 to q6, and no norm is smoothed, which is done "
            "for matrices that are stored as floats and become q5 to q8",
            path);
    }
    if (m->n_without == 0) return SP_OK;
    return sp_warn(&m->job->warnings, err,
                   "%s has no statistics for %zu of %zu matrices that become q2 to q6; these "
                   "are quantized without calibration",
                   path, m->n_without, m->n_calibrated + m->n_without);
}

/* Warns if matrices whose codes have few bits get a type that has few bits, too. */
static enum sp_status note_double_rounding(struct maker *m, enum sp_part part, struct sp_err *err)
{
    const struct sp_plan *plan = &m->job->plan;
    const struct sp_plan_item *first = NULL;
    const struct sp_block_dtype *cost;
    size_t n = 0;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];
        bool few = item->code_bits > 0 && item->code_bits <= 6;
        if (item->part != part || !few || item->keeps_codes || item->to == SP_Q8 ||
            sp_dtype_is_float(item->to))
            continue;
        if (n++ == 0) first = item;
    }
    if (n == 0) return SP_OK;
    cost = sp_block_dtype_find(first->to);
    return sp_warn(&m->job->warnings, err,
                   "%s: %zu matrices have codes of %u bits already, and %s rounds them a second "
                   "time (KL divergence of %s to %s nats in models of 0.1B to 0.5B parameters, "
                   "less in larger ones); q8 is nearly exact, f32 is exact",
                   first->source->path, n, first->code_bits, sp_dtype_info(first->to)->name,
                   cost->kl_from, cost->kl_to);
}

/* ---- parts ---- */

static const char draft_prefix[] = "draft:";

static enum sp_part part_of(const struct sp_type_rule *rule)
{
    return sp_begins_with(rule->text, draft_prefix) ? SP_PART_DRAFT : SP_PART_TARGET;
}

const struct sp_type_rule *sp_type_rules_first(const struct sp_type_rules *rules, enum sp_part part)
{
    for (size_t i = 0; i < rules->n; i++)
        if (part_of(&rules->rules[i]) == part) return &rules->rules[i];
    return NULL;
}

/* Sets the choices of the tensors that a rule matches, and leaves the others. */
static enum sp_status apply_rule(struct sp_plan_choice *choices, const struct sp_type_rule *rule,
                                 const struct sp_specs *specs, enum sp_part part,
                                 struct sp_err *err)
{
    enum sp_status st;
    const char *start = rule->text + (part == SP_PART_DRAFT ? sizeof draft_prefix - 1 : 0);
    const char *end = strrchr(start, '=');
    char *pattern = NULL;
    size_t n = 0;

    if ((st = sp_copy_text(&pattern, start, end ? (size_t)(end - start) : strlen(start), err)))
        return st;
    for (size_t i = 0; i < specs->n_specs; i++) {
        if (fnmatch(pattern, specs->specs[i].name, 0) != 0) continue;
        choices[i] = (struct sp_plan_choice){.type = rule->type, .rule = rule->text};
        n++;
    }
    free(pattern);
    if (n > 0) return SP_OK;
    return sp_fail_about(err, SP_E_USAGE, SP_TOPIC_RULE, "rule %s matches no tensor of the %s",
                         rule->text, sp_part_name(part));
}

/* Collects what is known of a part's tensors: calibrations, and the types that rules choose. */
static enum sp_status open_choices(struct maker *m, enum sp_part part, struct sp_err *err)
{
    const struct sp_type_rules *rules = &m->job->options->rules;
    const struct sp_specs *specs = &source_of(m, part)->specs;
    struct sp_plan_choice *choices;
    enum sp_status st = sp_new(&m->choices[part], specs->n_specs, sizeof *choices, err);

    if (st) return st;
    choices = m->choices[part];
    for (size_t i = 0; i < specs->n_specs; i++) {
        choices[i].calibrated =
            sp_calibration_names(&m->job->calibration, part, specs->specs[i].name);
    }
    for (size_t i = 0; i < rules->n && !st; i++)
        if (part_of(&rules->rules[i]) == part)
            st = apply_rule(choices, &rules->rules[i], specs, part, err);
    return st;
}

static enum sp_status open_all_choices(struct maker *m, struct sp_err *err)
{
    const struct sp_type_rule *rule = sp_type_rules_first(&m->job->options->rules, SP_PART_DRAFT);
    enum sp_status st = each_part(m, open_choices, err);

    if (st || m->job->has_draft || rule == NULL) return st;
    return sp_fail(err, SP_E_USAGE, "rule %s: there is no draft", rule->text);
}

static enum sp_status add_to(struct sp_plan *plan, const struct maker *m, enum sp_part part,
                             enum sp_dtype type, struct sp_err *err)
{
    const struct sp_create_options *o = m->job->options;
    bool is_draft = part == SP_PART_DRAFT;
    struct sp_policy_request request = {
        .type = type, .output_type = is_draft ? SP_DTYPE_NONE : o->output_type, .draft = is_draft};

    return sp_plan_add(plan, source_of(m, part), part, &request, m->choices[part], o->allow_lossy,
                       err);
}

static enum sp_status add_part(struct maker *m, enum sp_part part, struct sp_err *err)
{
    const struct sp_create_options *o = m->job->options;

    return add_to(&m->job->plan, m, part, part == SP_PART_TARGET ? o->target_type : o->draft_type,
                  err);
}

/* ---- budget ---- */

enum { MOST_PADDING = 2 * 4096 }; /* between target, draft and sections, by types */

static uint64_t size_of(const struct sp_plan *plan, size_t n)
{
    uint64_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += plan->items[i].size;
    return size;
}

static uint64_t target_weights(const struct maker *m)
{
    uint64_t n = 0;

    for (size_t i = 0; i < m->job->target.specs.n_specs; i++)
        n += sp_spec_elements(&m->job->target.specs.specs[i]);
    return n;
}

/* *overhead = bytes of the file besides the target's tensors, or a few more. */
static enum sp_status measure_overhead(uint64_t *overhead, const struct maker *m,
                                       struct sp_err *err)
{
    struct sp_create_job *job = m->job;
    const struct sp_smoothing *smoothing = smoothing_of(m);
    struct sp_json_out out = {0};
    enum sp_status st = SP_OK;
    uint64_t size = 0;

    if (smoothing->n) sp_smoothing_print(&out, smoothing);
    if (!(st = sp_json_out_check(&out, err))) {
        job->smoothing = out.text; /* at most this */
        st = sp_create_job_measure(&size, job, NULL, err);
        job->smoothing = (struct sp_strbuf){0};
    }
    sp_strbuf_release(&out.text);
    *overhead = size - size_of(&job->plan, job->target.specs.n_specs) + MOST_PADDING;
    return st;
}

static enum sp_status note_choice(struct maker *m, const struct sp_budget_result *result,
                                  uint64_t most, struct sp_err *err)
{
    const char *path = m->job->options->calibration;

    if (most >= result->largest) {
        return sp_warn(
            &m->job->warnings, err,
            "the size is more than q8 needs for all matrices, which are q8 then, or keep "
            "a smaller type; without one every tensor keeps its stored type");
    }
    if (result->n_measured == result->n_groups) return SP_OK;
    if (result->n_measured) {
        return sp_warn(&m->job->warnings, err,
                       "%s has sensitivities for %zu of %zu groups of matrices; a table of typical "
                       "ones stands for the others",
                       path, result->n_measured, result->n_groups);
    }
    return sp_warn(&m->job->warnings, err,
                   "types are chosen by a table of typical sensitivities, which predicts no KL "
                   "divergence; %s%sspectool calibrate --sensitivity measures those of this model",
                   path ? path : "", path ? " has no sensitivities, and " : "");
}

/* Refuses a budget that is too small. */
static enum sp_status fail_least(const struct maker *m, uint64_t least, uint64_t overhead,
                                 struct sp_err *err)
{
    const char *odd = "";

    for (size_t i = 0; i < m->job->plan.n_items; i++) {
        const struct sp_plan_item *item = &m->job->plan.items[i];
        if (item->part == SP_PART_TARGET && item->layout == SP_PANEL &&
            sp_spec_cols(item->spec) % SP_BLOCK)
            odd = "; matrices whose width is not a multiple of 32 keep their type";
    }
    if (m->job->options->budget.size) {
        return sp_fail(err, SP_E_USAGE,
                       "the size is %.3f MB, and the smallest possible file, with q2 for all "
                       "matrices without a rule, has %.3f MB%s",
                       (double)m->job->options->budget.size / 1e6, (double)(least + overhead) / 1e6,
                       odd);
    }
    return sp_fail(err, SP_E_USAGE,
                   "the budget is %g bits per weight, and the least possible, with q2 for all "
                   "matrices without a rule, is %.3f%s",
                   m->job->options->budget.bits,
                   8 * (double)(least + overhead) / (double)target_weights(m), odd);
}

/* Finds the largest type for all of the target that fits, with the exceptions that the policy
 * makes. A type that the target cannot have is none. */
static enum sp_status find_uniform(struct maker *m, uint64_t most, struct sp_err *err)
{
    /* The budget leaves room for padding and a receipt that a file may not have. */
    const uint64_t slack = m->job->options->budget.size ? 2 * MOST_PADDING : 0;

    for (size_t t = 0; t < SP_N_BLOCK_DTYPES && m->job->uniform == SP_DTYPE_NONE; t++) {
        struct sp_plan plan = {0};
        struct sp_err why = {0};
        enum sp_status st = add_to(&plan, m, SP_PART_TARGET, sp_block_dtypes[t].dtype, &why);
        uint64_t size = size_of(&plan, plan.n_items);
        sp_plan_release(&plan);
        if (st == SP_E_NOMEM) return sp_fail_as(err, &why);
        if (st == SP_OK && size <= most + slack) m->job->uniform = sp_block_dtypes[t].dtype;
    }
    return SP_OK;
}

/* Chooses the target's types by means of a plan of both parts that keeps the stored types. */
static enum sp_status choose_types(struct maker *m, struct sp_err *err)
{
    struct sp_create_job *job = m->job;
    const struct sp_budget *budget = &job->options->budget;
    struct sp_budget_request request = {
        .plan = &job->plan,
        .n_target = job->target.specs.n_specs,
        .keep_output = job->options->output_type != SP_DTYPE_NONE,
        .sensitivities = &job->calibration.sensitivities,
    };
    struct sp_budget_result result;
    enum sp_status st;
    uint64_t overhead = 0;
    bool fits = false;

    if ((st = each_part(m, add_part, err))) return st;
    if (budget->size && (st = measure_overhead(&overhead, m, err))) return st;
    request.most =
        budget->size ? budget->size : (uint64_t)(budget->bits / 8 * (double)target_weights(m));
    overhead += sp_plan_smooth_growth(&job->plan, smoothing_of(m));
    request.most = request.most > overhead ? request.most - overhead : 0;
    if ((st = find_uniform(m, request.most, err))) return st;
    st = sp_budget_choose(m->choices[SP_PART_TARGET], &fits, &result, &request, err);
    if (!st && !fits) st = fail_least(m, result.least, overhead, err);
    if (!st) st = note_choice(m, &result, request.most, err);
    if (request.most >= result.largest) job->uniform = SP_DTYPE_NONE;
    sp_plan_release(&job->plan);
    return st;
}

enum sp_status sp_create_job_plan(struct sp_create_job *job, struct sp_err *err)
{
    const struct sp_create_options *o = job->options;
    bool chooses =
        (o->budget.size || o->budget.bits > 0) && o->budget.check.uniform == SP_DTYPE_NONE;
    struct maker m = {.job = job};
    enum sp_status st;

    if (o->calibration &&
        (st = sp_calibration_open(&job->calibration, o->calibration, &job->target, err)))
        return st;
    if ((st = check_caches(job, err))) return st;
    if ((st = open_all_choices(&m, err)) || (chooses && (st = choose_types(&m, err))) ||
        (st = each_part(&m, add_part, err)) || (st = calibrate(&m, err)) ||
        (st = each_part(&m, note_double_rounding, err)))
        goto done;
    if (job->has_draft) st = sp_token_tables_verify(&job->draft, err);
done:
    free(m.choices[SP_PART_TARGET]);
    free(m.choices[SP_PART_DRAFT]);
    return st;
}
