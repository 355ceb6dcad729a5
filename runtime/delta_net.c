/* Gated delta-rule layers (Yang et al. 2024; Qwen3.5's modeling file in transformers).
 *
 * Per token: project to q, k, v (one matrix) and the gates z, b, a; a short causal convolution over
 * the projected rows, then silu; q and k normed to length one per head; then per value head S <-
 * e^g S;  d = beta (v - S k);  S <- S + d k^T;  o = S q;  y = norm(o) * silu(z) with beta =
 * sigmoid(b), g = -e^A_log * softplus(a + dt_bias).
 *
 * The rows of a pass go through the recurrence one by one, whatever their number: chunked forms
 * round differently. Rows that may be rejected run on a copy of the head's state and leave a log
 * (k, d, e^g): commit repeats the very same operations on the real state, so it equals, bit for
 * bit, that of a sequence in which the rejected rows never were.
 *
 * What that costs. Memory: a logged row takes, per layer, 4 bytes for each key, value, value head
 * and channel of the convolution; with 16 key and 48 value heads of 128 that is 72 KiB, where a
 * snapshot would take 3 MiB. The first row of a round is certain and takes none. Time: one copy of
 * each head's state per pass, a few rows at a time, which stay in the nearest cache while the pass
 * steps them; and one multiply-add over the state per accepted guess, which waits for the next pass
 * to bring these rows there. No weight is read twice. */
#include "runtime/decoder.h"

#include "format/hash.h"
#include "format/mem.h"
#include "runtime/fmath.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_ROWS = 16 }; /* rows of a state that are stepped together */

static enum sp_status new_floats(float **out, size_t rows, size_t n, struct sp_err *err)
{
    enum sp_status st;
    size_t size;

    if (!sp_mul(&size, rows, n)) return sp_fail(err, SP_E_NOMEM, "out of memory: rows overflow");
    if ((st = sp_new_aligned(out, size, sizeof **out, err))) return st;
    memset(*out, 0, size * sizeof **out);
    return SP_OK;
}

static enum sp_status open_scratch(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_delta_config *c = &d->model->config.delta;
    size_t rows = d->options.max_rows, threads = sp_pool_n_threads(d->engine->pool);
    struct sp_delta_scratch *s = NULL;
    enum sp_status st;

    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    d->delta = s;
    s->n_keys = (size_t)c->n_key_heads * c->key_dim;
    s->n_values = (size_t)c->n_value_heads * c->value_dim;
    s->channels = 2 * s->n_keys + s->n_values;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(c->n_value_heads);
    s->max_logged = d->options.max_logit_rows;
    if ((st = new_floats(&s->input, c->kernel - 1 + rows, s->ld, err))) return st;
    if ((st = new_floats(&s->mixed, rows, s->ld, err))) return st;
    if ((st = new_floats(&s->z, rows, s->ld_z, err))) return st;
    if ((st = new_floats(&s->out, rows, s->ld_z, err))) return st;
    if ((st = new_floats(&s->b, rows, s->ld_heads, err))) return st;
    if ((st = new_floats(&s->a, rows, s->ld_heads, err))) return st;
    if ((st = new_floats(&s->states, threads, (size_t)STATE_ROWS * c->key_dim, err))) return st;
    return new_floats(&s->unused, threads, STATE_ROWS, err);
}

enum sp_status sp_delta_open(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    const struct sp_delta_config *c = &config->delta;
    enum sp_status st;

    if (c->n_value_heads == 0) return SP_OK;
    if ((st = open_scratch(d, err))) return st;
    if ((st = sp_new(&d->deltas, config->n_layers, sizeof *d->deltas, err))) return st;
    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_delta_scratch *s = d->delta;
        struct sp_delta_cache *cache = &d->deltas[i];
        if (config->layers[i].mixer != SP_MIXER_DELTA_NET) continue;
        if ((st = new_floats(&cache->state, s->n_values, c->key_dim, err))) return st;
        if ((st = sp_conv_history_init(&cache->history, c->kernel - 1, s->max_logged, s->channels,
                                       err))) {
            return st;
        }
        if ((st = new_floats(&cache->keys, s->max_logged, s->n_keys, err))) return st;
        if ((st = new_floats(&cache->deltas, s->max_logged, s->n_values, err))) return st;
        if ((st = new_floats(&cache->decays, s->max_logged, c->n_value_heads, err))) return st;
    }
    return SP_OK;
}

void sp_delta_close(struct sp_decoder *d)
{
    struct sp_delta_scratch *s = d->delta;

    for (unsigned i = 0; d->deltas && i < d->model->config.n_layers; i++) {
        free(d->deltas[i].state);
        sp_conv_history_release(&d->deltas[i].history);
        free(d->deltas[i].keys);
        free(d->deltas[i].deltas);
        free(d->deltas[i].decays);
    }
    free(d->deltas);
    if (s == NULL) return;
    free(s->input);
    free(s->mixed);
    free(s->z);
    free(s->out);
    free(s->b);
    free(s->a);
    free(s->states);
    free(s->unused);
    free(s);
}

size_t sp_delta_cache_size(const struct sp_decoder *d)
{
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_scratch *s = d->delta;
    size_t logged = s->n_keys + s->n_values + c->n_value_heads;
    unsigned layer = sp_config_first_layer(&d->model->config, SP_MIXER_DELTA_NET);

    return sizeof(float) * (s->n_values * c->key_dim + s->max_logged * logged) +
           sp_conv_history_size(&d->deltas[layer].history);
}

void sp_delta_reset(struct sp_decoder *d)
{
    const struct sp_delta_config *c = &d->model->config.delta;

    for (unsigned i = 0; d->deltas && i < d->model->config.n_layers; i++) {
        struct sp_delta_cache *cache = &d->deltas[i];
        if (cache->state == NULL) continue;
        cache->n_pending = 0;
        memset(cache->state, 0, d->delta->n_values * c->key_dim * sizeof(float));
        sp_conv_history_reset(&cache->history);
    }
}

/* One layer's pass, as the row and head functions see it. */
struct delta_job {
    struct sp_decoder *d;
    const struct sp_delta_weights *w;
    struct sp_delta_cache *cache;
    size_t n;
};

/* q, k, v of a row: convolution over it and the kernel - 1 rows before, silu, q and k to length
 * one. */
static void mix_row(void *context, size_t t, unsigned worker)
{
    const struct delta_job *job = context;
    const struct sp_delta_config *c = &job->d->model->config.delta;
    const struct sp_vector *vector = job->d->engine->vector;
    const struct sp_delta_scratch *s = job->d->delta;
    float *u = s->mixed + t * s->ld;
    double scale = 1 / sqrt((double)c->key_dim);

    (void)worker;
    memset(u, 0, s->channels * sizeof *u);
    for (size_t i = 0; i < c->kernel; i++) {
        vector->mul_add(u, job->w->conv + i * s->channels, s->input + (t + i) * s->ld, s->channels);
    }
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

/* Logged rows that became true change rows j..j+n_rows-1 of a value head's state. */
static void replay_rows(const struct delta_job *job, size_t h, size_t j, size_t n_rows)
{
    const struct sp_decoder *d = job->d;
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_cache *cache = job->cache;
    size_t key = h / (c->n_value_heads / c->n_key_heads) * c->key_dim;
    size_t value = h * c->value_dim + j;

    for (size_t i = 0; i < cache->n_pending; i++) {
        d->engine->vector->delta_replay(
            cache->state + value * c->key_dim, cache->deltas + i * d->delta->n_values + value,
            cache->keys + i * d->delta->n_keys + key, cache->decays[i * c->n_value_heads + h],
            c->key_dim, n_rows);
    }
}

/* Rows j..j+n_rows-1 of a value head's state through all rows of the pass; certain ones change
 * them, others a copy. */
static void step_state_rows(const struct delta_job *job, size_t h, size_t j, size_t n_rows,
                            unsigned worker)
{
    struct sp_decoder *d = job->d;
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_scratch *s = d->delta;
    size_t key = h / (c->n_value_heads / c->n_key_heads) * c->key_dim;
    size_t value = h * c->value_dim + j;
    float *state = job->cache->state + value * c->key_dim;
    float *copy = s->states + worker * STATE_ROWS * c->key_dim;

    replay_rows(job, h, j, n_rows);
    for (size_t t = 0; t < job->n; t++) {
        const float *u = s->mixed + t * s->ld;
        float *delta = s->unused + worker * STATE_ROWS;
        if (t == d->n_certain) {
            memcpy(copy, state, n_rows * c->key_dim * sizeof *copy);
            state = copy;
        }
        if (t >= d->n_certain) {
            delta = job->cache->deltas + (t - d->n_certain) * s->n_values + value;
        }
        d->engine->vector->delta_step(state, s->out + t * s->ld_z + value, delta, u + key,
                                      u + s->n_keys + key, u + 2 * s->n_keys + value,
                                      s->a[t * s->ld_heads + h], s->b[t * s->ld_heads + h],
                                      c->key_dim, n_rows);
    }
}

/* A value head. Rows of its state know nothing of each other: few at a time go through the whole
 * pass, and stay in the nearest cache meanwhile. */
static void step_head(void *context, size_t h, unsigned worker)
{
    const struct delta_job *job = context;
    size_t dim = job->d->model->config.delta.value_dim;

    for (size_t j = 0; j < dim; j += STATE_ROWS) {
        step_state_rows(job, h, j, dim - j < STATE_ROWS ? dim - j : STATE_ROWS, worker);
    }
}

/* heads.x = norm(o) * silu(z), head by head */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct delta_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_scratch *s = d->delta;
    const struct sp_vector *vector = d->engine->vector;
    float *z = s->z + t * s->ld_z, *out = s->out + t * s->ld_z;

    (void)worker;
    for (size_t h = 0; h < c->n_value_heads; h++) {
        float *o = out + h * c->value_dim;
        vector->rms_norm(o, o, job->w->norm, c->value_dim, (float)d->model->config.norm_eps);
    }
    vector->silu_mul(z, out, s->n_values);
    memcpy(d->heads.x + t * d->heads.ld, z, s->n_values * sizeof *z);
}

/* The convolution's history, and for uncertain rows the log. */
static void keep_rows(const struct delta_job *job)
{
    struct sp_decoder *d = job->d;
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_scratch *s = d->delta;
    size_t n_logged = job->n - d->n_certain;

    sp_conv_history_end(&job->cache->history, s->input, s->ld, job->n, d->n_certain);
    for (size_t i = 0; i < n_logged; i++) {
        size_t t = d->n_certain + i;
        memcpy(job->cache->keys + i * s->n_keys, s->mixed + t * s->ld + s->n_keys,
               s->n_keys * sizeof(float));
        memcpy(job->cache->decays + i * c->n_value_heads, s->a + t * s->ld_heads,
               c->n_value_heads * sizeof(float));
    }
}

void sp_delta_run(struct sp_decoder *d, unsigned layer, size_t n)
{
    const struct sp_delta_config *c = &d->model->config.delta;
    const struct sp_delta_scratch *s = d->delta;
    const struct sp_delta_weights *w = &d->model->layers[layer].delta;
    struct delta_job job = {d, w, &d->deltas[layer], n};
    struct sp_product in[] = {
        {.w = &w->qkv, .y = s->input + (c->kernel - 1) * s->ld, .ldy = s->ld},
        {.w = &w->z, .y = s->z, .ldy = s->ld_z},
        {.w = &w->b, .y = s->b, .ldy = s->ld_heads},
        {.w = &w->a, .y = s->a, .ldy = s->ld_heads},
    };
    struct sp_product out = {.w = &w->out, .y = d->y, .ldy = d->ld_x};

    sp_engine_multiply(d->engine, in, 4, &d->hidden, n);
    sp_conv_history_begin(&job.cache->history, s->input, s->ld);
    sp_engine_rows(d->engine, n, mix_row, &job);
    sp_pool_run(d->engine->pool, c->n_value_heads, step_head, &job);
    job.cache->n_pending = 0;
    keep_rows(&job);
    sp_engine_rows(d->engine, n, gate_row, &job);
    d->heads.cols = w->out.cols;
    sp_engine_multiply(d->engine, &out, 1, &d->heads, n);
}

void sp_delta_commit(struct sp_decoder *d, unsigned layer, size_t n_kept)
{
    struct sp_delta_cache *cache = &d->deltas[layer];

    assert(cache->n_pending == 0 && n_kept >= d->n_certain);
    cache->n_pending = n_kept - d->n_certain;
    sp_conv_history_commit(&cache->history, cache->n_pending);
}

static void replay_head(void *context, size_t h, unsigned worker)
{
    const struct delta_job *job = context;

    (void)worker;
    replay_rows(job, h, 0, job->d->model->config.delta.value_dim);
}

uint64_t sp_delta_digest(struct sp_decoder *d, unsigned layer)
{
    const struct sp_delta_config *c = &d->model->config.delta;
    struct sp_delta_cache *cache = &d->deltas[layer];
    struct delta_job job = {.d = d, .cache = cache};
    uint64_t digests[2];

    sp_pool_run(d->engine->pool, c->n_value_heads, replay_head, &job);
    cache->n_pending = 0;
    digests[0] = sp_hash64(cache->state, d->delta->n_values * c->key_dim * sizeof(float));
    digests[1] = sp_conv_history_digest(&cache->history);
    return sp_hash64(digests, sizeof digests);
}
