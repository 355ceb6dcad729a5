/* Mixture of experts: each row goes to the few experts that its router chose.
 *
 * Experts are taken in ascending order, each with all the rows that chose it, so its weights are
 * read once a pass; a row adds what its experts give it in that same order, whatever the other rows
 * do. Routing follows transformers: softmax over all experts, then the best k (Qwen3-MoE;
 * renormalised if the config says so), or the best k logits, then softmax over these (gpt-oss).
 * Ties: lower index. */
#include "runtime/decoder.h"

#include "format/mem.h"
#include "runtime/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_experts_open(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    size_t rows = d->options.max_rows;
    struct sp_expert_scratch *e = NULL;
    unsigned n_experts = 0, used = 0;
    enum sp_status st;

    for (unsigned i = 0; i < config->n_layers; i++) {
        if (config->layers[i].n_experts > n_experts) n_experts = config->layers[i].n_experts;
        if (config->layers[i].n_experts_used > used) used = config->layers[i].n_experts_used;
    }
    if (n_experts == 0) return SP_OK;
    if ((st = sp_new(&e, 1, sizeof *e, err))) return st;
    d->experts = e;
    e->max_used = used;
    e->ld_scores = sp_matrix_ld(n_experts);
    if ((st = sp_new_aligned(&e->scores, rows * e->ld_scores, sizeof *e->scores, err))) return st;
    if ((st = sp_new(&e->chosen, rows * used, sizeof *e->chosen, err))) return st;
    if ((st = sp_new(&e->weights, rows * used, sizeof *e->weights, err))) return st;
    if ((st = sp_new(&e->rows, rows, sizeof *e->rows, err))) return st;
    if ((st = sp_new(&e->row_weights, rows, sizeof *e->row_weights, err))) return st;
    if ((st = sp_new_aligned(&e->y, rows * d->ld_x, sizeof *e->y, err))) return st;
    if ((st = sp_new_aligned(&e->shared, rows * d->ld_x, sizeof *e->shared, err))) return st;
    e->ld_share = sp_matrix_ld(1);
    if ((st = sp_new_aligned(&e->share, rows * e->ld_share, sizeof *e->share, err))) return st;
    if ((st = sp_acts_init(&e->routed, rows, config->n_hidden, err))) return st;
    return sp_acts_init(&e->input, rows, config->n_hidden, err);
}

void sp_experts_close(struct sp_decoder *d)
{
    struct sp_expert_scratch *e = d->experts;

    if (e == NULL) return;
    free(e->scores);
    free(e->chosen);
    free(e->weights);
    free(e->rows);
    free(e->row_weights);
    free(e->y);
    free(e->shared);
    free(e->share);
    sp_acts_release(&e->routed);
    sp_acts_release(&e->input);
    free(e);
}

/* A layer's rows, as the row functions below see them. */
struct route_job {
    struct sp_decoder *d;
    const struct sp_layer *layer;
    const struct sp_layer_config *config;
};

/* The k largest of n scores, in descending order, ties by lower index. */
static void find_best(unsigned *best, unsigned k, const float *scores, unsigned n)
{
    unsigned len = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned at = len;
        if (len == k && !(scores[i] > scores[best[k - 1]])) continue;
        while (at > 0 && scores[i] > scores[best[at - 1]])
            at--;
        if (len < k) len++;
        memmove(best + at + 1, best + at, (len - at - 1) * sizeof *best);
        best[at] = i;
    }
}

static void route_row(void *context, size_t t, unsigned worker)
{
    const struct route_job *job = context;
    const struct sp_decoder *d = job->d;
    const struct sp_config *config = &d->model->config;
    const struct sp_vector *vector = d->engine->vector;
    struct sp_expert_scratch *e = d->experts;
    float *scores = e->scores + t * e->ld_scores, *weights = e->weights + t * e->max_used;
    unsigned *chosen = e->chosen + t * e->max_used, k = job->config->n_experts_used;
    float max, sum;

    (void)worker;
    find_best(chosen, k, scores, job->config->n_experts);
    if (config->router_bias) {
        for (unsigned i = 0; i < k; i++)
            weights[i] = scores[chosen[i]];
        memcpy(scores, weights, k * sizeof *scores);
        vector->softmax(scores, 0, k, &max, &sum);
        for (unsigned i = 0; i < k; i++)
            weights[i] = scores[i] / sum;
        return;
    }
    vector->softmax(scores, 0, job->config->n_experts, &max, &sum);
    for (unsigned i = 0; i < k; i++)
        weights[i] = scores[chosen[i]] / sum;
    if (!config->router_norm) return;
    sum = 0;
    for (unsigned i = 0; i < k; i++)
        sum += weights[i];
    for (unsigned i = 0; i < k; i++)
        weights[i] /= sum;
    for (unsigned i = 0; job->layer->expert_scale && i < k; i++) {
        weights[i] *= job->layer->expert_scale[chosen[i]];
    }
}

/* Gemma 4 routes by the residual stream itself: normed without weight, scaled. */
static void prepare_routed_row(void *context, size_t t, unsigned worker)
{
    const struct route_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_vector *vector = d->engine->vector;
    float *row = d->experts->routed.x + t * d->experts->routed.ld;
    size_t n = d->model->config.n_hidden;

    (void)worker;
    vector->rms_norm(row, d->x + t * d->ld_x, NULL, n, (float)d->model->config.norm_eps);
    vector->mul(row, job->layer->router_scale, n);
    vector->scale(row, (float)(1 / sqrt((double)n)), n);
}

/* ... and its experts see a norm of their own. */
static void prepare_expert_row(void *context, size_t t, unsigned worker)
{
    const struct route_job *job = context;
    struct sp_decoder *d = job->d;

    (void)worker;
    d->engine->vector->rms_norm(d->hidden.x + t * d->hidden.ld, d->x + t * d->ld_x,
                                job->layer->experts_norm, d->model->config.n_hidden,
                                (float)d->model->config.norm_eps);
}

/* The dense MLP beside the experts, of the rows of d->hidden. */
static void run_shared(struct sp_decoder *d, const struct sp_layer *l, size_t n)
{
    struct sp_expert_scratch *e = d->experts;
    struct sp_product in[] = {
        {.w = &l->shared_gate,
         .y = d->ffn.x,
         .ldy = d->ffn.ld,
         .gate = sp_gate_of(d->model->config.activation)},
        {.w = &l->shared_up, .y = d->up, .ldy = d->ld_ffn},
        {.w = &l->shared_weight, .y = e->share, .ldy = e->ld_share},
    };
    struct sp_product out = {.w = &l->shared_down, .y = e->shared, .ldy = d->ld_x};

    sp_engine_multiply(d->engine, in, l->shared_weight.rows ? 3 : 2, &d->hidden, n);
    d->ffn.cols = l->shared_down.cols;
    sp_engine_multiply(d->engine, &out, 1, &d->ffn, n);
}

/* y += sigmoid(w . x) * shared, or y = norm(y) + norm(shared) */
static void add_shared_row(void *context, size_t t, unsigned worker)
{
    const struct route_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_vector *vector = d->engine->vector;
    size_t n = d->model->config.n_hidden;
    float *y = d->y + t * d->ld_x, *shared = d->experts->shared + t * d->ld_x;
    float eps = (float)d->model->config.norm_eps;

    (void)worker;
    if (d->model->config.expert_norms) {
        vector->rms_norm(y, y, job->layer->experts_post, n, eps);
        vector->rms_norm(shared, shared, job->layer->shared_post, n, eps);
        vector->add(y, shared, n);
    } else {
        const float *share = d->experts->share + t * d->experts->ld_share;
        vector->fma(y, shared, job->layer->shared_weight.rows ? sp_sigmoidf(*share) : 1, n);
    }
}

/* Copies the normed rows that chose expert `id` together; returns their number. */
static size_t gather(struct sp_decoder *d, const struct sp_layer_config *config, unsigned id,
                     size_t n)
{
    struct sp_expert_scratch *e = d->experts;
    size_t n_rows = 0;

    for (size_t t = 0; t < n; t++) {
        for (unsigned i = 0; i < config->n_experts_used; i++) {
            if (e->chosen[t * e->max_used + i] != id) continue;
            e->rows[n_rows] = t;
            e->row_weights[n_rows] = e->weights[t * e->max_used + i];
            memcpy(e->input.x + n_rows * e->input.ld, d->hidden.x + t * d->hidden.ld,
                   d->model->config.n_hidden * sizeof(float));
            n_rows++;
        }
    }
    return n_rows;
}

static const float *bias_of(const float *biases, size_t rows, size_t expert)
{
    return biases ? biases + expert * rows : NULL;
}

static void run_expert(struct sp_decoder *d, const struct sp_layer *l, unsigned id, size_t n_rows)
{
    struct sp_expert_scratch *e = d->experts;
    struct sp_matrix gate = sp_matrix_at(&l->gate, id), up = sp_matrix_at(&l->up, id);
    struct sp_matrix down = sp_matrix_at(&l->down, id);
    struct sp_product gate_up[] = {
        {.w = &gate,
         .bias = bias_of(l->gate_bias, gate.rows, id),
         .y = d->ffn.x,
         .ldy = d->ffn.ld,
         .gate = sp_gate_of(d->model->config.activation),
         .limit = (float)d->model->config.swiglu_limit},
        {.w = &up, .bias = bias_of(l->up_bias, up.rows, id), .y = d->up, .ldy = d->ld_ffn},
    };
    struct sp_product out = {
        .w = &down, .bias = bias_of(l->down_bias, down.rows, id), .y = e->y, .ldy = d->ld_x};

    sp_engine_multiply(d->engine, gate_up, 2, &e->input, n_rows);
    d->ffn.cols = down.cols;
    sp_engine_multiply(d->engine, &out, 1, &d->ffn, n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        d->engine->vector->fma(d->y + e->rows[i] * d->ld_x, e->y + i * d->ld_x, e->row_weights[i],
                               d->model->config.n_hidden);
    }
}

void sp_experts_run(struct sp_decoder *d, const struct sp_layer *layer, size_t n)
{
    struct sp_expert_scratch *e = d->experts;
    struct route_job job = {d, layer, layer->config};
    struct sp_product router = {
        .w = &layer->router, .bias = layer->router_bias, .y = e->scores, .ldy = e->ld_scores};
    const struct sp_acts *routed = layer->router_scale ? &e->routed : &d->hidden;

    if (layer->router_scale) sp_engine_rows(d->engine, n, prepare_routed_row, &job);
    sp_engine_multiply(d->engine, &router, 1, routed, n);
    sp_engine_rows(d->engine, n, route_row, &job);
    if (layer->shared_down.rows) run_shared(d, layer, n);
    if (layer->experts_norm) sp_engine_rows(d->engine, n, prepare_expert_row, &job);
    for (size_t t = 0; t < n; t++) {
        memset(d->y + t * d->ld_x, 0, d->model->config.n_hidden * sizeof(float));
    }
    for (unsigned id = 0; id < layer->config->n_experts; id++) {
        size_t n_rows = gather(d, layer->config, id, n);
        if (n_rows) run_expert(d, layer, id, n_rows);
    }
    if (layer->shared_down.rows) sp_engine_rows(d->engine, n, add_shared_row, &job);
}
