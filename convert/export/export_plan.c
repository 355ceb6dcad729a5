#include "convert/export/export_plan.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "quantize/policy.h"

#include <stdlib.h>
#include <string.h>

uint64_t sp_export_elements(const struct sp_export_item *item)
{
    return sp_n_elements(item->tensor.shape, item->tensor.rank);
}

uint64_t sp_export_size(const struct sp_export_item *item)
{
    return sp_export_elements(item) * sp_dtype_info(item->tensor.dtype)->bits / 8;
}

/* ---- making ---- */

static enum sp_status add_item(struct sp_export_plan *plan, const struct sp_source_tensor *t,
                               enum sp_part part, struct sp_err *err)
{
    struct sp_export_item *item;
    enum sp_status st =
        sp_grow(&plan->items, &plan->cap_items, plan->n_items + 1, sizeof *plan->items, err);

    if (st) return st;
    item = &plan->items[plan->n_items++];
    *item = (struct sp_export_item){.part = part};
    item->tensor.name = t->name;
    item->tensor.rank = t->rank;
    memcpy(item->tensor.shape, t->shape, sizeof t->shape);
    return SP_OK;
}

static size_t find_item(const struct sp_export_plan *plan, size_t first, const char *name)
{
    const struct sp_export_item *found =
        bsearch(&name, plan->items + first, plan->n_items - first, sizeof *found, sp_compare_names);

    return (size_t)(found - plan->items);
}

static enum sp_status add_cut(struct sp_export_plan *plan, struct sp_export_cut cut,
                              struct sp_err *err)
{
    enum sp_status st =
        sp_grow(&plan->cuts, &plan->cap_cuts, plan->n_cuts + 1, sizeof *plan->cuts, err);

    if (st == SP_OK) plan->cuts[plan->n_cuts++] = cut;
    return st;
}

/* The items from `first` on are the source's, sorted. */
static enum sp_status add_cuts(struct sp_export_plan *plan, size_t first,
                               const struct sp_source *source, const struct sp_specs *published,
                               struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < published->n_specs; i++) {
        const struct sp_tensor_spec *spec = &published->specs[i];
        struct sp_export_cut cut = {.source = source,
                                    .spec = sp_specs_find(&source->specs, spec->name)};
        if (cut.spec == NULL) return sp_fail(err, SP_E_BUG, "no tensor %s", spec->name);
        for (size_t k = 0; k < spec->n_spans; k++) {
            cut.span = published->spans[spec->first_span + k];
            cut.item = find_item(plan, first, cut.span.source);
            if ((st = add_cut(plan, cut, err))) return st;
            cut.first += cut.span.n_rows;
        }
    }
    return SP_OK;
}

/* d2t lists the target's token for each row of a draft's output matrix; checkpoints store its
 * inverse, t2d, next to it. */
static enum sp_status add_marks(struct sp_export_plan *plan, const struct sp_source *source,
                                struct sp_err *err)
{
    const struct sp_source_tensor t = {.name = "t2d", .rank = 1, .shape = {source->config.n_vocab}};
    struct sp_export_cut cut = {.source = source, .item = plan->n_items};
    enum sp_status st;

    if (!source->config.draft.maps_tokens) return SP_OK;
    if ((st = add_item(plan, &t, source->part, err))) return st;
    plan->items[cut.item].marks_tokens = true;
    cut.spec = sp_specs_find(&source->specs, "d2t");
    cut.span = (struct sp_row_span){.step = 1, .n_rows = 1, .n_cols = cut.spec->shape[0]};
    return add_cut(plan, cut, err);
}

static int compare_cuts(const void *a, const void *b)
{
    const struct sp_export_cut *x = a, *y = b;

    if (x->item != y->item) return x->item < y->item ? -1 : 1;
    return (x->span.first_row > y->span.first_row) - (x->span.first_row < y->span.first_row);
}

/* Gives the items from `first` on their cuts, those from `first_cut` on. */
static void hand_out_cuts(struct sp_export_plan *plan, size_t first_cut)
{
    qsort(plan->cuts + first_cut, plan->n_cuts - first_cut, sizeof *plan->cuts, compare_cuts);
    for (size_t i = first_cut; i < plan->n_cuts; i++) {
        struct sp_export_item *item = &plan->items[plan->cuts[i].item];
        if (item->n_cuts++ == 0) item->first_cut = i;
    }
}

/* How a cut's tensor is stored, with the type that its numbers would be packed in if it is no
 * packed file's. *coded: they are quantized there. */
static enum sp_status find_stored(struct sp_stored *out, bool *coded, const struct sp_export_cut *c,
                                  struct sp_err *err)
{
    const struct sp_policy_request as_stored = {0};
    struct sp_policy_tensor tensor = {.spec = c->spec};
    struct sp_policy_choice choice;
    enum sp_status st;

    if ((st = sp_source_stored(out, c->source, c->spec, err))) return st;
    tensor.stored = out->dtype;
    if ((st = sp_policy_choose(&choice, &as_stored, &tensor, err))) return st;
    out->dtype = choice.dtype;
    *coded = out->coding != NULL || !sp_dtype_is_float(out->dtype);
    return SP_OK;
}

/* Token ids are integers; f32 is the common type, which holds all of them. */
static enum sp_status choose_type(const struct sp_export_plan *plan, struct sp_export_item *item,
                                  enum sp_dtype type, struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = item->first_cut; i < item->first_cut + item->n_cuts; i++) {
        const struct sp_export_cut *c = &plan->cuts[i];
        struct sp_stored stored;
        enum sp_dtype to;
        bool coded;
        if ((st = find_stored(&stored, &coded, c, err))) return st;
        to = c->spec->role == SP_ROLE_INDEX ? SP_I64 : coded ? type : stored.dtype;
        if (coded && to != SP_F32 && to != stored.dtype) item->rounded = true;
        item->from =
            i == item->first_cut || item->from == stored.dtype ? stored.dtype : SP_DTYPE_NONE;
        item->tensor.dtype = i == item->first_cut || item->tensor.dtype == to ? to : SP_F32;
    }
    if (item->tensor.dtype == SP_F32) item->rounded = false;
    if (item->marks_tokens) item->tensor.dtype = SP_BOOL;
    return SP_OK;
}

enum sp_status sp_export_plan_add(struct sp_export_plan *plan, struct sp_source *source,
                                  const struct sp_source *target, enum sp_dtype type,
                                  struct sp_err *err)
{
    struct sp_specs *published = &plan->published[plan->n_published];
    struct sp_source_tensor *tensors = NULL;
    size_t first = plan->n_items, first_cut = plan->n_cuts, n = 0;
    enum sp_status st = sp_specs_publish(published, &tensors, &n, &source->config,
                                         target ? &target->config : NULL, err);

    if (st) {
        sp_context(err, "%s: %s", source->path, sp_part_name(source->part));
        return st;
    }
    plan->n_published++;
    for (size_t i = 0; i < n; i++)
        if ((st = add_item(plan, &tensors[i], source->part, err))) goto done;
    if ((st = add_cuts(plan, first, source, published, err))) goto done;
    if ((st = add_marks(plan, source, err))) goto done;
    hand_out_cuts(plan, first_cut);
    for (size_t i = first; st == SP_OK && i < plan->n_items; i++)
        st = choose_type(plan, &plan->items[i], type, err);
done:
    free(tensors);
    return st;
}

void sp_export_plan_release(struct sp_export_plan *plan)
{
    for (size_t i = 0; i < plan->n_published; i++)
        sp_specs_release(&plan->published[i]);
    free(plan->items);
    free(plan->cuts);
    *plan = (struct sp_export_plan){0};
}
