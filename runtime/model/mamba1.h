/* Mamba-1 layers. */
#ifndef SP_RUNTIME_MODEL_MAMBA1_H
#define SP_RUNTIME_MODEL_MAMBA1_H

#include "runtime/model/recurrent_scratch.h"

/* Allocates ws->mamba, in which a row of `mixed` is x, B, C, and of `values` dt * x; leaves it NULL
 * if the model has no such layers. */
SP_MUST_CHECK enum sp_status sp_mamba1_open(struct sp_workspace *ws, struct sp_err *err);

/* Sets ws->y to the output of the mixer for the n rows of ws->hidden. */
void sp_mamba1_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
