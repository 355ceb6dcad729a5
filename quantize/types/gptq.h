/* GPTQ for q2 to q6: each column is quantized, and its error is pushed into the columns that are
 * not quantized yet, weighted by the Hessian of the inputs.
 *
 * H = sum(x x') is collected over the inputs x of a matrix. A row of weights w stored as q makes
 * the squared error (w - q) H (w - q)' of its outputs. With H = (I + M) D (I + M)', M strictly
 * upper and D diagonal, that is
 *
 *   sum over k of D[k] * (v[k] - q[k])^2,   v[k] = w[k] + sum over i < k of (w[i] - q[i]) * M[i][k]
 *
 * so columns are rounded one after the other, each after the weighted errors of the columns before
 * it were added; D weighs the 16 columns that choose a scale byte together (GPTQ, and LDLQ of QuIP,
 * arXiv 2307.13304, in blocks). What is rounded first has the most columns left to carry its
 * errors, so the order is that of the sizes of the inputs: groups of 16 columns, those with the
 * largest sum of squares first (which makes the error on other texts 1 to 2 % smaller).
 *
 * H stands for all inputs to come, of which the collected ones are a sample: its diagonal is
 * increased by 0.3 of itself (the best of 0.001 to 1 for SmolLM2-135M on texts of other kinds) and
 * by 1e-4 of the block's mean (by 1 if that is 0).
 *
 * Columns are divided into blocks of SP_GPTQ_BLOCK, the last one may be shorter; between blocks H
 * counts as zero. The sums H, and the factors M and D, which replace them in place, are stored by
 * block. First comes the order of its groups of 16 columns: the number in the block of the group
 * that is rounded first, second and so on; 0 in sums. Then follow, for each group, columns
 * first..first+15, and each column j from `first` to the end of the block, 16 floats for the pairs
 * (first + i, j). A sum is H; a factor is M if first + i < j, D relative to the largest D of the
 * group if first + i == j, else 0. Columns of factors are counted in that order. A calibration file
 * has the factors as bf16.
 *
 * All results are functions of the input floats and their order alone. */
#ifndef SP_QUANTIZE_TYPES_GPTQ_H
#define SP_QUANTIZE_TYPES_GPTQ_H

#include "format/base/err.h"
#include "quantize/types/microscale_fit.h"

#include <stdbool.h>

enum { SP_GPTQ_BLOCK = 1024, SP_GPTQ_GROUP = 16 };

/* Sets the number of floats of a matrix's sums or factors; cols is a multiple of 16. Returns false
 * on overflow. */
bool sp_gptq_size(size_t *out, size_t cols);
/* The number of columns of factors of n floats; 0: factors do not have this size. */
size_t sp_gptq_cols(size_t n);

static inline size_t sp_gptq_n_groups(size_t cols)
{
    return cols / SP_GPTQ_GROUP;
}

/* One past the last column of the block that column k is in. */
static inline size_t sp_gptq_block_end(size_t cols, size_t k)
{
    size_t end = (k / SP_GPTQ_BLOCK + 1) * SP_GPTQ_BLOCK;

    return end < cols ? end : cols;
}

/* Offset of the numbers of a block, which begin with its order. */
size_t sp_gptq_block_offset(size_t block);
/* Offset of the floats for the pairs of group g. */
size_t sp_gptq_offset(size_t cols, size_t g);

/* Makes the factors those for inputs that were divided by 2^exponents, and weights that were
 * multiplied by it, by column: M[i][k] * 2^(e[k] - e[i]), D[k] / 2^(2 e[k]). */
void sp_gptq_smooth(float *factors, size_t cols, const int8_t *exponents);

/* out[0..cols-1] = the diagonal of sums. */
void sp_gptq_diagonal(float *out, const float *sums, size_t cols);

/* True if all are squares of a matrix in a calibration: within 0 and 1. */
bool sp_gptq_are_squares(const float *squares, size_t n);

/* True if the factors, sp_gptq_size bf16, are finite and small enough for the encoder, and the
 * groups of each block have an order. */
bool sp_gptq_is_sound(const uint8_t *factors, size_t cols);

/* How the errors of a matrix, or of a stack of matrices of one size, are weighed. Borrowed; all are
 * NULL: equally. */
struct sp_gptq_weights {
    const uint8_t *factors; /* [sp_gptq_size] bf16, of all matrices */
    const float *squares;   /* [n_matrices][cols], the sums of squares of the inputs of each */
};

static inline bool sp_gptq_is_weighed(struct sp_gptq_weights weights)
{
    return weights.factors || weights.squares;
}

/* out[sp_gptq_size] = the factors of a matrix of the stack. If only squares are known, M is zero,
 * and D is a column's square plus a tenth of the mean, or the same for all columns if no input was
 * seen. exponents: NULL, or as in sp_gptq_smooth (not with squares). */
void sp_gptq_factors(float *out, struct sp_gptq_weights weights, size_t matrix, size_t cols,
                     const int8_t *exponents);

/* The factors of the matrix whose panels a thread encodes, and the encoder's workspace. Zeroed, it
 * is empty. */
struct sp_gptq_room {
    float *factors;   /* [sp_gptq_size] */
    float *workspace; /* [cols][16] */
    size_t factors_cap, workspace_cap;
    const void *made_of; /* the matrix's numbers in the weights; NULL: no factors yet */
    const int8_t *exponents;
};

/* Makes the factors as sp_gptq_factors does, unless the last ones were made of the same arrays, and
 * room for the workspace. *factors = those in the room. If errors weigh equally, *factors is NULL,
 * and nothing is reserved. */
SP_MUST_CHECK enum sp_status sp_gptq_prepare(const float **factors, struct sp_gptq_room *room,
                                             struct sp_gptq_weights weights, size_t matrix,
                                             size_t cols, const int8_t *exponents,
                                             struct sp_err *err);
void sp_gptq_room_release(struct sp_gptq_room *room);

struct sp_microscale_books;

/* The inner loops, per instruction set. All give the same bits. */
struct sp_gptq_kernels {
    /* Adds rows x[n_rows][ld], in order, to the sums of the group of columns first..first+15, whose
     * block ends at `end`. */
    void (*accumulate)(float *sums, const float *x, size_t ld, size_t n_rows, size_t first,
                       size_t end);
    /* H = (I + M) D (I + M)' for `width` columns, a multiple of 16: a[j * SP_GPTQ_BLOCK + i], i <=
     * j, is H[i][j] before, M[i][j] or D[i] after. Elements of D are at least `least`. */
    void (*decompose)(double *a, size_t width, double least);
    /* Writes the blocks of a panel (without its head) from rows[n_rows][cols], with factors of
     * sp_gptq_size floats, or without error propagation if factors is NULL; cols is a multiple of
     * 32, workspace: [cols][16], NULL without factors. Missing rows become zeros. */
    void (*encode)(uint8_t *blocks, const float *rows, size_t n_rows, size_t cols,
                   const float *row_scale, const float *factors, float *workspace,
                   const struct sp_microscale_books *books);
};

extern const struct sp_gptq_kernels sp_gptq_ref, sp_gptq_avx2, sp_gptq_avx512;

/* Replaces the sums of a matrix by its factors, in place. workspace: SP_GPTQ_BLOCK^2. */
void sp_gptq_solve(float *sums, size_t cols, double *workspace,
                   const struct sp_gptq_kernels *kernels);

#endif
