/* Decoding of the weights that quantized checkpoints store. Packed files use spectool's own codes
 * (affine.h, microscale.h), so there is no encoder.
 *
 *   w = (code - zero) * scale
 *
 * in f32: the difference is exact, the product is rounded once. A row has one scale, and maybe one
 * zero point, for every `group` columns; the last group may be shorter. The caller handles scales
 * that apply to several rows, and finds all of them in the file. */
#ifndef SP_QUANTIZE_CHECKPOINT_CODES_H
#define SP_QUANTIZE_CHECKPOINT_CODES_H

#include "format/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two codes of four bits share a byte, the first in its low half. */
enum sp_code {
    SP_CODE_E4M3, /* 8-bit float, 448 at most, 0x7f and 0xff are NaN */
    SP_CODE_E5M2, /* 8-bit float with infinities: the upper half of an f16 */
    SP_CODE_I8,   /* two's complement */
    SP_CODE_U8,   /* value + 128 */
    SP_CODE_U4,   /* value + 8 */
    SP_CODE_E2M1, /* 0, .5, 1, 1.5, 2, 3, 4, 6, and with bit 3 set their negatives */
};

float sp_f32_of_e4m3(uint8_t code);
float sp_f32_of_e5m2(uint8_t code);
float sp_f32_of_e8m0(uint8_t code);  /* 2^(code - 127); 255 is NaN */
float sp_f32_of_e2m1(unsigned code); /* 0..15 */

/* Bits of one code. */
unsigned sp_code_bits(enum sp_code code);

/* out[0..cols-1] = a row; scales and zeros (NULL: all 0) have an element for each group. */
void sp_checkpoint_codes_decode_row(float *out, enum sp_code code, const uint8_t *codes,
                                    size_t cols, const float *scales, const float *zeros,
                                    size_t group);

/* True if scales or zero points can have this type: all floats but f64 and, with `zeros`, i8. */
bool sp_checkpoint_codes_can_read(enum sp_dtype dtype, bool zeros);
/* out[0..n-1] = elements of such a type at `bytes`. */
void sp_checkpoint_codes_read(float *out, enum sp_dtype dtype, const uint8_t *bytes, size_t n);

/* Zero points of integer codes that are packed like the weights, but along rows: 32-bit words of
 * [rows / codes in a word][n]. out[0..n-1] = those of row `lane` of the row of words at `words`. */
void sp_checkpoint_codes_read_packed(float *out, enum sp_code code, const uint8_t *words,
                                     unsigned lane, size_t n);

#endif
