/* The search for the scale bytes and codes of a q4 block, 16 rows of 32 weights. It is the inner
 * loop of the encoder, which each instruction set implements; microscale_fit.c is the
 * specification.
 *
 * The weights are given as whole numbers v, in units of their row's scale (|v| < 2^15). A weight
 * decoded as b * c, scale byte times entry, has the squared error (v - b * c)^2; over the half
 * block that is sum(v^2) - gain with
 *
 *   gain = b * (2 * P - b * Q),   P = sum(v * c),   Q = sum(c^2)
 *
 * For fixed entries the gain is largest at b = P / Q. So entries are searched for a few sizes of
 * the codebook, each set of entries gives its best byte, and the byte with the largest gain is
 * chosen: the first one tried if gains are equal, 0 if none is positive. The sizes tried are, for
 * each codebook t in order, estimate / sp_q4_ratios[r], r in order. The estimate maps the largest
 * weights to the ends of the codebook; the ratios move them a little inside or outside, or to the
 * last entry but one. In detail, all in f32 and int32, rounded to nearest even unless stated
 * otherwise:
 *
 *   estimate = max(max(v) * high[t], min(v) * low[t])
 *   m     = (65536 / estimate) * ratio within 128..32767, truncated to an integer
 *   x     = (v * m + 16384) >> 15 within -128..127: v in halves of the entries' unit
 *   c     = the codebook's entry nearest to x / 2, the lower one halfway
 *   b     = 4 * n + t,  n = round(((float)P / (float)Q - t) * 0.25) within 0..63, 1..63 for t = 0
 *   gain  = (float)b * (2 * (float)P - (float)b * (float)Q)
 *
 * The gain is that of the entries found by x, which need not be the best ones for b; that is exact
 * enough to choose a byte. The codes are then found exactly: the number of midpoints below v, where
 * the midpoint of entries c and c' is (b * (c + c')) >> 1. */
#ifndef SP_QUANTIZE_TYPES_MICROSCALE_FIT_H
#define SP_QUANTIZE_TYPES_MICROSCALE_FIT_H

#include <stddef.h>
#include <stdint.h>

enum {
    SP_Q4_N_CODEBOOKS = 4,
    SP_Q4_N_RATIOS = 4,
    SP_Q4_N_MIDPOINTS = 15,
    SP_Q4_GROUPS = 4, /* groups of 4 k in a half block */
};

/* Lookup tables of the codebooks in two forms: by all 256 values of x, and by x >> 4 for machines
 * that look up 16 bytes at a time. Valid after sp_q4_tables_init. */
struct sp_q4_tables {
    _Alignas(64) int8_t nearest[SP_Q4_N_CODEBOOKS][256]; /* entry by (uint8_t)x */
    /* By the upper four bits of (uint8_t)x: the index of the entry nearest to half the smallest
     * such x, and the two x above which the index is one more (the largest such x: none). */
    int8_t index[SP_Q4_N_CODEBOOKS][16];
    int8_t first[SP_Q4_N_CODEBOOKS][16];
    int8_t second[SP_Q4_N_CODEBOOKS][16];
    int8_t entries[SP_Q4_N_CODEBOOKS][16];
    int32_t sums[SP_Q4_N_MIDPOINTS][SP_Q4_N_CODEBOOKS];    /* of two neighboring entries */
    float high[SP_Q4_N_CODEBOOKS], low[SP_Q4_N_CODEBOOKS]; /* 1 / largest and smallest entry */
};

extern const float sp_q4_ratios[SP_Q4_N_RATIOS];

void sp_q4_tables_init(struct sp_q4_tables *tables);

/* Index of the weight of `row` and k = 0..31 among the 512 weights of a block. Two groups of 32
 * weights, packed from 16 to 8 bits 128 bits at a time, are then in the order [row][4 k]: [k /
 * 4][row / 2 % 2][row / 4][row % 2][k % 4]. */
static inline size_t sp_q4_place(size_t row, size_t k)
{
    return 64 * (k / 4) + 32 * (row / 2 % 2) + 8 * (row / 4) + 4 * (row % 2) + k % 4;
}

/* Writes a block of SP_Q4_BLOCK_SIZE bytes from v[512], which is 64-byte aligned. */
typedef void sp_q4_fit_fn(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables);

sp_q4_fit_fn sp_q4_fit_ref;

#endif
