/* quantize/types/groupwise.h: weights of panels of random bytes, read bit by bit as
 * spectool-pack(5) defines them and computed by its formulas, and writing what was read. */
#include "quantize/types/groupwise.h"
#include "format/base/bytes.h"
#include "quantize/codec.h"
#include "quantize/types/float_cast.h"
#include "tests/support/microscale_bytes.h"
#include "tests/support/random.h"
#include "tests/support/unit_test.h"

#include <math.h>

/* The table of spectool-pack(5). */
enum kind { SCALE, AFFINE, SUPER, HALVES, DUAL, E8M0, E4M3, SIGNED, ODD };
static const struct {
    enum sp_dtype dtype;
    enum kind kind;
    unsigned bits, group;
} types[] = {
    {11, SCALE, 4, 32},   {12, AFFINE, 4, 32},  {13, AFFINE, 4, 64},  {14, AFFINE, 4, 128},
    {15, SUPER, 4, 256},  {16, E8M0, 4, 32},    {17, E4M3, 4, 32},    {18, DUAL, 2, 256},
    {19, HALVES, 3, 256}, {20, SUPER, 5, 256},  {21, HALVES, 6, 256}, {22, AFFINE, 2, 64},
    {23, AFFINE, 3, 64},  {24, AFFINE, 5, 32},  {25, AFFINE, 6, 64},  {26, SCALE, 2, 64},
    {27, SCALE, 2, 256},  {28, AFFINE, 2, 32},  {29, AFFINE, 3, 32},  {30, AFFINE, 6, 32},
    {31, SCALE, 4, 32},   {32, SIGNED, 4, 256}, {33, ODD, 4, 256},    {34, ODD, 4, 256},
    {35, ODD, 3, 256},    {36, ODD, 3, 256},    {37, SCALE, 1, 128},  {38, SCALE, 8, 32},
    {39, AFFINE, 8, 64},  {40, AFFINE, 8, 32},  {41, AFFINE, 2, 128},
};
enum { COLS = 512, N_TYPES = sizeof types / sizeof *types };
_Static_assert(N_TYPES == SP_N_PACKED_DTYPES - SP_I4G32, "a row for each type that keeps codes");

static const size_t numbers[] = {2, 4, 4, 2, 4, 1, 2, 2, 2};
static const size_t scale_bytes[] = {0, 0, 2, 2, 2, 0, 0, 1, 1};

/* Levels of the codes of types 31 to 37, and the unit of their scales. */
static float level(unsigned dtype, unsigned c)
{
    static const float iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
    static const float sizes[][8] = {
        [33] = {4, 12, 20, 28, 36, 44, 52, 62}, {1, 3, 5, 7, 9, 11, 13, 15}, {8, 25, 43, 0}};

    if (dtype < 33) return iq4[c];
    if (dtype == 37) return c ? 1 : -1;
    if (dtype == 36) return c % 4 == 3 ? 0 : (float)(8 * ((int)c % 4 - 1) + (c < 4 ? 1 : -1));
    return 0.0F + (dtype == 35 ? (c < 4 ? 1 : -1) * sizes[dtype][c % 4]
                               : (c < 8 ? 1 : -1) * sizes[dtype][c % 8]);
}

static const float units[] = {[33] = 0.25F, 1, 0.125F, 0.125F};

static float e2m1(unsigned c)
{
    static const float size[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

    return c & 8 ? -size[c & 7] : size[c & 7];
}

static float e4m3(uint8_t c)
{
    int exponent = c >> 3 & 15, mantissa = c & 7;
    float size =
        exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);

    return c & 0x80 ? -size : size;
}

static float number16(const uint8_t *at, uint8_t flags)
{
    return flags & 1 ? sp_f32_of_bf16(sp_get16(at)) : sp_f32_of_f16(sp_get16(at));
}

static float weight(size_t type, const uint8_t *panel, size_t r, size_t k)
{
    const unsigned bits = types[type].bits, group = types[type].group;
    const enum kind kind = types[type].kind;
    const size_t block_size = 64 * bits + 16 * scale_bytes[kind];
    const size_t size = 16 * numbers[kind] + group / 32 * block_size;
    const uint8_t *at = panel + (kind == E4M3 ? 128 : 64) + k / group * size;
    const uint8_t *block = at + 16 * numbers[kind] + k % group / 32 * block_size;
    const uint8_t *s = block + 64 * bits + r, flags = panel[0];
    static const float middles[] = {0, 0, 1, 4, 8, 0, 32, 0, 128};
    const unsigned dtype = types[type].dtype;
    const size_t h = k % 32 / 16;
    unsigned code = 0;
    float a = number16(at + 2 * r, flags), b = 0, f, w;

    for (unsigned i = 0; i < bits; i++)
        code |= code_bit(block, bits, i, r, k % 32) << i;
    if (numbers[kind] == 4) b = number16(at + 32 + 2 * r, flags);
    switch (kind) {
    case SCALE:
        return (dtype < 31 || dtype == 38 ? (float)code - middles[bits] : level(dtype, code)) * a;
    case SIGNED:
        return a * (float)(int8_t)s[0] * level(dtype, code);
    case ODD:
        return a * units[dtype] * (float)(2 * (h ? s[0] / 16 : s[0] % 16) + 1) * level(dtype, code);
    case AFFINE:
        return flags & 2 ? (float)code * a + b : ((float)code - b) * a;
    case SUPER:
        return a * (float)s[0] * (float)code - b * (float)s[16];
    case DUAL:
        return a * (float)(s[16 * h] % 16) * (float)code - b * (float)(s[16 * h] / 16);
    case HALVES:
        return a * (float)(int8_t)s[16 * h] * ((float)code - middles[bits]);
    case E8M0:
        return e2m1(code) * ldexpf(1, at[r] - 127);
    case E4M3:
        break;
    }
    f = sp_float_of_bits(sp_get32(panel + 64 + 4 * r));
    w = e4m3(at[16 * h + r]);
    if (flags & 8)
        w = e2m1(code) * (w / f);
    else
        w = flags & 4 ? e2m1(code) * (w * f) : e2m1(code) * w * f;
    return flags & 16 ? sp_f32_of_bf16(sp_bf16_of_f32(w)) : w;
}

/* A panel of random bytes without infinities, NaNs and huge exponents. */
static uint8_t *random_panel(size_t *size, size_t type, uint8_t flags, uint64_t *seed)
{
    const enum kind kind = types[type].kind;
    const size_t block_size = 64 * types[type].bits + 16 * scale_bytes[kind];

    assert_true(sp_panel_size(size, types[type].dtype, COLS));
    uint8_t *panel = malloc(*size);
    for (size_t i = 0; i < *size; i++)
        panel[i] = (uint8_t)next(seed);
    memset(panel, 0, 64);
    panel[0] = flags;
    for (size_t r = 0; r < 16 && kind == E4M3; r++)
        sp_put32(panel + 64 + 4 * r, sp_bits_of_float(uniform(seed) + 3));
    for (size_t g = 0; g < COLS / types[type].group; g++) {
        uint8_t *at = panel + 64 + g * (16 * numbers[kind] + types[type].group / 32 * block_size);
        for (size_t i = 0; i < 16 * numbers[kind]; i++)
            if (kind == E8M0 || (kind != E4M3 && i % 2)) at[i] &= 0xbf;
    }
    return panel;
}

TEST(weights_are_those_of_the_formulas)
{
    static float row[COLS];
    uint64_t seed = 1;
    size_t size;

    for (size_t i = 0; i < 32 * N_TYPES; i++) {
        uint8_t *panel = random_panel(&size, i / 32, (uint8_t)(i % 32), &seed);

        for (size_t r = 0; r < 16; r++) {
            sp_panel_row(row, types[i / 32].dtype, panel, COLS, r);
            for (size_t k = 0; k < COLS; k++) {
                float want = weight(i / 32, panel, r, k);
                if (sp_bits_of_float(row[k]) != sp_bits_of_float(want))
                    fail_msg("type %zu, flags %zu, row %zu, column %zu: %a instead of %a", i / 32,
                             i % 32, r, k, (double)row[k], (double)want);
            }
        }
        free(panel);
    }
}

TEST(writing_what_was_read_gives_the_same_bytes)
{
    uint64_t seed = 2;
    size_t size;

    for (size_t i = 0; i < N_TYPES; i++) {
        const struct sp_groupwise *groups = &sp_dtype_info(types[i].dtype)->groups;
        uint8_t *panel = random_panel(&size, i, 5, &seed), *copy = malloc(size);

        memset(copy, 7, size);
        sp_group_panel_init(copy, types[i].dtype, COLS, 5);
        for (size_t r = 0; r < 16; r++) {
            if (types[i].kind == E4M3)
                sp_group_put_factor(copy, r, sp_float_of_bits(sp_get32(panel + 64 + 4 * r)));
            for (size_t g = 0; g < COLS / types[i].group; g++) {
                struct sp_group group;
                sp_group_get(&group, panel, groups, g, r);
                sp_group_put(copy, groups, g, r, &group);
            }
        }
        size = sp_group_head(groups) + COLS / types[i].group * sp_group_size(groups);
        assert_memory_equal(copy, panel, size);
        free(panel);
        free(copy);
    }
}
