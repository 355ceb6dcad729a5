/* Worker threads: one atomic word hands out the items.
 *
 * The word holds a run's number and how many of its items are unclaimed. A thread claims some by
 * compare-and-swap; a claimed item pins the run (its function and context stay as they are) until
 * the thread adds it to the count of finished ones. So the caller waits for claimed items only,
 * never for a worker that is asleep or descheduled: such a worker has simply not taken part.
 *
 * Nobody takes a lock while everybody is awake. To sleep, a thread first announces it and then
 * looks again; a thread that changes the state looks at the announcement afterwards (both
 * sequentially consistent, so one of the two sees the other). */
#include "format/base/pool.h"
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/system/cpus.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Spins longer than the pauses between two runs of one token, but briefly compared with a time
 * slice. */
static const double SPIN_SECONDS = 50e-6;
enum { POLLS_PER_CLOCK = 16 };

/* A claim's part of what is left: half a fair share, so that the first ranges do not decide. */
enum { SHARES_PER_THREAD = 2 };
static const uint32_t SHARE_NONE = UINT32_MAX;

struct worker {
    struct sp_pool *pool;
    pthread_t thread;
    unsigned index;
};

struct sp_pool {
    sp_pool_range_fn *fn;
    void *context;
    atomic_uint_fast32_t share; /* a claim takes this part of what is left: 1 / share */
    atomic_uint_fast32_t least; /* least number of items in a range, if there are as many */
    size_t first_item;          /* of this run's items: a huge job is several runs */
    uint32_t n_items;
    unsigned n_threads;
    unsigned n_started; /* workers whose thread exists */
    struct worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    _Alignas(64) atomic_uint_fast64_t claims; /* run number << 32 | unclaimed items */
    _Alignas(64) atomic_uint_fast32_t n_done;
    atomic_bool caller_sleeps;
    _Alignas(64) atomic_uint n_sleeping;
    atomic_bool stop;
};

/* Claims the next of the `*left` unclaimed items of the current run; returns how many, 0 when none
 * is left. */
static uint32_t claim(struct sp_pool *pool, uint32_t *left)
{
    uint_fast64_t word = atomic_load_explicit(&pool->claims, memory_order_acquire);
    uint32_t n;

    do {
        *left = (uint32_t)word;
        if (*left == 0) return 0;
        uint32_t least = (uint32_t)atomic_load_explicit(&pool->least, memory_order_relaxed);
        n = *left / (uint32_t)atomic_load_explicit(&pool->share, memory_order_relaxed);
        if (n < least) n = least < *left ? least : *left;
    } while (!atomic_compare_exchange_weak_explicit(&pool->claims, &word, word - n,
                                                    memory_order_acq_rel, memory_order_acquire));
    return n;
}

/* Runs items until none is left, then reports how many were run here. */
static void take_part(struct sp_pool *pool, unsigned worker)
{
    uint32_t n, left, n_run = 0, n_items = 0;

    while ((n = claim(pool, &left)) != 0) {
        n_items = pool->n_items;
        pool->fn(pool->context, pool->first_item + (n_items - left), n, worker);
        n_run += n;
    }
    if (n_run == 0 || atomic_fetch_add(&pool->n_done, n_run) + n_run != n_items) return;
    if (worker == 0 || !atomic_load(&pool->caller_sleeps)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
}

static bool work_waits(struct sp_pool *pool)
{
    return (uint32_t)atomic_load(&pool->claims) != 0 || atomic_load(&pool->stop);
}

static bool run_done(struct sp_pool *pool)
{
    return atomic_load(&pool->n_done) == pool->n_items;
}

/* Polls until `ready` or the time is over. */
static bool spin(struct sp_pool *pool, bool (*ready)(struct sp_pool *))
{
    double end = 0;

    for (;;) {
        for (int i = 0; i < POLLS_PER_CLOCK; i++) {
            if (ready(pool)) return true;
            sp_cpu_relax();
        }
        if (end == 0)
            end = sp_seconds() + SPIN_SECONDS;
        else if (sp_seconds() > end)
            return false;
    }
}

static void *work(void *argument)
{
    struct worker *self = argument;
    struct sp_pool *pool = self->pool;

    while (!atomic_load(&pool->stop)) {
        if (!spin(pool, work_waits)) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->n_sleeping, 1);
            while (!work_waits(pool))
                pthread_cond_wait(&pool->work, &pool->lock);
            atomic_fetch_sub(&pool->n_sleeping, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        take_part(pool, self->index);
    }
    return NULL;
}

static void wake_workers(struct sp_pool *pool)
{
    if (atomic_load(&pool->n_sleeping) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_for_workers(struct sp_pool *pool)
{
    if (spin(pool, run_done)) return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (!run_done(pool))
        pthread_cond_wait(&pool->finished, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

/* The word's lower half is empty between runs, so adding to it publishes the next run. */
static void run_shared(struct sp_pool *pool, size_t first_item, uint32_t n_items)
{
    pool->first_item = first_item;
    pool->n_items = n_items;
    atomic_store(&pool->n_done, 0);
    atomic_fetch_add(&pool->claims, ((uint_fast64_t)1 << 32) + n_items);
    wake_workers(pool);
    take_part(pool, 0);
    wait_for_workers(pool);
}

static void run_all(struct sp_pool *pool, size_t n_items, uint32_t share, uint32_t least,
                    sp_pool_range_fn *fn, void *context)
{
    pool->fn = fn;
    pool->context = context;
    atomic_store_explicit(&pool->share, share, memory_order_relaxed);
    atomic_store_explicit(&pool->least, least, memory_order_relaxed);
    for (size_t first = 0; first < n_items;) {
        size_t n = n_items - first < UINT32_MAX ? n_items - first : UINT32_MAX;
        run_shared(pool, first, (uint32_t)n);
        first += n;
    }
}

/* Items of sp_pool_run, one call each. */
struct single {
    sp_pool_fn *fn;
    void *context;
};

static void run_single(void *context, size_t first, size_t n, unsigned worker)
{
    const struct single *single = context;

    for (size_t i = first; i < first + n; i++)
        single->fn(single->context, i, worker);
}

void sp_pool_run(struct sp_pool *pool, size_t n_items, sp_pool_fn *fn, void *context)
{
    struct single single = {fn, context};

    if (n_items == 1 || pool->n_started == 0) {
        run_single(&single, 0, n_items, 0);
        return;
    }
    run_all(pool, n_items, SHARE_NONE, 1, run_single, &single);
}

void sp_pool_run_ranges(struct sp_pool *pool, size_t n_items, size_t least, sp_pool_range_fn *fn,
                        void *context)
{
    assert(least > 0 && least <= UINT32_MAX);
    if (n_items <= least || pool->n_started == 0) {
        if (n_items) fn(context, 0, n_items, 0);
        return;
    }
    run_all(pool, n_items, SHARES_PER_THREAD * pool->n_threads, (uint32_t)least, fn, context);
}

static unsigned n_usable_cpus(void)
{
    unsigned n = sp_usable_cpus();

    return n > SP_POOL_MAX ? SP_POOL_MAX : n;
}

/* Signals are for the thread that opened the pool; the workers never see one. */
static enum sp_status start_workers(struct sp_pool *pool, struct sp_err *err)
{
    sigset_t all, old;
    int code = 0;

    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* is for the thread that reads, see file_guard.h */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool->n_started < pool->n_threads - 1) {
        struct worker *w = pool->workers + pool->n_started;
        *w = (struct worker){.pool = pool, .index = pool->n_started + 1};
        if ((code = pthread_create(&w->thread, NULL, work, w)) != 0) break;
        pool->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code == 0) return SP_OK;
    return sp_fail(err, SP_E_NOMEM, "thread %u of %u does not start: %s", pool->n_started + 2,
                   pool->n_threads, strerror(code));
}

enum sp_status sp_pool_open(struct sp_pool **out, unsigned n_threads, struct sp_err *err)
{
    enum sp_status st;
    struct sp_pool *pool = NULL;

    if (n_threads > SP_POOL_MAX)
        return sp_fail(err, SP_E_USAGE, "%u threads, expected at most %d", n_threads, SP_POOL_MAX);
    if ((st = sp_new_aligned(&pool, 1, sizeof *pool, err))) return st;
    *pool = (struct sp_pool){.n_threads = n_threads ? n_threads : n_usable_cpus()};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->finished, NULL);
    if ((st = sp_new(&pool->workers, pool->n_threads, sizeof *pool->workers, err))) goto done;
    if ((st = start_workers(pool, err))) goto done;
    *out = pool;
    pool = NULL;
done:
    sp_pool_close(pool);
    return st;
}

void sp_pool_close(struct sp_pool *pool)
{
    if (pool == NULL) return;
    atomic_store(&pool->stop, true);
    wake_workers(pool);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

unsigned sp_pool_n_threads(const struct sp_pool *pool)
{
    return pool->n_threads;
}
