/* Checkpoints of recurrent states, and the positions to which a decoder can go back. */
#include "runtime/model/state_checkpoint.h"

#include "runtime/model/decoder_internal.h"

#include <assert.h>
#include <string.h>

enum sp_status sp_state_checkpoints_open(struct sp_decoder *d, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (!d->options.checkpoints || !sp_config_is_recurrent(&d->model->config)) return SP_OK;
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS && st == SP_OK; i++) {
        st = sp_arena_new(&d->memory, &d->checkpoints[i].floats,
                          sp_decoder_state_size(d) / sizeof(float), sizeof(float), err);
    }
    return st;
}

void sp_decoder_checkpoint(struct sp_decoder *d, size_t len)
{
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    struct sp_state_checkpoint *checkpoint = &d->checkpoints[0];
    float *to;

    assert(d->n_committed == d->n_run);
    if (checkpoint->floats == NULL) return;
    for (size_t i = 1; i < SP_STATE_CHECKPOINTS; i++)
        if (d->checkpoints[i].len < checkpoint->len) checkpoint = &d->checkpoints[i];
    checkpoint->len = len;
    to = checkpoint->floats;
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_recurrent_spans(d, i, spans);
        for (size_t k = 0; k < n; to += spans[k++].n)
            memcpy(to, spans[k].floats, spans[k].n * sizeof *to);
    }
}

/* Restores the states of a checkpoint and drops the pending rows. */
static void load(struct sp_decoder *d, const struct sp_state_checkpoint *checkpoint)
{
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    const float *from = checkpoint->floats;

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        size_t n = sp_recurrent_spans(d, i, spans);
        for (size_t k = 0; k < n; from += spans[k++].n)
            memcpy(spans[k].floats, from, spans[k].n * sizeof *from);
        if (d->recurrent) d->recurrent[i].heads.n_pending = 0;
    }
}

bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to)
{
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        const struct sp_layer_config *l = &d->model->config.layers[i];
        size_t reach = sp_layer_reach(l), first = to > reach ? to - reach : 0;
        if (reach == 0 || l->kv_source != (int)i) continue;
        if (d->caches[i].n_slots >= d->options.n_positions) continue; /* one slot per position */
        if (first + d->caches[i].n_slots < len + d->options.max_rows) return false;
    }
    return true;
}

bool sp_decoder_can_rewind(const struct sp_decoder *d, size_t len, size_t to)
{
    if (sp_config_is_recurrent(&d->model->config)) return to == len || to == 0;
    return sp_decoder_keeps_windows(d, len, to);
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
