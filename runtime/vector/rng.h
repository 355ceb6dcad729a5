/* Random numbers as functions of (seed, position, purpose, index). There is no state that advances,
 * so generated text cannot depend on how many numbers were used elsewhere: not on drafting, the
 * draft length, or the batch.
 *
 * The position's key comes from Philox4x32-10 (Salmon et al., SC 2011); the numbers under a key
 * from the finalizer of SplitMix64 (Steele et al., OOPSLA 2014) over key + index * golden ratio. */
#ifndef SP_RUNTIME_VECTOR_RNG_H
#define SP_RUNTIME_VECTOR_RNG_H

#include <stdint.h>

/* The purposes of random numbers, as independent streams. */
enum sp_purpose {
    SP_PURPOSE_TOKEN = 1,    /* the token of a position */
    SP_PURPOSE_PROPOSAL = 2, /* the token that a draft proposes, under rejection sampling */
    SP_PURPOSE_ACCEPT = 3,   /* acceptance with probability min(1, p/q) */
    SP_PURPOSE_RESIDUAL = 4, /* the token sampled after a rejection, or the bonus token */
    SP_PURPOSE_XTC = 5,      /* whether XTC excludes tokens at a position */
};

/* Philox4x32-10: out = the block of counter[4] under key[2]. */
void sp_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* The key of all random numbers of one purpose at one position. */
uint64_t sp_rng_key(uint64_t seed, uint64_t position, enum sp_purpose purpose);

/* Number `index` under a key: 64 random bits. */
static inline uint64_t sp_rng_bits(uint64_t key, uint64_t index)
{
    uint64_t z = key + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Number `index` under a key, in (0, 1): an odd multiple of 2^-54. */
static inline double sp_rng_uniform(uint64_t key, uint64_t index)
{
    return ((double)(sp_rng_bits(key, index) >> 11) + 0.5) * 0x1p-53;
}

#endif
