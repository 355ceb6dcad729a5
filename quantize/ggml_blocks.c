/* The blocks of ggml, one function a type. `half(p)` is an f16; codes of 4 bits are unsigned and
 * two share a byte: the first half of the weights is in the low halves of the bytes, the second in
 * the high ones. d is the scale of a block, m what is added or subtracted. */
#include "quantize/ggml_blocks.h"

#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "quantize/float_cast.h"
#include "quantize/ggml_grid_blocks.h"

#include <assert.h>

enum { SMALL = 32, SUPER = 256 }; /* weights of a block */

static float half(const uint8_t *p)
{
    return sp_f32_of_f16(sp_get16(p));
}

/* ---- blocks of 32 ---- */

/* d f16, 16 bytes of codes */
static void decode_q4_0(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned i = 0; i < SMALL / 2; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + SMALL / 2] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

/* d f16, m f16, 16 bytes of codes */
static void decode_q4_1(float *out, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);

    for (unsigned i = 0; i < SMALL / 2; i++) {
        out[i] = d * (float)(b[4 + i] & 15) + m;
        out[i + SMALL / 2] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* The 5-bit code i: four bits of `low`, the fifth is bit i of `high`. */
static int code5(const uint8_t *low, uint32_t high, unsigned i)
{
    int nibble = i < SMALL / 2 ? low[i] & 15 : low[i - SMALL / 2] >> 4;

    return nibble | (int)(high >> i & 1) << 4;
}

/* d f16, u32 of fifth bits, 16 bytes of codes */
static void decode_q5_0(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned i = 0; i < SMALL; i++)
        out[i] = d * (float)(code5(b + 6, sp_get32(b + 2), i) - 16);
}

/* d f16, m f16, u32 of fifth bits, 16 bytes of codes */
static void decode_q5_1(float *out, const uint8_t *b)
{
    float d = half(b), m = half(b + 2);

    for (unsigned i = 0; i < SMALL; i++)
        out[i] = d * (float)code5(b + 8, sp_get32(b + 4), i) + m;
}

/* d f16, 32 i8 */
static void decode_q8_0(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned i = 0; i < SMALL; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

/* The values of the codes of IQ4_NL and IQ4_XS. */
static const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

/* d times the values of 16 bytes of codes */
static void decode_nonlinear(float *out, float d, const uint8_t *codes)
{
    for (unsigned i = 0; i < SMALL / 2; i++) {
        out[i] = d * (float)nonlinear[codes[i] & 15];
        out[i + SMALL / 2] = d * (float)nonlinear[codes[i] >> 4];
    }
}

static void decode_iq4_nl(float *out, const uint8_t *b)
{
    decode_nonlinear(out, half(b), b + 2);
}

/* 2^(e - 128), half of what E8M0 means by e: the codes below are doubled. 255 is no NaN here. */
static float half_of_e8m0(uint8_t e)
{
    return sp_float_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Twice the values of the codes of e2m1. That of -0 gives 0. */
static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* An exponent byte, 16 bytes of e2m1 codes */
static void decode_mxfp4(float *out, const uint8_t *b)
{
    float d = half_of_e8m0(b[0]);

    for (unsigned i = 0; i < SMALL / 2; i++) {
        out[i] = d * (float)doubled[b[1 + i] & 15];
        out[i + SMALL / 2] = d * (float)doubled[b[1 + i] >> 4];
    }
}

/* ---- blocks of 64 ---- */

/* Half of what E4M3 means by a code, whose sign is ignored; 0x7f is 0 and no NaN. */
static float half_of_e4m3(uint8_t code)
{
    unsigned exponent = code >> 3 & 15, fraction = code & 7;

    if (code == 0x7f) return 0;
    if (exponent == 0) return (float)fraction * 0x1p-10f;
    return (float)(8 + fraction) * sp_float_of_bits((exponent + 127 - 11) << 23);
}

/* An E4M3 scale for each 16 weights, then 8 bytes of e2m1 codes for each */
static void decode_nvfp4(float *out, const uint8_t *b)
{
    for (unsigned g = 0; g < 4; g++, out += 16) {
        float d = half_of_e4m3(b[g]);

        for (unsigned i = 0; i < 8; i++) {
            uint8_t codes = b[4 + 8 * g + i];
            out[i] = d * (float)doubled[codes & 15];
            out[i + 8] = d * (float)doubled[codes >> 4];
        }
    }
}

/* d f16, 16 bytes of four 2-bit codes, the first weight in the lowest bits */
static void decode_q2_0(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned i = 0; i < 64; i++)
        out[i] = (float)((b[2 + i / 4] >> (i % 4 * 2) & 3) - 1) * d;
}

/* ---- blocks of 128 ---- */

/* d f16, 16 bytes of signs: 1 means d, 0 means -d */
static void decode_q1_0(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned i = 0; i < 128; i++)
        out[i] = b[2 + i / 8] >> i % 8 & 1 ? d : -d;
}

/* ---- blocks of 256 ---- */

/* 2-bit codes of Q2_K, Q3_K and TQ2_0: 32 bytes hold 128 of them, the first 32 in the lowest bits.
 */
static unsigned code2(const uint8_t *codes, unsigned i)
{
    return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* 16 scale bytes (scale in the low half, m in the high), 64 bytes of codes, d f16, m f16; a scale
 * and an m for 16 weights */
static void decode_q2_k(float *out, const uint8_t *b)
{
    float d = half(b + 80), m = half(b + 82);

    for (unsigned g = 0; g < SUPER / 16; g++) {
        float scale = d * (float)(b[g] & 15), less = m * (float)(b[g] >> 4);
        for (unsigned i = 16 * g; i < 16 * g + 16; i++)
            out[i] = scale * (float)code2(b + 16, i) - less;
    }
}

/* 32 bytes of third bits, 64 bytes of codes, 12 bytes of 16 6-bit scales, d f16. Byte i of the
 * scales has the low bits of scales i and i + 8 (i < 8); byte 8 + i the high bits of scales i,
 * i + 4, i + 8 and i + 12 (i < 4). A third bit that is 0 takes 4 off the code. */
static void decode_q3_k(float *out, const uint8_t *b)
{
    const uint8_t *scales = b + 96;
    float d = half(b + 108);

    for (unsigned g = 0; g < SUPER / 16; g++) {
        int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
        int high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (unsigned i = 16 * g; i < 16 * g + 16; i++) {
            int third = b[i % 32] >> (i / 32) & 1;
            out[i] = scale * (float)((int)code2(b + 32, i) - (third ? 0 : 4));
        }
    }
}

/* Scale and m of group g of Q4_K and Q5_K: 12 bytes hold eight 6-bit numbers of each. */
static void scale_and_min(unsigned *scale, unsigned *min, const uint8_t *bytes, unsigned g)
{
    if (g < 4) {
        *scale = bytes[g] & 63;
        *min = bytes[g + 4] & 63;
    } else {
        *scale = (bytes[g + 4] & 15) | (unsigned)(bytes[g - 4] >> 6) << 4;
        *min = (unsigned)(bytes[g + 4] >> 4) | (unsigned)(bytes[g] >> 6) << 4;
    }
}

/* d f16, m f16, 12 bytes of scales, for Q5_K 32 bytes of fifth bits, 128 bytes of codes. 32 bytes
 * hold the codes of two groups of 32; bit g of the bytes of fifth bits is that of group g. */
static void decode_q4_or_q5_k(float *out, const uint8_t *b, const uint8_t *fifth,
                              const uint8_t *codes)
{
    float d = half(b), m = half(b + 2);

    for (unsigned g = 0; g < SUPER / 32; g++) {
        unsigned s, n;
        scale_and_min(&s, &n, b + 4, g);
        float scale = d * (float)s, less = m * (float)n;
        for (unsigned i = 0; i < 32; i++) {
            unsigned code = codes[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
            if (fifth) code |= (fifth[i] >> g & 1u) << 4;
            out[32 * g + i] = scale * (float)code - less;
        }
    }
}

static void decode_q4_k(float *out, const uint8_t *b)
{
    decode_q4_or_q5_k(out, b, NULL, b + 16);
}

static void decode_q5_k(float *out, const uint8_t *b)
{
    decode_q4_or_q5_k(out, b, b + 16, b + 48);
}

/* 128 bytes of low four bits, 64 bytes of high two bits, 16 i8 scales, d f16. Each half of the
 * block has 64 bytes of the first, for 2 x 64 weights, and 32 of the second, for 4 x 32. */
static void decode_q6_k(float *out, const uint8_t *b)
{
    float d = half(b + 208);

    for (unsigned i = 0; i < SUPER; i++) {
        float scale = d * (float)(int8_t)b[192 + i / 16];
        int low = b[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
        int high = b[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        out[i] = scale * (float)((low | high << 4) - 32);
    }
}

/* d f16, u16 of eight 2-bit high parts of scales, 4 bytes of their low halves, 128 bytes of codes;
 * a scale for 32 weights */
static void decode_iq4_xs(float *out, const uint8_t *b)
{
    float d = half(b);

    for (unsigned g = 0; g < SUPER / 32; g++) {
        int low = b[4 + g / 2] >> (g % 2 * 4) & 15, high = sp_get16(b + 2) >> (2 * g) & 3;
        decode_nonlinear(out + 32 * g, d * (float)((low | high << 4) - 32), b + 8 + 16 * g);
    }
}

/* n_digits digits of base 3 of each of n bytes: digit p of byte i is weight n * p + i. A byte holds
 * the digits as a fraction, the first one in front: 256 / 243 times their number. */
static void decode_ternary(float *out, float d, const uint8_t *bytes, unsigned n, unsigned n_digits)
{
    for (unsigned i = 0; i < n; i++) {
        uint8_t rest = bytes[i];

        for (unsigned p = 0; p < n_digits; p++, rest = (uint8_t)(3 * rest))
            out[n * p + i] = d * (float)((3 * rest >> 8) - 1);
    }
}

/* 48 bytes of five digits of base 3, in groups of 32 and 16, 4 bytes of four, d f16 */
static void decode_tq1_0(float *out, const uint8_t *b)
{
    float d = half(b + 52);

    decode_ternary(out, d, b, 32, 5);
    decode_ternary(out + 160, d, b + 32, 16, 5);
    decode_ternary(out + 240, d, b + 48, 4, 4);
}

/* 64 bytes of codes, d f16 */
static void decode_tq2_0(float *out, const uint8_t *b)
{
    float d = half(b + 64);

    for (unsigned i = 0; i < SUPER; i++)
        out[i] = d * (float)((int)code2(b, i) - 1);
}

void sp_ggml_decode(float *out, uint32_t type, const uint8_t *blocks, size_t n_blocks)
{
    static void (*const decoders[SP_GGML_N_TYPES])(float *, const uint8_t *) = {
        [SP_GGML_Q4_0] = decode_q4_0,
        [SP_GGML_Q4_1] = decode_q4_1,
        [SP_GGML_Q5_0] = decode_q5_0,
        [SP_GGML_Q5_1] = decode_q5_1,
        [SP_GGML_Q8_0] = decode_q8_0,
        [SP_GGML_Q2_K] = decode_q2_k,
        [SP_GGML_Q3_K] = decode_q3_k,
        [SP_GGML_Q4_K] = decode_q4_k,
        [SP_GGML_Q5_K] = decode_q5_k,
        [SP_GGML_Q6_K] = decode_q6_k,
        [SP_GGML_IQ4_NL] = decode_iq4_nl,
        [SP_GGML_IQ4_XS] = decode_iq4_xs,
        [SP_GGML_MXFP4] = decode_mxfp4,
        [SP_GGML_NVFP4] = decode_nvfp4,
        [SP_GGML_TQ1_0] = decode_tq1_0,
        [SP_GGML_TQ2_0] = decode_tq2_0,
        [SP_GGML_Q1_0] = decode_q1_0,
        [SP_GGML_Q2_0] = decode_q2_0,
        [SP_GGML_IQ1_S] = sp_ggml_decode_iq1_s,
        [SP_GGML_IQ1_M] = sp_ggml_decode_iq1_m,
        [SP_GGML_IQ2_XXS] = sp_ggml_decode_iq2_xxs,
        [SP_GGML_IQ2_XS] = sp_ggml_decode_iq2_xs,
        [SP_GGML_IQ2_S] = sp_ggml_decode_iq2_s,
        [SP_GGML_IQ3_XXS] = sp_ggml_decode_iq3_xxs,
        [SP_GGML_IQ3_S] = sp_ggml_decode_iq3_s,
    };
    const struct sp_ggml_type_info *info = sp_ggml_type_info(type);

    assert(info->block);
    if (type == SP_GGML_F32)
        sp_read_f32(out, blocks, n_blocks);
    else if (type == SP_GGML_F16)
        sp_read_f16(out, blocks, n_blocks);
    else if (type == SP_GGML_BF16)
        sp_read_bf16(out, blocks, n_blocks);
    else
        for (size_t i = 0; i < n_blocks; i++)
            decoders[type](out + i * info->block, blocks + i * info->size);
}
