#include "runtime/backend/lora_rows.h"

#include "format/weights/smoothing.h"
#include "format/base/mem.h"
#include "runtime/backend/product_job.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sp_lora_factors {
    const struct sp_matrix *w;    /* borrowed */
    struct sp_matrix left, right; /* B and A, f32 */
    float *memory;                /* the panels of both, owned */
};

/* ---- adapters ---- */

void sp_lora_products_release(struct sp_lora_products *adapter)
{
    for (size_t i = 0; i < adapter->n; i++)
        free(adapter->products[i].memory);
    free(adapter->products);
    *adapter = (struct sp_lora_products){0};
}

/* The first product whose matrix does not lie below w. */
static size_t find_place(const struct sp_lora_products *adapter, const struct sp_matrix *w)
{
    size_t low = 0, high = adapter->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)adapter->products[middle].w < (uintptr_t)w)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The product of a matrix; NULL: the adapter has none. */
static const struct sp_lora_factors *find(const struct sp_lora_products *adapter,
                                          const struct sp_matrix *w)
{
    size_t i = find_place(adapter, w);

    return i < adapter->n && adapter->products[i].w == w ? &adapter->products[i] : NULL;
}

/* The matrix [rows][cols] whose panels are at `panels`, which is filled with its numbers. */
static struct sp_matrix lay_out(float *panels, const float *numbers, size_t rows, size_t cols)
{
    size_t n_panels = (rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;

    memset(panels, 0, n_panels * SP_PANEL_ROWS * cols * sizeof *panels);
    for (size_t r = 0; r < rows; r++) {
        float *lane = panels + r / SP_PANEL_ROWS * cols * SP_PANEL_ROWS + r % SP_PANEL_ROWS;
        for (size_t k = 0; k < cols; k++)
            lane[k * SP_PANEL_ROWS] = numbers[r * cols + k];
    }
    return (struct sp_matrix){.dtype = SP_F32,
                              .rows = rows,
                              .cols = cols,
                              .n_panels = n_panels,
                              .panel_size = cols * SP_PANEL_ROWS * sizeof *panels,
                              .panels = (const uint8_t *)panels};
}

/* The input of a smoothed matrix was divided by 2^exponents. */
static void smooth(float *panels, size_t n_panels, size_t cols, const int8_t *exponents)
{
    for (size_t i = 0; i < n_panels * cols; i++, panels += SP_PANEL_ROWS)
        for (size_t lane = 0; lane < SP_PANEL_ROWS; lane++)
            panels[lane] *= sp_power_of_two(exponents[i % cols]);
}

static bool is_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* Both factors as panels in one allocation. */
static enum sp_status copy_factors(struct sp_lora_factors *out, const struct sp_lora_product *p,
                                   const int8_t *exponents, struct sp_err *err)
{
    size_t left, right, n;
    enum sp_status st;

    if (!sp_mul(&left, sp_round_up(p->n_rows, SP_PANEL_ROWS), p->rank) ||
        !sp_mul(&right, sp_round_up(p->rank, SP_PANEL_ROWS), p->n_cols) ||
        !sp_add(&n, left, right)) {
        return sp_fail(err, SP_E_NOMEM, "tensor \"%s\": a rank of %zu is too large", p->tensor,
                       p->rank);
    }
    if (!is_finite(p->left, p->n_rows * p->rank) || !is_finite(p->right, p->rank * p->n_cols)) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor \"%s\": its low-rank product has a number that is not finite",
                       p->tensor);
    }
    if ((st = sp_new_aligned(&out->memory, n, sizeof *out->memory, err))) return st;
    out->left = lay_out(out->memory, p->left, p->n_rows, p->rank);
    out->right = lay_out(out->memory + left, p->right, p->rank, p->n_cols);
    if (exponents) smooth(out->memory + left, out->right.n_panels, p->n_cols, exponents);
    return SP_OK;
}

enum sp_status sp_lora_products_add(struct sp_lora_products *adapter, const struct sp_matrix *w,
                                    const struct sp_lora_product *product, const int8_t *exponents,
                                    struct sp_err *err)
{
    struct sp_lora_factors added = {.w = w};
    enum sp_status st;
    size_t at;

    assert(product->n_rows == w->rows && product->n_cols == w->cols);
    if (find(adapter, w)) {
        return sp_fail(err, SP_E_USAGE, "tensor \"%s\" has a low-rank product already",
                       product->tensor);
    }
    st = sp_grow(&adapter->products, &adapter->cap, adapter->n + 1, sizeof *adapter->products, err);
    if (st || (st = copy_factors(&added, product, exponents, err))) return st;
    at = find_place(adapter, w);
    memmove(adapter->products + at + 1, adapter->products + at,
            (adapter->n - at) * sizeof *adapter->products);
    adapter->products[at] = added;
    adapter->n++;
    if (product->rank > adapter->rank) adapter->rank = product->rank;
    return SP_OK;
}

/* ---- passes ---- */

struct sp_lora_rows *sp_lora_rows_new(struct sp_arena *memory, size_t max_rows, size_t max_rank)
{
    struct sp_lora_rows *rows = sp_arena_new(memory, 1, sizeof *rows);

    if (rows == NULL) return NULL;
    rows->max_rank = max_rank;
    rows->spans = sp_arena_new(memory, max_rows, sizeof *rows->spans);
    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++)
        rows->inner[i] = sp_arena_acts(memory, max_rows, max_rank);
    return rows;
}

void sp_lora_rows_append(struct sp_lora_rows *rows, const struct sp_lora_products *adapter,
                         float scale, size_t n)
{
    struct sp_lora_span *last = rows->n_spans ? &rows->spans[rows->n_spans - 1] : NULL;

    if (adapter && n && last && last->adapter == adapter && last->scale == scale &&
        last->first + last->n == rows->n_rows)
        last->n += n;
    else if (adapter && n)
        rows->spans[rows->n_spans++] = (struct sp_lora_span){adapter, scale, rows->n_rows, n};
    rows->n_rows += n;
}

/* Computes A x for the rows of one span: all products of the job that the adapter has. */
static bool begin_span(struct sp_lora_rows *rows, const struct sp_lora_span *span,
                       const struct sp_product_job *job)
{
    const struct sp_row_group group = {.from = span->first, .to = span->first, .n = span->n};
    struct sp_product products[SP_MAX_PRODUCTS];
    struct sp_product_job inner = {.backend = job->backend,
                                   .products = products,
                                   .acts = job->acts,
                                   .groups = &group,
                                   .n_groups = 1};

    for (size_t i = 0; i < job->n_products; i++) {
        const struct sp_lora_factors *r = find(span->adapter, job->products[i].w);
        size_t n = inner.n_products;
        if (r == NULL) continue;
        products[n] =
            (struct sp_product){.w = &r->right, .y = rows->inner[i].x, .ldy = rows->inner[i].ld};
        inner.slices[n] = (struct sp_panel_slice){0, r->right.n_panels};
        inner.n_products++;
    }
    if (inner.n_products) sp_product_job_run(&inner);
    return inner.n_products > 0;
}

bool sp_lora_rows_begin(struct sp_lora_rows *rows, const struct sp_product_job *job)
{
    bool any = false;

    assert(!job->acts->coded);
    for (size_t i = 0; i < rows->n_spans; i++)
        any = begin_span(rows, &rows->spans[i], job) || any;
    return any;
}

/* Adds s (B (A x)) to rows first..first+n-1 of a product, panels of B from `panel` on. */
static void add_span(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                     const struct sp_lora_factors *r, const struct sp_lora_span *span, float *y,
                     size_t ldy, size_t panel, size_t n_panels)
{
    enum { MOST_PANELS = 8, WIDTH = MOST_PANELS * SP_PANEL_ROWS };
    _Alignas(64) float sums[SP_TILE_ROWS * WIDTH];
    const struct sp_vector *vector = job->backend->vector;
    struct sp_acts inner = rows->inner[i];

    inner.cols = r->left.cols;
    for (size_t p = 0; p < n_panels; p += MOST_PANELS) {
        size_t n = n_panels - p < MOST_PANELS ? n_panels - p : MOST_PANELS;
        struct sp_matmul m = {.dtype = SP_F32,
                              .y = sums,
                              .ldy = WIDTH,
                              .panels = r->left.panels + (panel + p) * r->left.panel_size,
                              .n_panels = n,
                              .acts = &inner};
        for (size_t t = 0; t < span->n; t += SP_TILE_ROWS) {
            m.first = span->first + t;
            m.n_rows = span->n - t < SP_TILE_ROWS ? span->n - t : SP_TILE_ROWS;
            sp_matmul_rows(job->backend->kernels, &m);
            for (size_t k = 0; k < m.n_rows; k++) {
                float *sum = sums + k * WIDTH;
                if (span->scale != 1) vector->scale(sum, span->scale, n * SP_PANEL_ROWS);
                vector->add(y + (m.first + k) * ldy + p * SP_PANEL_ROWS, sum, n * SP_PANEL_ROWS);
            }
        }
    }
}

void sp_lora_rows_add(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                      float *y, size_t ldy, size_t first, size_t n_panels)
{
    for (size_t s = 0; s < rows->n_spans; s++) {
        const struct sp_lora_span *span = &rows->spans[s];
        const struct sp_lora_factors *r = find(span->adapter, job->products[i].w);
        if (r) add_span(rows, job, i, r, span, y, ldy, first, n_panels);
    }
}
