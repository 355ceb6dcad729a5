/* Gated delta-rule layers (Yang et al. 2024; Qwen3.5's modeling file in transformers).
 *
 * Per token: project to q, k, v (one matrix) and the gates z, b, a; a short causal convolution over
 * the projected rows, then silu; q and k normed to length one per head; then per value head
 *
 *   S <- e^g S;  d = beta (v - S k);  S <- S + d k^T;  o = S q;  y = norm(o) * silu(z)
 *
 * with beta = sigmoid(b), g = -e^A_log * softplus(a + dt_bias).
 *
 * The state is a struct sp_head_state. After a rejected draft token it equals, bit for bit, the
 * state of a sequence without that token. No weight is read twice. */
#include "runtime/model/delta_net.h"

#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sp_status sp_delta_net_open(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_head_sizes sizes = {.n_heads = c->n_value_heads,
                                        .n_keys = c->n_key_heads,
                                        .value_dim = c->value_dim,
                                        .key_dim = c->key_dim};
    struct sp_delta_net_scratch *s = NULL;
    enum sp_status st;

    if (c->n_value_heads == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    ws->delta_net = s;
    if ((st = sp_recurrent_scratch_init(&s->common, &sizes, c->kernel, ws->max_rows,
                                        sp_pool_n_threads(ws->backend->pool), err)))
        return st;
    if ((st = sp_new_rows(&s->b, ws->max_rows, s->common.ld_heads, err))) return st;
    return sp_new_rows(&s->a, ws->max_rows, s->common.ld_heads, err);
}

void sp_delta_net_close(struct sp_workspace *ws)
{
    struct sp_delta_net_scratch *s = ws->delta_net;

    if (s == NULL) return;
    sp_recurrent_scratch_release(&s->common);
    free(s->b);
    free(s->a);
    free(s);
}

/* One pass of a layer. */
struct delta_job {
    struct sp_workspace *ws;
    const struct sp_delta_weights *w;
    /* The history of the current sequence. */
    const struct sp_conv_history *history;
    size_t first; /* first row of the current sequence */
};

/* Makes q, k, v of row i of a sequence: convolution over the row and the kernel - 1 rows before it,
 * silu, q and k normed to length one. Makes the gates of the row. */
static void mix_row(void *context, size_t i, unsigned worker)
{
    const struct delta_job *job = context;
    const struct sp_delta_config *c = &job->ws->model->config.delta;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_delta_net_scratch *s = job->ws->delta_net;
    const struct sp_recurrent_scratch *rs = &s->common;
    size_t t = job->first + i;
    float *u = rs->mixed + t * rs->ld;
    double scale = 1 / sqrt((double)c->key_dim);

    (void)worker;
    sp_conv_history_convolve(job->history, vector, u, job->w->conv, rs->input + job->first * rs->ld,
                             rs->ld, i);
    vector->silu(u, rs->channels);
    for (size_t h = 0; h < 2 * (size_t)c->n_key_heads; h++) {
        float *head = u + h * c->key_dim;
        vector->l2_norm(head, head, c->key_dim, 1e-6f, h < c->n_key_heads ? (float)scale : 1.0f);
    }
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *b = s->b + t * rs->ld_heads + h, *a = s->a + t * rs->ld_heads + h;
        float g = -sp_expf(job->w->a_log[h]) * sp_softplusf(*a + job->w->dt_bias[h]);
        *b = sp_sigmoidf(*b);
        *a = sp_expf(g);
    }
}

/* heads.x = norm(o) * silu(z), per head. */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct delta_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_recurrent_scratch *rs = &ws->delta_net->common;
    const struct sp_vector *vector = ws->backend->vector;
    float *z = rs->z + t * rs->ld_z, *out = rs->out + t * rs->ld_z;

    (void)worker;
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *o = out + h * c->value_dim;
        vector->rms_norm(o, o, job->w->norm, c->value_dim, (float)ws->model->config.norm_eps);
    }
    vector->silu_mul(z, out, rs->n_values);
    memcpy(ws->heads.x + t * ws->heads.ld, z, rs->n_values * sizeof *z);
}

static void run_recurrence(struct sp_workspace *ws, struct sp_recurrent *state,
                           const struct sp_batch_seq *seq, size_t first)
{
    const struct sp_delta_net_scratch *s = ws->delta_net;
    const struct sp_recurrent_scratch *rs = &s->common;
    const float *mixed = rs->mixed + first * rs->ld;
    struct sp_head_pass pass = {
        .vector = ws->backend->vector,
        .workspace = &rs->workspace,
        .state = &state->heads,
        .q = mixed,
        .k = mixed + rs->n_keys,
        .v = mixed + 2 * rs->n_keys,
        .ld = rs->ld,
        .ld_v = rs->ld,
        .decays = s->a + first * rs->ld_heads,
        .strengths = s->b + first * rs->ld_heads,
        .ld_heads = rs->ld_heads,
        .out = rs->out + first * rs->ld_z,
        .ld_out = rs->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, ws->backend->pool);
}

/* Runs the rows of one sequence through the convolution and the recurrence. The history of its
 * convolution overwrites the last input rows of the sequence before, which are no longer needed. */
static void run_seq(struct delta_job *job, unsigned layer, const struct sp_batch_seq *seq)
{
    struct sp_workspace *ws = job->ws;
    struct sp_recurrent *state = &seq->decoder->recurrent[layer];
    size_t ld = ws->delta_net->common.ld;
    float *input = ws->delta_net->common.input + job->first * ld;

    job->history = &state->history;
    sp_conv_history_begin(&state->history, input, ld);
    sp_backend_rows(ws->backend, seq->n, mix_row, job);
    sp_conv_history_end(&state->history, input, ld, seq->n, seq->n_committed);
    run_recurrence(ws, state, seq, job->first);
}

void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_delta_net_scratch *s = ws->delta_net;
    const struct sp_recurrent_scratch *rs = &s->common;
    const struct sp_delta_weights *w = &ws->model->layers[layer].delta;
    struct delta_job job = {.ws = ws, .w = w};
    struct sp_product in[] = {
        {.w = &w->qkv, .y = rs->input + (c->kernel - 1) * rs->ld, .ldy = rs->ld},
        {.w = &w->z, .y = rs->z, .ldy = rs->ld_z},
        {.w = &w->b, .y = s->b, .ldy = rs->ld_heads},
        {.w = &w->a, .y = s->a, .ldy = rs->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .y = ws->y, .ldy = ws->ld_x};

    sp_backend_multiply(ws->backend, in, 4, &ws->hidden, n);
    for (size_t i = 0; i < ws->n_seqs; job.first += ws->seqs[i++].n)
        run_seq(&job, layer, &ws->seqs[i]);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    ws->heads.cols = w->out.cols;
    sp_backend_multiply(ws->backend, &out, 1, &ws->heads, n);
}
