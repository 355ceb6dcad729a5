/* Gated short convolutions (LFM2's modeling file in transformers 5.23).
 *
 * Per token: project to b, c and x (one matrix), each as wide as the hidden state; a causal
 * convolution over b * x, channel by channel, over a few tokens; times c; and a projection back.
 *
 * The state of a sequence is the last rows of b * x, without those of rejected draft tokens. */
#include "runtime/model/sublayers.h"

#include <string.h>

struct sp_short_conv_scratch {
    float *projected; /* [max_rows][ld]: b, c, x */
    float *input;     /* [kernel - 1 + max_rows][ld_x]: b * x, after the history */
    size_t ld;
};

void sp_short_conv_open(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    size_t rows = ws->max_rows, n_before = config->short_conv.kernel - 1;
    struct sp_short_conv_scratch *s;

    if (config->short_conv.kernel == 0) return;
    if ((s = ws->short_conv = sp_arena_new(&ws->memory, 1, sizeof *s)) == NULL) return;
    s->ld = sp_matrix_ld(3 * (size_t)config->n_hidden);
    s->projected = sp_arena_rows(&ws->memory, rows, s->ld);
    s->input = sp_arena_rows(&ws->memory, n_before + rows, ws->ld_x);
}

/* One pass of a layer. */
struct conv_job {
    struct sp_workspace *ws;
    const struct sp_short_conv_weights *w;
    const struct sp_conv_history *history; /* of the first sequence, for its sizes */
    size_t first;                          /* first row of the current sequence */
};

/* input = b * x. */
static void gate_input_row(void *context, size_t t)
{
    const struct conv_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_short_conv_scratch *s = ws->short_conv;
    size_t n = ws->model->config.n_hidden;
    const float *b = s->projected + t * s->ld, *x = b + 2 * n;
    float *row = s->input + (ws->model->config.short_conv.kernel - 1 + t) * ws->ld_x;

    memcpy(row, b, n * sizeof *row);
    ws->backend->vector->mul(row, x, n);
}

/* heads.x of row i of a sequence = c * (the taps times it and the rows before it, oldest first). */
static void convolve_row(void *context, size_t i)
{
    const struct conv_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_short_conv_scratch *s = ws->short_conv;
    size_t n = ws->model->config.n_hidden, t = job->first + i;
    float *y = ws->heads.x + t * ws->heads.ld;

    sp_conv_history_convolve(job->history, vector, y, job->w->taps,
                             s->input + job->first * ws->ld_x, ws->ld_x, i);
    if (job->w->bias) vector->add(y, job->w->bias, n);
    vector->mul(y, s->projected + t * s->ld + n, n);
}

void sp_short_conv_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    struct sp_short_conv_scratch *s = ws->short_conv;
    const struct sp_short_conv_weights *w = &ws->model->layers[layer].short_conv;
    struct conv_job job = {
        .ws = ws, .w = w, .history = &ws->seqs[0].decoder->recurrent[layer].histories[0]};

    sp_backend_product(ws->backend, s->projected, s->ld, &w->in, w->in_bias, &ws->hidden, n);
    sp_backend_rows(ws->backend, n, gate_input_row, &job);
    sp_conv_history_run(ws, layer, 0, s->input, ws->ld_x, convolve_row, &job, &job.first);
    ws->heads.cols = w->out.cols;
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &w->out, w->out_bias, &ws->heads, n);
}

/* ---- convolutions that add what they convolve ---- */

/* One convolution of a pass. */
struct residual_job {
    struct sp_workspace *ws;
    const struct sp_conv_history *history; /* of the first sequence, for its sizes */
    const float *taps;
    float *rows;
    const float *dynamic; /* [rows][ld_dynamic] further taps of each head of k or v; NULL: none */
    size_t head_dim;
    float factor;     /* of dynamic taps */
    size_t ld, first; /* first: row of the current sequence */
};

static void copy_row(void *context, size_t t)
{
    const struct residual_job *job = context;
    const struct sp_conv_history *h = job->history;

    memcpy(job->ws->convolved + (h->n_before + t) * job->ws->ld_convolved, job->rows + t * job->ld,
           h->width * sizeof *job->rows);
}

/* y += the taps that a row makes times it and the rows before it. */
static void add_dynamic(const struct residual_job *job, float *y, size_t t, const float *input)
{
    const struct sp_workspace *ws = job->ws;
    const float *taps = job->dynamic + t * ws->ld_dynamic;
    size_t n_before = job->history->n_before;

    for (size_t at = 0; at < job->history->width; at += job->head_dim)
        for (size_t lag = 0; lag <= n_before; lag++)
            ws->backend->vector->fma(y + at, input + (n_before - lag) * ws->ld_convolved + at,
                                     *taps++ * job->factor, job->head_dim);
}

static void add_convolved_row(void *context, size_t i)
{
    const struct residual_job *job = context;
    const struct sp_workspace *ws = job->ws;
    size_t t = job->first + i;
    float *y = job->rows + t * job->ld;

    sp_conv_history_convolve(job->history, ws->backend->vector, y, job->taps,
                             ws->convolved + job->first * ws->ld_convolved, ws->ld_convolved, i);
    if (job->dynamic) add_dynamic(job, y, t, ws->convolved + t * ws->ld_convolved);
}

void sp_residual_conv_run(struct sp_workspace *ws, unsigned layer, enum sp_layer_conv which,
                          float *rows, size_t ld, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct residual_job job = {.ws = ws,
                               .history = &ws->seqs->decoder->recurrent[layer].histories[which],
                               .taps = l->residual_taps[which],
                               .head_dim = l->config->head_dim,
                               .rows = rows,
                               .ld = ld};

    if (which < SP_CONV_MIXER && l->config->own_kv_inputs) {
        job.dynamic = ws->dynamic;
        job.factor = sp_residual_factor(&ws->model->config, true);
    }

    sp_backend_rows(ws->backend, n, copy_row, &job);
    sp_conv_history_run(ws, layer, which, ws->convolved, ws->ld_convolved, add_convolved_row, &job,
                        &job.first);
}
