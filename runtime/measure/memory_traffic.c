/* The bytes that a pass must read from memory, counted from the file and the caches, and its
 * products: the measures for the time of a decode step and of a prompt. */
#include "format/pack_contents.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/session/session.h"
#include "runtime/spectool_measure.h"

static uint64_t matrix_size(const struct sp_matrix *matrix)
{
    return (uint64_t)matrix->n_panels * matrix->panel_size;
}

/* All matrices of a stack of experts have the size of its first. Of tables whose rows
 * are looked up little is read. */
static uint64_t weights_read(const struct sp_pack *pack, const struct sp_model *model)
{
    uint64_t size = 0;

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *tensor = sp_pack_tensor(pack, i);
        if (tensor->part == model->part) size += tensor->size;
    }
    for (unsigned i = 0; i < model->config.n_layers; i++) {
        const struct sp_layer *l = &model->layers[i];
        size -= matrix_size(&l->ngrams.table);
        if (l->config->n_experts == 0) continue;
        size -= (matrix_size(&l->gate) + matrix_size(&l->up) + matrix_size(&l->down)) *
                (l->config->n_experts - l->config->n_experts_used);
    }
    if (model->embedding.panels != model->head.panels) size -= matrix_size(&model->embedding);
    return size - matrix_size(&model->per_layer_embedding);
}

static double elements(const struct sp_matrix *matrix)
{
    return (double)matrix->rows * (double)matrix->cols;
}

/* The products of a row of a prompt, whose logits are not computed: one for each weight but those
 * of the tables of tokens and of experts that are not used. */
static double products_of_row(const struct sp_pack *pack, const struct sp_model *model)
{
    double n = -elements(&model->embedding) - elements(&model->per_layer_embedding);

    if (model->embedding.panels != model->head.panels) n -= elements(&model->head);
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *tensor = sp_pack_tensor(pack, i);
        double size = tensor->part == model->part;
        for (unsigned k = 0; k < tensor->rank; k++)
            size *= (double)tensor->shape[k];
        n += size;
    }
    for (unsigned i = 0; i < model->config.n_layers; i++) {
        const struct sp_layer *l = &model->layers[i];
        n -= elements(&l->ngrams.table);
        if (l->config->n_experts == 0) continue;
        n -= (elements(&l->gate) + elements(&l->up) + elements(&l->down)) *
             (l->config->n_experts - l->config->n_experts_used);
    }
    return n;
}

double sp_package_draft_size(const struct sp_package *p)
{
    if (p->draft == NULL) return 0;
    return products_of_row(p->pack, p->draft) / products_of_row(p->pack, p->target);
}

double sp_session_products(const struct sp_session *session, bool logits)
{
    const struct sp_model *target = session->package->target;

    return products_of_row(session->package->pack, target) + (logits ? elements(&target->head) : 0);
}

/* A draft without an output matrix reads its target's. */
static uint64_t draft_read(const struct sp_session *session, size_t n)
{
    const struct sp_drafter *drafter = session->speculator->drafter;
    const struct sp_package *package = session->package;
    uint64_t size;

    if (drafter == NULL || package->draft == NULL || n == 0) return 0;
    size = weights_read(package->pack, package->draft);
    if (package->draft->head.rows == 0) size += matrix_size(&package->target->head);
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
