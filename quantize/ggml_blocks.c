/* The blocks of ggml, one function a type, as groups of quantize/types/groupwise.h. Codes of 4 bits
 * are unsigned and two share a byte: the first half of the weights is in the low halves of the
 * bytes, the second in the high ones. d is the scale of a block, m what is added or subtracted. */
#include "quantize/ggml_blocks.h"

#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "quantize/ggml_grid_blocks.h"
#include "quantize/types/float_cast.h"

#include <assert.h>
#include <string.h>

enum { SMALL = 32, SUPER = 256 }; /* weights of a block */

static void unpack_nibbles(uint8_t *codes, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        codes[i] = bytes[i] & 15;
        codes[i + n] = bytes[i] >> 4;
    }
}

/* 16 bytes */
static void unpack_q4(struct sp_group *g, const uint8_t *b)
{
    unpack_nibbles(g->codes, b, SMALL / 2);
}

/* u32 of fifth bits, 16 bytes of the others */
static void unpack_q5(struct sp_group *g, const uint8_t *b)
{
    unpack_nibbles(g->codes, b + 4, SMALL / 2);
    for (unsigned i = 0; i < SMALL; i++)
        g->codes[i] |= (uint8_t)((sp_get32(b) >> i & 1) << 4);
}

/* 32 i8 */
static void unpack_q8_0(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SMALL; i++)
        g->codes[i] = b[i] ^ 0x80;
}

/* 16 bytes of signs: 1 means d, 0 means -d */
static void unpack_q1_0(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < 128; i++)
        g->codes[i] = b[i / 8] >> i % 8 & 1;
}

/* The zero point is not stored. */
static void unpack_q5_0(struct sp_group *g, const uint8_t *b)
{
    sp_put16(g->numbers + 2, 0x4c00); /* 16 */
    unpack_q5(g, b);
}

/* The code of -0 gives 0. */
static void unpack_e2m1(uint8_t *codes, const uint8_t *bytes, size_t n)
{
    unpack_nibbles(codes, bytes, n);
    for (size_t i = 0; i < 2 * n; i++)
        if (codes[i] == 8) codes[i] = 0;
}

/* 16 bytes of e2m1 codes */
static void unpack_mxfp4(struct sp_group *g, const uint8_t *b)
{
    unpack_e2m1(g->codes, b, SMALL / 2);
}

/* An E4M3 scale for each 16 weights, whose sign is ignored and of which 0x7f is 0, then 8 bytes of
 * e2m1 codes for each */
static void unpack_nvfp4(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < 4; i++) {
        uint8_t scale = b[i] & 0x7f;
        g[i / 2].numbers[i % 2] = scale == 0x7f ? 0 : scale;
        unpack_e2m1(g[i / 2].codes + 16 * (i % 2), b + 4 + 8 * i, 8);
    }
}

/* 16 bytes of four 2-bit codes, the first weight in the lowest bits */
static void unpack_q2_0(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < 64; i++)
        g->codes[i] = b[i / 4] >> (i % 4 * 2) & 3;
}

/* 32 bytes hold 128 codes, the first 32 in the lowest bits. */
static void unpack_q2(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SUPER; i++)
        g->codes[i] = b[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* 32 bytes of third bits, 64 bytes of the others, 12 bytes of 16 6-bit scales. Byte i of the scales
 * has the low bits of scales i and i + 8 (i < 8); byte 8 + i the high bits of scales i, i + 4,
 * i + 8 and i + 12 (i < 4). */
static void unpack_q3_k(struct sp_group *g, const uint8_t *b)
{
    const uint8_t *scales = b + 96;

    unpack_q2(g, b + 32);
    for (unsigned i = 0; i < SUPER; i++)
        g->codes[i] |= (uint8_t)((b[i % 32] >> (i / 32) & 1) << 2);
    for (unsigned i = 0; i < SUPER / 16; i++) {
        int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
        int high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
        g->scale_bytes[i] = (uint8_t)((low | high << 4) - 32);
    }
}

/* Scales and m of Q4_K and Q5_K: 12 bytes hold eight 6-bit numbers of each. */
static void unpack_scales_and_mins(uint8_t *pairs, const uint8_t *bytes)
{
    for (unsigned i = 0; i < 4; i++) {
        pairs[2 * i] = bytes[i] & 63;
        pairs[2 * i + 1] = bytes[i + 4] & 63;
        pairs[2 * i + 8] = (uint8_t)((bytes[i + 8] & 15) | bytes[i] >> 6 << 4);
        pairs[2 * i + 9] = (uint8_t)(bytes[i + 8] >> 4 | bytes[i + 4] >> 6 << 4);
    }
}

/* 12 bytes of scales, 128 bytes of codes: 32 bytes hold those of two groups of 32 */
static void unpack_q4_k(struct sp_group *g, const uint8_t *b)
{
    unpack_scales_and_mins(g->scale_bytes, b);
    for (unsigned i = 0; i < SUPER / 64; i++)
        unpack_nibbles(g->codes + 64 * i, b + 12 + 32 * i, 32);
}

/* As Q4_K, with 32 bytes of fifth bits before the codes: bit i of the bytes is that of the 32
 * weights of group i */
static void unpack_q5_k(struct sp_group *g, const uint8_t *b)
{
    unpack_scales_and_mins(g->scale_bytes, b);
    for (unsigned i = 0; i < SUPER / 64; i++)
        unpack_nibbles(g->codes + 64 * i, b + 44 + 32 * i, 32);
    for (unsigned i = 0; i < SUPER; i++)
        g->codes[i] |= (uint8_t)((b[12 + i % 32] >> (i / 32) & 1) << 4);
}

/* 128 bytes of low four bits, 64 bytes of high two bits. Each half of the block has 64 bytes of the
 * first, for 2 x 64 weights, and 32 of the second, for 4 x 32. */
static void unpack_q6_k(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SUPER / 128; i++)
        unpack_nibbles(g->codes + 128 * i, b + 64 * i, 64);
    for (unsigned i = 0; i < SUPER; i++)
        g->codes[i] |= (uint8_t)((b[128 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) << 4);
}

/* u16 of eight 2-bit high parts of scales, 4 bytes of their low halves, 128 bytes of codes */
static void unpack_iq4_xs(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SUPER / 32; i++) {
        int low = b[2 + i / 2] >> (i % 2 * 4) & 15, high = sp_get16(b) >> (2 * i) & 3;
        g->scale_bytes[i] = (uint8_t)((low | high << 4) - 32);
        unpack_nibbles(g->codes + 32 * i, b + 6 + 16 * i, 16);
    }
}

/* n_digits digits of base 3 of each of n bytes: digit p of byte i is weight n * p + i. A byte holds
 * the digits as a fraction, the first one in front: 256 / 243 times their number. */
static void unpack_ternary(uint8_t *codes, const uint8_t *bytes, unsigned n, unsigned n_digits)
{
    for (unsigned i = 0; i < n; i++) {
        uint8_t rest = bytes[i];
        for (unsigned p = 0; p < n_digits; p++, rest = (uint8_t)(3 * rest))
            codes[n * p + i] = (uint8_t)(3 * rest >> 8);
    }
}

/* 48 bytes of five digits of base 3, in groups of 32 and 16, 4 bytes of four */
static void unpack_tq1_0(struct sp_group *g, const uint8_t *b)
{
    unpack_ternary(g->codes, b, 32, 5);
    unpack_ternary(g->codes + 160, b + 32, 16, 5);
    unpack_ternary(g->codes + 240, b + 48, 4, 4);
}

enum { NO_SCALES = UINT8_MAX };

/* Where a block has the numbers of its group, its scale bytes if they are stored as they are, and
 * what is left to unpack. */
static const struct {
    enum sp_dtype dtype;
    uint8_t flags, numbers, scales, rest;
    void (*unpack)(struct sp_group *, const uint8_t *);
} kept[SP_GGML_N_TYPES] = {
    [SP_GGML_Q4_0] = {SP_I4G32, 0, 0, NO_SCALES, 2, unpack_q4},
    [SP_GGML_Q4_1] = {SP_U4G32, SP_GROUPS_BIAS, 0, NO_SCALES, 4, unpack_q4},
    [SP_GGML_Q5_0] = {SP_U5G32, 0, 0, NO_SCALES, 2, unpack_q5_0},
    [SP_GGML_Q5_1] = {SP_U5G32, SP_GROUPS_BIAS, 0, NO_SCALES, 4, unpack_q5},
    [SP_GGML_Q8_0] = {SP_I8G32, 0, 0, NO_SCALES, 2, unpack_q8_0},
    [SP_GGML_Q2_K] = {SP_Q2_K, 0, 80, 0, 16, unpack_q2},
    [SP_GGML_Q3_K] = {SP_Q3_K, 0, 108, NO_SCALES, 0, unpack_q3_k},
    [SP_GGML_Q4_K] = {SP_Q4_K, 0, 0, NO_SCALES, 4, unpack_q4_k},
    [SP_GGML_Q5_K] = {SP_Q5_K, 0, 0, NO_SCALES, 4, unpack_q5_k},
    [SP_GGML_Q6_K] = {SP_Q6_K, 0, 208, 192, 0, unpack_q6_k},
    [SP_GGML_MXFP4] = {SP_MXFP4, 0, 0, NO_SCALES, 1, unpack_mxfp4},
    [SP_GGML_NVFP4] = {SP_NVFP4, 0, 0, NO_SCALES, 0, unpack_nvfp4},
    [SP_GGML_TQ2_0] = {SP_I2G256, 0, 64, NO_SCALES, 0, unpack_q2},
    [SP_GGML_Q2_0] = {SP_I2G64, 0, 0, NO_SCALES, 2, unpack_q2_0},
    [SP_GGML_TQ1_0] = {SP_I2G256, 0, 52, NO_SCALES, 0, unpack_tq1_0},
    [SP_GGML_Q1_0] = {SP_B1G128, 0, 0, NO_SCALES, 2, unpack_q1_0},
    [SP_GGML_IQ4_NL] = {SP_IQ4_NL, 0, 0, NO_SCALES, 2, unpack_q4},
    [SP_GGML_IQ4_XS] = {SP_IQ4_XS, 0, 0, NO_SCALES, 2, unpack_iq4_xs},
    [SP_GGML_IQ3_XXS] = {SP_IQ3_XXS, 0, 0, NO_SCALES, 2, sp_ggml_unpack_iq3_xxs},
    [SP_GGML_IQ3_S] = {SP_IQ3_S, 0, 0, NO_SCALES, 2, sp_ggml_unpack_iq3_s},
    [SP_GGML_IQ2_XXS] = {SP_IQ2, 0, 0, NO_SCALES, 2, sp_ggml_unpack_iq2_xxs},
    [SP_GGML_IQ2_XS] = {SP_IQ2, 0, 0, 66, 2, sp_ggml_unpack_iq2_xs},
    [SP_GGML_IQ2_S] = {SP_IQ2, 0, 0, 74, 2, sp_ggml_unpack_iq2_s},
    [SP_GGML_IQ1_S] = {SP_IQ1, 0, 0, NO_SCALES, 2, sp_ggml_unpack_iq1_s},
    [SP_GGML_IQ1_M] = {SP_IQ1, 0, 0, NO_SCALES, 0, sp_ggml_unpack_iq1_m},
};

enum sp_dtype sp_ggml_kept(uint8_t *flags, uint32_t type)
{
    *flags = kept[type].flags;
    return kept[type].dtype;
}

size_t sp_ggml_unpack(struct sp_group groups[SP_GGML_MAX_GROUPS], uint32_t type,
                      const uint8_t *block)
{
    const struct sp_groupwise *kind = &sp_dtype_info(kept[type].dtype)->groups;

    memcpy(groups->numbers, block + kept[type].numbers, sp_group_numbers(kind->kind));
    if (kept[type].scales != NO_SCALES)
        memcpy(groups->scale_bytes, block + kept[type].scales,
               kind->cols / SP_BLOCK * sp_group_scale_bytes(kind->kind));
    kept[type].unpack(groups, block + kept[type].rest);
    return sp_ggml_type_info(type)->block / kind->cols;
}

static void decode_kept(float *out, uint32_t type, const uint8_t *block)
{
    const struct sp_groupwise *groups = &sp_dtype_info(kept[type].dtype)->groups;
    struct sp_group group[SP_GGML_MAX_GROUPS];
    size_t n = sp_ggml_unpack(group, type, block);

    for (size_t i = 0; i < n; i++)
        sp_group_decode(out + i * groups->cols, groups, kept[type].flags, 1, &group[i]);
}

void sp_ggml_decode(float *out, uint32_t type, const uint8_t *blocks, size_t n_blocks)
{
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
            decode_kept(out + i * info->block, type, blocks + i * info->size);
}
