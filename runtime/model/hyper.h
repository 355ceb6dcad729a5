/* Hyper-connections: several residual streams, which each sublayer reads and writes by weights
 * that depend on the row (HY 4, GLM-5.3, Qwen4). */
#ifndef SP_RUNTIME_MODEL_HYPER_H
#define SP_RUNTIME_MODEL_HYPER_H

#include "runtime/model/workspace.h"

/* Allocates ws->hyper; leaves it NULL if the model has one stream. */
SP_MUST_CHECK enum sp_status sp_hyper_open(struct sp_workspace *ws, struct sp_err *err);

/* The streams of row t of the pass, [n_streams][H]. */
float *sp_hyper_streams(const struct sp_workspace *ws, size_t t);

/* Makes the streams of n rows from the embeddings in ws->x. */
void sp_hyper_begin(struct sp_workspace *ws, size_t n);

/* ws->x = what a sublayer with these weights, or the head, reads of the streams. */
void sp_hyper_read(struct sp_workspace *ws, const struct sp_hyper_weights *w, size_t n);

/* Adds ws->y, the output of the sublayer that read last, to the streams. */
void sp_hyper_write(struct sp_workspace *ws, size_t n);

#endif
