/* q8, the 8-bit block type: 32 weights of a row share one bf16 scale,
 *
 *   w = (float)code * scale,   code in -127..127, stored as code + 128.
 *
 * A bf16 scale times a 7-bit code is exact in f32. Where the bytes lie: format/dtype.h. */
#ifndef SP_QUANTIZE_AFFINE_H
#define SP_QUANTIZE_AFFINE_H

#include <stddef.h>
#include <stdint.h>

/* Writes the blocks of one panel (all of it but the padding at its end) from rows[16], each of
 * `cols` finite floats, cols % 32 == 0. */
void sp_q8_encode(uint8_t *panel, const float *const rows[16], size_t cols);

/* out[0..cols-1] = row `lane` of the panel. */
void sp_q8_decode_row(float *out, const uint8_t *panel, size_t cols, size_t lane);

#endif
