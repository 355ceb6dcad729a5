/* The tensors of an exported checkpoint. The code that finds canonical tensors in a checkpoint is
 * used with names that are assumed to exist, so the row spans show where each row goes. Of several
 * names that can be read, the prefixes chosen here and the first of several aliases are written. */
#include "format/family/family.h"

#include "format/dtype.h"
#include "format/family/family_parts.h"
#include "format/base/affix.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model that mlx converted has other convolutions and norms, which cannot be exported. */
static enum sp_status refuse_mlx(const struct sp_config *config, struct sp_err *err)
{
    if (!config->delta.converted) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "layers.%u.linear_attn.conv1d.weight is stored as mlx converts it, which no "
                   "checkpoint of transformers is",
                   sp_config_first_layer(config, SP_MIXER_DELTA_NET));
}

/* The prefix of a built-in prediction head: mtp., or that of a layer after the last one. */
static void name_prediction_head(struct sp_tensor_match *m, char prefix[SP_SOURCE_NAME],
                                 const struct sp_config *target)
{
    const struct sp_family *family = sp_family_by_type(target->family);

    snprintf(prefix, SP_SOURCE_NAME, "%s", SP_MTP_PREFIX);
    if (family->prediction_layer)
        snprintf(prefix, SP_SOURCE_NAME, "model.layers.%u.", target->n_layers);
    if (family->prediction_path)
        snprintf(prefix, SP_SOURCE_NAME, "model.%s", family->prediction_path);
    if (family->prediction_layer || family->prediction_names) sp_tensor_match_set_next_layer(m);
}

static void choose_names(struct sp_tensor_match *m, char prefix[SP_SOURCE_NAME],
                         const struct sp_config *target)
{
    const struct sp_draft_config *d = &m->config->draft;
    bool bare = d->kind != SP_DRAFT_NONE && d->kind != SP_DRAFT_ASSISTANT;
    struct sp_family family;

    sp_family_resolve(&family, m->family);
    m->prefix = prefix;
    m->head_name = family.head ? family.head : "lm_head.weight";
    snprintf(prefix, SP_SOURCE_NAME, "%s", bare ? "" : family.prefix);
    if (d->midlayer) m->only_layer = "midlayer.";
    if (d->kind == SP_DRAFT_MTP) name_prediction_head(m, prefix, target);
}

/* Sorts the tensors by name and keeps each of them once. */
static enum sp_status sort_unique(struct sp_published_list *list, struct sp_err *err)
{
    size_t n = 0;

    qsort(list->all, list->n, sizeof *list->all, sp_compare_names);
    for (size_t i = 0; i < list->n; i++) {
        const struct sp_source_tensor *t = &list->all[i], *last = n ? &list->all[n - 1] : NULL;
        if (last == NULL || strcmp(last->name, t->name) != 0)
            list->all[n++] = *t;
        else if (last->rank != t->rank || memcmp(last->shape, t->shape, sizeof t->shape) != 0)
            return sp_fail(err, SP_E_BUG, "tensor %s would have two shapes", t->name);
    }
    list->n = n;
    return SP_OK;
}

/* Checks that the row spans fill every tensor. */
static enum sp_status check_filled(const struct sp_specs *specs,
                                   const struct sp_published_list *list, struct sp_err *err)
{
    uint64_t *filled = NULL;
    enum sp_status st;

    if ((st = sp_new(&filled, list->n, sizeof *filled, err))) return st;
    for (size_t i = 0; i < specs->n_spans; i++) {
        const struct sp_row_span *p = &specs->spans[i];
        const struct sp_source_tensor *t =
            bsearch(&p->source, list->all, list->n, sizeof *list->all, sp_compare_names);
        filled[t - list->all] += p->n_rows * p->n_cols;
    }
    for (size_t i = 0; st == SP_OK && i < list->n; i++) {
        if (filled[i] == sp_n_elements(list->all[i].shape, list->all[i].rank)) continue;
        st = sp_fail(err, SP_E_BUG, "tensor %s would not be filled", list->all[i].name);
    }
    free(filled);
    return st;
}

static enum sp_status place_all(struct sp_tensor_match *m)
{
    enum sp_status st;

    if ((st = sp_specs_of_config(m->specs, m->config, m->err))) return st;
    for (size_t i = 0; i < m->specs->n_specs; i++)
        if ((st = sp_tensor_match_place(m, &m->specs->specs[i]))) return st;
    if ((st = sort_unique(m->published, m->err))) return st;
    return check_filled(m->specs, m->published, m->err);
}

enum sp_status sp_specs_publish(struct sp_specs *out, struct sp_source_tensor **tensors, size_t *n,
                                struct sp_config *config, const struct sp_config *target,
                                struct sp_err *err)
{
    struct sp_specs specs = {0};
    struct sp_published_list list = {0};
    struct sp_tensor_match m = {.specs = &specs, .config = config, .published = &list, .err = err};
    char prefix[SP_SOURCE_NAME];
    enum sp_status st;

    if ((st = refuse_mlx(config, err)) || (st = sp_tensor_match_init(&m, NULL, 0))) goto done;
    choose_names(&m, prefix, target);
    if ((st = place_all(&m))) goto done;
    *out = specs;
    *tensors = list.all;
    *n = list.n;
    memset(&specs, 0, sizeof specs);
    list.all = NULL;
done:
    free(list.all);
    sp_specs_release(&specs);
    sp_tensor_match_release(&m);
    return st;
}
