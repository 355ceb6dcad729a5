/* The search of microscale_fit.h with NEON and its dot products, 4 rows at a time.
 *
 * sp_q4_place puts 4 k of 4 rows into two registers of 16-bit numbers, a and b. Packed to bytes
 * they become one register with 32-bit lane = row and 4 k in it, and unpacked again they are a and
 * b:
 *
 *   a  rows 0 1      b  rows 2 3      pack(a, b)  rows 0 1 2 3
 *
 * The entry nearest to x is looked up by the upper four bits of x: an index, and two values of x
 * above which the index is one more; then the entry by that index. */
#include "quantize/microscale_fit.h"

#include <arm_neon.h>
#include <string.h>

enum { GROUPS = 4 }; /* groups of 4 k in a half block */

struct half {
    int16x8_t a[GROUPS], b[GROUPS]; /* v of 4 rows */
};

struct codebook {
    int8x16_t index, first, second, entries;
};

/* Repeats a row's 16-bit number, in a 32-bit lane, for the 4 k of that row in a, and in b. */
static inline int16x8_t spread_a(int32x4_t rows)
{
    static const uint8_t order[16] = {0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5};

    return vreinterpretq_s16_s8(vqtbl1q_s8(vreinterpretq_s8_s32(rows), vld1q_u8(order)));
}

static inline int16x8_t spread_b(int32x4_t rows)
{
    static const uint8_t order[16] = {8, 9, 8, 9, 8, 9, 8, 9, 12, 13, 12, 13, 12, 13, 12, 13};

    return vreinterpretq_s16_s8(vqtbl1q_s8(vreinterpretq_s8_s32(rows), vld1q_u8(order)));
}

static inline int8x16_t look_up(const struct codebook *book, int8x16_t x)
{
    uint8x16_t bin = vshrq_n_u8(vreinterpretq_u8_s8(x), 4);
    int8x16_t n = vqtbl1q_s8(book->index, bin);
    uint8x16_t above_first = vcgtq_s8(x, vqtbl1q_s8(book->first, bin));
    uint8x16_t above_second = vcgtq_s8(x, vqtbl1q_s8(book->second, bin));

    n = vsubq_s8(n, vreinterpretq_s8_u8(above_first));
    n = vsubq_s8(n, vreinterpretq_s8_u8(above_second));
    return vqtbl1q_s8(book->entries, vreinterpretq_u8_s8(n));
}

/* The byte of codebook t nearest to `scale`, per row. */
static inline int32x4_t bytes_near(float32x4_t scale, int t)
{
    float32x4_t n = vmulq_n_f32(vsubq_f32(scale, vdupq_n_f32((float)t)), 0.25f);
    int32x4_t count = vreinterpretq_s32_f32(vaddq_f32(n, vdupq_n_f32(12582912.0f)));

    count = vsubq_s32(count, vdupq_n_s32(0x4b400000));
    count = vmaxq_s32(count, vdupq_n_s32(t ? 0 : 1));
    count = vminq_s32(count, vdupq_n_s32(63));
    return vaddq_s32(vshlq_n_s32(count, 2), vdupq_n_s32(t));
}

/* P and Q of the entries nearest to v times each row's multiplier. */
static inline void find_sums(float32x4_t *p, float32x4_t *q, const struct half *half,
                             int32x4_t multiplier, const struct codebook *book)
{
    int16x8_t m_a = spread_a(multiplier), m_b = spread_b(multiplier);
    int32x4_t rows[4], squares = vdupq_n_s32(0);

    for (int i = 0; i < 4; i++)
        rows[i] = vdupq_n_s32(0);
    for (int g = 0; g < GROUPS; g++) {
        int8x8_t x_a = vqmovn_s16(vqrdmulhq_s16(half->a[g], m_a));
        int8x8_t x_b = vqmovn_s16(vqrdmulhq_s16(half->b[g], m_b));
        int8x16_t c = look_up(book, vcombine_s8(x_a, x_b));
        int16x8_t c_a = vmovl_s8(vget_low_s8(c)), c_b = vmovl_high_s8(c);

        rows[0] = vmlal_s16(rows[0], vget_low_s16(half->a[g]), vget_low_s16(c_a));
        rows[1] = vmlal_high_s16(rows[1], half->a[g], c_a);
        rows[2] = vmlal_s16(rows[2], vget_low_s16(half->b[g]), vget_low_s16(c_b));
        rows[3] = vmlal_high_s16(rows[3], half->b[g], c_b);
        squares = vdotq_s32(squares, c, c);
    }
    *p = vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(rows[0], rows[1]), vpaddq_s32(rows[2], rows[3])));
    *q = vcvtq_f32_s32(squares);
}

/* Tries the entries of codebook t at all sizes near the estimate. */
static inline void try_codebook(int32x4_t *best, float32x4_t *best_gain, const struct half *half,
                                float32x4_t estimate, int t, const struct sp_q4_tables *tables)
{
    struct codebook book = {vld1q_s8(tables->index[t]), vld1q_s8(tables->first[t]),
                            vld1q_s8(tables->second[t]), vld1q_s8(tables->entries[t])};
    float32x4_t inverse = vdivq_f32(vdupq_n_f32(65536.0f), estimate);

    for (int r = 0; r < SP_Q4_N_RATIOS; r++) {
        float32x4_t m = vmulq_n_f32(inverse, sp_q4_ratios[r]), p, q, b, gain;
        uint32x4_t better;
        int32x4_t byte;

        /* A row of zeros has no estimate: the limits replace its infinity or NaN. */
        m = vminnmq_f32(vmaxnmq_f32(m, vdupq_n_f32(128.0f)), vdupq_n_f32(32767.0f));
        find_sums(&p, &q, half, vcvtq_s32_f32(m), &book);
        byte = bytes_near(vdivq_f32(p, q), t);
        b = vcvtq_f32_s32(byte);
        gain = vmulq_f32(b, vsubq_f32(vmulq_n_f32(p, 2.0f), vmulq_f32(b, q)));
        better = vcgtq_f32(gain, *best_gain);
        *best_gain = vbslq_f32(better, gain, *best_gain);
        *best = vbslq_s32(better, byte, *best);
    }
}

/* The largest of each row's numbers, as a float; a and b hold the largest per k. */
static inline float32x4_t max_of_rows(int16x8_t a, int16x8_t b)
{
    int16x8_t pairs = vpmaxq_s16(a, b), rows = vpmaxq_s16(pairs, pairs);

    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(rows)));
}

static inline float32x4_t min_of_rows(int16x8_t a, int16x8_t b)
{
    int16x8_t pairs = vpminq_s16(a, b), rows = vpminq_s16(pairs, pairs);

    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(rows)));
}

/* The scale bytes of 4 rows, one in each 32-bit lane. */
static int32x4_t search(const struct half *half, const struct sp_q4_tables *tables)
{
    int16x8_t max_a = half->a[0], max_b = half->b[0], min_a = max_a, min_b = max_b;
    int32x4_t best = vdupq_n_s32(0);
    float32x4_t best_gain = vdupq_n_f32(0), max, min;

    for (int g = 1; g < GROUPS; g++) {
        max_a = vmaxq_s16(max_a, half->a[g]);
        max_b = vmaxq_s16(max_b, half->b[g]);
        min_a = vminq_s16(min_a, half->a[g]);
        min_b = vminq_s16(min_b, half->b[g]);
    }
    max = max_of_rows(max_a, max_b);
    min = min_of_rows(min_a, min_b);
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        float32x4_t up = vmulq_n_f32(max, tables->high[t]);

        try_codebook(&best, &best_gain, half, vmaxq_f32(up, vmulq_n_f32(min, tables->low[t])), t,
                     tables);
    }
    return best;
}

/* Counts the midpoints below each weight and stores the counts as nibbles. */
static void store_codes(uint8_t *codes, const struct half *half, int32x4_t bytes,
                        const struct sp_q4_tables *tables)
{
    /* Four bytes select the codebook's sum in a table of four. */
    uint8x16_t codebook = vreinterpretq_u8_s32(vandq_s32(bytes, vdupq_n_s32(3)));
    uint8x16_t four = vreinterpretq_u8_u32(
        vmlaq_n_u32(vdupq_n_u32(0x03020100), vreinterpretq_u32_u8(codebook), 0x04040404));
    uint16x8_t n_a[GROUPS], n_b[GROUPS];

    for (int g = 0; g < GROUPS; g++)
        n_a[g] = n_b[g] = vdupq_n_u16(0);
    for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
        int8x16_t sums = vreinterpretq_s8_s32(vld1q_s32(tables->sums[i]));
        int32x4_t sum = vreinterpretq_s32_s8(vqtbl1q_s8(sums, four));
        int32x4_t middle = vshrq_n_s32(vmulq_s32(bytes, sum), 1);
        int16x8_t middle_a = spread_a(middle), middle_b = spread_b(middle);

        for (int g = 0; g < GROUPS; g++) {
            n_a[g] = vsubq_u16(n_a[g], vcgtq_s16(half->a[g], middle_a));
            n_b[g] = vsubq_u16(n_b[g], vcgtq_s16(half->b[g], middle_b));
        }
    }
    for (int g = 0; g < 2; g++) {
        uint16x8_t a = vsliq_n_u16(n_a[g], n_a[g + 2], 4);
        uint16x8_t b = vsliq_n_u16(n_b[g], n_b[g + 2], 4);

        vst1q_u8(codes + 64 * g, vcombine_u8(vmovn_u16(a), vmovn_u16(b)));
    }
}

/* Stores the lowest byte of each 32-bit lane. */
static inline void store_bytes(uint8_t *out, int32x4_t bytes)
{
    uint16x4_t words = vmovn_u32(vreinterpretq_u32_s32(bytes));
    uint8x8_t four = vmovn_u16(vcombine_u16(words, words));

    memcpy(out, &four, 4);
}

void sp_q4_fit_neon(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables)
{
    for (int part = 0; part < 8; part++) {
        int h = part / 4, rows = 4 * (part % 4);
        struct half half;
        int32x4_t bytes;

        for (int g = 0; g < GROUPS; g++) {
            const int16_t *from = v + 256 * h + 64 * g + 2 * rows;

            half.a[g] = vld1q_s16(from);
            half.b[g] = vld1q_s16(from + 32);
        }
        bytes = search(&half, tables);
        store_codes(block + 128 * h + 4 * rows, &half, bytes, tables);
        store_bytes(block + 256 + 16 * h + rows, bytes);
    }
}
