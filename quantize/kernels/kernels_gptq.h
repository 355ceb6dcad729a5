/* The inner loops of quantize/types/gptq.h, written once as vectors of one register and compiled
 * for each instruction set: accumulation, where a lane is one of a group's 16 columns,
 * decomposition, where a lane is one of the elements of a row, and encoding, where a lane is one of
 * a panel's 16 rows. Lanes are independent, operations have one order, and nothing is fused, so all
 * sets compute the same bits.
 *
 * Vectors of 16 floats for all sets would be simpler, but gcc keeps those that are longer than a
 * register in memory: the encoder was up to 30 times slower, and took a minute to compile.
 *
 * The encoder is written once for all types of quantize/types/microscale.h, and inlined with a
 * constant type and with or without factors. */
#ifndef SP_QUANTIZE_KERNELS_KERNELS_GPTQ_H
#define SP_QUANTIZE_KERNELS_KERNELS_GPTQ_H

#include "format/dtype.h"
#include "quantize/types/gptq.h"
#include "quantize/types/microscale.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define REGISTER 64 /* bytes */
#elif defined(__AVX2__)
#define REGISTER 32
#else
#define REGISTER 16
#endif
#include "quantize/simd/simd.h"

enum { N = SP_GPTQ_GROUP, N_PARTS = N / LANES };

typedef floats lanes;
typedef ints masks; /* of a comparison: 0 or -1 */

static inline lanes load(const float *from)
{
    lanes x;

    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(float *to, lanes x)
{
    memcpy(to, &x, sizeof x);
}

static inline lanes select(masks m, lanes yes, lanes no)
{
    return (lanes)(((masks)yes & m) | ((masks)no & ~m));
}

/* a > b ? yes : no; the generic form takes three instructions where this takes two. */
#if defined(__AVX512F__)
static inline lanes select_above(lanes a, lanes b, lanes yes, lanes no)
{
    __mmask16 above = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);

    return (lanes)_mm512_mask_blend_ps(above, (__m512)no, (__m512)yes);
}
#else
static inline lanes select_above(lanes a, lanes b, lanes yes, lanes no)
{
    return select(a > b, yes, no);
}
#endif

/* The entry nearest to x among 16 ascending ones, the lower one halfway, and its index; middles[i]
 * is halfway between entries i and i + 1. A binary search where a register holds the tables. */
#if defined(__AVX512F__)
static inline lanes nearest_of_16(masks *index, lanes x, const float *entries, const float *middles)
{
    const __m512 table = _mm512_maskz_loadu_ps(0x7fff, middles);
    __m512i at = _mm512_setzero_si512();

    for (int step = 8; step > 0; step /= 2) {
        __m512i next = _mm512_add_epi32(at, _mm512_set1_epi32(step - 1));
        __mmask16 above =
            _mm512_cmp_ps_mask((__m512)x, _mm512_permutexvar_ps(next, table), _CMP_GT_OQ);

        at = _mm512_mask_add_epi32(at, above, at, _mm512_set1_epi32(step));
    }
    *index = (masks)at;
    return (lanes)_mm512_permutexvar_ps(at, _mm512_loadu_ps(entries));
}
#else
static inline lanes nearest_of_16(masks *index, lanes x, const float *entries, const float *middles)
{
    lanes entry = splat(entries[0]);

    *index = (masks){0};
    for (int i = 0; i < 15; i++) {
        entry = select(x > middles[i], splat(entries[i + 1]), entry);
        *index -= x > middles[i];
    }
    return entry;
}
#endif

static inline lanes larger(lanes a, lanes b)
{
    return select(a > b, a, b);
}

static inline lanes smaller(lanes a, lanes b)
{
    return select(a < b, a, b);
}

/* ---- accumulation ---- */

/* Adds to the sums of four columns from j on; the additions of a row are independent. */
static inline void accumulate_four(float *sums, const float *x, size_t ld, size_t n_rows,
                                   size_t first, size_t j)
{
    lanes sum[4][N_PARTS] = {{{0}}};

    for (size_t t = 0; t < n_rows; t++, x += ld) {
        for (size_t part = 0; part < N_PARTS; part++) {
            lanes left = load(x + first + part * LANES);

            for (size_t c = 0; c < 4; c++)
                sum[c][part] += left * x[j + c];
        }
    }
    for (size_t i = 0; i < 4 * N_PARTS; i++, sums += LANES)
        store(sums, load(sums) + sum[i / N_PARTS][i % N_PARTS]);
}

static inline void accumulate(float *sums, const float *x, size_t ld, size_t n_rows, size_t first,
                              size_t end)
{
    for (size_t j = first; j < end; j += 4, sums += 4 * N)
        accumulate_four(sums, x, ld, n_rows, first, j);
}

/* ---- decomposition ---- */

/* Columns k that are subtracted from the others together. */
enum { N_TOGETHER = 8, DOUBLES = REGISTER / sizeof(double) };

typedef double doubles __attribute__((vector_size(REGISTER)));

/* to[i] -= m[k] * rows[k][i], the last k first, for i = 0..n-1 and up to DOUBLES - 1 more. */
INLINE void subtract(double *to, const double *rows, const double *m, size_t n)
{
    for (size_t i = 0; i < n; i += DOUBLES) {
        doubles x;

        memcpy(&x, to + i, sizeof x);
        for (size_t k = N_TOGETHER; k-- > 0;) {
            doubles row;

            memcpy(&row, rows + k * SP_GPTQ_BLOCK + i, sizeof row);
            x -= m[k] * row;
        }
        memcpy(to + i, &x, sizeof x);
    }
}

/* Divides the last N_TOGETHER of n columns, from the last to the first: before column k is divided,
 * the terms of the later columns were subtracted. */
static void decompose_last(double *a, size_t n, double least)
{
    size_t first = n - N_TOGETHER;
    double *rows = a + first * SP_GPTQ_BLOCK, m[N_TOGETHER] = {0};

    for (size_t k = N_TOGETHER; k-- > 0;) {
        double *row = rows + k * SP_GPTQ_BLOCK, *d = row + first + k;
        *d = *d > least ? *d : least;
        for (size_t l = 0; l < k; l++) {
            double *to = rows + l * SP_GPTQ_BLOCK, factor = row[first + l] / *d;
            for (size_t i = 0; i <= first + l; i++)
                to[i] -= factor * row[i];
        }
    }
    for (size_t j = 0; j < first; j++) {
        for (size_t k = 0; k < N_TOGETHER; k++)
            m[k] = rows[k * SP_GPTQ_BLOCK + j] / rows[k * SP_GPTQ_BLOCK + first + k];
        subtract(a + j * SP_GPTQ_BLOCK, rows, m, j + 1);
    }
    for (size_t k = 0; k < N_TOGETHER; k++) {
        double *row = rows + k * SP_GPTQ_BLOCK, d = row[first + k];
        for (size_t j = 0; j < first + k; j++)
            row[j] /= d;
    }
}

static void decompose(double *a, size_t width, double least)
{
    for (size_t n = width; n > 0; n -= N_TOGETHER)
        decompose_last(a, n, least);
}

/* ---- encoding ---- */

/* A variant of the encoder; its members are constants where it is inlined. */
struct variant {
    unsigned code_bits;
    int n_codebooks;
    bool shifted;  /* codebooks are one, shifted */
    bool uniform;  /* its entries are whole numbers without gaps */
    bool feedback; /* with factors */
};

/* One group of LANES rows by column, in units of the rows' scales: the weights w, and v, which
 * includes the errors of the groups before. */
struct group {
    lanes w[N], v[N];
    const float *factors; /* [N][N] of the group itself: M and D */
    float weight[N];      /* D; without factors 1 */
};

/* The result of rounding a group with some scale bytes. */
struct rounded {
    lanes bytes, loss, error[N];
    masks code[N];
};

/* The nearest whole numbers, ties to even; adding 1.5 * 2^23 leaves no fraction. */
INLINE lanes whole(lanes x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

INLINE masks to_integers(lanes x)
{
    return (masks)(x + 12582912.0f) - 0x4b400000;
}

/* A codebook at a size per lane, prepared for the search of nearest entries. */
struct sized {
    const float *entries, *middles; /* of the codebook, without its offset */
    float offset;
    lanes inverse;    /* of shifted codebooks: 1 / size, 0 for size 0 */
    lanes middle[15]; /* of others */
};

/* Prepares codebook t; `size` is positive, or 0 for a codebook of zeros. */
INLINE void prepare(struct sized *s, struct variant is, lanes size, int t,
                    const struct sp_microscale_books *books)
{
    const int n = 1 << is.code_bits;
    const size_t first = is.shifted ? 0 : (size_t)(t * n);

    s->entries = books->entries + first;
    s->middles = books->middles + first;
    if (is.shifted) {
        s->offset = books->offsets[t];
        s->inverse = select(size > 0, 1.0f / size, splat(0));
        return;
    }
    for (int i = 0; i < n - 1; i++)
        s->middle[i] = size * s->middles[i];
}

/* Returns the entries nearest to v / size; the lower one halfway, but of a shifted codebook the one
 * nearer to its offset. */
INLINE lanes nearest(masks *code, const struct sized *s, struct variant is, lanes v)
{
    const int n = 1 << is.code_bits;
    lanes q;

    if (is.uniform) {
        lanes x = v * s->inverse + ((float)(n / 2) - s->offset);

        x = larger(smaller(x, splat((float)(n - 1))), splat(0));
        *code = to_integers(x);
        return whole(x) + (s->offset - (float)(n / 2));
    }
    if (is.shifted) { /* the lower half of the entries mirrors the upper one */
        lanes x = v * s->inverse - s->offset;
        masks negative = ~(x > 0);

        x = select(negative, -x, x);
        q = nearest_of_16(code, x, s->entries + n / 2, s->middles + n / 2);
        *code = (*code + n / 2) ^ (negative & (n - 1));
        return select(negative, -q, q) + s->offset;
    }
    *code = (masks){0};
    q = splat(s->entries[0]);
    for (int i = 0; i < n - 1; i++) {
        q = select_above(v, s->middle[i], splat(s->entries[i + 1]), q);
        *code -= v > s->middle[i];
    }
    return q;
}

/* Rounds a group with bytes of codebook t (0 suits any), each column after the errors of the
 * columns before it were added. */
INLINE void round_group(struct rounded *r, const struct group *g, struct variant is, int t,
                        const struct sp_microscale_books *books)
{
    struct sized s;

    prepare(&s, is, r->bytes, t, books);
    r->loss = (lanes){0};
    for (size_t j = 0; j < N; j++) {
        lanes v = g->v[j], q, error;

        for (size_t i = 0; is.feedback && i < j; i++)
            v += r->error[i] * g->factors[j * N + i];
        q = nearest(&r->code[j], &s, is, v) * r->bytes;
        error = v - q;
        r->loss += g->weight[j] * (error * error);
        r->error[j] = g->w[j] - q;
    }
}

/* The byte of codebook t nearest to b. */
INLINE lanes byte_near(lanes b, struct variant is, int t)
{
    const float n_codebooks = (float)is.n_codebooks;
    lanes n = (b - (float)t) * (1.0f / n_codebooks);

    n = smaller(larger(n, splat(t ? 0 : 1)), splat(256.0f / n_codebooks - 1));
    return whole(n) * n_codebooks + (float)t;
}

/* The gain of rounding a group, without error propagation within it, with the best bytes of a
 * codebook at one of a few sizes: as in microscale_fit.h. */
INLINE lanes try_size(lanes *chosen, const struct group *g, struct variant is, int t, lanes size,
                      const struct sp_microscale_books *books)
{
    lanes p = {0}, q = {0};
    struct sized s;
    masks code;

    if (is.uniform) size = byte_near(size, is, t);
    prepare(&s, is, size, t, books);
    for (size_t j = 0; j < N; j++) {
        lanes c = nearest(&code, &s, is, g->v[j]);

        p += g->weight[j] * (g->v[j] * c);
        q += g->weight[j] * (c * c);
    }
    *chosen = is.uniform ? size : byte_near(p / q, is, t);
    return *chosen * (2.0f * p - *chosen * q);
}

/* The byte of codebook t with the largest gain. */
INLINE lanes choose_bytes(const struct group *g, struct variant is, int t, lanes max, lanes min,
                          const struct sp_microscale_books *books)
{
    lanes estimate = larger(larger(max * books->high[t], min * books->low[t]), splat(0.5f));
    lanes best = {0}, best_gain = {0};

    for (int i = 0; i < books->n_ratios; i++) {
        lanes b, gain = try_size(&b, g, is, t, estimate / books->ratios[i], books);
        masks better = gain > best_gain;

        best_gain = select(better, gain, best_gain);
        best = select(better, b, best);
    }
    return best;
}

/* Rounds with all zeros and with the best byte of each codebook; keeps the result with the least
 * loss. */
INLINE void fit_group(struct rounded *best, const struct group *g, struct variant is,
                      const struct sp_microscale_books *books)
{
    lanes max = g->v[0], min = g->v[0];

    for (size_t j = 1; j < N; j++) {
        max = larger(max, g->v[j]);
        min = smaller(min, g->v[j]);
    }
    best->bytes = (lanes){0};
    round_group(best, g, is, 0, books);
    for (int t = 0; t < is.n_codebooks; t++) {
        struct rounded r;
        masks better;

        r.bytes = choose_bytes(g, is, t, max, min, books);
        round_group(&r, g, is, t, books);
        better = r.loss < best->loss;
        best->loss = select(better, r.loss, best->loss);
        best->bytes = select(better, r.bytes, best->bytes);
        for (size_t j = 0; j < N; j++) {
            best->error[j] = select(better, r.error[j], best->error[j]);
            best->code[j] = (r.code[j] & better) | (best->code[j] & ~better);
        }
    }
}

/* Loads a group. from: its first column in the first of n_rows rows, of which LANES at most are
 * loaded; with feedback, carried: errors of the columns before it, [N][16]. */
INLINE void load_group(struct group *g, struct variant is, const float *from, size_t n_rows,
                       size_t cols, const float *inverse, const float *carried,
                       const float *factors)
{
    g->factors = factors;
    for (size_t j = 0; j < N; j++) {
        float w[LANES] = {0}, d = is.feedback ? factors[j * N + j] : 1;
        for (size_t row = 0; row < LANES && row < n_rows; row++)
            w[row] = from[row * cols + j] * inverse[row];
        g->w[j] = load(w);
        g->v[j] = is.feedback ? g->w[j] + load(carried + j * SP_PANEL_ROWS) : g->w[j];
        g->weight[j] = d > 1e-6f ? d : 1e-6f;
    }
}

/* Stores a group of the panel's rows from first_row on, which is half h of the block; the block was
 * zero. */
INLINE void store_group(uint8_t *block, struct variant is, size_t h, size_t first_row,
                        const struct rounded *r)
{
    uint8_t *scale_bytes = block + sp_microscale_block_size(is.code_bits) - (2 - h) * SP_PANEL_ROWS;

    for (size_t k = 0; k < N; k++) {
        for (size_t i = 0; i < LANES; i++)
            sp_microscale_put(block, is.code_bits, first_row + i, N * h + k,
                              (unsigned)r->code[k][i]);
    }
    for (size_t i = 0; i < LANES; i++)
        scale_bytes[first_row + i] = (uint8_t)r->bytes[i];
}

/* Adds a group's weighted errors to n columns after it; `carried` and `factors` begin at the first
 * of them. */
static inline void propagate(float *carried, const struct rounded *r, const float *factors,
                             size_t n)
{
    for (size_t j = 0; j < n; j++, carried += SP_PANEL_ROWS, factors += N) {
        lanes sum = load(carried);

        for (size_t i = 0; i < N; i++)
            sum += r->error[i] * factors[i];
        store(carried, sum);
    }
}

TILE void encode_as(struct variant is, uint8_t *blocks, const float *rows, size_t n_rows,
                    size_t cols, const float *row_scale, const float *factors, float *workspace,
                    const struct sp_microscale_books *books)
{
    const size_t block_size = sp_microscale_block_size(is.code_bits);
    const float *order = NULL; /* of the groups of a block of columns */
    float inverse[SP_PANEL_ROWS] = {0};

    for (size_t row = 0; row < n_rows; row++)
        inverse[row] = row_scale[row] > 0 ? 1.0f / row_scale[row] : 0;
    memset(blocks, 0, cols / SP_BLOCK * block_size);
    if (is.feedback) memset(workspace, 0, cols * SP_PANEL_ROWS * sizeof *workspace);
    for (size_t place = 0; place < cols; place += N) {
        size_t begin = place / SP_GPTQ_BLOCK * SP_GPTQ_BLOCK, end = sp_gptq_block_end(cols, place);
        size_t first = place, after = place + N;
        uint8_t *block;
        if (is.feedback && place == begin) {
            order = factors;
            factors += sp_gptq_n_groups(end - begin);
        }
        if (is.feedback) first = begin + (size_t)order[(place - begin) / N] * N;
        block = blocks + first / SP_BLOCK * block_size;
        for (size_t row = 0; row < SP_PANEL_ROWS; row += LANES) {
            const float *carried = is.feedback ? workspace + place * SP_PANEL_ROWS + row : NULL;
            size_t n = n_rows > row ? n_rows - row : 0;
            struct group group;
            struct rounded r;
            load_group(&group, is, n ? rows + row * cols + first : rows, n, cols, inverse + row,
                       carried, factors);
            fit_group(&r, &group, is, books);
            store_group(block, is, first / N % 2, row, &r);
            if (is.feedback)
                propagate(workspace + after * SP_PANEL_ROWS + row, &r, factors + N * N,
                          end - after);
        }
        if (is.feedback) factors += (end - place) * N;
    }
}

static void encode(uint8_t *blocks, const float *rows, size_t n_rows, size_t cols,
                   const float *row_scale, const float *factors, float *workspace,
                   const struct sp_microscale_books *books)
{
#define ENCODE(...)                                                                                \
    encode_as((struct variant){__VA_ARGS__}, blocks, rows, n_rows, cols, row_scale, factors,       \
              workspace, books)

    const unsigned n_bits = books->code_bits;
    const bool feedback = factors != NULL;

    if (n_bits == 2 && !feedback) ENCODE(2, 16, false, false, false);
    if (n_bits == 2 && feedback) ENCODE(2, 16, false, false, true);
    if (n_bits == 3 && !feedback) ENCODE(3, 8, false, false, false);
    if (n_bits == 3 && feedback) ENCODE(3, 8, false, false, true);
    if (n_bits == 4 && !feedback) ENCODE(4, 4, false, false, false);
    if (n_bits == 4 && feedback) ENCODE(4, 4, false, false, true);
    if (n_bits == 5 && !feedback) ENCODE(5, 8, true, false, false);
    if (n_bits == 5 && feedback) ENCODE(5, 8, true, false, true);
    if (n_bits == 6 && !feedback) ENCODE(6, 8, true, true, false);
    if (n_bits == 6 && feedback) ENCODE(6, 8, true, true, true);
#undef ENCODE
}

#endif
