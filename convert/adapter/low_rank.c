#include "convert/adapter/merge.h"

#include "format/base/mem.h"

#include <stdlib.h>

/* ---- refusals ---- */

static enum sp_status refuse(struct sp_err *err, const struct sp_adapter_tensor *tensor,
                             const char *what)
{
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "tensor \"%s\" %s, which can only be merged: ADAPTER in a Modelfile",
                   tensor->name, what);
}

/* Refuses changes that are not a low-rank product of a single matrix. */
static enum sp_status check_change(const struct sp_merge_change *c,
                                   const struct sp_tensor_spec *spec, struct sp_err *err)
{
    if (c->whole) return refuse(err, c->whole, "takes the place of the model's");
    if (c->bias) return refuse(err, c->bias->bias, "changes a bias");
    if (c->product == NULL) return SP_OK;
    if (c->product->magnitudes) return refuse(err, c->product->magnitudes, "is of DoRA");
    if (spec->role == SP_ROLE_EMBEDDING || spec->role == SP_ROLE_HEAD)
        return refuse(err, c->product->a, "changes the embedding or the output matrix");
    if (c->product->experts || spec->rank != 2)
        return refuse(err, c->product->a, "changes experts or other stacks of matrices");
    return SP_OK;
}

/* ---- reading ---- */

/* *out = all elements of a tensor, owned by the caller, on failure too. */
static enum sp_status read_all(float **out, const struct sp_adapter_tensor *t, struct sp_err *err)
{
    size_t n = (size_t)sp_n_elements(t->shape, t->rank);
    struct sp_adapter_scratch scratch = {0};
    enum sp_status st = sp_new(out, n, sizeof **out, err);

    if (!st) st = sp_adapter_file_read(*out, t, 0, n, &scratch, err);
    free(scratch.bytes);
    return st;
}

/* The changes of a tensor's spans. */
struct parts {
    const struct sp_merge *merge;
    const struct sp_row_span *spans;       /* [n] */
    const struct sp_merge_change *changes; /* [n] */
    size_t n;
};

static bool is_first(const struct parts *p, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (p->changes[k].product == p->changes[i].product) return false;
    return p->changes[i].product != NULL;
}

static struct sp_adapter_factors factors_of(const struct parts *p, size_t i)
{
    return sp_adapter_factors(&p->merge->adapter, p->changes[i].product);
}

/* Rows at..at+rank-1 of the right factor are those of span i's product. */
static enum sp_status read_right(struct sp_low_rank *out, const struct parts *p, size_t i,
                                 size_t at, struct sp_err *err)
{
    struct sp_adapter_factors f = factors_of(p, i);
    size_t rank = (size_t)f.rank, cols = out->n_cols;
    float *numbers = NULL;
    enum sp_status st = read_all(&numbers, f.right, err);

    for (size_t k = 0; !st && k < rank; k++) {
        for (size_t c = 0; c < cols; c++) {
            out->right[(at + k) * cols + c] =
                f.right_transposed ? numbers[c * rank + k] : numbers[k * cols + c];
        }
    }
    free(numbers);
    return st;
}

/* Columns at..at+rank-1 of the left factor are those of span i's product, in the rows of all spans
 * that have it. */
static enum sp_status read_left(struct sp_low_rank *out, const struct parts *p, size_t i, size_t at,
                                struct sp_err *err)
{
    struct sp_adapter_factors f = factors_of(p, i);
    float scale = (float)p->changes[i].product->scale, *numbers = NULL;
    size_t rank = (size_t)f.rank, begin = 0;
    enum sp_status st = read_all(&numbers, f.left, err);

    for (size_t s = 0; !st && s < p->n; begin += (size_t)p->spans[s++].n_rows) {
        const struct sp_row_span *span = &p->spans[s];
        if (p->changes[s].product != p->changes[i].product) continue;
        for (size_t r = 0; r < span->n_rows; r++) {
            size_t row = (size_t)(span->first_row + r * span->step);
            float *to = out->left + (begin + r) * out->rank + at;
            for (size_t k = 0; k < rank; k++) {
                to[k] = scale * (f.left_transposed ? numbers[k * (size_t)f.left->shape[1] + row]
                                                   : numbers[row * rank + k]);
            }
        }
    }
    free(numbers);
    return st;
}

static enum sp_status allocate(struct sp_low_rank *out, const struct sp_tensor_spec *spec,
                               struct sp_err *err)
{
    size_t left, right;
    enum sp_status st;

    if (!sp_mul(&left, out->n_rows, out->rank) || !sp_mul(&right, out->rank, out->n_cols)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor \"%s\": a rank of %zu is too large",
                       spec->name, out->rank);
    }
    if ((st = sp_new(&out->left, left, sizeof *out->left, err))) return st;
    return sp_new(&out->right, right, sizeof *out->right, err);
}

enum sp_status sp_low_rank_read(struct sp_low_rank *out, const struct sp_merge *merge,
                                const struct sp_specs *specs, const struct sp_tensor_spec *spec,
                                struct sp_err *err)
{
    const struct parts p = {merge, specs->spans + spec->first_span,
                            merge->changes + spec->first_span, spec->n_spans};
    struct sp_low_rank product = {0};
    enum sp_status st = SP_OK;

    *out = product;
    for (size_t i = 0; i < p.n && !st; i++) {
        if (is_first(&p, i)) product.rank += (size_t)factors_of(&p, i).rank;
        st = check_change(&p.changes[i], spec, err);
    }
    if (st || product.rank == 0) goto done;
    product.n_rows = (size_t)spec->shape[0];
    product.n_cols = (size_t)spec->shape[1];
    if ((st = allocate(&product, spec, err))) goto done;
    for (size_t i = 0, at = 0; i < p.n && !st; i++) {
        if (!is_first(&p, i)) continue;
        st = read_right(&product, &p, i, at, err);
        if (!st) st = read_left(&product, &p, i, at, err);
        at += (size_t)factors_of(&p, i).rank;
    }
done:
    if (st) {
        sp_context(err, "%s", merge->adapter.path);
        sp_low_rank_release(&product);
    }
    *out = product;
    return st;
}

void sp_low_rank_release(struct sp_low_rank *product)
{
    free(product->left);
    free(product->right);
    *product = (struct sp_low_rank){0};
}
