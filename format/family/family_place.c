/* Finds the source of each canonical tensor in a checkpoint by the aliases of its family
 * (format/family/tensor_alias.h), and takes its rows by the layout of the alias. */
#include "format/family/family_parts.h"

#include "format/base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_tensors(const void *a, const void *b)
{
    const struct sp_source_tensor *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

enum sp_status sp_tensor_match_init(struct sp_tensor_match *m,
                                    const struct sp_source_tensor *tensors, size_t n)
{
    const struct sp_family *family = sp_family_by_type(m->config->family);
    enum sp_status st;

    if (family == NULL) return sp_fail(m->err, SP_E_BUG, "no family \"%s\"", m->config->family);
    m->family = family;
    if (m->config->draft.rows_paired) m->aliases[m->n_aliases++] = sp_aliases_interleaved_heads;
    for (size_t i = 0; i < SP_MAX_ALIASES && family->aliases[i]; i++)
        m->aliases[m->n_aliases++] = family->aliases[i];
    if ((st = sp_new(&m->sorted, n, sizeof *m->sorted, m->err))) return st;
    if ((st = sp_new(&m->used, n, sizeof *m->used, m->err))) return st;
    for (size_t i = 0; i < n; i++)
        m->sorted[i] = &tensors[i];
    m->n = n;
    qsort(m->sorted, n, sizeof *m->sorted, compare_tensors);
    return SP_OK;
}

void sp_tensor_match_set_next_layer(struct sp_tensor_match *m)
{
    m->only_layer = m->family->prediction_block ? m->family->prediction_block : "";
    assert(m->n_aliases < sizeof m->aliases / sizeof m->aliases[0]);
    memmove(m->aliases + 1, m->aliases, m->n_aliases++ * sizeof *m->aliases);
    m->aliases[0] =
        m->family->prediction_names ? m->family->prediction_names : sp_aliases_next_layer;
}

void sp_tensor_match_release(struct sp_tensor_match *m)
{
    free(m->sorted);
    free(m->used);
}

/* True if there is a source of this name. One expert or head stands for all. When names are
 * published instead of looked up, every source exists, so the first alias is taken. */
static bool exists(const struct sp_tensor_match *m, const char *name)
{
    char first[SP_SOURCE_NAME];

    if (m->published) return true;
    if (strstr(name, "%u") == NULL) return sp_tensor_match_has(m, "", name);
    sp_layout_numbered_name(first, sizeof first, name, 0);
    return sp_tensor_match_has(m, "", first);
}

static void set_number(const struct sp_tensor_match *m, char name[SP_SOURCE_NAME])
{
    char *place = m->family->name_layer ? strchr(name, '#') : NULL, rest[SP_SOURCE_NAME];

    if (place == NULL) return;
    snprintf(rest, sizeof rest, "%s", place + 1);
    snprintf(place, SP_SOURCE_NAME - (size_t)(place - name), "%u%s", m->number, rest);
}

/* The alias of a canonical name, and in `name` its source; NULL when there is no alias, and then
 * `name` is the canonical name with the prefix. */
static const struct sp_alias *find_alias(char name[SP_SOURCE_NAME], const struct sp_tensor_match *m,
                                         const char *prefix, const char *canonical)
{
    const struct sp_alias *first = NULL;

    for (size_t i = 0; i < m->n_aliases; i++) {
        for (const struct sp_alias *a = m->aliases[i]; a->canonical; a++) {
            if (!sp_alias_matches(a, canonical)) continue;
            sp_alias_source_name(name, SP_SOURCE_NAME, prefix, a, canonical);
            set_number(m, name);
            if (exists(m, name)) return a;
            if (first == NULL) first = a;
        }
    }
    if (first)
        sp_alias_source_name(name, SP_SOURCE_NAME, prefix, first, canonical);
    else
        snprintf(name, SP_SOURCE_NAME, "%s%s", prefix, canonical);
    set_number(m, name);
    return first;
}

void sp_tensor_match_name(char name[SP_SOURCE_NAME], const struct sp_tensor_match *m,
                          const char *prefix, const char *canonical)
{
    (void)find_alias(name, m, prefix, canonical);
}

static enum sp_status place_unchanged(struct sp_tensor_match *m, struct sp_tensor_spec *spec,
                                      const char *name)
{
    return sp_layout_whole(&(struct sp_alias_source){m, spec, name, NULL, 0});
}

static enum sp_status place_in_layer(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    unsigned layer = (unsigned)strtoul(spec->name + strlen("layers."), NULL, 10);
    const char *canonical = strchr(spec->name + strlen("layers."), '.') + 1;
    char prefix[SP_SOURCE_NAME], name[SP_SOURCE_NAME];
    struct sp_alias_source source = {m, spec, name, &m->config->layers[layer], 0};
    const struct sp_alias *alias = NULL;
    const struct sp_family *f = m->family;
    bool twice = !m->published && (f->old_layers || f->name_layer);
    char begin[40];

    for (unsigned i = !twice; i < 2; i++) {
        if (f->name_layer)
            m->number = f->name_layer(begin, sizeof begin, m->config, layer, canonical, i == 0);
        else
            snprintf(begin, sizeof begin, "%s%u.",
                     i == 0      ? f->old_layers
                     : f->layers ? f->layers
                                 : "layers.",
                     layer);
        snprintf(prefix, sizeof prefix, "%s%s", m->prefix, m->only_layer ? m->only_layer : begin);
        alias = find_alias(name, m, prefix, canonical);
        if (exists(m, name)) break;
    }
    if (alias == NULL || alias->layout == NULL) return sp_layout_whole(&source);
    source.part = alias->part;
    return alias->layout(&source);
}

/* The norms of all taps, one after another. */
static enum sp_status place_tap_norms(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    uint64_t width = m->config->draft.target_hidden;
    char name[SP_SOURCE_NAME], canonical[40];
    const struct sp_alias_source source = {m, spec, name, NULL, 0};
    enum sp_status st = SP_OK;

    for (unsigned i = 0; st == SP_OK && i < m->config->draft.n_taps; i++) {
        snprintf(canonical, sizeof canonical, "fc_norm.%u.weight", i);
        sp_tensor_match_name(name, m, m->prefix, canonical);
        st = sp_tensor_match_take(&source, &width, 1, sp_rows(0, 1, width));
    }
    return st;
}

/* True if this tensor of a draft is outside the prefix of its text model, like the projections of
 * an assistant. */
static bool is_unprefixed(const struct sp_tensor_match *m, const char *name, const char *prefixed)
{
    if (m->config->draft.kind == SP_DRAFT_NONE) return false;
    if (!m->published) return !exists(m, prefixed) && exists(m, name);
    return sp_begins_with_any(name, "pre_projection. post_projection. masked_embedding.");
}

/* The layers of classification heads: of BERT, RoBERTa, ModernBERT, and decoders. */
static const struct sp_alias classifier_layers[] = {
    {"dense.0.*", "bert.pooler.dense.*", NULL, 0},
    {"dense.1.*", "classifier.out_proj.*", NULL, 0},
    {"dense.0.*", "classifier.dense.*", NULL, 0},
    {"dense.1.*", "classifier.*", NULL, 0},
    {"dense.0.*", "model.classifier.dense.*", NULL, 0}, /* of GGUF files */
    {"dense.1.*", "model.classifier.out_proj.*", NULL, 0},
    {"dense.0.norm.*", "model.head.norm.*", NULL, 0},
    {"dense.0.*", "model.head.dense.*", NULL, 0},
    {"dense.0.norm.*", "head.norm.*", NULL, 0},
    {"dense.0.*", "head.dense.*", NULL, 0},
    {"dense.0.*", "score.*", NULL, 0},
    {0},
};

/* A tensor of a dense layer of the pooling, "dense.0.weight". */
static enum sp_status place_dense(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    int n = (int)(strrchr(spec->name, '.') - spec->name);
    char name[SP_SOURCE_NAME];

    for (const struct sp_alias *a = classifier_layers;
         m->config->pooling.classifies && a->canonical; a++) {
        if (!sp_alias_matches(a, spec->name)) continue;
        sp_alias_source_name(name, SP_SOURCE_NAME, "", a, spec->name);
        if (exists(m, name)) return place_unchanged(m, spec, name);
    }
    snprintf(name, sizeof name, "%.*s.linear%s", n, spec->name, spec->name + n);
    return place_unchanged(m, spec, name);
}

enum sp_status sp_tensor_match_place(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    char name[SP_SOURCE_NAME];
    const struct sp_alias *alias;

    if (strncmp(spec->name, SP_DENSE_PREFIX, strlen(SP_DENSE_PREFIX)) == 0)
        return place_dense(m, spec);
    if (strcmp(spec->name, SP_TAP_NORMS) == 0) return place_tap_norms(m, spec);
    if (strncmp(spec->name, "layers.", strlen("layers.")) == 0) return place_in_layer(m, spec);
    if (strcmp(spec->name, "lm_head.weight") == 0 ||
        (spec->role == SP_ROLE_EMBEDDING && m->embedding_is_head))
        return place_unchanged(m, spec, m->head_name ? m->head_name : spec->name);
    if (strncmp(spec->name, "lm_head.", strlen("lm_head.")) == 0) {
        (void)find_alias(name, m, "", spec->name);
        return place_unchanged(m, spec, name);
    }
    if ((alias = find_alias(name, m, m->prefix, spec->name)) != NULL) {
        const struct sp_alias_source source = {m, spec, name, NULL, 0};
        return (alias->layout ? alias->layout : sp_layout_whole)(&source);
    }
    if (is_unprefixed(m, spec->name, name)) return place_unchanged(m, spec, spec->name);
    if (strstr(spec->name, "_codebook") && !exists(m, name))
        snprintf(name, sizeof name, "%s%s.weight", m->prefix, spec->name);
    return place_unchanged(m, spec, name);
}
