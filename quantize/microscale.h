/* q4, the 4-bit block type: 16 weights share one scale byte, which also selects a codebook.
 *
 *   w = row_scale * (float)b * sp_q4_codebooks[(b & 3) << 4 | nibble]
 *
 * b is the scale byte of (half block, row), row_scale the f32 of the panel's head. The scale is the
 * whole byte as an integer: one conversion makes it a float, there is no exponent to shift and no
 * bit to mask. Its two lowest bits select the codebook, so each codebook is paired with every
 * fourth scale; adjacent scales differ so little (1/255 of the row's largest) that this costs
 * nothing, and the encoder may use all 256 pairs. b == 0 is an exact zero block.
 *
 * Codebook entries are whole numbers in -64..64, ascending: as unsigned bytes, entry + 64, two
 * products with int8 activations fit 16 bits, which is the width of AVX2's additions. Odd codebooks
 * mirror the even ones: codebook[t ^ 1][15 - i] == -codebook[t][i]. They were trained together with
 * the rounding of the scales, on Gaussian rows and heavier-tailed ones
 * (tests/oracle/train_codebooks.c). Relative rms error on Gaussian rows of 1024: 0.0598 at 4.53
 * bits a weight, everything counted.
 *
 * Byte times entry is an exact integer, so a decoded weight is rounded once. A half block's integer
 * dot product with int8 activations stays below 16 * 64 * 127 < 2^17, times the byte below 2^25.
 *
 * The tables and the formula are part of the packed file's format; format/dtype.h has the layout of
 * the bytes. */
#ifndef SP_QUANTIZE_MICROSCALE_H
#define SP_QUANTIZE_MICROSCALE_H

#include "quantize/tile.h"

#include <stddef.h>
#include <stdint.h>

enum { SP_Q4_HALF = 16 }; /* weights that share a scale byte */

/* Entry index: codebook << 4 | nibble. 64 bytes, one vector register or cache line. */
extern const int8_t sp_q4_codebooks[64];

/* The scale of the scale byte b. */
static inline float sp_q4_scale(uint8_t b)
{
    return (float)b;
}

/* Index in sp_q4_codebooks where the codebook of the scale byte b starts. */
static inline unsigned sp_q4_codebook(uint8_t b)
{
    return (b & 3u) << 4;
}

/* The row scale for a row whose largest magnitude is `max`: 0 for a row of (nearly) zeros. */
float sp_q4_row_scale(float max);

/* Writes one block of SP_Q4_BLOCK_SIZE bytes from tile[16][32]: 32 columns of the panel's 16 rows,
 * all finite, none larger than the `max` of row_scale[row]. All kernels write the same bytes. */
void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale,
                        const struct sp_tile_kernels *kernels, const struct sp_q4_tables *tables);

/* out[0..cols-1] = row `lane` of the panel. */
void sp_q4_decode_row(float *out, const uint8_t *panel, size_t cols, size_t lane);

#endif
