/* q8, the 8-bit block type: 32 weights of a row share one bf16 scale,
 *
 *   w = (float)code * scale,   code in -127..127, stored as code + 128.
 *
 * A bf16 scale times a 7-bit code is exact in f32. format/dtype.h has the layout of the
 * bytes. */
#ifndef SP_QUANTIZE_TYPES_Q8_H
#define SP_QUANTIZE_TYPES_Q8_H

#include <stddef.h>
#include <stdint.h>

/* Writes one block of SP_Q8_BLOCK_SIZE bytes from tile[16][32]: the same 32 columns of the panel's
 * 16 rows, all finite. */
void sp_q8_encode_block(uint8_t *block, const float *tile);

/* out[0..cols-1] = row `lane` of the panel. */
void sp_q8_decode_row(float *out, const uint8_t *panel, size_t cols, size_t lane);

#endif
