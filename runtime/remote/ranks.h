/* The ranks of a model: processes that compute it together, as rank 0 sees them and as another rank
 * serves them.
 *
 * Each rank computes the rows of the results in its part of every matrix's panels, and stores and
 * attends with its part of the heads. Rank 0 sends the activations, quantized if the weights are,
 * and receives the rows; all that is no product or attention stays with it. Every element is
 * computed by one rank as one process would, so the number of ranks does not change any bit. A rank
 * reads no weights but its part. */
#ifndef SP_RUNTIME_REMOTE_RANKS_H
#define SP_RUNTIME_REMOTE_RANKS_H

#include "format/packfile.h"
#include "runtime/backend/remote.h"
#include "runtime/ranks/transport.h"
#include "runtime/spectool.h"

#include <pthread.h>

struct sp_weight_pages; /* below */

/* Is called once, by the thread that computes, with a sentence; it may end the process. */
typedef void sp_rank_lost_fn(void *context, const char *sentence);

/* What rank 0 sent and received since it started. */
struct sp_rank_traffic {
    uint64_t n_messages, sent, received; /* messages to each rank; bytes to and from all ranks */
    double seconds;                      /* building messages, waiting, copying answers */
    double product_seconds;              /* that, and computing its own part of products and of
                                            attention */
};

/* The mapped file that all ranks have, from which matrices are taken. */
struct sp_rank_file {
    const uint8_t *bytes;
    uint64_t size;
};

struct sp_ranks {
    struct sp_remote remote;               /* the first member: sp_ranks_of */
    struct sp_transport *transport;        /* owned, unless it has an owner; NULL: none yet */
    void (*close)(struct sp_ranks *ranks); /* releases a transport that has an owner; else NULL */
    void *owner;                           /* borrowed */
    struct sp_rank_file file;
    struct sp_weight_pages *pages; /* of the file; owned */
    sp_rank_lost_fn *on_lost;      /* NULL: none */
    void *context;
    /* Sessions open caches while another thread computes: a message and its answers hold it. */
    pthread_mutex_t lock;
    uint64_t n_caches; /* opened so far; numbers them */
    uint64_t n_kept;   /* jobs whose rows the other ranks kept so far; numbers them */
    struct sp_rank_traffic traffic;
};

static inline struct sp_ranks *sp_ranks_of(struct sp_remote *remote)
{
    return (struct sp_ranks *)(void *)remote;
}

/* Allocates *out with the members of `with`, except the lock, the pages and `remote`. */
SP_MUST_CHECK enum sp_status sp_ranks_new(struct sp_ranks **out, const struct sp_ranks *with,
                                          struct sp_err *err);
/* Closes or releases the transport. NULL is fine. */
void sp_ranks_close(struct sp_ranks *ranks);

/* SP_E_IO with a sentence if a rank is lost. */
SP_MUST_CHECK enum sp_status sp_ranks_check(const struct sp_ranks *ranks, struct sp_err *err);

/* Looks whether all ranks still run, and notes it if one has ended. Returns at once while a job is
 * under way, which finds out by itself. */
void sp_ranks_look(struct sp_ranks *ranks);

/* Sends `size` bytes to all other ranks and receives as many from each, which are copied over
 * `bytes`. *seconds: the duration. False: a rank is lost, or there is no memory. */
bool sp_ranks_echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds);

/* ---- exchanges; the caller holds the lock ---- */

/* Notes that the exchange failed, and calls on_lost the first time. `why`: a sentence if the
 * transport has none. */
void sp_ranks_lose(struct sp_ranks *ranks, const char *why);
/* Send a message and receive an answer, as the transport does, and count them. */
bool sp_ranks_send(struct sp_ranks *ranks, size_t size, size_t max_answer);
void *sp_ranks_receive(struct sp_ranks *ranks, unsigned rank, size_t size);
/* Receives the status of every rank, so that all of them wait for the next message even if one
 * fails; returns the first failure. */
SP_MUST_CHECK enum sp_status sp_rank_statuses(struct sp_transport *transport, struct sp_err *err);

/* ---- other ranks ---- */

/* Computes products and attention until a message of another kind, which is dropped, or until rank
 * 0 ends (*has_ended). Failures are those of memory and of messages that do not fit the file. */
SP_MUST_CHECK enum sp_status sp_ranks_serve(struct sp_transport *transport,
                                            const struct sp_backend *backend,
                                            const struct sp_rank_file *file, bool *has_ended,
                                            struct sp_err *err);
/* Answer with bytes, or with a struct sp_remote_status. */
SP_MUST_CHECK enum sp_status sp_rank_answer(struct sp_transport *transport, const void *bytes,
                                            size_t size, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_rank_answer_status(struct sp_transport *transport,
                                                   const struct sp_err *outcome,
                                                   struct sp_err *err);

/* ---- the pages of the weights (weight_pages.c) ----
 *
 * The pages of a packed file that a rank reads: those of its part of the weights.
 *
 * When a page is missing, the system reads megabytes around it, and in these are rows of other
 * ranks: a rank would have nearly the whole file of a small model in memory. So what a rank is
 * about to read is prefetched, the first time and without anything else. */

/* file: the mapped bytes, borrowed until close. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_weight_pages_open(struct sp_weight_pages **out, const uint8_t *file,
                                                  uint64_t size, struct sp_err *err);
void sp_weight_pages_close(struct sp_weight_pages *pages); /* NULL is fine */

/* Prefetches weights, unless all their pages were prefetched before, or they are not in the file.
 * Any thread may call it. NULL: does nothing. */
void sp_weight_pages_need(struct sp_weight_pages *pages, const uint8_t *weights, size_t size);

/* ---- packages (rank_group.c) ---- */

/* The ranks of a package: processes that this one starts, or that mpirun started as one job, in
 * which rank 0 opens packages and the others compute for it (sp_rank_group of spectool.h). */

/* Rank 0. Has the ranks that the options ask for open the same file, before this process has
 * threads of its own, and binds this thread to its part of the machine. *out: NULL if there are no
 * other ranks. A group compares versions and contents, and computes for one package at a time:
 * SP_E_UNSUPPORTED. */
SP_MUST_CHECK enum sp_status sp_ranks_open(struct sp_ranks **out, const struct sp_pack *pack,
                                           const struct sp_package_options *options,
                                           struct sp_err *err);

/* Threads of a rank; 0: all cores. If the number is not given, these are the processors that mpirun
 * bound the process to, or a share of the machine's. */
unsigned sp_ranks_threads(const struct sp_package_options *options, unsigned rank);

#endif
