/* Norms of the inputs of o_proj and down_proj, and norms with a gate of low rank (axk2 in
 * transformers 5.24): y = norm(x), then y * sigmoid(up silu(down y)). */
#include "runtime/model/sublayers.h"

struct sp_gated_norm_scratch {
    struct sp_acts low; /* [max_rows][rank] */
    float *gate;        /* [max_rows][ld] */
    size_t ld;
};

void sp_gated_norm_open(struct sp_workspace *ws)
{
    const struct sp_config *c = &ws->model->config;
    unsigned rank = c->hyper.rank ? c->hyper.rank : c->norm_gate_rank;
    size_t width = c->hyper.rank ? (size_t)c->hyper.n_streams * c->n_hidden : c->n_hidden;
    struct sp_gated_norm_scratch *s;

    if (rank == 0) return;
    if ((s = ws->gated_norm = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->low = sp_arena_acts(&ws->memory, ws->max_rows, rank);
    s->ld = sp_matrix_ld(width);
    s->gate = sp_arena_rows(&ws->memory, ws->max_rows, s->ld);
}

struct inner_job {
    const struct sp_workspace *ws;
    const struct sp_acts *rows;
    const float *weight;
    size_t n;
};

static void inner_row(void *context, size_t t)
{
    const struct inner_job *job = context;
    const struct sp_config *c = &job->ws->model->config;
    float *x = job->rows->x + t * job->rows->ld;

    if (c->unit.init != 0)
        job->ws->backend->vector->l2_norm(x, x, job->n, (float)c->norm_eps, 1);
    else
        job->ws->backend->vector->rms_norm(x, x, job->weight, job->n, (float)c->norm_eps);
}

void sp_inner_norm_run(struct sp_workspace *ws, const struct sp_acts *rows, const float *weight,
                       size_t cols, size_t n)
{
    struct inner_job job = {ws, rows, weight, cols};

    if (ws->model->config.inner_norms) sp_backend_rows(ws->backend, n, inner_row, &job);
}

static void activate_row(void *context, size_t t)
{
    struct sp_workspace *ws = context;
    struct sp_acts *low = &ws->gated_norm->low;

    ws->backend->vector->silu(low->x + t * low->ld, low->cols);
}

static void gate_row(void *context, size_t t)
{
    const struct inner_job *job = context;
    const struct sp_gated_norm_scratch *s = job->ws->gated_norm;

    job->ws->backend->vector->sigmoid_mul(job->rows->x + t * job->rows->ld, s->gate + t * s->ld,
                                          job->n);
}

void sp_gated_norm_run(struct sp_workspace *ws, struct sp_acts *rows,
                       const struct sp_norm_gate_weights *w, size_t n)
{
    struct sp_gated_norm_scratch *s = ws->gated_norm;
    struct inner_job job = {ws, rows, NULL, w->up.rows};

    if (w->down.rows == 0) return;
    sp_backend_product(ws->backend, s->low.x, s->low.ld, &w->down, NULL, rows, n);
    sp_backend_rows(ws->backend, n, activate_row, ws);
    sp_backend_product(ws->backend, s->gate, s->ld, &w->up, NULL, &s->low, n);
    sp_backend_rows(ws->backend, n, gate_row, &job);
}
