#include "runtime/decoder.h"

#include "format/hash.h"
#include "format/mem.h"
#include "runtime/fmath.h"
#include "runtime/rope.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    BOTH = SP_MIXER_ATTENTION | SP_MIXER_MAMBA,
};

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
        if (config->layers[i].mixers == BOTH) return true;
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

/* ---- one pass ---------------------------------------------------------------------------------
 */

struct embed_job {
    struct sp_decoder *d;
    const struct sp_model *source;
    const uint32_t *ids;
};

void sp_decoder_embed_row(const struct sp_decoder *d, const struct sp_model *source, uint32_t id,
                          float *out)
{
    const struct sp_matrix *w = &source->embedding;
    const struct sp_config *own = &d->model->config;
    const double scales[] = {own->draft.raw_embeddings ? 1 : source->config.embedding_scale,
                             own->input_scale};

    sp_panel_row(out, w->dtype, w->panels, w->cols, id);
    for (size_t i = 0; i < 2; i++) {
        if (scales[i] != 1) d->engine->vector->scale(out, (float)scales[i], w->cols);
    }
}

static void embed_row(void *context, size_t t, unsigned worker)
{
    const struct embed_job *job = context;

    (void)worker;
    sp_decoder_embed_row(job->d, job->source, job->ids[t], job->d->x + t * job->d->ld_x);
}

void sp_decoder_embed(struct sp_decoder *d, const struct sp_model *source, const uint32_t *ids,
                      size_t n)
{
    struct embed_job job = {d, source, ids};

    assert(n <= d->options.max_rows);
    sp_engine_rows(d->engine, n, embed_row, &job);
    if (d->per_layer) sp_per_layer_embed(d, ids, n);
}

/* The work of one layer on the rows of a pass, as the row functions below see it. */
struct layer_job {
    struct sp_decoder *d;
    const struct sp_layer *layer;
    size_t n, pos;
    const float *norm_in; /* weight of the norm that feeds the next products, or NULL: x itself */
    const float *norm_in_bias;
    double scale;          /* of what is added to the residual */
    const float *norm_out; /* weight of the norm on what is added to the residual, or NULL */
};

/* out = the norm of a row of the residual stream; out may be x. */
static void norm(const struct sp_decoder *d, float *out, const float *x, const float *weight,
                 const float *bias)
{
    const struct sp_config *config = &d->model->config;
    size_t n = config->n_hidden;

    if (config->norm_centered) sp_center(out, x, n);
    d->engine->vector->rms_norm(out, config->norm_centered ? out : x, weight, n,
                                (float)config->norm_eps);
    if (bias) d->engine->vector->add(out, bias, n);
}

/* hidden = (norm of) x */
static void norm_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_decoder *d = job->d;
    const float *x = d->x + t * d->ld_x;
    float *hidden = d->hidden.x + t * d->hidden.ld;

    (void)worker;
    if (job->norm_in) {
        norm(d, hidden, x, job->norm_in, job->norm_in_bias);
    } else {
        memcpy(hidden, x, d->model->config.n_hidden * sizeof *hidden);
    }
}

/* x += (norm of) y, scaled */
static void add_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_decoder *d = job->d;
    float *y = d->y + t * d->ld_x;

    (void)worker;
    if (job->norm_out) norm(d, y, y, job->norm_out, NULL);
    d->engine->vector->fma(d->x + t * d->ld_x, y, (float)job->scale, d->model->config.n_hidden);
}

/* x += (norm of) y, scaled, then hidden = (norm of) x */
static void add_norm_row(void *context, size_t t, unsigned worker)
{
    add_row(context, t, worker);
    norm_row(context, t, worker);
}

/* What stands between a layer's mixer, where it has one, and its MLP. */
static sp_pool_fn *before_ffn(const struct layer_job *job)
{
    if (job->layer->config->mixers == 0) return norm_row;
    /* Side by side: hidden stays as it is. */
    return job->d->model->config.norms == SP_NORMS_SHARED ? add_row : add_norm_row;
}

enum sp_gate sp_gate_of(enum sp_activation activation)
{
    switch (activation) {
    case SP_SILU:
        return SP_GATE_SILU;
    case SP_GELU_TANH:
        return SP_GATE_GELU_TANH;
    case SP_GELU_ERF:
        return SP_GATE_GELU_ERF;
    case SP_RELU2:
        return SP_GATE_RELU2;
    case SP_SWIGLU_CLAMPED:
        return SP_GATE_SWIGLU_CLAMPED;
    }
    return SP_GATE_NONE;
}

static void run_ffn(struct layer_job *job)
{
    struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;
    struct sp_product plain_up = {.w = &l->up,
                                  .bias = l->up_bias,
                                  .y = d->ffn.x,
                                  .ldy = d->ffn.ld,
                                  .gate = sp_gate_of(d->model->config.activation),
                                  .factors = d->ones};
    struct sp_product gate_up[] = {
        {.w = &l->gate,
         .bias = l->gate_bias,
         .y = d->ffn.x,
         .ldy = d->ffn.ld,
         .gate = sp_gate_of(d->model->config.activation)},
        {.w = &l->up, .bias = l->up_bias, .y = d->up, .ldy = d->ld_ffn},
    };
    struct sp_product down = {.w = &l->down, .bias = l->down_bias, .y = d->y, .ldy = d->ld_x};

    if (l->config->n_experts) {
        sp_experts_run(d, l, job->n);
        return;
    }
    if (d->ones) {
        sp_engine_multiply(d->engine, &plain_up, 1, &d->hidden, job->n);
    } else {
        sp_engine_multiply(d->engine, gate_up, 2, &d->hidden, job->n);
    }
    d->ffn.cols = l->down.cols;
    sp_engine_multiply(d->engine, &down, 1, &d->ffn, job->n);
}

static void keep_taps(struct sp_decoder *d, unsigned layer, size_t n)
{
    size_t h = d->model->config.n_hidden;

    for (unsigned i = 0; i < d->options.n_taps; i++) {
        if (d->options.taps[i] != layer) continue;
        for (size_t t = 0; t < n; t++) {
            memcpy(d->features + (t * d->options.n_taps + i) * h, d->x + t * d->ld_x,
                   h * sizeof(float));
        }
    }
}

static void final_norm(const struct sp_decoder *d, float *out, size_t t)
{
    norm(d, out, d->x + t * d->ld_x, d->model->norm, d->model->norm_bias);
}

/* After the last layer: the taps behind the final norm. */
static void keep_final_taps(struct sp_decoder *d, size_t n)
{
    size_t h = d->model->config.n_hidden;

    for (unsigned i = 0; i < d->options.n_taps; i++) {
        if (d->options.taps[i] != SP_TAP_FINAL) continue;
        for (size_t t = 0; t < n; t++) {
            final_norm(d, d->features + (t * d->options.n_taps + i) * h, t);
        }
    }
}

static void rotate_positions(struct sp_decoder *d, size_t n, size_t pos)
{
    for (unsigned i = 0; i < d->model->config.n_ropes; i++) {
        const struct sp_rope *rope = &d->model->config.ropes[i];
        size_t half = rope->n_rot / 2;
        for (size_t t = 0; t < n; t++) {
            sp_rope_row(d->rotations[i].cos + t * half, d->rotations[i].sin + t * half,
                        d->rotations[i].freq, half, rope->amplitude, pos + t);
        }
    }
}

/* y = both of what two mixers make */
static void join_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_config *config = &d->model->config;
    float *y = d->y + t * d->ld_x;

    (void)worker;
    if (config->attention_part != 1) {
        d->engine->vector->scale(y, (float)config->attention_part, config->n_hidden);
    }
    d->engine->vector->fma(y, d->beside + t * d->ld_x, (float)config->mamba_part, config->n_hidden);
}

static void run_both(struct layer_job *job, unsigned layer)
{
    struct sp_decoder *d = job->d;
    float *made;

    sp_mamba_run(d, layer, job->n);
    made = d->y;
    d->y = d->beside;
    d->beside = made;
    sp_decoder_attend(d, layer, job->n, job->pos);
    sp_engine_rows(d->engine, job->n, join_row, job);
}

static void run_mixers(struct layer_job *job, unsigned layer)
{
    unsigned mixers = job->layer->config->mixers;

    if (mixers == BOTH) {
        run_both(job, layer);
        return;
    }
    if (mixers & SP_MIXER_ATTENTION) sp_decoder_attend(job->d, layer, job->n, job->pos);
    if (mixers & SP_MIXER_DELTA_NET) sp_delta_run(job->d, layer, job->n);
    if (mixers & SP_MIXER_SHORT_CONV) sp_short_conv_run(job->d, layer, job->n);
    if (mixers & SP_MIXER_MAMBA) sp_mamba_run(job->d, layer, job->n);
}

void sp_decoder_run(struct sp_decoder *d, size_t n, size_t pos, size_t n_certain)
{
    struct layer_job job = {.d = d, .n = n, .pos = pos};
    const struct sp_config *config = &d->model->config;

    assert(n <= d->options.max_rows && pos + n <= d->options.n_positions && n_certain <= n);
    d->n_run = n;
    d->n_certain = n_certain;
    if (pos == 0) {
        sp_recurrent_reset(d);
        sp_short_conv_reset(d);
    }
    rotate_positions(d, n, pos);
    keep_taps(d, SP_TAP_EMBEDDING, n);
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        job.layer = &d->model->layers[i];
        if (job.layer->config->mixers) {
            job.norm_in = job.layer->input_norm;
            job.norm_in_bias = job.layer->input_norm_bias;
            if (!job.layer->config->reads_pair) sp_engine_rows(d->engine, n, norm_row, &job);
            sp_conv_before(d, &job.layer->attention_conv, n);
            run_mixers(&job, i);
            sp_conv_after(d, &job.layer->attention_conv, n);
            job.norm_out = job.layer->attention_post;
            job.scale = config->residual_scale;
        }
        if (job.layer->config->n_ffn) {
            job.norm_in = job.layer->ffn_norm;
            job.norm_in_bias = job.layer->ffn_norm_bias;
            sp_engine_rows(d->engine, n, before_ffn(&job), &job);
            sp_conv_before(d, &job.layer->ffn_conv, n);
            run_ffn(&job);
            sp_conv_after(d, &job.layer->ffn_conv, n);
            job.norm_out = job.layer->ffn_post;
            job.scale = config->residual_scale * config->ffn_out_scale;
        }
        sp_engine_rows(d->engine, n, add_row, &job);
        if (d->per_layer) {
            sp_per_layer_run(d, i, n);
            job.norm_out = job.layer->per_layer_post;
            job.scale = config->residual_scale;
            sp_engine_rows(d->engine, n, add_row, &job);
        }
        for (size_t t = 0; job.layer->scalar != 1 && t < n; t++) {
            d->engine->vector->scale(d->x + t * d->ld_x, job.layer->scalar,
                                     d->model->config.n_hidden);
        }
        keep_taps(d, i, n);
    }
    keep_final_taps(d, n);
}

void sp_decoder_commit(struct sp_decoder *d, size_t n)
{
    assert(n >= d->n_certain && n <= d->n_run);
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        unsigned mixers = d->model->config.layers[i].mixers;
        if (mixers & SP_RECURRENT_MIXERS) sp_recurrent_commit(d, i, n);
        if (mixers & SP_MIXER_SHORT_CONV) sp_short_conv_commit(d, i, n);
    }
}

bool sp_decoder_is_recurrent(const struct sp_decoder *d)
{
    return sp_config_is_recurrent(&d->model->config);
}

const struct sp_kv *sp_decoder_cache(const struct sp_decoder *d, unsigned layer)
{
    return d->keys[layer];
}

/* ---- what comes out ---------------------------------------------------------------------------
 */

struct logits_job {
    struct sp_decoder *d;
    size_t first;
};

static void final_norm_row(void *context, size_t t, unsigned worker)
{
    const struct logits_job *job = context;
    struct sp_decoder *d = job->d;

    (void)worker;
    final_norm(d, d->hidden.x + t * d->hidden.ld, job->first + t);
}

void sp_decoder_logits(struct sp_decoder *d, const struct sp_model *source, size_t first, size_t n)
{
    struct logits_job job = {d, first};
    struct sp_finish finish = {
        .scale = (float)d->model->config.logit_scale,
        .cap = (float)d->model->config.logit_cap,
        .best = d->best_logits,
    };
    struct sp_product head = {
        .w = &source->head,
        .y = d->logits,
        .ldy = d->ld_logits,
        .finish = &finish,
    };

    assert(n <= d->options.max_logit_rows && first + n <= d->options.max_rows);
    sp_engine_rows(d->engine, n, final_norm_row, &job);
    sp_engine_multiply(d->engine, &head, 1, &d->hidden, n);
    d->n_logits = source->head.rows;
}

struct sp_logits sp_decoder_row(const struct sp_decoder *d, size_t t)
{
    uint64_t best = atomic_load_explicit(&d->best_logits[t], memory_order_relaxed);

    return (struct sp_logits){d->logits + t * d->ld_logits, d->n_logits, sp_best_index(best)};
}

const float *sp_decoder_features(const struct sp_decoder *d)
{
    return d->features;
}

void sp_decoder_add_context(struct sp_decoder *d, const float *features, size_t n, size_t pos)
{
    struct layer_job job = {.d = d, .n = n, .pos = pos, .norm_in = d->model->hidden_norm};
    struct sp_product fc = {.w = &d->model->fc, .y = d->x, .ldy = d->ld_x};
    size_t width = d->model->fc.cols;

    assert(n <= d->options.max_rows && pos + n <= d->options.n_positions);
    for (size_t t = 0; t < n; t++) {
        memcpy(d->tapped.x + t * d->tapped.ld, features + t * width, width * sizeof(float));
    }
    rotate_positions(d, n, pos);
    sp_engine_multiply(d->engine, &fc, 1, &d->tapped, n);
    sp_engine_rows(d->engine, n, norm_row, &job);
    for (unsigned i = 0; i < d->model->config.n_layers; i++)
        sp_decoder_store_keys(d, i, n, pos);
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
