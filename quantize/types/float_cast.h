/* Conversions among f32, f16, bf16 and f64 in plain integer arithmetic: round to nearest, ties to
 * even, subnormals, infinities and NaNs included, the same bits on every machine.
 *
 * A NaN stays a NaN (quiet, sign and upper payload kept). */
#ifndef SP_QUANTIZE_TYPES_FLOAT_CAST_H
#define SP_QUANTIZE_TYPES_FLOAT_CAST_H

#include "format/base/bytes.h"
#include "format/dtype.h"

#include <stddef.h>
#include <stdint.h>

float sp_f32_of_f16(uint16_t h);
uint16_t sp_f16_of_f32(float f);
uint16_t sp_bf16_of_f32(float f);
float sp_f32_of_f64(uint64_t bits);

/* bf16 is the upper half of an f32, so this is exact. */
static inline float sp_f32_of_bf16(uint16_t h)
{
    return sp_float_of_bits((uint32_t)h << 16);
}

static inline float sp_round_bf16(float f)
{
    return sp_f32_of_bf16(sp_bf16_of_f32(f));
}

/* Converts n elements. Bytes are little-endian, at any alignment. */
void sp_read_f32(float *out, const uint8_t *bytes, size_t n);
void sp_read_f16(float *out, const uint8_t *bytes, size_t n);
void sp_read_bf16(float *out, const uint8_t *bytes, size_t n);
void sp_write_f32(uint8_t *bytes, const float *x, size_t n);
void sp_write_f16(uint8_t *bytes, const float *x, size_t n);
/* `bytes` may be the memory of x. */
void sp_write_bf16(uint8_t *bytes, const float *x, size_t n);

/* True if sp_decode_floats can read elements of `dtype` (f32, f16, bf16, f64, i64). */
bool sp_can_decode_floats(enum sp_dtype dtype);

/* out[0..n-1] = the elements at `bytes`, little-endian, any alignment; f64 is rounded to f32 (what
 * f32 cannot hold becomes infinite, which the encoders refuse), i64 as well (exact up to 2^24).
 * `dtype` must be readable. */
void sp_decode_floats(float *out, enum sp_dtype dtype, const uint8_t *bytes, size_t n);

#endif
