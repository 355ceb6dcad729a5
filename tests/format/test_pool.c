/* format/base/pool.h: every item runs exactly once, on any number of threads, also when workers
 * sleep between runs and when there are many more threads than cores. */
#include <stdatomic.h>
#include <time.h>

#include "format/base/pool.h"
#include "tests/support/unit_test.h"

enum { MAX_ITEMS = 1000 };

struct job {
    unsigned
        counts[MAX_ITEMS]; /* not atomic, so that an item that ran twice at once is a data race */
    unsigned n_threads;
    bool bad_worker;
};

static void count(void *context, size_t item, unsigned worker)
{
    struct job *job = context;

    job->counts[item]++;
    if (worker >= job->n_threads) job->bad_worker = true;
}

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

TEST(every_item_runs_once)
{
    static const unsigned threads[] = {1, 2, 3, 8, 32};
    static const size_t items[] = {0, 1, 2, 3, 7, MAX_ITEMS};

    for (size_t t = 0; t < 5; t++) {
        struct job job = {.n_threads = threads[t]};
        struct sp_pool *pool = NULL;
        unsigned rounds = 200;
        assert_ok(sp_pool_open(&pool, threads[t], NULL));
        assert_int_equal(sp_pool_n_threads(pool), threads[t]);
        for (unsigned r = 0; r < rounds; r++) {
            for (size_t i = 0; i < 6; i++)
                sp_pool_run(pool, items[i], count, &job);
            if (r % 50 == 0) pause_ns(300000); /* the workers fall asleep */
        }
        assert_false(job.bad_worker);
        for (size_t i = 0; i < MAX_ITEMS; i++) {
            unsigned per_round = 0;
            for (size_t k = 0; k < 6; k++)
                per_round += i < items[k];
            assert_int_equal(job.counts[i], per_round * rounds);
        }
        sp_pool_close(pool);
    }
}

struct range_job {
    struct job items;
    size_t least, n_items;
    atomic_uint n_ranges, n_small;
};

static void count_range(void *context, size_t first, size_t n, unsigned worker)
{
    struct range_job *job = context;

    atomic_fetch_add(&job->n_ranges, 1);
    if (n < job->least && first + n < job->n_items) atomic_fetch_add(&job->n_small, 1);
    for (size_t i = first; i < first + n; i++)
        count(&job->items, i, worker);
}

TEST(ranges_cover_every_item_once)
{
    static const unsigned threads[] = {1, 2, 5};
    static const size_t items[] = {0, 1, 5, 64, MAX_ITEMS};

    for (size_t t = 0; t < 3; t++) {
        struct sp_pool *pool = NULL;
        assert_ok(sp_pool_open(&pool, threads[t], NULL));
        for (size_t least = 1; least <= 16; least *= 4) {
            for (size_t k = 0; k < 5; k++) {
                struct range_job job = {
                    .items.n_threads = threads[t], .least = least, .n_items = items[k]};
                sp_pool_run_ranges(pool, items[k], least, count_range, &job);
                assert_false(job.items.bad_worker);
                for (size_t i = 0; i < MAX_ITEMS; i++)
                    assert_int_equal(job.items.counts[i], i < items[k]);
                assert_int_equal(atomic_load(&job.n_small), 0);
                /* ranges shrink geometrically, so there are far fewer ranges than items */
                assert_true(atomic_load(&job.n_ranges) <= 12 * threads[t] * 2 + 1);
            }
        }
        sp_pool_close(pool);
    }
}

static void slow_item(void *context, size_t item, unsigned worker)
{
    (void)worker;
    if (item == 0) pause_ns(2000000); /* longer than the caller spins */
    ((unsigned *)context)[item]++;
}

TEST(the_caller_sleeps_for_a_slow_item)
{
    struct sp_pool *pool = NULL;
    unsigned counts[4] = {0};

    assert_ok(sp_pool_open(&pool, 4, NULL));
    for (int i = 0; i < 20; i++)
        sp_pool_run(pool, 4, slow_item, counts);
    for (int i = 0; i < 4; i++)
        assert_int_equal(counts[i], 20);
    sp_pool_close(pool);
}

TEST(opening_and_closing)
{
    struct sp_pool *pool = NULL;

    sp_pool_close(NULL);
    for (int i = 0; i < 20; i++) {
        assert_ok(sp_pool_open(&pool, 4, NULL));
        sp_pool_close(pool);
    }
    assert_ok(sp_pool_open(&pool, 0, NULL));
    assert_true(sp_pool_n_threads(pool) >= 1 && sp_pool_n_threads(pool) <= SP_POOL_MAX);
    sp_pool_close(pool);
    assert_fails_as(sp_pool_open(&pool, SP_POOL_MAX + 1, why), SP_E_USAGE,
                    "257 threads, expected at most 256");
}
