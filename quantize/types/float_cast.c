/* The conversions of float_cast.h. Selections instead of branches let compilers vectorize the
 * loops. In two places an addition does the rounding; both rely on the default rounding mode and on
 * magnitudes far from the subnormals of f32, and are therefore exact. */
#include "quantize/types/float_cast.h"

#include <assert.h>

enum { SIGN16 = 0x8000, INF16 = 0x7c00, QUIET16 = 0x0200 };
static const uint32_t SIGN32 = 0x80000000u, INF32 = 0x7f800000u, QUIET32 = 0x00400000u;

float sp_f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & SIGN16) << 16;
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    uint32_t normal = magnitude + (112u << 23); /* exponent bias 15 -> 127 */
    uint32_t special = magnitude | INF32 | (magnitude > 0x0f800000u ? QUIET32 : 0);
    /* A subnormal m * 2^-24 is 2^-14 * (1 + m / 1024) less 2^-14. */
    float tiny = sp_float_of_bits(magnitude + (113u << 23)) - sp_float_of_bits(113u << 23);
    uint32_t bits = magnitude >= 0x0f800000u   ? special
                    : magnitude >= 0x00800000u ? normal
                                               : sp_bits_of_float(tiny);

    return sp_float_of_bits(bits | sign);
}

uint16_t sp_f16_of_f32(float f)
{
    uint32_t bits = sp_bits_of_float(f);
    uint32_t sign = bits >> 16 & SIGN16;
    uint32_t magnitude = bits & ~SIGN32;
    /* Below 2^-14: adding 1/2 leaves the multiple of 2^-24 in the low bits, rounded to even. */
    float shifted = sp_float_of_bits(magnitude < 0x38800000u ? magnitude : 0) + 0.5f;
    uint32_t tiny = sp_bits_of_float(shifted) - 0x3f000000u;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t special = magnitude > INF32 ? (INF16 | QUIET16 | (magnitude >> 13 & 0x3ff)) : INF16;
    uint32_t half = magnitude >= 0x47800000u ? special : magnitude >= 0x38800000u ? normal : tiny;

    return (uint16_t)(half | sign);
}

uint16_t sp_bf16_of_f32(float f)
{
    uint32_t bits = sp_bits_of_float(f);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = (bits | QUIET32) >> 16;

    return (uint16_t)((bits & ~SIGN32) > INF32 ? nan : rounded);
}

float sp_f32_of_f64(uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof d);
    return (float)d;
}

void sp_read_f32(float *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sp_float_of_bits(sp_get32(bytes + 4 * i));
}

void sp_read_f16(float *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sp_f32_of_f16(sp_get16(bytes + 2 * i));
}

void sp_read_bf16(float *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sp_f32_of_bf16(sp_get16(bytes + 2 * i));
}

static void read_f64(float *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = sp_f32_of_f64(sp_get64(bytes + 8 * i));
}

void sp_write_f32(uint8_t *bytes, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put32(bytes + 4 * i, sp_bits_of_float(x[i]));
}

void sp_write_f16(uint8_t *bytes, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put16(bytes + 2 * i, sp_f16_of_f32(x[i]));
}

void sp_write_bf16(uint8_t *bytes, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put16(bytes + 2 * i, sp_bf16_of_f32(x[i]));
}

bool sp_can_decode_floats(enum sp_dtype dtype)
{
    return sp_dtype_is_float(dtype) || dtype == SP_F64 || dtype == SP_I64;
}

void sp_decode_floats(float *out, enum sp_dtype dtype, const uint8_t *bytes, size_t n)
{
    assert(sp_can_decode_floats(dtype));
    if (dtype == SP_F32) sp_read_f32(out, bytes, n);
    if (dtype == SP_F16) sp_read_f16(out, bytes, n);
    if (dtype == SP_BF16) sp_read_bf16(out, bytes, n);
    if (dtype == SP_F64) read_f64(out, bytes, n);
    for (size_t i = 0; dtype == SP_I64 && i < n; i++)
        out[i] = (float)(int64_t)sp_get64(bytes + 8 * i);
}
