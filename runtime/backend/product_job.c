#include "runtime/backend/product_job.h"

#include "runtime/backend/lora_rows.h"

#include <string.h>

/* Multiplications, or copied elements, that are worth another thread: about a microsecond. */
enum { MIN_WORK = 1 << 17 };

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

size_t sp_argmax_index(uint64_t order)
{
    return order == not_finite ? SIZE_MAX : UINT32_MAX - (uint32_t)order;
}

float sp_argmax_value(uint64_t order)
{
    uint32_t bits = (uint32_t)(order >> 32);
    float x;

    bits = bits >> 31 ? bits ^ 0x80000000u : ~bits;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void sp_argmax_update(atomic_uint_least64_t *argmax, uint64_t order)
{
    uint_least64_t largest = atomic_load_explicit(argmax, memory_order_relaxed);

    while (order > largest &&
           !atomic_compare_exchange_weak_explicit(argmax, &largest, order, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

void sp_argmax_of_part(atomic_uint_least64_t *argmax, const struct sp_vector *vector,
                       const float *y, size_t begin, size_t len)
{
    size_t i = vector->argmax(y, len);

    sp_argmax_update(argmax, i == SIZE_MAX ? not_finite : ordered(y[i], begin + i));
}

/* Rows of the matrix in panels first..first+n_panels-1. */
static size_t rows_of(const struct sp_matrix *w, size_t first, size_t n_panels)
{
    size_t begin = first * SP_PANEL_ROWS, len = n_panels * SP_PANEL_ROWS;

    return w->rows - begin < len ? w->rows - begin : len;
}

size_t sp_product_job_columns(const struct sp_product_job *job)
{
    return rows_of(job->products->w, job->slices[0].first, job->slices[0].n);
}

/* The column of results and biases where panels from `first` on begin. */
static size_t column_of(const struct sp_product_job *job, const struct sp_product *p, size_t first)
{
    size_t origin = job->y_is_slice ? job->slices[p - job->products].first : 0;

    return (first - origin) * SP_PANEL_ROWS;
}

/* Where row t of the results of panels from `first` on is stored. */
static float *result_row(const struct sp_product_job *job, const struct sp_product *p, size_t t,
                         size_t first)
{
    return p->y + t * p->ldy + column_of(job, p, first);
}

static void run_epilogue(const struct sp_product_job *job, const struct sp_row_group *g,
                         const struct sp_product *p, size_t first, size_t len)
{
    const struct sp_vector *vector = job->backend->vector;
    const struct sp_epilogue *e = p->epilogue;

    for (size_t t = g->to; t < g->to + g->n; t++) {
        float *y = result_row(job, p, t, first);
        if (e->scale != 1) vector->scale(y, e->scale, len);
        if (e->cap != 0) vector->softcap(y, e->cap, len);
        sp_argmax_of_part(&e->argmax[t], vector, y, first * SP_PANEL_ROWS, len);
    }
}

static void multiply_panels(const struct sp_product_job *job, const struct sp_row_group *g,
                            const struct sp_product *p, size_t first, size_t n_panels)
{
    /* The panels of a stack of matrices of one shape (experts) are contiguous. */
    size_t panel = g->matrix * p->w->n_panels + first;
    const struct sp_matmul m = {.dtype = p->w->dtype,
                                .y = result_row(job, p, g->to, first),
                                .ldy = p->ldy,
                                .panels = p->w->panels + panel * p->w->panel_size,
                                .n_panels = n_panels,
                                .acts = job->acts,
                                .first = g->from,
                                .n_rows = g->n};

    sp_backend_matmul(job->backend, &m);
}

/* Computes or copies panels, and does what follows on each element. */
static void make_panels(const struct sp_product_job *job, const struct sp_row_group *g,
                        const struct sp_product *p, size_t first, size_t n_panels)
{
    size_t len = rows_of(p->w, first, n_panels), i = (size_t)(p - job->products);

    if (job->copy)
        job->copy(job, g, i, first, n_panels);
    else
        multiply_panels(job, g, p, first, n_panels);
    if (job->lora)
        sp_lora_rows_add(job->lora, job, i, result_row(job, p, 0, first), p->ldy, first, n_panels);
    for (size_t t = g->to; p->scales && t < g->to + g->n; t++)
        job->backend->vector->mul(result_row(job, p, t, first),
                                  p->scales + column_of(job, p, first), len);
    for (size_t t = g->to; p->bias && t < g->to + g->n; t++) {
        job->backend->vector->add(result_row(job, p, t, first),
                                  p->bias + g->matrix * p->w->rows + column_of(job, p, first), len);
    }
    if (p->epilogue) run_epilogue(job, g, p, first, len);
}

static void limit_factors(const struct sp_product *p, float *gate, float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (gate[i] > p->gate_limit) gate[i] = p->gate_limit;
    sp_clamp(up, p->limit, n);
}

/* y = cap(y) sigmoid(y) cap(up). */
static void cap_swiglu(const struct sp_vector *v, const struct sp_product *p, float *y, float *up,
                       size_t n)
{
    enum { PART = 64 };
    float gate[PART];

    v->softcap(up, p->limit, n);
    for (size_t i = 0; i < n; i += PART) {
        size_t len = n - i < PART ? n - i : PART;
        memcpy(gate, y + i, len * sizeof *gate);
        v->softcap(y + i, p->gate_limit, len);
        v->sigmoid_mul(y + i, gate, len);
        v->mul(y + i, up + i, len);
    }
}

static void apply_gate(const struct sp_product_job *job, const struct sp_row_group *g,
                       const struct sp_product *p, size_t first, size_t n_panels)
{
    const struct sp_vector *v = job->backend->vector;
    size_t begin = first * SP_PANEL_ROWS, len = rows_of(p->w, first, n_panels);

    for (size_t t = g->to; t < g->to + g->n; t++) {
        float *y = result_row(job, p, t, first);
        const float *up =
            p->factors ? p->factors + t * p->ld_factors + begin : result_row(job, p + 1, t, first);
        switch (p->activation) {
        case SP_SWIGLU_CLAMPED:
            v->swiglu_clamped(y, up, p->limit, len);
            break;
        case SP_SWIGLU_CAPPED:
            cap_swiglu(v, p, y, result_row(job, p + 1, t, first), len);
            break;
        case SP_XIELU:
            sp_xielu_row(y, p->xielu, len);
            break;
        default:
            if (p->activation == SP_SILU && p->limit != 0)
                limit_factors(p, y, result_row(job, p + 1, t, first), len);
            v->gates[p->activation](y, up, len);
            break;
        }
    }
}

bool sp_product_makes_codes(const struct sp_product *p)
{
    return p->into && p->into->coded;
}

bool sp_product_uses_next(const struct sp_product *p)
{
    return p->gated && p->factors == NULL;
}

/* Computes items first..first+n-1 of a group. The items are the panels of all slices, one product
 * after another; a product that only makes the factors of another's gate has none of its own. */
static void make_group(const struct sp_product_job *job, const struct sp_row_group *g, size_t first,
                       size_t n)
{
    for (const struct sp_product *p = job->products; n > 0; p += sp_product_uses_next(p) ? 2 : 1) {
        const struct sp_panel_slice *slice = &job->slices[p - job->products];
        if (first >= slice->n) {
            first -= slice->n;
            continue;
        }
        size_t here = n < slice->n - first ? n : slice->n - first;
        first += slice->first;
        make_panels(job, g, p, first, here);
        if (sp_product_uses_next(p)) make_panels(job, g, p + 1, first, here);
        if (p->gated) apply_gate(job, g, p, first, here);
        first = 0;
        n -= here;
    }
}

static size_t items_per_group(const struct sp_product_job *job)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n_products; i += sp_product_uses_next(&job->products[i]) ? 2 : 1)
        n += job->slices[i].n;
    return n;
}

static void make_range(void *context, size_t first, size_t n, unsigned worker)
{
    const struct sp_product_job *job = context;
    size_t n_items = items_per_group(job);
    const struct sp_row_group *g = job->groups + first / n_items;

    (void)worker;
    for (first %= n_items; n > 0; g++) {
        size_t here = n < n_items - first ? n : n_items - first;
        make_group(job, g, first, here);
        first = 0;
        n -= here;
    }
}

size_t sp_product_job_rows(const struct sp_product_job *job)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n_groups; i++) {
        size_t end = job->groups[i].to + job->groups[i].n;
        if (end > n) n = end;
    }
    return n;
}

void sp_product_job_run(struct sp_product_job *job)
{
    size_t n_rows = 0, per_item, items = items_per_group(job);

    for (size_t i = 0; i < job->n_groups; i++)
        n_rows += job->groups[i].n;
    per_item = SP_PANEL_ROWS * ((n_rows + job->n_groups - 1) / job->n_groups);
    if (job->copy == NULL) per_item *= job->acts->cols;
    sp_pool_run_ranges(job->backend->pool, job->n_groups * items, MIN_WORK / (per_item + 1) + 1,
                       make_range, job);
}
