#include "runtime/model/backend.h"

#include <assert.h>
#include <string.h>

enum {
    MIN_PRODUCTS = 1 << 17, /* multiplications that are worth another thread: about a microsecond */
    FEW_ROWS = 3,           /* as many rows finish before a worker has woken up */
};

enum sp_status sp_backend_init(struct sp_backend *backend, const char *kernels, unsigned n_threads,
                               struct sp_err *err)
{
    struct sp_backend result = {0};
    enum sp_status st;

    if ((st = sp_kernels_find(&result.kernels, kernels, err))) return st;
    result.vector = sp_vector_find(result.kernels->name);
    if (result.vector == NULL) {
        return sp_fail(err, SP_E_BUG, "kernel set %s has no vector table", result.kernels->name);
    }
    if ((st = sp_pool_open(&result.pool, n_threads, err))) return st;
    *backend = result;
    return SP_OK;
}

void sp_backend_release(struct sp_backend *backend)
{
    sp_pool_close(backend->pool);
    memset(backend, 0, sizeof *backend);
}

size_t sp_matrix_ld(size_t rows)
{
    return sp_round_up(rows, 64);
}

/* Matrix i of a stack of matrices of one shape (experts), whose panels are contiguous. */
static struct sp_matrix matrix_at(const struct sp_matrix *stack, size_t i)
{
    struct sp_matrix w = *stack;

    w.panels += i * w.n_panels * w.panel_size;
    return w;
}

void sp_backend_rows(const struct sp_backend *backend, size_t n_rows, sp_pool_fn *fn, void *context)
{
    if (n_rows <= FEW_ROWS) {
        for (size_t t = 0; t < n_rows; t++)
            fn(context, t, 0);
        return;
    }
    sp_pool_run(backend->pool, n_rows, fn, context);
}

/* One call of sp_backend_multiply_groups. The work items of a group are the panels of all its
 * products, one product after another; a product that only makes the factors of another's gate has
 * no items of its own. */
struct job {
    const struct sp_backend *backend;
    const struct sp_product *products;
    const struct sp_acts *acts;
    const struct sp_row_group *groups;
    size_t n_panels; /* of a group */
};

/* The order of a non-finite element. Orders are integers that compare like the elements; this one
 * is larger than the order of any finite element. */
static const uint64_t not_finite = UINT64_MAX;

static uint64_t ordered(float x, size_t index)
{
    uint32_t bits;

    x += 0.0f; /* makes -0 equal to +0 */
    memcpy(&bits, &x, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (UINT32_MAX - (uint32_t)index);
}

size_t sp_best_index(uint64_t best)
{
    return best == not_finite ? SIZE_MAX : UINT32_MAX - (uint32_t)best;
}

/* Updates the best element of a row with elements begin..begin+len-1. */
static void update_best(atomic_uint_least64_t *best, const struct sp_vector *vector, const float *y,
                        size_t begin, size_t len)
{
    size_t i = vector->argmax(y, len);
    uint_least64_t best_yet = atomic_load_explicit(best, memory_order_relaxed);
    uint64_t order = i == SIZE_MAX ? not_finite : ordered(y[i], begin + i);

    while (order > best_yet &&
           !atomic_compare_exchange_weak_explicit(best, &best_yet, order, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

static void finish_rows(const struct job *job, const struct sp_row_group *g,
                        const struct sp_product *p, size_t begin, size_t len)
{
    const struct sp_vector *vector = job->backend->vector;

    for (size_t t = g->to; t < g->to + g->n; t++) {
        float *y = p->y + t * p->ldy + begin;
        if (p->finish->scale != 1) vector->scale(y, p->finish->scale, len);
        if (p->finish->cap != 0) vector->softcap(y, p->finish->cap, len);
        update_best(&p->finish->best[t], vector, y, begin, len);
    }
}

/* Rows of the matrix in panels first..first+n_panels-1. */
static size_t rows_of(const struct sp_matrix *w, size_t first, size_t n_panels)
{
    size_t begin = first * SP_PANEL_ROWS, len = n_panels * SP_PANEL_ROWS;

    return w->rows - begin < len ? w->rows - begin : len;
}

static void multiply_panels(const struct job *job, const struct sp_row_group *g,
                            const struct sp_product *p, size_t first, size_t n_panels)
{
    struct sp_matrix w = matrix_at(p->w, g->matrix);
    size_t begin = first * SP_PANEL_ROWS;
    size_t len = rows_of(&w, first, n_panels);
    float *y = p->y + g->to * p->ldy + begin;
    const struct sp_matmul m = {.dtype = w.dtype,
                                .y = y,
                                .ldy = p->ldy,
                                .panels = w.panels + first * w.panel_size,
                                .n_panels = n_panels,
                                .acts = job->acts,
                                .first = g->from,
                                .n_rows = g->n};

    sp_matmul_rows(job->backend->kernels, &m);
    for (size_t t = 0; p->bias && t < g->n; t++) {
        job->backend->vector->add(y + t * p->ldy, p->bias + g->matrix * w.rows + begin, len);
    }
    if (p->finish) finish_rows(job, g, p, begin, len);
}

static void apply_gate(const struct job *job, const struct sp_row_group *g,
                       const struct sp_product *p, size_t first, size_t n_panels)
{
    const struct sp_vector *v = job->backend->vector;
    size_t begin = first * SP_PANEL_ROWS, len = rows_of(p->w, first, n_panels);

    for (size_t t = g->to; t < g->to + g->n; t++) {
        float *y = p[0].y + t * p[0].ldy + begin;
        const float *up =
            begin + (p->factors ? p->factors + t * p->ld_factors : p[1].y + t * p[1].ldy);
        switch (p->activation) {
        case SP_SILU:
            v->silu_mul(y, up, len);
            break;
        case SP_GELU_TANH:
            v->gelu_tanh_mul(y, up, len);
            break;
        case SP_GELU_ERF:
            v->gelu_erf_mul(y, up, len);
            break;
        case SP_RELU2:
            v->relu2_mul(y, up, len);
            break;
        case SP_SWIGLU_CLAMPED:
            v->swiglu_clamped(y, up, p->limit, len);
            break;
        case SP_XIELU:
            sp_xielu_row(y, p->xielu, len);
            break;
        }
    }
}

/* True if the next product makes the factors of this one's gate. */
static bool uses_next(const struct sp_product *p)
{
    return p->gated && p->factors == NULL;
}

/* Computes panels first..first+n-1 of one product, and of the product that makes its factors. */
static void multiply_product(const struct job *job, const struct sp_row_group *g,
                             const struct sp_product *p, size_t first, size_t n)
{
    multiply_panels(job, g, p, first, n);
    if (uses_next(p)) multiply_panels(job, g, p + 1, first, n);
    if (p->gated) apply_gate(job, g, p, first, n);
}

/* Computes items first..first+n-1 of a group. */
static void multiply_group(const struct job *job, const struct sp_row_group *g, size_t first,
                           size_t n)
{
    for (const struct sp_product *p = job->products; n > 0; p += uses_next(p) ? 2 : 1) {
        size_t n_panels = p->w->n_panels;
        if (first >= n_panels) {
            first -= n_panels;
            continue;
        }
        size_t here = n < n_panels - first ? n : n_panels - first;
        multiply_product(job, g, p, first, here);
        first = 0;
        n -= here;
    }
}

static void multiply_range(void *context, size_t first, size_t n, unsigned worker)
{
    const struct job *job = context;
    const struct sp_row_group *g = job->groups + first / job->n_panels;

    (void)worker;
    for (first %= job->n_panels; n > 0; g++) {
        size_t here = n < job->n_panels - first ? n : job->n_panels - first;
        multiply_group(job, g, first, here);
        first = 0;
        n -= here;
    }
}

struct quantize_job {
    const struct sp_backend *backend;
    const struct sp_acts *acts;
};

static void quantize_item(void *context, size_t t, unsigned worker)
{
    const struct quantize_job *job = context;

    (void)worker;
    job->backend->kernels->quantize_row(job->acts, t);
}

void sp_backend_multiply_groups(const struct sp_backend *backend, const struct sp_product *products,
                                size_t n_products, const struct sp_acts *acts, size_t n_rows,
                                const struct sp_row_group *groups, size_t n_groups)
{
    struct job job = {.backend = backend, .products = products, .acts = acts, .groups = groups};
    struct quantize_job quantize = {backend, acts};
    bool want_codes = false;
    size_t per_panel = SP_PANEL_ROWS * acts->cols * ((n_rows + n_groups - 1) / n_groups);

    assert(n_products <= SP_MAX_PRODUCTS);
    for (size_t i = 0; i < n_products; i++) {
        assert(products[i].w->cols == acts->cols);
        want_codes = want_codes || sp_kernels_want_codes(products[i].w->dtype);
        if (i == 0 || !uses_next(&products[i - 1])) job.n_panels += products[i].w->n_panels;
        for (size_t t = 0; products[i].finish && t < n_rows; t++)
            atomic_store_explicit(&products[i].finish->best[t], 0, memory_order_relaxed);
    }
    if (want_codes) sp_backend_rows(backend, n_rows, quantize_item, &quantize);
    sp_pool_run_ranges(backend->pool, n_groups * job.n_panels, MIN_PRODUCTS / (per_panel + 1) + 1,
                       multiply_range, &job);
}

void sp_backend_observe(const struct sp_backend *backend, const struct sp_product *products,
                        size_t n_products, const struct sp_acts *acts, size_t n_rows)
{
    const struct sp_input_observer *o = &backend->observer;

    if (o->observe) o->observe(o->context, backend, products, n_products, acts, n_rows);
}

void sp_backend_multiply(const struct sp_backend *backend, const struct sp_product *products,
                         size_t n_products, const struct sp_acts *acts, size_t n_rows)
{
    const struct sp_row_group all = {.n = n_rows};

    sp_backend_observe(backend, products, n_products, acts, n_rows);
    sp_backend_multiply_groups(backend, products, n_products, acts, n_rows, &all, 1);
}
