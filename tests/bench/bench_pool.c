/* Prints the overhead of a run of the thread pool with one item of 10 us per thread. */
#include "format/base/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void spin_10_us(void *context, size_t item, unsigned worker)
{
    double end = seconds() + 10e-6;

    (void)context;
    (void)item;
    (void)worker;
    while (seconds() < end)
        continue;
}

static int compare_doubles(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

int main(void)
{
    enum { RUNS = 20000 };
    static double times[RUNS];

    for (unsigned n = 1; n <= 4; n++) {
        struct sp_pool *pool = NULL;
        if (sp_pool_open(&pool, n, NULL)) return 1;
        for (int i = 0; i < RUNS; i++) {
            double start = seconds();
            sp_pool_run(pool, n, spin_10_us, NULL);
            times[i] = (seconds() - start) * 1e6 - 10;
        }
        qsort(times, RUNS, sizeof *times, compare_doubles);
        printf("%u threads: beyond its item a run takes %.2f us, 9 of 10 at most %.2f us\n", n,
               times[RUNS / 2], times[RUNS / 10 * 9]);
        sp_pool_close(pool);
    }
    return 0;
}
