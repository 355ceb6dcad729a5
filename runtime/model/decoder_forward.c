/* One pass of rows through the layers, in the order of the formulas: a norm, a mixer, what it adds;
 * a norm, an MLP, what it adds. */
#include "runtime/model/decoder_internal.h"

#include "runtime/vector/fmath.h"
#include "runtime/model/rope.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

/* out = the norm of a row of the residual stream; out may be x. */
static void norm(const struct sp_workspace *r, float *out, const float *x, const float *weight,
                 const float *bias)
{
    const struct sp_config *config = &r->model->config;
    size_t n = config->n_hidden;

    if (config->norm_centered) sp_center(out, x, n);
    r->backend->vector->rms_norm(out, config->norm_centered ? out : x, weight, n,
                                 (float)config->norm_eps);
    if (bias) r->backend->vector->add(out, bias, n);
}

struct embed_job {
    struct sp_workspace *r;
    const struct sp_model *source;
    const uint32_t *ids;
};

void sp_embed_row(const struct sp_workspace *r, const struct sp_model *source, uint32_t id,
                  float *out)
{
    const struct sp_matrix *w = &source->embedding;
    const struct sp_config *own = &r->model->config;
    const double scales[] = {own->draft.raw_embeddings ? 1 : source->config.embedding_scale,
                             own->input_scale};

    sp_panel_row(out, w->dtype, w->panels, w->cols, id);
    for (size_t i = 0; i < 2; i++) {
        if (scales[i] != 1) r->backend->vector->scale(out, (float)scales[i], w->cols);
    }
}

static void embed_row(void *context, size_t t, unsigned worker)
{
    const struct embed_job *job = context;
    float *x = job->r->x + t * job->r->ld_x;

    (void)worker;
    sp_embed_row(job->r, job->source, job->ids[t], x);
    if (job->r->model->config.embedding_normed) norm(job->r, x, x, NULL, NULL);
}

static void embed(struct sp_workspace *r, const struct sp_model *source, const uint32_t *ids,
                  size_t n)
{
    struct embed_job job = {r, source, ids};

    assert(n <= r->max_rows);
    sp_backend_rows(r->backend, n, embed_row, &job);
    if (r->per_layer) sp_per_layer_embed(r, ids, n);
}

void sp_decoder_embed(struct sp_decoder *d, const struct sp_model *source, const uint32_t *ids,
                      size_t n)
{
    embed(d->workspace, source, ids, n);
}

/* The work of one layer on the rows of a pass, as the row functions below see it. */
struct layer_job {
    struct sp_workspace *r;
    const struct sp_layer *layer;
    size_t n;
    /* Weight of the norm that feeds the next products; NULL: x itself, or a norm without one. */
    const float *norm_in;
    const float *norm_in_bias;
    double scale;          /* of what is added to the residual */
    const float *norm_out; /* weight of the norm on what is added to the residual, or NULL */
};

/* hidden = (norm of) x */
static void norm_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_workspace *r = job->r;
    const float *x = r->x + t * r->ld_x;
    float *hidden = r->hidden.x + t * r->hidden.ld;

    (void)worker;
    if (job->norm_in || r->model->config.norm_weightless) {
        norm(r, hidden, x, job->norm_in, job->norm_in_bias);
    } else {
        memcpy(hidden, x, r->model->config.n_hidden * sizeof *hidden);
    }
}

/* x += (norm of) y, scaled */
static void add_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_workspace *r = job->r;
    float *y = r->y + t * r->ld_x;

    (void)worker;
    if (job->norm_out) norm(r, y, y, job->norm_out, NULL);
    r->backend->vector->fma(r->x + t * r->ld_x, y, (float)job->scale, r->model->config.n_hidden);
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
    return job->r->model->config.norms == SP_NORM_PARALLEL ? add_row : add_norm_row;
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
    case SP_XIELU:
        return SP_GATE_XIELU;
    }
    return SP_GATE_NONE;
}

static void run_ffn(struct layer_job *job)
{
    struct sp_workspace *r = job->r;
    const struct sp_layer *l = job->layer;
    struct sp_product plain_up = {.w = &l->up,
                                  .bias = l->up_bias,
                                  .y = r->ffn.x,
                                  .ldy = r->ffn.ld,
                                  .gate = sp_gate_of(r->model->config.activation),
                                  .factors = r->ones,
                                  .xielu = &l->xielu};
    struct sp_product gate_up[] = {
        {.w = &l->gate,
         .bias = l->gate_bias,
         .y = r->ffn.x,
         .ldy = r->ffn.ld,
         .gate = sp_gate_of(r->model->config.activation)},
        {.w = &l->up, .bias = l->up_bias, .y = r->up, .ldy = r->ld_ffn},
    };
    struct sp_product down = {.w = &l->down, .bias = l->down_bias, .y = r->y, .ldy = r->ld_x};

    if (l->config->n_experts) {
        sp_experts_run(r, l, job->n);
        return;
    }
    if (r->ones) {
        sp_backend_multiply(r->backend, &plain_up, 1, &r->hidden, job->n);
    } else {
        sp_backend_multiply(r->backend, gate_up, 2, &r->hidden, job->n);
    }
    r->ffn.cols = l->down.cols;
    sp_backend_multiply(r->backend, &down, 1, &r->ffn, job->n);
}

static void final_norm(const struct sp_workspace *r, float *out, size_t t)
{
    norm(r, out, r->x + t * r->ld_x, r->model->norm, r->model->norm_bias);
}

/* Keeps the share's rows, from the pass's row `first` on, behind this layer. */
static void keep_taps_of(const struct sp_workspace *r, const struct sp_batch_seq *seq, size_t first,
                         unsigned layer)
{
    const struct sp_decoder_options *options = &seq->decoder->options;
    size_t h = r->model->config.n_hidden;

    for (unsigned i = 0; i < options->n_taps; i++) {
        if (options->taps[i] != layer) continue;
        for (size_t t = 0; t < seq->n; t++) {
            float *feature = seq->decoder->features + (t * options->n_taps + i) * h;
            if (layer == SP_TAP_FINAL) {
                final_norm(r, feature, first + t);
            } else {
                memcpy(feature, r->x + (first + t) * r->ld_x, h * sizeof *feature);
            }
        }
    }
}

static void keep_taps(const struct sp_workspace *r, unsigned layer)
{
    for (size_t i = 0, first = 0; i < r->n_seqs; first += r->seqs[i++].n)
        keep_taps_of(r, &r->seqs[i], first, layer);
}

/* The rotations of the share's rows, from the pass's row `first` on. */
static void rotate_share(struct sp_workspace *r, const struct sp_batch_seq *seq, size_t first)
{
    for (unsigned i = 0; i < r->model->config.n_ropes; i++) {
        const struct sp_rope *rope = &r->model->config.ropes[i];
        size_t half = rope->n_rot / 2;
        for (size_t t = 0; t < seq->n; t++) {
            sp_rope_row(r->rotations[i].cos + (first + t) * half,
                        r->rotations[i].sin + (first + t) * half, seq->decoder->frequencies[i],
                        half, rope->amplitude, seq->pos + t);
        }
    }
}

/* Settles what the pass consists of; returns its rows. */
static size_t begin_pass(struct sp_workspace *r, const struct sp_batch_seq *seqs, size_t n_seqs)
{
    size_t n = 0;

    r->seqs = seqs;
    r->n_seqs = n_seqs;
    for (size_t i = 0; i < n_seqs; n += seqs[i++].n) {
        const struct sp_batch_seq *seq = &seqs[i];
        struct sp_decoder *d = seq->decoder;
        assert(d->workspace == r && seq->n <= d->options.max_rows && seq->n_committed <= seq->n &&
               seq->pos + seq->n <= d->options.n_positions && n + seq->n <= r->max_rows);
        for (size_t t = 0; t < seq->n; t++)
            r->positions[n + t] = seq->pos + t;
        rotate_share(r, seq, n);
    }
    return n;
}

static size_t begin_own(struct sp_decoder *d, size_t n, size_t pos, size_t n_committed)
{
    d->workspace->one =
        (struct sp_batch_seq){.decoder = d, .n = n, .pos = pos, .n_committed = n_committed};
    return begin_pass(d->workspace, &d->workspace->one, 1);
}

/* y = both of what two mixers make */
static void join_row(void *context, size_t t, unsigned worker)
{
    const struct layer_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_config *config = &r->model->config;
    float *y = r->y + t * r->ld_x;

    (void)worker;
    if (config->attention_part != 1) {
        r->backend->vector->scale(y, (float)config->attention_part, config->n_hidden);
    }
    r->backend->vector->fma(y, r->beside + t * r->ld_x, (float)config->mamba_part,
                            config->n_hidden);
}

static void run_attention(struct sp_workspace *r, unsigned layer, size_t n)
{
    if (r->latent) {
        sp_latent_run(r, layer, n);
    } else {
        sp_attention_run(r, layer, n);
    }
}

static void run_both(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *r = job->r;
    float *made;

    sp_mamba_run(r, layer, job->n);
    made = r->y;
    r->y = r->beside;
    r->beside = made;
    sp_attention_run(r, layer, job->n);
    sp_backend_rows(r->backend, job->n, join_row, job);
}

static void run_mixers(struct layer_job *job, unsigned layer)
{
    unsigned mixers = job->layer->config->mixers;

    if (mixers == SP_MIXERS_BESIDE) {
        run_both(job, layer);
        return;
    }
    if (mixers & SP_MIXER_ATTENTION) run_attention(job->r, layer, job->n);
    if (mixers & SP_MIXER_DELTA_NET) sp_delta_run(job->r, layer, job->n);
    if (mixers & SP_MIXER_SHORT_CONV) sp_short_conv_run(job->r, layer, job->n);
    if (mixers & SP_MIXER_MAMBA) sp_mamba_run(job->r, layer, job->n);
}

/* y = what the layer's mixers make of the rows; joins the residual stream with what comes next. */
static void run_mixing(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *r = job->r;
    const struct sp_layer *l = job->layer;

    job->norm_in = l->input_norm;
    job->norm_in_bias = l->input_norm_bias;
    if (!l->config->reads_pair) sp_backend_rows(r->backend, job->n, norm_row, job);
    sp_conv_before(r, &l->attention_conv, job->n);
    run_mixers(job, layer);
    sp_conv_after(r, &l->attention_conv);
    job->norm_out = l->attention_post;
    job->scale = r->model->config.residual_scale;
}

/* The same of its MLP. */
static void run_mlp(struct layer_job *job)
{
    struct sp_workspace *r = job->r;
    const struct sp_layer *l = job->layer;

    job->norm_in = l->ffn_norm;
    job->norm_in_bias = l->ffn_norm_bias;
    sp_backend_rows(r->backend, job->n, before_ffn(job), job);
    sp_conv_before(r, &l->ffn_conv, job->n);
    run_ffn(job);
    sp_conv_after(r, &l->ffn_conv);
    job->norm_out = l->ffn_post;
    job->scale = r->model->config.residual_scale * r->model->config.ffn_out_scale;
}

static void run_layer(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *r = job->r;
    const struct sp_layer *l = job->layer;

    if (l->config->mixers) run_mixing(job, layer);
    if (l->config->n_ffn) run_mlp(job);
    sp_backend_rows(r->backend, job->n, add_row, job);
    if (r->per_layer) {
        sp_per_layer_run(r, layer, job->n);
        job->norm_out = l->per_layer_post;
        job->scale = r->model->config.residual_scale;
        sp_backend_rows(r->backend, job->n, add_row, job);
    }
    for (size_t t = 0; l->scalar != 1 && t < job->n; t++)
        r->backend->vector->scale(r->x + t * r->ld_x, l->scalar, r->model->config.n_hidden);
}

/* The pass's n rows through all layers. */
static void run_layers(struct sp_workspace *r, size_t n)
{
    struct layer_job job = {.r = r, .n = n};

    for (size_t i = 0; i < r->n_seqs; i++) {
        struct sp_decoder *d = r->seqs[i].decoder;
        d->n_run = r->seqs[i].n;
        d->n_committed = r->seqs[i].n_committed;
        if (r->seqs[i].pos == 0) sp_recurrent_reset(d);
    }
    keep_taps(r, SP_TAP_EMBEDDING);
    for (unsigned i = 0; i < r->model->config.n_layers; i++) {
        job.layer = &r->model->layers[i];
        run_layer(&job, i);
        keep_taps(r, i);
    }
    keep_taps(r, SP_TAP_FINAL);
}

void sp_decoder_run(struct sp_decoder *d, size_t n, size_t pos, size_t n_committed)
{
    run_layers(d->workspace, begin_own(d, n, pos, n_committed));
}

void sp_decoder_commit(struct sp_decoder *d, size_t n)
{
    assert(n >= d->n_committed && n <= d->n_run);
    for (unsigned i = 0; i < d->model->config.n_layers; i++)
        sp_recurrent_commit(d, i, n);
}

/* ---- what comes out ---------------------------------------------------------------------------
 */

/* Final norms of rows of the pass, for the head. */
struct final_job {
    struct sp_workspace *r;
    size_t first, to; /* the first row: of x, of hidden */
};

static void final_norm_row(void *context, size_t t, unsigned worker)
{
    const struct final_job *job = context;
    struct sp_workspace *r = job->r;

    (void)worker;
    final_norm(r, r->hidden.x + (job->to + t) * r->hidden.ld, job->first + t);
}

/* The logits of the first n rows of r->hidden. */
static void multiply_head(struct sp_workspace *r, const struct sp_model *source, size_t n)
{
    struct sp_finish finish = {
        .scale = (float)r->model->config.logit_scale,
        .cap = (float)r->model->config.logit_cap,
        .best = r->best_logits,
    };
    struct sp_product head = {
        .w = &source->head,
        .bias = source->head_bias,
        .y = r->logits,
        .ldy = r->ld_logits,
        .finish = &finish,
    };

    assert(n <= r->max_logit_rows);
    sp_backend_multiply(r->backend, &head, 1, &r->hidden, n);
    r->n_logits = source->head.rows;
}

void sp_decoder_logits(struct sp_decoder *d, const struct sp_model *source, size_t first, size_t n)
{
    struct final_job job = {d->workspace, first, 0};

    assert(first + n <= d->options.max_rows);
    sp_backend_rows(d->backend, n, final_norm_row, &job);
    multiply_head(d->workspace, source, n);
    d->logits_at = 0;
}

struct sp_logits sp_decoder_row(const struct sp_decoder *d, size_t t)
{
    const struct sp_workspace *r = d->workspace;
    size_t at = d->logits_at + t;
    uint64_t best = atomic_load_explicit(&r->best_logits[at], memory_order_relaxed);

    return (struct sp_logits){r->logits + at * r->ld_logits, r->n_logits, sp_best_index(best)};
}

const float *sp_decoder_features(const struct sp_decoder *d)
{
    return d->features;
}

/* ---- several sequences ------------------------------------------------------------------------
 */

bool sp_batch_fits(const struct sp_batch_seq *seqs, size_t n_seqs)
{
    const struct sp_workspace *r = seqs[0].decoder->workspace;
    size_t n = 0, n_logits = 0;

    for (size_t i = 0; i < n_seqs; i++) {
        if (seqs[i].decoder->workspace != r) return false;
        n += seqs[i].n;
        n_logits += seqs[i].n_logits;
    }
    return n <= r->max_rows && n_logits <= r->max_logit_rows;
}

/* The rows that the layers are given. */
static void share_inputs(struct sp_workspace *r, size_t n)
{
    for (size_t i = 0, first = 0; i < r->n_seqs; first += r->seqs[i++].n)
        memcpy(r->ids + first, r->seqs[i].ids, r->seqs[i].n * sizeof *r->ids);
    if (r->seqs[0].hidden) {
        sp_embed_pairs(r, n);
    } else {
        embed(r, r->seqs[0].embedder, r->ids, n);
    }
}

/* The logits that the shares want, one share's behind another's. */
static void share_logits(struct sp_workspace *r)
{
    struct final_job job = {.r = r};
    size_t first = 0;

    for (size_t i = 0; i < r->n_seqs; first += r->seqs[i++].n) {
        const struct sp_batch_seq *seq = &r->seqs[i];
        job.first = first + seq->first_logits;
        seq->decoder->logits_at = job.to;
        sp_backend_rows(r->backend, seq->n_logits, final_norm_row, &job);
        job.to += seq->n_logits;
    }
    if (job.to) multiply_head(r, r->seqs[0].head, job.to);
}

void sp_batch_run(const struct sp_batch_seq *seqs, size_t n_seqs)
{
    struct sp_workspace *r = seqs[0].decoder->workspace;
    size_t n = begin_pass(r, seqs, n_seqs);

    assert(sp_batch_fits(seqs, n_seqs));
    share_inputs(r, n);
    run_layers(r, n);
    share_logits(r);
}

/* ---- context of block drafts ------------------------------------------------------------------
 */

void sp_decoder_add_context(struct sp_decoder *d, const float *features, size_t n, size_t pos)
{
    struct sp_workspace *r = d->workspace;
    struct layer_job job = {.r = r, .n = n, .norm_in = d->model->hidden_norm};
    struct sp_product fc = {.w = &d->model->fc, .y = r->x, .ldy = r->ld_x};
    size_t width = d->model->fc.cols;

    begin_own(d, n, pos, n);
    for (size_t t = 0; t < n; t++) {
        memcpy(r->tapped.x + t * r->tapped.ld, features + t * width, width * sizeof(float));
    }
    sp_backend_multiply(r->backend, &fc, 1, &r->tapped, n);
    sp_backend_rows(r->backend, n, norm_row, &job);
    for (unsigned i = 0; i < d->model->config.n_layers; i++)
        sp_attention_store_keys(r, i, n);
}
