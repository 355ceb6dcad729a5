/* Attention over blocks of layers (Inkling2BlockAttentionResidual in transformers 5.24). The states
 * of a row are what its residual stream was at the end of each block so far, and the stream itself,
 * which begins at zero in each block:
 *
 *   s_j = state_j / sqrt(mean(state_j^2) + 1e-6)
 *   input = norm(sum_j p_j s_j), p = softmax(q . s_j / sqrt(H)), with a learned q for each input
 *
 * The first layer has no q and reads the stream.
 *
 * Layers that repeat begin each further run with the stream of the first one. Their inputs h then
 * get messages m, which are read likewise of the states that the run before made:
 *
 *   g = down [h / rms(h), m / rms(m)],  h' = (1 - tanh(forget g)) h + tanh(gain g) m */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

#define STATE_EPS 1e-6f

struct sp_block_attention_scratch {
    float *blocks;   /* [most blocks][max_rows][ld_x] their states, the oldest first */
    size_t n_blocks; /* so far in the pass */
    float *states;   /* [threads][most blocks + 1][H] normed */
    float *scores;   /* [threads][ld_scores] */
    float *zeros;    /* [H, or most blocks + 1] */
    size_t ld_scores, ld_states;
    /* Of layers that repeat: the states of their last run, normed, [max_rows][n_last][H]. */
    float *last;
    size_t n_last;
    float *message, *forget, *gain; /* [max_rows][ld_x] */
    struct sp_acts pairs, low;      /* [max_rows][2 H], [max_rows][rank] */
};

/* Allocates what messages need. */
static void open_messages(struct sp_workspace *ws, size_t most)
{
    const struct sp_config *c = &ws->model->config;
    struct sp_block_attention_scratch *s = ws->block_attention;
    size_t n = ws->max_rows;

    if (c->message_rank == 0) return;
    s->last = sp_arena_rows(&ws->memory, n, most * c->n_hidden);
    s->message = sp_arena_rows(&ws->memory, n, ws->ld_x);
    s->forget = sp_arena_rows(&ws->memory, n, ws->ld_x);
    s->gain = sp_arena_rows(&ws->memory, n, ws->ld_x);
    s->pairs = sp_arena_acts(&ws->memory, n, 2 * (size_t)c->n_hidden);
    s->low = sp_arena_acts(&ws->memory, n, c->message_rank);
}

void sp_block_attention_open(struct sp_workspace *ws)
{
    const struct sp_config *c = &ws->model->config;
    size_t most = 0, h = c->n_hidden, n_threads = sp_pool_n_threads(ws->backend->pool);
    struct sp_block_attention_scratch *s;

    if (!c->block_attention) return;
    for (unsigned i = 0; i < c->n_layers; i++)
        most += c->layers[i].begins_block;
    if ((s = ws->block_attention = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->ld_states = (most + 1) * h;
    s->ld_scores = sp_round_up(most + 1, 16);
    s->blocks = sp_arena_rows(&ws->memory, most * ws->max_rows, ws->ld_x);
    s->states = sp_arena_rows(&ws->memory, n_threads, s->ld_states);
    s->scores = sp_arena_rows(&ws->memory, n_threads, s->ld_scores);
    s->zeros = sp_arena_rows(&ws->memory, 1, h > most ? h : most + 1);
    for (int i = 0; i < 2; i++)
        ws->kv_inputs[i] = sp_arena_acts(&ws->memory, ws->max_rows, h);
    open_messages(ws, most);
}

void sp_block_attention_begin(struct sp_workspace *ws)
{
    ws->block_attention->n_blocks = 0;
}

/* What reads the states: `n` inputs, with a query and a norm each. */
struct read_job {
    struct sp_workspace *ws;
    const float *queries; /* [n_queries][H], 1 for all or one for each; or NULL */
    size_t n, n_queries;
    const float *norms[3]; /* [H], or NULL */
    float *to[3];          /* [rows][ld] */
    size_t ld;
    bool begins_block, messages; /* messages: the norms come after them */
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
        vector->rms_norm(states + j * h, j < n ? block_row(ws, j, t) : x, NULL, h, STATE_EPS);
    for (size_t k = 0; k < job->n; k++) {
        float *to = job->to[k] + t * job->ld;
        if (job->queries)
            attend(ws, to, job->queries + (job->n_queries > 1 ? k * h : 0), states, n + 1, worker);
        else
            memcpy(to, x, h * sizeof *to);
        if (job->norms[k] && !job->messages)
            vector->rms_norm(to, to, job->norms[k], h, (float)ws->model->config.norm_eps);
    }
    if (!job->begins_block) return;
    memcpy(block_row(ws, n, t), x, h * sizeof *x);
    memset(x, 0, h * sizeof *x);
}

/* ---- layers that repeat ---- */

/* Keeps the states that a run made, and returns to the stream before it. */
static void restart_row(void *context, size_t t)
{
    struct sp_workspace *ws = context;
    const struct sp_block_attention_scratch *s = ws->block_attention;
    size_t h = ws->model->config.n_hidden, first = s->n_blocks - s->n_last;
    float *x = ws->x + t * ws->ld_x, *last = s->last + t * s->n_last * h;

    for (size_t j = 1; j <= s->n_last; j++, last += h)
        ws->backend->vector->rms_norm(last, j < s->n_last ? block_row(ws, first + j, t) : x, NULL,
                                      h, STATE_EPS);
    memcpy(x, block_row(ws, first, t), h * sizeof *x);
}

/* Begins a further run at `layer`, the first of those that repeat. */
static void restart(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct sp_block_attention_scratch *s = ws->block_attention;

    s->n_last = 0;
    for (unsigned i = 1; i <= ws->model->config.n_looped; i++)
        s->n_last += l[-(int)i].config->begins_block;
    sp_backend_rows(ws->backend, n, restart_row, ws);
    s->n_blocks -= s->n_last;
}

struct message_job {
    struct sp_workspace *ws;
    const float *query, *norm;
    float *rows; /* [n][ld] the inputs */
    size_t ld;
};

static void read_message(void *context, size_t t, unsigned worker)
{
    const struct message_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_block_attention_scratch *s = ws->block_attention;
    size_t h = ws->model->config.n_hidden;
    float *message = s->message + t * ws->ld_x, *pair = s->pairs.x + t * s->pairs.ld;
    float eps = (float)ws->model->config.norm_eps;

    attend(ws, message, job->query, s->last + t * s->n_last * h, s->n_last, worker);
    ws->backend->vector->rms_norm(pair, job->rows + t * job->ld, NULL, h, eps);
    ws->backend->vector->rms_norm(pair + h, message, NULL, h, eps);
}

static void take_message(void *context, size_t t)
{
    const struct message_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_block_attention_scratch *s = ws->block_attention;
    size_t n = ws->model->config.n_hidden, at = t * ws->ld_x;
    float *row = job->rows + t * job->ld;

    for (size_t i = 0; i < n; i++)
        row[i] = (1 - sp_tanhf(s->forget[at + i])) * row[i] +
                 sp_tanhf(s->gain[at + i]) * s->message[at + i];
    ws->backend->vector->rms_norm(row, row, job->norm, n, (float)ws->model->config.norm_eps);
}

/* Mixes n inputs with their messages, and norms them. */
static void run_message(struct message_job *job, const struct sp_message_weights *w, size_t n)
{
    const struct sp_workspace *ws = job->ws;
    struct sp_block_attention_scratch *s = ws->block_attention;
    const struct sp_product gates[] = {
        {.w = &w->forget, .y = s->forget, .ldy = ws->ld_x},
        {.w = &w->gain, .y = s->gain, .ldy = ws->ld_x},
    };

    job->query = w->query;
    sp_pool_run(ws->backend->pool, n, read_message, job);
    sp_backend_product(ws->backend, s->low.x, s->low.ld, &w->down, NULL, &s->pairs, n);
    sp_backend_multiply(ws->backend, gates, 2, &s->low, n);
    sp_backend_rows(ws->backend, n, take_message, job);
}

/* Mixes all inputs of a job with their messages. */
static void run_messages(struct read_job *job, const struct sp_layer *l, unsigned first, size_t n)
{
    for (unsigned k = 0; k < job->n; k++) {
        struct message_job message = {
            .ws = job->ws, .norm = job->norms[k], .rows = job->to[k], .ld = job->ld};
        run_message(&message, &l->messages[first + k], n);
    }
}

void sp_block_attention_read_mixer(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct sp_block_attention_scratch *s = ws->block_attention;
    const float *const *norms = l->kv_input_norms;
    bool own = l->config->own_kv_inputs, messages = l->messages[0].query && l->config->repeats;
    struct read_job job = {
        .ws = ws,
        .queries = l->queries[0],
        .n = own || messages ? 3 : 1,
        .n_queries = own ? 3 : 1,
        .messages = messages,
        .norms = {l->input_norm, own ? norms[0] : l->input_norm, own ? norms[1] : l->input_norm},
        .to = {ws->hidden.x, ws->kv_inputs[0].x, ws->kv_inputs[1].x},
        .ld = ws->hidden.ld,
        .begins_block = l->config->begins_block};

    if (l->config->restarts) restart(ws, l, n);
    sp_pool_run(ws->backend->pool, n, read_row, &job);
    if (messages) run_messages(&job, l, 0, n);
    s->n_blocks += l->config->begins_block;
}

void sp_block_attention_read_mlp(struct sp_workspace *ws, const struct sp_layer *l, size_t n)
{
    struct read_job job = {.ws = ws,
                           .queries = l->queries[1],
                           .messages = l->messages[3].query && l->config->repeats,
                           .n = 1,
                           .norms = {l->ffn_norm},
                           .to = {ws->hidden.x},
                           .ld = ws->hidden.ld};

    sp_pool_run(ws->backend->pool, n, read_row, &job);
    if (job.messages) run_messages(&job, l, 3, n);
}

void sp_block_attention_end(struct sp_workspace *ws, size_t n)
{
    struct read_job job = {
        .ws = ws, .queries = ws->model->final_query, .n = 1, .to = {ws->x}, .ld = ws->ld_x};

    sp_pool_run(ws->backend->pool, n, read_row, &job);
}
