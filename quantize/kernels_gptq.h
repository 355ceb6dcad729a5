/* The two inner loops of quantize/gptq.h, written once as vectors of 16 floats and compiled for
 * each instruction set: accumulation, where a lane is one of a group's 16 columns, and encoding,
 * where a lane is one of a panel's 16 rows. Lanes are independent, operations have one order, and
 * nothing is fused, so all sets compute the same bits. */
#ifndef SP_QUANTIZE_KERNELS_GPTQ_H
#define SP_QUANTIZE_KERNELS_GPTQ_H

#include "format/dtype.h"
#include "quantize/gptq.h"

#include <string.h>

/* Vectors longer than a register are passed between inlined functions only. */
#pragma GCC diagnostic ignored "-Wpsabi"

enum { N = SP_GPTQ_GROUP };

typedef float lanes __attribute__((vector_size(64)));
typedef int32_t masks __attribute__((vector_size(64))); /* of a comparison: 0 or -1 */

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

static inline lanes broadcast(float x)
{
    return x - (lanes){0};
}

static inline lanes select(masks mask, lanes yes, lanes no)
{
    return (lanes)(((masks)yes & mask) | ((masks)no & ~mask));
}

static inline lanes larger(lanes a, lanes b)
{
    return select(a > b, a, b);
}

static inline lanes smaller(lanes a, lanes b)
{
    return select(a < b, a, b);
}

/* ---- accumulation ---- */

/* Adds to the sums of four columns from j on; the four additions are independent. */
static inline void accumulate_four(float *sums, const float *x, size_t ld, size_t n_rows,
                                   size_t first, size_t j)
{
    lanes a = {0}, b = {0}, c = {0}, d = {0};

    for (size_t t = 0; t < n_rows; t++, x += ld) {
        lanes left = load(x + first);

        a += left * x[j];
        b += left * x[j + 1];
        c += left * x[j + 2];
        d += left * x[j + 3];
    }
    store(sums, load(sums) + a);
    store(sums + N, load(sums + N) + b);
    store(sums + 2 * N, load(sums + 2 * N) + c);
    store(sums + 3 * N, load(sums + 3 * N) + d);
}

static inline void accumulate(float *sums, const float *x, size_t ld, size_t n_rows, size_t first,
                              size_t end)
{
    for (size_t j = first; j < end; j += 4, sums += 4 * N)
        accumulate_four(sums, x, ld, n_rows, first, j);
}

/* ---- encoding ---- */

/* One group of a panel by column, in units of the rows' scales: the weights w, and v, which
 * includes the errors of the groups before. */
struct group {
    lanes w[N], v[N];
    const float *factors; /* [N][N] of the group itself: M and D */
    float weight[N];      /* D */
};

/* The result of rounding a group with some scale bytes. */
struct rounded {
    lanes bytes, loss, error[N];
    masks code[N];
};

/* Rounds a group with bytes of codebook t (0 suits any), each column after the errors of the
 * columns before it were added. */
static inline void round_group(struct rounded *r, const struct group *g, int t,
                               const struct sp_q4_tables *tables)
{
    r->loss = (lanes){0};
    for (size_t j = 0; j < N; j++) {
        lanes v = g->v[j], q = broadcast((float)tables->entries[t][0]), error;
        masks code = {0};

        for (size_t i = 0; i < j; i++)
            v += r->error[i] * g->factors[j * N + i];
        for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
            masks above = v > r->bytes * (0.5f * (float)tables->sums[i][t]);

            q = select(above, broadcast((float)tables->entries[t][i + 1]), q);
            code -= above;
        }
        q *= r->bytes;
        error = v - q;
        r->loss += g->weight[j] * (error * error);
        r->error[j] = g->w[j] - q;
        r->code[j] = code;
    }
}

/* The byte of codebook t nearest to b. */
static inline lanes byte_near(lanes b, int t)
{
    lanes n = (b - (float)t) * 0.25f;

    /* Adding 1.5 * 2^23 rounds to whole numbers, ties to even. */
    n = (smaller(larger(n, broadcast(t ? 0 : 1)), broadcast(63)) + 12582912.0f) - 12582912.0f;
    return n * 4.0f + (float)t;
}

/* The byte of codebook t with the least weighted error at one of a few sizes, as in
 * microscale_fit.h, without error propagation within the group. */
static inline lanes choose_bytes(const struct group *g, int t, lanes max, lanes min,
                                 const struct sp_q4_tables *tables)
{
    lanes estimate = larger(larger(max * tables->high[t], min * tables->low[t]), broadcast(0.5f));
    lanes best = {0}, best_gain = {0};

    for (int ratio = 0; ratio < SP_Q4_N_RATIOS; ratio++) {
        lanes size = estimate / sp_q4_ratios[ratio], p = {0}, q = {0}, b, gain;
        masks better;

        for (size_t j = 0; j < N; j++) {
            lanes c = broadcast((float)tables->entries[t][0]);

            for (int i = 0; i < SP_Q4_N_MIDPOINTS; i++) {
                c = select(g->v[j] > size * (0.5f * (float)tables->sums[i][t]),
                           broadcast((float)tables->entries[t][i + 1]), c);
            }
            p += g->weight[j] * (g->v[j] * c);
            q += g->weight[j] * (c * c);
        }
        b = byte_near(p / q, t);
        gain = b * (2.0f * p - b * q);
        better = gain > best_gain;
        best_gain = select(better, gain, best_gain);
        best = select(better, b, best);
    }
    return best;
}

/* Rounds with all zeros and with the best byte of each codebook; keeps the result with the least
 * loss. */
static inline void fit_group(struct rounded *best, const struct group *g,
                             const struct sp_q4_tables *tables)
{
    lanes max = g->v[0], min = g->v[0];

    for (size_t j = 1; j < N; j++) {
        max = larger(max, g->v[j]);
        min = smaller(min, g->v[j]);
    }
    best->bytes = (lanes){0};
    round_group(best, g, 0, tables);
    for (int t = 0; t < SP_Q4_N_CODEBOOKS; t++) {
        struct rounded r;
        masks better;

        r.bytes = choose_bytes(g, t, max, min, tables);
        round_group(&r, g, t, tables);
        better = r.loss < best->loss;
        best->loss = select(better, r.loss, best->loss);
        best->bytes = select(better, r.bytes, best->bytes);
        for (size_t j = 0; j < N; j++) {
            best->error[j] = select(better, r.error[j], best->error[j]);
            best->code[j] = (r.code[j] & better) | (best->code[j] & ~better);
        }
    }
}

/* Loads a group. from: its first column in the panel's rows; carried: errors of the columns before
 * it, [N][16]. */
static inline void load_group(struct group *g, const float *from, size_t n_rows, size_t cols,
                              const float *inverse, const float *carried, const float *factors)
{
    g->factors = factors;
    for (size_t j = 0; j < N; j++) {
        float w[SP_PANEL_ROWS] = {0}, d = factors[j * N + j];

        for (size_t row = 0; row < n_rows; row++)
            w[row] = from[row * cols + j] * inverse[row];
        g->w[j] = load(w);
        g->v[j] = g->w[j] + load(carried + j * SP_PANEL_ROWS);
        g->weight[j] = d > 1e-6f ? d : 1e-6f;
    }
}

/* Stores a group, which is half h of the block. */
static inline void store_group(uint8_t *block, size_t h, const struct rounded *r)
{
    for (size_t k = 0; k < N / 2; k++) {
        uint8_t *codes = block + 128 * h + 64 * (k / 4) + k % 4;

        for (size_t row = 0; row < SP_PANEL_ROWS; row++)
            codes[4 * row] = (uint8_t)(r->code[k][row] | r->code[k + N / 2][row] << 4);
    }
    for (size_t row = 0; row < SP_PANEL_ROWS; row++)
        block[256 + SP_PANEL_ROWS * h + row] = (uint8_t)r->bytes[row];
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

static inline void encode(uint8_t *blocks, const float *rows, size_t n_rows, size_t cols,
                          const float *row_scale, const float *factors, float *workspace,
                          const struct sp_q4_tables *tables)
{
    float inverse[SP_PANEL_ROWS] = {0};

    for (size_t row = 0; row < n_rows; row++)
        inverse[row] = row_scale[row] > 0 ? 1.0f / row_scale[row] : 0;
    memset(workspace, 0, cols * SP_PANEL_ROWS * sizeof *workspace);
    for (size_t first = 0; first < cols; first += N) {
        size_t end = sp_gptq_block_end(cols, first), after = first + N;
        struct group group;
        struct rounded r;

        load_group(&group, rows + first, n_rows, cols, inverse, workspace + first * SP_PANEL_ROWS,
                   factors);
        fit_group(&r, &group, tables);
        store_group(blocks + first / SP_BLOCK * SP_Q4_BLOCK_SIZE, first / N % 2, &r);
        propagate(workspace + after * SP_PANEL_ROWS, &r, factors + N * N, end - after);
        factors += (end - first) * N;
    }
}

#endif
