/* An adapter's products are found by the address of the matrix that they belong to, since every
 * product of a layer names it; nothing else in the forward pass knows of adapters. */
#include "runtime/model/lora.h"

#include "format/base/hash.h"
#include "format/base/mem.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/model/product_job.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The low-rank product that belongs to one matrix of the model. */
struct low_rank {
    const struct sp_matrix *w;    /* borrowed from the model */
    struct sp_matrix left, right; /* B and A, f32 */
    float *memory;                /* the panels of both, owned */
};

struct sp_lora {
    struct sp_model *model;
    uint64_t digest;
    struct low_rank *products; /* by the address of w; owned */
    size_t n, cap, rank;
};

/* Consecutive rows of a pass that have the same adapter. */
struct row_span {
    const struct sp_lora *lora;
    size_t first, n;
};

struct sp_lora_rows {
    struct row_span *spans; /* [max_rows]; owned */
    size_t n_spans, max_rank;
    struct sp_acts inner[SP_MAX_PRODUCTS]; /* [max_rows][max_rank] A x, of each product of a job */
};

/* ---- adapters ---- */

enum sp_status sp_lora_new(struct sp_lora **out, struct sp_model *model, uint64_t digest,
                           struct sp_err *err)
{
    struct sp_lora *lora = NULL;
    enum sp_status st = sp_new(&lora, 1, sizeof *lora, err);

    if (st) return st;
    lora->model = model;
    lora->digest = digest;
    *out = lora;
    return SP_OK;
}

void sp_lora_close(struct sp_lora *lora)
{
    if (lora == NULL) return;
    for (size_t i = 0; i < lora->n; i++)
        free(lora->products[i].memory);
    free(lora->products);
    free(lora);
}

uint64_t sp_lora_digest(const struct sp_lora *lora)
{
    return lora->digest;
}

size_t sp_lora_rank(const struct sp_lora *lora)
{
    return lora->rank;
}

/* The first product whose matrix does not lie below w. */
static size_t find_place(const struct sp_lora *lora, const struct sp_matrix *w)
{
    size_t low = 0, high = lora->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)lora->products[middle].w < (uintptr_t)w)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The product of a matrix; NULL: the adapter has none. */
static const struct low_rank *find(const struct sp_lora *lora, const struct sp_matrix *w)
{
    size_t i = find_place(lora, w);

    return i < lora->n && lora->products[i].w == w ? &lora->products[i] : NULL;
}

static enum sp_status find_matrix(const struct sp_matrix **out, const struct sp_lora *lora,
                                  const struct sp_lora_product *p, struct sp_err *err)
{
    const struct sp_model *m = lora->model;
    size_t i = 0;

    while (i < m->n_matrices && strcmp(m->matrices[i].tensor->name, p->tensor) != 0)
        i++;
    if (i == m->n_matrices || strncmp(p->tensor, "layers.", 7) != 0 ||
        m->matrices[i].tensor->rank != 2) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "tensor \"%s\" is not a single matrix of a layer, so an adapter of it can "
                       "only be merged (ADAPTER in a Modelfile)",
                       p->tensor);
    }
    *out = m->matrices[i].w;
    if ((*out)->rows != p->n_rows || (*out)->cols != p->n_cols || p->rank == 0) {
        return sp_fail(err, SP_E_INPUT,
                       "tensor \"%s\" has shape [%zu, %zu], and its low-rank product [%zu, %zu] of "
                       "rank %zu",
                       p->tensor, (*out)->rows, (*out)->cols, p->n_rows, p->n_cols, p->rank);
    }
    return SP_OK;
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

static bool is_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

/* Both factors as panels in one allocation. */
static enum sp_status copy_factors(struct low_rank *out, const struct sp_lora_product *p,
                                   struct sp_err *err)
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
    return SP_OK;
}

enum sp_status sp_lora_add(struct sp_lora *lora, const struct sp_lora_product *product,
                           struct sp_err *err)
{
    struct sp_lora_product p = {0};
    struct low_rank added = {0};
    enum sp_status st;
    size_t at;

    if ((st = sp_copy_in(&p, sizeof p, product, "sp_lora_product", err))) return st;
    if ((st = find_matrix(&added.w, lora, &p, err))) return st;
    if (find(lora, added.w)) {
        return sp_fail(err, SP_E_USAGE, "tensor \"%s\" has a low-rank product already", p.tensor);
    }
    st = sp_grow(&lora->products, &lora->cap, lora->n + 1, sizeof *lora->products, err);
    if (st || (st = copy_factors(&added, &p, err))) return st;
    at = find_place(lora, added.w);
    memmove(lora->products + at + 1, lora->products + at, (lora->n - at) * sizeof *lora->products);
    lora->products[at] = added;
    lora->n++;
    if (p.rank > lora->rank) lora->rank = p.rank;
    if (p.rank > lora->model->max_lora_rank) lora->model->max_lora_rank = p.rank;
    return SP_OK;
}

/* ---- passes ---- */

enum sp_status sp_lora_rows_new(struct sp_lora_rows **out, size_t max_rows, size_t max_rank,
                                struct sp_err *err)
{
    struct sp_lora_rows *rows = NULL;
    enum sp_status st;

    if ((st = sp_new(&rows, 1, sizeof *rows, err))) goto done;
    rows->max_rank = max_rank;
    if ((st = sp_new(&rows->spans, max_rows, sizeof *rows->spans, err))) goto done;
    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++) {
        if ((st = sp_acts_init(&rows->inner[i], max_rows, max_rank, err))) goto done;
    }
    *out = rows;
    rows = NULL;
done:
    sp_lora_rows_free(rows);
    return st;
}

void sp_lora_rows_free(struct sp_lora_rows *rows)
{
    if (rows == NULL) return;
    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++)
        sp_acts_release(&rows->inner[i]);
    free(rows->spans);
    free(rows);
}

size_t sp_lora_rows_max_rank(const struct sp_lora_rows *rows)
{
    return rows->max_rank;
}

bool sp_lora_rows_set(struct sp_lora_rows *rows, const struct sp_batch_seq *seqs, size_t n_seqs)
{
    struct row_span *last = NULL;

    rows->n_spans = 0;
    for (size_t i = 0, first = 0; i < n_seqs; first += seqs[i++].n) {
        const struct sp_lora *lora = seqs[i].decoder->lora;

        if (lora == NULL || seqs[i].n == 0) continue;
        if (last && last->lora == lora && last->first + last->n == first) {
            last->n += seqs[i].n;
            continue;
        }
        last = &rows->spans[rows->n_spans++];
        *last = (struct row_span){lora, first, seqs[i].n};
    }
    return rows->n_spans > 0;
}

/* Computes A x for the rows of one span: all products of the job that the adapter has. */
static bool begin_span(struct sp_lora_rows *rows, const struct row_span *span,
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
        const struct low_rank *r = find(span->lora, job->products[i].w);
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

/* Adds B (A x) to rows first..first+n-1 of a product, panels of B from `panel` on. */
static void add_span(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                     const struct low_rank *r, const struct row_span *span, float *y, size_t ldy,
                     size_t panel, size_t n_panels)
{
    enum { MOST_PANELS = 8, WIDTH = MOST_PANELS * SP_PANEL_ROWS };
    _Alignas(64) float sums[SP_TILE_ROWS * WIDTH];
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
                job->backend->vector->add(y + (m.first + k) * ldy + p * SP_PANEL_ROWS,
                                          sums + k * WIDTH, n * SP_PANEL_ROWS);
            }
        }
    }
}

void sp_lora_rows_add(const struct sp_lora_rows *rows, const struct sp_product_job *job, size_t i,
                      float *y, size_t ldy, size_t first, size_t n_panels)
{
    for (size_t s = 0; s < rows->n_spans; s++) {
        const struct row_span *span = &rows->spans[s];
        const struct low_rank *r = find(span->lora, job->products[i].w);

        if (r) add_span(rows, job, i, r, span, y, ldy, first, n_panels);
    }
}
