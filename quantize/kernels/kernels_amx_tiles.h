/* Products of a block with several rows of activations in the tiles of AMX (AMX-TILE, AMX-INT8; the
 * instructions are those of Intel's manual, volume 2).
 *
 * A tile has up to 16 rows of 64 bytes. TDPBUSD and its kin add to a tile of sums, a row for each
 * row of activations and a lane for each row of the panel, the products of signed bytes, the codes
 * of the activations, and unsigned ones, four columns of 16 lanes in each row: VPDPBUSD has its
 * weights in this layout as well, so a decoded block is a tile. Sums are exact. They pass through
 * memory, from which each row is scaled as in the set avx512, with the same bits.
 *
 * Intrinsics take literal numbers of tiles: 0 and 1 are sums, 2 and 3 codes, 4 and 5 weights, of
 * the two halves of a block or, the even ones, of a whole one. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_AMX_TILES_H
#define SP_QUANTIZE_KERNELS_KERNELS_AMX_TILES_H

#include "quantize/kernels/kernels.h"
#include "quantize/simd/unroll.h"

#include <immintrin.h>

/* [part of a block][row of activations][lane] */
struct tile_sums {
    _Alignas(64) int32_t at[2][SP_TILE_ROWS][SP_PANEL_ROWS];
};

/* Lets an intrinsic read what was stored: those of GCC 12 do not say that they read memory. */
INLINE void finish_stores(const void *to)
{
    __asm__ volatile("" : : "r"(to) : "memory");
}

/* Sets the shapes of this thread's tiles for n_rows rows of activations and blocks of 1 or 2 parts.
 * _tile_release follows: threads that hold no tiles are switched faster. */
INLINE void configure_tiles(size_t n_rows, unsigned n_parts)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};

    for (size_t i = 0; i < n_parts; i++) {
        shapes.row_bytes[i] = shapes.row_bytes[4 + i] = 4 * SP_PANEL_ROWS;
        shapes.row_bytes[2 + i] = (uint16_t)(SP_BLOCK / n_parts);
        shapes.rows[i] = shapes.rows[2 + i] = (uint8_t)n_rows;
        shapes.rows[4 + i] = (uint8_t)(SP_BLOCK / n_parts / 4);
    }
    finish_stores(&shapes);
    _tile_loadconfig(&shapes);
}

/* Multiplies the block w, eight vectors of 64 unsigned bytes, by the codes of all rows, which begin
 * at q, ld bytes from one row to the next. */
INLINE void multiply_tiles(struct tile_sums *sums, const void *w, unsigned n_parts, const int8_t *q,
                           size_t ld)
{
    finish_stores(w);
    _tile_zero(0);
    _tile_loadd(2, q, ld);
    _tile_loadd(4, w, 64);
    _tile_dpbsud(0, 2, 4);
    _tile_stored(0, sums->at[0], 64);
    if (n_parts == 1) return;
    _tile_zero(1);
    _tile_loadd(3, q + SP_BLOCK / 2, ld);
    _tile_loadd(5, (const uint8_t *)w + 256, 64);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(1, sums->at[1], 64);
}

#endif
