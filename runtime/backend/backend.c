#include "runtime/backend/backend.h"

#include "quantize/codec.h"
#include "runtime/backend/lora_rows.h"
#include "runtime/backend/product_job.h"
#include "runtime/backend/reference.h"
#include "runtime/backend/remote.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 3 }; /* as many rows finish before a worker has woken up */

enum sp_status sp_backend_init(struct sp_backend *backend, const char *kernels, unsigned n_threads,
                               struct sp_err *err)
{
    struct sp_backend result = {0};
    enum sp_status st;

    if ((st = sp_kernels_find(&result.kernels, kernels, err))) return st;
    result.vector = sp_vector_find(result.kernels->name);
    if (result.vector == NULL)
        return sp_fail(err, SP_E_BUG, "kernel set %s has no vector table", result.kernels->name);
    if ((st = sp_new(&result.lora, 1, sizeof *result.lora, err))) return st;
    if ((st = sp_pool_open(&result.pool, n_threads, err))) {
        free(result.lora);
        return st;
    }
    *backend = result;
    return SP_OK;
}

void sp_backend_release(struct sp_backend *backend)
{
    sp_pool_close(backend->pool);
    sp_reference_free(backend->reference);
    free(backend->lora);
    memset(backend, 0, sizeof *backend);
}

void sp_backend_read_row(const struct sp_backend *backend, float *out, const struct sp_matrix *w,
                         size_t row)
{
    if (backend->remote)
        backend->remote->ops->prefetch(
            backend->remote, w->panels + row / SP_PANEL_ROWS * w->panel_size, w->panel_size);
    sp_panel_row(out, w->dtype, w->panels, w->cols, row);
}

size_t sp_matrix_ld(size_t rows)
{
    return sp_round_up(rows, 64);
}

struct row_job {
    sp_row_fn *fn;
    void *context;
};

static void run_row(void *context, size_t row, unsigned worker)
{
    const struct row_job *job = context;

    (void)worker;
    job->fn(job->context, row);
}

void sp_backend_rows(const struct sp_backend *backend, size_t n_rows, sp_row_fn *fn, void *context)
{
    if (n_rows > FEW_ROWS) {
        sp_pool_run(backend->pool, n_rows, run_row, &(struct row_job){fn, context});
        return;
    }
    for (size_t t = 0; t < n_rows; t++)
        fn(context, t);
}

void sp_backend_matmul(const struct sp_backend *backend, const struct sp_matmul *m)
{
    if (backend->reference)
        sp_reference_multiply(backend->reference, backend->kernels, m);
    else
        sp_matmul_rows(backend->kernels, m);
}

static bool wants_codes(const struct sp_backend *backend, enum sp_dtype dtype)
{
    if (backend->reference) return sp_reference_wants_codes(backend->reference, dtype);
    return sp_dtype_is_block(dtype);
}

void sp_backend_prepare(const struct sp_backend *backend, struct sp_acts *acts,
                        const struct sp_matrix *reader)
{
    acts->cols = reader->cols;
    acts->coded =
        wants_codes(backend, reader->dtype) && !backend->observer.observe && *backend->lora == NULL;
}

struct quantize_job {
    const struct sp_backend *backend;
    const struct sp_acts *acts;
};

static void quantize_item(void *context, size_t t)
{
    const struct quantize_job *job = context;

    job->backend->kernels->tile->quantize_row(job->acts, t);
}

void sp_backend_quantize(const struct sp_backend *backend, const struct sp_acts *acts,
                         size_t n_rows)
{
    struct quantize_job job = {backend, acts};

    sp_backend_rows(backend, n_rows, quantize_item, &job);
}

/* lora: the adapters of the rows; NULL: none. */
static void multiply(const struct sp_backend *backend, const struct sp_product *products,
                     size_t n_products, const struct sp_acts *acts, size_t n_rows,
                     const struct sp_row_group *groups, size_t n_groups, struct sp_lora_rows *lora)
{
    struct sp_product_job job = {.backend = backend,
                                 .products = products,
                                 .n_products = n_products,
                                 .acts = acts,
                                 .n_rows = n_rows,
                                 .groups = groups,
                                 .n_groups = n_groups};
    bool want_codes = false;

    assert(n_products <= SP_MAX_PRODUCTS);
    for (size_t i = 0; i < n_products; i++) {
        assert(products[i].w->cols == acts->cols);
        want_codes = want_codes || wants_codes(backend, products[i].w->dtype);
        job.slices[i] = (struct sp_panel_slice){0, products[i].w->n_panels};
        const struct sp_epilogue *e = products[i].epilogue;
        for (size_t t = 0; e && t < n_rows; t++)
            atomic_store_explicit(&e->argmax[t], 0, memory_order_relaxed);
        if (e && e->rows) e->rows->remote = NULL;
    }
    if (want_codes && !acts->coded) sp_backend_quantize(backend, acts, n_rows);
    if (lora && sp_lora_rows_begin(lora, &job)) job.lora = lora;
    if (backend->remote && backend->remote->ops->multiply(backend->remote, &job)) return;
    sp_product_job_run(&job);
    for (size_t i = 0; i < n_products; i++) {
        if (!sp_product_makes_codes(&products[i])) continue;
        sp_backend_quantize(backend, products[i].into, sp_product_job_rows(&job));
    }
}

void sp_backend_multiply_groups(const struct sp_backend *backend, const struct sp_product *products,
                                size_t n_products, const struct sp_acts *acts, size_t n_rows,
                                const struct sp_row_group *groups, size_t n_groups)
{
    multiply(backend, products, n_products, acts, n_rows, groups, n_groups, NULL);
}

void sp_backend_observe(const struct sp_backend *backend, const struct sp_product *products,
                        size_t n_products, const struct sp_acts *acts, size_t n_rows,
                        const struct sp_row_group *groups, size_t n_groups)
{
    const struct sp_input_observer *o = &backend->observer;

    if (o->observe == NULL) return;
    o->observe(o->context, backend, products, n_products, acts, n_rows, groups, n_groups);
}

void sp_backend_multiply_heads(const struct sp_backend *backend, const struct sp_product *product,
                               const struct sp_acts *acts, struct sp_row_group *groups,
                               size_t n_heads, size_t n_rows)
{
    for (size_t h = 0; h < n_heads; h++)
        groups[h] = (struct sp_row_group){h, h * n_rows, h * n_rows, n_rows};
    sp_backend_observe(backend, product, 1, acts, n_heads * n_rows, groups, n_heads);
    sp_backend_multiply_groups(backend, product, 1, acts, n_heads * n_rows, groups, n_heads);
}

void sp_backend_multiply(const struct sp_backend *backend, const struct sp_product *products,
                         size_t n_products, const struct sp_acts *acts, size_t n_rows)
{
    const struct sp_row_group all = {.n = n_rows};

    if (n_products == 0) return;
    sp_backend_observe(backend, products, n_products, acts, n_rows, NULL, 0);
    multiply(backend, products, n_products, acts, n_rows, &all, 1, *backend->lora);
}

void sp_backend_product(const struct sp_backend *backend, float *y, size_t ldy,
                        const struct sp_matrix *w, const float *bias, const struct sp_acts *acts,
                        size_t n_rows)
{
    const struct sp_product product = {.w = w, .bias = bias, .y = y, .ldy = ldy};

    sp_backend_multiply(backend, &product, 1, acts, n_rows);
}
