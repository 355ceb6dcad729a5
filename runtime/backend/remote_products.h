/* Products that several processes compute together.
 *
 * Each rank computes the rows of the results in its part of every matrix's panels. Rank 0 sends the
 * activations, quantized if the weights are, and receives the rows; biases, and all that is no
 * product or attention (runtime/model/remote_attention.h), stay with it. Rows of logits that are
 * only needed for their largest element stay with the ranks that computed them, which send the
 * order of their largest element instead; rank 0 can still ask for such a row.
 * Every element is computed by one rank as one process would, so the number of ranks does not
 * change any bit. A rank reads no weights but its part. */
#ifndef SP_RUNTIME_BACKEND_REMOTE_PRODUCTS_H
#define SP_RUNTIME_BACKEND_REMOTE_PRODUCTS_H

#include "runtime/backend/product_job.h"
#include "runtime/backend/remote_service.h"
#include "runtime/backend/top_logits.h"
#include "runtime/ranks/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Is called once, by the thread that computes, with a sentence; it may end the process. If it
 * returns, the results of passes are undefined from then on, and sp_decoder_check fails. */
typedef void sp_rank_lost_fn(void *context, const char *sentence);

/* What rank 0 sent and received since it started. */
struct sp_rank_traffic {
    uint64_t n_messages, sent, received; /* messages to each rank; bytes to and from all ranks */
    double seconds;                      /* building messages, waiting, copying answers */
    double product_seconds;              /* that, and computing its own part of products and of
                                            attention */
};

struct sp_ranks {
    struct sp_transport *transport;        /* owned, unless it has an owner */
    void (*close)(struct sp_ranks *ranks); /* releases a transport that has an owner; else NULL */
    void *owner;                           /* borrowed */
    struct sp_rank_file file;
    sp_rank_lost_fn *on_lost; /* NULL: none */
    void *context;
    /* Sessions open and close caches while another thread computes: a message and its answers hold
     * the lock. */
    pthread_mutex_t lock;
    uint64_t n_caches; /* opened so far; numbers them */
    uint64_t n_kept;   /* jobs whose rows the other ranks kept so far; numbers them */
    atomic_bool is_lost;
    struct sp_rank_traffic traffic;
};

/* Allocates *out with the members of `with`, except the lock. */
SP_MUST_CHECK enum sp_status sp_ranks_new(struct sp_ranks **out, const struct sp_ranks *with,
                                          struct sp_err *err);

/* Closes or releases the transport. NULL is fine. */
void sp_ranks_close(struct sp_ranks *ranks);

/* Notes that the exchange failed, and calls on_lost the first time. `why`: a sentence if the
 * transport has none. The caller holds the lock. */
void sp_ranks_lose(struct sp_ranks *ranks, const char *why);

/* SP_E_IO with a sentence if a rank is lost. */
SP_MUST_CHECK enum sp_status sp_ranks_check(const struct sp_ranks *ranks, struct sp_err *err);

/* Looks whether all ranks still run, and notes it if one has ended. Returns at once while a job is
 * under way, which finds out by itself. */
void sp_ranks_look(struct sp_ranks *ranks);

/* True if the ranks can take the weights from their file. */
bool sp_ranks_have(const struct sp_ranks *ranks, const struct sp_matrix *weights);

/* Rank 0. The message of a job, which `message` has memory for. */
size_t sp_remote_job_size(const struct sp_product_job *job, size_t n_rows);
void sp_remote_job_write(uint8_t *message, const struct sp_ranks *ranks,
                         const struct sp_product_job *job, size_t n_rows);

/* Rank 0. Computes a job with the other ranks. The rows of activations have codes if any weights
 * want them. False: the results are undefined, since a rank is lost, the weights are not in the
 * file, or there is no memory for messages. */
bool sp_remote_multiply(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows);

/* Rank 0. Sets the columns of other ranks in row t of the results of the product with w, which they
 * kept: y is that row, [w->rows]. They keep it until the next product whose rows are kept. If a
 * rank is lost, the row is undefined. */
void sp_remote_row(struct sp_ranks *ranks, const struct sp_kept *kept, const struct sp_matrix *w,
                   size_t t, float *y);

/* Rank 0. As sp_remote_row, for the largest elements of the row, best first, of which there are at
 * most `room`: other ranks send no more. Returns their number. */
size_t sp_remote_top(struct sp_ranks *ranks, const struct sp_kept *kept, const struct sp_matrix *w,
                     size_t t, const float *y, struct sp_top_logit *top, size_t room);

/* Rank 0. Sends `size` bytes to all other ranks and receives as many from each, which are copied
 * over `bytes`. *seconds: the duration. False: a rank is lost, or there is no memory. */
bool sp_ranks_echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds);

#endif
