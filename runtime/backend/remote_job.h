/* The jobs that a rank other than 0 reads from messages (runtime/backend/remote_message.h). */
#ifndef SP_RUNTIME_BACKEND_REMOTE_JOB_H
#define SP_RUNTIME_BACKEND_REMOTE_JOB_H

#include "runtime/backend/product_job.h"
#include "runtime/backend/remote_service.h"

/* Activations by number of columns, which are few in a model. */
enum { SP_MAX_WIDTHS = 32 };

struct sp_acts_by_width {
    struct sp_acts acts[SP_MAX_WIDTHS];
    size_t n_rows[SP_MAX_WIDTHS], n_widths;
};

/* The rows of a job whose answer was the order of their largest elements. */
struct sp_kept_rows {
    uint64_t number;             /* 0: none yet */
    float *y;                    /* [n_rows][cols]; owned */
    atomic_uint_least64_t *best; /* [n_rows]; owned */
    size_t n_rows, cols;         /* cols: of this rank's slice */
    size_t n;                    /* columns that are rows of the matrix */
    size_t cap_rows, cap;        /* elements of best, of y */
    struct sp_finish finish;
};
SP_MUST_CHECK enum sp_status sp_kept_rows_reserve(struct sp_kept_rows *kept, size_t n_rows,
                                                  size_t cols, struct sp_err *err);

/* Jobs are read by it, one at a time. */
struct sp_job_reader {
    const struct sp_backend *backend;        /* borrowed */
    const struct sp_rank_file *file;         /* borrowed */
    struct sp_acts_by_width received, coded; /* coded: results whose codes are the answer */
    struct sp_kept_rows kept, corrected;     /* of the last jobs without and with a kept bias */
};
void sp_job_reader_release(struct sp_job_reader *reader);

/* *out = activations of n_rows rows, whose contents are those of an earlier message; borrowed until
 * the next call. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_acts_by_width_find(struct sp_acts_by_width *b, struct sp_acts **out,
                                                   size_t n_rows, size_t cols, struct sp_err *err);

/* Writes the codes of rows 0..n_rows-1 without gaps, and their scales. */
void sp_remote_codes_write(uint8_t *codes, uint8_t *scales, const struct sp_acts *acts,
                           size_t n_rows);

/* The job that a message describes, with what its pointers refer to. */
struct sp_remote_job {
    struct sp_product_job job; /* without slices and results */
    struct sp_product products[SP_MAX_PRODUCTS];
    struct sp_matrix matrices[SP_MAX_PRODUCTS];
    const struct sp_acts *coded[SP_MAX_PRODUCTS]; /* results to quantize; NULL: floats */
    struct sp_kept_rows *kept;                    /* for the results of a job that keeps them */
};

/* `job` refers to itself, to the reader and to the message, of `size` bytes. SP_E_BUG: weights
 * outside the file, or a bias that is not kept. */
SP_MUST_CHECK enum sp_status sp_remote_job_read(struct sp_remote_job *job,
                                                struct sp_job_reader *reader,
                                                const uint8_t *message, size_t size,
                                                struct sp_err *err);

#endif
