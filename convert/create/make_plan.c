#include "convert/create/create_job.h"

#include "convert/create/plan.h"
#include "convert/source/token_tables.h"
#include "format/base/mem.h"
#include "format/base/warnings.h"

#include <inttypes.h>
#include <stdlib.h>

/* The work on one plan. */
struct maker {
    const struct sp_plan_inputs *in;
    struct sp_made_plan *made;
    struct sp_plan_choice *choices[3]; /* by part: one for each spec; owned */
    char **warnings;
};

static const struct sp_source *source_of(const struct maker *m, enum sp_part part)
{
    return part == SP_PART_TARGET ? m->in->target : m->in->draft;
}

/* ---- calibration ---- */

/* The smoothing of a packed target stays as it is: its norms are copied. */
static enum sp_status smooth(struct maker *m, struct sp_err *err)
{
    enum sp_status st;
    struct sp_smoothing applied = {0};
    struct sp_json_out text = {0};

    if (m->in->target->smoothing.n) return SP_OK;
    st = sp_plan_smooth(&applied, &m->made->plan, sp_calibration_smoothing(m->made->calibration),
                        m->in->target, err);
    if (st) sp_context(err, "%s", m->in->calibration_path);
    if (!st && applied.n) sp_smoothing_print(&text, &applied);
    m->made->smoothing = text.text;
    if (!st) st = sp_json_out_check(&text, err);
    sp_smoothing_release(&applied);
    return st;
}

/* Adds to *n_used and *n_without the numbers of sp_calibration_apply. */
static enum sp_status calibrate_part(struct maker *m, enum sp_part part, size_t *n_used,
                                     size_t *n_without, struct sp_err *err)
{
    enum sp_status st;
    size_t used, without;

    if (source_of(m, part) == NULL) return SP_OK;
    st = sp_calibration_apply(m->made->calibration, &m->made->plan, source_of(m, part), part, &used,
                              &without, err);
    *n_used += used;
    *n_without += without;
    return st;
}

static enum sp_status calibrate(struct maker *m, struct sp_err *err)
{
    enum sp_status st;
    const char *path = m->in->calibration_path;
    size_t n_used = 0, n_without = 0;

    if (path == NULL) return SP_OK;
    if ((st = smooth(m, err))) return st;
    if ((st = calibrate_part(m, SP_PART_TARGET, &n_used, &n_without, err))) return st;
    if ((st = calibrate_part(m, SP_PART_DRAFT, &n_used, &n_without, err))) return st;
    if (n_used == 0 && m->made->smoothing.len == 0) {
        return sp_fail(
            err, SP_E_USAGE,
            "%s: has no effect, because no matrix that it has statistics of becomes q2 to q6, and "
            "no norm is smoothed, which is done for matrices that are stored as floats and "
            "become q5 to q8",
            path);
    }
    if (n_without == 0) return SP_OK;
    return sp_warn(m->warnings, err,
                   "%s has no statistics for %zu of %zu matrices that become q2 to q6; these "
                   "are quantized without calibration",
                   path, n_without, n_used + n_without);
}

/* Warns if matrices whose codes have few bits get a type that has few bits, too. */
static enum sp_status note_double_rounding(struct maker *m, enum sp_part part, struct sp_err *err)
{
    const struct sp_plan *plan = &m->made->plan;
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
    return sp_warn(m->warnings, err,
                   "%s: %zu matrices have codes of %u bits already, and %s rounds them a second "
                   "time (KL divergence of %s to %s nats in models of 0.1B to 0.5B parameters, "
                   "less in larger ones); q8 is nearly exact, f32 is exact",
                   first->source->path, n, first->code_bits, sp_dtype_info(first->to)->name,
                   cost->kl_from, cost->kl_to);
}

/* ---- parts ---- */

/* Collects what is known of a part's tensors: calibrations, and the types that rules choose. */
static enum sp_status open_choices(struct maker *m, enum sp_part part, struct sp_err *err)
{
    const struct sp_source *source = source_of(m, part);
    const struct sp_type_rule *rule = sp_type_rules_first(&m->in->rules, part);
    enum sp_status st;

    if (source == NULL && rule)
        return sp_fail(err, SP_E_USAGE, "rule %s: there is no draft", rule->text);
    if (source == NULL) return SP_OK;
    st = sp_new(&m->choices[part], source->specs.n_specs, sizeof *m->choices[part], err);
    if (st) return st;
    for (size_t i = 0; m->made->calibration && i < source->specs.n_specs; i++) {
        m->choices[part][i].calibrated =
            sp_calibration_names(m->made->calibration, part, source->specs.specs[i].name);
    }
    return sp_type_rules_apply(m->choices[part], &m->in->rules, source, part, err);
}

static enum sp_status add_part(struct maker *m, enum sp_part part, struct sp_err *err)
{
    bool is_target = part == SP_PART_TARGET;

    if (source_of(m, part) == NULL) return SP_OK;
    return sp_plan_add(&m->made->plan, source_of(m, part), part,
                       is_target ? &m->in->target_request : &m->in->draft_request, m->choices[part],
                       m->in->allow_lossy, err);
}

/* ---- budget ---- */

enum { MOST_PADDING = 2 * 4096 }; /* between target, draft and sections, by types */

static uint64_t target_size(const struct maker *m)
{
    uint64_t size = 0;

    for (size_t i = 0; i < m->in->target->specs.n_specs; i++)
        size += m->made->plan.items[i].size;
    return size;
}

static uint64_t target_weights(const struct maker *m)
{
    uint64_t n = 0;

    for (size_t i = 0; i < m->in->target->specs.n_specs; i++)
        n += sp_spec_elements(&m->in->target->specs.specs[i]);
    return n;
}

/* What sp_plan_smooth may apply. */
static const struct sp_smoothing *smoothing_of(const struct maker *m)
{
    return sp_calibration_smoothing(m->in->target->smoothing.n ? NULL : m->made->calibration);
}

/* *overhead = bytes of the file besides the target's tensors, or a few more. */
static enum sp_status measure_overhead(uint64_t *overhead, const struct maker *m,
                                       struct sp_err *err)
{
    const struct sp_smoothing *smoothing = smoothing_of(m);
    enum sp_status st;
    struct sp_json_out out = {0};
    uint64_t size;
    struct sp_pack_input input = {
        .target = m->in->target,
        .draft = m->in->draft,
        .records = m->in->records,
        .plan = m->made->plan, /* still owned by `made` */
    };

    if (smoothing->n) {
        sp_smoothing_print(&out, smoothing);
        if ((st = sp_json_out_check(&out, err))) goto done;
        input.smoothing = (struct sp_text){out.text.at, out.text.len};
    }
    if ((st = sp_pack_input_measure(&size, &input, NULL, err))) goto done;
    *overhead = size - target_size(m) + MOST_PADDING;
done:
    sp_strbuf_release(&out.text);
    return st;
}

static enum sp_status note_choice(struct maker *m, const struct sp_budget_result *result,
                                  uint64_t most, struct sp_err *err)
{
    const char *path = m->in->calibration_path;

    if (most >= result->largest) {
        return sp_warn(
            m->warnings, err,
            "the size is more than q8 needs for all matrices, which are q8 then, or keep "
            "a smaller type; without one every tensor keeps its stored type");
    }
    if (result->n_measured == result->n_groups) return SP_OK;
    if (result->n_measured) {
        return sp_warn(m->warnings, err,
                       "%s has sensitivities for %zu of %zu groups of matrices; a table of typical "
                       "ones stands for the others",
                       path, result->n_measured, result->n_groups);
    }
    return sp_warn(m->warnings, err,
                   "types are chosen by a table of typical sensitivities, which predicts no KL "
                   "divergence; %s%sspectool calibrate --sensitivity measures those of this model",
                   path ? path : "", path ? " has no sensitivities, and " : "");
}

/* Refuses a budget that is too small. */
static enum sp_status fail_least(const struct maker *m, uint64_t least, uint64_t overhead,
                                 struct sp_err *err)
{
    const char *odd = "";

    for (size_t i = 0; i < m->made->plan.n_items; i++) {
        const struct sp_plan_item *item = &m->made->plan.items[i];
        if (item->part == SP_PART_TARGET && item->layout == SP_PANEL &&
            sp_spec_cols(item->spec) % SP_BLOCK)
            odd = "; matrices whose width is not a multiple of 32 keep their type";
    }
    if (m->in->budget.size) {
        return sp_fail(err, SP_E_USAGE,
                       "the size is %.3f MB, and the smallest possible file, with q2 for all "
                       "matrices without a rule, has %.3f MB%s",
                       (double)m->in->budget.size / 1e6, (double)(least + overhead) / 1e6, odd);
    }
    return sp_fail(err, SP_E_USAGE,
                   "the budget is %g bits per weight, and the least possible, with q2 for all "
                   "matrices without a rule, is %.3f%s",
                   m->in->budget.bits, 8 * (double)(least + overhead) / (double)target_weights(m),
                   odd);
}

/* Finds the largest type for all of the target that fits, with the exceptions that the policy
 * makes. A type that the target cannot have is none. */
static enum sp_status find_uniform(struct maker *m, uint64_t most, struct sp_err *err)
{
    /* The budget leaves room for padding and a receipt that a file may not have. */
    const uint64_t slack = m->in->budget.size ? 2 * MOST_PADDING : 0;

    for (size_t t = 0; t < SP_N_BLOCK_DTYPES && m->made->uniform == SP_DTYPE_NONE; t++) {
        struct sp_policy_request request = m->in->target_request;
        struct sp_plan plan = {0};
        struct sp_err why = {0};
        enum sp_status st;
        uint64_t size = 0;
        request.type = sp_block_dtypes[t].dtype;
        st = sp_plan_add(&plan, m->in->target, SP_PART_TARGET, &request, m->choices[SP_PART_TARGET],
                         m->in->allow_lossy, &why);
        for (size_t i = 0; i < plan.n_items; i++)
            size += plan.items[i].size;
        sp_plan_release(&plan);
        if (st == SP_E_NOMEM) return sp_fail_as(err, &why);
        if (st == SP_OK && size <= most + slack) m->made->uniform = request.type;
    }
    return SP_OK;
}

/* Chooses the target's types by means of a plan of both parts that keeps the stored types. */
static enum sp_status choose_types(struct maker *m, struct sp_err *err)
{
    enum sp_status st;
    struct sp_budget_request request = {
        .plan = &m->made->plan,
        .n_target = m->in->target->specs.n_specs,
        .keep_output = m->in->target_request.output_type != SP_DTYPE_NONE,
        .sensitivities = sp_calibration_sensitivities(m->made->calibration),
    };
    struct sp_budget_result result;
    uint64_t overhead = 0;
    bool fits = false;

    if ((st = add_part(m, SP_PART_TARGET, err))) return st;
    if ((st = add_part(m, SP_PART_DRAFT, err))) return st;
    if (m->in->budget.size) {
        if ((st = measure_overhead(&overhead, m, err))) return st;
        request.most = m->in->budget.size;
    } else {
        request.most = (uint64_t)(m->in->budget.bits / 8 * (double)target_weights(m));
    }
    overhead += sp_plan_smooth_growth(&m->made->plan, smoothing_of(m));
    request.most = request.most > overhead ? request.most - overhead : 0;
    if ((st = find_uniform(m, request.most, err))) return st;
    st = sp_budget_choose(m->choices[SP_PART_TARGET], &fits, &result, &request, err);
    if (!st && !fits) st = fail_least(m, result.least, overhead, err);
    if (!st) st = note_choice(m, &result, request.most, err);
    if (request.most >= result.largest) m->made->uniform = SP_DTYPE_NONE;
    sp_plan_release(&m->made->plan);
    return st;
}

enum sp_status sp_plan_make(struct sp_made_plan *out, const struct sp_plan_inputs *inputs,
                            char **warnings, struct sp_err *err)
{
    enum sp_status st;
    struct maker m = {.in = inputs, .made = out, .warnings = warnings};
    bool chooses = (inputs->budget.size || inputs->budget.bits > 0) &&
                   inputs->budget.check.uniform == SP_DTYPE_NONE;

    *out = (struct sp_made_plan){0};
    if (inputs->calibration_path &&
        (st = sp_calibration_open(&out->calibration, inputs->calibration_path, err)))
        goto done;
    if (out->calibration && (st = sp_calibration_name(out->calibration, inputs->target, err)))
        goto done;
    if ((st = open_choices(&m, SP_PART_TARGET, err))) goto done;
    if ((st = open_choices(&m, SP_PART_DRAFT, err))) goto done;
    if (chooses && (st = choose_types(&m, err))) goto done;
    if ((st = add_part(&m, SP_PART_TARGET, err))) goto done;
    if ((st = add_part(&m, SP_PART_DRAFT, err))) goto done;
    if ((st = calibrate(&m, err))) goto done;
    if ((st = note_double_rounding(&m, SP_PART_TARGET, err))) goto done;
    if (inputs->draft == NULL) goto done;
    if ((st = note_double_rounding(&m, SP_PART_DRAFT, err))) goto done;
    st = sp_token_tables_verify(inputs->draft, err);
done:
    free(m.choices[SP_PART_TARGET]);
    free(m.choices[SP_PART_DRAFT]);
    return st;
}

void sp_made_plan_release(struct sp_made_plan *made)
{
    sp_plan_release(&made->plan);
    sp_calibration_close(made->calibration);
    sp_strbuf_release(&made->smoothing);
    *made = (struct sp_made_plan){0};
}
