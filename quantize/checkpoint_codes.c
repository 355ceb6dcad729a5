/* Decoding of the codes of quantized checkpoints. E4M3, E5M2, E8M0 and E2M1 are the OCP formats of
 * "OFP8" and "Microscaling Formats (MX)"; the integer codes are those of compressed-tensors. */
#include "quantize/checkpoint_codes.h"

#include "format/base/bytes.h"
#include "quantize/codec.h"
#include "quantize/float_cast.h"

#include <assert.h>

/* 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinities. */
float sp_f32_of_e4m3(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, low = code & 0x7f;

    if (low == 0x7f) return sp_float_of_bits(sign | 0x7fc00000u);
    if (low < 8) return sp_float_of_bits(sign | sp_bits_of_float((float)low * 0x1p-9f));
    return sp_float_of_bits(sign | ((low << 20) + (120u << 23)));
}

float sp_f32_of_e5m2(uint8_t code)
{
    return sp_f32_of_f16((uint16_t)(code << 8));
}

float sp_f32_of_e8m0(uint8_t code)
{
    if (code == 255) return sp_float_of_bits(0x7fc00000u);
    return code ? sp_float_of_bits((uint32_t)code << 23) : 0x1p-127f;
}

float sp_f32_of_e2m1(unsigned code)
{
    static const float values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                     -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

    return values[code & 15];
}

unsigned sp_code_bits(enum sp_code code)
{
    return code == SP_CODE_U4 || code == SP_CODE_E2M1 ? 4 : 8;
}

static float value_of(enum sp_code code, const uint8_t *codes, size_t k)
{
    switch (code) {
    case SP_CODE_E4M3:
        return sp_f32_of_e4m3(codes[k]);
    case SP_CODE_E5M2:
        return sp_f32_of_e5m2(codes[k]);
    case SP_CODE_I8:
        return (float)(codes[k] ^ 128) - 128;
    case SP_CODE_U8:
        return (float)codes[k] - 128;
    case SP_CODE_U4:
        return (float)(codes[k / 2] >> k % 2 * 4 & 15) - 8;
    case SP_CODE_E2M1:
        return sp_f32_of_e2m1(codes[k / 2] >> k % 2 * 4 & 15);
    }
    return 0;
}

void sp_checkpoint_codes_decode_row(float *out, enum sp_code code, const uint8_t *codes,
                                    size_t cols, const float *scales, const float *zeros,
                                    size_t group)
{
    for (size_t g = 0, k = 0; k < cols; g++) {
        size_t end = cols - k < group ? cols : k + group;
        float scale = scales[g], zero = zeros ? zeros[g] : 0;

        for (; k < end; k++)
            out[k] = (value_of(code, codes, k) - zero) * scale;
    }
}

bool sp_checkpoint_codes_can_read(enum sp_dtype dtype, bool zeros)
{
    return sp_dtype_is_float(dtype) || dtype == SP_F8_E4M3 || dtype == SP_F8_E5M2 ||
           (zeros ? dtype == SP_I8 : dtype == SP_F8_E8M0);
}

void sp_checkpoint_codes_read(float *out, enum sp_dtype dtype, const uint8_t *bytes, size_t n)
{
    if (sp_dtype_is_float(dtype)) {
        sp_decode_floats(out, dtype, bytes, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (dtype == SP_F8_E4M3) out[i] = sp_f32_of_e4m3(bytes[i]);
        if (dtype == SP_F8_E5M2) out[i] = sp_f32_of_e5m2(bytes[i]);
        if (dtype == SP_F8_E8M0) out[i] = sp_f32_of_e8m0(bytes[i]);
        if (dtype == SP_I8) out[i] = value_of(SP_CODE_I8, bytes, i);
    }
}

void sp_checkpoint_codes_read_packed(float *out, enum sp_code code, const uint8_t *words,
                                     unsigned lane, size_t n)
{
    unsigned bits = sp_code_bits(code);

    assert(lane < 32 / bits);
    for (size_t i = 0; i < n; i++) {
        uint32_t u = sp_get32(words + 4 * i) >> (lane * bits) & ((1u << bits) - 1);

        out[i] = (float)u - (float)(1u << (bits - 1));
    }
}
