/* Hyper-connections (arXiv 2409.19606) as in the modeling files hy_v4 and glm5_next of transformers
 * 5.24. With k streams H_i, which begin as copies of the embedding, and flat(H) all of them in one
 * row:
 *
 *   m = (W flat(H)) / sqrt(mean(flat(H)^2) + norm_eps)
 *   a_i = sigmoid(m_i scale_0 + base_i) + eps
 *   b_i = strength sigmoid(m_(k+i) scale_1 + base_(k+i)) + out_eps
 *   a sublayer reads sum_i a_i H_i and adds b_i times its output to H_i
 *
 * Before that H_i becomes sum_j C_ji H_j where streams mix: C begins as the softmax of each row of
 * m_(2k+..) scale_2 + base_(2k+..), a [k][k], plus eps; then its columns and rows are divided by
 * (their sum + eps) in turn, n_balance times, rows not at first.
 *
 * The head reads likewise, or the mean. The sum of squares is double, so all instruction sets use
 * the same code.
 *
 * Gated streams (qwen4_exp in transformers 5.24), with n_i = RMSNorm(H_i) / k and flat(n):
 *
 *   a sublayer, or the head, reads sum_i sigmoid(up silu(down flat(n)))_i n_i
 *   b = strength sigmoid(W flat(n)) is the weight of what it writes */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

struct sp_hyper_scratch {
    struct sp_acts streams; /* [max_rows][k H], the streams of a row one after another */
    struct sp_acts normed;  /* the same of gated streams, normed */
    float *mix;             /* [max_rows][ld_mix]: m, which becomes a, b and C */
    size_t ld_mix;
};

void sp_hyper_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    size_t k = config->hyper.n_streams;
    struct sp_hyper_scratch *s;

    if (k == 0) return;
    if ((s = ws->hyper = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->ld_mix = sp_matrix_ld(2 * k + k * k);
    s->mix = sp_arena_rows(&ws->memory, ws->max_rows, s->ld_mix);
    if (config->hyper.rank)
        s->normed = sp_arena_acts(&ws->memory, ws->max_rows, k * config->n_hidden);
    s->streams = sp_arena_acts(&ws->memory, ws->max_rows, k * config->n_hidden);
}

struct hyper_job {
    struct sp_workspace *ws;
    const struct sp_hyper_weights *w;
};

float *sp_hyper_streams(const struct sp_workspace *ws, size_t t)
{
    return ws->hyper->streams.x + t * ws->hyper->streams.ld;
}

static void begin_row(void *context, size_t t)
{
    const struct sp_workspace *ws = context;
    size_t n = ws->model->config.n_hidden;

    for (size_t i = 0; i < ws->model->config.hyper.n_streams; i++)
        memcpy(sp_hyper_streams(ws, t) + i * n, ws->x + t * ws->ld_x, n * sizeof *ws->x);
}

void sp_hyper_begin(struct sp_workspace *ws, size_t n)
{
    sp_backend_rows(ws->backend, n, begin_row, ws);
}

/* Divides k numbers, `step` apart, by their sum + eps. */
static void divide(float *c, size_t k, size_t step, float eps)
{
    float sum = eps;

    for (size_t i = 0; i < k; i++)
        sum += c[i * step];
    for (size_t i = 0; i < k; i++)
        c[i * step] /= sum;
}

/* The matrix by which streams mix, of its logits. */
static void balance(float *c, const struct sp_hyper_config *config)
{
    size_t k = config->n_streams;
    float eps = (float)config->eps;

    for (float *row = c; row < c + k * k; row += k) {
        float max = row[0];
        for (size_t i = 1; i < k; i++)
            max = row[i] > max ? row[i] : max;
        for (size_t i = 0; i < k; i++)
            row[i] = sp_expf(row[i] - max);
        divide(row, k, 1, 0);
        for (size_t i = 0; i < k; i++)
            row[i] += eps;
    }
    for (unsigned n = 0; n < config->n_balance; n++) {
        for (size_t i = 0; n && i < k; i++)
            divide(c + i * k, k, 1, eps);
        for (size_t i = 0; i < k; i++)
            divide(c + i, k, k, eps);
    }
}

/* Replaces m by the weights, and sums the streams by the first of them. */
static void read_row(void *context, size_t t)
{
    const struct hyper_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_config *config = &ws->model->config;
    const struct sp_hyper_config *c = &config->hyper;
    const float *streams = sp_hyper_streams(ws, t);
    float *m = ws->hyper->mix + t * ws->hyper->ld_mix, *x = ws->x + t * ws->ld_x, factor;
    size_t n = config->n_hidden, k = c->n_streams;
    double sum = 0;

    for (size_t i = 0; i < k * n; i++)
        sum += (double)streams[i] * streams[i];
    factor = (float)(1 / sqrt(sum / (double)(k * n) + config->norm_eps));
    for (size_t i = 0; i < job->w->fn.rows; i++) {
        float v = m[i] * factor * job->w->scale[i < 2 * k ? i / k : 2] + job->w->base[i];
        if (i < k)
            m[i] = sp_sigmoidf(v) + (float)c->eps;
        else
            m[i] = i < 2 * k ? (float)c->strength * sp_sigmoidf(v) + (float)c->out_eps : v;
    }
    if (job->w->fn.rows > 2 * k) balance(m + 2 * k, c);
    memset(x, 0, n * sizeof *x);
    for (size_t i = 0; i < k; i++)
        ws->backend->vector->fma(x, streams + i * n, m[i], n);
}

/* Sums the streams: gated ones, or by equal weights. Of gated ones m becomes b. */
static void sum_row(void *context, size_t t)
{
    const struct hyper_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_hyper_config *c = &ws->model->config.hyper;
    const struct sp_acts *from = c->rank ? &ws->hyper->normed : &ws->hyper->streams;
    float *m = ws->hyper->mix + t * ws->hyper->ld_mix, *x = ws->x + t * ws->ld_x;
    float factor = c->rank ? 1 : 1.0f / (float)c->n_streams;
    size_t n = ws->model->config.n_hidden, k = c->n_streams;

    memset(x, 0, n * sizeof *x);
    for (size_t i = 0; i < k; i++) {
        ws->backend->vector->fma(x, from->x + t * from->ld + i * n, factor, n);
        if (c->rank) m[k + i] = (float)c->strength * sp_sigmoidf(m[i]);
    }
}

static void norm_streams(void *context, size_t t)
{
    const struct hyper_job *job = context;
    const struct sp_config *c = &job->ws->model->config;
    const struct sp_acts *normed = &job->ws->hyper->normed;

    for (size_t i = 0; i < normed->cols; i += c->n_hidden)
        job->ws->backend->vector->rms_norm(normed->x + t * normed->ld + i,
                                           sp_hyper_streams(job->ws, t) + i, job->w->norm + i,
                                           c->n_hidden, (float)c->norm_eps);
}

void sp_hyper_read(struct sp_workspace *ws, const struct sp_hyper_weights *w, size_t n)
{
    struct hyper_job job = {ws, w};
    struct sp_product mix = {.w = &w->fn, .y = ws->hyper->mix, .ldy = ws->hyper->ld_mix};
    struct sp_acts *read = w->norm ? &ws->hyper->normed : &ws->hyper->streams;

    if (w->norm) sp_backend_rows(ws->backend, n, norm_streams, &job);
    if (w->fn.rows) sp_backend_multiply(ws->backend, &mix, 1, read, n);
    sp_gated_norm_run(ws, read, &w->gate, n);
    sp_backend_rows(ws->backend, n, w->norm || w->fn.rows == 0 ? sum_row : read_row, &job);
}

/* H_i = sum_j C_ji H_j */
static void mix_streams(float *streams, const float *c, size_t k, size_t n)
{
    for (size_t h = 0; h < n; h++) {
        float made[SP_MAX_STREAMS] = {0};
        for (size_t j = 0; j < k; j++)
            for (size_t i = 0; i < k; i++)
                made[i] += c[j * k + i] * streams[j * n + h];
        for (size_t i = 0; i < k; i++)
            streams[i * n + h] = made[i];
    }
}

static void write_row(void *context, size_t t)
{
    struct sp_workspace *ws = context;
    const float *b = ws->hyper->mix + t * ws->hyper->ld_mix;
    size_t n = ws->model->config.n_hidden, k = ws->model->config.hyper.n_streams;

    if (ws->model->config.hyper.n_balance) mix_streams(sp_hyper_streams(ws, t), b + 2 * k, k, n);
    for (size_t i = 0; i < k; i++)
        ws->backend->vector->fma(sp_hyper_streams(ws, t) + i * n, ws->y + t * ws->ld_x, b[k + i],
                                 n);
}

void sp_hyper_write(struct sp_workspace *ws, size_t n)
{
    sp_backend_rows(ws->backend, n, write_row, ws);
}
