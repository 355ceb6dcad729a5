/* Hyper-connections (arXiv 2409.19606) as in the hy_v4 modeling file of transformers 5.24. With k
 * streams H_i, which begin as copies of the embedding, and flat(H) all of them in one row:
 *
 *   m = (W flat(H)) / sqrt(mean(flat(H)^2) + norm_eps)
 *   a_i = sigmoid(m_i scale_0 + base_i) + eps,  b_i = strength sigmoid(m_(k+i) scale_1 +
 * base_(k+i))
 *                                                    + eps
 *   a sublayer reads sum_i a_i H_i and adds b_i times its output to H_i
 *
 * The head reads likewise. The sum of squares is double, so all instruction sets use the same code.
 */
#include "runtime/model/hyper.h"

#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

struct sp_hyper_scratch {
    struct sp_acts streams; /* [max_rows][k H], the streams of a row one after another */
    float *mix;             /* [max_rows][ld_mix]: m, then b behind the first k */
    size_t ld_mix;
};

enum sp_status sp_hyper_open(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_config *config = &ws->model->config;
    size_t k = config->hyper.n_streams;
    struct sp_hyper_scratch *s = NULL;
    enum sp_status st;

    if (k == 0) return SP_OK;
    if ((st = sp_arena_new(&ws->memory, &s, 1, sizeof *s, err))) return st;
    ws->hyper = s;
    s->ld_mix = sp_matrix_ld(2 * k);
    if ((st = sp_arena_rows(&ws->memory, &s->mix, ws->max_rows, s->ld_mix, err))) return st;
    return sp_arena_acts(&ws->memory, &s->streams, ws->max_rows, k * config->n_hidden, err);
}

struct hyper_job {
    struct sp_workspace *ws;
    const struct sp_hyper_weights *w;
};

static float *streams_of(const struct sp_workspace *ws, size_t t)
{
    return ws->hyper->streams.x + t * ws->hyper->streams.ld;
}

static void begin_row(void *context, size_t t, unsigned worker)
{
    const struct sp_workspace *ws = context;
    size_t n = ws->model->config.n_hidden;

    (void)worker;
    for (size_t i = 0; i < ws->model->config.hyper.n_streams; i++)
        memcpy(streams_of(ws, t) + i * n, ws->x + t * ws->ld_x, n * sizeof *ws->x);
}

void sp_hyper_begin(struct sp_workspace *ws, size_t n)
{
    sp_backend_rows(ws->backend, n, begin_row, ws);
}

/* Replaces m by the weights, and sums the streams by the first of them. */
static void read_row(void *context, size_t t, unsigned worker)
{
    const struct hyper_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_config *config = &ws->model->config;
    const struct sp_hyper_config *c = &config->hyper;
    const float *streams = streams_of(ws, t);
    float *m = ws->hyper->mix + t * ws->hyper->ld_mix, *x = ws->x + t * ws->ld_x, factor;
    size_t n = config->n_hidden, k = c->n_streams;
    double sum = 0;

    (void)worker;
    for (size_t i = 0; i < k * n; i++)
        sum += (double)streams[i] * streams[i];
    factor = (float)(1 / sqrt(sum / (double)(k * n) + config->norm_eps));
    for (size_t i = 0; i < job->w->fn.rows; i++) {
        float strength = i < k ? 1 : (float)c->strength;
        m[i] = strength * sp_sigmoidf(m[i] * factor * job->w->scale[i / k] + job->w->base[i]) +
               (float)c->eps;
    }
    memset(x, 0, n * sizeof *x);
    for (size_t i = 0; i < k; i++)
        ws->backend->vector->fma(x, streams + i * n, m[i], n);
}

void sp_hyper_read(struct sp_workspace *ws, const struct sp_hyper_weights *w, size_t n)
{
    struct hyper_job job = {ws, w};
    struct sp_product mix = {.w = &w->fn, .y = ws->hyper->mix, .ldy = ws->hyper->ld_mix};

    sp_backend_multiply(ws->backend, &mix, 1, &ws->hyper->streams, n);
    sp_backend_rows(ws->backend, n, read_row, &job);
}

static void write_row(void *context, size_t t, unsigned worker)
{
    struct sp_workspace *ws = context;
    const float *b = ws->hyper->mix + t * ws->hyper->ld_mix;
    size_t n = ws->model->config.n_hidden, k = ws->model->config.hyper.n_streams;

    (void)worker;
    for (size_t i = 0; i < k; i++)
        ws->backend->vector->fma(streams_of(ws, t) + i * n, ws->y + t * ws->ld_x, b[k + i], n);
}

void sp_hyper_write(struct sp_workspace *ws, size_t n)
{
    sp_backend_rows(ws->backend, n, write_row, ws);
}
