/* LoRA adapters that stay apart from the weights: to the product of a matrix W with the rows of
 * some sequences of a pass, the low-rank product of each sequence's adapter is added.
 *
 *   y = W x + B (A x)     A [rank][cols], B [rows][rank] with the adapter's scale, both float32
 *
 * The row x is that of floats, also where W multiplies its codes. A x and B (A x) are sums of the
 * kernels in their one order, so a result is a function of its row, the weights and the adapter
 * alone, and rows without an adapter have the bits that they have in a pass without adapters. */
#ifndef SP_RUNTIME_MODEL_LORA_H
#define SP_RUNTIME_MODEL_LORA_H

#include "runtime/model/model.h"
#include "runtime/spectool.h"

struct sp_batch_seq;
struct sp_product_job;

/* Opens an adapter of a model, which is borrowed: the work of sp_lora_open. sp_lora_add, which
 * raises the model's max_lora_rank, and sp_lora_close are declared in spectool.h. */
SP_MUST_CHECK enum sp_status sp_lora_new(struct sp_lora **out, struct sp_model *model,
                                         uint64_t digest, struct sp_err *err);

uint64_t sp_lora_digest(const struct sp_lora *lora);
size_t sp_lora_rank(const struct sp_lora *lora); /* the largest of its products */

/* ---- passes ---- */

/* The adapters of the rows of a pass, and the rows A x; opaque. */
struct sp_lora_rows;

/* Allocates for passes of at most max_rows rows and adapters of at most this rank. */
SP_MUST_CHECK enum sp_status sp_lora_rows_new(struct sp_lora_rows **out, size_t max_rows,
                                              size_t max_rank, struct sp_err *err);
void sp_lora_rows_free(struct sp_lora_rows *rows); /* NULL is fine */
size_t sp_lora_rows_max_rank(const struct sp_lora_rows *rows);

/* Sets the adapters of a pass's rows to those of its sequences. Returns false if there are none. */
bool sp_lora_rows_set(struct sp_lora_rows *rows, const struct sp_batch_seq *seqs, size_t n_seqs);

/* Computes A x for the products of a job over all rows of the pass, whose activations have floats.
 * Returns false if no adapter has a product for any of them. */
bool sp_lora_rows_begin(struct sp_lora_rows *rows, const struct sp_product_job *job);

/* Adds B (A x) to panels first..first+n_panels-1 of product number i of the job. y: row 0 of the
 * pass at the first of these panels; ldy: from one row to the next. From any thread. */
void sp_lora_rows_add(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                      float *y, size_t ldy, size_t first, size_t n_panels);

#endif
