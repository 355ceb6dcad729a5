#include "runtime/model/cache_types.h"

#include "format/base/mem.h"

#include <math.h>
#include <stdlib.h>

const enum sp_cache_type sp_cache_types_chosen[SP_N_LAYER_CACHES] = {
    [SP_LAYER_F16] = SP_CACHE_F16,
    [SP_LAYER_Q8] = SP_CACHE_Q8,
    [SP_LAYER_Q8_Q4] = SP_CACHE_Q8_Q4,
    [SP_LAYER_Q4] = SP_CACHE_Q4,
};

/* Chosen keys of each layer in turn are gathered into one cache. */
static bool chooses_keys(const struct sp_config *config)
{
    return config->index.top_k || config->compressed.q_rank;
}

static bool has_cache(const struct sp_config *config, unsigned i)
{
    return (config->layers[i].mixers & SP_MIXER_ATTENTION) && config->layers[i].kv_source == (int)i;
}

static bool can_be_codes(const struct sp_model *model, unsigned i)
{
    const struct sp_layer_config *l = &model->config.layers[i];

    return l->head_dim % SP_KV_GROUP == 0 &&
           sp_config_value_dim(&model->config, l) % SP_KV_GROUP == 0;
}

bool sp_cache_types_vary(const struct sp_model *model, unsigned i)
{
    const struct sp_config *config = &model->config;

    return has_cache(config, i) && can_be_codes(model, i) && !chooses_keys(config);
}

enum sp_cache_type sp_cache_types_of(const struct sp_model *model, unsigned i,
                                     enum sp_cache_type type)
{
    const struct sp_layer_config *l = &model->config.layers[i];
    const float *bias = model->layers[i].k_bias;
    const float largest = 64;

    if (type == SP_CACHE_AUTO) type = model->cache_types[i];
    if (type == SP_CACHE_F16 || type == SP_CACHE_F32 || model->config.index.top_k) return type;
    for (size_t k = 0; bias && k < (size_t)l->n_kv_heads * l->head_dim; k++)
        if (fabsf(bias[k]) > largest)
            return sp_cache_bits[type].value == 8 ? SP_CACHE_F16_Q8 : SP_CACHE_F16_Q4;
    return type;
}

enum sp_status sp_cache_types_resolve(enum sp_cache_type *type, const struct sp_model *model,
                                      struct sp_err *err)
{
    if (*type != SP_CACHE_AUTO || model->cache_types) return SP_OK;
    if (chooses_keys(&model->config) && model->part == SP_PART_TARGET) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "cache type auto: this model attends to chosen keys, and the caches of its "
                       "layers must have one type");
    }
    if (model->part == SP_PART_TARGET) {
        return sp_fail_about(err, SP_E_UNSUPPORTED, SP_TOPIC_CACHE_TYPES,
                             "cache type auto: the file does not state what types of KV caches "
                             "cost in this model, by which they are chosen");
    }
    *type = SP_CACHE_Q8;
    for (unsigned i = 0; i < model->config.n_layers; i++)
        if (has_cache(&model->config, i) && !can_be_codes(model, i)) *type = SP_CACHE_F16;
    return SP_OK;
}

void sp_cache_types_count(unsigned counts[SP_N_CACHE_TYPES], const struct sp_model *model)
{
    for (unsigned i = 0; model->cache_types && i < model->config.n_layers; i++)
        if (has_cache(&model->config, i)) counts[sp_cache_types_of(model, i, SP_CACHE_AUTO)]++;
}

/* ---- the choice ---- */

/* Bytes that a token takes in a layer's cache of a type, in a context of 8192 tokens. */
static double token_size(const struct sp_config *config, const struct sp_layer_config *l,
                         enum sp_cache_type type)
{
    const double context = 8192;
    size_t reach = sp_layer_reach(l);
    double part = reach && (double)reach < context ? (double)reach / context : 1;
    size_t size = sp_key_block_size(type, l->head_dim) +
                  sp_value_block_size(type, sp_config_value_dim(config, l));

    return part * (double)(size * l->n_kv_heads) / SP_KV_BLOCK;
}

static enum sp_status set_types(struct sp_model *m, const struct sp_cache_divergences *all,
                                struct sp_err *err)
{
    enum sp_status st;

    if (m->cache_types == NULL)
        m->cache_types = sp_arena_new(&m->memory, all->n, sizeof *m->cache_types);
    if ((st = sp_arena_check(&m->memory, err))) return st;
    for (size_t i = 0; i < all->n; i++)
        m->cache_types[i] = sp_cache_types_chosen[all->layers[i].chosen];
    return SP_OK;
}

enum sp_status sp_cache_types_choose(double *sum, struct sp_model *m,
                                     struct sp_cache_divergences *all, double most,
                                     struct sp_err *err)
{
    double(*sizes)[SP_N_LAYER_CACHES] = NULL;
    enum sp_status st = sp_new(&sizes, all->n, sizeof *sizes, err);

    if (st) return st;
    for (unsigned i = 0; i < all->n; i++) {
        for (int t = 0; t < SP_N_LAYER_CACHES && sp_cache_types_vary(m, i); t++) {
            enum sp_cache_type type = sp_cache_types_of(m, i, sp_cache_types_chosen[t]);
            sizes[i][t] = token_size(&m->config, &m->config.layers[i], type);
        }
    }
    *sum = sp_cache_divergences_choose(all, sizes, most);
    free(sizes);
    return set_types(m, all, err);
}

enum sp_status sp_cache_types_read(struct sp_model *model, const struct sp_pack *pack,
                                   struct sp_err *err)
{
    struct sp_cache_divergences all;
    enum sp_status st;

    if (model->part != SP_PART_TARGET || chooses_keys(&model->config)) return SP_OK;
    if ((st = sp_cache_divergences_of_pack(&all, pack, err))) return st;
    if (all.n && all.n != model->config.n_layers)
        st = sp_fail(err, SP_E_INPUT, "%s: caches of %zu layers, expected %u", sp_pack_path(pack),
                     all.n, model->config.n_layers);
    else if (all.has_choice)
        st = set_types(model, &all, err);
    model->cache_divergence = all.nats;
    sp_cache_divergences_release(&all);
    return st;
}
