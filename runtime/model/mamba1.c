/* Mamba-1 layers (Gu and Dao 2023; mamba, falcon_mamba and jamba in transformers 5.24).
 *
 * Per token: project to x and z; a short causal convolution over x, then silu; from x project to
 * the dims that dt is made of, to B and to C, which falcon_mamba and jamba norm; dt = softplus(up +
 * bias). Then for each channel of x, whose state is a row S,
 *
 *   S <- e^(dt A) S + (dt x) B;  y = S C + D x,   with A = -e^A_log, one for each element;
 *
 * and y * silu(z) is projected back.
 *
 * The state is a struct sp_head_state: B is the key, C the query, dt x the value, A the rates. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <string.h>

void sp_mamba1_open(struct sp_workspace *ws)
{
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_head_sizes sizes = {.n_heads = c->n_heads,
                                        .n_keys = 1,
                                        .value_dim = c->head_dim,
                                        .key_dim = c->state_dim,
                                        .by_element = true};
    struct sp_recurrent_scratch *s;

    if (c->kernel == 0) return;
    if ((s = ws->mamba = sp_recurrent_scratch_new(ws, &sizes, c->kernel, false)) == NULL) return;
    s->n_convolved = s->n_values;
    s->ld_projected = sp_matrix_ld(c->step_rank + 2 * (size_t)c->state_dim);
    s->projected = sp_arena_rows(&ws->memory, ws->max_rows, s->ld_projected);
    s->low_decays = sp_arena_acts(&ws->memory, ws->max_rows, c->step_rank);
}

/* Makes x of row i of a sequence: convolution over the row and the kernel - 1 rows before it,
 * silu. */
static void mix_row(void *context, size_t i)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_acts *heads = &job->ws->heads;
    size_t n = job->scratch->n_values;
    float *x = sp_recurrent_convolve(job, w->taps, i);

    if (w->conv_bias) vector->add(x, w->conv_bias, n);
    vector->silu(x, n);
    memcpy(heads->x + (job->first + i) * heads->ld, x, n * sizeof *x);
}

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

/* heads.x = (S C + D x) * silu(z). */
static void gate_row(void *context, size_t t)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_mamba_weights *w = job->weights;
    const struct sp_recurrent_scratch *s = job->scratch;
    const struct sp_vector *vector = job->ws->backend->vector;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z;

    vector->mul_add(out, w->d, s->mixed + t * s->ld, s->n_values);
    vector->silu_mul(z, out, s->n_values);
    memcpy(job->ws->heads.x + t * job->ws->heads.ld, z, s->n_values * sizeof *z);
}

void sp_mamba1_run(struct sp_workspace *ws, unsigned layer, size_t n)
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
    const struct sp_product in[] = {
        {.w = &w->xbc, .bias = w->xbc_bias, .y = s->input + before * s->ld, .ldy = s->ld},
        {.w = &w->z, .bias = w->z_bias, .y = s->z, .ldy = s->ld_z},
    };

    sp_backend_multiply(ws->backend, in, 2, &ws->hidden, n);
    ws->heads.cols = w->out.cols;
    sp_recurrent_job_convolve(&job, layer);
    sp_backend_product(ws->backend, s->projected, s->ld_projected, &w->x, NULL, &ws->heads, n);
    sp_backend_rows(ws->backend, n, split_row, &job);
    sp_backend_product(ws->backend, s->decays, s->ld_decays, &w->up, w->dt_bias, &s->low_decays, n);
    sp_backend_rows(ws->backend, n, scale_row, &job);
    sp_recurrent_job_scan(&job, layer);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &w->out, w->out_bias, &ws->heads, n);
}
