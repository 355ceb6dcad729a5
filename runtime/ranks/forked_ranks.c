#define _GNU_SOURCE /* MAP_ANONYMOUS and MAP_NORESERVE, which POSIX lacks */
#include "runtime/ranks/forked_ranks.h"

#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/system/cpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The mapping begins with this page; an area of address space for messages and one for the answers
 * of each rank follow. Memory backs an area as far as it was ever used: the messages of a pass of
 * 128 rows have some megabytes. Where address space is limited, an area still holds texts of 32
 * thousand tokens that are embedded in one pass. Products that do not fit are computed by rank 0,
 * and caches whose passes do not fit are not opened. */
enum { POLLS_PER_CLOCK = 16, ANSWER_SECONDS = 120 };

#define NAP_SECONDS 0.05
/* Ranks of one product finish within a part of its time, and attention may take that long. A rank
 * that waits longer than a wake-up takes lets other processes run in between. */
static const double spin_seconds = 50e-6, yield_seconds = 2e-3;
static const size_t page = 1 << 16, small_area = (size_t)1 << 30, large_area = (size_t)1 << 36;

/* A number that one process increases and others wait for. A waiting process spins a bounded time,
 * then announces that it sleeps and looks again; the other posts the semaphore if it sees that. */
struct signal {
    _Alignas(64) atomic_uint_fast64_t number;
    atomic_bool sleeps;
    sem_t wake;
};

struct rank_page {
    struct signal next; /* the number of messages sent to this rank */
    struct signal done; /* the number of its answers */
    char failure[192];  /* why it ends; empty: no failure */
};

struct shared_page {
    atomic_bool stop;
    uint64_t message_size;
    struct rank_page ranks[SP_RANKS_MAX];
};

_Static_assert(sizeof(struct shared_page) <= 1 << 16, "the first page");

struct forked_ranks {
    struct sp_transport base;
    struct shared_page *shared; /* the mapping; owned */
    size_t size;                /* of the mapping */
    uint64_t n_messages;        /* sent, or received */
    pid_t parent;
    pid_t children[SP_RANKS_MAX]; /* 0: not started, or gone */
};

static struct forked_ranks *of(struct sp_transport *transport)
{
    return (struct forked_ranks *)(void *)transport;
}

static uint8_t *area_of(const struct forked_ranks *f, unsigned rank)
{
    return (uint8_t *)f->shared + page + rank * f->base.max_size;
}

/* ---- signals ---- */

static void raise_to(struct signal *s, uint64_t number)
{
    atomic_store(&s->number, number);
    if (atomic_load(&s->sleeps)) sem_post(&s->wake);
}

static bool spin(struct signal *s, uint64_t number)
{
    double start = sp_seconds(), waited = 0;

    while (waited < yield_seconds) {
        for (int i = 0; i < POLLS_PER_CLOCK; i++) {
            if (atomic_load_explicit(&s->number, memory_order_acquire) >= number) return true;
            sp_cpu_relax();
        }
        waited = sp_seconds() - start;
        if (waited > spin_seconds) sched_yield();
    }
    return false;
}

/* Sleeps until the number is reached or a short time is over. */
static bool nap(struct signal *s, uint64_t number)
{
    struct timespec until = sp_deadline(NAP_SECONDS);
    bool reached;

    atomic_store(&s->sleeps, true);
    reached = atomic_load(&s->number) >= number;
    if (!reached) sem_timedwait(&s->wake, &until);
    atomic_store(&s->sleeps, false);
    return reached || atomic_load(&s->number) >= number;
}

static void *buffer(struct sp_transport *transport, size_t size)
{
    return size <= transport->max_size ? area_of(of(transport), transport->rank) : NULL;
}

/* ---- rank 0 ---- */

static bool send_message(struct sp_transport *transport, size_t size, size_t max_answer)
{
    struct forked_ranks *f = of(transport);

    if (max_answer > transport->max_size) return false;
    f->shared->message_size = size;
    f->n_messages++;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        raise_to(&f->shared->ranks[rank].next, f->n_messages);
    return true;
}

/* Describes how a rank ended. */
static void describe_end(struct forked_ranks *f, unsigned rank, int status)
{
    const char *failure = f->shared->ranks[rank].failure;
    char *text = f->base.lost;
    int n = snprintf(text, sizeof f->base.lost, "rank %u of %u ", rank, f->base.n_ranks);
    size_t left = sizeof f->base.lost - (size_t)n;

    if (*failure)
        snprintf(text + n, left, "failed: %s", failure);
    else if (WIFSIGNALED(status))
        snprintf(text + n, left, "was ended by signal %d", WTERMSIG(status));
    else if (WIFEXITED(status))
        snprintf(text + n, left, "ended with status %d", WEXITSTATUS(status));
    else
        snprintf(text + n, left, "is gone");
}

/* True if a rank has ended. A process that reaps all children leaves no status. */
static bool has_ended(struct forked_ranks *f, unsigned rank)
{
    int status = 0;
    pid_t child = waitpid(f->children[rank], &status, WNOHANG);

    if (child == 0 || (child < 0 && errno == EINTR)) return false;
    describe_end(f, rank, child < 0 ? -1 : status);
    f->children[rank] = 0;
    return true;
}

static void *receive(struct sp_transport *transport, unsigned rank)
{
    struct forked_ranks *f = of(transport);
    struct signal *done = &f->shared->ranks[rank].done;
    double end = 0;

    if (f->base.lost[0]) return NULL;
    if (spin(done, f->n_messages)) return area_of(f, rank);
    end = sp_seconds() + ANSWER_SECONDS;
    while (!nap(done, f->n_messages)) {
        if (has_ended(f, rank)) return NULL;
        if (sp_seconds() < end) continue;
        snprintf(f->base.lost, sizeof f->base.lost, "rank %u of %u has not answered for %d seconds",
                 rank, f->base.n_ranks, ANSWER_SECONDS);
        return NULL;
    }
    return area_of(f, rank);
}

static bool look(struct sp_transport *transport)
{
    struct forked_ranks *f = of(transport);

    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        if (f->base.lost[0] || has_ended(f, rank)) return false;
    return true;
}

/* Waits a second for a rank to end, then kills it. */
static void end_rank(struct forked_ranks *f, unsigned rank)
{
    struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; f->children[rank] && i < 1000; i++) {
        if (has_ended(f, rank)) return;
        nanosleep(&pause, NULL);
    }
    if (f->children[rank] == 0) return;
    kill(f->children[rank], SIGKILL);
    waitpid(f->children[rank], NULL, 0);
}

static void close_ranks(struct sp_transport *transport)
{
    struct forked_ranks *f = of(transport);

    atomic_store(&f->shared->stop, true);
    f->n_messages++;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        raise_to(&f->shared->ranks[rank].next, f->n_messages);
    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        end_rank(f, rank);
    munmap(f->shared, f->size);
    free(f);
}

/* ---- other ranks ---- */

static void *next(struct sp_transport *transport, size_t *size)
{
    struct forked_ranks *f = of(transport);
    struct signal *s = &f->shared->ranks[transport->rank].next;

    if (!spin(s, f->n_messages + 1)) {
        while (!nap(s, f->n_messages + 1))
            if (getppid() != f->parent) return NULL;
    }
    f->n_messages++;
    if (atomic_load(&f->shared->stop)) return NULL;
    *size = (size_t)f->shared->message_size;
    return area_of(f, 0);
}

static void reply(struct sp_transport *transport, size_t size)
{
    struct forked_ranks *f = of(transport);

    (void)size;
    raise_to(&f->shared->ranks[transport->rank].done, f->n_messages);
}

static const struct sp_transport_ops ops = {
    .buffer = buffer,
    .send = send_message,
    .receive = receive,
    .look = look,
    .next = next,
    .reply = reply,
    .close = close_ranks,
};

/* Closes all files but stderr: an open pipe or socket would outlive its owner. */
static void close_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int null;

    while (dir && (entry = readdir(dir)) != NULL) {
        int fd = atoi(entry->d_name);
        if (fd != dirfd(dir) && fd > STDERR_FILENO) close(fd);
    }
    if (dir) closedir(dir);
    if ((null = open("/dev/null", O_RDWR)) < 0) return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (null > STDERR_FILENO) close(null);
}

/* The life of a child. It ends without the caller's exit handlers. */
static void run_child(struct forked_ranks *f, unsigned rank, sp_rank_fn *fn, void *context)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sp_err err = {0};
    enum sp_status st;

    sigemptyset(&ignore.sa_mask);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        sigaction(ignored[i], &ignore, NULL);
    close_files();
    f->base.rank = rank;
    st = fn(&f->base, context, &err);
    if (st)
        snprintf(f->shared->ranks[rank].failure, sizeof f->shared->ranks->failure, "%.191s",
                 err.text);
    _exit((int)st);
}

/* Maps areas of a size. */
static bool map_areas(struct forked_ranks *f, size_t area)
{
    void *shared;

    f->base.max_size = area;
    f->size = page + f->base.n_ranks * area;
    shared = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (shared == MAP_FAILED) return false;
    f->shared = shared;
    return true;
}

static bool address_space_is_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

/* A system that reserves all memory it promises has no large areas either. */
static enum sp_status map_pages(struct forked_ranks *f, struct sp_err *err)
{
    if ((address_space_is_limited() || !map_areas(f, large_area)) && !map_areas(f, small_area)) {
        return sp_fail(err, SP_E_NOMEM,
                       "out of memory: %zu bytes of address space for the messages of %u ranks",
                       f->size, f->base.n_ranks);
    }
    for (unsigned rank = 0; rank < f->base.n_ranks; rank++) {
        sem_init(&f->shared->ranks[rank].next.wake, 1, 0);
        sem_init(&f->shared->ranks[rank].done.wake, 1, 0);
    }
    return SP_OK;
}

enum sp_status sp_ranks_fork(struct sp_transport **out, unsigned n_ranks, sp_rank_fn *fn,
                             void *context, struct sp_err *err)
{
    struct forked_ranks *f = NULL;
    enum sp_status st;

    if (n_ranks > SP_RANKS_MAX)
        return sp_fail(err, SP_E_USAGE, "%u ranks, expected at most %d", n_ranks, SP_RANKS_MAX);
    if ((st = sp_new(&f, 1, sizeof *f, err))) return st;
    f->base = (struct sp_transport){.ops = &ops, .n_ranks = n_ranks, .n_here = n_ranks};
    f->parent = getpid();
    if ((st = map_pages(f, err))) {
        free(f);
        return st;
    }
    for (unsigned rank = 1; rank < n_ranks && st == SP_OK; rank++) {
        pid_t child = fork();
        if (child == 0) run_child(f, rank, fn, context);
        if (child < 0) {
            st = sp_fail(err, SP_E_NOMEM, "rank %u of %u does not start: %s", rank, n_ranks,
                         strerror(errno));
            break;
        }
        f->children[rank] = child;
    }
    if (st) {
        close_ranks(&f->base);
        return st;
    }
    *out = &f->base;
    return SP_OK;
}
