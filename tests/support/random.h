/* Pseudo-random numbers that are equal in every run: a linear congruential generator (Knuth's
 * MMIX). */
#ifndef SP_TESTS_SUPPORT_RANDOM_H
#define SP_TESTS_SUPPORT_RANDOM_H

#include "format/base/bytes.h"

#include <stdint.h>

static inline uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 32);
}

static inline float uniform(uint64_t *seed) /* -1..1 */
{
    return (float)((int32_t)(next(seed) >> 8) - (1 << 23)) / (float)(1 << 23);
}

/* Returns x, a zero of either sign, a subnormal, or x scaled to a larger, huge or tiny number. */
static inline float wild(uint64_t *seed, float x)
{
    switch (next(seed) % 8) {
    case 0:
        return 0.0f;
    case 1:
        return -0.0f;
    case 2:
        return sp_float_of_bits(next(seed) & 0x807fffffu);
    case 3:
        return x * 1e12f;
    case 4:
        return x * 1e-30f;
    case 5:
        return x * 30;
    default:
        return x;
    }
}

#endif
