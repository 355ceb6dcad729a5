#include "convert/create/plan.h"

#include "format/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct group {
    enum sp_part part;
    struct sp_tensor_group group;
    uint64_t types; /* bit 1 << dtype for each type of its tensors */
    uint64_t n_weights, size;
    double error; /* relative squared error of its weights, by their types; their mean */
};

static int compare(const void *a, const void *b)
{
    const struct group *g = a, *h = b;

    if (g->part != h->part) return g->part < h->part ? -1 : 1;
    return sp_tensor_group_compare(g->group, h->group);
}

/* Adds the tensors of `from`, a part of the same group. */
static void add(struct group *to, const struct group *from)
{
    double n = (double)to->n_weights, m = (double)from->n_weights;

    to->error = (to->error * n + from->error * m) / (n + m);
    to->types |= from->types;
    to->n_weights += from->n_weights;
    to->size += from->size;
}

/* *out = the groups by part, kind and layer, *n_groups of them, owned by the caller. */
static enum sp_status collect(struct group **out, size_t *n_groups, const struct sp_plan *plan,
                              struct sp_err *err)
{
    enum sp_status st;
    struct group *groups = NULL;
    size_t n = 0;

    if ((st = sp_new(&groups, plan->n_items, sizeof *groups, err))) return st;
    for (size_t i = 0; i < plan->n_items; i++) {
        const struct sp_plan_item *item = &plan->items[i];
        groups[i] = (struct group){
            .part = item->part,
            .group = sp_tensor_group_of(item->spec->name, item->spec->role),
            .types = (uint64_t)1 << item->to,
            .n_weights = sp_spec_elements(item->spec),
            .size = item->size,
        };
        /* Rounding adds no error to numbers that are copied, or that a float type holds. */
        if (item->bytes == NULL && item->from != item->to)
            groups[i].error = sp_policy_error(item->to);
    }
    if (plan->n_items) qsort(groups, plan->n_items, sizeof *groups, compare);
    for (size_t i = 0; i < plan->n_items; i++)
        if (n > 0 && compare(&groups[n - 1], &groups[i]) == 0)
            add(&groups[n - 1], &groups[i]);
        else
            groups[n++] = groups[i];
    *out = groups;
    *n_groups = n;
    return SP_OK;
}

/* ---- prediction ---- */

/* NAN if the group was not measured; a group whose weights are not rounded costs nothing. */
static double predict(const struct sp_sensitivities *sensitivities, const struct group *g)
{
    const struct sp_sensitivity *s = NULL;

    if (g->error == 0) return 0;
    if (g->part == SP_PART_TARGET) s = sp_sensitivities_find(sensitivities, g->group);
    return s ? s->kl_per_error * g->error : (double)NAN;
}

enum sp_status sp_plan_groups_predict(double *kl, const struct sp_plan *plan,
                                      const struct sp_sensitivities *sensitivities,
                                      struct sp_err *err)
{
    struct group *groups = NULL;
    size_t n;
    enum sp_status st = collect(&groups, &n, plan, err);

    if (st) return st;
    *kl = 0;
    for (size_t i = 0; i < n; i++)
        if (groups[i].part == SP_PART_TARGET) *kl += predict(sensitivities, &groups[i]);
    free(groups);
    return SP_OK;
}

/* ---- the table ---- */

static bool continues(const struct group *g, const struct group *next)
{
    return next->part == g->part && next->group.kind == g->group.kind &&
           g->group.layer != SP_NO_LAYER && next->group.layer == g->group.layer + 1 &&
           next->types == g->types && next->n_weights == g->n_weights && next->size == g->size;
}

static void print_types(FILE *stream, uint64_t types)
{
    const char *before = "  ";

    for (int t = 1; t < SP_N_PACKED_DTYPES; t++) {
        if (!(types >> t & 1)) continue;
        fprintf(stream, "%s%s", before, sp_dtype_info((enum sp_dtype)t)->name);
        before = ", ";
    }
}

/* One line: `g` stands for `layers`, and its sizes are those of all of them together. */
static void print_line(FILE *stream, const struct group *g, const char *name, const char *layers,
                       const double *kl)
{
    fprintf(stream, "%-6s  %-12s  %-6s  %11" PRIu64 "  %5.2f", sp_part_name(g->part), name, layers,
            g->size, 8 * (double)g->size / (double)g->n_weights);
    if (kl && isnan(*kl))
        fprintf(stream, "  %9s", g->part == SP_PART_TARGET ? "unknown" : "-");
    else if (kl)
        fprintf(stream, "  %9.6f", *kl);
    print_types(stream, g->types);
}

static void print_part(FILE *stream, const struct group *groups, size_t n,
                       const struct sp_sensitivities *sensitivities)
{
    struct group all = {.part = groups->part};
    double kl_of_all = 0;
    bool has_kl = sensitivities->n > 0;

    for (size_t i = 0, end; i < n; i = end) {
        struct group run = groups[i];
        char layers[32] = "-";
        double kl = predict(sensitivities, &run);
        for (end = i + 1; end < n && continues(&groups[end - 1], &groups[end]); end++) {
            add(&run, &groups[end]);
            kl += predict(sensitivities, &groups[end]);
        }
        if (run.group.layer != SP_NO_LAYER && end == i + 1)
            snprintf(layers, sizeof layers, "%d", run.group.layer);
        else if (run.group.layer != SP_NO_LAYER)
            snprintf(layers, sizeof layers, "%d-%d", run.group.layer, groups[end - 1].group.layer);
        print_line(stream, &run, sp_group_kind_name(run.group.kind), layers, has_kl ? &kl : NULL);
        fputc('\n', stream);
        add(&all, &run);
        kl_of_all += kl;
    }
    print_line(stream, &all, "all", "", has_kl ? &kl_of_all : NULL);
}

enum sp_status sp_plan_groups_print(char **text, const struct sp_plan *plan,
                                    const struct sp_sensitivities *sensitivities,
                                    struct sp_err *err)
{
    enum sp_status st;
    struct group *groups = NULL;
    size_t size, n;
    FILE *stream;

    if ((st = collect(&groups, &n, plan, err))) return st;
    if ((stream = open_memstream(text, &size)) == NULL) {
        free(groups);
        return sp_fail(err, SP_E_NOMEM, "no memory for the table of groups");
    }
    fprintf(stream, "%-6s  %-12s  %-6s  %11s  %5s%s  types", "part", "group", "layers", "bytes",
            "bits", sensitivities->n ? "         KL" : "");
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && groups[end].part == groups[i].part;)
            end++;
        fputc('\n', stream);
        print_part(stream, groups + i, end - i, sensitivities);
    }
    free(groups);
    return sp_close_text(stream, text, err);
}
