/* The canonical tensors of a model, from its config alone: the rows of the tables in
 * format/family/family_tensors.h that apply, with their dimensions as numbers. */
#include "format/family/family.h"

#include "format/family/family_parts.h"
#include "format/family/family_tensors.h"
#include "format/base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sp_role_name(enum sp_role role)
{
    static const char *const names[] = {
        [SP_ROLE_NORM] = "norm",
        [SP_ROLE_BIAS] = "bias",
        [SP_ROLE_SMALL] = "small",
        [SP_ROLE_EMBEDDING] = "embedding",
        [SP_ROLE_HEAD] = "head",
        [SP_ROLE_ATTENTION] = "attention",
        [SP_ROLE_MLP] = "mlp",
        [SP_ROLE_ROUTER] = "router",
        [SP_ROLE_FEATURE] = "feature",
        [SP_ROLE_GATE] = "gate",
        [SP_ROLE_INDEX] = "index",
        [SP_ROLE_CODEBOOK] = "codebook",
        [SP_ROLE_KEY_VALUE] = "key or value",
    };

    assert((size_t)role < sizeof names / sizeof names[0]);
    return names[role];
}

bool sp_role_is_matrix(enum sp_role role)
{
    switch (role) {
    case SP_ROLE_NORM:
    case SP_ROLE_BIAS:
    case SP_ROLE_SMALL:
    case SP_ROLE_INDEX:
        return false;
    case SP_ROLE_EMBEDDING:
    case SP_ROLE_HEAD:
    case SP_ROLE_ATTENTION:
    case SP_ROLE_KEY_VALUE:
    case SP_ROLE_MLP:
    case SP_ROLE_ROUTER:
    case SP_ROLE_GATE:
    case SP_ROLE_FEATURE:
    case SP_ROLE_CODEBOOK:
        break;
    }
    return true;
}

/* True if the norms of queries and keys have weights of their own for every head. */
static bool has_weights_per_head(const struct sp_config *c)
{
    return c->qk_norm == SP_QK_WHOLE || c->qk_norm == SP_QK_OWN;
}

static uint64_t dim_of(enum sp_dim dim, const struct sp_config *c, const struct sp_layer_config *l)
{
    assert(dim != SP_DIM_END);
    switch (dim) {
    case SP_DIM_HIDDEN:
        return c->n_hidden;
    case SP_DIM_INPUT:
        return (l->reads_pair ? 2 : 1) * (uint64_t)c->n_hidden;
    case SP_DIM_VOCAB:
        return c->n_vocab;
    case SP_DIM_HEAD_ROWS:
        return c->draft.n_head_rows ? c->draft.n_head_rows : c->n_vocab;
    case SP_DIM_Q:
        if (c->latent.kv_rank == 0) return (uint64_t)l->n_heads * l->head_dim;
        return l->n_heads * ((uint64_t)c->latent.nope_dim + c->latent.rope_dim);
    case SP_DIM_O:
        return (uint64_t)l->n_heads * (c->latent.kv_rank ? c->latent.value_dim : l->head_dim);
    case SP_DIM_Q_RANK:
        return c->latent.q_rank;
    case SP_DIM_KV_RANK:
        return c->latent.kv_rank;
    case SP_DIM_KV_A:
        return (uint64_t)c->latent.kv_rank + c->latent.rope_dim;
    case SP_DIM_NOPE:
        return c->latent.nope_dim;
    case SP_DIM_VALUE:
        return c->latent.value_dim;
    case SP_DIM_KV:
        return (uint64_t)l->n_kv_heads * l->head_dim;
    case SP_DIM_Q_NORM:
        return (uint64_t)l->head_dim * (has_weights_per_head(c) ? l->n_heads : 1);
    case SP_DIM_K_NORM:
        return (uint64_t)l->head_dim * (has_weights_per_head(c) ? l->n_kv_heads : 1);
    case SP_DIM_HEADS:
        return l->n_heads;
    case SP_DIM_FFN:
        return l->n_ffn;
    case SP_DIM_EXPERTS:
        return l->n_experts;
    case SP_DIM_FEATURES:
        if (c->draft.kind == SP_DRAFT_MTP) return 2 * (uint64_t)c->n_hidden;
        if (c->draft.kind == SP_DRAFT_ASSISTANT) return 2 * (uint64_t)c->draft.target_hidden;
        return (uint64_t)c->draft.n_taps * c->draft.target_hidden;
    case SP_DIM_SHARED:
        return l->n_shared_ffn;
    case SP_DIM_ONE:
        return 1;
    case SP_DIM_CHANNELS:
        return 2 * (uint64_t)c->delta.n_key_heads * c->delta.key_dim +
               (uint64_t)c->delta.n_value_heads * c->delta.value_dim;
    case SP_DIM_DELTA_VALUES:
        return (uint64_t)c->delta.n_value_heads * c->delta.value_dim;
    case SP_DIM_DELTA_HEADS:
        return c->delta.n_value_heads;
    case SP_DIM_DELTA_VALUE:
        return c->delta.value_dim;
    case SP_DIM_CONV_OUTER:
        return c->delta.converted ? c->delta.kernel : 1;
    case SP_DIM_CONV_INNER:
        return c->delta.converted ? 1 : c->delta.kernel;
    case SP_DIM_SHORT_CONV_IN:
        return 3 * (uint64_t)c->n_hidden;
    case SP_DIM_SHORT_CONV_TAPS:
        return c->short_conv.kernel;
    case SP_DIM_MAMBA_VALUES:
        return (uint64_t)c->mamba.n_heads * c->mamba.head_dim;
    case SP_DIM_MAMBA_CHANNELS:
        return (uint64_t)c->mamba.n_heads * c->mamba.head_dim +
               2 * (uint64_t)c->mamba.n_groups * c->mamba.state_dim;
    case SP_DIM_MAMBA_HEADS:
        return c->mamba.n_heads;
    case SP_DIM_MAMBA_TAPS:
        return c->mamba.kernel;
    case SP_DIM_PER_LAYER:
        return c->n_per_layer;
    case SP_DIM_ALL_PER_LAYER:
        return (uint64_t)c->n_layers * c->n_per_layer;
    case SP_DIM_PER_LAYER_VOCAB:
        return c->n_per_layer_vocab;
    case SP_DIM_TWO:
        return 2;
    case SP_DIM_CONV_TAPS:
        return c->n_conv_taps;
    case SP_DIM_CONV_DYNAMIC:
        return 2 * (uint64_t)c->n_conv_taps * (c->n_hidden / c->conv_group);
    case SP_DIM_SELECTOR:
        return c->draft.selector_rank;
    case SP_DIM_MARKOV:
        return c->draft.dspark.rank;
    case SP_DIM_MARKOV_SEEN:
        return (uint64_t)c->n_hidden + c->draft.dspark.rank;
    case SP_DIM_MARKOV_GATES:
        return 3 * (uint64_t)c->draft.dspark.rank;
    case SP_DIM_MARKOV_JOINT:
        return 2 * (uint64_t)c->draft.dspark.rank + c->n_hidden;
    case SP_DIM_CONFIDENCE:
        return (uint64_t)c->n_hidden +
               (c->draft.dspark.confidence_markov ? c->draft.dspark.rank : 0);
    case SP_DIM_TARGET:
        return c->draft.target_hidden;
    case SP_DIM_CLUSTERS:
        return c->draft.n_clusters;
    case SP_DIM_POSITIONS:
        return c->n_positions_table;
    case SP_DIM_TOKEN_TYPES:
        return c->n_token_types;
    case SP_DIM_END:
        break;
    }
    return 0;
}

enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs, const char *text,
                                   struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st;

    st = sp_grow(&specs->strings, &specs->cap_strings, specs->n_strings + 1, sizeof *specs->strings,
                 err);
    if (st || (st = sp_copy_text(&copy, text, strlen(text), err))) return st;
    specs->strings[specs->n_strings++] = copy;
    *out = copy;
    return SP_OK;
}

static enum sp_status add_spec(struct sp_specs *specs, const char *name, struct sp_tensor_spec spec,
                               struct sp_err *err)
{
    enum sp_status st;

    if ((st = sp_specs_add_string(&spec.name, specs, name, err))) return st;
    st = sp_grow(&specs->specs, &specs->cap_specs, specs->n_specs + 1, sizeof *specs->specs, err);
    if (st) return st;
    specs->specs[specs->n_specs++] = spec;
    return SP_OK;
}

/* Adds a tensor of a layer, or outside of the layers if layer < 0. */
static enum sp_status add_row(struct sp_specs *specs, const struct sp_tensor_row *row,
                              const struct sp_config *c, int layer, struct sp_err *err)
{
    const struct sp_layer_config *l = layer < 0 ? NULL : &c->layers[layer];
    struct sp_tensor_spec spec = {.role = row->role};
    char name[SP_SPEC_NAME];

    if (row->wanted && !row->wanted(c, l)) return SP_OK;
    if (layer < 0)
        snprintf(name, sizeof name, "%s", row->name);
    else
        snprintf(name, sizeof name, "layers.%d.%s", layer, row->name);
    while (spec.rank < 3 && row->dims[spec.rank] != SP_DIM_END) {
        spec.shape[spec.rank] = dim_of(row->dims[spec.rank], c, l);
        spec.rank++;
    }
    return add_spec(specs, name, spec, err);
}

/* Adds the matrix and the bias of a dense layer of the pooling. Every embedding passes through it,
 * as all inputs of a draft pass through its feature projection. */
static enum sp_status add_dense(struct sp_specs *specs, const struct sp_dense_config *d, unsigned i,
                                struct sp_err *err)
{
    char name[SP_SPEC_NAME];
    enum sp_status st;

    snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.weight", i);
    st = add_spec(
        specs, name,
        (struct sp_tensor_spec){.role = SP_ROLE_FEATURE, .rank = 2, .shape = {d->n_out, d->n_in}},
        err);
    if (!st && d->norm) {
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.norm.weight", i);
        st = add_spec(specs, name,
                      (struct sp_tensor_spec){.role = SP_ROLE_NORM, .rank = 1, .shape = {d->n_out}},
                      err);
    }
    if (st || !d->bias) return st;
    snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.bias", i);
    return add_spec(specs, name,
                    (struct sp_tensor_spec){.role = SP_ROLE_BIAS, .rank = 1, .shape = {d->n_out}},
                    err);
}

static int compare_specs(const void *a, const void *b)
{
    const struct sp_tensor_spec *x = a, *y = b;

    return strcmp(x->name, y->name);
}

enum sp_status sp_specs_of_config(struct sp_specs *out, const struct sp_config *config,
                                  struct sp_err *err)
{
    struct sp_specs specs = {0};
    enum sp_status st = SP_OK;

    for (const struct sp_tensor_row *row = sp_model_tensors; row->name; row++)
        if ((st = add_row(&specs, row, config, -1, err))) goto done;
    for (unsigned l = 0; l < config->n_layers; l++) {
        for (const struct sp_tensor_row *row = sp_layer_tensors; row->name; row++)
            if ((st = add_row(&specs, row, config, (int)l, err))) goto done;
    }
    for (unsigned i = 0; i < config->pooling.n_dense; i++)
        if ((st = add_dense(&specs, &config->pooling.dense[i], i, err))) goto done;
    qsort(specs.specs, specs.n_specs, sizeof *specs.specs, compare_specs);
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    return st;
}

const struct sp_tensor_spec *sp_specs_find(const struct sp_specs *specs, const char *name)
{
    struct sp_tensor_spec key = {.name = name};

    if (specs->n_specs == 0) return NULL;
    return bsearch(&key, specs->specs, specs->n_specs, sizeof key, compare_specs);
}

static void drop(struct sp_specs *specs, const char *name)
{
    const struct sp_tensor_spec *spec = sp_specs_find(specs, name);
    size_t i;

    if (spec == NULL) return;
    i = (size_t)(spec - specs->specs);
    memmove(&specs->specs[i], &specs->specs[i + 1],
            (specs->n_specs - i - 1) * sizeof *specs->specs);
    specs->n_specs--;
}

void sp_specs_share_head(struct sp_specs *specs, struct sp_config *config)
{
    config->tied = true;
    drop(specs, "lm_head.weight");
}

enum sp_status sp_specs_untie_head(struct sp_specs *specs, struct sp_config *config,
                                   struct sp_err *err)
{
    const struct sp_tensor_spec *embedding = sp_specs_find(specs, "embed_tokens.weight");
    struct sp_tensor_spec head;
    enum sp_status st;

    if (embedding == NULL) return sp_fail(err, SP_E_BUG, "a model without an embedding");
    head = *embedding;
    head.role = SP_ROLE_HEAD;
    head.first_span = specs->n_spans;
    if ((st = sp_specs_add_string(&head.name, specs, "lm_head.weight", err))) return st;
    st = sp_grow(&specs->spans, &specs->cap_spans, specs->n_spans + head.n_spans,
                 sizeof *specs->spans, err);
    if (st) return st;
    memcpy(&specs->spans[head.first_span], &specs->spans[embedding->first_span],
           head.n_spans * sizeof *specs->spans);
    st = sp_grow(&specs->specs, &specs->cap_specs, specs->n_specs + 1, sizeof *specs->specs, err);
    if (st) return st;
    specs->n_spans += head.n_spans;
    specs->specs[specs->n_specs++] = head;
    qsort(specs->specs, specs->n_specs, sizeof *specs->specs, compare_specs);
    config->tied = false;
    return SP_OK;
}

void sp_specs_share_embedding(struct sp_specs *specs, struct sp_config *config)
{
    config->draft.borrows_tables = true;
    drop(specs, "embed_tokens.weight");
}

void sp_specs_release(struct sp_specs *specs)
{
    for (size_t i = 0; i < specs->n_strings; i++)
        free(specs->strings[i]);
    free(specs->strings);
    free(specs->specs);
    free(specs->spans);
    memset(specs, 0, sizeof *specs);
}
