#include "runtime/model/decoder.h"

#include "format/base/hash.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/weights/smoothing.h"

#include <stdlib.h>
#include <string.h>

struct sp_lora {
    struct sp_model *model;
    uint64_t digest;               /* the sum of those of the products */
    struct sp_smoothing smoothing; /* of the model's matrices; owned */
    struct sp_lora_products products;
};

enum sp_status sp_lora_new(struct sp_lora **out, struct sp_model *model, const struct sp_pack *pack,
                           struct sp_err *err)
{
    struct sp_lora *lora = NULL;
    enum sp_status st;

    if (model->adapters.n) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "an adapter of a model with adapters of its own can only be merged (ADAPTER "
                       "in a Modelfile)");
    }
    if ((st = sp_new(&lora, 1, sizeof *lora, err))) return st;
    if ((st = sp_smoothing_of_pack(&lora->smoothing, pack, err))) {
        sp_lora_close(lora);
        return st;
    }
    lora->model = model;
    *out = lora;
    return SP_OK;
}

void sp_lora_close(struct sp_lora *lora)
{
    if (lora == NULL) return;
    sp_lora_products_release(&lora->products);
    sp_smoothing_release(&lora->smoothing);
    free(lora);
}

uint64_t sp_lora_digest(const struct sp_lora *lora, float scale)
{
    uint64_t parts[2] = {lora->digest, 0};

    if (scale == 1) return lora->digest;
    memcpy(&parts[1], &scale, sizeof scale);
    return sp_hash64(parts, sizeof parts);
}

const struct sp_lora_products *sp_lora_products_of(const struct sp_lora *lora)
{
    return &lora->products;
}

/* *out = the number of the first matrix with this tensor. */
static enum sp_status find_matrix(size_t *out, const struct sp_lora *lora,
                                  const struct sp_lora_product *p, struct sp_err *err)
{
    const struct sp_model *m = lora->model;
    const struct sp_matrix *w;
    size_t i = 0;

    while (i < m->n_matrices && strcmp(m->matrices[i].tensor->name, p->tensor) != 0)
        i++;
    if (i == m->n_matrices || strncmp(p->tensor, "layers.", 7) != 0 ||
        m->matrices[i].tensor->rank != 2) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tensor \"%s\" is not a single matrix of a layer, so an adapter of it can "
                       "only be merged (ADAPTER in a Modelfile)",
                       p->tensor);
    }
    *out = i;
    w = m->matrices[i].w;
    if (w->rows != p->n_rows || w->cols != p->n_cols || p->rank == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor \"%s\" has shape [%zu, %zu], and its low-rank product [%zu, %zu] of "
                       "rank %zu",
                       p->tensor, w->rows, w->cols, p->n_rows, p->n_cols, p->rank);
    }
    return SP_OK;
}

/* *exponents = those of the tensor's columns, NULL if it is not smoothed. */
static enum sp_status find_exponents(const int8_t **exponents, const struct sp_lora *lora,
                                     const struct sp_lora_product *p, struct sp_err *err)
{
    const struct sp_smoothed_norm *norm =
        sp_smoothing_of(&lora->smoothing, &lora->model->config, p->tensor);

    if (norm && norm->n != p->n_cols) {
        return sp_fail(err, SP_E_INPUT, "section %s: %zu exponents of %s, which has %zu columns",
                       sp_section_name(SP_SECTION_SMOOTHING), norm->n, p->tensor, p->n_cols);
    }
    *exponents = norm ? norm->exponents : NULL;
    return SP_OK;
}

static uint64_t product_digest(const struct sp_lora_product *p)
{
    const uint64_t parts[] = {
        sp_hash64(p->tensor, strlen(p->tensor)),
        p->rank,
        sp_hash64(p->left, p->n_rows * p->rank * sizeof *p->left),
        sp_hash64(p->right, p->rank * p->n_cols * sizeof *p->right),
    };

    return sp_hash64(parts, sizeof parts);
}

enum sp_status sp_lora_add(struct sp_lora *lora, const struct sp_lora_product *product,
                           struct sp_err *err)
{
    const struct sp_bound_matrix *matrices = lora->model->matrices;
    struct sp_lora_product p = {0};
    size_t first = 0;
    const int8_t *exponents = NULL;
    enum sp_status st;

    if ((st = sp_copy_in(&p, sizeof p, product, "sp_lora_product", err))) return st;
    if ((st = find_matrix(&first, lora, &p, err))) return st;
    if ((st = find_exponents(&exponents, lora, &p, err))) return st;
    for (size_t i = first; i < lora->model->n_matrices; i++) {
        if (matrices[i].tensor != matrices[first].tensor) continue;
        st = sp_lora_products_add(&lora->products, matrices[i].w, &p, exponents, err);
        if (st) return st;
    }
    lora->digest += product_digest(&p);
    if (p.rank > lora->model->max_lora_rank) lora->model->max_lora_rank = p.rank;
    return SP_OK;
}
