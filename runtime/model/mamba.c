/* Mamba-2 layers (Dao and Gu 2024; the granitemoehybrid and mamba2 modeling files in transformers
 * 5.23).
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
 * The state is a struct sp_head_state: B is the key, C the query, dt x the value. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <string.h>

void sp_mamba_open(struct sp_workspace *ws)
{
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_head_sizes sizes = {.n_heads = c->n_heads,
                                        .n_keys = c->n_groups,
                                        .value_dim = c->head_dim,
                                        .key_dim = c->state_dim};

    if (c->kernel == 0) return;
    ws->mamba = sp_recurrent_scratch_new(ws, &sizes, c->kernel, false);
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

/* Makes x, B and C of row i of a sequence: convolution over it and kernel - 1 rows before it, silu.
 */
static void mix_row(void *context, size_t i)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_vector *vector = job->ws->backend->vector;
    size_t channels = job->scratch->channels;
    float *u = sp_recurrent_convolve(job, w->taps, i);

    if (w->conv_bias) vector->add(u, w->conv_bias, channels);
    vector->silu(u, channels);
    scale_values(job, job->first + i);
}

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

    for (size_t h = 0; h < c->n_heads; h++)
        vector->fma(out + h * c->head_dim, x + h * c->head_dim, w->d[h], c->head_dim);
    if (c->z_scale != 1) vector->scale(z, (float)c->z_scale, s->n_values);
    if (c->norm == SP_MAMBA_NORM_GATED) norm_groups(job, out, out);
    vector->silu_mul(z, out, s->n_values);
    if (c->norm == SP_MAMBA_GATED_NORM)
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

    sp_backend_multiply(ws->backend, in, 3, &ws->hidden, n);
    sp_recurrent_job_convolve(&job, layer);
    sp_recurrent_job_scan(&job, layer);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    ws->heads.cols = w->out.cols;
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &w->out, w->out_bias, &ws->heads, n);
}
