/* Gated delta-rule layers (Yang et al. 2024; Qwen3.5's modeling file in transformers), and Kimi
 * delta attention (arXiv 2510.26692; kimi_linear and bailing_hybrid in transformers 5.24).
 *
 * Per token: project to q, k, v (one matrix) and the gates z, b, a; a short causal convolution over
 * the projected rows, then silu; q and k normed to length one per head; then per value head
 *
 *   S <- e^g S;  d = beta (v - S k);  S <- S + d k^T;  o = S q;  y = norm(o) * silu(z)
 *
 * with beta = sigmoid(b), g = -e^A_log * softplus(a + dt_bias). Kimi delta attention has a g for
 * each channel of a key, and y = norm(o) * sigmoid(z); with a floor, g = floor * sigmoid(e^A_log
 * (a + dt_bias)).
 *
 * Lightning attention (arXiv 2501.08313; minimax in transformers 5.24) has only silu of q, k, v:
 * S <- decay S + v k^T, o = S q, y = norm(o) * sigmoid(z), with a constant decay for each head.
 *
 * The state is a struct sp_head_state. After a rejected draft token it equals, bit for bit, the
 * state of a sequence without that token. No weight is read twice. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

void sp_delta_net_open(struct sp_workspace *ws)
{
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_head_sizes sizes = {.n_heads = c->n_value_heads,
                                        .n_keys = c->n_key_heads,
                                        .value_dim = c->value_dim,
                                        .key_dim = c->key_dim,
                                        .by_channel = c->by_channel};
    struct sp_recurrent_scratch *s;

    if (c->n_value_heads == 0) return;
    ws->delta_net = s = sp_recurrent_scratch_new(ws, &sizes, c->kernel, !c->lightning);
    if (s == NULL || c->low_rank == 0) return;
    s->low_z = sp_arena_acts(&ws->memory, ws->max_rows, c->low_rank);
    s->low_decays = sp_arena_acts(&ws->memory, ws->max_rows, c->low_rank);
}

/* Turns the n projected numbers of head h into decays. `bias` is that of the head. */
static void make_decays(const struct sp_delta_config *c, const struct sp_delta_weights *w, size_t h,
                        float *a, const float *bias, size_t n)
{
    float rate = sp_expf(w->a_log[h]), floor = (float)c->decay_floor;

    for (size_t i = 0; i < n; i++) {
        float x = a[i] + bias[i];
        a[i] = sp_expf(floor == 0 ? -rate * sp_softplusf(x) : floor * sp_sigmoidf(rate * x));
    }
}

/* Makes q, k, v of row i of a sequence: convolution over the row and the kernel - 1 rows before it,
 * silu, q and k normed to length one. Makes the gates of the row. */
static void mix_row(void *context, size_t i)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_delta_weights *w = job->weights;
    const struct sp_delta_config *c = &job->ws->model->config.delta;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_recurrent_scratch *s = job->scratch;
    float *strengths = s->strengths + (job->first + i) * s->ld_heads;
    float *decays = s->decays + (job->first + i) * s->ld_decays;
    size_t n_decays = c->by_channel ? c->key_dim : 1;
    float *u = sp_recurrent_convolve(job, w->conv, i);
    double scale = 1 / sqrt((double)c->key_dim);

    vector->silu(u, s->channels);
    for (size_t h = 0; h < 2 * (size_t)c->n_key_heads; h++) {
        float *head = u + h * c->key_dim;
        vector->l2_norm(head, head, c->key_dim, 1e-6f, h < c->n_key_heads ? (float)scale : 1.0f);
    }
    for (size_t h = 0; h < c->n_value_heads; h++) {
        strengths[h] = (float)c->strength * sp_sigmoidf(strengths[h]);
        make_decays(c, w, h, decays + h * n_decays, w->dt_bias + h * n_decays, n_decays);
    }
}

/* Lightning attention: silu of row i of a sequence, its values, and the decays. */
static void activate_row(void *context, size_t i)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_delta_weights *w = job->weights;
    const struct sp_recurrent_scratch *s = job->scratch;
    size_t t = job->first + i;
    float *u = s->mixed + t * s->ld;

    memcpy(u, s->input + t * s->ld, s->channels * sizeof *u);
    job->ws->backend->vector->silu(u, s->channels);
    memcpy(s->values + t * s->ld_z, u + 2 * s->n_keys, s->n_values * sizeof *u);
    memcpy(s->decays + t * s->ld_decays, w->decays, s->sizes.n_heads * sizeof *u);
}

/* heads.x = norm(o) * silu(z) or sigmoid(z); a norm per head, or over all of them. */
static void gate_row(void *context, size_t t)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_delta_weights *w = job->weights;
    struct sp_workspace *ws = job->ws;
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_recurrent_scratch *s = job->scratch;
    const struct sp_vector *vector = ws->backend->vector;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z;
    float *y = ws->heads.x + t * ws->heads.ld;
    bool sigmoid = c->by_channel || c->lightning || c->sigmoid_gate;

    if (c->lightning) vector->rms_norm(out, out, w->norm, s->n_values, (float)SP_LATENT_EPS);
    for (size_t h = 0; !c->lightning && h < c->n_value_heads; h++) {
        float *o = out + h * c->value_dim;
        vector->rms_norm(o, o, w->norm, c->value_dim, (float)c->norm_eps);
    }
    if (sigmoid)
        vector->sigmoid_mul(out, z, s->n_values);
    else
        vector->gates[SP_SILU](z, out, s->n_values);
    memcpy(y, sigmoid ? out : z, s->n_values * sizeof *y);
}

/* Makes the rows to convolve, the gates and what the decays are made of. */
static void project(struct sp_workspace *ws, const struct sp_delta_weights *w, size_t n)
{
    const struct sp_recurrent_scratch *s = ws->delta_net;
    size_t before = ws->model->config.delta.kernel - 1;
    bool low = w->up_z.rows != 0;
    const struct sp_product in[] = {
        {.w = &w->qkv, .y = s->input + before * s->ld, .ldy = s->ld},
        {.w = &w->z, .y = low ? s->low_z.x : s->z, .ldy = low ? s->low_z.ld : s->ld_z},
        {.w = &w->b, .y = s->strengths, .ldy = s->ld_heads},
        {.w = &w->a,
         .y = low ? s->low_decays.x : s->decays,
         .ldy = low ? s->low_decays.ld : s->ld_decays},
    };

    sp_backend_multiply(ws->backend, in, w->b.rows ? 4 : 2, &ws->hidden, n);
    if (!low) return;
    sp_backend_product(ws->backend, s->z, s->ld_z, &w->up_z, NULL, &s->low_z, n);
    sp_backend_product(ws->backend, s->decays, s->ld_decays, &w->up_a, NULL, &s->low_decays, n);
}

void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_recurrent_scratch *s = ws->delta_net;
    const struct sp_delta_weights *w = &ws->model->layers[layer].delta;
    struct sp_recurrent_job job = {.ws = ws,
                                   .scratch = s,
                                   .weights = w,
                                   .mix_row = w->decays ? activate_row : mix_row,
                                   .q = s->mixed,
                                   .k = s->mixed + s->n_keys,
                                   .v = s->values ? s->values : s->mixed + 2 * s->n_keys};

    project(ws, w, n);
    sp_recurrent_job_convolve(&job, layer);
    sp_recurrent_job_scan(&job, layer);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    ws->heads.cols = w->out.cols;
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &w->out, NULL, &ws->heads, n);
}
