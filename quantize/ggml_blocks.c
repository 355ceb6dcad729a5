/* The blocks of ggml as groups of quantize/types/groupwise.h. Codes are stored in planes: the
 * lowest bits of all codes of a block, and behind or before them the bits above. d is the scale of
 * a block, m what is added or subtracted. */
#include "quantize/ggml_blocks.h"

#include "format/base/bytes.h"
#include "format/ggml_type.h"
#include "quantize/types/float_cast.h"

#include <assert.h>
#include <string.h>

enum { SUPER = 256 }; /* weights of a block */

/* Some bits of each code of a block, from byte `at` on. Each `run` bytes have in their lowest
 * `bits` the bits of `run` codes, in the next higher ones those of the `run` codes that follow, and
 * so on. Without bits there is no plane. */
struct plane {
    uint8_t at, bits, run;
};

/* Adds the bits of the codes of group number `group`, of n codes, from bit `shift` on. */
static void add_plane(uint8_t *codes, size_t n, const uint8_t *block, size_t group, struct plane p,
                      unsigned shift)
{
    const uint8_t *bytes = block + p.at + group * n * p.bits / 8;
    unsigned mask = (1u << p.bits) - 1;

    for (size_t i = 0; p.bits && i < n; bytes += p.run)
        for (unsigned bit = 0; bit < 8; bit += p.bits)
            for (size_t k = 0; k < p.run; k++, i++)
                codes[i] |= (uint8_t)((bytes[k] >> bit & mask) << shift);
}

/* ---- what is not in planes ---- */

/* The zero point is not stored. */
static void put_zero(struct sp_group *g, const uint8_t *b)
{
    (void)b;
    sp_put16(g->numbers + 2, 0x4c00); /* 16 */
}

/* An E4M3 scale for each 16 weights, whose sign is ignored and of which 0x7f is 0 */
static void unpack_nvfp4(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < 4; i++) {
        uint8_t scale = b[i] & 0x7f;
        g[i / 2].numbers[i % 2] = scale == 0x7f ? 0 : scale;
    }
}

/* 12 bytes of 16 6-bit scales. Byte i has the low bits of scales i and i + 8 (i < 8); byte 8 + i
 * the high bits of scales i, i + 4, i + 8 and i + 12 (i < 4). */
static void unpack_q3_k(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SUPER / 16; i++) {
        int low = i < 8 ? b[i] & 15 : b[i - 8] >> 4;
        int high = b[8 + i % 4] >> (i / 4 * 2) & 3;
        g->scale_bytes[i] = (uint8_t)((low | high << 4) - 32);
    }
}

/* Scales and m of Q4_K and Q5_K: 12 bytes hold eight 6-bit numbers of each. */
static void unpack_scales_and_mins(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < 4; i++) {
        g->scale_bytes[2 * i] = b[i] & 63;
        g->scale_bytes[2 * i + 1] = b[i + 4] & 63;
        g->scale_bytes[2 * i + 8] = (uint8_t)((b[i + 8] & 15) | b[i] >> 6 << 4);
        g->scale_bytes[2 * i + 9] = (uint8_t)(b[i + 8] >> 4 | b[i + 4] >> 6 << 4);
    }
}

/* u16 of eight 2-bit high parts of scales, 4 bytes of their low halves */
static void unpack_iq4_xs(struct sp_group *g, const uint8_t *b)
{
    for (unsigned i = 0; i < SUPER / 32; i++) {
        int low = b[2 + i / 2] >> (i % 2 * 4) & 15, high = sp_get16(b) >> (2 * i) & 3;
        g->scale_bytes[i] = (uint8_t)((low | high << 4) - 32);
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

#define NONE                                                                                       \
    {                                                                                              \
        0, 0, 0                                                                                    \
    }

/* Where a block has the numbers of its group, its scale bytes if they are stored as they are, the
 * planes of the lower and the upper bits of its codes, and what is left to unpack. */
static const struct {
    enum sp_dtype dtype;
    uint8_t flags, numbers, scales;
    struct plane low, high;
    uint8_t rest;
    void (*unpack)(struct sp_group *, const uint8_t *);
} kept[SP_GGML_N_TYPES] = {
    [SP_GGML_Q4_0] = {SP_I4G32, 0, 0, NO_SCALES, {2, 4, 16}, NONE, 0, NULL},
    [SP_GGML_Q4_1] = {SP_U4G32, SP_GROUPS_BIAS, 0, NO_SCALES, {4, 4, 16}, NONE, 0, NULL},
    [SP_GGML_Q5_0] = {SP_U5G32, 0, 0, NO_SCALES, {6, 4, 16}, {2, 1, 1}, 0, put_zero},
    [SP_GGML_Q5_1] = {SP_U5G32, SP_GROUPS_BIAS, 0, NO_SCALES, {8, 4, 16}, {4, 1, 1}, 0, NULL},
    [SP_GGML_Q8_0] = {SP_I8G32, 0, 0, NO_SCALES, {2, 8, 1}, NONE, 0, NULL},
    [SP_GGML_Q2_K] = {SP_Q2_K, 0, 80, 0, {16, 2, 32}, NONE, 0, NULL},
    [SP_GGML_Q3_K] = {SP_Q3_K, 0, 108, NO_SCALES, {32, 2, 32}, {0, 1, 32}, 96, unpack_q3_k},
    [SP_GGML_Q4_K] = {SP_Q4_K, 0, 0, NO_SCALES, {16, 4, 32}, NONE, 4, unpack_scales_and_mins},
    [SP_GGML_Q5_K] =
        {SP_Q5_K, 0, 0, NO_SCALES, {48, 4, 32}, {16, 1, 32}, 4, unpack_scales_and_mins},
    [SP_GGML_Q6_K] = {SP_Q6_K, 0, 208, 192, {0, 4, 64}, {128, 2, 32}, 0, NULL},
    [SP_GGML_MXFP4] = {SP_MXFP4, 0, 0, NO_SCALES, {1, 4, 16}, NONE, 0, NULL},
    [SP_GGML_NVFP4] = {SP_NVFP4, 0, 0, NO_SCALES, {4, 4, 8}, NONE, 0, unpack_nvfp4},
    [SP_GGML_TQ2_0] = {SP_I2G256, 0, 64, NO_SCALES, {0, 2, 32}, NONE, 0, NULL},
    [SP_GGML_Q2_0] = {SP_I2G64, 0, 0, NO_SCALES, {2, 2, 1}, NONE, 0, NULL},
    [SP_GGML_TQ1_0] = {SP_I2G256, 0, 52, NO_SCALES, NONE, NONE, 0, unpack_tq1_0},
    [SP_GGML_Q1_0] = {SP_B1G128, 0, 0, NO_SCALES, {2, 1, 1}, NONE, 0, NULL},
    [SP_GGML_IQ4_NL] = {SP_IQ4_NL, 0, 0, NO_SCALES, {2, 4, 16}, NONE, 0, NULL},
    [SP_GGML_IQ4_XS] = {SP_IQ4_XS, 0, 0, NO_SCALES, {8, 4, 16}, NONE, 2, unpack_iq4_xs},
    [SP_GGML_IQ3_XXS] = {SP_IQ3_XXS, 0, 0, NO_SCALES, NONE, NONE, 2, sp_ggml_unpack_iq3_xxs},
    [SP_GGML_IQ3_S] = {SP_IQ3_S, 0, 0, NO_SCALES, NONE, NONE, 2, sp_ggml_unpack_iq3_s},
    [SP_GGML_IQ2_XXS] = {SP_IQ2, 0, 0, NO_SCALES, NONE, NONE, 2, sp_ggml_unpack_iq2_xxs},
    [SP_GGML_IQ2_XS] = {SP_IQ2, 0, 0, 66, NONE, NONE, 2, sp_ggml_unpack_iq2_xs},
    [SP_GGML_IQ2_S] = {SP_IQ2, 0, 0, 74, NONE, NONE, 2, sp_ggml_unpack_iq2_s},
    [SP_GGML_IQ1_S] = {SP_IQ1, 0, 0, NO_SCALES, NONE, NONE, 2, sp_ggml_unpack_iq1_s},
    [SP_GGML_IQ1_M] = {SP_IQ1, 0, 0, NO_SCALES, NONE, NONE, 0, sp_ggml_unpack_iq1_m},
};

enum sp_dtype sp_ggml_kept(uint8_t *flags, uint32_t type)
{
    *flags = kept[type].flags;
    return kept[type].dtype;
}

/* The codes of group number i. Signed bytes become codes less 128; the code of -0 gives 0. */
static void unpack_codes(uint8_t *codes, const struct sp_groupwise *kind, uint32_t type,
                         const uint8_t *block, size_t i)
{
    memset(codes, 0, kind->cols);
    add_plane(codes, kind->cols, block, i, kept[type].low, 0);
    add_plane(codes, kind->cols, block, i, kept[type].high, kept[type].low.bits);
    for (size_t k = 0; k < kind->cols && type == SP_GGML_Q8_0; k++)
        codes[k] ^= 0x80;
    for (size_t k = 0; k < kind->cols && sp_group_is_e2m1(kind->kind); k++)
        if (codes[k] == 8) codes[k] = 0;
}

size_t sp_ggml_unpack(struct sp_group groups[SP_GGML_MAX_GROUPS], uint32_t type,
                      const uint8_t *block)
{
    const struct sp_groupwise *kind = &sp_dtype_info(kept[type].dtype)->groups;
    size_t n = sp_ggml_type_info(type)->block / kind->cols;

    memcpy(groups->numbers, block + kept[type].numbers, sp_group_numbers(kind->kind));
    if (kept[type].scales != NO_SCALES)
        memcpy(groups->scale_bytes, block + kept[type].scales,
               kind->cols / SP_BLOCK * sp_group_scale_bytes(kind->kind));
    for (size_t i = 0; i < n; i++)
        unpack_codes(groups[i].codes, kind, type, block, i);
    if (kept[type].unpack) kept[type].unpack(groups, block + kept[type].rest);
    return n;
}

void sp_ggml_decode(float *out, uint32_t type, const uint8_t *blocks, size_t n_blocks)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(type);

    assert(info->block);
    if (type == SP_GGML_F32) sp_read_f32(out, blocks, n_blocks);
    if (type == SP_GGML_F16) sp_read_f16(out, blocks, n_blocks);
    if (type == SP_GGML_BF16) sp_read_bf16(out, blocks, n_blocks);
    for (size_t i = 0; kept[type].dtype && i < n_blocks; i++) {
        const struct sp_groupwise *groups = &sp_dtype_info(kept[type].dtype)->groups;
        struct sp_group group[SP_GGML_MAX_GROUPS];
        size_t n = sp_ggml_unpack(group, type, blocks + i * info->size);
        for (size_t g = 0; g < n; g++, out += groups->cols)
            sp_group_decode(out, groups, kept[type].flags, 1, &group[g]);
    }
}
