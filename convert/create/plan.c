/* The planner: applies the policy to every tensor and sums the sizes. It opens no weight. */
#include "convert/create/plan.h"

#include "format/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* f64 to f32 and f32 to bf16 lose too, but only bits that quantization would lose again; a second
 * rounding to blocks moves weights that the first has already moved. */
static enum sp_status check_loss(const struct sp_plan_item *item, bool allow_lossy,
                                 struct sp_err *err)
{
    if (item->merged && !sp_dtype_is_float(item->from)) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor %s is %s already, and with an adapter it would be rounded twice; "
                       "merge the adapter into the original checkpoint",
                       item->spec->name, sp_dtype_info(item->from)->name);
    }
    if (allow_lossy || !sp_policy_rounds_twice(item->from, item->to)) return SP_OK;
    return sp_fail_about(
        err, SP_E_INPUT, SP_TOPIC_ROUNDED,
        "tensor %s is %s already, and as %s it would be rounded twice; quantize the "
        "original checkpoint",
        item->spec->name, sp_dtype_info(item->from)->name, sp_dtype_info(item->to)->name);
}

/* The smallest type that weights are rounded to with codes of at least n bits, of 1 to 8; NONE for
 * 0. */
static enum sp_dtype type_of_bits(unsigned n)
{
    enum sp_dtype found = n ? SP_Q8 : SP_DTYPE_NONE;

    for (size_t i = 0; i < SP_N_BLOCK_DTYPES && n; i++)
        if (sp_dtype_code_bits(sp_block_dtypes[i].dtype) >= n) found = sp_block_dtypes[i].dtype;
    return found;
}

/* The type of a tensor that is quantized already if no type is requested, so that no file is more
 * than 15 % larger than its source: one that keeps the codes, else the one of as many bits, to
 * which the numbers are rounded. */
static enum sp_status keep_numbers(struct sp_policy_choice *choice, const struct sp_stored *stored,
                                   const struct sp_policy_request *request,
                                   const struct sp_policy_tensor *tensor, struct sp_err *err)
{
    struct sp_policy_request like = {.type = SP_Q8, .draft = request->draft};
    struct sp_policy_choice rounded;
    enum sp_status st;

    if (stored->coding == NULL || request->type != SP_DTYPE_NONE || stored->merged) return SP_OK;
    if (request->output_type != SP_DTYPE_NONE || choice->dtype != stored->dtype) return SP_OK;
    choice->rule = "dequantized, nothing lost";
    if (choice->layout != SP_PANEL) return SP_OK;
    if (!stored->kept) like.type = type_of_bits(stored->code_bits);
    if (like.type == SP_DTYPE_NONE) return SP_OK;
    if ((st = sp_policy_choose(&rounded, &like, tensor, err))) return st;
    if (!sp_dtype_is_block(rounded.dtype)) return SP_OK;
    choice->dtype = stored->kept ? stored->kept : rounded.dtype;
    choice->rule = !stored->kept            ? "rounded to about as many bits"
                   : !stored->rounds_scales ? "codes kept, nothing lost"
                                            : "codes kept, scales rounded to bf16";
    return SP_OK;
}

/* The type of one tensor. */
static enum sp_status choose(struct sp_policy_choice *out, const struct sp_stored *stored,
                             const struct sp_policy_request *request,
                             const struct sp_plan_choice *chosen,
                             const struct sp_policy_tensor *tensor, struct sp_err *err)
{
    enum sp_status st;
    struct sp_policy_request exact = {.type = chosen->type, .exact = true};

    if (chosen->type == SP_DTYPE_NONE) {
        st = sp_policy_choose(out, request, tensor, err);
        return st ? st : keep_numbers(out, stored, request, tensor, err);
    }
    if ((st = sp_policy_choose(out, &exact, tensor, err))) return st;
    if (out->dtype != chosen->type) {
        return sp_fail(err, SP_E_USAGE, "rule %s: tensor %s cannot be %s: %s", chosen->rule,
                       tensor->spec->name, sp_dtype_info(chosen->type)->name, out->rule);
    }
    out->rule = chosen->rule;
    return SP_OK;
}

static enum sp_status plan_tensor(struct sp_plan_item *item,
                                  const struct sp_policy_request *request,
                                  const struct sp_plan_choice *chosen, bool allow_lossy,
                                  struct sp_err *err)
{
    enum sp_status st;
    const struct sp_tensor_spec *spec = item->spec;
    struct sp_policy_tensor tensor = {.spec = spec, .calibrated = chosen->calibrated};
    const struct sp_source *source = item->source;
    const struct sp_smoothed_norm *smoothed =
        sp_smoothing_of(&source->smoothing, &source->config, spec->name);
    struct sp_stored stored = {0};
    struct sp_policy_choice choice;
    size_t size;

    if ((st = sp_source_stored(&stored, item->source, spec, err))) return st;
    tensor.stored = stored.dtype;
    if ((st = choose(&choice, &stored, request, chosen, &tensor, err))) return st;
    if (!sp_tensor_size(&size, choice.dtype, choice.layout, spec->shape, spec->rank)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: its shape cannot be stored as %s",
                       spec->name, sp_dtype_info(choice.dtype)->name);
    }
    if (item->source->pack && stored.layout != choice.layout) {
        return sp_fail(err, SP_E_INPUT, "tensor %s: not laid out as a %s must be", spec->name,
                       sp_role_name(spec->role));
    }
    item->from = stored.dtype;
    item->to = choice.dtype;
    item->layout = choice.layout;
    item->rule = choice.rule;
    item->source_size = stored.size;
    item->size = size;
    item->coding = stored.coding;
    item->code_bits = stored.code_bits;
    item->keeps_codes = sp_dtype_is_groupwise(item->to) && source->pack == NULL;
    item->merged = stored.merged;
    item->exponents = smoothed ? smoothed->exponents : NULL;
    if (item->from == item->to) item->bytes = stored.data;
    return check_loss(item, allow_lossy, err);
}

enum sp_status sp_plan_add(struct sp_plan *plan, const struct sp_source *source, enum sp_part part,
                           const struct sp_policy_request *request,
                           const struct sp_plan_choice *choices, bool allow_lossy,
                           struct sp_err *err)
{
    static const struct sp_plan_choice by_request = {0};
    enum sp_status st;

    st = sp_grow(&plan->items, &plan->cap_items, plan->n_items + source->specs.n_specs,
                 sizeof *plan->items, err);
    if (st) return st;
    for (size_t i = 0; i < source->specs.n_specs; i++) {
        struct sp_plan_item *item = &plan->items[plan->n_items];
        *item =
            (struct sp_plan_item){.source = source, .spec = &source->specs.specs[i], .part = part};
        if ((st = plan_tensor(item, request, choices ? &choices[i] : &by_request, allow_lossy,
                              err))) {
            sp_context(err, "%s", source->path);
            return st;
        }
        plan->n_items++;
    }
    return SP_OK;
}

void sp_plan_release(struct sp_plan *plan)
{
    free(plan->items);
    *plan = (struct sp_plan){0};
}

enum sp_status sp_plan_print(char **text, const struct sp_plan *plan, struct sp_err *err)
{
    int name_width = 6, shape_width = 5, size_width = 5; /* of the longest texts */
    char shape[SP_SHAPE_TEXT];
    size_t size;
    FILE *stream = open_memstream(text, &size);

    if (stream == NULL) return sp_fail(err, SP_E_NOMEM, "no memory for the table of tensors");
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_tensor_spec *spec = plan->items[i].spec;
        int len = (int)strlen(spec->name);
        if (len > name_width) name_width = len;
        len = (int)strlen(sp_shape_text(shape, spec->shape, spec->rank));
        if (len > shape_width) shape_width = len;
        len = snprintf(NULL, 0, "%" PRIu64, plan->items[i].size);
        if (len > size_width) size_width = len;
    }
    fprintf(stream, "%-6s  %-*s\t%-*s  %-4s  %-4s  %*s  rule", "part", name_width, "tensor",
            shape_width, "shape", "from", "to", size_width, "bytes");
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];
        sp_shape_text(shape, item->spec->shape, item->spec->rank);
        fprintf(stream, "\n%-6s  %-*s\t%-*s  %-4s  %-4s  %*" PRIu64 "  %s%s%s%s",
                sp_part_name(item->part), name_width, item->spec->name, shape_width, shape,
                item->coding ? item->coding : sp_dtype_info(item->from)->name,
                sp_dtype_info(item->to)->name, size_width, item->size,
                item->bytes ? "copied unchanged" : item->rule, item->exponents ? ", smoothed" : "",
                sp_gptq_is_weighed(item->weights) ? ", calibrated" : "",
                item->merged ? ", merged" : "");
    }
    return sp_close_text(stream, text, err);
}
