/* The points that weights of the types IQ1 to IQ3 are rounded to. A point is 8 coordinates of 2
 * bits (IQ1, IQ2) or 4 of 3 bits (IQ3), the first in the lowest bits; ggml_grid_blocks.c has their
 * values. Four points of 16 bits are one number, the first in its lowest bits. Static. */
#ifndef SP_QUANTIZE_GGML_GRIDS_H
#define SP_QUANTIZE_GGML_GRIDS_H

#include <stdint.h>

extern const uint64_t sp_ggml_grid_iq1[512];
extern const uint64_t sp_ggml_grid_iq2_xxs[64];
extern const uint64_t sp_ggml_grid_iq2_xs[128];
extern const uint64_t sp_ggml_grid_iq2_s[256];
extern const uint64_t sp_ggml_grid_iq3_xxs[64];
extern const uint64_t sp_ggml_grid_iq3_s[128];

static inline unsigned sp_ggml_point(const uint64_t *grid, unsigned i)
{
    return grid[i / 4] >> (16 * (i % 4)) & 0xffff;
}

#endif
