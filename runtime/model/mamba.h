/* Mamba-2 layers. */
#ifndef SP_RUNTIME_MODEL_MAMBA_H
#define SP_RUNTIME_MODEL_MAMBA_H

#include "runtime/model/recurrent_scratch.h"

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_mamba_scratch {
    struct sp_recurrent_scratch common; /* a row of `mixed` is x, B, C */
    float *values;                      /* [max_rows][ld_z] dt * x */
    float *dt;                          /* [max_rows][ld_heads]: becomes the decay */
};

/* Allocates ws->mamba; leaves it NULL if the model has no such layers. */
SP_MUST_CHECK enum sp_status sp_mamba_open(struct sp_workspace *ws, struct sp_err *err);
void sp_mamba_close(struct sp_workspace *ws);

/* Sets ws->y to the output of the mixer for the n rows of ws->hidden. */
void sp_mamba_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
