/* One product of matrices with rows of activations, cut into panels: the work that the threads of a
 * process divide among themselves, and processes that compute a model together. A job covers a
 * slice of the panels of each product: all of them in a single process. */
#ifndef SP_RUNTIME_BACKEND_PRODUCT_JOB_H
#define SP_RUNTIME_BACKEND_PRODUCT_JOB_H

#include "runtime/backend/backend.h"

struct sp_panel_slice {
    size_t first, n; /* panels */
};

struct sp_product_job;

/* Sets panels first..first+n_panels-1 of the results of product i for a group of rows. */
typedef void sp_panels_fn(const struct sp_product_job *job, const struct sp_row_group *group,
                          size_t i, size_t first, size_t n_panels);

struct sp_product_job {
    const struct sp_backend *backend;
    const struct sp_product *products;
    size_t n_products;
    const struct sp_acts *acts;
    size_t n_rows; /* of acts */
    const struct sp_row_group *groups;
    size_t n_groups;
    const struct sp_lora_rows *lora; /* what adapters add to all rows of a pass; NULL: nothing */
    struct sp_panel_slice slices[SP_MAX_PRODUCTS];
    bool y_is_slice;    /* the rows of y and of a bias begin with the slice, not with column 0 */
    sp_panels_fn *copy; /* takes results from elsewhere; NULL: they are multiplied */
};

/* True if the product makes the codes of activations. */
bool sp_product_makes_codes(const struct sp_product *product);

/* True if the next product makes the factors of this one's gate. */
bool sp_product_uses_next(const struct sp_product *product);

/* Rows of the first product's matrix in its slice. */
size_t sp_product_job_columns(const struct sp_product_job *job);

/* Runs the job on the threads of its backend. */
void sp_product_job_run(struct sp_product_job *job);

/* Rows of the results: one more than the last row of any group. */
size_t sp_product_job_rows(const struct sp_product_job *job);

#endif
