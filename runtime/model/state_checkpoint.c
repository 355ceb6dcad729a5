/* Marks: copies of what recurrent layers remember behind some position. Keys and values stay where
 * they are when a sequence goes on, states do not; a sequence that parts from the last one behind a
 * mark goes on from there. */
#include "runtime/model/decoder_internal.h"

#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct sp_state_span history_piece(const struct sp_conv_history *h)
{
    return (struct sp_state_span){h->rows, h->n_before * h->width};
}

size_t sp_decoder_state_spans(const struct sp_decoder *d, unsigned layer,
                              struct sp_state_span spans[SP_MAX_STATE_SPANS])
{
    unsigned mixers = d->model->config.layers[layer].mixers;
    size_t n = 0;

    if (mixers & SP_RECURRENT_MIXERS) {
        const struct sp_recurrent *r = &d->recurrent[layer];
        const struct sp_head_sizes *sizes = &r->heads.sizes;
        spans[n++] = (struct sp_state_span){r->heads.state,
                                            sizes->n_heads * sizes->value_dim * sizes->key_dim};
        spans[n++] = history_piece(&r->history);
    }
    if (mixers & SP_MIXER_SHORT_CONV) {
        spans[n++] = history_piece(&d->short_histories[layer]);
    }
    return n;
}

static size_t count_numbers(const struct sp_decoder *d)
{
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    size_t sum = 0;

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        for (size_t k = sp_decoder_state_spans(d, i, spans); k-- > 0;)
            sum += spans[k].n;
    }
    return sum;
}

enum sp_status sp_state_checkpoints_open(struct sp_decoder *d, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (!d->options.checkpoints || !sp_decoder_is_recurrent(d)) return SP_OK;
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS && st == SP_OK; i++) {
        st = sp_new(&d->checkpoints[i].numbers, count_numbers(d), sizeof *d->checkpoints[i].numbers,
                    err);
    }
    return st;
}

void sp_state_checkpoints_close(struct sp_decoder *d)
{
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS; i++)
        free(d->checkpoints[i].numbers);
}

size_t sp_state_checkpoints_size(const struct sp_decoder *d)
{
    return d->checkpoints[0].numbers ? SP_STATE_CHECKPOINTS * count_numbers(d) * sizeof(float) : 0;
}

void sp_decoder_checkpoint(struct sp_decoder *d, size_t len)
{
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    struct sp_state_checkpoint *checkpoint = &d->checkpoints[0];
    float *to;

    assert(d->n_committed == d->n_run);
    if (checkpoint->numbers == NULL) return;
    for (size_t i = 1; i < SP_STATE_CHECKPOINTS; i++) {
        if (d->checkpoints[i].len < checkpoint->len) checkpoint = &d->checkpoints[i];
    }
    checkpoint->len = len;
    to = checkpoint->numbers;
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_decoder_state_spans(d, i, spans);
        for (size_t k = 0; k < n; to += spans[k++].n)
            memcpy(to, spans[k].numbers, spans[k].n * sizeof *to);
    }
}

/* Puts back what a mark holds. Rows that became true after it are forgotten. */
static void load(struct sp_decoder *d, const struct sp_state_checkpoint *checkpoint)
{
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    const float *from = checkpoint->numbers;

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_decoder_state_spans(d, i, spans);
        for (size_t k = 0; k < n; from += spans[k++].n)
            memcpy(spans[k].numbers, from, spans[k].n * sizeof *from);
        if (d->recurrent) d->recurrent[i].heads.n_pending = 0;
    }
}

size_t sp_decoder_rewind_point(const struct sp_decoder *d, size_t len, size_t most)
{
    size_t to = 0;

    if (sp_decoder_can_rewind(d, len, most)) return most;
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS; i++) {
        size_t checkpoint = d->checkpoints[i].len;
        if (checkpoint > to && checkpoint <= most && sp_decoder_keeps_windows(d, len, checkpoint))
            to = checkpoint;
    }
    return to;
}

void sp_decoder_rewind(struct sp_decoder *d, size_t len, size_t to)
{
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS; i++) {
        struct sp_state_checkpoint *checkpoint = &d->checkpoints[i];
        if (checkpoint->len > to) checkpoint->len = 0;
        if (to > 0 && to < len && checkpoint->len == to) load(d, checkpoint);
    }
}
