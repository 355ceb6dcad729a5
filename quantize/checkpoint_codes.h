/* Decoding of the weights that quantized checkpoints store. Packed files use spectool's own codes
 * (q8.h, microscale.h), so there is no encoder.
 *
 * Codes of 2 to 8 bits are unpacked into bytes. A table has the value of each code. With it,
 *
 *   w = (value - zero) * scale      or      w = value * scale + bias
 *
 * in f32: the difference is exact, and each other operation is rounded once. */
#ifndef SP_QUANTIZE_CHECKPOINT_CODES_H
#define SP_QUANTIZE_CHECKPOINT_CODES_H

#include "format/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_code {
    SP_CODE_E4M3,     /* 8-bit float, 448 at most, 0x7f and 0xff are NaN */
    SP_CODE_E5M2,     /* 8-bit float with infinities: the upper half of an f16 */
    SP_CODE_E2M1,     /* 0, .5, 1, 1.5, 2, 3, 4, 6, and with bit 3 set their negatives */
    SP_CODE_SIGNED,   /* two's complement */
    SP_CODE_CENTERED, /* value + 2^(bits - 1) */
    SP_CODE_UNSIGNED,
    SP_CODE_TERNARY, /* value + 1 */
    SP_CODE_TABLE,   /* an index into a table of the checkpoint */
};

float sp_f32_of_e4m3(uint8_t code);
float sp_f32_of_e5m2(uint8_t code);
float sp_f32_of_e8m0(uint8_t code);  /* 2^(code - 127); 255 is NaN */
float sp_f32_of_e2m1(unsigned code); /* 0..15 */

/* values[c] = the value of the code c of `bits` bits; `code` is not SP_CODE_TABLE. */
void sp_checkpoint_codes_values(float values[256], enum sp_code code, unsigned bits);

/* codes[0..n-1] = the codes of `bits` bits that follow each other from bit number `bit` of `bytes`,
 * lowest bits first. With `high_first`, codes of 4 bits have the first one of a byte in its high
 * half. */
void sp_checkpoint_codes_unpack(uint8_t *codes, const uint8_t *bytes, uint64_t bit, unsigned bits,
                                bool high_first, size_t n);

/* The scales of a row, and its zero points or biases. */
struct sp_code_groups {
    const float *scales, *zeros; /* of each group; zeros NULL: all 0 */
    bool biases;                 /* zeros are biases */
    const uint32_t *index;       /* the group of each column; NULL: groups of neighbors */
    size_t size;                 /* columns of a group; the last one may have fewer */
    size_t first;                /* columns of the first group that precede the row */
};

/* out[0..cols-1] = a row. */
void sp_checkpoint_codes_decode_row(float *out, const float values[256], const uint8_t *codes,
                                    size_t cols, const struct sp_code_groups *groups);

/* True if scales or zero points can have this type: all floats but f64 and, with `zeros`, i8. */
bool sp_checkpoint_codes_can_read(enum sp_dtype dtype, bool zeros);
/* out[0..n-1] = elements of such a type at `bytes`. */
void sp_checkpoint_codes_read(float *out, enum sp_dtype dtype, const uint8_t *bytes, size_t n);

#endif
