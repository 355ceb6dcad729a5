/* Low-rank products that are added to products of matrices, for some rows of a pass: the backend's
 * part of LoRA adapters (runtime/model/lora.c).
 *
 *   y = W x + s (B (A x))     A [rank][cols], B [rows][rank], s: the scale, all float32
 *
 * The row x is that of floats, also where W multiplies its codes. A x and B (A x) are sums of the
 * kernels in their one order, so a result is a function of its row, the weights and the adapter
 * alone, and rows without an adapter have the bits that they have in a pass without adapters. */
#ifndef SP_RUNTIME_BACKEND_LORA_ROWS_H
#define SP_RUNTIME_BACKEND_LORA_ROWS_H

#include "runtime/backend/backend.h"
#include "runtime/spectool.h"

struct sp_product_job;

/* The products of one adapter, by the matrix that they belong to. A zeroed struct has none. */
struct sp_lora_products {
    struct sp_lora_factors *products; /* [n] by the address of the matrix; owned */
    size_t n, cap, rank;              /* rank: the largest of the products */
};

void sp_lora_products_release(struct sp_lora_products *adapter);

/* Adds a copy of the factors of a product that belongs to w, which is borrowed and has its shape.
 * exponents: [w->cols] those of its columns if w is smoothed (format/weights/smoothing.h), else
 * NULL. SP_E_USAGE: w has one already; SP_E_INPUT: a number is not finite; SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_lora_products_add(struct sp_lora_products *adapter,
                                                  const struct sp_matrix *w,
                                                  const struct sp_lora_product *product,
                                                  const int8_t *exponents, struct sp_err *err);

/* ---- passes ---- */

/* Consecutive rows of a pass that have the same adapter with the same scale. */
struct sp_lora_span {
    const struct sp_lora_products *adapter;
    float scale;
    size_t first, n;
};

/* The adapters of the rows of a pass, and the rows A x. A pass begins with n_spans and n_rows 0. */
struct sp_lora_rows {
    struct sp_lora_span *spans; /* [max_rows] */
    size_t n_spans, n_rows, max_rank;
    struct sp_acts inner[SP_MAX_PRODUCTS]; /* [max_rows][max_rank] A x, of each product of a job */
};

/* Those of passes of at most max_rows rows and adapters of at most this rank, in memory of an
 * arena; NULL if it has none. */
struct sp_lora_rows *sp_lora_rows_new(struct sp_arena *memory, size_t max_rows, size_t max_rank);

/* Appends n rows of one adapter (NULL: none), borrowed for the pass, with its scale. */
void sp_lora_rows_append(struct sp_lora_rows *rows, const struct sp_lora_products *adapter,
                         float scale, size_t n);

/* Computes A x for the products of a job over all rows of the pass, whose activations have floats.
 * Returns false if no adapter has a product for any of them. */
bool sp_lora_rows_begin(struct sp_lora_rows *rows, const struct sp_product_job *job);

/* Adds s (B (A x)) to panels first..first+n_panels-1 of product number i of the job. y: row 0 of
 * the pass at the first of these panels; ldy: from one row to the next. From any thread. */
void sp_lora_rows_add(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                      float *y, size_t ldy, size_t first, size_t n_panels);

#endif
