/* Attention over caches whose heads are divided among the ranks of a model: rank 0.
 *
 * Rank 0 computes queries, keys and values of all heads, and sends those of other ranks. Each rank
 * stores the keys and values of its heads and attends for the query heads that read them, in the
 * order of additions of one process; rank 0 receives the rows. Rank 0 does its own heads between
 * sp_remote_attention_send and sp_remote_attention_receive, which do nothing if there are no other
 * ranks or one is lost. */
#ifndef SP_RUNTIME_MODEL_REMOTE_ATTENTION_H
#define SP_RUNTIME_MODEL_REMOTE_ATTENTION_H

#include "runtime/model/workspace.h"

/* One layer's attention in the pass of a workspace. */
struct sp_remote_attention {
    struct sp_workspace *ws;
    unsigned layer;
    size_t n;             /* rows */
    bool stores, attends; /* writes keys and values; reads them, ws->ranges is set for all rows */
    double start;         /* set while answers are awaited */
    bool is_sent;
};

/* Sends the heads of other ranks: ws->q, ws->k and ws->v. */
void sp_remote_attention_send(struct sp_remote_attention *a);
/* Sets the columns of other ranks in ws->heads. */
void sp_remote_attention_receive(struct sp_remote_attention *a);

#endif
