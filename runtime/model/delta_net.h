/* Gated delta-rule layers (Gated DeltaNet). */
#ifndef SP_RUNTIME_MODEL_DELTA_NET_H
#define SP_RUNTIME_MODEL_DELTA_NET_H

#include "runtime/model/recurrent_scratch.h"

struct sp_workspace; /* runtime/model/workspace.h */

struct sp_delta_net_scratch {
    struct sp_recurrent_scratch common; /* a row of `mixed` is q, k, v */
    float *b, *a;                       /* [max_rows][ld_heads]: become strength and decay */
};

/* Allocates ws->delta_net; leaves it NULL if the model has no such layers. */
SP_MUST_CHECK enum sp_status sp_delta_net_open(struct sp_workspace *ws, struct sp_err *err);
void sp_delta_net_close(struct sp_workspace *ws);

/* Sets ws->y to the output of the mixer for the n rows of ws->hidden. */
void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
