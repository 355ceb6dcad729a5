/* What the programs share: an error that ends them, the median of times, and a plain read of memory
 * that times are compared with. */
#ifndef SP_TESTS_BENCH_BENCH_TIMES_H
#define SP_TESTS_BENCH_BENCH_TIMES_H

#include "format/base/err.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void die(const struct sp_err *err)
{
    fprintf(stderr, "%s\n", err->text);
    exit((int)err->status);
}

static inline int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts times[n]. */
static inline double median(double *times, size_t n)
{
    qsort(times, n, sizeof *times, compare_times);
    return times[n / 2];
}

/* Sums bytes as 64-bit words, in eight chains. */
static inline uint64_t sum_words(const uint8_t *bytes, size_t size)
{
    uint64_t sums[8] = {0}, words[8];

    for (size_t i = 0; i + 64 <= size; i += 64) {
        memcpy(words, bytes + i, sizeof words);
        for (size_t j = 0; j < 8; j++)
            sums[j] += words[j];
    }
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

#endif
