/* Per-layer token embeddings (Gemma 4). */
#ifndef SP_RUNTIME_MODEL_PER_LAYER_H
#define SP_RUNTIME_MODEL_PER_LAYER_H

#include "quantize/kernels.h"

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_per_layer_scratch {
    size_t width; /* n_layers * n_per_layer */
    size_t ld;
    float *mixed;         /* [max_rows][ld] embeddings of all layers */
    float *table;         /* [max_rows][ld] rows of the table */
    struct sp_acts x;     /* [max_rows][H] residual stream or embeddings, input of products */
    struct sp_acts gated; /* [max_rows][n_per_layer] */
};

/* Allocates ws->per_layer; leaves it NULL if the model has no per-layer embeddings. */
SP_MUST_CHECK enum sp_status sp_per_layer_open(struct sp_workspace *ws, struct sp_err *err);

/* Computes the embeddings of all layers for ids[n]. ws->x holds the scaled token embeddings. */
void sp_per_layer_embed(struct sp_workspace *ws, const uint32_t *ids, size_t n);

/* Sets ws->y to the layer's output for the n rows of ws->x and their per-layer embeddings. */
void sp_per_layer_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
