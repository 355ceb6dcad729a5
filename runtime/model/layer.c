/* The layers of a pass, in the order of the formulas: norm, mixer, residual add; norm, MLP,
 * residual add. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <string.h>

/* out = the norm of a row of the width of the residual stream; out may be x. */
static void norm_by(const struct sp_workspace *ws, float *out, const float *x, const float *weight,
                    const float *bias, double eps)
{
    const struct sp_config *config = &ws->model->config;
    size_t n = config->n_hidden;

    if (config->unit.init != 0) {
        ws->backend->vector->l2_norm(out, x, n, (float)eps, 1);
        return;
    }
    if (config->norm_centered) sp_center(out, x, n);
    ws->backend->vector->rms_norm(out, config->norm_centered ? out : x, weight, n, (float)eps);
    if (bias) ws->backend->vector->add(out, bias, n);
}

void sp_norm_row(const struct sp_workspace *ws, float *out, const float *x, const float *weight,
                 const float *bias)
{
    norm_by(ws, out, x, weight, bias, ws->model->config.norm_eps);
}

void sp_final_norm(const struct sp_workspace *ws, float *out, size_t t)
{
    const float *x = ws->x + t * ws->ld_x;

    if (ws->model->config.draft.unnormed)
        memcpy(out, x, ws->model->config.n_hidden * sizeof *x);
    else
        sp_norm_row(ws, out, x, ws->model->norm, ws->model->norm_bias);
}

void sp_affine_row(const struct sp_workspace *ws, const struct sp_affine *a, float *x)
{
    if (a->scale == NULL) return;
    ws->backend->vector->add(x, a->bias, ws->model->config.n_hidden);
    ws->backend->vector->mul(x, a->scale, ws->model->config.n_hidden);
}

/* The state of one layer's pass, read by the row functions below. */
struct layer_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    size_t n;
    /* Weight and bias of the norm before the next products; NULL: no norm, or no weight. */
    const float *norm_in, *norm_in_bias;
    /* Factor of the normed input that becomes the residual stream; 0: the stream stays as it is. */
    double stream_scale;
    /* Scale of the row that is added to the residual stream, and weight of its norm, or NULL. */
    double scale, keep; /* keep: factor of the stream */
    const float *norm_out, *norm_out_bias;
    const float *rates;             /* of sp_config.unit; NULL: there are none */
    const struct sp_affine *affine; /* [2] of the row and of the stream */
};

/* hidden = (norm of) x. */
static void norm_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    float *x = ws->x + t * ws->ld_x, *hidden = ws->hidden.x + t * ws->hidden.ld;
    size_t n = ws->model->config.n_hidden;

    if (job->norm_in || ws->model->config.norm_weightless)
        sp_norm_row(ws, hidden, x, job->norm_in, job->norm_in_bias);
    else
        memcpy(hidden, x, n * sizeof *hidden);
    if (job->stream_scale == 0) return;
    memcpy(x, hidden, n * sizeof *x);
    ws->backend->vector->scale(x, (float)job->stream_scale, n);
}

/* x += (norm of) y, scaled; or x = norm of (x + y), scaled. */
static void add_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    float *x = ws->x + t * ws->ld_x, *y = ws->y + t * ws->ld_x;
    bool residual = ws->model->config.norms == SP_NORM_RESIDUAL;

    if (job->rates) {
        sp_norm_row(ws, y, y, NULL, NULL);
        for (size_t i = 0; i < ws->model->config.n_hidden; i++)
            x[i] += job->rates[i] * (y[i] - x[i]);
        return;
    }
    if (job->norm_out && !residual)
        norm_by(ws, y, y, job->norm_out, NULL, ws->model->config.post_norm_eps);
    sp_affine_row(ws, &job->affine[0], y);
    sp_affine_row(ws, &job->affine[1], x);
    if (job->keep != 1) ws->backend->vector->scale(x, (float)job->keep, ws->model->config.n_hidden);
    ws->backend->vector->fma(x, y, (float)job->scale, ws->model->config.n_hidden);
    if (job->norm_out && residual) sp_norm_row(ws, x, x, job->norm_out, job->norm_out_bias);
}

/* Between a layer's mixer, if it has one, and its MLP: x += (norm of) y, scaled, and hidden = (norm
 * of) x. In a parallel block the MLP reads the same input as the mixer; twins both read x as it was
 * before. With LAuReL, x = (x + (norm of) y + LAuReL) / sqrt 2. */
static void before_ffn_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    bool adds = job->layer->config->mixers != 0 && !job->ws->hyper;
    enum sp_norms norms = adds ? job->layer->config->norms : SP_NORM_PRE;

    if (norms == SP_NORM_TWIN) norm_row(context, t);
    if (adds) add_row(context, t);
    if (adds && job->ws->altup) sp_laurel_add(job->ws, t);
    if (norms != SP_NORM_TWIN && norms != SP_NORM_PARALLEL) norm_row(context, t);
}

size_t sp_mlp_products(struct sp_product in[2], const struct sp_workspace *ws,
                       const struct sp_matrix *gate, const struct sp_matrix *up,
                       const struct sp_factor_limits *limits, const struct sp_acts *into,
                       float *factors)
{
    bool plain = gate->rows == 0;

    in[0] = (struct sp_product){.w = plain ? up : gate,
                                .y = into->x,
                                .ldy = into->ld,
                                .gated = true,
                                .activation = ws->model->config.activation,
                                .factors = ws->ones,
                                .into = into};
    in[1] = (struct sp_product){.w = up, .y = factors, .ldy = ws->ld_ffn};
    if (plain) return 1;
    in[0].limit = limits->up;
    in[0].gate_limit = limits->gate;
    return 2;
}

static void run_ffn(struct layer_job *job)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    struct sp_product in[2];
    size_t n_in = sp_mlp_products(in, ws, &l->gate, &l->up, &l->limits[1], &ws->ffn, ws->up);

    if (l->config->n_experts) {
        sp_experts_run(ws, l, job->n);
        return;
    }
    in[0].bias = n_in == 1 ? l->up_bias : l->gate_bias;
    in[0].scales = l->gate_scales;
    in[0].xielu = n_in == 1 ? &l->xielu : NULL;
    in[1].bias = l->up_bias;
    in[1].scales = l->up_scales;
    sp_backend_prepare(ws->backend, &ws->ffn, &l->down);
    if (ws->model->config.inner_norms) ws->ffn.coded = false;
    if (l->altup.cutoff != 0)
        sp_sparse_gate_run(ws, l, job->n);
    else
        sp_backend_multiply(ws->backend, in, n_in, &ws->hidden, job->n);
    sp_inner_norm_run(ws, &ws->ffn, l->down_norm, l->down.cols, job->n);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &l->down, l->down_bias, &ws->ffn, job->n);
}

/* y = the weighted sum of the outputs of two parallel mixers. */
static void join_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_config *config = &ws->model->config;
    float *y = ws->y + t * ws->ld_x;

    if (config->attention_out_scale != 1)
        ws->backend->vector->scale(y, (float)config->attention_out_scale, config->n_hidden);
    ws->backend->vector->fma(y, ws->mamba_y + t * ws->ld_x, (float)config->mamba_out_scale,
                             config->n_hidden);
}

static void run_attention(struct sp_workspace *ws, unsigned layer, size_t n)
{
    if (ws->latent_attention)
        sp_latent_attention_run(ws, layer, n);
    else if (ws->compressed)
        sp_compressed_attention_run(ws, layer, n);
    else
        sp_self_attention_run(ws, layer, n);
}

static void run_parallel_mixers(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    float *mamba_y;

    sp_mamba_run(ws, layer, job->n);
    mamba_y = ws->y;
    ws->y = ws->mamba_y;
    ws->mamba_y = mamba_y;
    sp_self_attention_run(ws, layer, job->n);
    sp_backend_rows(ws->backend, job->n, join_row, job);
}

static void run_mixers(struct layer_job *job, unsigned layer)
{
    unsigned mixers = job->layer->config->mixers;

    if (sp_layer_has_block(job->layer->config)) {
        mixers = SP_MIXER_MAMBA;
    } else if (mixers == SP_PARALLEL_MIXERS) {
        run_parallel_mixers(job, layer);
        return;
    }
    if (mixers & SP_MIXER_ATTENTION) run_attention(job->ws, layer, job->n);
    if (mixers & SP_MIXER_DELTA_NET) sp_delta_net_run(job->ws, layer, job->n);
    if (mixers & SP_MIXER_SHORT_CONV) sp_short_conv_run(job->ws, layer, job->n);
    if (mixers & SP_MIXER_MAMBA) sp_mamba_run(job->ws, layer, job->n);
}

/* pairs = norm of [x, kept rows]. */
static void pair_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    size_t n = ws->model->config.n_hidden;
    float *pair = ws->pairs.x + t * ws->pairs.ld;

    memcpy(pair, ws->x + t * ws->ld_x, n * sizeof *pair);
    memcpy(pair + n, ws->kept + t * ws->ld_x, n * sizeof *pair);
    ws->backend->vector->rms_norm(pair, pair, job->layer->pair_norm, 2 * n,
                                  (float)ws->model->config.norm_eps);
}

/* hidden = y, normed if there is a norm. */
static void pass_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    float *hidden = ws->hidden.x + t * ws->hidden.ld;

    memcpy(hidden, ws->y + t * ws->ld_x, ws->model->config.n_hidden * sizeof *hidden);
    if (job->norm_in) sp_norm_row(ws, hidden, hidden, job->norm_in, NULL);
}

/* y = x + y; hidden = norm of y. */
static void sum_norm_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;

    ws->backend->vector->add(ws->y + t * ws->ld_x, ws->x + t * ws->ld_x,
                             ws->model->config.n_hidden);
    pass_row(context, t);
}

/* Runs the block before a Mamba: hidden = the Mamba's input (sp_layer_has_block). */
static void run_block(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;

    sp_backend_rows(ws->backend, job->n, pair_row, job);
    run_attention(ws, layer, job->n);
    job->norm_in = job->layer->ffn_norm;
    sp_backend_rows(ws->backend, job->n, pass_row, job);
    run_ffn(job);
    job->norm_in = NULL;
    sp_backend_rows(ws->backend, job->n, pass_row, job);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &job->layer->block_out, NULL, &ws->hidden,
                       job->n);
    job->norm_in = job->layer->input_norm;
    sp_backend_rows(ws->backend, job->n, sum_norm_row, job);
}

/* Runs the mixers of a layer: y = their output, to be added to the residual stream. */
static void run_mixer_sublayer(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;

    if (ws->hyper) sp_hyper_read(ws, &l->hyper[0], job->n);
    job->stream_scale = l->config->stream_scales[0];
    job->norm_in = l->input_norm;
    job->norm_in_bias = l->input_norm_bias;
    if (sp_layer_has_block(l->config))
        run_block(job, layer);
    else if (ws->block_attention)
        sp_block_attention_read_mixer(ws, l, job->n);
    else if (!l->config->reads_pair)
        sp_backend_rows(ws->backend, job->n, norm_row, job);
    sp_gated_norm_run(ws, &ws->hidden, &l->input_gate, job->n);
    if (ws->altup) sp_laurel_run(ws, l, job->n);
    sp_block_conv_before(ws, &l->attention_conv, job->n);
    run_mixers(job, layer);
    sp_block_conv_after(ws, &l->attention_conv);
    if (l->residual_taps[SP_CONV_MIXER])
        sp_residual_conv_run(ws, layer, SP_CONV_MIXER, ws->y, ws->ld_x, job->n);
    job->norm_out = l->attention_post;
    job->rates = l->rates[0];
    job->affine = l->affine[0];
    job->norm_out_bias = l->attention_post_bias;
    job->scale = ws->model->config.residual_scale * l->config->out_scales[0];
    job->keep = l->config->keep_scales[0];
}

/* Adds the mixers' output to the residual stream and runs the MLP of a layer: y = its output. */
static void run_mlp_sublayer(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;

    if (ws->hyper) {
        sp_hyper_write(ws, job->n);
        sp_hyper_read(ws, &l->hyper[1], job->n);
    }
    job->stream_scale = l->config->stream_scales[1];
    job->norm_in = l->ffn_norm;
    job->norm_in_bias = l->ffn_norm_bias;
    if (ws->block_attention) {
        sp_backend_rows(ws->backend, job->n, add_row, job);
        sp_block_attention_read_mlp(ws, l, job->n);
    } else {
        sp_backend_rows(ws->backend, job->n, before_ffn_row, job);
    }
    sp_gated_norm_run(ws, &ws->hidden, &l->ffn_gate, job->n);
    sp_block_conv_before(ws, &l->ffn_conv, job->n);
    run_ffn(job);
    sp_block_conv_after(ws, &l->ffn_conv);
    if (l->residual_taps[SP_CONV_MLP])
        sp_residual_conv_run(ws, layer, SP_CONV_MLP, ws->y, ws->ld_x, job->n);
    job->norm_out = l->ffn_post;
    job->rates = l->rates[1];
    job->affine = l->affine[1];
    job->norm_out_bias = l->ffn_post_bias;
    job->scale = ws->model->config.residual_scale * ws->model->config.ffn_out_scale *
                 l->config->out_scales[1];
    job->keep = l->config->keep_scales[1];
}

/* x += what the layer before deferred. */
static void add_deferred_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;

    ws->backend->vector->add(ws->x + t * ws->ld_x, ws->deferred + t * ws->ld_x,
                             ws->model->config.n_hidden);
}

static void run_layer(struct layer_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;

    if (ws->altup) sp_altup_predict(ws, l, job->n);
    if (l->config->ngrams) sp_ngrams_run(ws, layer, job->n);
    if (l->config->mixers) run_mixer_sublayer(job, layer);
    if (l->config->n_ffn && !sp_layer_has_block(l->config)) run_mlp_sublayer(job, layer);
    if (ws->hyper)
        sp_hyper_write(ws, job->n);
    else
        sp_backend_rows(ws->backend, job->n, add_row, job);
    if (layer > 0 && l[-1].config->defers_experts)
        sp_backend_rows(ws->backend, job->n, add_deferred_row, job);
    if (ws->altup) {
        sp_altup_correct(ws, layer, job->n);
    } else if (ws->per_layer) {
        sp_per_layer_run(ws, layer, job->n);
        job->norm_out = l->per_layer_post;
        job->keep = 1;
        job->scale = ws->model->config.residual_scale;
        sp_backend_rows(ws->backend, job->n, add_row, job);
    }
    for (size_t t = 0; l->scalar != 1 && t < job->n; t++)
        ws->backend->vector->scale(ws->x + t * ws->ld_x, l->scalar, ws->model->config.n_hidden);
}

/* What enum sp_join says. */
static void join_streams_row(void *context, size_t t)
{
    const struct layer_job *job = context;
    struct sp_workspace *ws = job->ws;
    unsigned joins = job->layer->config->joins;
    size_t n = ws->model->config.n_hidden;
    float *x = ws->x + t * ws->ld_x, *kept = ws->kept + t * ws->ld_x;

    if (joins & SP_JOIN_NORM) sp_final_norm(ws, x, t);
    if (joins & SP_JOIN_FIRST) {
        memcpy(kept, x, n * sizeof *x);
        if (ws->model->start) memcpy(x, ws->model->start, n * sizeof *x);
    }
    for (size_t i = 0; (joins & SP_JOIN_ADD) && i < n; i++) {
        float sum = x[i] + kept[i];
        if (joins & SP_JOIN_KEEP) kept[i] = x[i];
        x[i] = sum;
    }
}

void sp_layer_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    struct layer_job job = {.ws = ws, .layer = &ws->model->layers[layer], .n = n};

    if (job.layer->config->joins) sp_backend_rows(ws->backend, n, join_streams_row, &job);
    run_layer(&job, layer);
}

void sp_layer_read(struct sp_workspace *ws, const float *weight, double stream_scale, size_t n)
{
    struct layer_job job = {.ws = ws, .n = n, .norm_in = weight, .stream_scale = stream_scale};

    sp_backend_rows(ws->backend, n, norm_row, &job);
}
