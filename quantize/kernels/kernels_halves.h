/* Products of q2 to q6 and q8 in halves of a panel's lanes, written once for the sets of 128 and
 * 256 bits. The weights of a block for half of the lanes fill half of the registers; they are
 * decoded once and multiplied by all rows of the tile, whose accumulators are in the nearest cache.
 * The next rows are independent and hide the latency of the dot products, so no tile needs code of
 * its own. A set defines HALVES and, before it includes this file,
 *
 *   struct sums        the accumulators of all rows, `row`, for the lanes of a panel; valid when
 *                      zeroed
 *   struct tables, microscale_tables(dtype)   what decoding looks up; of q8 nothing is
 *   microscale_half_block(acc, dtype, size, half, block, at, n_rows, tables)   adds the products of
 *                      a block of `size` bytes, for half of the lanes, with all rows
 *   q8_half_block(acc, half, block, at, n_rows)   the same for q8, unless the set has a product of
 *                      its own for q8 and defines half_block as microscale_half_block
 *   store_sums(y, ldy, acc, row_scales, n_rows)   stores a panel, times four times the scale of
 *                      each of its rows; row_scales of q8 is NULL: as it is */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_HALVES_H
#define SP_QUANTIZE_KERNELS_KERNELS_HALVES_H

#ifdef HALVES

#include "quantize/kernels/kernels_product.h"
#include "quantize/types/microscale.h"

#include <assert.h>
#include <string.h>

#ifndef half_block
INLINE void half_block(struct sums *acc, enum sp_dtype dtype, size_t size, size_t half,
                       const uint8_t *block, const struct sp_act_block *at, size_t n_rows,
                       const struct tables *tables)
{
    if (dtype == SP_Q8)
        q8_half_block(acc, half, block, at, n_rows);
    else
        microscale_half_block(acc, dtype, size, half, block, at, n_rows, tables);
}
#endif

INLINE void multiply_halves(enum sp_dtype dtype, const struct sp_matmul *product)
{
    const struct sp_matmul m = *product;
    const bool is_q8 = dtype == SP_Q8;
    const size_t n_blocks = m.acts->cols / SP_BLOCK, size = sp_block_size(dtype);
    const struct tables tables = is_q8 ? (struct tables){0} : microscale_tables(dtype);
    size_t panel_size = 0;
    bool fits = sp_panel_size(&panel_size, dtype, m.acts->cols);

    assert(fits && m.n_rows <= SP_TILE_ROWS);
    for (size_t p = 0; p < m.n_panels; p++) {
        const uint8_t *panel = m.panels + p * panel_size;
        const uint8_t *block = panel + (is_q8 ? 0 : SP_MICROSCALE_HEAD);
        struct sp_act_block at = sp_act_block_first(m.acts, m.first);
        struct sums acc;

        for (size_t t = 0; t < sp_round_up(m.n_rows, 2); t++) /* rows may go in pairs */
            memset(acc.row[t], 0, sizeof acc.row[t]);
        for (size_t b = 0; b < n_blocks; b++, block += size) {
            prefetch(block, size);
            half_block(&acc, dtype, size, 0, block, &at, m.n_rows, &tables);
            half_block(&acc, dtype, size, 1, block, &at, m.n_rows, &tables);
            sp_act_block_next(&at);
        }
        store_sums(m.y + p * SP_PANEL_ROWS, m.ldy, &acc, is_q8 ? NULL : panel, m.n_rows);
    }
}

PRODUCT(static void matmul_q2, multiply_halves(SP_Q2, m))
PRODUCT(static void matmul_q3, multiply_halves(SP_Q3, m))
PRODUCT(static void matmul_q4, multiply_halves(SP_Q4, m))
PRODUCT(static void matmul_q5, multiply_halves(SP_Q5, m))
PRODUCT(static void matmul_q6, multiply_halves(SP_Q6, m))

/* The initializer of `matmul` of a set: these products, its own of q8, and one of floats. */
#define MATMULS(floats)                                                                            \
    {                                                                                              \
        [SP_F32] = floats, [SP_F16] = floats, [SP_BF16] = floats, [SP_Q8] = matmul_q8,             \
        [SP_Q6] = matmul_q6, [SP_Q5] = matmul_q5, [SP_Q4] = matmul_q4, [SP_Q3] = matmul_q3,        \
        [SP_Q2] = matmul_q2,                                                                       \
    }

#endif
#endif
