/* The order in which a GGUF file has the rows or columns of a tensor where llama.cpp's converter
 * changes it, and its undoing. */
#ifndef SP_CONVERT_GGUF_GGUF_ORDER_H
#define SP_CONVERT_GGUF_GGUF_ORDER_H

#include "format/base/err.h"

#include <stdint.h>

struct sp_gguf_model;
struct sp_gguf_weight;

/* From row `first` on, a group is n * m runs of `run` rows. Run i * m + j of the published order is
 * stored as run j * n + i. Valid when zeroed: run 0 means the published order. */
struct sp_gguf_order {
    uint64_t first, n, m, run;
};

/* Heads of a model, by which rows and columns are ordered. Valid when zeroed. */
struct sp_gguf_heads {
    uint64_t head_dim;           /* rows of a head of queries and keys */
    uint64_t keys, values;       /* numbers of heads of the gated delta rule; 0: no such layers */
    uint64_t key_dim, value_dim; /* their sizes */
};

/* The stored position of a published one. */
uint64_t sp_gguf_stored_at(const struct sp_gguf_order *order, uint64_t i);

/* Sets rows and cols of a weight whose other members are set. A size that the metadata contradicts
 * is an error that names the tensor. */
SP_MUST_CHECK enum sp_status sp_gguf_find_orders(struct sp_gguf_weight *weight,
                                                 const struct sp_gguf_model *model,
                                                 struct sp_err *err);

#endif
