/* Gated delta-rule layers (Gated DeltaNet). */
#ifndef SP_RUNTIME_MODEL_DELTA_NET_H
#define SP_RUNTIME_MODEL_DELTA_NET_H

#include "runtime/model/recurrent_scratch.h"

/* Allocates ws->delta_net, in which a row of `mixed` is q, k, v; NULL: there are no such layers. */
SP_MUST_CHECK enum sp_status sp_delta_net_open(struct sp_workspace *ws, struct sp_err *err);

/* Sets ws->y to the output of the mixer for the n rows of ws->hidden. */
void sp_delta_net_run(struct sp_workspace *ws, unsigned layer, size_t n);

#endif
