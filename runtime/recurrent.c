/* What layers remember whose memory is states of heads and the rows in front of a convolution:
 * gated delta-rule layers and Mamba-2 layers. */
#include "runtime/decoder.h"

#include "format/hash.h"
#include "format/mem.h"

#include <stdlib.h>

enum sp_status sp_recurrent_open(struct sp_decoder *d, enum sp_mixer mixer,
                                 const struct sp_head_sizes *sizes, size_t n_before,
                                 size_t channels, struct sp_err *err)
{
    const struct sp_config *config = &d->model->config;
    enum sp_status st = SP_OK;

    if (d->recurrent == NULL) {
        st = sp_new(&d->recurrent, config->n_layers, sizeof *d->recurrent, err);
    }
    for (unsigned i = 0; st == SP_OK && i < config->n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (!(config->layers[i].mixers & mixer)) continue;
        if ((st = sp_head_state_init(&r->heads, sizes, err))) break;
        st = sp_conv_history_init(&r->history, n_before, sizes->max_logged, channels, err);
    }
    return st;
}

void sp_recurrent_close(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        sp_head_state_release(&d->recurrent[i].heads);
        sp_conv_history_release(&d->recurrent[i].history);
    }
    free(d->recurrent);
}

size_t sp_recurrent_size(const struct sp_decoder *d, unsigned layer)
{
    const struct sp_recurrent *r = &d->recurrent[layer];

    return sp_head_state_size(&r->heads.sizes) + sp_conv_history_size(&r->history);
}

void sp_recurrent_reset(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (r->heads.state == NULL) continue;
        sp_head_state_reset(&r->heads);
        sp_conv_history_reset(&r->history);
    }
}

void sp_recurrent_commit(struct sp_decoder *d, unsigned layer, size_t n_kept)
{
    struct sp_recurrent *r = &d->recurrent[layer];

    sp_head_state_commit(&r->heads, n_kept - d->n_certain);
    sp_conv_history_commit(&r->history, n_kept - d->n_certain);
}

uint64_t sp_recurrent_digest(struct sp_decoder *d, unsigned layer)
{
    struct sp_recurrent *r = &d->recurrent[layer];
    uint64_t digests[2];

    digests[0] = sp_head_state_digest(&r->heads, d->engine->vector, d->engine->pool);
    digests[1] = sp_conv_history_digest(&r->history);
    return sp_hash64(digests, sizeof digests);
}
