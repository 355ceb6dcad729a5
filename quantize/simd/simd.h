/* Vectors of one register, for loops that are written once and compiled for each instruction set.
 *
 * simd_avx2.h, simd_avx512.h and simd_neon.h define REGISTER, include this file and add
 * the primitives of their set, which have the same names and results in all sets; only these files
 * and matrix products use intrinsics. A file of loops (*_loops.h) is written with the primitives
 * and C's operators on vectors, and a small file per set includes both. Except for its matrix
 * products, an instruction set is one file of primitives.
 *
 *   mask                           a type: one truth value per lane; & ~ apply
 *   first_lanes(n)                 the first n lanes, all if n >= LANES
 *   below(a, b)                    a < b
 *   select(mask, yes, no)          a float of each lane
 *   load(p, n), store(p, n, x)     p[0..n-1], all lanes if n >= LANES; loads zeros for the rest,
 *                                  and touches no other byte
 *   load_halves, store_halves      the same for f16
 *   load_bf16(p)                   LANES bf16
 *   fmadd(a, b, c)                 a * b + c, rounded once
 *   at_most, at_least(limit, x)    limits a number; a NaN stays a NaN
 *   number_at_most, number_at_least(x, limit)   a NaN becomes the limit
 *   larger(a, b)                   a > b ? a : b
 *   to_ints(x)                     whole numbers, ties to even; |x| < 2^31
 *   larger_bits(a, b), largest_of(x)            of unsigned numbers
 *   sum_lanes(x)                   the sum of whole numbers
 *   largest_lane(x)                the largest of floats that are not NaN
 *   tree_sum(s)                    the 16 running sums as a tree: 16 -> 8 (s[j] + s[j + 8]) -> 4 ->
 *                                  2 -> 1
 *   tree_sums(out, s)              tree_sum of STATE_ROWS rows
 *
 * and an enum of sizes of tiles: most queries, accumulators, and vectors of one query, of scores
 * (SCORE_) and of weighted sums (WEIGH_); of q8 queries, blocks of keys and vectors of dims
 * (CODE_); sizes of a codebook; rows of a state.
 *
 * Those of attention over q8 caches are described in runtime/vector/vector_q8_loops.h, those of the
 * encoders, which work on quads of 4 lanes, in kernels_tile_loops.h. */
#ifndef SP_QUANTIZE_SIMD_SIMD_H
#define SP_QUANTIZE_SIMD_SIMD_H

#include "quantize/simd/unroll.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef REGISTER

enum {
    LANES = REGISTER / sizeof(float),
    SUMS = 16, /* running sums of a reduction */
    N_SUMS = SUMS / LANES,
};

typedef float floats __attribute__((vector_size(REGISTER)));
typedef int32_t ints __attribute__((vector_size(REGISTER)));
typedef uint32_t uints __attribute__((vector_size(REGISTER)));
typedef int16_t words __attribute__((vector_size(REGISTER)));
typedef int8_t bytes __attribute__((vector_size(REGISTER)));

#if REGISTER < 64  /* no registers for masks */
typedef ints mask; /* all bits of a lane */

INLINE mask below(floats a, floats b)
{
    return a < b;
}

INLINE words count_above(words n, words a, words b)
{
    return n - (a > b);
}
#endif

INLINE floats splat(float x)
{
    return x - (floats){0};
}

INLINE ints splat_int(int32_t x)
{
    return x - (ints){0};
}

INLINE floats magnitude(floats x)
{
    return (floats)((uints)x & 0x7fffffff);
}

INLINE bytes load_bytes(const void *from)
{
    bytes x;

    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store_bytes(void *to, bytes x)
{
    memcpy(to, &x, sizeof x);
}

/* Four bytes in every lane. */
INLINE ints splat_four(const int8_t *bytes_of_lane)
{
    int32_t four;

    memcpy(&four, bytes_of_lane, sizeof four);
    return splat_int(four);
}

/* The numbers as floats. */
INLINE floats to_floats(ints x)
{
    return __builtin_convertvector(x, floats);
}

#endif

#endif
