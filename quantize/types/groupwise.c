/* Groups of codes in panels, and their weights: groupwise.h has the formulas. */
#include "quantize/types/groupwise.h"

#include "format/base/bytes.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/microscale.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Of IQ1 to IQ3 the last bit of a code is its sign, and the others are a coordinate of a grid's
 * point; IQ1 adds an eighth to its coordinates or subtracts it. */
const uint8_t sp_levels[SP_N_LEVELS][16] = {
    [SP_LEVELS_E2M1] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
    [SP_LEVELS_IQ4] = {0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240},
    [SP_LEVELS_IQ3_XXS] = {66, 74, 82, 90, 98, 106, 114, 124, 58, 50, 42, 34, 26, 18, 10, 0},
    [SP_LEVELS_IQ3_S] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0},
    [SP_LEVELS_IQ2] = {51, 68, 86, 43, 35, 18, 0, 43},
    [SP_LEVELS_IQ1] = {2, 10, 18, 9, 0, 8, 16, 9},
    [SP_LEVELS_SIGN] = {0, 2},
};

/* ---- bytes ---- */

void sp_group_panel_init(uint8_t *panel, enum sp_dtype dtype, size_t cols, uint8_t flags)
{
    size_t size = 0;

    if (sp_panel_size(&size, dtype, cols)) memset(panel, 0, size);
    panel[0] = flags;
    for (size_t lane = 0; dtype == SP_NVFP4 && lane < SP_PANEL_ROWS; lane++)
        sp_group_put_factor(panel, lane, 1);
}

void sp_group_put_factor(uint8_t *panel, size_t lane, float factor)
{
    sp_put32(panel + 64 + 4 * lane, sp_bits_of_float(factor));
}

/* Where byte i of the numbers of a row's group is. */
static size_t number_at(enum sp_groupwise_kind kind, size_t lane, size_t i)
{
    size_t width = sp_group_is_e2m1(kind) ? 1 : 2;

    return (i / width * SP_PANEL_ROWS + lane) * width + i % width;
}

void sp_group_put(uint8_t *panel, const struct sp_groupwise *groups, size_t i, size_t lane,
                  const struct sp_group *group)
{
    const size_t n_bytes = sp_group_scale_bytes(groups->kind), size = sp_group_block_size(groups);
    uint8_t *at = panel + sp_group_head(groups) + i * sp_group_size(groups);

    for (size_t n = 0; n < sp_group_numbers(groups->kind); n++)
        at[number_at(groups->kind, lane, n)] = group->numbers[n];
    at += SP_PANEL_ROWS * sp_group_numbers(groups->kind);
    for (size_t b = 0; b < groups->cols / SP_BLOCK; b++, at += size) {
        for (size_t g = 0; g < SP_BLOCK / 4; g++) {
            sp_microscale_put_four(at, groups->code_bits, lane, g,
                                   sp_get32(group->codes + SP_BLOCK * b + 4 * g));
        }
        for (size_t n = 0; n < n_bytes; n++)
            at[size - (n_bytes - n) * SP_PANEL_ROWS + lane] = group->scale_bytes[n_bytes * b + n];
    }
}

void sp_group_get(struct sp_group *out, const uint8_t *panel, const struct sp_groupwise *groups,
                  size_t i, size_t lane)
{
    const size_t n_bytes = sp_group_scale_bytes(groups->kind), size = sp_group_block_size(groups);
    const uint8_t *at = panel + sp_group_head(groups) + i * sp_group_size(groups);

    for (size_t n = 0; n < sp_group_numbers(groups->kind); n++)
        out->numbers[n] = at[number_at(groups->kind, lane, n)];
    at += SP_PANEL_ROWS * sp_group_numbers(groups->kind);
    for (size_t b = 0; b < groups->cols / SP_BLOCK; b++, at += size) {
        for (size_t g = 0; g < SP_BLOCK / 4; g++) {
            sp_put32(out->codes + SP_BLOCK * b + 4 * g,
                     sp_microscale_four(at, groups->code_bits, lane, g));
        }
        for (size_t n = 0; n < n_bytes; n++)
            out->scale_bytes[n_bytes * b + n] = at[size - (n_bytes - n) * SP_PANEL_ROWS + lane];
    }
}

/* ---- weights ---- */

static float number16(const uint8_t *bytes, uint8_t flags)
{
    uint16_t bits = sp_get16(bytes);

    return flags & SP_GROUPS_BF16 ? sp_f32_of_bf16(bits) : sp_f32_of_f16(bits);
}

/* Half of 2^(e - 127). */
static float half_of_e8m0(uint8_t e)
{
    return sp_float_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an e4m3; 0x7f is 480. */
static float half_of_e4m3(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;

    return sp_float_of_bits(sign | (uint32_t)(code & 0x7f) << 20) * 0x1p119F;
}

/* The weights of half a block. */
static void decode_e2m1(float *out, const uint8_t *codes, float scale)
{
    for (size_t k = 0; k < SP_BLOCK / 2; k++) {
        int level = sp_levels[SP_LEVELS_E2M1][codes[k] & 15] - sp_levels_zero(SP_LEVELS_E2M1);
        out[k] = (codes[k] == 8 ? -0.0F : (float)level) * scale;
    }
}

static void decode_e4m3(float *out, const uint8_t *codes, uint8_t byte, uint8_t flags, float factor)
{
    float scale = half_of_e4m3(byte);
    bool first = flags & (SP_GROUPS_FIRST | SP_GROUPS_DIVIDES);

    if (first) scale = flags & SP_GROUPS_DIVIDES ? scale / factor : scale * factor;
    decode_e2m1(out, codes, scale);
    for (size_t k = 0; k < SP_BLOCK / 2; k++) {
        if (!first) out[k] *= factor;
        if (flags & SP_GROUPS_ROUNDED) out[k] = sp_f32_of_bf16(sp_bf16_of_f32(out[k]));
    }
}

static float factor_of(const uint8_t *panel, const struct sp_groupwise *groups, size_t lane)
{
    return groups->kind == SP_GROUP_E4M3 ? sp_float_of_bits(sp_get32(panel + 64 + 4 * lane)) : 1;
}

/* A scale, and what is less, as the source's formula has them. */
struct numbers {
    float scale;
    float zero; /* subtracted from codes */
    float less; /* subtracted from weights */
};

/* Those of half h of block b. */
static struct numbers numbers_of(const struct sp_groupwise *groups, uint8_t flags,
                                 const struct sp_group *group, size_t b, size_t h)
{
    const uint8_t *bytes = group->scale_bytes + sp_group_scale_bytes(groups->kind) * b;
    struct numbers n = {number16(group->numbers, flags), 0, 0};
    bool one = sp_group_numbers(groups->kind) == 2;
    float second = one ? (float)sp_group_zero(groups->code_bits, groups->levels)
                       : number16(group->numbers + 2, flags);

    switch (groups->kind) {
    case SP_GROUP_SUPER:
        n.scale *= (float)bytes[0];
        n.less = second * (float)bytes[1];
        break;
    case SP_GROUP_DUAL:
        n.scale *= (float)(bytes[h] & 15);
        n.less = second * (float)(bytes[h] >> 4);
        break;
    case SP_GROUP_HALVES:
        n.scale *= (float)(int8_t)bytes[h];
        n.zero = second;
        break;
    case SP_GROUP_SIGNED:
        n.scale *= (float)(int8_t)bytes[0];
        n.zero = second;
        break;
    case SP_GROUP_ODD:
        n.scale *= sp_levels_unit(groups->levels);
        n.scale *= (float)(2 * (bytes[0] >> 4 * h & 15) + 1);
        n.zero = second;
        break;
    default:
        if (groups->kind == SP_GROUP_AFFINE && flags & SP_GROUPS_BIAS)
            n.less = -second;
        else
            n.zero = second;
    }
    return n;
}

/* Each formula has one of the two subtractions; the other one, of 0, changes nothing. */
static void decode_half(float *out, enum sp_levels levels, const uint8_t *codes,
                        const struct numbers *n)
{
    for (size_t k = 0; k < SP_BLOCK / 2; k++) {
        uint8_t u = levels ? sp_levels[levels][codes[k] & 15] : codes[k];
        out[k] = ((float)u - n->zero) * n->scale - n->less;
    }
}

void sp_group_decode(float *out, const struct sp_groupwise *groups, uint8_t flags, float factor,
                     const struct sp_group *group)
{
    for (size_t k = 0; k < groups->cols; k += SP_BLOCK / 2) {
        size_t b = k / SP_BLOCK, h = k / (SP_BLOCK / 2) % 2;
        const uint8_t *codes = group->codes + k;
        if (groups->kind == SP_GROUP_E8M0) {
            decode_e2m1(out + k, codes, half_of_e8m0(group->numbers[0]));
        } else if (groups->kind == SP_GROUP_E4M3) {
            decode_e4m3(out + k, codes, group->numbers[h], flags, factor);
        } else {
            struct numbers n = numbers_of(groups, flags, group, b, h);
            decode_half(out + k, groups->levels, codes, &n);
        }
    }
}

void sp_groupwise_decode_row(float *out, enum sp_dtype dtype, const uint8_t *panel, size_t cols,
                             size_t lane)
{
    const struct sp_groupwise *groups = &sp_dtype_info(dtype)->groups;
    const float factor = factor_of(panel, groups, lane);

    for (size_t i = 0; i < cols / groups->cols; i++, out += groups->cols) {
        struct sp_group group;
        sp_group_get(&group, panel, groups, i, lane);
        sp_group_decode(out, groups, panel[0], factor, &group);
    }
}

void sp_group_factors(struct sp_group_factors *out, const uint8_t *panel,
                      const struct sp_groupwise *groups, size_t lane, const struct sp_group *group,
                      size_t b)
{
    float factor = factor_of(panel, groups, lane);

    if (panel[0] & SP_GROUPS_DIVIDES) factor = 1 / factor;
    for (size_t h = 0; h < 2; h++) {
        struct numbers n = {.zero = (float)sp_levels_zero(SP_LEVELS_E2M1)};
        if (groups->kind == SP_GROUP_E8M0)
            n.scale = half_of_e8m0(group->numbers[0]);
        else if (groups->kind == SP_GROUP_E4M3)
            n.scale = half_of_e4m3(group->numbers[h]) * factor;
        else
            n = numbers_of(groups, panel[0], group, b, h);
        out->scale[h] = n.scale;
        out->least[h] = n.zero != 0 ? -n.zero * n.scale : -n.less;
    }
}

enum sp_status sp_group_check(const uint8_t *panel, const struct sp_groupwise *groups, size_t i,
                              size_t lane, const struct sp_group *group, uint64_t row,
                              struct sp_err *err)
{
    const float most =
        groups->levels ? (float)sp_levels_most(groups->levels) : (float)(1 << groups->code_bits);

    for (size_t b = 0; b < groups->cols / SP_BLOCK; b++) {
        struct sp_group_factors f;
        sp_group_factors(&f, panel, groups, lane, group, b);
        if (isfinite(f.scale[0] * most + f.least[0]) && isfinite(f.scale[1] * most + f.least[1]))
            continue;
        return sp_fail(err, SP_E_INPUT,
                       "row %" PRIu64
                       ", column %zu: a scale that gives numbers that are not finite",
                       row, i * groups->cols + b * SP_BLOCK);
    }
    return SP_OK;
}
