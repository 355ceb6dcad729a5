/* What the files of matrix products share: inlining, a position in the activations, the choice of a
 * tile, the products of a set's types. A set whose tiles have a constant number of rows defines
 * MAX_ROWS, 4, 8 or 16, before it includes this file, and then tile(dtype, m, n_rows). */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_PRODUCT_H
#define SP_QUANTIZE_KERNELS_KERNELS_PRODUCT_H

#include "quantize/kernels/kernels.h"
#include "quantize/simd/unroll.h"

/* Defines a sp_matmul_fn that computes `product` of m. */
#define PRODUCT(function, product)                                                                 \
    function(const struct sp_matmul *m)                                                            \
    {                                                                                              \
        product;                                                                                   \
    }

/* Prefetches the block that begins PREFETCH_AHEAD bytes later. Prefetches past the end of the
 * weights do not fault. */
enum { PREFETCH_AHEAD = 4096 };

INLINE void prefetch(const uint8_t *block, size_t size)
{
    uintptr_t ahead = (uintptr_t)block + PREFETCH_AHEAD;

    UNROLL
    for (size_t i = 0; i < size; i += 64)
        __builtin_prefetch((const void *)(ahead + i));
}

/* One block of 32 columns of the rows of a tile: pointers to the block in its first row; the block
 * in row t is t * ld codes and t * ld_block blocks later. */
struct sp_act_block {
    const int8_t *q;
    const float *scale;
    const int32_t *start_q4, *start_q8;
    size_t ld, ld_block;
};

/* The first block of the tile that begins at row `first`. */
INLINE struct sp_act_block sp_act_block_first(const struct sp_acts *acts, size_t first)
{
    return (struct sp_act_block){
        .q = acts->q + first * acts->ld,
        .scale = acts->scale + first * acts->ld_block,
        .start_q4 = acts->start_q4 + first * acts->ld_block * 2,
        .start_q8 = acts->start_q8 + first * acts->ld_block,
        .ld = acts->ld,
        .ld_block = acts->ld_block,
    };
}

INLINE void sp_act_block_next(struct sp_act_block *at)
{
    at->q += SP_BLOCK;
    at->scale += 1;
    at->start_q4 += 2;
    at->start_q8 += 1;
}

/* The size of a block of q2 to q6 or q8, a constant where the type is one. */
INLINE size_t sp_block_size(enum sp_dtype dtype)
{
    if (dtype == SP_Q8) return SP_Q8_BLOCK_SIZE;
    return sp_microscale_block_size(sp_dtype_code_bits(dtype));
}

#ifdef MAX_ROWS
#if defined(SP_ROLLED)
static void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows);

static void tile_rows(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    tile(dtype, m, n_rows);
}
#else
INLINE void tile(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows);

/* Calls the tile with a constant number of rows. */
INLINE void tile_rows(enum sp_dtype dtype, const struct sp_matmul *m, size_t n_rows)
{
    if (n_rows == 1) tile(dtype, m, 1);
    if (n_rows == 2) tile(dtype, m, 2);
    if (n_rows == 3) tile(dtype, m, 3);
    if (n_rows == 4) tile(dtype, m, 4);
#if MAX_ROWS > 4
    if (n_rows == 5) tile(dtype, m, 5);
    if (n_rows == 6) tile(dtype, m, 6);
    if (n_rows == 7) tile(dtype, m, 7);
    if (n_rows == 8) tile(dtype, m, 8);
#endif
#if MAX_ROWS > 8
    if (n_rows == 9) tile(dtype, m, 9);
    if (n_rows == 10) tile(dtype, m, 10);
    if (n_rows == 11) tile(dtype, m, 11);
    if (n_rows == 12) tile(dtype, m, 12);
    if (n_rows == 13) tile(dtype, m, 13);
    if (n_rows == 14) tile(dtype, m, 14);
    if (n_rows == 15) tile(dtype, m, 15);
    if (n_rows == 16) tile(dtype, m, 16);
#endif
}
#endif

#if MAX_ROWS < 16
/* A tile is one panel and at most MAX_ROWS rows. */
INLINE void multiply(enum sp_dtype dtype, struct sp_matmul m)
{
    const size_t n_tiles = (m.n_rows + MAX_ROWS - 1) / MAX_ROWS, first = m.first;
    const size_t n_panels = m.n_panels;
    float *const y = m.y;
    size_t panel_size = 0;

    if (!sp_panel_size(&panel_size, dtype, m.acts->cols)) return;
    m.n_panels = 1;
    for (size_t p = 0; p < n_panels; p++, m.panels += panel_size) {
        for (size_t i = 0, begin = 0; i < n_tiles; i++) {
            size_t end = m.n_rows * (i + 1) / n_tiles;
            m.y = y + begin * m.ldy + p * SP_PANEL_ROWS;
            m.first = first + begin;
            tile_rows(dtype, &m, end - begin);
            begin = end;
        }
    }
}
#else
/* A tile is all panels. */
INLINE void multiply(enum sp_dtype dtype, struct sp_matmul m)
{
    tile_rows(dtype, &m, m.n_rows);
}
#endif
#endif
#endif
