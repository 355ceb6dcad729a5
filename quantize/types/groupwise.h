/* Types that keep the codes of a quantized checkpoint or GGUF file as they are.
 *
 * The columns of a row come in groups with common numbers, and a group in blocks of 32, which may
 * have scale bytes (format/dtype.h). A weight is that of the source, bit for bit, if its scale has
 * 16 bits or fewer; each operation is rounded once. With the code c:
 *
 *   i4g32, i8g32       w = (c - 8 or 128) * scale                   Q4_0, Q8_0, symmetric ints
 *   i2g64, i2g256      w = (c - 1) * scale                          ternary
 *   iq4_nl, b1g128     w = level(c) * scale                         IQ4_NL, 1 bit
 *   u2g64 to u8g64     w = (c - zero) * scale, or c * scale + bias  Q4_1, AWQ, GPTQ, MLX
 *   q4_k, q5_k         w = (d * s) * c - m * n, s and n the bytes of the block
 *   q2_k               the same, s and n the lower and upper half of the byte of half a block
 *   q3_k, q6_k         w = (d * s) * (c - 4 or 32), s the byte of half a block, signed
 *   iq4_xs             w = (d * s) * level(c), s the byte of the block, signed
 *   iq1, iq2, iq3_*    w = (d * unit * (2s + 1)) * level(c), s half of a byte for half a block
 *   mxfp4              w = 2^(e - 127) * e2m1(c)
 *   nvfp4              w = e2m1(c) * e4m3 * factor, rounded in the source's order
 *
 * A level is an entry of the type's table minus the entry of 0. The grids of IQ1 to IQ3 have a few
 * sizes of coordinates, of which a code is one with its sign: a point is stored as its coordinates.
 *
 * Kernels need not round as the source does. They multiply u, c or the table's entry, which no
 * code makes negative, and add the least weight of a block times the sum of its activations:
 *
 *   w = scale * u + least          sp_group_factors has both, for the halves of a block
 *
 * Any bytes are valid: a panel's flags other than those below are ignored. */
#ifndef SP_QUANTIZE_TYPES_GROUPWISE_H
#define SP_QUANTIZE_TYPES_GROUPWISE_H

#include "format/dtype.h"

/* The flags of a panel. */
enum {
    SP_GROUPS_BF16 = 1,    /* numbers of 16 bits are bf16, not f16 */
    SP_GROUPS_BIAS = 2,    /* the second number is a bias, not a zero point */
    SP_GROUPS_FIRST = 4,   /* nvfp4: the scale is multiplied by the factor first */
    SP_GROUPS_DIVIDES = 8, /* nvfp4: the scale is divided by the factor first */
    SP_GROUPS_ROUNDED = 16 /* nvfp4: the weight is rounded to bf16 */
};

enum { SP_GROUP_MAX_COLS = 256, SP_GROUP_MAX_BLOCKS = SP_GROUP_MAX_COLS / SP_BLOCK };

/* A group of one row. */
struct sp_group {
    uint8_t codes[SP_GROUP_MAX_COLS];
    uint8_t numbers[4];                           /* little-endian */
    uint8_t scale_bytes[SP_GROUP_MAX_BLOCKS * 2]; /* [block][those of a block] */
};

/* Zeroes a panel and sets its flags. */
void sp_group_panel_init(uint8_t *panel, enum sp_dtype dtype, size_t cols, uint8_t flags);
/* Sets the factor of a row of nvfp4. */
void sp_group_put_factor(uint8_t *panel, size_t lane, float factor);
/* Writes group i of row `lane` of a panel, and reads it. */
void sp_group_put(uint8_t *panel, const struct sp_groupwise *groups, size_t i, size_t lane,
                  const struct sp_group *group);
void sp_group_get(struct sp_group *out, const uint8_t *panel, const struct sp_groupwise *groups,
                  size_t i, size_t lane);

/* out[0..groups->cols-1] = the weights of a group. */
void sp_group_decode(float *out, const struct sp_groupwise *groups, uint8_t flags, float factor,
                     const struct sp_group *group);
/* out[0..cols-1] = row `lane` of the panel. */
void sp_groupwise_decode_row(float *out, enum sp_dtype dtype, const uint8_t *panel, size_t cols,
                             size_t lane);

/* By code: twice the value of an e2m1 plus 12, which is twice the largest; levels plus the largest
 * one; the levels of IQ4 plus 127. */
extern const uint8_t sp_levels[SP_N_LEVELS][16];

/* The entry of 0, and the largest entry; those of codes without levels are not asked for. */
static inline int sp_levels_zero(enum sp_levels levels)
{
    static const uint8_t zero[SP_N_LEVELS] = {0, 12, 127, 62, 15, 43, 9, 1};

    return zero[levels];
}

static inline int sp_levels_most(enum sp_levels levels)
{
    return levels == SP_LEVELS_IQ4 ? 240 : 2 * sp_levels_zero(levels);
}

/* What the scales of SP_GROUP_ODD are multiples of. */
static inline float sp_levels_unit(enum sp_levels levels)
{
    return levels == SP_LEVELS_IQ3_S ? 1 : levels == SP_LEVELS_IQ3_XXS ? 0.25F : 0.125F;
}

/* True if the halves of a block differ. */
static inline bool sp_group_has_halves(enum sp_groupwise_kind kind)
{
    return kind == SP_GROUP_HALVES || kind == SP_GROUP_DUAL || kind == SP_GROUP_ODD ||
           kind == SP_GROUP_E4M3;
}

/* True if the scale multiplies codes less 128, whose products are whole numbers: they need no least
 * weight. */
static inline bool sp_group_is_int8(enum sp_groupwise_kind kind, unsigned code_bits)
{
    return kind == SP_GROUP_SCALE && code_bits == 8;
}

/* True if codes are e2m1. */
static inline bool sp_group_is_e2m1(enum sp_groupwise_kind kind)
{
    return kind == SP_GROUP_E8M0 || kind == SP_GROUP_E4M3;
}

/* The code of 0, or its entry, in types without a minimum. */
static inline int sp_group_zero(unsigned code_bits, enum sp_levels levels)
{
    if (levels) return sp_levels_zero(levels);
    return code_bits == 2 ? 1 : 1 << (code_bits - 1);
}

/* The largest u of a code. */
static inline int sp_group_most(unsigned code_bits, enum sp_levels levels)
{
    return levels ? sp_levels_most(levels) : (1 << code_bits) - 1;
}

/* The scale and the least weight of both halves of block b of a group. */
struct sp_group_factors {
    float scale[2], least[2];
};
void sp_group_factors(struct sp_group_factors *out, const uint8_t *panel,
                      const struct sp_groupwise *groups, size_t lane, const struct sp_group *group,
                      size_t b);

/* Fails if a code of row `lane` can give a weight that is not a finite number; `row` is that of the
 * message. */
SP_MUST_CHECK enum sp_status sp_group_check(const uint8_t *panel, const struct sp_groupwise *groups,
                                            size_t i, size_t lane, const struct sp_group *group,
                                            uint64_t row, struct sp_err *err);

#endif
