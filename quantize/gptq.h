/* q4 with error feedback: what the inputs of a matrix say about which errors of its weights matter,
 * and an encoder that listens.
 *
 * Of a matrix's inputs x the sums H = sum(x x') are gathered. A row of weights w stored as q makes
 * the squared error (w - q) H (w - q)' of its outputs. With H = (I + M) D (I + M)', M strictly
 * upper and D diagonal, that is
 *
 *   sum over k of D[k] * (v[k] - q[k])^2,   v[k] = w[k] + sum over i < k of (w[i] - q[i]) * M[i][k]
 *
 * so columns are rounded from left to right, each after it has taken on what the errors before it
 * call for, and D weighs the 16 columns that choose a scale byte together (GPTQ, and LDLQ of QuIP,
 * arXiv 2307.13304, in blocks).
 *
 * H stands for all inputs to come, of which the sums are a sample: its diagonal is taken to be
 * larger by 0.3 of itself (the best of 0.001 to 1 for SmolLM2-135M on texts of other kinds) and by
 * 1e-4 of the block's mean (by 1 where that is 0).
 *
 * Columns are cut into blocks of SP_GPTQ_BLOCK, the last one may be shorter; between blocks H
 * counts as zero. Sums, and the numbers that are made of them in place, lie one group of 16 columns
 * after another: of group g, columns first..first+15, for each column j from `first` to the block's
 * end the 16 numbers of (first + i, j). Sums: H. Numbers: M where first + i < j, the share of D
 * among the group's where first + i == j (the largest is 1), else 0.
 *
 * Everything is a function of the numbers that come in and of their order alone. */
#ifndef SP_QUANTIZE_GPTQ_H
#define SP_QUANTIZE_GPTQ_H

#include "quantize/microscale_fit.h"

#include <stdbool.h>

enum { SP_GPTQ_BLOCK = 256, SP_GPTQ_GROUP = 16 };

/* Floats of sums, or of numbers, for a matrix of so many columns, a multiple of 16; false: too
 * many. */
bool sp_gptq_size(size_t *out, size_t cols);

static inline size_t sp_gptq_n_groups(size_t cols)
{
    return cols / SP_GPTQ_GROUP;
}

static inline size_t sp_gptq_n_blocks(size_t cols)
{
    return (cols + SP_GPTQ_BLOCK - 1) / SP_GPTQ_BLOCK;
}

/* One past the last column of the block that column k is in. */
static inline size_t sp_gptq_block_end(size_t cols, size_t k)
{
    size_t end = (k / SP_GPTQ_BLOCK + 1) * SP_GPTQ_BLOCK;

    return end < cols ? end : cols;
}

/* Where group g's part begins. */
size_t sp_gptq_offset(size_t cols, size_t g);

/* Makes numbers of the sums of one block, in place. room: SP_GPTQ_BLOCK^2. */
void sp_gptq_solve(float *sums, size_t cols, size_t block, double *room);

/* Are these numbers that the encoder can take? */
bool sp_gptq_is_sound(const float *numbers, size_t n);

/* The loops that take time, by instruction set: all give the same bits. */
struct sp_gptq_kernels {
    /* Adds rows x[n_rows][ld] to the sums of the group of columns first..first+15, whose block ends
     * at `end`: to each the sum of the rows', which are added in order. */
    void (*accumulate)(float *sums, const float *x, size_t ld, size_t n_rows, size_t first,
                       size_t end);
    /* Writes the blocks of a panel (all but its head) from rows[n_rows][cols]; `numbers` of
     * sp_gptq_size; cols is a multiple of 32, room: [cols][16]. Rows that are missing become
     * zeros. */
    void (*encode)(uint8_t *blocks, const float *rows, size_t n_rows, size_t cols,
                   const float *row_scale, const float *numbers, float *room,
                   const struct sp_q4_tables *tables);
};

extern const struct sp_gptq_kernels sp_gptq_ref, sp_gptq_avx2, sp_gptq_avx512;

#endif
