#include "convert/create/plan.h"

static bool is_vector(const struct sp_plan_item *item)
{
    return item->spec->role == SP_ROLE_NORM || item->spec->role == SP_ROLE_BIAS;
}

/* True for an item of the target that the exponents of the norm scale. */
static bool is_scaled(const struct sp_plan_item *item, const struct sp_smoothed_norm *norm)
{
    return item->part == SP_PART_TARGET &&
           sp_smoothing_scales(norm->name, &item->source->config, item->spec->name);
}

/* The type of a norm's weight or bias. Powers of two are exact in f32 and, but at the ends of the
 * range, in bf16; f16 has few exponents. A norm that multiplies by 1 + w does not store what is
 * divided. */
static enum sp_dtype smoothed_type(const struct sp_plan_item *vector)
{
    bool shifted = vector->spec->role == SP_ROLE_NORM && vector->source->config.norm_shifted;

    return shifted || vector->to == SP_F16 ? SP_F32 : vector->to;
}

/* Numbers that are stored in blocks or as codes would be rounded again. */
static bool can_scale(const struct sp_plan_item *item)
{
    return item->coding == NULL && sp_dtype_is_float(item->from) &&
           (is_vector(item) || item->to != SP_F16);
}

/* Error propagation makes up for unlike columns where codes have few bits, and the rounding of
 * activations is next to nothing beside that of the weights. */
static bool has_few_bits(enum sp_dtype type)
{
    unsigned bits = sp_dtype_code_bits(type);

    return bits > 0 && bits < 5;
}

/* *worthwhile = all that the exponents scale can be scaled, some of it is quantized, and that to 5
 * bits or more. */
static enum sp_status judge(bool *worthwhile, const struct sp_plan *plan,
                            const struct sp_smoothed_norm *norm, const struct sp_source *target,
                            struct sp_err *err)
{
    bool found = false, fits = true, possible = true, quantized = false;

    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];
        if (!is_scaled(item, norm)) continue;
        found |= item->spec->role == SP_ROLE_NORM;
        fits &= sp_spec_cols(item->spec) == norm->n;
        possible &= can_scale(item) && !has_few_bits(item->to);
        quantized |= sp_dtype_is_block(item->to);
    }
    *worthwhile = possible && quantized;
    if (found && fits) return SP_OK;
    return sp_fail(err, SP_E_INPUT,
                   "the calibration was made for another model: %s has no %s of %zu", target->path,
                   norm->name, norm->n);
}

static void smooth_item(struct sp_plan_item *item, const int8_t *exponents)
{
    size_t size = 0;

    item->exponents = exponents;
    item->bytes = NULL;
    if (!is_vector(item)) return;
    item->to = smoothed_type(item);
    if (sp_tensor_size(&size, item->to, item->layout, item->spec->shape, item->spec->rank))
        item->size = size;
}

enum sp_status sp_plan_smooth(struct sp_smoothing *applied, struct sp_plan *plan,
                              const struct sp_smoothing *smoothing, const struct sp_source *target,
                              struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t n = 0; n < smoothing->n && !st; n++) {
        const struct sp_smoothed_norm *norm = &smoothing->norms[n];
        bool worthwhile;
        if ((st = judge(&worthwhile, plan, norm, target, err))) return st;
        if (!worthwhile) continue;
        for (size_t i = 0; i < plan->n_items; i++)
            if (is_scaled(&plan->items[i], norm)) smooth_item(&plan->items[i], norm->exponents);
        st = sp_smoothing_add(applied, norm->name, norm->exponents, norm->n, err);
    }
    return st;
}

uint64_t sp_plan_smooth_growth(const struct sp_plan *plan, const struct sp_smoothing *smoothing)
{
    uint64_t growth = 0;

    for (size_t n = 0; n < smoothing->n; n++) {
        for (size_t i = 0; i < plan->n_items; i++) {
            const struct sp_plan_item *item = &plan->items[i];
            if (is_vector(item) && is_scaled(item, &smoothing->norms[n]) &&
                smoothed_type(item) != item->to)
                growth += item->size;
        }
    }
    return growth;
}
