/* What the sources of a rank other than 0 share: the jobs that it reads from messages
 * (runtime/remote/remote_message.h), and its part in caches and attention. */
#ifndef SP_RUNTIME_REMOTE_REMOTE_SERVICE_H
#define SP_RUNTIME_REMOTE_REMOTE_SERVICE_H

#include "runtime/remote/ranks.h"
#include "runtime/remote/remote_message.h"

/* Activations for messages of any size. */
struct sp_acts_buffer {
    struct sp_acts acts;
    size_t n_rows, n_cols; /* that fit */
};
/* Makes space for n_rows rows of `cols` columns, whose contents are those of an earlier message. */
SP_MUST_CHECK enum sp_status sp_acts_buffer_reserve(struct sp_acts_buffer *b, size_t n_rows,
                                                    size_t cols, struct sp_err *err);

/* The rows of a job whose answer was the order of their largest elements. */
struct sp_kept_rows {
    uint64_t number;               /* 0: none yet */
    float *y;                      /* [n_rows][cols]; owned */
    atomic_uint_least64_t *argmax; /* [n_rows]; owned */
    size_t n_rows, cols;           /* cols: of this rank's slice */
    size_t n;                      /* columns that are rows of the matrix */
    size_t cap_rows, cap;          /* elements of argmax, of y */
    struct sp_epilogue epilogue;
};

/* Jobs are read by it, one at a time. */
struct sp_job_reader {
    const struct sp_backend *backend;      /* borrowed */
    const struct sp_rank_file *file;       /* borrowed */
    struct sp_weight_pages *pages;         /* of the file; owned */
    struct sp_acts_buffer received, coded; /* coded: results whose codes are the answer */
    struct sp_kept_rows kept, corrected;   /* of the last jobs without and with a kept bias */
};

/* The job that a message describes, with what its pointers refer to. */
struct sp_received_job {
    struct sp_remote_job shared; /* without slices and results */
    struct sp_product products[SP_MAX_PRODUCTS];
    struct sp_matrix matrices[SP_MAX_PRODUCTS];
    struct sp_kept_rows *kept; /* for the results of a job that keeps them */
};

/* `job` refers to itself, to the reader and to the message, of `size` bytes. SP_E_BUG: weights
 * outside the file, or a bias that is not kept. */
SP_MUST_CHECK enum sp_status sp_received_job_read(struct sp_received_job *job,
                                                  struct sp_job_reader *reader, void *message,
                                                  size_t size, struct sp_err *err);

/* ---- caches and attention (remote_cache_service.c) ----
 *
 * A rank stores its kv heads of every cache and attends for the query heads that read them, after
 * it made them if the message says so. */

struct sp_cache_service; /* opaque: the caches of this rank */

/* The reader is borrowed until sp_cache_service_close. */
SP_MUST_CHECK enum sp_status sp_cache_service_open(struct sp_cache_service **out,
                                                   struct sp_transport *transport,
                                                   struct sp_job_reader *reader,
                                                   struct sp_err *err);
void sp_cache_service_close(struct sp_cache_service *service); /* NULL is fine */

/* Answer an SP_MESSAGE_CACHE and an SP_MESSAGE_ATTENTION. A cache that does not open or grow is an
 * answer; failures are those of memory for an answer and of messages about unknown caches. */
SP_MUST_CHECK enum sp_status sp_cache_service_act(struct sp_cache_service *service,
                                                  const uint8_t *message, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_cache_service_attend(struct sp_cache_service *service,
                                                     void *message, struct sp_err *err);

#endif
