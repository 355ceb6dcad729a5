/* How fast a machine reads memory and multiplies: the limits of every pass. */
#include "format/base/clock.h"
#include "format/base/mem.h"
#include "format/base/pool.h"
#include "quantize/kernels/kernels.h"
#include "runtime/spectool_measure.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SLICE = 1 << 20, /* bytes that a thread reads per work item */
    MIN_SLICES = 64,
    DESKTOP_SLICES = 128, /* larger than the caches of desktop CPUs */
    MAX_SLICES = 1 << 10, /* upper limit, however large the caches are */
    TIMES = 4,            /* ratio of the buffer to the caches, or to the bytes of a pass */
    N_READS = 3,
    PEAK_ROUNDS = 20000, /* a millisecond */
    LINE = 64,           /* bytes per cache line */
    WORDS = LINE / sizeof(uint64_t),
    PREFETCH_DISTANCE = 4096, /* prefetch distance in bytes, that of the kernels */
};

struct sp_machine_speed {
    struct sp_pool *pool;
    const struct sp_kernels *kernels;
    uint64_t *buffer; /* [n_slices][SLICE] bytes */
    uint64_t *sums;   /* [n_slices] sums, which keep the compiler from dropping reads */
    size_t n_slices;
};

/* Returns the number of slices: more than caches hold, unless the passes read from the caches. */
static size_t count_slices(uint64_t read_size)
{
    size_t n = DESKTOP_SLICES;
    uint64_t sufficient = read_size / SLICE * TIMES;

#ifdef _SC_LEVEL3_CACHE_SIZE
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache > 0 && (size_t)cache / SLICE * TIMES > n) n = (size_t)cache / SLICE * TIMES;
#endif
    if (n > MAX_SLICES) n = MAX_SLICES;
    if (sufficient < MIN_SLICES) sufficient = MIN_SLICES;
    return n < sufficient ? n : (size_t)sufficient;
}

enum sp_status sp_machine_speed_open(struct sp_machine_speed **out, const char *kernels,
                                     unsigned n_threads, uint64_t read_size, struct sp_err *err)
{
    struct sp_machine_speed *b = NULL;
    enum sp_status st;

    if ((st = sp_new(&b, 1, sizeof *b, err))) goto done;
    if ((st = sp_kernels_find(&b->kernels, kernels, err))) goto done;
    b->n_slices = count_slices(read_size);
    if ((st = sp_pool_open(&b->pool, n_threads, err))) goto done;
    if ((st = sp_new(&b->sums, b->n_slices, sizeof *b->sums, err))) goto done;
    if ((st = sp_new_aligned(&b->buffer, b->n_slices, SLICE, err))) goto done;
    /* allocates real pages in place of the shared zero page */
    memset(b->buffer, 1, b->n_slices * SLICE);
    *out = b;
    b = NULL;
done:
    sp_machine_speed_close(b);
    return st;
}

void sp_machine_speed_close(struct sp_machine_speed *speed)
{
    if (speed == NULL) return;
    sp_pool_close(speed->pool);
    free(speed->buffer);
    free(speed->sums);
    free(speed);
}

/* Reads one slice. Without the prefetch a model could be read faster than this measures. A
 * prefetch past the end of the buffer is harmless. */
static void read_slice(void *context, size_t item, unsigned worker)
{
    struct sp_machine_speed *b = context;
    const uint64_t *at = b->buffer + item * (SLICE / sizeof *at);
    uint64_t sum = 0;

    (void)worker;
    for (size_t i = 0; i < SLICE / sizeof *at; i += WORDS) {
        __builtin_prefetch((const void *)((uintptr_t)(at + i) + PREFETCH_DISTANCE));
        for (size_t j = 0; j < WORDS; j++)
            sum += at[i + j];
    }
    b->sums[item] = sum;
}

/* How often in a second n_items are worked on, in the best of a few runs. */
static double best_rate(struct sp_machine_speed *speed, size_t n_items, sp_pool_fn *work)
{
    static const double max_seconds = 0.05;
    double best = 0, spent = 0;

    for (int i = 0; i < N_READS && spent < max_seconds; i++) {
        double start = sp_seconds(), seconds;
        sp_pool_run(speed->pool, n_items, work, speed);
        seconds = sp_seconds() - start;
        spent += seconds;
        if (seconds > 0 && 1 / seconds > best) best = 1 / seconds;
    }
    return best;
}

double sp_machine_speed_memory(struct sp_machine_speed *speed)
{
    return best_rate(speed, speed->n_slices, read_slice) * (double)speed->n_slices * (double)SLICE;
}

static void multiply(void *context, size_t item, unsigned worker)
{
    struct sp_machine_speed *b = context;

    (void)worker;
    b->sums[item] = b->kernels->peak(PEAK_ROUNDS);
}

double sp_machine_speed_products(struct sp_machine_speed *speed)
{
    unsigned n_threads = sp_pool_n_threads(speed->pool);

    if (speed->kernels->peak == NULL) return 0;
    return best_rate(speed, n_threads, multiply) * n_threads * (double)speed->sums[0];
}
