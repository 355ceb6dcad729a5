/* Caches whose heads are divided among the ranks of a model: rank 0.
 *
 * Rank r of n stores the kv heads of sp_remote_heads, and a struct sp_kv of rank 0 has the heads of
 * rank 0. The functions do what those of kv.h do, for the heads of all ranks; without other ranks
 * they are the same. SP_E_IO: a rank is lost. */
#ifndef SP_RUNTIME_BACKEND_REMOTE_CACHE_H
#define SP_RUNTIME_BACKEND_REMOTE_CACHE_H

#include "runtime/backend/backend.h"
#include "runtime/backend/kv.h"

struct sp_kv_options {
    enum sp_cache_type type;
    struct sp_kv_shape shape;
    unsigned n_query_heads; /* of the layer; a multiple of shape.n_heads */
    size_t n_inputs;        /* columns of the rows that the layer's heads are made of */
    size_t n_positions, window, max_rows;
};

/* Divides the heads if the backend has ranks and keys and values have the same size.
 * SP_E_UNSUPPORTED: a pass of max_rows rows does not fit in a message to the ranks. */
SP_MUST_CHECK enum sp_status sp_remote_cache_init(struct sp_kv *kv,
                                                  const struct sp_backend *backend,
                                                  const struct sp_kv_options *options,
                                                  struct sp_err *err);
void sp_remote_cache_release(struct sp_kv *kv);

/* As sp_kv_size, for the heads of all ranks on this machine. */
size_t sp_remote_cache_size(const struct sp_kv *kv, size_t n);
SP_MUST_CHECK enum sp_status sp_remote_cache_grow(struct sp_kv *kv, size_t n, struct sp_err *err);
void sp_remote_cache_shrink(struct sp_kv *kv, size_t n);

/* Writes or reads the same file as the cache of a single process. */
SP_MUST_CHECK enum sp_status sp_remote_cache_transfer(struct sp_kv *kv,
                                                      struct sp_session_file *file, size_t len,
                                                      struct sp_err *err);

#endif
