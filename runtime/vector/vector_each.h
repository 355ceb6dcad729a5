/* Loops over independent elements, written once and compiled in the file of each table. The
 * compiler vectorizes them, which changes no bit. */
#ifndef SP_RUNTIME_VECTOR_VECTOR_EACH_H
#define SP_RUNTIME_VECTOR_VECTOR_EACH_H

#include "runtime/vector/fmath_exp.h"
#include "runtime/vector/rng.h"

#include <stddef.h>

static void soften(double *y, const float *x, size_t n, double max, double temperature)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_exp_inline(((double)x[i] - max) / temperature);
}

static void uniform(double *y, const uint32_t *ids, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sp_rng_uniform(key, ids[i]);
}

#endif
