/* The rotation that keys and queries, and q4 values, are quantized in: each group of 32 dims times
 * Sylvester's Hadamard matrix, entries +1 and -1. The matrix is orthogonal up to a factor, so dot
 * products change by that factor alone. It spreads a dim that is far larger than its neighbors over
 * the whole group, which would otherwise share its coarse scale. It consists of sums and
 * differences in a fixed order, so the bits do not depend on the compiler. */
#ifndef SP_RUNTIME_VECTOR_ROTATION_H
#define SP_RUNTIME_VECTOR_ROTATION_H

#include "runtime/vector/vector.h"

#include <string.h>

/* The factor that turns the dot product of two rotated groups into that of the groups. */
#define SP_ROTATION_FACTOR (1.0f / (float)SP_KV_GROUP)

/* y = H x, in log2(32) rounds: y_2i = x_i + x_i+16, y_2i+1 = x_i - x_i+16. */
static inline void sp_rotate_group(float y[SP_KV_GROUP], const float x[SP_KV_GROUP])
{
    enum { HALF = SP_KV_GROUP / 2 };
    float from[SP_KV_GROUP];

    memcpy(y, x, sizeof from);
    for (int round = 0; round < 5; round++) {
        memcpy(from, y, sizeof from);
        for (int i = 0; i < HALF; i++) {
            y[2 * i] = from[i] + from[i + HALF];
            y[2 * i + 1] = from[i] - from[i + HALF];
        }
    }
}

/* The same for each group of n numbers, a multiple of SP_KV_GROUP. */
static inline void sp_rotate_groups(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += SP_KV_GROUP)
        sp_rotate_group(y + i, x + i);
}

#endif
