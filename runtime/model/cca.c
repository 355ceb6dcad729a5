/* Compressed convolutional attention (arXiv 2510.04476; ZayaCCAProjection in transformers 5.24). D
 * convolves the channels of z = [q, k], then G the heads, both causally and with biases. With each
 * head of k repeated for its heads of q:
 *
 *   m = (q + k) / 2        q <- G(D(z)) + m        k <- G(D(z)) + mean of m over the heads of k
 *
 * The second half of v is a projection of the token before. Before the text all rows are zero.
 *
 * The state of a sequence is the last rows of z and of that projection, without those of rejected
 * draft tokens. */
#include "runtime/model/sublayers.h"

#include <string.h>

struct sp_cca_scratch {
    size_t n_heads, channels; /* of q and k */
    size_t n_before, width;   /* rows of the state, and their floats: q, k, delayed half of v */
    float *input;             /* [n_before + max_rows][ld] rows after those of the state */
    size_t ld;
    struct sp_acts taps; /* [n_heads * max_rows][head_dim * mix_kernel], head by head: of each
                            channel its last convolved rows, the oldest first */
    float *mixed;        /* [n_heads * max_rows][ld_mixed], head by head */
    size_t ld_mixed;
    struct sp_row_group *groups; /* [n_heads] */
};

void sp_cca_open(struct sp_workspace *ws)
{
    const struct sp_cca_config *c = &ws->model->config.cca;
    const struct sp_layer_config *l = ws->model->config.layers;
    struct sp_cca_scratch *s;
    size_t rows, half = (size_t)l->n_kv_heads * l->head_dim / 2;

    if (c->kernel == 0) return;
    if ((s = ws->cca = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->n_heads = l->n_heads + l->n_kv_heads;
    s->channels = s->n_heads * l->head_dim;
    s->n_before = c->kernel + c->mix_kernel - 2;
    s->width = s->channels + half;
    s->ld = s->channels + sp_matrix_ld(half);
    s->ld_mixed = sp_matrix_ld(l->head_dim);
    rows = ws->max_rows * s->n_heads;
    s->input = sp_arena_rows(&ws->memory, s->n_before + ws->max_rows, s->ld);
    s->taps = sp_arena_acts(&ws->memory, rows, (size_t)l->head_dim * c->mix_kernel);
    s->mixed = sp_arena_rows(&ws->memory, rows, s->ld_mixed);
    s->groups = sp_arena_new(&ws->memory, s->n_heads, sizeof *s->groups);
}

/* One pass of a layer. */
struct cca_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    size_t n;
    size_t first; /* first row of the current sequence */
};

static void gather_row(void *context, size_t t)
{
    const struct cca_job *job = context;
    const struct sp_workspace *ws = job->ws;
    float *row = ws->cca->input + (ws->cca->n_before + t) * ws->cca->ld;
    size_t q = job->layer->q.rows;

    memcpy(row, ws->q + t * ws->ld_q, q * sizeof *row);
    memcpy(row + q, ws->k + t * ws->ld_kv, job->layer->k.rows * sizeof *row);
}

/* Convolves the channels of row i of a sequence, of the first row also those of the rows before it
 * that G reads. Number u of these is read by rows u - mix_kernel + 1 to u of the pass. */
static void convolve_row(void *context, size_t i)
{
    const struct cca_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_cca_config *c = &ws->model->config.cca;
    const struct sp_cca_weights *w = &job->layer->cca;
    const struct sp_cca_scratch *s = ws->cca;
    size_t dim = job->layer->config->head_dim, half = s->width - s->channels, t = job->first + i;

    for (size_t u = i ? t + c->mix_kernel - 1 : t; u < t + c->mix_kernel; u++) {
        for (size_t at = 0; at < s->channels; at++) {
            const float *z = s->input + u * s->ld + at;
            float *taps = s->taps.x + at % dim * c->mix_kernel, y = w->bias[at];
            for (size_t k = 0; k < c->kernel; k++)
                y += w->taps[at * c->kernel + k] * z[k * s->ld];
            for (size_t j = 0; j < c->mix_kernel; j++)
                if (u >= job->first + j && u - j < job->n)
                    taps[(at / dim * job->n + u - j) * s->taps.ld + j] = y;
        }
    }
    memcpy(ws->v + t * ws->ld_kv + half, s->input + (s->n_before + t - 1) * s->ld + s->channels,
           half * sizeof *ws->v);
}

/* q and k = their means m, and what G made of them. */
static void mix_row(void *context, size_t t)
{
    const struct cca_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_layer_config *l = job->layer->config;
    size_t dim = l->head_dim, n = l->n_heads / l->n_kv_heads, step = job->n * ws->cca->ld_mixed;
    const float *mixed = ws->cca->mixed + t * ws->cca->ld_mixed;
    float *q = ws->q + t * ws->ld_q, *k = ws->k + t * ws->ld_kv;

    for (size_t h = 0; h < l->n_heads; h++) {
        vector->add(q + h * dim, k + h / n * dim, dim);
        vector->scale(q + h * dim, 0.5f, dim);
    }
    for (size_t h = 0; h < l->n_kv_heads; h++)
        memcpy(k + h * dim, mixed + (l->n_heads + h) * step, dim * sizeof *k);
    for (size_t h = 0; h < l->n_heads; h++) {
        vector->fma(k + h / n * dim, q + h * dim, 1.0f / (float)n, dim);
        vector->add(q + h * dim, mixed + h * step, dim);
    }
}

void sp_cca_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_cca_scratch *s = ws->cca;
    struct cca_job job = {.ws = ws, .layer = l, .n = n};
    const struct sp_product mix = {
        .w = &l->cca.mix, .bias = l->cca.mix_bias, .y = s->mixed, .ldy = s->ld_mixed};

    sp_backend_product(ws->backend, s->input + s->n_before * s->ld + s->channels, s->ld,
                       &l->cca.delayed, NULL, &ws->hidden, n);
    sp_backend_rows(ws->backend, n, gather_row, &job);
    sp_conv_history_run(ws, layer, 0, s->input, s->ld, convolve_row, &job, &job.first);
    sp_backend_multiply_heads(ws->backend, &mix, &s->taps, s->groups, s->n_heads, n);
    sp_backend_rows(ws->backend, n, mix_row, &job);
}
