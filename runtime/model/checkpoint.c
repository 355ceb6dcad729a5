/* Marks: copies of what recurrent layers remember behind some position. Keys and values stay where
 * they are when a sequence goes on, states do not; a sequence that parts from the last one behind a
 * mark goes on from there. */
#include "runtime/model/decoder_internal.h"

#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct sp_piece history_piece(const struct sp_conv_history *h)
{
    return (struct sp_piece){h->rows, h->n_before * h->width};
}

size_t sp_decoder_pieces(const struct sp_decoder *d, unsigned layer,
                         struct sp_piece pieces[SP_MAX_PIECES])
{
    unsigned mixers = d->model->config.layers[layer].mixers;
    size_t n = 0;

    if (mixers & SP_RECURRENT_MIXERS) {
        const struct sp_recurrent *r = &d->recurrent[layer];
        const struct sp_head_sizes *sizes = &r->heads.sizes;
        pieces[n++] =
            (struct sp_piece){r->heads.state, sizes->n_heads * sizes->value_dim * sizes->key_dim};
        pieces[n++] = history_piece(&r->history);
    }
    if (mixers & SP_MIXER_SHORT_CONV) {
        pieces[n++] = history_piece(&d->short_histories[layer]);
    }
    return n;
}

static size_t count_numbers(const struct sp_decoder *d)
{
    struct sp_piece pieces[SP_MAX_PIECES];
    size_t sum = 0;

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        for (size_t k = sp_decoder_pieces(d, i, pieces); k-- > 0;)
            sum += pieces[k].n;
    }
    return sum;
}

enum sp_status sp_marks_open(struct sp_decoder *d, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (!d->options.marks || !sp_decoder_is_recurrent(d)) return SP_OK;
    for (size_t i = 0; i < SP_MARKS && st == SP_OK; i++) {
        st = sp_new(&d->marks[i].numbers, count_numbers(d), sizeof *d->marks[i].numbers, err);
    }
    return st;
}

void sp_marks_close(struct sp_decoder *d)
{
    for (size_t i = 0; i < SP_MARKS; i++)
        free(d->marks[i].numbers);
}

size_t sp_marks_size(const struct sp_decoder *d)
{
    return d->marks[0].numbers ? SP_MARKS * count_numbers(d) * sizeof(float) : 0;
}

void sp_decoder_mark(struct sp_decoder *d, size_t len)
{
    struct sp_piece pieces[SP_MAX_PIECES];
    struct sp_mark *mark = &d->marks[0];
    float *to;

    assert(d->n_committed == d->n_run);
    if (mark->numbers == NULL) return;
    for (size_t i = 1; i < SP_MARKS; i++) {
        if (d->marks[i].len < mark->len) mark = &d->marks[i];
    }
    mark->len = len;
    to = mark->numbers;
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_decoder_pieces(d, i, pieces);
        for (size_t k = 0; k < n; to += pieces[k++].n)
            memcpy(to, pieces[k].numbers, pieces[k].n * sizeof *to);
    }
}

/* Puts back what a mark holds. Rows that became true after it are forgotten. */
static void load(struct sp_decoder *d, const struct sp_mark *mark)
{
    struct sp_piece pieces[SP_MAX_PIECES];
    const float *from = mark->numbers;

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_decoder_pieces(d, i, pieces);
        for (size_t k = 0; k < n; from += pieces[k++].n)
            memcpy(pieces[k].numbers, from, pieces[k].n * sizeof *from);
        if (d->recurrent) d->recurrent[i].heads.n_pending = 0;
    }
}

size_t sp_decoder_nearest(const struct sp_decoder *d, size_t len, size_t most)
{
    size_t to = 0;

    if (sp_decoder_can_return(d, len, most)) return most;
    for (size_t i = 0; i < SP_MARKS; i++) {
        size_t mark = d->marks[i].len;
        if (mark > to && mark <= most && sp_decoder_keeps_windows(d, len, mark)) to = mark;
    }
    return to;
}

void sp_decoder_return(struct sp_decoder *d, size_t len, size_t to)
{
    for (size_t i = 0; i < SP_MARKS; i++) {
        struct sp_mark *mark = &d->marks[i];
        if (mark->len > to) mark->len = 0;
        if (to > 0 && to < len && mark->len == to) load(d, mark);
    }
}
