/* The bytes that a pass must read from memory, counted from the file and the caches, and its
 * products: the measures for the time of a decode step and of a prompt. */
#include "format/pack_contents.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

/* What is counted of a matrix or tensor: its elements, each of which is a product of a row, or its
 * bytes. Both are whole numbers that a double holds. */
enum amount { ELEMENTS, BYTES };

static double amount_of(const struct sp_matrix *matrix, enum amount amount)
{
    return amount == BYTES ? (double)matrix->n_panels * (double)matrix->panel_size
                           : (double)matrix->rows * (double)matrix->cols;
}

/* The amount of all weights that a row reads, besides those of the head: all matrices of a stack of
 * experts have the size of its first, and of tables whose rows are looked up little is read. */
static double read_without_head(const struct sp_pack *pack, const struct sp_model *model,
                                enum amount amount)
{
    double n =
        -amount_of(&model->embedding, amount) - amount_of(&model->per_layer_embedding, amount);

    if (model->embedding.panels != model->head.panels) n -= amount_of(&model->head, amount);
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *tensor = sp_pack_tensor(pack, i);
        double size = amount == BYTES ? (double)tensor->size : 1;
        for (unsigned k = 0; amount == ELEMENTS && k < tensor->rank; k++)
            size *= (double)tensor->shape[k];
        if (tensor->part == model->part) n += size;
    }
    for (unsigned i = 0; i < model->config.n_layers; i++) {
        const struct sp_layer *l = &model->layers[i];
        double expert =
            amount_of(&l->gate, amount) + amount_of(&l->up, amount) + amount_of(&l->down, amount);
        n -= amount_of(&l->ngrams.table, amount);
        if (l->config->n_experts) n -= expert * (l->config->n_experts - l->config->n_experts_used);
    }
    return n;
}

static uint64_t weights_read(const struct sp_pack *pack, const struct sp_model *model)
{
    return (uint64_t)(read_without_head(pack, model, BYTES) + amount_of(&model->head, BYTES));
}

/* The products of a row of a prompt, whose logits are not computed. */
static double products_of_row(const struct sp_pack *pack, const struct sp_model *model)
{
    return read_without_head(pack, model, ELEMENTS);
}

double sp_package_draft_size(const struct sp_package *p)
{
    if (p->draft == NULL) return 0;
    return products_of_row(p->pack, p->draft) / products_of_row(p->pack, p->target);
}

double sp_session_products(const struct sp_session *session, bool logits)
{
    const struct sp_model *target = session->package->target;

    return products_of_row(session->package->pack, target) +
           (logits ? amount_of(&target->head, ELEMENTS) : 0);
}

/* A draft without an output matrix reads its target's. */
static uint64_t draft_read(const struct sp_session *session, size_t n)
{
    const struct sp_drafter *drafter = session->speculator->drafter;
    const struct sp_package *package = session->package;
    uint64_t size;

    if (drafter == NULL || package->draft == NULL || n == 0) return 0;
    size = weights_read(package->pack, package->draft);
    if (package->draft->head.rows == 0) size += (uint64_t)amount_of(&package->target->head, BYTES);
    return drafter->ops->stepwise ? n * size : size;
}

/* A layer with an index reads all index keys, unless it shares a choice, and the keys chosen.
 * Compressed attention reads its window and entries. */
static uint64_t keys_read(const struct sp_decoder *d, unsigned i, size_t n_before)
{
    const struct sp_layer_config *layer = &d->model->config.layers[i];
    const struct sp_kv *kv = d->keys[i];
    const struct sp_config *config = &d->model->config;
    uint64_t n = n_before + 1, index = 0, entries = layer->rate ? n / layer->rate : 0;

    if (layer->overlaps) {
        index = entries * d->caches[config->n_layers + i].key_block_size / SP_KV_BLOCK;
        if (entries > config->index.top_k) entries = config->index.top_k;
    }
    if (layer->window && n > layer->window) n = layer->window;
    if (config->index.top_k && !layer->unindexed && layer->rate == 0 && n > config->index.top_k) {
        index = n * d->caches[config->n_layers + i].key_block_size / SP_KV_BLOCK;
        n = config->index.top_k;
    }
    n += entries;
    return index + kv->n_heads * n * ((kv->key_block_size + kv->value_block_size) / SP_KV_BLOCK);
}

/* The few rows that a short convolution looks back at are not counted. */
static uint64_t cache_read(const struct sp_decoder *d, unsigned i, size_t n_before)
{
    unsigned mixers = d->model->config.layers[i].mixers;
    uint64_t size = 0;

    if (mixers & SP_MIXER_ATTENTION) size += keys_read(d, i, n_before);
    if (d->recurrent && d->recurrent[i].heads.state) {
        const struct sp_head_sizes *heads = &d->recurrent[i].heads.sizes;
        size += heads->n_heads * heads->value_dim * heads->key_dim * sizeof(float);
    }
    return size;
}

uint64_t sp_session_read_size(const struct sp_session *session, size_t n_before, size_t draft_len)
{
    const struct sp_decoder *d = session->speculator->decoder;
    uint64_t size = weights_read(session->package->pack, d->model) + draft_read(session, draft_len);

    for (unsigned i = 0; i < d->model->config.n_layers; i++)
        size += cache_read(d, i, n_before);
    return size;
}
