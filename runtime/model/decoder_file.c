/* Writes the caches of a decoder to a session file, and reads them back: keys, values, committed
 * recurrent states, checkpoints. */
#include "runtime/model/decoder_internal.h"

#include "format/base/hash.h"

/* Some rotations depend on the planned context length, so a file fits only decoders with the same
 * frequencies. */
static enum sp_status check_rotations(const struct sp_decoder *d, struct sp_session_file *file,
                                      struct sp_err *err)
{
    for (unsigned i = 0; i < d->model->config.n_ropes; i++) {
        size_t half = d->model->config.ropes[i].n_rot / 2;
        uint64_t digest = sp_hash64(d->frequencies[i], half * sizeof *d->frequencies[i]);
        enum sp_status st = sp_session_file_match(file, digest, "context (--num-ctx)", err);
        if (st) return st;
    }
    return SP_OK;
}

static enum sp_status layer_state(struct sp_decoder *d, unsigned layer,
                                  struct sp_session_file *file, size_t len, struct sp_err *err)
{
    const struct sp_layer_config *l = &d->model->config.layers[layer];
    struct sp_state_span spans[SP_MAX_STATE_SPANS];
    size_t n = sp_recurrent_spans(d, layer, spans);
    enum sp_status st = SP_OK;

    if (l->mixers & SP_RECURRENT_MIXERS)
        sp_head_state_flush(&d->recurrent[layer].heads, d->backend->vector, d->backend->pool);
    if ((l->mixers & SP_MIXER_ATTENTION) && l->kv_source == (int)layer)
        st = sp_kv_transfer(&d->caches[layer], file, len, err);
    for (size_t k = 0; st == SP_OK && k < n; k++)
        st = sp_session_file_bytes(file, spans[k].floats, spans[k].n * sizeof(float), err);
    return st;
}

static enum sp_status checkpoint_state(const struct sp_decoder *d,
                                       struct sp_state_checkpoint *checkpoint,
                                       struct sp_session_file *file, size_t len, struct sp_err *err)
{
    size_t checkpoint_len = checkpoint->len;
    enum sp_status st;

    if (sp_session_file_is_read(file)) checkpoint->len = 0;
    if ((st = sp_session_file_number(file, &checkpoint_len, len, err)) || checkpoint_len == 0)
        return st;
    st = sp_session_file_bytes(file, checkpoint->floats,
                               sp_state_checkpoints_size(d) / SP_STATE_CHECKPOINTS, err);
    if (st == SP_OK) checkpoint->len = checkpoint_len;
    return st;
}

enum sp_status sp_decoder_transfer(struct sp_decoder *d, struct sp_session_file *file, size_t len,
                                   struct sp_err *err)
{
    enum sp_status st = check_rotations(d, file, err);

    for (unsigned i = 0; st == SP_OK && i < d->model->config.n_layers; i++)
        st = layer_state(d, i, file, len, err);
    for (size_t i = 0; st == SP_OK && d->checkpoints[0].floats && i < SP_STATE_CHECKPOINTS; i++)
        st = checkpoint_state(d, &d->checkpoints[i], file, len, err);
    return st;
}
