/* Messages between the ranks of a model: processes that compute parts of the same products.
 *
 * Rank 0 generates text. It sends a message to all other ranks, each computes and answers, and all
 * answers are received before the next message. An implementation supplies the buffers, so that a
 * transport over shared memory copies nothing. One thread at a time uses a transport. */
#ifndef SP_RUNTIME_RANKS_TRANSPORT_H
#define SP_RUNTIME_RANKS_TRANSPORT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sp_transport;

struct sp_transport_ops {
    /* Returns a buffer for the next message or answer, aligned to 64 bytes and valid until the next
     * call; NULL if there is no memory for it. */
    void *(*buffer)(struct sp_transport *transport, size_t size);
    /* Rank 0. Sends the first `size` bytes of that buffer; an answer of a rank will have at most
     * max_answer bytes. False: no memory for the answers, nothing was sent. */
    bool (*send)(struct sp_transport *transport, size_t size, size_t max_answer);
    /* Rank 0. Waits for the answer of a rank. NULL if the rank has ended or does not answer within
     * the time limit: transport->lost says why. Borrowed until the next message. */
    void *(*receive)(struct sp_transport *transport, unsigned rank);
    /* Rank 0. False if a rank has ended: transport->lost says how. NULL: ranks that end are noticed
     * by what started them. */
    bool (*look)(struct sp_transport *transport);
    /* Other ranks. Waits for the next message; NULL when rank 0 has ended. Borrowed until the next
     * call, and theirs until then. */
    void *(*next)(struct sp_transport *transport, size_t *size);
    /* Other ranks. Answers with the first `size` bytes of their buffer. */
    void (*reply)(struct sp_transport *transport, size_t size);
    /* Rank 0: ends the other ranks. Others: leaves. */
    void (*close)(struct sp_transport *transport);
};

struct sp_transport {
    const struct sp_transport_ops *ops;
    unsigned rank, n_ranks, n_here; /* n_here: ranks on this machine */
    size_t max_size;                /* bytes of a message or an answer, at most */
    char lost[256];                 /* one sentence; empty: all ranks are there */
};

/* The one function of the module that speaks MPI (mpi_module.c), which the program loads only if
 * mpirun started it, so that it needs no MPI library otherwise. Joins the other processes of the
 * job. ops->close leaves it, on every rank; on rank 0 it first ends the other ranks. NULL: why is
 * in text. Once per process. */
typedef struct sp_transport *sp_mpi_join_fn(char *text, size_t size);
#define SP_MPI_JOIN "sp_mpi_join"
SP_API sp_mpi_join_fn sp_mpi_join;

#endif
