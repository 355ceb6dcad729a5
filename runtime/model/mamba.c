/* Mamba-2 layers (Dao and Gu 2024; the granitemoehybrid and mamba2 modeling files in transformers
 * 5.23), and Mamba-1 layers (Gu and Dao 2023; mamba, falcon_mamba and jamba in transformers 5.24).
 *
 * Per token: project to z, to x, B and C, and to dt; a short causal convolution over x, B and C,
 * then silu; dt = softplus(dt + dt_bias), clamped to the config's limits; then per head, which
 * shares B and C with its group,
 *
 *   S <- e^(dt A) S + (dt x) B^T;  y = S C + D x,   with A = -e^A_log;
 *
 * and norm(y * silu(z)), per group, is projected back. Some configs norm before the gate, or not at
 * all, and scale z, x, B, C and dt.
 *
 * Mamba-1 projects to x and z alone, and convolves x; from x it projects to the dims that dt is
 * made of, to B and to C, which falcon_mamba and jamba norm. Each channel of x has a dt and a D of
 * its own, each element of S an A. Nothing is normed behind the gate.
 *
 * The state is a struct sp_head_state: B is the key, C the query, dt x the value; of Mamba-1, A are
 * the rates. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <string.h>

void sp_mamba_open(struct sp_workspace *ws)
{
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_head_sizes sizes = {.n_heads = c->n_heads,
                                        .n_keys = c->n_groups,
                                        .value_dim = c->head_dim,
                                        .key_dim = c->state_dim,
                                        .by_element = c->step_rank != 0};
    struct sp_recurrent_scratch *s;

    if (c->kernel == 0) return;
    ws->mamba = s = sp_recurrent_scratch_new(ws, &sizes, c->kernel, false);
    if (s == NULL || c->step_rank == 0) return;
    s->n_convolved = s->n_values;
    s->ld_projected = sp_matrix_ld(c->step_rank + 2 * (size_t)c->state_dim);
    s->projected = sp_arena_rows(&ws->memory, ws->max_rows, s->ld_projected);
    s->low_decays = sp_arena_acts(&ws->memory, ws->max_rows, c->step_rank);
}

/* Replaces dt by the decay of each head, and sets values to x * dt. */
static void scale_values(const struct sp_recurrent_job *job, size_t t)
{
    const struct sp_mamba_config *c = &job->ws->model->config.mamba;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_recurrent_scratch *s = job->scratch;
    float *dt = s->decays + t * s->ld_decays, *values = s->values + t * s->ld_z;

    memcpy(values, s->mixed + t * s->ld, s->n_values * sizeof *values);
    for (size_t h = 0; h < c->n_heads; h++) {
        float step = sp_softplusf(dt[h] * (float)c->step_scale + w->dt_bias[h]);
        if (step < (float)c->min_step) step = (float)c->min_step;
        if (step > (float)c->max_step) step = (float)c->max_step;
        job->ws->backend->vector->scale(values + h * c->head_dim, step, c->head_dim);
        dt[h] = sp_expf(-sp_expf(w->a_log[h]) * step);
    }
}

/* Makes x, B and C of row i of a sequence, or x alone: convolution over it and kernel - 1 rows
 * before it, silu. */
static void mix_row(void *context, size_t i)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_acts *heads = &job->ws->heads;
    size_t n = job->scratch->n_convolved, t = job->first + i;
    float *u = sp_recurrent_convolve(job, w->taps, i);

    if (w->conv_bias) vector->add(u, w->conv_bias, n);
    vector->silu(u, n);
    if (w->x.rows)
        memcpy(heads->x + t * heads->ld, u, n * sizeof *u);
    else
        scale_values(job, t);
}

/* ---- dt, B and C of Mamba-1 ---- */

/* Divides the projection of row t into what dt is made of, B and C. */
static void split_row(void *context, size_t t)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_config *c = &job->ws->model->config.mamba;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_recurrent_scratch *s = job->scratch;
    const float *projected = s->projected + t * s->ld_projected;
    float *dt = s->low_decays.x + t * s->low_decays.ld;
    float *b = s->mixed + t * s->ld + s->n_values;

    memcpy(dt, projected, c->step_rank * sizeof *dt);
    memcpy(b, projected + c->step_rank, 2 * c->state_dim * sizeof *b);
    if (!c->step_norms) return;
    float *const parts[] = {dt, b, b + c->state_dim};
    const float *const weights[] = {w->dt_norm, w->b_norm, w->c_norm};
    for (size_t i = 0; i < 3; i++) {
        job->ws->backend->vector->rms_norm(parts[i], parts[i], weights[i],
                                           i ? c->state_dim : c->step_rank, (float)c->step_eps);
    }
}

/* Finishes dt of row t, and sets values to x * dt. */
static void scale_row(void *context, size_t t)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_recurrent_scratch *s = job->scratch;
    float *dt = s->decays + t * s->ld_decays, *values = s->values + t * s->ld_z;

    for (size_t i = 0; i < s->n_values; i++)
        dt[i] = sp_softplusf(dt[i]);
    memcpy(values, s->mixed + t * s->ld, s->n_values * sizeof *values);
    job->ws->backend->vector->mul(values, dt, s->n_values);
}

/* Makes them from x in the rows of ws->heads. */
static void project_steps(struct sp_recurrent_job *job, size_t n)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_recurrent_scratch *s = job->scratch;

    sp_backend_product(ws->backend, s->projected, s->ld_projected, &w->x, NULL, &ws->heads, n);
    sp_backend_rows(ws->backend, n, split_row, job);
    sp_backend_product(ws->backend, s->decays, s->ld_decays, &w->up, w->dt_bias, &s->low_decays, n);
    sp_backend_rows(ws->backend, n, scale_row, job);
}

/* ---- outputs ---- */

/* Norms each group. y may be x. */
static void norm_groups(const struct sp_recurrent_job *job, float *y, const float *x)
{
    const struct sp_config *config = &job->ws->model->config;
    const struct sp_mamba_weights *w = job->weights;
    size_t n = job->scratch->n_values, group = n / config->mamba.n_groups;

    for (size_t i = 0; i < n; i += group) {
        job->ws->backend->vector->rms_norm(y + i, x + i, w->norm + i, group,
                                           (float)config->norm_eps);
    }
}

/* heads.x = S C + D x, gated by z and normed as the config requires. */
static void gate_row(void *context, size_t t)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_weights *w = job->weights;
    struct sp_workspace *ws = job->ws;
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_recurrent_scratch *s = job->scratch;
    const struct sp_vector *vector = ws->backend->vector;
    const float *x = s->mixed + t * s->ld;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z, *y = ws->heads.x + t * ws->heads.ld;

    if (c->step_rank) vector->mul_add(out, w->d, x, s->n_values);
    for (size_t h = 0; c->step_rank == 0 && h < c->n_heads; h++)
        vector->fma(out + h * c->head_dim, x + h * c->head_dim, w->d[h], c->head_dim);
    if (c->z_scale != 1) vector->scale(z, (float)c->z_scale, s->n_values);
    if (c->norm == SP_MAMBA_NORM_GATED) norm_groups(job, out, out);
    vector->gates[SP_SILU](z, out, s->n_values);
    if (w->norm && c->norm == SP_MAMBA_GATED_NORM)
        norm_groups(job, y, z);
    else
        memcpy(y, z, s->n_values * sizeof *y);
}

void sp_mamba_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_recurrent_scratch *s = ws->mamba;
    const struct sp_mamba_weights *w = &ws->model->layers[layer].mamba;
    struct sp_recurrent_job job = {.ws = ws,
                                   .scratch = s,
                                   .weights = w,
                                   .mix_row = mix_row,
                                   .q = s->mixed + s->n_values + s->n_keys,
                                   .k = s->mixed + s->n_values,
                                   .v = s->values};
    size_t before = ws->model->config.mamba.kernel - 1;
    struct sp_product in[] = {
        {.w = &w->xbc, .bias = w->xbc_bias, .y = s->input + before * s->ld, .ldy = s->ld},
        {.w = &w->z, .bias = w->z_bias, .y = s->z, .ldy = s->ld_z},
        {.w = &w->dt, .bias = w->in_dt_bias, .y = s->decays, .ldy = s->ld_decays},
    };

    sp_backend_multiply(ws->backend, in, w->x.rows ? 2 : 3, &ws->hidden, n);
    ws->heads.cols = w->out.cols;
    sp_recurrent_job_convolve(&job, layer);
    if (w->x.rows) project_steps(&job, n);
    sp_recurrent_job_scan(&job, layer);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &w->out, w->out_bias, &ws->heads, n);
}
