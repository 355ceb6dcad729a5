/* Attention over blocks of layers (Inkling2BlockAttentionResidual in transformers 5.24). The states
 * of a row are what its residual stream was at the end of each block so far, and the stream itself,
 * which begins at zero in each block:
 *
 *   s_j = state_j / sqrt(mean(state_j^2) + 1e-6)
 *   input = norm(sum_j p_j s_j), p = softmax(q . s_j / sqrt(H)), with a learned q for each input
 *
 * The first layer has no q and reads the stream. */
#include "runtime/model/block_attention.h"

#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"

#include <math.h>
#include <string.h>

enum sp_status sp_block_attention_open(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_config *c = &ws->model->config;
    size_t most = 0, h = c->n_hidden, n_threads = sp_pool_n_threads(ws->backend->pool);
    struct sp_block_attention_scratch *s = NULL;
    enum sp_status st;

    if (!c->block_attention) return SP_OK;
    for (unsigned i = 0; i < c->n_layers; i++)
        most += c->layers[i].begins_block;
    if ((st = sp_arena_new(&ws->memory, &s, 1, sizeof *s, err))) return st;
    ws->block_attention = s;
    s->ld_states = (most + 1) * h;
    s->ld_scores = sp_round_up(most + 1, 16);
    if ((st = sp_arena_rows(&ws->memory, &s->blocks, most * ws->max_rows, ws->ld_x, err)) ||
        (st = sp_arena_rows(&ws->memory, &s->states, n_threads, s->ld_states, err)) ||
        (st = sp_arena_rows(&ws->memory, &s->scores, n_threads, s->ld_scores, err)) ||
        (st = sp_arena_rows(&ws->memory, &s->zeros, 1, h > most ? h : most + 1, err)) ||
        (st = sp_arena_acts(&ws->memory, &s->inputs[0], ws->max_rows, h, err)))
        return st;
    return sp_arena_acts(&ws->memory, &s->inputs[1], ws->max_rows, h, err);
}

/* What reads the states: `n` inputs, with a query and a norm each. */
struct read_job {
    struct sp_workspace *ws;
    const float *queries; /* [n][H], or NULL */
    size_t n;
    const float *norms[3]; /* [H], or NULL */
    float *to[3];          /* [rows][ld] */
    size_t ld;
    bool begins_block;
};

static float *block_row(const struct sp_workspace *ws, size_t block, size_t t)
{
    return ws->block_attention->blocks + (block * ws->max_rows + t) * ws->ld_x;
}

/* out = the mean of n states, weighed by attention. The state step multiplies the states by 1 and
 * adds 0 to them, and so leaves their products with the query alone. */
static void attend(const struct sp_workspace *ws, float *out, const float *query, float *states,
                   size_t n, unsigned worker)
{
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_block_attention_scratch *s = ws->block_attention;
    float *scores = s->scores + worker * s->ld_scores, max, sum;
    size_t h = ws->model->config.n_hidden;

    vector->state_step(states, scores, s->zeros, query, s->zeros, 1, h, n);
    vector->scale(scores, (float)(1 / sqrt((double)h)), n);
    vector->softmax(scores, 0, n, &max, &sum);
    memset(out, 0, h * sizeof *out);
    for (size_t j = 0; j < n; j++)
        vector->fma(out, states + j * h, scores[j] / sum, h);
}

static void read_row(void *context, size_t t, unsigned worker)
{
    const struct read_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_block_attention_scratch *s = ws->block_attention;
    size_t h = ws->model->config.n_hidden, n = s->n_blocks;
    float *states = s->states + worker * s->ld_states, *x = ws->x + t * ws->ld_x;

    for (size_t j = 0; job->queries && j <= n; j++)
        vector->rms_norm(states + j * h, j < n ? block_row(ws, j, t) : x, NULL, h, 1e-6f);
    for (size_t k = 0; k < job->n; k++) {
        float *to = job->to[k] + t * job->ld;
        if (job->queries)
            attend(ws, to, job->queries + k * h, states, n + 1, worker);
        else
            memcpy(to, x, h * sizeof *to);
        if (job->norms[k])
            vector->rms_norm(to, to, job->norms[k], h, (float)ws->model->config.norm_eps);
    }
    if (!job->begins_block) return;
    memcpy(block_row(ws, n, t), x, h * sizeof *x);
    memset(x, 0, h * sizeof *x);
}

void sp_block_attention_read_mixer(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct sp_block_attention_scratch *s = ws->block_attention;
    struct read_job job = {.ws = ws,
                           .queries = l->queries[0],
                           .n = l->config->own_kv_inputs ? 3 : 1,
                           .norms = {l->input_norm, l->kv_input_norms[0], l->kv_input_norms[1]},
                           .to = {ws->hidden.x, s->inputs[0].x, s->inputs[1].x},
                           .ld = ws->hidden.ld,
                           .begins_block = l->config->begins_block};

    sp_backend_rows(ws->backend, n, read_row, &job);
    s->n_blocks += l->config->begins_block;
}

void sp_block_attention_read_mlp(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct read_job job = {.ws = ws,
                           .queries = l->queries[1],
                           .n = 1,
                           .norms = {l->ffn_norm},
                           .to = {ws->hidden.x},
                           .ld = ws->hidden.ld};

    sp_backend_rows(ws->backend, n, read_row, &job);
}

void sp_block_attention_end(struct sp_workspace *ws, size_t n)
{
    struct read_job job = {
        .ws = ws, .queries = ws->model->final_query, .n = 1, .to = {ws->x}, .ld = ws->ld_x};

    sp_backend_rows(ws->backend, n, read_row, &job);
}
