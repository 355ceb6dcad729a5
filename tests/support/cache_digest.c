#include "tests/support/cache_digest.h"
#include "format/base/hash.h"
#include "runtime/model/decoder_internal.h"
#include "tests/support/keep.h"
#include "tests/support/unit_test.h"

#include <assert.h>
#include <string.h>

/* Copies key `lane` of a block to `out`; returns its size. */
static size_t copy_key(uint8_t *out, const struct sp_kv *kv, const uint8_t *block, size_t lane)
{
    size_t width = sp_cache_bits[kv->type].key == 16 ? 2 : 4;
    size_t n = kv->key_block_size / (SP_KV_BLOCK * width);

    for (size_t i = 0; i < n; i++)
        memcpy(out + i * width, block + (i * SP_KV_BLOCK + lane) * width, width);
    return n * width;
}

/* Copies value `lane` of a block to `out`: a row, or a scale and codes 4 apart, of q4 in halves of
 * bytes; its size. */
static size_t copy_value(uint8_t *out, const struct sp_kv *kv, const uint8_t *block, size_t lane)
{
    size_t size = kv->value_block_size / SP_KV_BLOCK;
    bool is_q4 = sp_cache_bits[kv->type].value == 4;
    size_t row = is_q4 ? lane % 8 / 4 : lane / 4;
    const uint8_t *codes = block + 4 * SP_KV_BLOCK + row * 4 * kv->value_dim + lane % 4;

    if (sp_cache_bits[kv->type].value >= 16) {
        memcpy(out, block + lane * size, size);
        return size;
    }
    memcpy(out, block + 4 * lane, 4);
    for (size_t d = 0; d < kv->value_dim; d++)
        out[4 + d] = is_q4 ? codes[4 * d] >> (lane < 8 ? 0 : 4) & 0x0f : codes[4 * d];
    return 4 + kv->value_dim;
}

uint64_t kv_digest(const struct sp_kv *kv, size_t first, size_t last)
{
    struct {
        uint64_t before;
        uint8_t bytes[2 * SP_MAX_HEAD_DIM * sizeof(float)]; /* one key and one value */
    } chain;

    chain.before = 0;
    assert(last - first <= kv->n_slots);
    for (size_t h = 0; h < kv->n_heads; h++) {
        for (size_t pos = first; pos < last; pos++) {
            size_t lane = pos % SP_KV_BLOCK;
            size_t size = copy_key(chain.bytes, kv, sp_kv_keys(kv, h, pos), lane);
            size += copy_value(chain.bytes + size, kv, sp_kv_values(kv, h, pos), lane);
            chain.before = sp_hash64(&chain, sizeof chain.before + size);
        }
    }
    return chain.before;
}

/* The states after their committed rows, and the rows before convolutions, of all layers. */
static uint64_t state_digest(struct sp_decoder *d)
{
    uint64_t digests[2] = {0, 0};

    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_head_state *heads = &d->recurrent[i].heads;
        if (heads->state) sp_head_state_flush(heads, d->backend->vector, d->backend->pool);
    }
    for (size_t i = 0; i < d->n_spans; i++) {
        digests[1] = sp_hash64(d->spans[i].floats, d->spans[i].n * sizeof(float));
        digests[0] = sp_hash64(digests, sizeof digests);
    }
    return digests[0];
}

static uint64_t layer_digest(struct sp_decoder *d, unsigned layer, size_t len)
{
    const struct sp_layer_config *l = &d->model->config.layers[layer];
    size_t first = l->window && len > l->window ? len - l->window : 0;
    uint64_t digests[2] = {0, 0};
    unsigned n_layers = d->model->config.n_layers;

    if (l->mixers & SP_MIXER_ATTENTION) digests[0] = kv_digest(&d->caches[layer], first, len);
    for (unsigned k = 1; k < d->n_caches / n_layers; k++) {
        const struct sp_kv *kv = &d->caches[k * n_layers + layer];
        if (kv->keys == NULL) continue;
        /* Compressed attention: what entries are made of counts for the last two blocks. */
        first = l->rate && kv->stride == 1 && len > l->rate ? (len / l->rate - 1) * l->rate : 0;
        digests[1] ^= kv_digest(kv, first, len / kv->stride) * k;
    }
    return sp_hash64(digests, sizeof digests);
}

uint64_t decoder_digest(struct sp_decoder *d, size_t len)
{
    uint64_t digests[2] = {state_digest(d), 0};

    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        if (d->model->config.layers[i].kv_source != (int)i) continue;
        digests[1] = layer_digest(d, i, len);
        digests[0] = sp_hash64(digests, sizeof digests);
    }
    return digests[0];
}

static void close_decoder(void *decoder)
{
    sp_decoder_close(decoder);
}

struct sp_decoder *keep_decoder(const struct sp_package *package, const struct sp_model *model,
                                const struct sp_decoder_options *options)
{
    struct sp_decoder *decoder = NULL;

    assert_ok(sp_decoder_open(&decoder, model, &package->backend, options, why));
    return keep_with(decoder, close_decoder);
}
