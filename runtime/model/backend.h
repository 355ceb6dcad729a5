/* What every forward pass needs from the machine: threads, kernels, and the products of matrices
 * with rows of activations that run on them.
 *
 * A product is split over threads by weight panels only; a row's result does not depend on the
 * split (quantize/kernels.h), so threads and rows are free to vary. */
#ifndef SP_RUNTIME_MODEL_BACKEND_H
#define SP_RUNTIME_MODEL_BACKEND_H

#include "format/base/mem.h"
#include "format/base/pool.h"
#include "format/model/config.h"
#include "quantize/kernels.h"
#include "runtime/vector/vector.h"

#include <stdatomic.h>

struct sp_backend;
struct sp_product;

/* Is called with the rows that products are about to read; observe NULL: nothing observes. */
struct sp_input_observer {
    void (*observe)(void *context, const struct sp_backend *backend,
                    const struct sp_product *products, size_t n_products,
                    const struct sp_acts *acts, size_t n_rows);
    void *context; /* borrowed while it is set */
};

struct sp_backend {
    struct sp_pool *pool;              /* owned */
    const struct sp_kernels *kernels;  /* static */
    const struct sp_vector *vector;    /* static; same instruction set */
    struct sp_input_observer observer; /* of the inputs of all products */
};

/* kernels: a name or NULL for the best; n_threads 0: all cores. */
SP_MUST_CHECK enum sp_status sp_backend_init(struct sp_backend *backend, const char *kernels,
                                             unsigned n_threads, struct sp_err *err);
void sp_backend_release(struct sp_backend *backend);

/* A weight matrix [rows][cols] as it lies in the packed file. */
struct sp_matrix {
    enum sp_dtype dtype;
    size_t rows, cols;
    size_t n_panels, panel_size;
    const uint8_t *panels; /* mapped, borrowed from the pack */
};

/* Matrix i of a stack of equal ones (experts): panels lie one after the other. */
struct sp_matrix sp_matrix_at(const struct sp_matrix *stack, size_t i);

/* Elements between rows of a buffer that takes a product of `rows` output rows. */
size_t sp_matrix_ld(size_t rows);

/* What becomes of a product's rows, and is learned of them, while they are in the nearest cache. */
struct sp_finish {
    float scale;                 /* y *= scale, unless it is 1 */
    float cap;                   /* then y = cap tanh(y / cap), unless it is 0 */
    atomic_uint_least64_t *best; /* [n_rows]: each row's largest element, for sp_best_index */
};

/* The index of the row's largest element, the lowest of equal ones; SIZE_MAX if any element is not
 * finite. */
size_t sp_best_index(uint64_t best);

/* y = W x (+ bias). Two consecutive products joined by `gate` give y = act(y) * next.y in the first
 * one's buffer; both have the same shape. A product with `ones` gives act(y) without another. */
struct sp_product {
    const struct sp_matrix *w;
    const float *bias; /* [rows] or NULL */
    float *y;          /* [n_rows][ldy], ldy >= sp_matrix_ld(w->rows) */
    size_t ldy;
    bool gated;
    enum sp_activation activation;  /* of a gated product */
    const float *factors;           /* [n_rows][ld_factors], in place of a next product; or NULL */
    size_t ld_factors;              /* 0: the same for all rows */
    float limit;                    /* of SP_SWIGLU_CLAMPED */
    const struct sp_xielu *xielu;   /* of SP_XIELU */
    const struct sp_finish *finish; /* NULL: nothing; not together with a gate */
};

enum { SP_MAX_PRODUCTS = 4 };

/* All products read the same activations, rows 0..n_rows-1 (any number), whose x is set;
 * quantizes them first if any matrix wants codes. */
void sp_backend_multiply(const struct sp_backend *backend, const struct sp_product *products,
                         size_t n_products, const struct sp_acts *acts, size_t n_rows);

/* Calls the observer, if there is one. sp_backend_multiply does so itself. */
void sp_backend_observe(const struct sp_backend *backend, const struct sp_product *products,
                        size_t n_products, const struct sp_acts *acts, size_t n_rows);

/* Rows that one matrix of a stack multiplies: n of the activations from row `from` on, to become
 * y's from row `to` on. */
struct sp_row_group {
    size_t matrix, from, to, n;
};

/* The same for several groups of rows at once: each product's w is the first matrix of its stack,
 * and bias, where there is any, those of all its matrices. n_rows: of the activations, all groups'.
 */
void sp_backend_multiply_groups(const struct sp_backend *backend, const struct sp_product *products,
                                size_t n_products, const struct sp_acts *acts, size_t n_rows,
                                const struct sp_row_group *groups, size_t n_groups);

/* Runs fn for rows 0..n_rows-1, on the pool when that pays for so many rows. */
void sp_backend_rows(const struct sp_backend *backend, size_t n_rows, sp_pool_fn *fn,
                     void *context);

#endif
