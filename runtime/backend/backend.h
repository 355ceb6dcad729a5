/* The threads and kernels of all forward passes, and the matrix products that run on them.
 *
 * Only the panels of the weights are distributed over threads. A row's result does not depend on
 * the distribution (quantize/kernels/kernels.h), so the numbers of threads and of rows are free to
 * vary. */
#ifndef SP_RUNTIME_BACKEND_BACKEND_H
#define SP_RUNTIME_BACKEND_BACKEND_H

#include "format/base/mem.h"
#include "format/base/pool.h"
#include "format/config/config.h"
#include "format/packfile.h"
#include "quantize/kernels/kernels.h"
#include "runtime/backend/logits.h"
#include "runtime/vector/vector.h"

#include <stdatomic.h>

struct sp_backend;
struct sp_lora_rows;
struct sp_product;
struct sp_reference;
struct sp_remote;
struct sp_row_group;

/* Called with the rows that products are about to read: rows 0..n_rows-1, or, if groups is not
 * NULL, those that each matrix of a stack reads. `observe` is NULL if none is set. */
struct sp_input_observer {
    void (*observe)(void *context, const struct sp_backend *backend,
                    const struct sp_product *products, size_t n_products,
                    const struct sp_acts *acts, size_t n_rows, const struct sp_row_group *groups,
                    size_t n_groups);
    void *context; /* borrowed while it is set */
};

struct sp_backend {
    struct sp_pool *pool;              /* owned */
    struct sp_remote *remote;          /* processes that compute with this one; borrowed; NULL:
                                          none */
    struct sp_reference *reference;    /* multiplies instead of the kernels; owned; NULL: they do */
    const struct sp_kernels *kernels;  /* static */
    const struct sp_vector *vector;    /* static; same instruction set */
    struct sp_input_observer observer; /* observes the inputs of all products */
    const struct sp_pack *pack;        /* has the weights of all products; borrowed or NULL */
    struct sp_lora_rows **lora;        /* [1] the adapters of the rows of the running pass, which
                                          sets it; NULL there: none; the array is owned */
};

/* kernels: the name of a kernel set, or NULL for the best one. n_threads: 0 for all cores. */
SP_MUST_CHECK enum sp_status sp_backend_init(struct sp_backend *backend, const char *kernels,
                                             unsigned n_threads, struct sp_err *err);
void sp_backend_release(struct sp_backend *backend);

/* A weight matrix [rows][cols], in the layout of the packed file. */
struct sp_matrix {
    enum sp_dtype dtype;
    size_t rows, cols;
    size_t n_panels, panel_size;
    const uint8_t *panels; /* mapped, borrowed from the pack */
};

/* out[0..cols-1] = a row of a matrix, as of an embedding. */
void sp_backend_read_row(const struct sp_backend *backend, float *out, const struct sp_matrix *w,
                         size_t row);

/* Leading dimension of a buffer for a product with `rows` output rows. */
size_t sp_matrix_ld(size_t rows);

/* Rows of a product that are only needed for their largest elements, so that other processes may
 * keep their columns. */
struct sp_remote_rows {
    struct sp_remote *remote;  /* has the other columns; NULL: the rows are complete */
    uint64_t number;           /* of the rows, for `remote` */
    const struct sp_matrix *w; /* of the product */
    float *y;                  /* [n_rows][ldy] its results */
    size_t ldy;
    /* [n_rows][ld_sums] the blocks of rows that are not complete; NULL: they are not needed. */
    struct sp_logits_sum *sums;
    size_t ld_sums;
};

/* Operations on the rows of a product while they are in the nearest cache. */
struct sp_epilogue {
    float scale;                   /* y *= scale, unless it is 1 */
    float cap;                     /* then y = cap tanh(y / cap), unless it is 0 */
    atomic_uint_least64_t *argmax; /* [n_rows] order of the largest element, for sp_argmax_index */
    /* The product sets all but the sums, which are allocated; NULL: all of y is needed. */
    struct sp_remote_rows *rows;
    /* The rows of which the product's bias is row `bias_row`; NULL: the bias is no such row. */
    const struct sp_remote_rows *bias_rows;
    size_t bias_row;
};

/* The index of a row's largest element, the lowest of equal ones; SIZE_MAX: one is not finite. */
size_t sp_argmax_index(uint64_t order);
/* A row's largest element, if all its elements are finite. */
float sp_argmax_value(uint64_t order);
/* *argmax = the larger of two orders of elements. */
void sp_argmax_update(atomic_uint_least64_t *argmax, uint64_t order);
/* Updates it with elements begin..begin+len-1, y[len]. */
void sp_argmax_of_part(atomic_uint_least64_t *argmax, const struct sp_vector *vector,
                       const float *y, size_t begin, size_t len);

/* y = W x (+ bias). If `gated`, y = act(W x) * factors, where the factors are `factors` or, if that
 * is NULL, the rows of the next product, which has the same shape. */
struct sp_product {
    const struct sp_matrix *w;
    const float *bias;   /* [rows] or NULL */
    const float *scales; /* [rows] of W x before the bias, or NULL; of one matrix only */
    float *y;            /* [n_rows][ldy], ldy >= sp_matrix_ld(w->rows) */
    size_t ldy;
    bool gated;
    enum sp_activation activation; /* of a gated product */
    const float *factors;          /* [n_rows][ld_factors], or NULL: the next product makes them */
    size_t ld_factors;             /* 0: all rows have the same factors */
    /* Of SP_SILU and SP_SWIGLU_CLAMPED: factors are clamped to -limit..limit, gates to at most
     * gate_limit; 0: SP_SILU has no limits. Of SP_SWIGLU_CAPPED: the soft caps of both. */
    float limit, gate_limit;
    const struct sp_xielu *xielu;       /* of SP_XIELU, which ignores the factors */
    const struct sp_epilogue *epilogue; /* NULL: none; not for a gated product */
    /* The activations whose rows are y's. If they are coded, the codes of all rows are computed
     * too, and y is then undefined: processes exchange codes instead of floats. NULL: none. */
    const struct sp_acts *into;
};

enum { SP_MAX_PRODUCTS = 6 };

/* Prepares rows that products make and the product with `reader` reads: their columns, and whether
 * they are coded, since `reader` needs no more than codes and nothing observes its input. */
void sp_backend_prepare(const struct sp_backend *backend, struct sp_acts *acts,
                        const struct sp_matrix *reader);

/* Computes products that read the same activations, rows 0..n_rows-1 (any number), whose x is set
 * or which are coded. Quantizes the rows first if the weights of any product need codes. */
void sp_backend_multiply(const struct sp_backend *backend, const struct sp_product *products,
                         size_t n_products, const struct sp_acts *acts, size_t n_rows);

/* y[n_rows][ldy] = W x (+ bias, unless it is NULL), one product as sp_backend_multiply has it. */
void sp_backend_product(const struct sp_backend *backend, float *y, size_t ldy,
                        const struct sp_matrix *w, const float *bias, const struct sp_acts *acts,
                        size_t n_rows);

/* Computes a product that has its panels and its activations at hand. */
void sp_backend_matmul(const struct sp_backend *backend, const struct sp_matmul *m);

/* Computes the codes of rows 0..n_rows-1 of x. */
void sp_backend_quantize(const struct sp_backend *backend, const struct sp_acts *acts,
                         size_t n_rows);

/* Calls the observer, if there is one. sp_backend_multiply does so itself. */
void sp_backend_observe(const struct sp_backend *backend, const struct sp_product *products,
                        size_t n_products, const struct sp_acts *acts, size_t n_rows,
                        const struct sp_row_group *groups, size_t n_groups);

/* n rows of activations from row `from` on, which one matrix of a stack multiplies; the results are
 * y's rows from row `to` on. */
struct sp_row_group {
    size_t matrix, from, to, n;
};

/* Computes products for several groups of rows at once. Each product's w is the first matrix of its
 * stack, and bias, if any, those of all its matrices. n_rows: activation rows of all groups. */
void sp_backend_multiply_groups(const struct sp_backend *backend, const struct sp_product *products,
                                size_t n_products, const struct sp_acts *acts, size_t n_rows,
                                const struct sp_row_group *groups, size_t n_groups);

/* Computes and observes a product with a stack of matrices, matrix h with the n_rows rows from row
 * h * n_rows on. groups: [n_heads], scratch. */
void sp_backend_multiply_heads(const struct sp_backend *backend, const struct sp_product *product,
                               const struct sp_acts *acts, struct sp_row_group *groups,
                               size_t n_heads, size_t n_rows);

/* Runs fn for rows 0..n_rows-1, on the pool if there are enough rows. */
typedef void sp_row_fn(void *context, size_t row);
void sp_backend_rows(const struct sp_backend *backend, size_t n_rows, sp_row_fn *fn, void *context);

#endif
