/* Opens and closes decoders, reports the size of their caches, transfers these to and from a file,
 * and fuses features. */
#include "runtime/model/decoder_internal.h"

#include "format/base/hash.h"
#include "runtime/model/cache_types.h"
#include "runtime/model/key_index.h"
#include "runtime/model/rope.h"
#include "runtime/model/sublayers.h"
#include "runtime/vector/fmath.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- opening ---- */

static void open_frequencies(struct sp_decoder *d)
{
    const struct sp_config *config = &d->model->config;

    for (unsigned i = 0; i < config->n_ropes; i++) {
        size_t half = config->ropes[i].n_rot / 2;
        if ((d->frequencies[i] = sp_arena_rows(&d->memory, 1, half)) == NULL) return;
        sp_rope_frequencies(d->frequencies[i], &config->ropes[i], d->options.n_positions);
        for (size_t k = 0; d->model->rope_alpha && k < half; k++)
            d->frequencies[i][k] *= (float)sp_exp((double)d->model->rope_alpha[k]);
    }
}

/* The cache of the target's last layer of the same type that has keys. */
static struct sp_kv *borrowed_keys(const struct sp_decoder *d, const struct sp_layer_config *l)
{
    const struct sp_decoder *from = d->options.keys_of;
    unsigned layer;

    assert(from);
    layer = sp_config_last_keys(&from->model->config, l->window != 0);
    assert(layer < from->model->config.n_layers);
    return from->keys[layer];
}

/* Opens the cache of the keys that layer i makes. */
static enum sp_status open_own_keys(struct sp_kv *kv, const struct sp_decoder *d, unsigned i,
                                    enum sp_cache_type type, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    const struct sp_layer_config *l = &config->layers[i];
    const struct sp_kv_options options = {
        .type = sp_cache_types_of(d->model, i, type),
        .shape = {l->n_kv_heads, l->head_dim, sp_config_value_dim(config, l)},
        .n_query_heads = l->n_heads,
        .n_inputs = config->n_hidden * (l->reads_pair ? 2 : 1),
        .n_positions = d->options.n_positions,
        .window = sp_layer_reach(l),
        .max_rows = d->options.max_rows,
    };
    /* A rank knows no slopes or other biases, no values of another size than keys, no choice of
     * keys, and no convolutions. */
    bool plain = config->alibi == 0 && config->value_scale == 1 && l->value_dim == 0 &&
                 (config->index.top_k == 0 || config->latent.kv_rank) &&
                 config->n_residual_taps == 0 && config->rel_dim == 0;

    return sp_kv_open(kv, plain ? d->backend->remote : NULL, &options, err);
}

static enum sp_status open_caches(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    unsigned n = config->n_layers, n_caches = config->index.top_k ? 2 * n : n;
    size_t n_spans = d->options.n_positions / SP_SPAN + 1;
    enum sp_status st;

    if (config->compressed.q_rank) n_caches = SP_COMPRESSED_CACHES * n;
    d->caches = sp_arena_new(&d->memory, n_caches, sizeof *d->caches);
    d->shared = sp_arena_new(&d->memory, n_spans, sizeof *d->shared);
    d->page_rows = sp_arena_new(&d->memory, 2 * (size_t)n_caches, sizeof *d->page_rows);
    d->keys = sp_arena_new(&d->memory, config->n_layers, sizeof *d->keys);
    if ((st = sp_arena_check(&d->memory, err))) return st;
    d->n_caches = n_caches;
    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        if (!(l->mixers & SP_MIXER_ATTENTION)) continue;
        d->keys[i] = l->kv_source < 0 ? borrowed_keys(d, l) : &d->caches[l->kv_source];
        if (l->kv_source == (int)i &&
            (st = open_own_keys(&d->caches[i], d, i, d->options.cache_type, err)))
            return st;
        if (config->compressed.q_rank && (st = sp_compressed_attention_open_caches(d, i, err)))
            return st;
        if (config->index.top_k == 0 || l->shares_index || l->unindexed) continue;
        if ((st = sp_key_index_open_cache(&d->caches[n + i], d, err))) return st;
        if (l->rate) d->caches[n + i].stride = l->rate;
    }
    return SP_OK;
}

static enum sp_status open_workspace(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_decoder_options *o = &d->options;

    if (o->workspace_of == NULL)
        return sp_workspace_open(&d->workspace, d->model, d->backend, o, err);
    d->workspace = o->workspace_of->workspace;
    assert(d->workspace->model == d->model && d->workspace->max_rows >= o->max_rows &&
           d->workspace->max_logit_rows >= o->max_logit_rows &&
           d->workspace->n_positions >= o->n_positions);
    d->workspace->n_users++;
    return SP_OK;
}

/* ---- growth ---- */

/* Positions by which caches grow: few enough to waste little memory, enough to grow rarely. */
enum { GROWTH = 2 * SP_SPAN };

static size_t caches_size(const struct sp_decoder *d, size_t n)
{
    size_t size = 0;

    for (unsigned i = 0; i < d->n_caches; i++)
        if (d->caches[i].keys) size += sp_kv_size_here(&d->caches[i], n);
    return size;
}

/* After the caches have given back the positions from n on. */
static void release_pages(struct sp_decoder *d, size_t n)
{
    size_t n_spans = d->options.n_positions / SP_SPAN + 1;

    for (size_t i = sp_round_up(n, SP_SPAN) / SP_SPAN; d->shared && i < n_spans; i++)
        sp_page_use_end(&d->shared[i]);
}

static void shrink_caches(struct sp_decoder *d, size_t n)
{
    for (unsigned i = 0; i < d->n_caches; i++)
        if (d->caches[i].keys) sp_kv_shrink(&d->caches[i], n);
    release_pages(d, n);
}

/* n rounded up to a step of growth, at most all positions. */
static size_t positions_for(const struct sp_decoder *d, size_t n)
{
    size_t all = d->options.n_positions;

    return n < all && all - n > GROWTH ? sp_round_up(n, GROWTH) : all;
}

enum sp_status sp_decoder_grow(struct sp_decoder *d, size_t n, struct sp_err *err)
{
    size_t ready, more;
    enum sp_status st = SP_OK;

    if (n > d->options.n_positions) n = d->options.n_positions;
    if (n <= d->n_ready) return SP_OK;
    ready = positions_for(d, n);
    more = caches_size(d, ready) - caches_size(d, d->n_ready);
    if (d->options.budget && (st = sp_cache_budget_take(d->options.budget, more, n, err)))
        return st;
    for (unsigned i = 0; i < d->n_caches && !st; i++)
        if (d->caches[i].keys) st = sp_kv_grow(&d->caches[i], ready, err);
    if (st) {
        shrink_caches(d, d->n_ready);
        if (d->options.budget) sp_cache_budget_give(d->options.budget, more);
        return st;
    }
    d->n_ready = ready;
    return SP_OK;
}

void sp_decoder_shrink(struct sp_decoder *d, size_t n)
{
    size_t keep = positions_for(d, n);

    if (d->options.budget == NULL || d->n_ready / 2 < keep) return;
    sp_cache_budget_give(d->options.budget, caches_size(d, d->n_ready) - caches_size(d, keep));
    shrink_caches(d, keep);
    d->n_ready = keep;
}

size_t sp_decoder_cache_size_for(const struct sp_decoder *d, size_t n)
{
    size_t all = d->options.n_positions;

    return caches_size(d, positions_for(d, n < all ? n : all));
}

size_t sp_decoder_cache_size(const struct sp_decoder *d)
{
    return caches_size(d, d->n_ready);
}

enum sp_status sp_decoder_open(struct sp_decoder **out, const struct sp_model *model,
                               const struct sp_backend *backend,
                               const struct sp_decoder_options *options, struct sp_err *err)
{
    size_t n_features = (size_t)options->n_taps * model->config.n_hidden;
    struct sp_decoder *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) goto done;
    d->model = model;
    d->backend = backend;
    d->options = *options;
    if ((st = sp_cache_types_resolve(&d->options.cache_type, model, err))) goto done;
    if ((st = open_workspace(d, err))) goto done;
    open_frequencies(d);
    if ((st = open_caches(d, err))) goto done;
    if (options->budget == NULL && (st = sp_decoder_grow(d, options->n_positions, err))) goto done;
    sp_recurrent_open(d);
    d->features = sp_arena_rows(&d->memory, options->max_rows, n_features);
    if ((st = sp_arena_check(&d->memory, err))) goto done;
    *out = d;
    d = NULL;
done:
    sp_decoder_close(d);
    return st;
}

void sp_decoder_close(struct sp_decoder *d)
{
    if (d == NULL) return;
    if (d->caches && d->options.budget)
        sp_cache_budget_give(d->options.budget, caches_size(d, d->n_ready));
    for (unsigned i = 0; i < d->n_caches; i++)
        sp_kv_release(&d->caches[i]);
    release_pages(d, 0);
    sp_arena_release(&d->memory);
    sp_workspace_unref(d->workspace);
    free(d);
}

/* ---- caches ---- */

enum sp_status sp_decoder_set_cache_type(struct sp_decoder *d, unsigned layer,
                                         enum sp_cache_type type, struct sp_err *err)
{
    struct sp_kv kv;
    enum sp_status st = open_own_keys(&kv, d, layer, type, err);

    if (st) return st;
    if ((st = sp_kv_grow(&kv, d->n_ready, err))) {
        sp_kv_release(&kv);
        return st;
    }
    sp_kv_release(&d->caches[layer]);
    d->caches[layer] = kv;
    return SP_OK;
}

void sp_decoder_set_lora(struct sp_decoder *d, const struct sp_lora *lora, float scale)
{
    assert(lora == NULL || sp_lora_products_of(lora)->rank <= sp_decoder_max_lora_rank(d));
    d->lora = lora;
    d->lora_scale = scale;
}

const struct sp_lora *sp_decoder_lora(const struct sp_decoder *d, float *scale)
{
    *scale = d->lora_scale;
    return d->lora;
}

size_t sp_decoder_max_lora_rank(const struct sp_decoder *d)
{
    return d->workspace->lora ? d->workspace->lora->max_rank : 0;
}

enum sp_cache_type sp_decoder_cache_type(const struct sp_decoder *d)
{
    return d->options.cache_type;
}

/* ---- to a page of the prompt cache and back ---- */

uint64_t sp_decoder_cache_digest(const struct sp_decoder *d)
{
    uint64_t parts[3] = {0};

    for (unsigned i = 0; i < d->n_caches; i++)
        parts[0] = (parts[0] ^ (uint64_t)d->caches[i].type) * 0x100000001b3; /* as FNV-1a */
    for (unsigned i = 0; i < d->model->config.n_ropes; i++) {
        size_t half = d->model->config.ropes[i].n_rot / 2;
        parts[1 + i] = sp_hash64(d->frequencies[i], half * sizeof *d->frequencies[i]);
    }
    return sp_hash64(parts, sizeof parts);
}

bool sp_decoder_keeps_all(const struct sp_decoder *d)
{
    for (unsigned i = 0; i < d->n_caches; i++) {
        const struct sp_kv *kv = &d->caches[i];
        if (kv->keys == NULL) continue;
        if (kv->n_slots * kv->stride < d->options.n_positions) return false;
        if (SP_SPAN % (kv->stride * SP_KV_BLOCK) != 0) return false;
    }
    return true;
}

enum sp_status sp_decoder_transfer(struct sp_decoder *d, struct sp_cache_file *file, size_t span,
                                   struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (unsigned i = 0; i < d->n_caches && !st; i++)
        if (d->caches[i].keys) st = sp_kv_transfer(&d->caches[i], file, span, err);
    return st;
}

void sp_decoder_share(struct sp_decoder *d, struct sp_prompt_cache *cache, const char *name,
                      size_t span)
{
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    struct sp_page_rows *rows = d->page_rows;
    bool is_small = true; /* all rows are in small pages of memory anyway */

    if (d->backend->remote || sp_page_use_is_settled(&d->shared[span], name)) return;
    for (unsigned i = 0; i < 2 * d->n_caches; i++) {
        const struct sp_kv *kv = &d->caches[i / 2];
        if (kv->keys == NULL || kv->is_window || kv->stride > 1) continue;
        rows[n].at = sp_kv_span(kv, span, i % 2 == 1, &rows[n].size);
        if (rows[n].size == 0 || rows[n].size % page_size) continue;
        is_small &= (span + 1) * rows[n].size <= (size_t)SP_REGION_SMALL;
        n++;
    }
    sp_prompt_cache_share(cache, &d->shared[span], name, rows, n, is_small);
}

/* ---- hidden states of several target layers make the input of a draft ---- */

struct fuse_job {
    struct sp_workspace *ws;
    const float *features; /* [n][fc.cols] */
};

static void norm_features(void *context, size_t t)
{
    const struct fuse_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_draft_config *config = &ws->model->config.draft;
    size_t width = ws->model->fc.cols, part = width;
    float eps = (float)ws->model->config.norm_eps, *row = ws->tapped.x + t * ws->tapped.ld;

    memcpy(row, job->features + t * width, width * sizeof *row);
    if (ws->model->feature_norm == NULL) return;
    if (config->taps_normed) part = config->target_hidden;
    for (size_t i = 0; i < width; i += part)
        ws->backend->vector->rms_norm(row + i, row + i, ws->model->feature_norm + i, part, eps);
}

void sp_project_features(struct sp_workspace *ws, float *out, const float *features, size_t n)
{
    struct fuse_job job = {ws, features};

    assert(n <= ws->max_rows);
    sp_backend_rows(ws->backend, n, norm_features, &job);
    sp_backend_product(ws->backend, out, ws->ld_x, &ws->model->fc, NULL, &ws->tapped, n);
}

void sp_decoder_fuse_features(struct sp_decoder *d, float *out, const float *features, size_t n)
{
    struct sp_workspace *ws = d->workspace;
    size_t h = ws->model->config.n_hidden;

    sp_project_features(ws, ws->y, features, n);
    for (size_t t = 0; t < n; t++)
        memcpy(out + t * h, ws->y + t * ws->ld_x, h * sizeof *out);
}
