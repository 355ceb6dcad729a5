/* Products of q2 to q6 and q8 on registers of four of a panel's 16 lanes, written once for the sets
 * that multiply blocks by one row of activations (kernels_neon.c) and by two
 * (kernels_neon_i8mm.c). A set includes this file and defines multiply_microscale, multiply_q8 and
 * settle.
 *
 *   lane        0              1              2              3
 *   register g  row 4g,        row 4g + 1     row 4g + 2     row 4g + 3      four bytes each:
 *               k..k+3                                                       the same k
 *
 * A block is processed in halves of 8 lanes (kernels_halves.h). */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_NEON_H
#define SP_QUANTIZE_KERNELS_KERNELS_NEON_H

#ifdef __ARM_FEATURE_DOTPROD

#include "quantize/kernels/kernels_product.h"
#include "quantize/types/microscale.h"

#include <arm_neon.h>

enum { LANES = SP_PANEL_ROWS, QUARTERS = 4 };

/* The accumulators of all rows for the lanes of a panel. */
struct sums {
    float32x4_t row[SP_TILE_ROWS][QUARTERS];
};

/* The weights of a block for half of the lanes: w[h][g] of half block h and quarter g of the
 * two. */
struct microscale_weights {
    int8x16_t w[2][2][4];
    int32x4_t start[2][2];
    int16x4_t scale[2][2];
};

/* The weights of a block for half of the lanes: w[g][h] of quarter g of the two and half block
 * h. */
struct q8_weights {
    int8x16_t w[2][2][4];
    float32x4_t scale[2];
};

/* Adds the weights times each row of activations to its accumulators of that half of the lanes. The
 * weights may be changed. */
INLINE void multiply_microscale(struct sums *acc, size_t half, struct microscale_weights *m,
                                const struct sp_act_block *at, size_t n_rows);
INLINE void multiply_q8(struct sums *acc, size_t half, struct q8_weights *m,
                        const struct sp_act_block *at, size_t n_rows);
/* Puts the accumulators of a finished panel into the order of its lanes. */
INLINE void settle(struct sums *acc, size_t n_rows);

/* ---- q2 to q6 ---- */

/* q2, q3, q4: the entries of the even codebooks; q5: its entries. */
struct tables {
    int8x16x2_t entries;
    uint8x16_t offsets; /* q5, q6: by the low bits of a scale byte; those of q6 less 32 */
};

INLINE struct tables microscale_tables(enum sp_dtype dtype)
{
    const struct sp_microscale *type = sp_microscale_of(dtype);
    const unsigned n = 1u << type->code_bits;
    struct tables tables = {.offsets = vdupq_n_u8(0)};
    int8_t entries[32], offsets[16];

    for (unsigned i = 0; i < 32; i++)
        entries[i] = type->entries[type->offsets ? i : i / n * 2 * n + i % n];
    tables.entries = (int8x16x2_t){{vld1q_s8(entries), vld1q_s8(entries + 16)}};
    for (size_t i = 0; i < 16 && type->offsets; i++)
        offsets[i] = (int8_t)(type->offsets[i % 8] + (dtype == SP_Q6 ? type->entries[0] : 0));
    if (type->offsets) tables.offsets = vreinterpretq_u8_s8(vld1q_s8(offsets));
    return tables;
}

/* The scale bytes of half a block for the lanes of half a panel, prepared.
 *
 * In q2, q3 and q4 codebook t + 1 is t reversed and negated if t is even, so half of the entries
 * are enough: if the codebook is odd, codes are inverted, and the sum s over the half block is the
 * negative of the true one. Its quarter, (-s + 2) >> 2, is -((s + 1) >> 2): such a lane starts at
 * 1, not at 2, and its scale is negated. */
struct microscale_rows {
    uint8x16_t inverted[2]; /* 255 in the four bytes of rows whose codebook is odd */
    uint8x16_t codebook[2]; /* upper bits of an index; q5, q6: the offset */
    int32x4_t start[2];
    int16x8_t scale;
};

/* index[g] copies the byte of each row of a half panel to all four bytes of its lane of quarter
 * g. */
struct spread {
    uint8x16_t index[2];
};

INLINE struct spread half_panel(size_t half)
{
    static const uint8_t four_times[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    uint8x16_t first = vaddq_u8(vld1q_u8(four_times), vdupq_n_u8((uint8_t)(8 * half)));

    return (struct spread){{first, vaddq_u8(first, vdupq_n_u8(4))}};
}

/* Prepares the scale bytes of a panel's 16 rows. */
INLINE struct microscale_rows microscale_rows(enum sp_dtype dtype, uint8x16_t bytes, size_t half,
                                              const struct tables *tables)
{
    const bool shifted = dtype == SP_Q5 || dtype == SP_Q6;
    const struct spread spread = half_panel(half);
    uint8x16_t odd = shifted ? vdupq_n_u8(0) : vtstq_u8(bytes, vdupq_n_u8(1)), codebook;
    uint8x8_t b = half ? vget_high_u8(bytes) : vget_low_u8(bytes);
    int16x8_t scale = vreinterpretq_s16_u16(vmovl_u8(b));
    int16x8_t sign = vmovl_s8(vreinterpret_s8_u8(half ? vget_high_u8(odd) : vget_low_u8(odd)));
    struct microscale_rows rows;

    if (shifted)
        codebook = vqtbl1q_u8(tables->offsets, vandq_u8(bytes, vdupq_n_u8(7)));
    else if (dtype == SP_Q2)
        codebook = vandq_u8(vshlq_n_u8(bytes, 1), vdupq_n_u8(0x1c));
    else if (dtype == SP_Q3)
        codebook = vandq_u8(vshlq_n_u8(bytes, 2), vdupq_n_u8(0x18));
    else
        codebook = vandq_u8(vshlq_n_u8(bytes, 3), vdupq_n_u8(0x10));
    UNROLL
    for (size_t g = 0; g < 2; g++) {
        rows.inverted[g] = vqtbl1q_u8(odd, spread.index[g]);
        rows.codebook[g] = vqtbl1q_u8(codebook, spread.index[g]);
        rows.start[g] = vaddq_s32(vdupq_n_s32(2), vreinterpretq_s32_u8(rows.inverted[g]));
    }
    rows.scale = vsubq_s16(veorq_s16(scale, sign), sign);
    return rows;
}

/* The bits of the codes of group g of half h in one plane of four rows, xor'ed, from bit `to`
 * on. */
INLINE uint8x16_t plane_bits(const uint8_t *plane, int n_bits, int h, int g, int to,
                             uint8x16_t inverted)
{
    const int vector = n_bits == 1 ? 0 : n_bits == 2 ? h : 2 * h + g % 2;
    const int bit = n_bits == 1 ? 4 * h + g : n_bits == 2 ? 2 * g : 4 * (g / 2);
    uint8x16_t bytes = veorq_u8(vld1q_u8(plane + 64 * vector), inverted);
    uint8x16_t moved = bit < to ? bytes << (to - bit) : bytes >> (bit - to);

    return vandq_u8(moved, vdupq_n_u8((uint8_t)(((1 << n_bits) - 1) << to)));
}

/* Decodes half h of a block for four rows; entries of odd codebooks are negated. */
INLINE void microscale_decode(int8x16_t w[4], enum sp_dtype dtype, const uint8_t *block, int h,
                              uint8x16_t inverted, uint8x16_t codebook, const struct tables *tables)
{
    UNROLL
    for (int g = 0; g < 4; g++) {
        uint8x16_t code =
            plane_bits(block, dtype == SP_Q2 || dtype == SP_Q3 ? 2 : 4, h, g, 0, inverted);

        if (dtype == SP_Q3) code = vorrq_u8(code, plane_bits(block + 128, 1, h, g, 2, inverted));
        if (dtype == SP_Q5) code = vorrq_u8(code, plane_bits(block + 256, 1, h, g, 4, inverted));
        if (dtype == SP_Q6) code = vorrq_u8(code, plane_bits(block + 256, 2, h, g, 4, inverted));
        if (dtype == SP_Q6)
            w[g] = vreinterpretq_s8_u8(vaddq_u8(code, codebook));
        else if (dtype == SP_Q5)
            w[g] = vaddq_s8(vqtbl2q_s8(tables->entries, code), vreinterpretq_s8_u8(codebook));
        else
            w[g] = vqtbl2q_s8(tables->entries, vorrq_u8(code, codebook));
    }
}

/* Multiplies one block, for half of the lanes, by all rows. */
INLINE void microscale_half_block(struct sums *acc, enum sp_dtype dtype, size_t size, size_t half,
                                  const uint8_t *block, const struct sp_act_block *at,
                                  size_t n_rows, const struct tables *tables)
{
    const uint8_t *scale_bytes = block + size - 2 * LANES;
    struct microscale_weights m;

    UNROLL
    for (int h = 0; h < 2; h++) {
        struct microscale_rows rows =
            microscale_rows(dtype, vld1q_u8(scale_bytes + LANES * h), half, tables);
        UNROLL
        for (size_t g = 0; g < 2; g++) {
            microscale_decode(m.w[h][g], dtype, block + 32 * half + 16 * g, h, rows.inverted[g],
                              rows.codebook[g], tables);
            m.start[h][g] = rows.start[g];
        }
        m.scale[h][0] = vget_low_s16(rows.scale);
        m.scale[h][1] = vget_high_s16(rows.scale);
    }
    multiply_microscale(acc, half, &m, at, n_rows);
}

/* ---- q8 ---- */

INLINE float32x4_t widen_bf16(const uint8_t *bytes)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(bytes)), 16));
}

/* Multiplies one block, for half of the lanes, by all rows. */
INLINE void q8_half_block(struct sums *acc, size_t half, const uint8_t *block,
                          const struct sp_act_block *at, size_t n_rows)
{
    struct q8_weights m;

    UNROLL
    for (size_t g = 0; g < 2; g++) {
        UNROLL
        for (size_t v = 0; v < SP_BLOCK / 4; v++) {
            uint8x16_t stored = vld1q_u8(block + 64 * v + 32 * half + 16 * g);
            m.w[g][v / 4][v % 4] = vreinterpretq_s8_u8(veorq_u8(stored, vdupq_n_u8(128)));
        }
        m.scale[g] = widen_bf16(block + LANES * SP_BLOCK + 16 * half + 8 * g);
    }
    multiply_q8(acc, half, &m, at, n_rows);
}

INLINE void store_sums(float *y, size_t ldy, struct sums *acc, const uint8_t *row_scales,
                       size_t n_rows)
{
    settle(acc, n_rows);
    UNROLL
    for (size_t g = 0; g < QUARTERS; g++) {
        float32x4_t scale = vdupq_n_f32(1);
        if (row_scales) scale = vmulq_n_f32(vreinterpretq_f32_u8(vld1q_u8(row_scales + 16 * g)), 4);
        for (size_t t = 0; t < n_rows; t++)
            vst1q_f32(y + t * ldy + 4 * g, vmulq_f32(acc->row[t][g], scale));
    }
}

#define HALVES
#include "quantize/kernels/kernels_halves.h"

PRODUCT(static void matmul_q8, multiply_halves(SP_Q8, m))

#endif
#endif
