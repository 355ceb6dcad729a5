/* How the q4 encoder chooses scale bytes: the inner loop that each instruction set writes for
 * itself.
 *
 * Everything about one half block is put in whole numbers first: v is the weight in units of the
 * row's scale (|v| < 2^15). A weight decoded as b * c, scale byte times entry, has the squared
 * error (v - b * c)^2; over the half block that is sum(v^2) - gain with
 *
 *   gain = b * (2 * P - b * Q),   P = sum(v * c),   Q = sum(c^2)
 *
 * and the byte of the largest gain wins, the first one tried where gains are equal, 0 where none is
 * positive. Tried are, for each codebook t in order, the bytes nearest to guess * sp_q4_ratios[r],
 * r in order: the guess lets the largest weights meet the codebook's ends. (Near 1 the ends are met
 * up to rounding; near 1.2 the largest weight meets the last entry but one.) In detail, all in f32
 * and int32, every step rounded to nearest even:
 *
 *   guess = max(max(v) * high[t], min(v) * low[t])
 *   b     = 4 * n + t,  n = round((guess * ratio - t) * 0.25) within 0..63, and 1..63 for t = 0
 *   m     = 32768 / b cut to an integer, at most 32767
 *   x     = (v * m + 16384) >> 15 within -128..127: v / b in units of the entries
 *   c     = the codebook's entry nearest to x, the lower one halfway
 *   gain  = (float)b * (2 * (float)P - (float)b * (float)Q)
 *
 * x is a whole number, so the nearest entry is sometimes the second nearest; that is good enough to
 * choose a byte. The codes themselves are found exactly (microscale.c). */
#ifndef SP_QUANTIZE_MICROSCALE_SEARCH_H
#define SP_QUANTIZE_MICROSCALE_SEARCH_H

#include <stdint.h>

enum {
    SP_Q4_N_CODEBOOKS = 4,
    SP_Q4_N_RATIOS = 10,
    SP_Q4_PAIRS = 8, /* pairs of neighbouring k in a half block */
};

/* The codebooks as lookups. The same four tables in two forms: by all 256 values of x, and by x >>
 * 4 for machines that look up 16 bytes at a time. Valid after sp_q4_search_init. */
struct sp_q4_search {
    _Alignas(64) int8_t nearest[SP_Q4_N_CODEBOOKS][256]; /* entry by (uint8_t)x */
    /* By the upper four bits of (uint8_t)x: the index of the entry nearest to the smallest such x,
     * and the two x above which it is one more (the largest such x: nowhere). */
    int8_t index[SP_Q4_N_CODEBOOKS][16];
    int8_t first[SP_Q4_N_CODEBOOKS][16];
    int8_t second[SP_Q4_N_CODEBOOKS][16];
    int8_t entries[SP_Q4_N_CODEBOOKS][16];
    float high[SP_Q4_N_CODEBOOKS], low[SP_Q4_N_CODEBOOKS]; /* 1 / largest and smallest entry */
};

extern const float sp_q4_ratios[SP_Q4_N_RATIOS];

void sp_q4_search_init(struct sp_q4_search *tables);

/* bytes[16 * h + row] for the weights v[h][pair][row][2] of one block: 2 halves, 8 pairs of k, 16
 * rows. v is 64-byte aligned. */
typedef void sp_q4_search_fn(uint8_t *bytes, const int16_t *v, const struct sp_q4_search *tables);

sp_q4_search_fn sp_q4_search_ref, sp_q4_search_avx2, sp_q4_search_avx512;

#endif
