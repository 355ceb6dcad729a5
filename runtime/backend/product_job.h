/* One product of matrices with rows of activations, cut into panels: the work that the threads of a
 * process, and the ranks of a model, divide among themselves.
 *
 * A job covers a slice of the panels of each product: all of them in a single process, else those
 * of one rank. The job of a rank's answer does not multiply: it copies what the rank computed, and
 * does the rest of the work on it. */
#ifndef SP_RUNTIME_BACKEND_PRODUCT_JOB_H
#define SP_RUNTIME_BACKEND_PRODUCT_JOB_H

#include "runtime/backend/backend.h"

struct sp_panel_slice {
    size_t first, n; /* panels */
};

struct sp_product_job {
    const struct sp_backend *backend;
    const struct sp_product *products;
    size_t n_products;
    const struct sp_acts *acts;
    const struct sp_row_group *groups;
    size_t n_groups;
    const struct sp_lora_rows *lora; /* what adapters add to all rows of a pass; NULL: nothing */
    struct sp_panel_slice slices[SP_MAX_PRODUCTS];
    /* On the rank that made them, the rows of y and a bias begin with the slice; otherwise with
     * column 0. */
    bool y_is_slice;
    bool is_answer;                        /* the slices were multiplied by another rank */
    bool gated_by_sender[SP_MAX_PRODUCTS]; /* the answer of this product went through its gate */
    bool coded_by_sender[SP_MAX_PRODUCTS]; /* the answer of this product was quantized */
    /* The number under which ranks keep the rows of the only product, and answer with the order of
     * the largest element of each; 0: they answer with the rows. */
    uint64_t kept;
    /* They answer with the sums of each row's blocks, too; the slices are then whole blocks. */
    bool has_sums;
    /* [n_out_rows][16 * slice.n] floats, or codes and scales; borrowed */
    const void *answers[SP_MAX_PRODUCTS];
    const float *scales[SP_MAX_PRODUCTS]; /* [n_out_rows][slice.n / 2] of codes */
};

/* Panels that ranks do not divide: a block of activations, and one of logits. */
enum {
    SP_BLOCK_PANELS = SP_BLOCK / SP_PANEL_ROWS,
    SP_LOGITS_PANELS = SP_LOGITS_BLOCK / SP_PANEL_ROWS
};

/* The part of `rank` of n_panels panels: whole blocks of `block` panels. */
struct sp_panel_slice sp_panel_slice_of(size_t n_panels, size_t block, unsigned rank,
                                        unsigned n_ranks);

/* True if the product makes the codes of activations. */
bool sp_product_makes_codes(const struct sp_product *product);

/* True if the next product makes the factors of this one's gate. */
bool sp_product_uses_next(const struct sp_product *product);

/* Rows of the first product's matrix in its slice. */
size_t sp_product_job_columns(const struct sp_product_job *job);

/* *best = the larger of two orders of elements. */
void sp_best_update(atomic_uint_least64_t *best, uint64_t order);

/* Sums the blocks of the results of the only product, in its slice: sums[rows][ld], from the first
 * block of the slice on. */
void sp_product_job_sum(const struct sp_product_job *job, struct sp_logits_sum *sums, size_t ld);

/* Runs the job on the threads of its backend. */
void sp_product_job_run(struct sp_product_job *job);

/* Rows of the results: one more than the last row of any group. */
size_t sp_product_job_rows(const struct sp_product_job *job);

#endif
