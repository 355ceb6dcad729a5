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

#include "runtime/model/decoder_internal.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

enum sp_status sp_delta_net_open(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_head_sizes sizes = {.n_heads = c->n_value_heads,
                                        .n_keys = c->n_key_heads,
                                        .value_dim = c->value_dim,
                                        .key_dim = c->key_dim};

    if (c->n_value_heads == 0) return SP_OK;
    return sp_recurrent_scratch_open(&ws->delta_net, ws, &sizes, c->kernel, true, err);
}

/* Makes q, k, v of row i of a sequence: convolution over the row and the kernel - 1 rows before it,
 * silu, q and k normed to length one. Makes the gates of the row. */
static void mix_row(void *context, size_t i, unsigned worker)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_delta_weights *w = job->weights;
    const struct sp_delta_config *c = &job->ws->model->config.delta;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_recurrent_scratch *s = job->scratch;
    size_t at = (job->first + i) * s->ld_heads;
    float *u = sp_recurrent_convolve(job, w->conv, i);
    double scale = 1 / sqrt((double)c->key_dim);

    (void)worker;
    vector->silu(u, s->channels);
    for (size_t h = 0; h < 2 * (size_t)c->n_key_heads; h++) {
        float *head = u + h * c->key_dim;
        vector->l2_norm(head, head, c->key_dim, 1e-6f, h < c->n_key_heads ? (float)scale : 1.0f);
    }
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *b = s->strengths + at + h, *a = s->decays + at + h;
        float g = -sp_expf(w->a_log[h]) * sp_softplusf(*a + w->dt_bias[h]);
        *b = sp_sigmoidf(*b);
        *a = sp_expf(g);
    }
}

/* heads.x = norm(o) * silu(z), per head. */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct sp_recurrent_job *job = context;
    const struct sp_delta_weights *w = job->weights;
    struct sp_workspace *ws = job->ws;
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_recurrent_scratch *s = job->scratch;
    const struct sp_vector *vector = ws->backend->vector;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z;

    (void)worker;
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *o = out + h * c->value_dim;
        vector->rms_norm(o, o, w->norm, c->value_dim, (float)ws->model->config.norm_eps);
    }
    vector->silu_mul(z, out, s->n_values);
    memcpy(ws->heads.x + t * ws->heads.ld, z, s->n_values * sizeof *z);
}

void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_delta_config *c = &ws->model->config.delta;
    const struct sp_recurrent_scratch *s = ws->delta_net;
    const struct sp_delta_weights *w = &ws->model->layers[layer].delta;
    struct sp_recurrent_job job = {.ws = ws,
                                   .scratch = s,
                                   .weights = w,
                                   .mix_row = mix_row,
                                   .q = s->mixed,
                                   .k = s->mixed + s->n_keys,
                                   .v = s->mixed + 2 * s->n_keys};
    struct sp_product in[] = {
        {.w = &w->qkv, .y = s->input + (c->kernel - 1) * s->ld, .ldy = s->ld},
        {.w = &w->z, .y = s->z, .ldy = s->ld_z},
        {.w = &w->b, .y = s->strengths, .ldy = s->ld_heads},
        {.w = &w->a, .y = s->decays, .ldy = s->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .y = ws->y, .ldy = ws->ld_x};

    sp_backend_multiply(ws->backend, in, 4, &ws->hidden, n);
    sp_recurrent_job_run(&job, layer);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    ws->heads.cols = w->out.cols;
    sp_backend_multiply(ws->backend, &out, 1, &ws->heads, n);
}
