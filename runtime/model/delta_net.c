/* Gated delta-rule layers (Yang et al. 2024; Qwen3.5's modeling file in transformers).
 *
 * Per token: project to q, k, v (one matrix) and the gates z, b, a; a short causal convolution over
 * the projected rows, then silu; q and k normed to length one per head; then per value head S <-
 * e^g S;  d = beta (v - S k);  S <- S + d k^T;  o = S q;  y = norm(o) * silu(z) with beta =
 * sigmoid(b), g = -e^A_log * softplus(a + dt_bias).
 *
 * Their state is runtime/model/head_state.h's. Behind a rejected guess it equals, bit for bit, that
 * of a sequence in which the guess never was. No weight is read twice. */
#include "runtime/model/decoder_internal.h"

#include "format/base/mem.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_delta_open(struct sp_workspace *r, struct sp_err *err)
{
    const struct sp_delta_config *c = &r->model->config.delta;
    size_t rows = r->max_rows;
    struct sp_delta_scratch *s = NULL;
    enum sp_status st;

    if (c->n_value_heads == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    r->delta = s;
    s->n_keys = (size_t)c->n_key_heads * c->key_dim;
    s->n_values = (size_t)c->n_value_heads * c->value_dim;
    s->channels = 2 * s->n_keys + s->n_values;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(c->n_value_heads);
    s->sizes = (struct sp_head_sizes){.n_heads = c->n_value_heads,
                                      .n_keys = c->n_key_heads,
                                      .value_dim = c->value_dim,
                                      .key_dim = c->key_dim};
    if ((st = sp_new_rows(&s->input, c->kernel - 1 + rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->mixed, rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->z, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->out, rows, s->ld_z, err))) return st;
    if ((st = sp_new_rows(&s->b, rows, s->ld_heads, err))) return st;
    if ((st = sp_new_rows(&s->a, rows, s->ld_heads, err))) return st;
    return sp_head_workspace_init(&s->workspace, c->key_dim, sp_pool_n_threads(r->backend->pool),
                                  err);
}

void sp_delta_close(struct sp_workspace *r)
{
    struct sp_delta_scratch *s = r->delta;

    if (s == NULL) return;
    free(s->input);
    free(s->mixed);
    free(s->z);
    free(s->out);
    free(s->b);
    free(s->a);
    sp_head_workspace_release(&s->workspace);
    free(s);
}

/* One layer's pass, as the row functions see it. */
struct delta_job {
    struct sp_workspace *r;
    const struct sp_delta_weights *w;
    /* Of the share at hand: */
    const struct sp_conv_history *history;
    size_t first; /* row */
};

/* q, k, v of row i of a share: convolution over it and the kernel - 1 rows before, silu, q and k to
 * length one. */
static void mix_row(void *context, size_t i, unsigned worker)
{
    const struct delta_job *job = context;
    const struct sp_delta_config *c = &job->r->model->config.delta;
    const struct sp_vector *vector = job->r->backend->vector;
    const struct sp_delta_scratch *s = job->r->delta;
    size_t t = job->first + i;
    float *u = s->mixed + t * s->ld;
    double scale = 1 / sqrt((double)c->key_dim);

    (void)worker;
    sp_conv_history_convolve(job->history, vector, u, job->w->conv, s->input + job->first * s->ld,
                             s->ld, i);
    vector->silu(u, s->channels);
    for (size_t h = 0; h < 2 * (size_t)c->n_key_heads; h++) {
        float *head = u + h * c->key_dim;
        vector->l2_norm(head, head, c->key_dim, 1e-6f, h < c->n_key_heads ? (float)scale : 1.0f);
    }
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *b = s->b + t * s->ld_heads + h, *a = s->a + t * s->ld_heads + h;
        float g = -sp_expf(job->w->a_log[h]) * sp_softplusf(*a + job->w->dt_bias[h]);
        *b = sp_sigmoidf(*b);
        *a = sp_expf(g);
    }
}

/* heads.x = norm(o) * silu(z), head by head */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct delta_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_delta_config *c = &r->model->config.delta;
    const struct sp_delta_scratch *s = r->delta;
    const struct sp_vector *vector = r->backend->vector;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z;

    (void)worker;
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *o = out + h * c->value_dim;
        vector->rms_norm(o, o, job->w->norm, c->value_dim, (float)r->model->config.norm_eps);
    }
    vector->silu_mul(z, out, s->n_values);
    memcpy(r->heads.x + t * r->heads.ld, z, s->n_values * sizeof *z);
}

static void step(struct sp_workspace *r, struct sp_recurrent *memory,
                 const struct sp_batch_seq *seq, size_t first)
{
    const struct sp_delta_scratch *s = r->delta;
    const float *mixed = s->mixed + first * s->ld;
    struct sp_head_pass pass = {
        .vector = r->backend->vector,
        .workspace = &s->workspace,
        .state = &memory->heads,
        .q = mixed,
        .k = mixed + s->n_keys,
        .v = mixed + 2 * s->n_keys,
        .ld = s->ld,
        .ld_v = s->ld,
        .decays = s->a + first * s->ld_heads,
        .strengths = s->b + first * s->ld_heads,
        .ld_heads = s->ld_heads,
        .out = s->out + first * s->ld_z,
        .ld_out = s->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, r->backend->pool);
}

/* The rows of one share through the convolution and the recurrence. What its convolution looks back
 * at takes the place of the last rows of the share before. */
static void run_seq(struct delta_job *job, unsigned layer, const struct sp_batch_seq *seq)
{
    struct sp_workspace *r = job->r;
    struct sp_recurrent *memory = &seq->decoder->recurrent[layer];
    size_t ld = r->delta->ld;
    float *input = r->delta->input + job->first * ld;

    job->history = &memory->history;
    sp_conv_history_begin(&memory->history, input, ld);
    sp_backend_rows(r->backend, seq->n, mix_row, job);
    sp_conv_history_end(&memory->history, input, ld, seq->n, seq->n_committed);
    step(r, memory, seq, job->first);
}

void sp_delta_run(struct sp_workspace *r, unsigned layer, size_t n)
{
    const struct sp_delta_config *c = &r->model->config.delta;
    const struct sp_delta_scratch *s = r->delta;
    const struct sp_delta_weights *w = &r->model->layers[layer].delta;
    struct delta_job job = {.r = r, .w = w};
    struct sp_product in[] = {
        {.w = &w->qkv, .y = s->input + (c->kernel - 1) * s->ld, .ldy = s->ld},
        {.w = &w->z, .y = s->z, .ldy = s->ld_z},
        {.w = &w->b, .y = s->b, .ldy = s->ld_heads},
        {.w = &w->a, .y = s->a, .ldy = s->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .y = r->y, .ldy = r->ld_x};

    sp_backend_multiply(r->backend, in, 4, &r->hidden, n);
    for (size_t i = 0; i < r->n_seqs; job.first += r->seqs[i++].n)
        run_seq(&job, layer, &r->seqs[i]);
    sp_backend_rows(r->backend, n, gate_row, &job);
    r->heads.cols = w->out.cols;
    sp_backend_multiply(r->backend, &out, 1, &r->heads, n);
}
