/* Mamba-2 layers (Dao and Gu 2024; the granitemoehybrid and mamba2 modeling files in transformers
 * 5.23).
 *
 * Per token: project to z, to x, B and C, and to dt; a short causal convolution over x, B and C,
 * then silu; dt = softplus(dt + dt_bias), kept within the config's limits; then per head, which
 * shares B and C with its group, S <- e^(dt A) S + (dt x) B^T;  y = S C + D x, with A = -e^A_log;
 * and norm(y * silu(z)), group by group, is projected back. Some configs norm before the gate, or
 * not at all, and multiply z, x, B, C and dt.
 *
 * Their state is runtime/head_state.h's: B is the key, C the query, dt x the value. */
#include "runtime/decoder.h"

#include "format/mem.h"
#include "runtime/fmath.h"

#include <stdlib.h>
#include <string.h>

static enum sp_status open_scratch(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_mamba_config *c = &d->model->config.mamba;
    size_t rows = d->options.max_rows;
    struct sp_mamba_scratch *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    d->mamba = s;
    s->n_values = (size_t)c->n_heads * c->head_dim;
    s->n_keys = (size_t)c->n_groups * c->state_dim;
    s->channels = s->n_values + 2 * s->n_keys;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(c->n_heads);
    s->sizes = (struct sp_head_sizes){.n_heads = c->n_heads,
                                      .n_keys = c->n_groups,
                                      .value_dim = c->head_dim,
                                      .key_dim = c->state_dim,
                                      .max_logged = d->options.max_logit_rows};
    if ((st = sp_new_rows(&s->input, c->kernel - 1 + rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->mixed, rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->z, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->values, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->out, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->dt, rows, s->ld_heads, err))) return st;
    return sp_head_room_init(&s->room, c->state_dim, sp_pool_n_threads(d->engine->pool), err);
}

enum sp_status sp_mamba_open(struct sp_decoder *d, struct sp_err *err)
{
    enum sp_status st;

    if (d->model->config.mamba.kernel == 0) return SP_OK;
    if ((st = open_scratch(d, err))) return st;
    return sp_recurrent_open(d, SP_MIXER_MAMBA, &d->mamba->sizes, d->model->config.mamba.kernel - 1,
                             d->mamba->channels, err);
}

void sp_mamba_close(struct sp_decoder *d)
{
    struct sp_mamba_scratch *s = d->mamba;

    if (s == NULL) return;
    free(s->input);
    free(s->mixed);
    free(s->z);
    free(s->values);
    free(s->out);
    free(s->dt);
    sp_head_room_release(&s->room);
    free(s);
}

/* One layer's pass, as the row functions see it. */
struct mamba_job {
    struct sp_decoder *d;
    const struct sp_mamba_weights *w;
    const struct sp_conv_history *history;
};

/* dt becomes the decay of each head, and values its x, dt times as large. */
static void scale_values(const struct mamba_job *job, size_t t)
{
    const struct sp_mamba_config *c = &job->d->model->config.mamba;
    const struct sp_mamba_scratch *s = job->d->mamba;
    float *dt = s->dt + t * s->ld_heads, *values = s->values + t * s->ld_z;

    memcpy(values, s->mixed + t * s->ld, s->n_values * sizeof *values);
    for (size_t h = 0; h < c->n_heads; h++) {
        float step = sp_softplusf(dt[h] * (float)c->step_scale + job->w->dt_bias[h]);
        if (step < (float)c->least_step) step = (float)c->least_step;
        if (step > (float)c->most_step) step = (float)c->most_step;
        job->d->engine->vector->scale(values + h * c->head_dim, step, c->head_dim);
        dt[h] = sp_expf(-sp_expf(job->w->a_log[h]) * step);
    }
}

/* x, B and C of a row: convolution over it and the kernel - 1 rows before, silu. */
static void mix_row(void *context, size_t t, unsigned worker)
{
    const struct mamba_job *job = context;
    const struct sp_vector *vector = job->d->engine->vector;
    const struct sp_mamba_scratch *s = job->d->mamba;
    float *u = s->mixed + t * s->ld;

    (void)worker;
    sp_conv_history_convolve(job->history, vector, u, job->w->taps, s->input, s->ld, t);
    if (job->w->conv_bias) vector->add(u, job->w->conv_bias, s->channels);
    vector->silu(u, s->channels);
    scale_values(job, t);
}

static void step(struct sp_decoder *d, struct sp_recurrent *memory, size_t n)
{
    const struct sp_mamba_scratch *s = d->mamba;
    struct sp_head_pass pass = {
        .vector = d->engine->vector,
        .room = &s->room,
        .state = &memory->heads,
        .q = s->mixed + s->n_values + s->n_keys,
        .k = s->mixed + s->n_values,
        .ld = s->ld,
        .v = s->values,
        .ld_v = s->ld_z,
        .decays = s->dt,
        .ld_heads = s->ld_heads,
        .out = s->out,
        .ld_out = s->ld_z,
        .n = n,
        .n_certain = d->n_certain,
    };

    sp_head_state_run(&pass, d->engine->pool);
}

/* The norm of each group. y may be x. */
static void norm_groups(const struct mamba_job *job, float *y, const float *x)
{
    const struct sp_config *config = &job->d->model->config;
    size_t n = job->d->mamba->n_values, group = n / config->mamba.n_groups;

    for (size_t i = 0; i < n; i += group) {
        job->d->engine->vector->rms_norm(y + i, x + i, job->w->norm + i, group,
                                         (float)config->norm_eps);
    }
}

/* heads.x = S C + D x, gated by z and normed as the config says */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct mamba_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_mamba_config *c = &d->model->config.mamba;
    const struct sp_mamba_scratch *s = d->mamba;
    const struct sp_vector *vector = d->engine->vector;
    const float *x = s->mixed + t * s->ld;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z, *y = d->heads.x + t * d->heads.ld;

    (void)worker;
    for (size_t h = 0; h < c->n_heads; h++)
        vector->fma(out + h * c->head_dim, x + h * c->head_dim, job->w->d[h], c->head_dim);
    if (c->z_scale != 1) vector->scale(z, (float)c->z_scale, s->n_values);
    if (c->norm == SP_MAMBA_NORM_GATED) norm_groups(job, out, out);
    vector->silu_mul(z, out, s->n_values);
    if (c->norm == SP_MAMBA_GATED_NORM) {
        norm_groups(job, y, z);
    } else {
        memcpy(y, z, s->n_values * sizeof *y);
    }
}

void sp_mamba_run(struct sp_decoder *d, unsigned layer, size_t n)
{
    const struct sp_mamba_scratch *s = d->mamba;
    const struct sp_mamba_weights *w = &d->model->layers[layer].mamba;
    struct sp_recurrent *memory = &d->recurrent[layer];
    struct mamba_job job = {d, w, &memory->history};
    size_t before = d->model->config.mamba.kernel - 1;
    struct sp_product in[] = {
        {.w = &w->xbc, .bias = w->xbc_bias, .y = s->input + before * s->ld, .ldy = s->ld},
        {.w = &w->z, .bias = w->z_bias, .y = s->z, .ldy = s->ld_z},
        {.w = &w->dt, .bias = w->in_dt_bias, .y = s->dt, .ldy = s->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .bias = w->out_bias, .y = d->y, .ldy = d->ld_x};

    sp_engine_multiply(d->engine, in, 3, &d->hidden, n);
    sp_conv_history_begin(&memory->history, s->input, s->ld);
    sp_engine_rows(d->engine, n, mix_row, &job);
    sp_conv_history_end(&memory->history, s->input, s->ld, n, d->n_certain);
    step(d, memory, n);
    sp_engine_rows(d->engine, n, gate_row, &job);
    d->heads.cols = w->out.cols;
    sp_engine_multiply(d->engine, &out, 1, &d->heads, n);
}
