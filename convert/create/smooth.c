#include "convert/create/smooth.h"

#include "format/base/mem.h"

#include <stdio.h>
#include <string.h>

/* Powers of two are exact in f32 and, but at the ends of the range, in bf16; f16 has few exponents.
 * A norm that multiplies by 1 + w does not store what is divided. */
static enum sp_dtype smoothed_type(const struct sp_plan_item *norm)
{
    bool shifted = norm->spec->role == SP_ROLE_NORM && norm->source->config.norm_shifted;

    return shifted || norm->to == SP_F16 ? SP_F32 : norm->to;
}

/* The item of the target with this name; NULL: there is none. */
static struct sp_plan_item *find(const struct sp_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        struct sp_plan_item *item = &plan->items[i];

        if (item->part == SP_PART_TARGET && strcmp(item->spec->name, name) == 0) return item;
    }
    return NULL;
}

/* The bias of a norm; NULL: it has none. */
static struct sp_plan_item *find_bias(const struct sp_plan *plan, const char *norm)
{
    char name[SP_NORM_NAME];
    size_t stem = strlen(norm) - strlen("weight");

    snprintf(name, sizeof name, "%.*sbias", (int)stem, norm);
    return find(plan, name);
}

static bool reads(const struct sp_plan_item *item, const char *norm)
{
    char name[SP_NORM_NAME];

    return item->part == SP_PART_TARGET &&
           sp_smoothing_norm_of(name, &item->source->config, item->spec->name) &&
           strcmp(name, norm) == 0;
}

/* Numbers that are stored in blocks or as codes would be rounded again. */
static bool can_scale(const struct sp_plan_item *item)
{
    return item->coding == NULL && sp_dtype_is_float(item->from) &&
           (item->spec->role == SP_ROLE_NORM || item->spec->role == SP_ROLE_BIAS ||
            item->to != SP_F16);
}

/* Error propagation makes up for unlike columns where codes have few bits, and the rounding of
 * activations is next to nothing beside that of the weights. */
static bool has_few_bits(enum sp_dtype type)
{
    unsigned bits = sp_dtype_info(type)->code_bits;

    return bits > 0 && bits < 5;
}

/* True if all that read the norm can be scaled, and some are quantized, all to 5 bits or more. */
static bool is_worthwhile(const struct sp_plan *plan, const struct sp_plan_item *norm,
                          const struct sp_plan_item *bias)
{
    bool quantized = false;

    if (!can_scale(norm) || (bias && !can_scale(bias))) return false;
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];

        if (!reads(item, norm->spec->name)) continue;
        if (!can_scale(item) || has_few_bits(item->to)) return false;
        quantized |= sp_dtype_is_block(item->to);
    }
    return quantized;
}

static void smooth_item(struct sp_plan_item *item, const int8_t *exponents)
{
    item->exponents = exponents;
    item->bytes = NULL;
}

static void smooth_vector(struct sp_plan_item *item, const int8_t *exponents)
{
    size_t size = 0;
    bool known;

    smooth_item(item, exponents);
    item->to = smoothed_type(item);
    known = sp_tensor_size(&size, item->to, item->layout, item->spec->shape, item->spec->rank);
    if (known) item->size = size;
}

static enum sp_status find_norm(struct sp_plan_item **out, const struct sp_plan *plan,
                                const struct sp_smoothed_norm *smoothed,
                                const struct sp_source *target, struct sp_err *err)
{
    struct sp_plan_item *norm = find(plan, smoothed->name);

    if (norm && norm->spec->role == SP_ROLE_NORM && sp_spec_elements(norm->spec) == smoothed->n) {
        *out = norm;
        return SP_OK;
    }
    return sp_fail(err, SP_E_INPUT,
                   "the calibration was made for another model: %s has no %s of %zu", target->path,
                   smoothed->name, smoothed->n);
}

/* True if every matrix that reads the norm has the norm's columns. */
static bool columns_agree(const struct sp_plan *plan, const struct sp_smoothed_norm *smoothed)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];

        if (reads(item, smoothed->name) && sp_spec_cols(item->spec) != smoothed->n) return false;
    }
    return true;
}

enum sp_status sp_plan_smooth(struct sp_smoothing *applied, struct sp_plan *plan,
                              const struct sp_smoothing *smoothing, const struct sp_source *target,
                              struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (size_t n = 0; n < smoothing->n && !st; n++) {
        const struct sp_smoothed_norm *smoothed = &smoothing->norms[n];
        struct sp_plan_item *norm = NULL, *bias;

        if ((st = find_norm(&norm, plan, smoothed, target, err))) return st;
        bias = find_bias(plan, smoothed->name);
        if (!columns_agree(plan, smoothed) || !is_worthwhile(plan, norm, bias)) continue;
        smooth_vector(norm, smoothed->exponents);
        if (bias) smooth_vector(bias, smoothed->exponents);
        for (size_t i = 0; i < plan->n_items; i++) {
            if (reads(&plan->items[i], smoothed->name))
                smooth_item(&plan->items[i], smoothed->exponents);
        }
        st = sp_smoothing_add(applied, smoothed->name, smoothed->exponents, smoothed->n, err);
    }
    return st;
}

uint64_t sp_plan_smooth_growth(const struct sp_plan *plan, const struct sp_smoothing *smoothing)
{
    uint64_t growth = 0;

    for (size_t n = 0; n < smoothing->n; n++) {
        const char *name = smoothing->norms[n].name;
        const struct sp_plan_item *items[] = {find(plan, name), find_bias(plan, name)};

        for (size_t i = 0; i < 2; i++) {
            if (items[i] && smoothed_type(items[i]) != items[i]->to) growth += items[i]->size;
        }
    }
    return growth;
}
