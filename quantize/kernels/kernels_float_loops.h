/* Matrix products of f32, f16 and bf16, written once over the primitives of simd.h. A set
 * includes its primitives, defines
 *
 *   FLOATS         the name of the sp_matmul_fn
 *   MAX_ROWS       most rows of a tile (kernels_product.h), inlined with a constant number
 *   WIDE(n_rows)   panels that are multiplied together by so many rows; 1 if MAX_ROWS is below 16
 *   PREFETCHES     1 if each column of a panel is prefetched, else 0
 *
 * and includes this file. The lanes of a register are rows of a panel; a panel is as many parts as
 * a register needs for its 16 rows. With few rows of activations one panel has too few independent
 * chains of additions to keep the multipliers busy. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_FLOAT_LOOPS_H
#define SP_QUANTIZE_KERNELS_KERNELS_FLOAT_LOOPS_H

#ifdef FLOATS

#include "quantize/kernels/kernels_product.h"

enum { N_PARTS = SP_PANEL_ROWS / LANES, MAX_WIDE = 4 };

/* LANES weights of a column. */
INLINE floats load_weights(enum sp_dtype dtype, const uint8_t *from)
{
    if (dtype == SP_F32) return load((const float *)(const void *)from, LANES);
    return dtype == SP_F16 ? load_halves(from, LANES) : load_bf16(from);
}

/* Multiplies n_wide panels from `first` on. */
INLINE void float_panels(enum sp_dtype dtype, const struct sp_matmul *m, size_t first,
                         size_t n_wide, size_t n_rows)
{
    const size_t element = dtype == SP_F32 ? 4 : 2, column = SP_PANEL_ROWS * element;
    const size_t cols = m->acts->cols, ld = m->acts->ld, n = n_wide * N_PARTS;
    const size_t size = sp_round_up(cols * column, 64);
    const uint8_t *w = m->panels + first * size;
    const float *x = m->acts->x + m->first * ld;
    floats acc[MAX_ROWS][MAX_WIDE * N_PARTS];

    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        UNROLL
        for (size_t i = 0; i < n; i++)
            acc[t][i] = splat(0);
    }
    for (size_t k = 0; k < cols; k++, w += column, x++) {
        floats weights[MAX_WIDE * N_PARTS];
        if (PREFETCHES) prefetch(w, 1);
        UNROLL
        for (size_t i = 0; i < n; i++) {
            const uint8_t *panel = w + i / N_PARTS * size;
            weights[i] = load_weights(dtype, panel + i % N_PARTS * LANES * element);
        }
        UNROLL
        for (size_t t = 0; t < n_rows; t++) {
            const floats factor = splat(x[t * ld]);
            UNROLL
            for (size_t i = 0; i < n; i++)
                acc[t][i] = fmadd(weights[i], factor, acc[t][i]);
        }
    }
    UNROLL
    for (size_t t = 0; t < n_rows; t++) {
        UNROLL
        for (size_t i = 0; i < n; i++)
            store(m->y + t * m->ldy + first * SP_PANEL_ROWS + i * LANES, LANES, acc[t][i]);
    }
}

INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    const size_t n_wide = WIDE(n_rows);
    size_t p = 0;

    for (; p + n_wide <= m->n_panels; p += n_wide)
        float_panels(dtype, m, p, n_wide, n_rows);
    for (; p < m->n_panels && n_wide > 1; p++)
        float_panels(dtype, m, p, 1, n_rows);
}

PRODUCT(static void matmul_f32, multiply(SP_F32, *m))
PRODUCT(static void matmul_f16, multiply(SP_F16, *m))
PRODUCT(static void matmul_bf16, multiply(SP_BF16, *m))

void FLOATS(const struct sp_matmul *m)
{
    static sp_matmul_fn *const products[] = {
        [SP_F32] = matmul_f32, [SP_F16] = matmul_f16, [SP_BF16] = matmul_bf16};

    products[m->dtype](m);
}

#endif
#endif
