/* Matrix products of block types with VPDPBUSD on 256-bit registers. It is the body of two kernel
 * sets, for CPUs with AVX-VNNI (kernels_avxvnni.c) and for CPUs whose AVX-512 has this instruction
 * but no byte permutations (kernels_avx512vnni.c). A set defines DPBUSD, the intrinsic, and the
 * KERNELS and KERNELS_NAME that the file defines, and the product KERNELS_GROUPWISE, before it
 * includes this file, which is empty otherwise. VNNI has no advantage for floats, so their products
 * are those of the AVX2 set.
 *
 * As in kernels_avx512.c weights are unsigned, entries + 64 of q2 to q6 and q8 codes + 128, and the
 * initial values of the sums subtract the surplus.
 *
 *   lane        0              1        ...       7
 *   register    row 0, k..k+3  row 1, k..k+3      row 7, k..k+3        four bytes each */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_VNNI256_H
#define SP_QUANTIZE_KERNELS_KERNELS_VNNI256_H

#include "quantize/kernels/kernels_avx2.h"

#include <string.h>

#ifdef DPBUSD

enum { LANES = SP_PANEL_ROWS, N_GROUPS = SP_BLOCK / 4 };

/* Returns i + w . q for four columns of each lane's row, w unsigned. */
INLINE __m256i dot4(__m256i i, __m256i w, const int8_t *q)
{
    int32_t bytes;

    memcpy(&bytes, q, sizeof bytes);
    return DPBUSD(i, w, _mm256_set1_epi32(bytes));
}

/* i[h] += the sum over half h of a block of weights times row t. */
INLINE void dot_row(__m256i i[2], const __m256i w[N_GROUPS], const struct sp_act_block *at,
                    size_t t)
{
    const int8_t *q = at->q + t * at->ld;

    UNROLL
    for (size_t g = 0; g < N_GROUPS / 2; g++) {
        i[0] = dot4(i[0], w[g], q + 4 * g);
        i[1] = dot4(i[1], w[g + N_GROUPS / 2], q + SP_BLOCK / 2 + 4 * g);
    }
}

#define DOT4 dot4
#include "quantize/kernels/kernels_microscale256.h"

/* ---- q8 ---- */

/* Multiplies one block, for half of the lanes, by all rows. */
INLINE void q8_half_block(struct sums *acc, size_t half, const uint8_t *block,
                          const struct sp_act_block *at, size_t n_rows)
{
    __m256 w_scale = widen_bf16(block + LANES * SP_BLOCK + 16 * half);
    __m256i w[N_GROUPS];

    UNROLL
    for (size_t g = 0; g < N_GROUPS; g++)
        w[g] = _mm256_loadu_si256((const void *)(block + 64 * g + 32 * half));
    for (size_t t = 0; t < n_rows; t++) {
        int32_t start = at->start_q8[t * at->ld_block];
        __m256i i[2] = {_mm256_set1_epi32(start), _mm256_setzero_si256()};
        dot_row(i, w, at, t);
        __m256 sum = _mm256_cvtepi32_ps(_mm256_add_epi32(i[0], i[1]));
        __m256 scale = _mm256_mul_ps(w_scale, _mm256_set1_ps(at->scale[t * at->ld_block]));
        acc->row[t][half] = _mm256_fmadd_ps(sum, scale, acc->row[t][half]);
    }
}

#define HALVES
#include "quantize/kernels/kernels_halves.h"

PRODUCT(static void matmul_q8, multiply_halves(SP_Q8, m))

const struct sp_kernels KERNELS = {
    .name = KERNELS_NAME,
    .matmul = MATMULS(sp_floats_avx2),
    .groupwise = KERNELS_GROUPWISE,
    .peak = KERNELS_PEAK,
    .tile = &sp_tile_avx2,
};

#endif
#endif
