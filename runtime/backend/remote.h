/* The processes that compute a model together with this one: what the files of this folder call
 * where a backend has them. Without them a backend has no struct sp_remote, and all that a pass
 * computes is computed here. runtime/remote implements the table, and says who computes what. */
#ifndef SP_RUNTIME_BACKEND_REMOTE_H
#define SP_RUNTIME_BACKEND_REMOTE_H

#include "runtime/backend/attention_job.h"
#include "runtime/backend/kv.h"
#include "runtime/backend/product_job.h"

enum sp_cache_change { SP_CACHE_GROWS, SP_CACHE_SHRINKS, SP_CACHE_CLOSES };

struct sp_remote_ops {
    /* Computes a job whose slices are all panels. The rows of activations have codes if any weights
     * want them. False: the results are undefined, since a process is lost, the others do not have
     * the weights, or there is no memory for messages. */
    bool (*multiply)(struct sp_remote *remote, const struct sp_product_job *job);
    /* Computes a job of attention, as sp_backend_attend does. False: the heads of its caches are
     * not divided, and nothing was done. */
    bool (*attend)(struct sp_remote *remote, const struct sp_attention_job *job);
    /* Completes row t of rows->y, which the others keep until the next product whose rows they
     * keep. If a process is lost, the row is undefined. */
    void (*row)(const struct sp_remote_rows *rows, size_t t);
    /* As `row`, for the largest elements of the row, best first, of which there are at most `room`.
     * Returns their number. */
    size_t (*top)(const struct sp_remote_rows *rows, size_t t, struct sp_top_logit *top,
                  size_t room);
    /* Reads weights that only this process needs, and nothing around them, into memory. */
    void (*prefetch)(struct sp_remote *remote, const uint8_t *weights, size_t size);
    /* Opens a cache whose heads are divided, if they can be. SP_E_UNSUPPORTED: a pass of max_rows
     * rows does not fit in a message. */
    enum sp_status (*open_cache)(struct sp_remote *remote, struct sp_kv *kv,
                                 const struct sp_kv_options *options, struct sp_err *err);
    /* Has the others grow a cache to n positions, shrink it to them, or close it. */
    enum sp_status (*change_cache)(const struct sp_kv *kv, enum sp_cache_change change, size_t n,
                                   struct sp_err *err);
    /* Writes or reads a span of slots of all heads, as sp_kv_transfer does. */
    enum sp_status (*transfer_cache)(const struct sp_kv *kv, struct sp_cache_file *file,
                                     size_t index, struct sp_err *err);
};

struct sp_remote {
    const struct sp_remote_ops *ops;
    /* A sentence if a process is lost: what passes compute is undefined from then on. NULL: all
     * processes are there. */
    _Atomic(const char *) lost;
};

#endif
