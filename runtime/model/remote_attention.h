/* Attention over caches whose heads are divided among the ranks of a model: rank 0.
 *
 * Each rank stores the keys and values of its heads and attends for the query heads that read them,
 * in the order of additions of one process; rank 0 receives the rows. If the heads divide evenly, a
 * rank also multiplies the rows of q, k and v that make its heads, and prepares them: rank 0 then
 * sends the input of these products, and what the heads need. Otherwise rank 0 sends q, k and v of
 * other ranks' heads. Rank 0 does its own heads between sp_remote_attention_send and
 * sp_remote_attention_receive, which do nothing if there are no other ranks or one is lost. */
#ifndef SP_RUNTIME_MODEL_REMOTE_ATTENTION_H
#define SP_RUNTIME_MODEL_REMOTE_ATTENTION_H

#include "runtime/backend/attention_heads.h"
#include "runtime/backend/product_job.h"
#include "runtime/model/workspace.h"

/* One layer's attention in the pass of a workspace. */
struct sp_remote_attention {
    struct sp_workspace *ws;
    unsigned layer;
    size_t n;             /* rows */
    bool stores, attends; /* writes keys and values; reads them, ws->ranges is set for all rows */
    /* The products that make q, k and v on each rank; NULL: ws->q, ws->k and ws->v are sent.
     * Borrowed. */
    const struct sp_product_job *products;
    const struct sp_attention_heads *heads;
    double start; /* set while answers are awaited */
    bool is_sent;
};

/* True if the ranks answer with codes of ws->heads, whose columns are set: the output product
 * needs no more. */
bool sp_remote_attention_makes_codes(const struct sp_remote_attention *a);

/* True if each rank can multiply what makes its heads. `products`: all that the layer has. */
bool sp_remote_attention_can_multiply(const struct sp_remote_attention *a,
                                      const struct sp_product_job *products);

/* True if weights of the products want codes of their activations. */
bool sp_remote_attention_wants_codes(const struct sp_product_job *products);

/* Sets the slices of q, k and v to the heads of rank 0. Returns the number of its kv heads. */
unsigned sp_remote_attention_slice(const struct sp_remote_attention *a,
                                   struct sp_product_job *products);

/* Sends the heads of other ranks, or what makes them. */
void sp_remote_attention_send(struct sp_remote_attention *a);
/* Sets the columns of other ranks in ws->heads, or the codes of all columns. */
void sp_remote_attention_receive(struct sp_remote_attention *a);

#endif
