/* The states of recurrent layers, and the histories of gated short convolutions. */

#include "runtime/model/decoder_internal.h"
#include "runtime/model/cca.h"
#include "runtime/model/delta_net.h"
#include "runtime/model/mamba.h"

#include <assert.h>
#include <string.h>

/* ---- the history of a convolution ---- */

enum sp_status sp_conv_history_init(struct sp_conv_history *h, struct sp_arena *arena,
                                    size_t n_before, size_t max_logged, size_t width,
                                    struct sp_err *err)
{
    *h = (struct sp_conv_history){.n_before = n_before, .max_logged = max_logged, .width = width};
    return sp_arena_rows(arena, &h->rows, n_before + max_logged, width, err);
}

void sp_conv_history_reset(struct sp_conv_history *h)
{
    memset(h->rows, 0, h->n_before * h->width * sizeof *h->rows);
}

void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t)
{
    memset(y, 0, h->width * sizeof *y);
    for (size_t i = 0; i <= h->n_before; i++)
        vector->mul_add(y, taps + i * h->width, input + (t + i) * ld, h->width);
}

void sp_conv_history_run(const struct sp_workspace *ws, unsigned layer, unsigned which,
                         float *input, size_t ld, sp_pool_fn *row, void *job, size_t *first)
{
    *first = 0;
    for (size_t i = 0; i < ws->n_seqs; *first += ws->seqs[i++].n) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        struct sp_conv_history *h = &seq->decoder->recurrent[layer].histories[which];
        float *rows = input + *first * ld;
        for (size_t k = 0; k < h->n_before; k++)
            memcpy(rows + k * ld, h->rows + k * h->width, h->width * sizeof *rows);
        sp_backend_rows(ws->backend, seq->n, row, job);
        assert(seq->n - seq->n_committed <= h->max_logged);
        for (size_t k = 0; k < h->n_before + seq->n - seq->n_committed; k++)
            memcpy(h->rows + k * h->width, rows + (seq->n_committed + k) * ld,
                   h->width * sizeof *rows);
    }
}

void sp_conv_history_commit(struct sp_conv_history *h, size_t n_more)
{
    if (n_more == 0) return;
    memmove(h->rows, h->rows + n_more * h->width, h->n_before * h->width * sizeof *h->rows);
}

/* ---- the states of a decoder ---- */

/* Opens the states of the layers with this mixer, without heads if `sizes` is NULL. Both sizes and
 * `channels` are those of the workspace's buffers. */
static enum sp_status open_layers(struct sp_decoder *d, enum sp_mixer mixer,
                                  const struct sp_head_sizes *sizes, size_t n_before,
                                  size_t channels, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    size_t max_logged = d->options.max_logit_rows;
    enum sp_status st;

    for (unsigned i = 0; i < config->n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (!(config->layers[i].mixers & mixer)) continue;
        if (sizes) {
            struct sp_head_sizes own = *sizes;
            own.max_logged = max_logged;
            if ((st = sp_head_state_init(&r->heads, &d->memory, &own, err))) return st;
            r->heads.rates = d->model->layers[i].mamba.rates;
        }
        st =
            sp_conv_history_init(&r->histories[0], &d->memory, n_before, max_logged, channels, err);
        if (st) return st;
    }
    return SP_OK;
}

/* Opens the histories of the convolutions that add what they convolve. */
static enum sp_status open_residual(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    enum sp_status st = SP_OK;

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        size_t keys = (size_t)l->n_kv_heads * l->head_dim;
        for (size_t k = 0; k < SP_LAYER_CONVS && !st; k++)
            st = sp_conv_history_init(&d->recurrent[i].histories[k], &d->memory,
                                      config->n_residual_taps - 1, d->options.max_logit_rows,
                                      k < SP_CONV_MIXER ? keys : config->n_hidden, err);
    }
    return st;
}

enum sp_status sp_recurrent_open(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    const struct sp_recurrent_scratch *delta = d->workspace->delta_net;
    const struct sp_recurrent_scratch *mamba = d->workspace->mamba;
    enum sp_status st;

    if (!sp_config_is_recurrent(config)) return SP_OK;
    st = sp_arena_new(&d->memory, &d->recurrent, config->n_layers, sizeof *d->recurrent, err);
    if (st == SP_OK && config->n_residual_taps) st = open_residual(d, err);
    if (st == SP_OK && delta) {
        st = open_layers(d, SP_MIXER_DELTA_NET, &delta->sizes, config->delta.kernel - 1,
                         delta->channels, err);
    }
    if (st == SP_OK && mamba) {
        st = open_layers(d, SP_MIXER_MAMBA, &mamba->sizes, config->mamba.kernel - 1,
                         mamba->n_convolved, err);
    }
    if (st == SP_OK && d->workspace->short_conv) {
        st = open_layers(d, SP_MIXER_SHORT_CONV, NULL, config->short_conv.kernel - 1,
                         config->n_hidden, err);
    }
    if (st == SP_OK && d->workspace->cca) {
        st = open_layers(d, SP_MIXER_CCA, NULL, d->workspace->cca->n_before,
                         d->workspace->cca->width, err);
    }
    for (unsigned i = 0; !st && i < config->n_layers; i++) {
        if (config->layers[i].ngrams == 0) continue;
        st = sp_conv_history_init(&d->recurrent[i].histories[SP_NGRAMS_HISTORY], &d->memory,
                                  (config->ngrams.kernel - 1) * config->ngrams.longest,
                                  d->options.max_logit_rows,
                                  (size_t)config->hyper.n_streams * config->n_hidden + 1, err);
    }
    return st;
}

void sp_recurrent_reset(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (r->heads.state) sp_head_state_reset(&r->heads);
        for (size_t k = 0; k < SP_LAYER_CONVS; k++)
            if (r->histories[k].rows) sp_conv_history_reset(&r->histories[k]);
    }
}

void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_kept)
{
    struct sp_recurrent *r = d->recurrent ? &d->recurrent[layer] : NULL;
    size_t n_more = n_kept - d->n_committed;

    if (r && r->heads.state) sp_head_state_commit(&r->heads, n_more);
    for (size_t k = 0; r && k < SP_LAYER_CONVS; k++)
        if (r->histories[k].rows) sp_conv_history_commit(&r->histories[k], n_more);
}

size_t sp_recurrent_spans(const struct sp_decoder *d, unsigned layer,
                          struct sp_state_span spans[SP_MAX_STATE_SPANS])
{
    const struct sp_recurrent *r = d->recurrent ? &d->recurrent[layer] : NULL;
    size_t n = 0;

    if (r && r->heads.state) {
        const struct sp_head_sizes *sizes = &r->heads.sizes;
        spans[n++] = (struct sp_state_span){r->heads.state,
                                            sizes->n_heads * sizes->value_dim * sizes->key_dim};
    }
    for (size_t k = 0; r && k < SP_LAYER_CONVS; k++) {
        const struct sp_conv_history *h = &r->histories[k];
        if (h->rows) spans[n++] = (struct sp_state_span){h->rows, h->n_before * h->width};
    }
    return n;
}
