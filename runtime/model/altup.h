/* AltUp and LAuReL: several residual streams, of which the layers read the first (Gemma 3n). */
#ifndef SP_RUNTIME_MODEL_ALTUP_H
#define SP_RUNTIME_MODEL_ALTUP_H

#include "runtime/model/workspace.h"

/* Allocates ws->altup; leaves it NULL if the model has one stream. */
SP_MUST_CHECK enum sp_status sp_altup_open(struct sp_workspace *ws, struct sp_err *err);

/* Makes the streams of n rows from the embeddings in ws->x, and ws->x from the streams. */
void sp_altup_begin(struct sp_workspace *ws, size_t n);
void sp_altup_end(struct sp_workspace *ws, size_t n);

/* Before a layer: predicts all streams, the first in ws->x. After it: corrects them by ws->x, and
 * adds the layer's per-layer embedding to all but the first. */
void sp_altup_predict(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);
void sp_altup_correct(struct sp_workspace *ws, unsigned layer, size_t n);

/* Computes LAuReL of the rows of ws->hidden; adds row t of it to ws->x. */
void sp_laurel_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);
void sp_laurel_add(struct sp_workspace *ws, size_t t);

/* ws->ffn = the gated product of an MLP whose gates below the cutoff are 0. */
void sp_sparse_gate_run(struct sp_workspace *ws, const struct sp_layer *layer, size_t n);

#endif
