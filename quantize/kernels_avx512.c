/* Matrix products with AVX-512 (F, BW, DQ, VL, VNNI, VBMI): one 512-bit register is one panel's 16
 * lanes.
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
 *   register    row 0, k..k+3  row 1, k..k+3      row 15, k..k+3        four bytes each
 */
#define MAX_ROWS 16
#include "quantize/kernels_product.h"
#include "format/base/mem.h"

#include <immintrin.h>
#include <math.h>
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

#include "quantize/kernels_avx512.h"

/* ---- f32, f16, bf16 ---- */

/* The weights of one column. */
INLINE __m512 float_weights(enum sp_dtype dtype, const uint8_t *bytes)
{
    if (dtype == SP_F32) return _mm512_loadu_ps((const void *)bytes);
    if (dtype == SP_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)bytes));
    return widen_bf16(bytes);
}

/* Computes n_wide panels from `first_panel` on together: with few rows, one panel has too few
 * independent chains of additions to keep the multipliers busy. */
INLINE void float_panels(enum sp_dtype dtype, const struct sp_matmul *m, size_t first_panel,
                         size_t n_wide, size_t n_rows)
{
    const size_t column = LANES * (dtype == SP_F32 ? 4 : 2);
    const size_t cols = m->acts->cols, ld = m->acts->ld;
    const size_t size = sp_round_up(cols * column, 64);
    const uint8_t *w = m->panels + first_panel * size;
    const float *x = m->acts->x + m->first * ld;
    __m512 acc[4][SP_TILE_ROWS];

    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            acc[i][t] = _mm512_setzero_ps();
    }
    for (size_t k = 0; k < cols; k++, w += column) {
        UNROLL
        for (size_t i = 0; i < n_wide; i++) {
            __m512 column_weights = float_weights(dtype, w + i * size);
            UNROLL
            for (size_t t = 0; t < n_rows; t++) {
                acc[i][t] =
                    _mm512_fmadd_ps(column_weights, _mm512_set1_ps(x[t * ld + k]), acc[i][t]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < n_wide; i++) {
        UNROLL
        for (size_t t = 0; t < n_rows; t++)
            _mm512_storeu_ps(m->y + t * m->ldy + (first_panel + i) * LANES, acc[i][t]);
    }
}

INLINE void float_tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_wide = n_rows == 1 ? 4 : n_rows <= 4 ? 2 : 1;
    size_t p = 0;

    for (; p + n_wide <= m->n_panels; p += n_wide)
        float_panels(dtype, m, p, n_wide, n_rows);
    for (; p < m->n_panels; p++)
        float_panels(dtype, m, p, 1, n_rows);
}

/* ---- choice of the tile ---- */

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    if (dtype == SP_F32 || dtype == SP_F16 || dtype == SP_BF16)
        float_tile(dtype, m, n_rows);
    else
        block_tile(dtype, m, n_rows);
}

PRODUCT(static void matmul_f32, multiply(SP_F32, *m))
PRODUCT(static void matmul_f16, multiply(SP_F16, *m))
PRODUCT(static void matmul_bf16, multiply(SP_BF16, *m))
PRODUCT(static void matmul_q8, multiply(SP_Q8, *m))
PRODUCT(static void matmul_q2, multiply(SP_Q2, *m))
PRODUCT(static void matmul_q3, multiply(SP_Q3, *m))
PRODUCT(static void matmul_q4, multiply(SP_Q4, *m))
PRODUCT(static void matmul_q5, multiply(SP_Q5, *m))
PRODUCT(static void matmul_q6, multiply(SP_Q6, *m))

/* ---- activations ---- */

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, x += SP_BLOCK, q += SP_BLOCK) {
        __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + LANES);
        __m512i m0 = _mm512_and_si512(_mm512_castps_si512(x0), magnitude);
        __m512i m1 = _mm512_and_si512(_mm512_castps_si512(x1), magnitude);
        /* Magnitudes are compared as integers, so that a NaN is the largest. */
        int32_t bits = _mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
        float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
        float inverse = 127.0f / max;
        __mmask16 keep = inverse > 0 && !isinf(inverse) ? 0xffff : 0;
        __m512 factor = _mm512_set1_ps(inverse);
        __m512i q0 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x0, factor));
        __m512i q1 = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(x1, factor));

        scale[b] = isinf(inverse) ? 0.0f : max / 127.0f;
        start_q4[2 * b] = 2 - 64 * _mm512_reduce_add_epi32(q0);
        start_q4[2 * b + 1] = 2 - 64 * _mm512_reduce_add_epi32(q1);
        start_q8[b] = 2 * (start_q4[2 * b] + start_q4[2 * b + 1] - 4);
        _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((void *)(q + LANES), _mm512_cvtepi32_epi8(q1));
    }
    sp_acts_set_sums(acts, t);
}

const struct sp_kernels sp_kernels_avx512 = {
    .name = "avx512",
    .quantize_row = quantize_row,
    .matmul = SP_MATMULS(matmul_f32, matmul_f16, matmul_bf16),
    .groupwise = sp_groupwise_avx512,
    .peak = sp_peak_avx512,
    .tile = &sp_tile_avx512,
};
