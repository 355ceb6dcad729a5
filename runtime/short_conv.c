/* Gated short convolutions (LFM2's modeling file in transformers 5.23).
 *
 * Per token: project to b, c and x (one matrix), each as wide as the hidden state; a causal
 * convolution over b * x, channel by channel, over a few tokens; times c; and a projection back.
 *
 * What a sequence remembers are the last rows of b * x: a rejected guess is dropped from them. */
#include "runtime/decoder.h"

#include "format/mem.h"

#include <stdlib.h>
#include <string.h>

enum sp_status sp_short_conv_open(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    size_t rows = d->options.max_rows, history = config->short_conv.kernel - 1;
    struct sp_short_conv_scratch *s = NULL;
    enum sp_status st;

    if (config->short_conv.kernel == 0) return SP_OK;
    if ((st = sp_new(&s, 1, sizeof *s, err))) return st;
    d->short_conv = s;
    s->ld = sp_matrix_ld(3 * (size_t)config->n_hidden);
    if ((st = sp_new_rows(&s->projected, rows, s->ld, err))) return st;
    if ((st = sp_new_rows(&s->input, history + rows, d->ld_x, err))) return st;
    if ((st = sp_new(&s->histories, config->n_layers, sizeof *s->histories, err))) return st;
    for (unsigned i = 0; i < config->n_layers; i++) {
        if (!(config->layers[i].mixers & SP_MIXER_SHORT_CONV)) continue;
        st = sp_conv_history_init(&s->histories[i], history, d->options.max_logit_rows,
                                  config->n_hidden, err);
        if (st) return st;
    }
    return SP_OK;
}

void sp_short_conv_close(struct sp_decoder *d)
{
    struct sp_short_conv_scratch *s = d->short_conv;

    if (s == NULL) return;
    for (unsigned i = 0; s->histories && i < d->model->config.n_layers; i++)
        sp_conv_history_release(&s->histories[i]);
    free(s->histories);
    free(s->projected);
    free(s->input);
    free(s);
}

void sp_short_conv_reset(struct sp_decoder *d)
{
    for (unsigned i = 0; d->short_conv && i < d->model->config.n_layers; i++) {
        if (d->short_conv->histories[i].rows) sp_conv_history_reset(&d->short_conv->histories[i]);
    }
}

/* One layer's pass, as the row functions see it. */
struct conv_job {
    struct sp_decoder *d;
    const struct sp_short_conv_weights *w;
    const struct sp_conv_history *history;
};

/* input = b * x */
static void open_row(void *context, size_t t, unsigned worker)
{
    const struct conv_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_short_conv_scratch *s = d->short_conv;
    size_t n = d->model->config.n_hidden;
    const float *b = s->projected + t * s->ld, *x = b + 2 * n;
    float *row = s->input + (d->model->config.short_conv.kernel - 1 + t) * d->ld_x;

    (void)worker;
    memcpy(row, b, n * sizeof *row);
    d->engine->vector->mul(row, x, n);
}

/* heads.x = c * (the taps of this row and those before it, oldest first) */
static void convolve_row(void *context, size_t t, unsigned worker)
{
    const struct conv_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_vector *vector = d->engine->vector;
    const struct sp_short_conv_scratch *s = d->short_conv;
    size_t n = d->model->config.n_hidden;
    float *y = d->heads.x + t * d->heads.ld;

    (void)worker;
    sp_conv_history_convolve(job->history, vector, y, job->w->taps, s->input, d->ld_x, t);
    if (job->w->bias) vector->add(y, job->w->bias, n);
    vector->mul(y, s->projected + t * s->ld + n, n);
}

void sp_short_conv_run(struct sp_decoder *d, unsigned layer, size_t n)
{
    struct sp_short_conv_scratch *s = d->short_conv;
    const struct sp_short_conv_weights *w = &d->model->layers[layer].short_conv;
    struct sp_conv_history *history = &s->histories[layer];
    struct conv_job job = {d, w, history};
    struct sp_product in = {.w = &w->in, .bias = w->in_bias, .y = s->projected, .ldy = s->ld};
    struct sp_product out = {.w = &w->out, .bias = w->out_bias, .y = d->y, .ldy = d->ld_x};

    sp_engine_multiply(d->engine, &in, 1, &d->hidden, n);
    sp_conv_history_begin(history, s->input, d->ld_x);
    sp_engine_rows(d->engine, n, open_row, &job);
    sp_engine_rows(d->engine, n, convolve_row, &job);
    sp_conv_history_end(history, s->input, d->ld_x, n, d->n_certain);
    d->heads.cols = w->out.cols;
    sp_engine_multiply(d->engine, &out, 1, &d->heads, n);
}

void sp_short_conv_commit(struct sp_decoder *d, unsigned layer, size_t n_kept)
{
    sp_conv_history_commit(&d->short_conv->histories[layer], n_kept - d->n_certain);
}
