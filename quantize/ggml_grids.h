/* The points that weights of the types IQ1 to IQ3 are rounded to. A point is 8 coordinates of 2
 * bits (IQ1, IQ2) or 4 of 3 bits (IQ3), the first in the lowest bits; ggml_grid_blocks.c has their
 * values. Static. */
#ifndef SP_QUANTIZE_GGML_GRIDS_H
#define SP_QUANTIZE_GGML_GRIDS_H

#include <stdint.h>

extern const uint16_t sp_ggml_grid_iq1[2048];
extern const uint16_t sp_ggml_grid_iq2_xxs[256];
extern const uint16_t sp_ggml_grid_iq2_xs[512];
extern const uint16_t sp_ggml_grid_iq2_s[1024];
extern const uint16_t sp_ggml_grid_iq3_xxs[256];
extern const uint16_t sp_ggml_grid_iq3_s[512];

#endif
