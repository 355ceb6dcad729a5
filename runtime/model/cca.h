/* Compressed convolutional attention: what is made of q, k and v before attention (ZAYA1). */
#ifndef SP_RUNTIME_MODEL_CCA_H
#define SP_RUNTIME_MODEL_CCA_H

#include "runtime/backend/backend.h"

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_cca_scratch {
    size_t n_heads, channels; /* of q and k */
    size_t n_before, width;   /* rows of the state, and their floats: q, k, delayed half of v */
    float *input;             /* [n_before + max_rows][ld] rows after those of the state */
    size_t ld;
    struct sp_acts taps; /* [n_heads * max_rows][head_dim * mix_kernel], head by head: of each
                            channel its last convolved rows, the oldest first */
    float *mixed;        /* [n_heads * max_rows][ld_mixed], head by head */
    size_t ld_mixed;
    struct sp_row_group *groups; /* [n_heads] */
};

/* Allocates ws->cca; leaves it NULL if the model has no such layers. */
SP_MUST_CHECK enum sp_status sp_cca_open(struct sp_workspace *ws, struct sp_err *err);

/* Replaces the projections in the first n rows of ws->q and ws->k, and completes those of ws->v. */
void sp_cca_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
