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
#include "runtime/model/mamba.h"

#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/vector/fmath.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_mamba_open(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_head_sizes sizes = {.n_heads = c->n_heads,
                                        .n_keys = c->n_groups,
                                        .value_dim = c->head_dim,
                                        .key_dim = c->state_dim};
    struct sp_mamba_scratch *s = NULL;
    enum sp_status st;

    if (c->kernel == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    ws->mamba = s;
    if ((st = sp_recurrent_scratch_init(&s->common, &sizes, c->kernel, ws->max_rows,
                                        sp_pool_n_threads(ws->backend->pool), err)))
        return st;
    if ((st = sp_new_rows(&s->values, ws->max_rows, s->common.ld_z, err))) return st;
    return sp_new_rows(&s->dt, ws->max_rows, s->common.ld_heads, err);
}

void sp_mamba_close(struct sp_workspace *ws)
{
    struct sp_mamba_scratch *s = ws->mamba;

    if (s == NULL) return;
    sp_recurrent_scratch_release(&s->common);
    free(s->values);
    free(s->dt);
    free(s);
}

/* One pass of a layer. */
struct mamba_job {
    struct sp_workspace *ws;
    const struct sp_mamba_weights *w;
    /* The history of the current sequence. */
    const struct sp_conv_history *history;
    size_t first; /* first row of the current sequence */
};

/* Replaces dt by the decay of each head, and sets values to x * dt. */
static void scale_values(const struct mamba_job *job, size_t t)
{
    const struct sp_mamba_config *c = &job->ws->model->config.mamba;
    const struct sp_mamba_scratch *s = job->ws->mamba;
    const struct sp_recurrent_scratch *rs = &s->common;
    float *dt = s->dt + t * rs->ld_heads, *values = s->values + t * rs->ld_z;

    memcpy(values, rs->mixed + t * rs->ld, rs->n_values * sizeof *values);
    for (size_t h = 0; h < c->n_heads; h++) {
        float step = sp_softplusf(dt[h] * (float)c->step_scale + job->w->dt_bias[h]);
        if (step < (float)c->min_step) step = (float)c->min_step;
        if (step > (float)c->max_step) step = (float)c->max_step;
        job->ws->backend->vector->scale(values + h * c->head_dim, step, c->head_dim);
        dt[h] = sp_expf(-sp_expf(job->w->a_log[h]) * step);
    }
}

/* Makes x, B and C of row i of a sequence: convolution over the row and the kernel - 1 rows before
 * it, silu. */
static void mix_row(void *context, size_t i, unsigned worker)
{
    const struct mamba_job *job = context;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_recurrent_scratch *rs = &job->ws->mamba->common;
    size_t t = job->first + i;
    float *u = rs->mixed + t * rs->ld;

    (void)worker;
    sp_conv_history_convolve(job->history, vector, u, job->w->taps, rs->input + job->first * rs->ld,
                             rs->ld, i);
    if (job->w->conv_bias) vector->add(u, job->w->conv_bias, rs->channels);
    vector->silu(u, rs->channels);
    scale_values(job, t);
}

static void run_recurrence(struct sp_workspace *ws, struct sp_recurrent *state,
                           const struct sp_batch_seq *seq, size_t first)
{
    const struct sp_mamba_scratch *s = ws->mamba;
    const struct sp_recurrent_scratch *rs = &s->common;
    const float *mixed = rs->mixed + first * rs->ld;
    struct sp_head_pass pass = {
        .vector = ws->backend->vector,
        .workspace = &rs->workspace,
        .state = &state->heads,
        .q = mixed + rs->n_values + rs->n_keys,
        .k = mixed + rs->n_values,
        .ld = rs->ld,
        .v = s->values + first * rs->ld_z,
        .ld_v = rs->ld_z,
        .decays = s->dt + first * rs->ld_heads,
        .ld_heads = rs->ld_heads,
        .out = rs->out + first * rs->ld_z,
        .ld_out = rs->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, ws->backend->pool);
}

/* Norms each group. y may be x. */
static void norm_groups(const struct mamba_job *job, float *y, const float *x)
{
    const struct sp_config *config = &job->ws->model->config;
    size_t n = job->ws->mamba->common.n_values, group = n / config->mamba.n_groups;

    for (size_t i = 0; i < n; i += group) {
        job->ws->backend->vector->rms_norm(y + i, x + i, job->w->norm + i, group,
                                           (float)config->norm_eps);
    }
}

/* heads.x = S C + D x, gated by z and normed as the config requires. */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct mamba_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_mamba_config *c = &ws->model->config.mamba;
    const struct sp_recurrent_scratch *rs = &ws->mamba->common;
    const struct sp_vector *vector = ws->backend->vector;
    const float *x = rs->mixed + t * rs->ld;
    float *z = rs->z + t * rs->ld_z, *out = rs->out + t * rs->ld_z,
          *y = ws->heads.x + t * ws->heads.ld;

    (void)worker;
    for (size_t h = 0; h < c->n_heads; h++)
        vector->fma(out + h * c->head_dim, x + h * c->head_dim, job->w->d[h], c->head_dim);
    if (c->z_scale != 1) vector->scale(z, (float)c->z_scale, rs->n_values);
    if (c->norm == SP_MAMBA_NORM_GATED) norm_groups(job, out, out);
    vector->silu_mul(z, out, rs->n_values);
    if (c->norm == SP_MAMBA_GATED_NORM)
        norm_groups(job, y, z);
    else
        memcpy(y, z, rs->n_values * sizeof *y);
}

/* Runs the rows of one sequence through the convolution and the recurrence. The history of its
 * convolution overwrites the last input rows of the sequence before, which are no longer needed. */
static void run_seq(struct mamba_job *job, unsigned layer, const struct sp_batch_seq *seq)
{
    struct sp_workspace *ws = job->ws;
    struct sp_recurrent *state = &seq->decoder->recurrent[layer];
    size_t ld = ws->mamba->common.ld;
    float *input = ws->mamba->common.input + job->first * ld;

    job->history = &state->history;
    sp_conv_history_begin(&state->history, input, ld);
    sp_backend_rows(ws->backend, seq->n, mix_row, job);
    sp_conv_history_end(&state->history, input, ld, seq->n, seq->n_committed);
    run_recurrence(ws, state, seq, job->first);
}

void sp_mamba_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_mamba_scratch *s = ws->mamba;
    const struct sp_recurrent_scratch *rs = &s->common;
    const struct sp_mamba_weights *w = &ws->model->layers[layer].mamba;
    struct mamba_job job = {.ws = ws, .w = w};
    size_t before = ws->model->config.mamba.kernel - 1;
    struct sp_product in[] = {
        {.w = &w->xbc, .bias = w->xbc_bias, .y = rs->input + before * rs->ld, .ldy = rs->ld},
        {.w = &w->z, .bias = w->z_bias, .y = rs->z, .ldy = rs->ld_z},
        {.w = &w->dt, .bias = w->in_dt_bias, .y = s->dt, .ldy = rs->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .bias = w->out_bias, .y = ws->y, .ldy = ws->ld_x};

    sp_backend_multiply(ws->backend, in, 3, &ws->hidden, n);
    for (size_t i = 0; i < ws->n_seqs; job.first += ws->seqs[i++].n)
        run_seq(&job, layer, &ws->seqs[i]);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    ws->heads.cols = w->out.cols;
    sp_backend_multiply(ws->backend, &out, 1, &ws->heads, n);
}
