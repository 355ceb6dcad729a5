/* One pass of rows through the layers, in the order of the formulas: a norm, a mixer, what it adds;
 * a norm, an MLP, what it adds. */
#include "runtime/decoder.h"

#include "runtime/fmath.h"
#include "runtime/rope.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

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

    if (mixers == SP_MIXERS_BESIDE) {
        run_both(job, layer);
        return;
    }
    if (mixers & SP_MIXER_ATTENTION) sp_decoder_attend(job->d, layer, job->n, job->pos);
    if (mixers & SP_MIXER_DELTA_NET) sp_delta_run(job->d, layer, job->n);
    if (mixers & SP_MIXER_SHORT_CONV) sp_short_conv_run(job->d, layer, job->n);
    if (mixers & SP_MIXER_MAMBA) sp_mamba_run(job->d, layer, job->n);
}

/* y = what the layer's mixers make of the rows; joins the residual stream with what comes next. */
static void run_mixing(struct layer_job *job, unsigned layer)
{
    struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;

    job->norm_in = l->input_norm;
    job->norm_in_bias = l->input_norm_bias;
    if (!l->config->reads_pair) sp_engine_rows(d->engine, job->n, norm_row, job);
    sp_conv_before(d, &l->attention_conv, job->n);
    run_mixers(job, layer);
    sp_conv_after(d, &l->attention_conv, job->n);
    job->norm_out = l->attention_post;
    job->scale = d->model->config.residual_scale;
}

/* The same of its MLP. */
static void run_mlp(struct layer_job *job)
{
    struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;

    job->norm_in = l->ffn_norm;
    job->norm_in_bias = l->ffn_norm_bias;
    sp_engine_rows(d->engine, job->n, before_ffn(job), job);
    sp_conv_before(d, &l->ffn_conv, job->n);
    run_ffn(job);
    sp_conv_after(d, &l->ffn_conv, job->n);
    job->norm_out = l->ffn_post;
    job->scale = d->model->config.residual_scale * d->model->config.ffn_out_scale;
}

static void run_layer(struct layer_job *job, unsigned layer)
{
    struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;

    if (l->config->mixers) run_mixing(job, layer);
    if (l->config->n_ffn) run_mlp(job);
    sp_engine_rows(d->engine, job->n, add_row, job);
    if (d->per_layer) {
        sp_per_layer_run(d, layer, job->n);
        job->norm_out = l->per_layer_post;
        job->scale = d->model->config.residual_scale;
        sp_engine_rows(d->engine, job->n, add_row, job);
    }
    for (size_t t = 0; l->scalar != 1 && t < job->n; t++)
        d->engine->vector->scale(d->x + t * d->ld_x, l->scalar, d->model->config.n_hidden);
}

void sp_decoder_run(struct sp_decoder *d, size_t n, size_t pos, size_t n_certain)
{
    struct layer_job job = {.d = d, .n = n, .pos = pos};

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
        run_layer(&job, i);
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
