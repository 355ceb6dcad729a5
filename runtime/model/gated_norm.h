/* Norms with a gate of low rank (A.X K2, Qwen4), and norms inside of sublayers (BitNet). */
#ifndef SP_RUNTIME_MODEL_GATED_NORM_H
#define SP_RUNTIME_MODEL_GATED_NORM_H

#include "runtime/model/model.h"

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_gated_norm_scratch {
    struct sp_acts low; /* [max_rows][rank] */
    float *gate;        /* [max_rows][ld] */
    size_t ld;
};

/* Allocates ws->gated_norm; leaves it NULL if the model has no such norms. */
SP_MUST_CHECK enum sp_status sp_gated_norm_open(struct sp_workspace *ws, struct sp_err *err);

/* Gates n rows of ws->hidden, or of all streams, which are normed. Does nothing if w is empty. */
void sp_gated_norm_run(struct sp_workspace *ws, struct sp_acts *rows,
                       const struct sp_norm_gate_weights *w, size_t n);

/* Norms `cols` numbers of each of n rows by this weight. Does nothing without inner norms. */
void sp_inner_norm_run(struct sp_workspace *ws, const struct sp_acts *rows, const float *weight,
                       size_t cols, size_t n);

#endif
