/* Mamba-2 layers (Dao and Gu 2024; the granitemoehybrid and mamba2 modeling files in transformers
 * 5.23).
 *
 * Per token: project to z, to x, B and C, and to dt; a short causal convolution over x, B and C,
 * then silu; dt = softplus(dt + dt_bias), kept within the config's limits; then per head, which
 * shares B and C with its group, S <- e^(dt A) S + (dt x) B^T;  y = S C + D x, with A = -e^A_log;
 * and norm(y * silu(z)), group by group, is projected back. Some configs norm before the gate, or
 * not at all, and multiply z, x, B, C and dt.
 *
 * Their state is runtime/model/head_state.h's: B is the key, C the query, dt x the value. */
#include "runtime/model/decoder_internal.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_mamba_open(struct sp_workspace *r, struct sp_err *err)
{
    const struct sp_mamba_config *c = &r->model->config.mamba;
    size_t rows = r->max_rows;
    struct sp_mamba_scratch *s = NULL;
    enum sp_status st;

    if (c->kernel == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    r->mamba = s;
    s->n_values = (size_t)c->n_heads * c->head_dim;
    s->n_keys = (size_t)c->n_groups * c->state_dim;
    s->channels = s->n_values + 2 * s->n_keys;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(c->n_heads);
    s->sizes = (struct sp_head_sizes){.n_heads = c->n_heads,
                                      .n_keys = c->n_groups,
                                      .value_dim = c->head_dim,
                                      .key_dim = c->state_dim};
    if ((st = sp_new_rows(&s->input, c->kernel - 1 + rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->mixed, rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->z, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->values, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->out, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->dt, rows, s->ld_heads, err))) return st;
    return sp_head_workspace_init(&s->workspace, c->state_dim, sp_pool_n_threads(r->backend->pool),
                                  err);
}

void sp_mamba_close(struct sp_workspace *r)
{
    struct sp_mamba_scratch *s = r->mamba;

    if (s == NULL) return;
    free(s->input);
    free(s->mixed);
    free(s->z);
    free(s->values);
    free(s->out);
    free(s->dt);
    sp_head_workspace_release(&s->workspace);
    free(s);
}

/* One layer's pass, as the row functions see it. */
struct mamba_job {
    struct sp_workspace *r;
    const struct sp_mamba_weights *w;
    /* Of the share at hand: */
    const struct sp_conv_history *history;
    size_t first; /* row */
};

/* dt becomes the decay of each head, and values its x, dt times as large. */
static void scale_values(const struct mamba_job *job, size_t t)
{
    const struct sp_mamba_config *c = &job->r->model->config.mamba;
    const struct sp_mamba_scratch *s = job->r->mamba;
    float *dt = s->dt + t * s->ld_heads, *values = s->values + t * s->ld_z;

    memcpy(values, s->mixed + t * s->ld, s->n_values * sizeof *values);
    for (size_t h = 0; h < c->n_heads; h++) {
        float step = sp_softplusf(dt[h] * (float)c->step_scale + job->w->dt_bias[h]);
        if (step < (float)c->least_step) step = (float)c->least_step;
        if (step > (float)c->most_step) step = (float)c->most_step;
        job->r->backend->vector->scale(values + h * c->head_dim, step, c->head_dim);
        dt[h] = sp_expf(-sp_expf(job->w->a_log[h]) * step);
    }
}

/* x, B and C of row i of a share: convolution over it and the kernel - 1 rows before, silu. */
static void mix_row(void *context, size_t i, unsigned worker)
{
    const struct mamba_job *job = context;
    const struct sp_vector *vector = job->r->backend->vector;
    const struct sp_mamba_scratch *s = job->r->mamba;
    size_t t = job->first + i;
    float *u = s->mixed + t * s->ld;

    (void)worker;
    sp_conv_history_convolve(job->history, vector, u, job->w->taps, s->input + job->first * s->ld,
                             s->ld, i);
    if (job->w->conv_bias) vector->add(u, job->w->conv_bias, s->channels);
    vector->silu(u, s->channels);
    scale_values(job, t);
}

static void step(struct sp_workspace *r, struct sp_recurrent *memory,
                 const struct sp_batch_seq *seq, size_t first)
{
    const struct sp_mamba_scratch *s = r->mamba;
    const float *mixed = s->mixed + first * s->ld;
    struct sp_head_pass pass = {
        .vector = r->backend->vector,
        .workspace = &s->workspace,
        .state = &memory->heads,
        .q = mixed + s->n_values + s->n_keys,
        .k = mixed + s->n_values,
        .ld = s->ld,
        .v = s->values + first * s->ld_z,
        .ld_v = s->ld_z,
        .decays = s->dt + first * s->ld_heads,
        .ld_heads = s->ld_heads,
        .out = s->out + first * s->ld_z,
        .ld_out = s->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, r->backend->pool);
}

/* The norm of each group. y may be x. */
static void norm_groups(const struct mamba_job *job, float *y, const float *x)
{
    const struct sp_config *config = &job->r->model->config;
    size_t n = job->r->mamba->n_values, group = n / config->mamba.n_groups;

    for (size_t i = 0; i < n; i += group) {
        job->r->backend->vector->rms_norm(y + i, x + i, job->w->norm + i, group,
                                          (float)config->norm_eps);
    }
}

/* heads.x = S C + D x, gated by z and normed as the config says */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct mamba_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_mamba_config *c = &r->model->config.mamba;
    const struct sp_mamba_scratch *s = r->mamba;
    const struct sp_vector *vector = r->backend->vector;
    const float *x = s->mixed + t * s->ld;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z, *y = r->heads.x + t * r->heads.ld;

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

/* The rows of one share through the convolution and the recurrence. What its convolution looks back
 * at takes the place of the last rows of the share before. */
static void run_seq(struct mamba_job *job, unsigned layer, const struct sp_batch_seq *seq)
{
    struct sp_workspace *r = job->r;
    struct sp_recurrent *memory = &seq->decoder->recurrent[layer];
    size_t ld = r->mamba->ld;
    float *input = r->mamba->input + job->first * ld;

    job->history = &memory->history;
    sp_conv_history_begin(&memory->history, input, ld);
    sp_backend_rows(r->backend, seq->n, mix_row, job);
    sp_conv_history_end(&memory->history, input, ld, seq->n, seq->n_committed);
    step(r, memory, seq, job->first);
}

void sp_mamba_run(struct sp_workspace *r, unsigned layer, size_t n)
{
    const struct sp_mamba_scratch *s = r->mamba;
    const struct sp_mamba_weights *w = &r->model->layers[layer].mamba;
    struct mamba_job job = {.r = r, .w = w};
    size_t before = r->model->config.mamba.kernel - 1;
    struct sp_product in[] = {
        {.w = &w->xbc, .bias = w->xbc_bias, .y = s->input + before * s->ld, .ldy = s->ld},
        {.w = &w->z, .bias = w->z_bias, .y = s->z, .ldy = s->ld_z},
        {.w = &w->dt, .bias = w->in_dt_bias, .y = s->dt, .ldy = s->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .bias = w->out_bias, .y = r->y, .ldy = r->ld_x};

    sp_backend_multiply(r->backend, in, 3, &r->hidden, n);
    for (size_t i = 0; i < r->n_seqs; job.first += r->seqs[i++].n)
        run_seq(&job, layer, &r->seqs[i]);
    sp_backend_rows(r->backend, n, gate_row, &job);
    r->heads.cols = w->out.cols;
    sp_backend_multiply(r->backend, &out, 1, &r->heads, n);
}
