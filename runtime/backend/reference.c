#include "runtime/backend/reference.h"

#include "format/base/mem.h"
#include "format/base/module.h"
#include "quantize/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Decoded weights and activations of one call. */
enum { MOST_PANELS = 16, MOST_ROWS = 64, WIDTH = MOST_PANELS * SP_PANEL_ROWS };

struct sp_reference {
    sp_blas_multiply_fn *multiply; /* of the module, which stays loaded */
    enum sp_reference_mode mode;
    struct sp_arena memory; /* of the next members */
    float *w;               /* [WIDTH][columns of the widest matrix] */
    float *x;               /* [MOST_ROWS][the same] */
    float *y;               /* [MOST_ROWS][WIDTH] products that others are checked by */
    double error;           /* of those */
    bool disagrees;
};

enum sp_status sp_reference_new(struct sp_reference **out, const char *module,
                                const struct sp_pack *pack, enum sp_reference_mode mode,
                                struct sp_err *err)
{
    struct sp_reference *r = NULL;
    size_t cols = 0; /* of the widest matrix */
    void *symbol;
    enum sp_status st;

    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->rank >= 2 && t->shape[t->rank - 1] > cols) cols = (size_t)t->shape[t->rank - 1];
    }
    if ((st = sp_module_find(&symbol, module, SP_BLAS_MULTIPLY, "OpenBLAS", err))) return st;
    if ((st = sp_new(&r, 1, sizeof *r, err))) return st;
    memcpy(&r->multiply, &symbol, sizeof r->multiply);
    r->mode = mode;
    r->w = sp_arena_rows(&r->memory, WIDTH, cols);
    r->x = sp_arena_rows(&r->memory, MOST_ROWS, cols);
    r->y = sp_arena_rows(&r->memory, MOST_ROWS, WIDTH);
    if ((st = sp_arena_check(&r->memory, err)))
        sp_reference_free(r);
    else
        *out = r;
    return st;
}

void sp_reference_free(struct sp_reference *r)
{
    if (r == NULL) return;
    sp_arena_release(&r->memory);
    free(r);
}

bool sp_reference_wants_codes(const struct sp_reference *r, enum sp_dtype dtype)
{
    return r->mode != SP_REFERENCE_FLOAT && sp_dtype_is_block(dtype);
}

void sp_reference_products(const struct sp_reference *r, double *error, bool *agree)
{
    *error = r->error;
    *agree = !r->disagrees;
}

/* r->x = rows first..first+n-1 of the activations, or what their codes stand for. */
static void read_rows(struct sp_reference *r, const struct sp_matmul *m, size_t first, size_t n)
{
    const struct sp_acts *acts = m->acts;
    bool codes = sp_reference_wants_codes(r, m->dtype);

    for (size_t t = first; t < first + n; t++) {
        float *x = r->x + (t - first) * acts->cols;
        const int8_t *q = acts->q + t * acts->ld;
        const float *scale = acts->scale + t * acts->ld_block;
        for (size_t k = 0; k < acts->cols; k++)
            x[k] = codes ? (float)q[k] * scale[k / SP_BLOCK] : acts->x[t * acts->ld + k];
    }
}

static double squares(const float *x, size_t n)
{
    double sum = 0;

    for (size_t k = 0; k < n; k++)
        sum += (double)x[k] * (double)x[k];
    return sum;
}

/* Compares y[n_rows][ldy], made of r->w and r->x, with r->y, relative to norms. Kernels of q2 to q6
 * round sums of half blocks (quantize/kernels/kernels.h); all others round each step of a sum of
 * floats. An error that is not a number counts as infinite. */
static void check(struct sp_reference *r, const struct sp_matmul *m, const float *y, size_t n_rows,
                  size_t width)
{
    size_t cols = m->acts->cols, ldy = m->ldy;
    double most = sp_dtype_is_block(m->dtype) && m->dtype != SP_Q8 ? 1e-3 : 1e-5;
    double x_squares[MOST_ROWS];

    for (size_t t = 0; t < n_rows; t++)
        x_squares[t] = squares(r->x + t * cols, cols);
    for (size_t i = 0; i < width; i++) {
        double w_squares = squares(r->w + i * cols, cols);
        for (size_t t = 0; t < n_rows; t++) {
            double error = fabs((double)y[t * ldy + i] - (double)r->y[t * WIDTH + i]);
            if (error > 0) error /= sqrt(w_squares * x_squares[t]);
            if (!(error <= most)) r->disagrees = true;
            if (!(error <= r->error)) r->error = isnan(error) ? HUGE_VAL : error;
        }
    }
}

/* Multiplies `width` rows of weights, which are decoded, with all activations. y: where the first
 * result belongs. */
static void multiply_decoded(struct sp_reference *r, const struct sp_matmul *m, float *y,
                             size_t width)
{
    size_t cols = m->acts->cols;
    bool checked = r->mode == SP_REFERENCE_CHECKED;

    for (size_t t = 0; t < m->n_rows; t += MOST_ROWS, y += MOST_ROWS * m->ldy) {
        size_t n = m->n_rows - t < MOST_ROWS ? m->n_rows - t : MOST_ROWS;
        read_rows(r, m, m->first + t, n);
        r->multiply(checked ? r->y : y, checked ? WIDTH : m->ldy, r->x, r->w, n, width, cols);
        if (checked) check(r, m, y, n, width);
    }
}

void sp_reference_multiply(struct sp_reference *r, const struct sp_kernels *kernels,
                           const struct sp_matmul *m)
{
    size_t cols = m->acts->cols, panel_size = 0;

    if (!sp_panel_size(&panel_size, m->dtype, cols)) return;
    if (r->mode == SP_REFERENCE_CHECKED) sp_matmul_rows(kernels, m);
    for (size_t p = 0; p < m->n_panels; p += MOST_PANELS) {
        size_t n = m->n_panels - p < MOST_PANELS ? m->n_panels - p : MOST_PANELS;
        for (size_t i = 0; i < n; i++)
            sp_panel_decode(r->w + i * SP_PANEL_ROWS * cols, m->dtype,
                            m->panels + (p + i) * panel_size, SP_PANEL_ROWS, cols,
                            sp_kernels_ref.tile);
        multiply_decoded(r, m, m->y + p * SP_PANEL_ROWS, n * SP_PANEL_ROWS);
    }
}
