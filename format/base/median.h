/* Sorting measured numbers. */
#ifndef SP_FORMAT_BASE_MEDIAN_H
#define SP_FORMAT_BASE_MEDIAN_H

#include <stdlib.h>

/* For qsort: ascending. */
static inline int sp_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of n > 0 numbers, which it sorts. */
static inline double sp_median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, sp_compare_doubles);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

#endif
