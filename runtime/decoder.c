/* What a decoder owns: caches of its layers and room for a pass, sized when it is opened; and what
 * can be asked of the caches. */
#include "runtime/decoder.h"

#include "format/hash.h"
#include "format/mem.h"
#include "runtime/rope.h"

#include <assert.h>
#include <stdlib.h>

/* ---- opening ----------------------------------------------------------------------------------
 */

struct widths {
    size_t q, kv, ffn; /* largest over the layers */
    unsigned heads, head_dim;
};

static struct widths widest(const struct sp_config *config)
{
    size_t delta = (size_t)config->delta.n_value_heads * config->delta.value_dim;
    size_t mamba = (size_t)config->mamba.n_heads * config->mamba.head_dim;
    struct widths w = {.q = delta > mamba ? delta : mamba};

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        size_t q = (size_t)l->n_heads * l->head_dim, kv = (size_t)l->n_kv_heads * l->head_dim;
        if (q > w.q) w.q = q;
        if (kv > w.kv) w.kv = kv;
        if (l->n_ffn > w.ffn) w.ffn = l->n_ffn;
        if (l->n_shared_ffn > w.ffn) w.ffn = l->n_shared_ffn;
        if ((l->mixers & SP_MIXER_SHORT_CONV) && config->n_hidden > w.q) w.q = config->n_hidden;
        if (l->n_heads > w.heads) w.heads = l->n_heads;
        if (l->head_dim > w.head_dim) w.head_dim = l->head_dim;
    }
    return w;
}

static enum sp_status open_rotations(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    size_t planned = d->options.n_planned ? d->options.n_planned : d->options.n_positions;
    enum sp_status st;

    for (unsigned i = 0; i < config->n_ropes; i++) {
        struct rotation *r = &d->rotations[i];
        size_t half = config->ropes[i].n_rot / 2;
        if ((st = sp_new_rows(&r->freq, 1, half, err))) return st;
        if ((st = sp_new_rows(&r->cos, d->options.max_rows, half, err))) return st;
        if ((st = sp_new_rows(&r->sin, d->options.max_rows, half, err))) return st;
        sp_rope_frequencies(r->freq, &config->ropes[i], planned);
    }
    return SP_OK;
}

/* The target's last layer of the same type that has keys. */
static const struct sp_kv *borrowed_keys(const struct sp_decoder *d,
                                         const struct sp_layer_config *l)
{
    const struct sp_decoder *from = d->options.keys_of;
    unsigned layer;

    assert(from);
    layer = sp_config_last_keys(&from->model->config, l->window != 0);
    assert(layer < from->model->config.n_layers);
    return from->keys[layer];
}

static enum sp_status open_caches(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    enum sp_status st;

    if ((st = sp_new(&d->caches, config->n_layers, sizeof *d->caches, err))) return st;
    if ((st = sp_new(&d->keys, config->n_layers, sizeof *d->keys, err))) return st;
    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        if (!(l->mixers & SP_MIXER_ATTENTION)) continue;
        d->keys[i] = l->kv_source < 0 ? borrowed_keys(d, l) : &d->caches[l->kv_source];
        if (l->kv_source != (int)i) continue;
        if ((st = sp_kv_init(&d->caches[i], d->options.kv_type, l->n_kv_heads, l->head_dim,
                             d->options.n_positions, l->window, d->options.max_rows, err))) {
            return st;
        }
    }
    return SP_OK;
}

static bool has_both(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++) {
        if (config->layers[i].mixers == SP_MIXERS_BESIDE) return true;
    }
    return false;
}

static bool has_output_gate(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++) {
        if (config->layers[i].output_gate) return true;
    }
    return false;
}

static enum sp_status open_scratch(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    struct widths w = widest(config);
    size_t rows = d->options.max_rows, n_features = (size_t)d->options.n_taps * config->n_hidden;
    enum sp_status st;

    d->ld_x = sp_matrix_ld(config->n_hidden);
    d->ld_q = sp_matrix_ld(w.q);
    d->ld_kv = sp_matrix_ld(w.kv);
    d->ld_ffn = sp_matrix_ld(w.ffn);
    d->ld_logits = sp_matrix_ld(config->n_vocab);
    if ((st = sp_new_rows(&d->x, rows, d->ld_x, err))) return st;
    if ((st = sp_new_rows(&d->y, rows, d->ld_x, err))) return st;
    if (has_both(config) && (st = sp_new_rows(&d->beside, rows, d->ld_x, err))) return st;
    if ((st = sp_new_rows(&d->q, rows, d->ld_q, err))) return st;
    if ((st = sp_new_rows(&d->k, rows, d->ld_kv, err))) return st;
    if ((st = sp_new_rows(&d->v, rows, d->ld_kv, err))) return st;
    if ((st = sp_new_rows(&d->up, rows, d->ld_ffn, err))) return st;
    if (config->plain_mlp) {
        if ((st = sp_new_rows(&d->ones, 1, d->ld_ffn, err))) return st;
        for (size_t i = 0; i < d->ld_ffn; i++)
            d->ones[i] = 1;
    }
    if ((st = sp_new_rows(&d->features, rows, n_features, err))) return st;
    if ((st = sp_new_rows(&d->logits, d->options.max_logit_rows, d->ld_logits, err))) return st;
    if ((st = sp_new(&d->best_logits, d->options.max_logit_rows, sizeof *d->best_logits, err))) {
        return st;
    }
    if ((st = sp_acts_init(&d->hidden, rows, config->n_hidden, err))) return st;
    if (config->layers[0].reads_pair &&
        (st = sp_acts_init(&d->pairs, rows, 2 * (size_t)config->n_hidden, err))) {
        return st;
    }
    if ((st = sp_acts_init(&d->heads, rows, w.q, err))) return st;
    if ((st = sp_acts_init(&d->ffn, rows, w.ffn, err))) return st;
    if (d->model->fc.rows && (st = sp_acts_init(&d->tapped, rows, d->model->fc.cols, err))) {
        return st;
    }
    if ((st = sp_experts_open(d, err))) return st;
    if ((st = sp_delta_open(d, err))) return st;
    if ((st = sp_mamba_open(d, err))) return st;
    if ((st = sp_short_conv_open(d, err))) return st;
    if ((st = sp_marks_open(d, err))) return st;
    if ((st = sp_per_layer_open(d, err))) return st;
    if ((st = sp_conv_open(d, err))) return st;
    if ((st = sp_new_rows(&d->gate, has_output_gate(config) ? rows : 0, d->ld_q, err))) return st;
    if ((st = sp_new(&d->ranges, rows, sizeof *d->ranges, err))) return st;
    if (w.heads == 0) return SP_OK; /* no layer attends */
    return sp_attention_scratch_new(&d->attention, sp_pool_n_threads(d->engine->pool), w.heads,
                                    w.head_dim, rows, d->options.n_positions, err);
}

enum sp_status sp_decoder_open(struct sp_decoder **out, const struct sp_model *model,
                               const struct sp_engine *engine,
                               const struct sp_decoder_options *options, struct sp_err *err)
{
    struct sp_decoder *d = NULL;
    enum sp_status st;

    if ((st = sp_new(&d, 1, sizeof *d, err))) goto done;
    d->model = model;
    d->engine = engine;
    d->options = *options;
    if ((st = open_rotations(d, err))) goto done;
    if ((st = open_caches(d, err))) goto done;
    if ((st = open_scratch(d, err))) goto done;
    *out = d;
    d = NULL;
done:
    sp_decoder_close(d);
    return st;
}

void sp_decoder_close(struct sp_decoder *d)
{
    if (d == NULL) return;
    for (unsigned i = 0; d->caches && i < d->model->config.n_layers; i++) {
        sp_kv_release(&d->caches[i]);
    }
    free(d->caches);
    free(d->keys);
    for (size_t i = 0; i < 2; i++) {
        free(d->rotations[i].freq);
        free(d->rotations[i].cos);
        free(d->rotations[i].sin);
    }
    sp_attention_scratch_free(d->attention);
    free(d->ranges);
    free(d->features);
    free(d->logits);
    free(d->best_logits);
    free(d->x);
    free(d->y);
    free(d->beside);
    free(d->q);
    free(d->k);
    free(d->v);
    free(d->up);
    free(d->ones);
    sp_acts_release(&d->hidden);
    sp_acts_release(&d->pairs);
    sp_acts_release(&d->heads);
    sp_acts_release(&d->ffn);
    sp_acts_release(&d->tapped);
    sp_experts_close(d);
    sp_delta_close(d);
    sp_mamba_close(d);
    sp_recurrent_close(d);
    sp_short_conv_close(d);
    sp_marks_close(d);
    sp_per_layer_close(d);
    sp_conv_close(d);
    free(d->gate);
    free(d);
}

/* ---- what is stored ---------------------------------------------------------------------------
 */

static size_t layer_cache_size(const struct sp_decoder *d, unsigned layer)
{
    unsigned mixers = d->model->config.layers[layer].mixers;
    size_t size = 0;

    if (mixers & SP_MIXER_ATTENTION) size += sp_kv_size(&d->caches[layer]);
    if (mixers & SP_RECURRENT_MIXERS) size += sp_recurrent_size(d, layer);
    if (mixers & SP_MIXER_SHORT_CONV) {
        size += sp_conv_history_size(&d->short_conv->histories[layer]);
    }
    return size;
}

size_t sp_decoder_cache_size(const struct sp_decoder *d)
{
    size_t size = sp_marks_size(d);

    for (unsigned i = 0; i < d->model->config.n_layers; i++)
        size += layer_cache_size(d, i);
    return size;
}

enum sp_kv_type sp_decoder_kv_type(const struct sp_decoder *d)
{
    return d->options.kv_type;
}

bool sp_decoder_is_recurrent(const struct sp_decoder *d)
{
    return sp_config_is_recurrent(&d->model->config);
}

const struct sp_kv *sp_decoder_cache(const struct sp_decoder *d, unsigned layer)
{
    return d->keys[layer];
}

bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to)
{
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        const struct sp_layer_config *l = &d->model->config.layers[i];
        size_t first = to > l->window ? to - l->window : 0;
        if (l->window == 0 || l->kv_source != (int)i) continue;
        if (first + d->caches[i].n_slots < len + d->options.max_rows) return false;
    }
    return true;
}

bool sp_decoder_can_return(const struct sp_decoder *d, size_t len, size_t to)
{
    if (sp_decoder_is_recurrent(d)) return to == len || to == 0;
    return sp_decoder_keeps_windows(d, len, to);
}

static uint64_t layer_digest(struct sp_decoder *d, unsigned layer, size_t len)
{
    const struct sp_layer_config *l = &d->model->config.layers[layer];
    size_t first = l->window && len > l->window ? len - l->window : 0;
    uint64_t digests[2] = {0, 0};

    if (l->mixers & SP_MIXER_ATTENTION) digests[0] = sp_kv_digest(&d->caches[layer], first, len);
    if (l->mixers & SP_RECURRENT_MIXERS) digests[1] = sp_recurrent_digest(d, layer);
    if (l->mixers & SP_MIXER_SHORT_CONV) {
        digests[1] = sp_conv_history_digest(&d->short_conv->histories[layer]);
    }
    return sp_hash64(digests, sizeof digests);
}

uint64_t sp_decoder_digest(struct sp_decoder *d, size_t len)
{
    uint64_t digests[2] = {0, 0};

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        if (d->model->config.layers[i].kv_source != (int)i) continue;
        digests[1] = layer_digest(d, i, len);
        digests[0] = sp_hash64(digests, sizeof digests);
    }
    return digests[0];
}
