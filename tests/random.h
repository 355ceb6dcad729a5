/* Numbers for tests, the same in every run: a linear congruential generator (Knuth's MMIX). */
#ifndef SP_TESTS_RANDOM_H
#define SP_TESTS_RANDOM_H

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

#endif
