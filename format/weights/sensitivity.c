#include "format/weights/sensitivity.h"

#include "format/base/mem.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* More than any measurement gives; keeps sums of products finite. */
static const double MOST = 1e12;

static int compare(const void *a, const void *b)
{
    return sp_tensor_group_compare(((const struct sp_sensitivity *)a)->group,
                                   ((const struct sp_sensitivity *)b)->group);
}

static enum sp_status read_entry(struct sp_sensitivity *out, const struct sp_json *entry,
                                 struct sp_err *err)
{
    enum sp_status st;
    const char *kind = "";
    int64_t layer = SP_NO_LAYER;

    *out = (struct sp_sensitivity){.kl_per_error = NAN};
    if ((st = sp_json_get_string(entry, "group", &kind, err))) return st;
    if ((st = sp_json_get_i64(entry, "layer", 0, INT_MAX, &layer, err))) return st;
    if ((st = sp_json_get_double(entry, "kl_per_error", 0, MOST, &out->kl_per_error, err)))
        return st;
    if (!sp_group_kind_find(&out->group.kind, kind) || out->group.kind == SP_GROUP_OTHER)
        return sp_fail(err, SP_E_INPUT, "group is \"%s\", expected a group of matrices", kind);
    if (isnan(out->kl_per_error))
        return sp_fail(err, SP_E_INPUT, "kl_per_error of %s is missing", kind);
    out->group.layer = (int)layer;
    return SP_OK;
}

enum sp_status sp_sensitivities_read(struct sp_sensitivities *out, const struct sp_json *record,
                                     struct sp_err *err)
{
    enum sp_status st = SP_OK;
    const struct sp_json *list = sp_json_get(record, "sensitivity");
    struct sp_sensitivities made = {.n = sp_json_len(list)};

    *out = (struct sp_sensitivities){0};
    if (list == NULL) return SP_OK;
    if (sp_json_kind(list) != SP_JSON_ARRAY)
        return sp_fail(err, SP_E_INPUT, "sensitivity is not an array");
    if ((st = sp_grow(&made.entries, &made.cap, made.n, sizeof *made.entries, err))) goto done;
    for (size_t i = 0; i < made.n && !st; i++)
        if ((st = read_entry(&made.entries[i], sp_json_at(list, i), err)))
            sp_context(err, "sensitivity[%zu]", i);
    if (st) goto done;
    if (made.n) qsort(made.entries, made.n, sizeof *made.entries, compare);
    for (size_t i = 1; i < made.n && !st; i++) {
        if (compare(&made.entries[i - 1], &made.entries[i]) != 0) continue;
        st = sp_fail(err, SP_E_INPUT, "sensitivity: group %s of layer %d occurs twice",
                     sp_group_kind_name(made.entries[i].group.kind), made.entries[i].group.layer);
    }
    if (st) goto done;
    *out = made;
    made = (struct sp_sensitivities){0};
done:
    sp_sensitivities_release(&made);
    return st;
}

void sp_sensitivities_print(struct sp_json_out *out, const struct sp_sensitivities *sensitivities)
{
    sp_json_out_raw(out, "\"sensitivity\":[");
    for (size_t i = 0; i < sensitivities->n; i++) {
        const struct sp_sensitivity *s = &sensitivities->entries[i];
        sp_json_out_print(out, "%s{\"group\":\"%s\",", i ? "," : "",
                          sp_group_kind_name(s->group.kind));
        if (s->group.layer != SP_NO_LAYER) sp_json_out_print(out, "\"layer\":%d,", s->group.layer);
        sp_json_out_print(out, "\"kl_per_error\":%.6g}", s->kl_per_error);
    }
    sp_json_out_raw(out, "]");
}

enum sp_status sp_sensitivities_add(struct sp_sensitivities *sensitivities,
                                    struct sp_tensor_group group, double kl_per_error,
                                    struct sp_err *err)
{
    const struct sp_sensitivity new = {group, kl_per_error};
    enum sp_status st;
    size_t i;

    if (!(kl_per_error >= 0 && kl_per_error <= MOST)) {
        return sp_fail(err, SP_E_INPUT, "the sensitivity of group %s of layer %d is not finite",
                       sp_group_kind_name(group.kind), group.layer);
    }
    st = sp_grow(&sensitivities->entries, &sensitivities->cap, sensitivities->n + 1,
                 sizeof *sensitivities->entries, err);
    if (st) return st;
    for (i = sensitivities->n++; i > 0 && compare(&new, &sensitivities->entries[i - 1]) < 0; i--)
        sensitivities->entries[i] = sensitivities->entries[i - 1];
    sensitivities->entries[i] = new;
    return SP_OK;
}

void sp_sensitivities_release(struct sp_sensitivities *sensitivities)
{
    free(sensitivities->entries);
    *sensitivities = (struct sp_sensitivities){0};
}

const struct sp_sensitivity *sp_sensitivities_find(const struct sp_sensitivities *sensitivities,
                                                   struct sp_tensor_group group)
{
    struct sp_sensitivity key = {.group = group};

    if (sensitivities->n == 0) return NULL;
    return bsearch(&key, sensitivities->entries, sensitivities->n, sizeof key, compare);
}
