/* The states of recurrent layers, and the histories of gated short convolutions. */
#include "runtime/model/recurrent.h"

#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/model/delta_net.h"
#include "runtime/model/mamba.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the history of a convolution ---- */

enum sp_status sp_conv_history_init(struct sp_conv_history *h, size_t n_before, size_t max_logged,
                                    size_t width, struct sp_err *err)
{
    *h = (struct sp_conv_history){.n_before = n_before, .max_logged = max_logged, .width = width};
    return sp_new_rows(&h->rows, n_before + max_logged, width, err);
}

void sp_conv_history_release(struct sp_conv_history *h)
{
    free(h->rows);
    *h = (struct sp_conv_history){0};
}

void sp_conv_history_reset(struct sp_conv_history *h)
{
    memset(h->rows, 0, h->n_before * h->width * sizeof *h->rows);
}

void sp_conv_history_begin(const struct sp_conv_history *h, float *input, size_t ld)
{
    for (size_t i = 0; i < h->n_before; i++)
        memcpy(input + i * ld, h->rows + i * h->width, h->width * sizeof *input);
}

void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t)
{
    memset(y, 0, h->width * sizeof *y);
    for (size_t i = 0; i <= h->n_before; i++)
        vector->mul_add(y, taps + i * h->width, input + (t + i) * ld, h->width);
}

void sp_conv_history_end(struct sp_conv_history *h, const float *input, size_t ld, size_t n,
                         size_t n_committed)
{
    assert(n >= n_committed && n - n_committed <= h->max_logged);
    for (size_t i = 0; i < h->n_before + n - n_committed; i++)
        memcpy(h->rows + i * h->width, input + (n_committed + i) * ld, h->width * sizeof *input);
}

void sp_conv_history_commit(struct sp_conv_history *h, size_t n_more)
{
    if (n_more == 0) return;
    memmove(h->rows, h->rows + n_more * h->width, h->n_before * h->width * sizeof *h->rows);
}

/* ---- the states of a decoder ---- */

/* Opens the states of the layers with this mixer. `scratch_sizes` and `channels` are those of the
 * workspace's buffers. */
static enum sp_status open_layers(struct sp_decoder *d, enum sp_mixer mixer,
                                  const struct sp_head_sizes *scratch_sizes, size_t n_before,
                                  size_t channels, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    struct sp_head_sizes sizes = *scratch_sizes;
    enum sp_status st = SP_OK;

    sizes.max_logged = d->options.max_logit_rows;
    if (d->recurrent == NULL)
        st = sp_new(&d->recurrent, config->n_layers, sizeof *d->recurrent, err);
    for (unsigned i = 0; st == SP_OK && i < config->n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (!(config->layers[i].mixers & mixer)) continue;
        if ((st = sp_head_state_init(&r->heads, &sizes, err))) break;
        r->heads.rates = d->model->layers[i].mamba.rates;
        st = sp_conv_history_init(&r->history, n_before, sizes.max_logged, channels, err);
    }
    return st;
}

static enum sp_status open_short_histories(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    enum sp_status st;

    st = sp_new(&d->short_histories, config->n_layers, sizeof *d->short_histories, err);
    for (unsigned i = 0; st == SP_OK && i < config->n_layers; i++) {
        if (!(config->layers[i].mixers & SP_MIXER_SHORT_CONV)) continue;
        st = sp_conv_history_init(&d->short_histories[i], config->short_conv.kernel - 1,
                                  d->options.max_logit_rows, config->n_hidden, err);
    }
    return st;
}

enum sp_status sp_recurrent_open(struct sp_decoder *d, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    const struct sp_recurrent_scratch *delta = d->workspace->delta_net;
    const struct sp_recurrent_scratch *mamba = d->workspace->mamba;
    enum sp_status st = SP_OK;

    if (delta) {
        st = open_layers(d, SP_MIXER_DELTA_NET, &delta->sizes, config->delta.kernel - 1,
                         delta->channels, err);
    }
    if (st == SP_OK && mamba) {
        st = open_layers(d, SP_MIXER_MAMBA, &mamba->sizes, config->mamba.kernel - 1,
                         mamba->n_convolved, err);
    }
    if (st == SP_OK && d->workspace->short_conv) st = open_short_histories(d, err);
    return st;
}

void sp_recurrent_close(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        sp_head_state_release(&d->recurrent[i].heads);
        sp_conv_history_release(&d->recurrent[i].history);
    }
    for (unsigned i = 0; d->short_histories && i < d->model->config.n_layers; i++)
        sp_conv_history_release(&d->short_histories[i]);
    free(d->recurrent);
    free(d->short_histories);
}

void sp_recurrent_reset(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (r->heads.state == NULL) continue;
        sp_head_state_reset(&r->heads);
        sp_conv_history_reset(&r->history);
    }
    for (unsigned i = 0; d->short_histories && i < d->model->config.n_layers; i++)
        if (d->short_histories[i].rows) sp_conv_history_reset(&d->short_histories[i]);
}

void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_kept)
{
    unsigned mixers = d->model->config.layers[layer].mixers;
    size_t n_more = n_kept - d->n_committed;

    if (mixers & SP_RECURRENT_MIXERS) {
        sp_head_state_commit(&d->recurrent[layer].heads, n_more);
        sp_conv_history_commit(&d->recurrent[layer].history, n_more);
    }
    if (mixers & SP_MIXER_SHORT_CONV) sp_conv_history_commit(&d->short_histories[layer], n_more);
}

static struct sp_state_span history_span(const struct sp_conv_history *h)
{
    return (struct sp_state_span){h->rows, h->n_before * h->width};
}

size_t sp_recurrent_spans(const struct sp_decoder *d, unsigned layer,
                          struct sp_state_span spans[SP_MAX_STATE_SPANS])
{
    unsigned mixers = d->model->config.layers[layer].mixers;
    size_t n = 0;

    if (mixers & SP_RECURRENT_MIXERS) {
        const struct sp_recurrent *r = &d->recurrent[layer];
        const struct sp_head_sizes *sizes = &r->heads.sizes;
        spans[n++] = (struct sp_state_span){r->heads.state,
                                            sizes->n_heads * sizes->value_dim * sizes->key_dim};
        spans[n++] = history_span(&r->history);
    }
    if (mixers & SP_MIXER_SHORT_CONV) spans[n++] = history_span(&d->short_histories[layer]);
    return n;
}
