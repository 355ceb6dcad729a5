/* What rank 0 does for a backend: the functions of struct sp_remote_ops (runtime/backend/remote.h),
 * and what they share. */
#ifndef SP_RUNTIME_REMOTE_REMOTE_OPS_H
#define SP_RUNTIME_REMOTE_REMOTE_OPS_H

#include "runtime/remote/ranks.h"
#include "runtime/remote/remote_message.h"

bool sp_remote_multiply(struct sp_remote *remote, const struct sp_product_job *job);
bool sp_remote_attend(struct sp_remote *remote, const struct sp_attention_job *job);
void sp_remote_row(const struct sp_remote_rows *rows, size_t t);
size_t sp_remote_top(const struct sp_remote_rows *rows, size_t t, struct sp_top_logit *top,
                     size_t room);
enum sp_status sp_remote_cache_open(struct sp_remote *remote, struct sp_kv *kv,
                                    const struct sp_kv_options *options, struct sp_err *err);
enum sp_status sp_remote_cache_change(const struct sp_kv *kv, enum sp_cache_change change, size_t n,
                                      struct sp_err *err);
enum sp_status sp_remote_cache_transfer(const struct sp_kv *kv, struct sp_cache_file *file,
                                        size_t index, struct sp_err *err);

/* True if the ranks can take the weights from their file. */
bool sp_ranks_have(const struct sp_ranks *ranks, const struct sp_matrix *weights);

/* The message of a job, which `message` has memory for. */
size_t sp_remote_job_size(const struct sp_remote_job *job);
void sp_remote_job_write(void *message, const struct sp_ranks *ranks,
                         const struct sp_remote_job *job);

/* Completes the codes of n_rows rows, of which this rank and the others each made a part. */
void sp_remote_codes_finish(const struct sp_backend *backend, const struct sp_acts *acts,
                            size_t n_rows);
/* Computes the codes of the first n_cols columns, which are those of rank 0. */
void sp_remote_codes_own(const struct sp_backend *backend, const struct sp_acts *acts,
                         size_t n_cols, size_t n_rows);

#endif
