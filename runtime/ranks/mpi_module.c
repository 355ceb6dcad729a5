/* The transport over MPI. Rank 0 sends to all ranks at once and polls for the answers. A rank that
 * has nothing to do polls for messages, first without a pause and then once in a while, so that an
 * idle server costs little. MPI ends all processes when one of them dies. */
#include "runtime/ranks/transport.h"

#include "format/base/clock.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MESSAGE = 1, ANSWER = 2, ANSWER_SECONDS = 120, ALIGNMENT = 64 };
static const double busy_seconds = 0.002;
static const long pause_ns = 200000;

struct buffer {
    uint8_t *bytes; /* owned */
    size_t size;
};

struct mpi_ranks {
    struct sp_transport base;
    struct buffer outgoing,
        *incoming;                 /* incoming: [n_ranks] answers; of other ranks: one message */
    MPI_Request *sends, *receives; /* [n_ranks] */
};

static struct mpi_ranks *of(struct sp_transport *transport)
{
    return (struct mpi_ranks *)(void *)transport;
}

/* Counts of MPI are ints. */
static const size_t max_size = INT_MAX - ALIGNMENT;

static bool reserve(struct buffer *b, size_t size)
{
    void *bytes;

    if (size > max_size) return false;
    if (size <= b->size && b->bytes) return true;
    if (posix_memalign(&bytes, ALIGNMENT, size + ALIGNMENT)) return false;
    free(b->bytes);
    *b = (struct buffer){bytes, size};
    return true;
}

static void *buffer(struct sp_transport *transport, size_t size)
{
    struct mpi_ranks *m = of(transport);

    return reserve(&m->outgoing, size) ? m->outgoing.bytes : NULL;
}

static bool send_message(struct sp_transport *transport, size_t size, size_t max_answer)
{
    struct mpi_ranks *m = of(transport);
    int n = (int)transport->n_ranks;

    for (int rank = 1; rank < n; rank++)
        if (!reserve(&m->incoming[rank], max_answer)) return false;
    for (int rank = 1; rank < n; rank++) {
        MPI_Irecv(m->incoming[rank].bytes, (int)max_answer, MPI_BYTE, rank, ANSWER, MPI_COMM_WORLD,
                  &m->receives[rank]);
        MPI_Isend(m->outgoing.bytes, (int)size, MPI_BYTE, rank, MESSAGE, MPI_COMM_WORLD,
                  &m->sends[rank]);
    }
    /* A large message is transferred only while its sender is inside MPI. */
    for (int rank = 1; rank < n; rank++)
        MPI_Wait(&m->sends[rank], MPI_STATUS_IGNORE);
    return true;
}

static void *receive(struct sp_transport *transport, unsigned rank)
{
    struct mpi_ranks *m = of(transport);
    double end = sp_seconds() + ANSWER_SECONDS;
    int done = 0;

    while (transport->lost[0] == '\0') {
        MPI_Test(&m->receives[rank], &done, MPI_STATUS_IGNORE);
        if (done) return m->incoming[rank].bytes;
        if (sp_seconds() > end) {
            snprintf(transport->lost, sizeof transport->lost,
                     "rank %u of %u has not answered for %d seconds", rank, transport->n_ranks,
                     ANSWER_SECONDS);
        }
        sched_yield();
    }
    return NULL;
}

/* Waits for a message to arrive. */
static void await(MPI_Message *found, MPI_Status *status)
{
    const struct timespec pause = {.tv_nsec = pause_ns};
    double busy_until = sp_seconds() + busy_seconds;
    int arrived = 0;

    for (;;) {
        MPI_Improbe(0, MESSAGE, MPI_COMM_WORLD, &arrived, found, status);
        if (arrived) return;
        if (sp_seconds() < busy_until)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

/* An empty message ends a rank. */
static void *next(struct sp_transport *transport, size_t *size)
{
    struct mpi_ranks *m = of(transport);
    MPI_Message found;
    MPI_Status status;
    int n = 0;

    await(&found, &status);
    MPI_Get_count(&status, MPI_BYTE, &n);
    if (!reserve(&m->incoming[0], (size_t)n)) {
        fprintf(stderr, "spectool: rank %u: out of memory: %d bytes of a message\n",
                transport->rank, n);
        MPI_Abort(MPI_COMM_WORLD, SP_E_NOMEM);
    }
    MPI_Mrecv(m->incoming[0].bytes, n, MPI_BYTE, &found, MPI_STATUS_IGNORE);
    *size = (size_t)n;
    return n ? m->incoming[0].bytes : NULL;
}

static void reply(struct sp_transport *transport, size_t size)
{
    MPI_Send(of(transport)->outgoing.bytes, (int)size, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
}

static void release(struct mpi_ranks *m)
{
    for (unsigned i = 0; m->incoming && i < m->base.n_ranks; i++)
        free(m->incoming[i].bytes);
    free(m->outgoing.bytes);
    free(m->incoming);
    free(m->sends);
    free(m->receives);
    free(m);
}

static void leave(struct sp_transport *transport)
{
    struct mpi_ranks *m = of(transport);

    for (unsigned rank = 1; transport->rank == 0 && rank < transport->n_ranks; rank++)
        MPI_Send(NULL, 0, MPI_BYTE, (int)rank, MESSAGE, MPI_COMM_WORLD);
    release(m);
    MPI_Finalize();
}

static const struct sp_transport_ops ops = {
    .buffer = buffer,
    .send = send_message,
    .receive = receive,
    .next = next,
    .reply = reply,
    .close = leave,
};

/* The number of ranks on this machine. */
static int ranks_here(void)
{
    MPI_Comm here;
    int n = 1;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &n);
    MPI_Comm_free(&here);
    return n;
}

/* The passes of rank 0 run in several threads, one at a time. */
static bool start(char *text, size_t size)
{
    int provided = MPI_THREAD_SINGLE;

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED) {
        snprintf(text, size, "this MPI library does not serve several threads");
        return false;
    }
    return true;
}

struct sp_transport *sp_mpi_join(char *text, size_t size)
{
    struct mpi_ranks *m;
    int rank = 0, n = 1;

    if (!start(text, size)) return NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    snprintf(text, size, "out of memory");
    if ((m = calloc(1, sizeof *m)) == NULL) return NULL;
    m->base = (struct sp_transport){.ops = &ops,
                                    .rank = (unsigned)rank,
                                    .n_ranks = (unsigned)n,
                                    .n_here = (unsigned)ranks_here(),
                                    .max_size = max_size};
    m->incoming = calloc((size_t)n, sizeof *m->incoming);
    m->sends = calloc((size_t)n, sizeof(MPI_Request));
    m->receives = calloc((size_t)n, sizeof(MPI_Request));
    if (!m->incoming || !m->sends || !m->receives) {
        release(m);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        m->sends[i] = m->receives[i] = MPI_REQUEST_NULL;
    return &m->base;
}
