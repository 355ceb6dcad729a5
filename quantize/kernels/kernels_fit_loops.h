/* The search of microscale_fit.h with the primitives of simd.h, LANES rows at a time.
 *
 * sp_q4_place puts 4 k of LANES rows into two registers of 16-bit numbers, a and b, which pack to
 * bytes in the order of rows (| every 128 bits):
 *
 *   a  rows 0 1 | 4 5 ...      b  rows 2 3 | 6 7 ...      pack(a, b)  rows 0 1 2 3 | 4 5 6 7 ...
 *
 * An instruction set adds these primitives:
 *
 *   spread_a, spread_b(rows)   the 16-bit number of each row, in a lane, for its 4 k in a, and in b
 *   larger_words(a, b), count_above(n, a, b)   of 16 bits: the larger; n + (a > b)
 *   scale_words(a, m)          (a * m + 2^14) >> 15
 *   struct codebook, load_codebook(tables, t), look_up(book, x)   the entries nearest to x / 2
 *   struct entry_sums          P and Q of the entries so far
 *   add_entries(s, v, c, g), read_sums(p, q, s, v)   adds those of k = 4g..4g+3; as floats by row
 *   struct fit_values, prepare_values(v)             v of a half block, and what the sums need of
 * it max_words_of_rows(a, b)    the largest of each row's numbers, as a float by row
 *   select_sums(sums, bytes)   sums[the lowest two bits of each lane]
 *   multiply_lanes(a, b)       0 <= a < 256, |b| < 2^15 */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_FIT_LOOPS_H
#define SP_QUANTIZE_KERNELS_KERNELS_FIT_LOOPS_H

#include "quantize/kernels/kernels_tile_loops.h"
#include "quantize/types/microscale_fit.h"

#ifdef REGISTER

/* The byte of codebook t nearest to `scale`, per row. Adding 1.5 * 2^23 leaves no fraction. */
INLINE floats bytes_near(floats scale, int t)
{
    floats n = ((scale - (float)t) * 0.25f + 12582912.0f) - 12582912.0f;

    return at_most(63, at_least(t ? 0 : 1, n)) * 4.0f + (float)t;
}

/* Finds P and Q of the entries of a codebook at FIT_SIZES sizes, from ratio r on. */
INLINE void find_sums(floats p[FIT_SIZES], floats q[FIT_SIZES], const struct fit_values *v,
                      floats inverse, int r, const struct codebook *book)
{
    words m_a[FIT_SIZES], m_b[FIT_SIZES];
    struct entry_sums sums[FIT_SIZES] = {0};

    for (int i = 0; i < FIT_SIZES; i++) {
        /* A row of zeros has no estimate: the limits replace its infinity. */
        floats m = number_at_least(inverse * sp_q4_ratios[r + i], 128);
        ints multiplier = __builtin_convertvector(number_at_most(m, 32767), ints);
        m_a[i] = spread_a(multiplier);
        m_b[i] = spread_b(multiplier);
    }
    for (int g = 0; g < SP_Q4_GROUPS; g++) {
        for (int i = 0; i < FIT_SIZES; i++) {
            bytes x = pack_bytes(scale_words(v->a[g], m_a[i]), scale_words(v->b[g], m_b[i]));
            add_entries(&sums[i], v, look_up(book, x), g);
        }
    }
    for (int i = 0; i < FIT_SIZES; i++)
        read_sums(&p[i], &q[i], &sums[i], v);
}

/* Tries the entries of codebook t at all sizes near the estimate. */
INLINE void try_codebook(floats *best, floats *best_gain, const struct fit_values *v,
                         floats estimate, int t, const struct sp_q4_tables *tables)
{
    const struct codebook book = load_codebook(tables, t);
    floats inverse = 65536.0f / estimate, p[FIT_SIZES], q[FIT_SIZES];

    for (int r = 0; r < SP_Q4_N_RATIOS; r += FIT_SIZES) {
        find_sums(p, q, v, inverse, r, &book);
        for (int i = 0; i < FIT_SIZES; i++) {
            floats b = bytes_near(p[i] / q[i], t), gain = b * (2.0f * p[i] - b * q[i]);
            mask better = below(*best_gain, gain);
            *best_gain = select(better, gain, *best_gain);
            *best = select(better, b, *best);
        }
    }
}

/* The scale bytes of LANES rows. */
static ints search(const struct fit_values *v, const struct sp_q4_tables *tables)
{
    words max_a = v->a[0], max_b = v->b[0], min_a = ~max_a, min_b = ~max_b;
    floats best = splat(0), best_gain = splat(0);

    for (int g = 1; g < SP_Q4_GROUPS; g++) {
        max_a = larger_words(max_a, v->a[g]);
        max_b = larger_words(max_b, v->b[g]);
        min_a = larger_words(min_a, ~v->a[g]);
        min_b = larger_words(min_b, ~v->b[g]);
    }
    floats max = max_words_of_rows(max_a, max_b);
    floats min = -1.0f - max_words_of_rows(min_a, min_b); /* ~v is -1 - v */
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        floats estimate = larger(max * tables->high[t], min * tables->low[t]);
        try_codebook(&best, &best_gain, v, estimate, t, tables);
    }
    return to_ints(best);
}

/* Counts the midpoints below each weight and stores the counts as nibbles. */
static void store_nibbles(uint8_t *codes, const struct fit_values *v, ints scale_bytes,
                          const struct sp_q4_tables *tables)
{
    words n_a[SP_Q4_GROUPS] = {{0}}, n_b[SP_Q4_GROUPS] = {{0}};

    for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
        ints sum = select_sums(tables->sums[i], scale_bytes);
        ints middle = multiply_lanes(scale_bytes, sum) >> 1;
        words middle_a = spread_a(middle), middle_b = spread_b(middle);
        UNROLL
        for (int g = 0; g < SP_Q4_GROUPS; g++) {
            n_a[g] = count_above(n_a[g], v->a[g], middle_a);
            n_b[g] = count_above(n_b[g], v->b[g], middle_b);
        }
    }
    for (int g = 0; g < 2; g++) {
        words a = n_a[g] | n_a[g + 2] << 4, b = n_b[g] | n_b[g + 2] << 4;
        store_bytes(codes + 64 * g, pack_unsigned(a, b));
    }
}

static void fit_q4(uint8_t *block, const int16_t *v, const struct sp_q4_tables *tables)
{
    for (size_t part = 0; part < 2 * SP_PANEL_ROWS; part += LANES) {
        size_t h = part / SP_PANEL_ROWS, row = part % SP_PANEL_ROWS;
        struct fit_values values;
        ints scale_bytes;

        for (size_t g = 0; g < SP_Q4_GROUPS; g++) {
            const int16_t *from = v + 256 * h + 64 * g + 2 * row;
            values.a[g] = (words)load_bytes(from);
            values.b[g] = (words)load_bytes(from + 32);
        }
        prepare_values(&values);
        scale_bytes = search(&values, tables);
        store_nibbles(block + 128 * h + 4 * row, &values, scale_bytes, tables);
        store_lanes(block + 256 + part, scale_bytes);
    }
}

#endif

#endif
