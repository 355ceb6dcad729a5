/* Matrix products of block types with VPDPBUSD on 256-bit registers. It is the body of two kernel
 * sets, for CPUs with AVX-VNNI (kernels_avxvnni.c) and for CPUs whose AVX-512 has this instruction
 * but no byte permutations (kernels_avx512vnni.c). A set defines DPBUSD, the intrinsic, before it
 * includes this file, which is empty otherwise. VNNI has no advantage for the other types, so their
 * products are those of the AVX2 set.
 *
 * The eight vectors of weights of a block, for half of a panel's lanes, fill half of the registers;
 * they are decoded once and multiplied by all rows of the tile, whose accumulators are in the
 * nearest cache. The next rows are independent and hide the latency of the dot products, so no tile
 * needs code of its own.
 *
 * As in kernels_avx512.c weights are unsigned, q4 entries + 64 and q8 codes + 128, and the initial
 * values of the sums subtract the surplus.
 *
 *   lane        0              1        ...       7
 *   register    row 0, k..k+3  row 1, k..k+3      row 7, k..k+3        four bytes each */
#ifndef SP_QUANTIZE_KERNELS_VNNI256_H
#define SP_QUANTIZE_KERNELS_VNNI256_H

#include "quantize/kernels_avx2.h"

#include "quantize/activation_block.h"
#include "quantize/microscale.h"
#include "quantize/tile.h"

#include <assert.h>
#include <string.h>

#ifdef DPBUSD

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { LANES = SP_PANEL_ROWS, HALF_LANES = 8, N_GROUPS = SP_BLOCK / 4 };

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

/* ---- q4 ---- */

/* Decodes one vector of nibbles, which were exclusive-or'ed with `odd`, to entries + 64. */
INLINE __m256i q4_codes(__m256i nibbles, __m256i odd, __m256i second,
                        struct sp_avx2_q4_tables tables)
{
    __m256i u = sp_avx2_q4_look_up(tables, nibbles, second);

    /* Negates the entry if the codebook is odd: 128 - u = ~u - 127. */
    return _mm256_sub_epi8(_mm256_xor_si256(u, odd), _mm256_and_si256(odd, _mm256_set1_epi8(127)));
}

/* Decodes half a block for 8 rows of the panel to entries + 64; scales: their scale bytes, one a
 * lane. */
INLINE void q4_decode(__m256i w[N_GROUPS / 2], const uint8_t *bytes, __m256i scales,
                      struct sp_avx2_q4_tables tables)
{
    const __m256i low = _mm256_set1_epi8(0x0f);
    /* `odd` is all ones if the codebook is odd; the sign bits of `second` are set if it is 2 or
     * 3. */
    __m256i odd = _mm256_srai_epi32(_mm256_slli_epi32(scales, 31), 31);
    __m256i second = _mm256_srai_epi32(_mm256_slli_epi32(scales, 30), 31);

    UNROLL
    for (size_t v = 0; v < 2; v++) {
        __m256i pair = _mm256_xor_si256(_mm256_loadu_si256((const void *)(bytes + 64 * v)), odd);
        __m256i high = _mm256_srli_epi16(pair, 4);
        w[v] = q4_codes(_mm256_and_si256(pair, low), odd, second, tables);
        w[v + 2] = q4_codes(_mm256_and_si256(high, low), odd, second, tables);
    }
}

/* Returns acc + a block of weights times row t. */
INLINE __m256 q4_row(__m256 acc, const __m256i w[N_GROUPS], __m256i scales,
                     const struct sp_act_block *at, size_t t)
{
    const int32_t *start = at->start_q4 + t * at->ld_block * 2;
    __m256i i[2] = {_mm256_set1_epi32(start[0]), _mm256_set1_epi32(start[1])};

    dot_row(i, w, at, t);
    /* Interleaves the quarters of both halves, multiplies them by their scales and adds pairs. */
    __m256i quarters =
        _mm256_blend_epi16(_mm256_srai_epi32(i[0], 2), _mm256_slli_epi32(i[1], 14), 0xaa);
    __m256 u = _mm256_cvtepi32_ps(_mm256_madd_epi16(quarters, scales));
    return _mm256_fmadd_ps(u, _mm256_set1_ps(at->scale[t * at->ld_block]), acc);
}

/* Multiplies one block, for half of the lanes, by all rows. */
INLINE void q4_half_block(__m256 acc[][2], size_t half, const uint8_t *block,
                          const struct sp_act_block *at, size_t n_rows,
                          struct sp_avx2_q4_tables tables)
{
    const uint8_t *scale_bytes = block + LANES * SP_Q4_HALF + HALF_LANES * half;
    __m256i b0 = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)scale_bytes));
    __m256i b1 = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(scale_bytes + LANES)));
    __m256i scales = _mm256_or_si256(b0, _mm256_slli_epi32(b1, 16));
    __m256i w[N_GROUPS];

    q4_decode(w, block + 32 * half, b0, tables);
    q4_decode(w + 4, block + 128 + 32 * half, b1, tables);
    for (size_t t = 0; t < n_rows; t++)
        acc[t][half] = q4_row(acc[t][half], w, scales, at, t);
}

static void matmul_q4(const struct sp_matmul *product)
{
    const struct sp_matmul m = *product;
    const size_t n_blocks = m.acts->cols / SP_BLOCK;
    const struct sp_avx2_q4_tables tables = sp_avx2_q4_tables();
    size_t panel_size = 0;
    bool fits = sp_panel_size(&panel_size, SP_Q4, m.acts->cols);

    assert(fits && m.n_rows <= SP_TILE_ROWS);
    for (size_t p = 0; p < m.n_panels; p++) {
        const uint8_t *panel = m.panels + p * panel_size, *block = panel + SP_Q4_PANEL_HEAD;
        struct sp_act_block at = sp_act_block_first(m.acts, m.first);
        __m256 acc[SP_TILE_ROWS][2], row_scale[2];

        for (size_t t = 0; t < m.n_rows; t++)
            acc[t][0] = acc[t][1] = _mm256_setzero_ps();
        for (size_t b = 0; b < n_blocks; b++, block += SP_Q4_BLOCK_SIZE) {
            prefetch(block, SP_Q4_BLOCK_SIZE);
            q4_half_block(acc, 0, block, &at, m.n_rows, tables);
            q4_half_block(acc, 1, block, &at, m.n_rows, tables);
            sp_act_block_next(&at);
        }
        for (size_t half = 0; half < 2; half++) {
            row_scale[half] = _mm256_mul_ps(_mm256_set1_ps(4),
                                            _mm256_loadu_ps((const void *)(panel + 32 * half)));
        }
        for (size_t t = 0; t < m.n_rows; t++) {
            float *out = m.y + t * m.ldy + p * LANES;
            _mm256_storeu_ps(out, _mm256_mul_ps(acc[t][0], row_scale[0]));
            _mm256_storeu_ps(out + HALF_LANES, _mm256_mul_ps(acc[t][1], row_scale[1]));
        }
    }
}

/* ---- q8 ---- */

/* Multiplies one block, for half of the lanes, by all rows. */
INLINE void q8_half_block(__m256 acc[][2], size_t half, const uint8_t *block,
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
        acc[t][half] = _mm256_fmadd_ps(sum, scale, acc[t][half]);
    }
}

static void matmul_q8(const struct sp_matmul *product)
{
    const struct sp_matmul m = *product;
    const size_t n_blocks = m.acts->cols / SP_BLOCK;
    size_t panel_size = 0;
    bool fits = sp_panel_size(&panel_size, SP_Q8, m.acts->cols);

    assert(fits && m.n_rows <= SP_TILE_ROWS);
    for (size_t p = 0; p < m.n_panels; p++) {
        const uint8_t *block = m.panels + p * panel_size;
        struct sp_act_block at = sp_act_block_first(m.acts, m.first);
        __m256 acc[SP_TILE_ROWS][2];

        for (size_t t = 0; t < m.n_rows; t++)
            acc[t][0] = acc[t][1] = _mm256_setzero_ps();
        for (size_t b = 0; b < n_blocks; b++, block += SP_Q8_BLOCK_SIZE) {
            prefetch(block, SP_Q8_BLOCK_SIZE);
            q8_half_block(acc, 0, block, &at, m.n_rows);
            q8_half_block(acc, 1, block, &at, m.n_rows);
            sp_act_block_next(&at);
        }
        for (size_t t = 0; t < m.n_rows; t++) {
            float *out = m.y + t * m.ldy + p * LANES;
            _mm256_storeu_ps(out, acc[t][0]);
            _mm256_storeu_ps(out + HALF_LANES, acc[t][1]);
        }
    }
}

#endif
#endif
