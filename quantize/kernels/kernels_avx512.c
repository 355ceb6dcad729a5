/* Matrix products of block types with AVX-512 (F, BW, DQ, VL, VNNI, VBMI): one 512-bit register is
 * one panel's 16 lanes.
 *
 * Each number of activation rows, 1 to 16, has code of its own: the tile functions are inlined with
 * a constant n_rows and unrolled, so that n_rows accumulators, the eight vectors of a decoded block
 * and its scales stay in the 32 registers. Activations are operands broadcast from memory.
 *
 * VPDPBUSD multiplies unsigned bytes (entries + 64 of q2 to q6, q8 codes + 128) by signed ones
 * (activation codes). The surplus, 64 or 128 times the sum of the activation codes, is in the
 * accumulator's first value (acts->start_q4, start_q8) and costs nothing.
 *
 *   lane        0              1        ...       15
 *   register    row 0, k..k+3  row 1, k..k+3      row 15, k..k+3        four bytes each */
#define MAX_ROWS 16
#include "quantize/kernels/kernels_product.h"

#include <immintrin.h>
#include <string.h>

/* Returns i + w . q for four columns of each lane's row. GCC 12 broadcasts q in a separate
 * instruction; the assembly uses the form with a memory operand (6 % faster at 8 rows). */
#if defined(__clang__)
INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    int32_t bytes;

    memcpy(&bytes, q, sizeof bytes);
    return _mm512_dpbusd_epi32(i, w, _mm512_set1_epi32(bytes));
}
#else
struct four {
    int8_t q[4];
};

INLINE __m512i dot4(__m512i i, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(i) : "v"(w), "m"(*(const struct four *)q));
    return i;
}
#endif

/* A decoded block. Each row is multiplied when it is scaled. */
struct products {
    __m512i w[SP_BLOCK / 4];
};

INLINE void multiply_rows(struct products *x, unsigned n_parts, const struct sp_act_block *at)
{
    (void)x, (void)n_parts, (void)at;
}

/* i[h] += the sum over half h of a block of weights times row t. */
INLINE void add_products(__m512i i[2], const struct products *x, unsigned n_parts,
                         const struct sp_act_block *at, size_t t)
{
    const int8_t *q = at->q + t * at->ld;

    (void)n_parts;
    UNROLL
    for (size_t g = 0; g < 4; g++) {
        i[0] = dot4(i[0], x->w[g], q + 4 * g);
        i[1] = dot4(i[1], x->w[g + 4], q + SP_BLOCK / 2 + 4 * g);
    }
}

#include "quantize/kernels/kernels_avx512.h"

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    block_tile(dtype, m, n_rows);
}

const struct sp_kernels sp_kernels_avx512 = {
    .name = "avx512",
    .matmul = MATMULS(sp_floats_avx512),
    .groupwise = sp_groupwise_avx512,
    .peak = sp_peak_avx512,
    .tile = &sp_tile_avx512,
};
