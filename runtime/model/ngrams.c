/* Embeddings of n-grams (qwen4_exp in transformers 5.24). A token and those before it, t_0, t_1,
 * ..., where the end of a text stands for itself and all tokens before it, give
 *
 *   row h of an n-gram of n tokens = (t_0 f_0 xor ... xor t_(n-1) f_(n-1)) mod rows_h
 *
 * in 64 bits, in part h of the layer's table, for each n from 2 on. With e all these rows, one
 * after another, and H_i the streams:
 *
 *   g_i = RMSNorm(key e)_i . RMSNorm(H_i) / sqrt(H);  u_i = sigmoid(sign(g_i) sqrt(|g_i|)) value e
 *   H += u + silu(convolution of RMSNorm(u_i) over this row and every `longest`-th before it)
 *
 * with |g_i| at least 1e-6. The table may be larger than the rest of the model, so its rows are
 * read from the mapped file. The dots are double, so all instruction sets use the same code.
 *
 * The state of a sequence is the rows before the convolution, each with its token. */
#include "runtime/model/sublayers.h"

#include "runtime/vector/fmath.h"

#include <math.h>
#include <string.h>

struct sp_ngrams_scratch {
    struct sp_acts rows; /* [max_rows][n_parts * dim] of the table */
    float *key, *value;  /* [max_rows][ld], [max_rows][ld_x] */
    float *input;        /* [n_before + max_rows][ld] */
    size_t ld, n_before; /* n_before: rows of the history */
};

void sp_ngrams_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    const struct sp_ngram_config *c = &config->ngrams;
    struct sp_ngrams_scratch *s;

    if (c->n_parts == 0) return;
    if ((s = ws->ngrams = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->n_before = (size_t)(c->kernel - 1) * c->longest;
    s->ld = sp_matrix_ld((size_t)config->hyper.n_streams * config->n_hidden + 1);
    s->rows = sp_arena_acts(&ws->memory, ws->max_rows, (size_t)c->n_parts * c->dim);
    s->key = sp_arena_rows(&ws->memory, ws->max_rows, s->ld);
    s->value = sp_arena_rows(&ws->memory, ws->max_rows, ws->ld_x);
    s->input = sp_arena_rows(&ws->memory, s->n_before + ws->max_rows, s->ld);
}

/* A pass of a layer. */
struct ngrams_job {
    struct sp_workspace *ws;
    const struct sp_ngram_weights *w;
    const struct sp_conv_history *history; /* of the current sequence */
    size_t first;                          /* its first row of the pass */
};

/* The token that is `back` tokens before row i of the sequence. */
static uint32_t token_at(const struct ngrams_job *job, size_t i, size_t back)
{
    const struct sp_conv_history *h = job->history;

    if (back <= i) return job->ws->ids[job->first + i - back];
    return job->ws->model->config.ngrams.separator +
           (uint32_t)(int32_t)h->rows[(h->n_before + i - back + 1) * h->width - 1];
}

/* Reads the table's rows for row i of the sequence. */
static void look_up(void *context, size_t i)
{
    const struct ngrams_job *job = context;
    const struct sp_ngram_config *c = &job->ws->model->config.ngrams;
    const struct sp_ngram_weights *w = job->w;
    float *out = job->ws->ngrams->rows.x + (job->first + i) * job->ws->ngrams->rows.ld;
    uint64_t mixed = token_at(job, i, 0) * w->factors[0], token = c->separator + 1;
    size_t part = 0, begin = 0, n_heads = c->n_parts / (c->longest - 1);

    for (size_t n = 1; n < c->longest; n++) {
        if (token != c->separator) token = token_at(job, i, n);
        mixed ^= token * w->factors[n];
        for (size_t h = 0; h < n_heads; h++, out += w->table.cols) {
            sp_backend_read_row(job->ws->backend, out, &w->table, begin + mixed % w->rows[part]);
            begin += w->rows[part++];
        }
    }
}

/* Adds u to the streams, and makes the row to convolve, of row t of the pass. */
static void gate_row(void *context, size_t t)
{
    const struct ngrams_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_config *c = &ws->model->config;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_ngrams_scratch *s = ws->ngrams;
    size_t n = c->n_hidden, all = c->hyper.n_streams * n;
    float *row = s->input + (t + s->n_before) * s->ld;
    float *streams = sp_hyper_streams(ws, t), *key = s->key + t * s->ld;

    row[all] = (float)((int64_t)ws->ids[t] - c->ngrams.separator);
    for (size_t at = 0; at < all; at += n) {
        float *u = row + at, gate;
        double dot = 0;
        vector->rms_norm(key + at, key + at, job->w->key_norm + at, n, (float)c->norm_eps);
        vector->rms_norm(u, streams + at, job->w->query_norm + at, n, (float)c->norm_eps);
        for (size_t d = 0; d < n; d++)
            dot += (double)key[at + d] * u[d];
        gate = (float)(dot / sqrt((double)n));
        if (gate != 0) gate = copysignf(sqrtf(fmaxf(fabsf(gate), 1e-6f)), gate);
        memcpy(u, s->value + t * ws->ld_x, n * sizeof *u);
        vector->scale(u, sp_sigmoidf(gate), n);
        vector->add(streams + at, u, n);
        vector->rms_norm(u, u, job->w->conv_norm + at, n, (float)c->norm_eps);
    }
}

/* Adds the convolution of row i of the sequence to the streams. */
static void convolve_row(void *context, size_t i)
{
    const struct ngrams_job *job = context;
    const struct sp_config *c = &job->ws->model->config;
    const struct sp_vector *vector = job->ws->backend->vector;
    const struct sp_ngrams_scratch *s = job->ws->ngrams;
    size_t t = job->first + i, all = (size_t)c->hyper.n_streams * c->n_hidden;
    float *y = s->key + t * s->ld;

    memset(y, 0, all * sizeof *y);
    for (size_t k = 0; k < c->ngrams.kernel; k++)
        vector->mul_add(y, job->w->taps + k * all, s->input + (t + k * c->ngrams.longest) * s->ld,
                        all);
    vector->silu(y, all);
    vector->add(sp_hyper_streams(job->ws, t), y, all);
}

void sp_ngrams_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    struct sp_ngrams_scratch *s = ws->ngrams;
    struct ngrams_job job = {.ws = ws, .w = &ws->model->layers[layer].ngrams};
    const struct sp_product of_rows[] = {
        {.w = &job.w->key, .y = s->key, .ldy = s->ld},
        {.w = &job.w->value, .y = s->value, .ldy = ws->ld_x},
    };

    for (size_t i = 0; i < ws->n_seqs; job.first += ws->seqs[i++].n) {
        job.history = &ws->seqs[i].decoder->recurrent[layer].histories[SP_NGRAMS_HISTORY];
        sp_backend_rows(ws->backend, ws->seqs[i].n, look_up, &job);
    }
    sp_backend_multiply(ws->backend, of_rows, 2, &s->rows, n);
    sp_backend_rows(ws->backend, n, gate_row, &job);
    sp_conv_history_run(ws, layer, SP_NGRAMS_HISTORY, s->input, s->ld, convolve_row, &job,
                        &job.first);
}
