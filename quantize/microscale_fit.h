/* How the q4 encoder fits a block: scale bytes and codes for 16 rows of 32 weights. The inner loop
 * of the encoder, which each instruction set writes for itself; microscale_fit.c is the
 * specification.
 *
 * The weights come as whole numbers v, in units of their row's scale (|v| < 2^15). A weight decoded
 * as b * c, scale byte times entry, has the squared error (v - b * c)^2; over the half block that
 * is sum(v^2) - gain with
 *
 *   gain = b * (2 * P - b * Q),   P = sum(v * c),   Q = sum(c^2)
 *
 * For fixed entries that is largest at b = P / Q. So entries are found for a few sizes of the
 * codebook, each set of them names its best byte, and the byte of the largest gain wins: the first
 * one tried where gains are equal, 0 where none is positive. Tried are, for each codebook t in
 * order, the sizes guess / sp_q4_shares[r], r in order: the guess lets the largest weights meet the
 * codebook's ends, the shares leave them a little inside or outside, or let them meet the last
 * entry but one. In detail, all in f32 and int32, rounded to nearest even where not said otherwise:
 *
 *   guess = max(max(v) * high[t], min(v) * low[t])
 *   m     = (65536 / guess) * share within 128..32767, cut to an integer
 *   x     = (v * m + 16384) >> 15 within -128..127: v in halves of the entries' unit
 *   c     = the codebook's entry nearest to x / 2, the lower one halfway
 *   b     = 4 * n + t,  n = round(((float)P / (float)Q - t) * 0.25) within 0..63, 1..63 for t = 0
 *   gain  = (float)b * (2 * (float)P - (float)b * (float)Q)
 *
 * The gain is that of the entries found by x, which need not be the best ones for b: good enough to
 * choose a byte. The codes are then found exactly: the number of midpoints below v, where the
 * midpoint of entries c and c' is (b * (c + c')) >> 1. */
#ifndef SP_QUANTIZE_MICROSCALE_FIT_H
#define SP_QUANTIZE_MICROSCALE_FIT_H

#include <stddef.h>
#include <stdint.h>

enum {
    SP_Q4_N_CODEBOOKS = 4,
    SP_Q4_N_SHARES = 4,
    SP_Q4_N_MIDPOINTS = 15,
};

/* The codebooks as lookups. The same four tables in two forms: by all 256 values of x, and by x >>
 * 4 for machines that look up 16 bytes at a time. Valid after sp_q4_tables_init. */
struct sp_q4_tables {
    _Alignas(64) int8_t nearest[SP_Q4_N_CODEBOOKS][256]; /* entry by (uint8_t)x */
    /* By the upper four bits of (uint8_t)x: the index of the entry nearest to half the smallest
     * such x, and the two x above which it is one more (the largest such x: nowhere). */
    int8_t index[SP_Q4_N_CODEBOOKS][16];
    int8_t first[SP_Q4_N_CODEBOOKS][16];
    int8_t second[SP_Q4_N_CODEBOOKS][16];
    int8_t entries[SP_Q4_N_CODEBOOKS][16];
    int32_t sums[SP_Q4_N_MIDPOINTS][SP_Q4_N_CODEBOOKS];    /* of two neighbouring entries */
    float high[SP_Q4_N_CODEBOOKS], low[SP_Q4_N_CODEBOOKS]; /* 1 / largest and smallest entry */
};

extern const float sp_q4_shares[SP_Q4_N_SHARES];

void sp_q4_tables_init(struct sp_q4_tables *tables);

/* Where the weight of `row` and k = 0..31 stands among the 512 of a block. Two groups of 32
 * weights, packed from 16 to 8 bits 128 bits at a time, fall into place as [row][4 k]: [k / 4][row
 * / 2 % 2][row / 4][row % 2][k % 4]. */
static inline size_t sp_q4_place(size_t row, size_t k)
{
    return 64 * (k / 4) + 32 * (row / 2 % 2) + 8 * (row / 4) + 4 * (row % 2) + k % 4;
}

/* Writes a block of SP_Q4_BLOCK_SIZE bytes from v[512], which is 64-byte aligned. */
typedef void sp_q4_fit_fn(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables);

sp_q4_fit_fn sp_q4_fit_ref, sp_q4_fit_avx2, sp_q4_fit_avx512, sp_q4_fit_neon;

#endif
