/* Decoding of the codes of quantized checkpoints. E4M3, E5M2, E8M0 and E2M1 are the OCP formats of
 * "OFP8" and "Microscaling Formats (MX)". */
#include "quantize/checkpoint_codes.h"

#include "format/base/bytes.h"
#include "quantize/types/float_cast.h"

#include <string.h>

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

static float value_of(enum sp_code code, unsigned bits, unsigned c)
{
    unsigned half = 1u << (bits - 1);

    switch (code) {
    case SP_CODE_E4M3:
        return sp_f32_of_e4m3((uint8_t)c);
    case SP_CODE_E5M2:
        return sp_f32_of_e5m2((uint8_t)c);
    case SP_CODE_E2M1:
        return sp_f32_of_e2m1(c);
    case SP_CODE_SIGNED:
        return (float)(c ^ half) - (float)half;
    case SP_CODE_CENTERED:
        return (float)c - (float)half;
    case SP_CODE_TERNARY:
        return (float)c - 1;
    case SP_CODE_UNSIGNED:
    case SP_CODE_TABLE:
        break;
    }
    return (float)c;
}

void sp_checkpoint_codes_values(float values[256], enum sp_code code, unsigned bits)
{
    for (unsigned c = 0; c < 1u << bits; c++)
        values[c] = value_of(code, bits, c);
}

/* Codes of 4 bits from a byte's boundary on. */
static void unpack_nibbles(uint8_t *codes, const uint8_t *bytes, bool high_first, size_t n)
{
    unsigned first = high_first ? 4 : 0;

    for (size_t i = 0; i + 1 < n; i += 2) {
        codes[i] = bytes[i / 2] >> first & 15;
        codes[i + 1] = bytes[i / 2] >> (4 - first) & 15;
    }
    if (n % 2) codes[n - 1] = bytes[n / 2] >> first & 15;
}

void sp_checkpoint_codes_unpack(uint8_t *codes, const uint8_t *bytes, uint64_t bit, unsigned bits,
                                bool high_first, size_t n)
{
    bytes += bit / 8;
    bit %= 8;
    if (bits == 8 && bit == 0) {
        memcpy(codes, bytes, n);
        return;
    }
    if (bits == 4 && bit && n) {
        *codes++ = high_first ? *bytes & 15 : *bytes >> 4;
        bytes++;
        n--;
        bit = 0;
    }
    if (bits == 4) {
        unpack_nibbles(codes, bytes, high_first, n);
        return;
    }
    for (size_t i = 0; i < n; i++, bit += bits) {
        const uint8_t *at = bytes + bit / 8;
        unsigned shift = bit % 8, word = *at;
        if (shift + bits > 8) word |= (unsigned)at[1] << 8;
        codes[i] = (uint8_t)(word >> shift & ((1u << bits) - 1));
    }
}

static void decode_indexed(float *out, const float values[256], const uint8_t *codes, size_t cols,
                           const struct sp_code_groups *g)
{
    for (size_t k = 0; k < cols; k++)
        out[k] =
            (values[codes[k]] - (g->zeros ? g->zeros[g->index[k]] : 0)) * g->scales[g->index[k]];
}

void sp_checkpoint_codes_decode_row(float *out, const float values[256], const uint8_t *codes,
                                    size_t cols, const struct sp_code_groups *groups)
{
    size_t left = groups->size - groups->first;

    if (groups->index) {
        decode_indexed(out, values, codes, cols, groups);
        return;
    }
    for (size_t g = 0, k = 0; k < cols; g++, left = groups->size) {
        size_t end = cols - k < left ? cols : k + left;
        float scale = groups->scales[g], zero = groups->zeros ? groups->zeros[g] : 0;
        if (groups->biases)
            for (; k < end; k++)
                out[k] = values[codes[k]] * scale + zero;
        else
            for (; k < end; k++)
                out[k] = (values[codes[k]] - zero) * scale;
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
        if (dtype == SP_I8) out[i] = value_of(SP_CODE_SIGNED, 8, bytes[i]);
    }
}
