/* Changing rows as they are read. A product's right factor is laid out as the panels that the
 * kernels multiply, once for each thread that comes to its matrix; of the left one the rows that
 * are wanted are read. */
#include "convert/adapter/merge.h"

#include "format/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 1 << 18 }; /* bytes of a factor read at a time, or one row of it */

/* workspace->numbers[0..n-1] = elements first.. of a tensor. */
static enum sp_status read_elements(struct sp_merge_workspace *workspace,
                                    const struct sp_adapter_tensor *t, uint64_t first, size_t n,
                                    struct sp_err *err)
{
    enum sp_status st = sp_reserve(&workspace->numbers, &workspace->cap_numbers, n,
                                   sizeof *workspace->numbers, err);

    if (st) return st;
    return sp_adapter_file_read(workspace->numbers, t, first, n, &workspace->scratch, err);
}

/* ---- products ---- */

/* Panel element (column c of the result, k of the rank). */
static float *panel_element(struct sp_merge_workspace *workspace, size_t rank, size_t c, size_t k)
{
    return workspace->panels + (c / SP_PANEL_ROWS * rank + k) * SP_PANEL_ROWS + c % SP_PANEL_ROWS;
}

static size_t n_panels(size_t cols)
{
    return (cols + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
}

/* Lays out the right factor, whole rows of its tensor at a time. */
static enum sp_status hold_right(struct sp_merge_workspace *workspace,
                                 const struct sp_adapter_factors *f, size_t rank, size_t cols,
                                 struct sp_err *err)
{
    size_t rows = f->right_transposed ? cols : rank, width = f->right_transposed ? rank : cols;
    size_t most = READ_SIZE / (width * sizeof(float)) + 1, size;
    enum sp_status st;

    if (!sp_mul(&size, n_panels(cols) * SP_PANEL_ROWS, rank))
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor \"%s\" is too large", f->right->name);
    st = sp_reserve(&workspace->panels, &workspace->cap_panels, size, sizeof *workspace->panels,
                    err);
    if (st) return st;
    memset(workspace->panels, 0, size * sizeof *workspace->panels);
    for (size_t row = 0; row < rows; row += most) {
        size_t n = rows - row < most ? rows - row : most;
        st = read_elements(workspace, f->right, (workspace->expert * rows + row) * width, n * width,
                           err);
        if (st) return st;
        for (size_t i = 0; i < n * width; i++) {
            size_t r = row + i / width, c = i % width;
            *panel_element(workspace, rank, f->right_transposed ? r : c,
                           f->right_transposed ? c : r) = workspace->numbers[i];
        }
    }
    return SP_OK;
}

static enum sp_status hold(struct sp_merge_workspace *workspace, const struct sp_merge *merge,
                           const struct sp_merge_change *change, size_t cols, struct sp_err *err)
{
    struct sp_adapter_factors f = sp_adapter_factors(&merge->adapter, change->product);
    size_t rank = (size_t)f.rank;
    enum sp_status st;

    if (workspace->held == change->product && workspace->expert == change->expert) return SP_OK;
    workspace->held = NULL;
    workspace->expert = change->expert;
    if (workspace->rank != rank) {
        sp_acts_release(&workspace->rows);
        workspace->rank = 0;
        if ((st = sp_acts_init(&workspace->rows, SP_TILE_ROWS, rank, err))) return st;
        workspace->rank = rank;
    }
    st = sp_reserve(&workspace->sums, &workspace->cap_sums,
                    SP_TILE_ROWS * n_panels(cols) * SP_PANEL_ROWS, sizeof *workspace->sums, err);
    if (st || (st = hold_right(workspace, &f, rank, cols, err))) return st;
    workspace->held = change->product;
    return SP_OK;
}

/* workspace->rows = n rows of the left factor, row, row + step, ... */
static enum sp_status read_left(struct sp_merge_workspace *workspace, const struct sp_merge *merge,
                                uint64_t row, uint64_t step, size_t n, struct sp_err *err)
{
    struct sp_adapter_factors f = sp_adapter_factors(&merge->adapter, workspace->held);
    size_t rank = workspace->rank, ld = workspace->rows.ld;
    enum sp_status st;

    if (workspace->held->experts) row += workspace->expert * f.left->shape[1];
    if (!f.left_transposed) {
        st = read_elements(workspace, f.left, row * rank, ((n - 1) * (size_t)step + 1) * rank, err);
        if (st) return st;
        for (size_t r = 0; r < n; r++) {
            memcpy(workspace->rows.x + r * ld, workspace->numbers + r * step * rank,
                   rank * sizeof(float));
        }
    }
    for (size_t k = 0; f.left_transposed && k < rank; k++) {
        st = read_elements(workspace, f.left, k * f.left->shape[1] + row,
                           (size_t)((n - 1) * step + 1), err);
        if (st) return st;
        for (size_t r = 0; r < n; r++)
            workspace->rows.x[r * ld + k] = workspace->numbers[r * step];
    }
    return SP_OK;
}

/* The row times magnitude / its length. */
static void give_length(float *row, size_t cols, float magnitude)
{
    double sum = 0;
    float factor;

    for (size_t c = 0; c < cols; c++)
        sum += (double)row[c] * row[c];
    factor = (float)(magnitude / sqrt(sum));
    for (size_t c = 0; c < cols; c++)
        row[c] *= factor;
}

static enum sp_status give_lengths(float *rows, const struct sp_row_span *span, uint64_t first,
                                   size_t n, struct sp_merge_workspace *workspace,
                                   struct sp_err *err)
{
    const struct sp_adapter_tensor *magnitudes = workspace->held->magnitudes;
    enum sp_status st;

    for (size_t r = 0; r < n; r++) {
        uint64_t row = span->first_row + (first + r) * span->step;
        if ((st = read_elements(workspace, magnitudes, row, 1, err))) return st;
        give_length(rows + r * span->n_cols, (size_t)span->n_cols, workspace->numbers[0]);
    }
    return SP_OK;
}

/* At most a tile of rows. */
static enum sp_status add_tile(float *rows, const struct sp_merge *merge,
                               const struct sp_row_span *span, uint64_t first, size_t n,
                               struct sp_merge_workspace *workspace, struct sp_err *err)
{
    const struct sp_kernels *kernels = sp_kernels_best();
    size_t cols = (size_t)span->n_cols, ld = n_panels(cols) * SP_PANEL_ROWS;
    float scale = (float)workspace->held->scale;
    enum sp_status st;

    st = read_left(workspace, merge, span->first_row + first * span->step, span->step, n, err);
    if (st) return st;
    sp_matmul_rows(kernels, &(struct sp_matmul){.dtype = SP_F32,
                                                .y = workspace->sums,
                                                .ldy = ld,
                                                .panels = (const uint8_t *)workspace->panels,
                                                .n_panels = n_panels(cols),
                                                .acts = &workspace->rows,
                                                .first = 0,
                                                .n_rows = n});
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < cols; c++)
            rows[r * cols + c] += scale * workspace->sums[r * ld + c];
    return workspace->held->magnitudes ? give_lengths(rows, span, first, n, workspace, err) : SP_OK;
}

static enum sp_status add_product(float *rows, const struct sp_merge *merge,
                                  const struct sp_row_span *span,
                                  const struct sp_merge_change *change, uint64_t first, uint64_t n,
                                  struct sp_merge_workspace *workspace, struct sp_err *err)
{
    enum sp_status st;

    if ((st = hold(workspace, merge, change, (size_t)span->n_cols, err))) return st;
    for (uint64_t done = 0; done < n; done += SP_TILE_ROWS) {
        size_t m = n - done < SP_TILE_ROWS ? (size_t)(n - done) : SP_TILE_ROWS;
        st = add_tile(rows + done * span->n_cols, merge, span, first + done, m, workspace, err);
        if (st) return st;
    }
    return SP_OK;
}

/* ---- whole rows, biases ---- */

/* Rows of another tensor of the same shape: put in place of those that are there, or added. */
static enum sp_status change_rows(float *rows, const struct sp_row_span *span,
                                  const struct sp_adapter_tensor *t, const float *scale,
                                  uint64_t first, uint64_t n, struct sp_merge_workspace *workspace,
                                  struct sp_err *err)
{
    size_t cols = (size_t)span->n_cols;

    for (uint64_t r = 0; r < n; r++, rows += cols) {
        uint64_t row = span->first_row + (first + r) * span->step;
        enum sp_status st = read_elements(workspace, t, row * cols, cols, err);
        if (st) return st;
        if (scale == NULL) memcpy(rows, workspace->numbers, cols * sizeof *rows);
        for (size_t c = 0; scale && c < cols; c++)
            rows[c] += *scale * workspace->numbers[c];
    }
    return SP_OK;
}

enum sp_status sp_merge_rows(float *rows, const struct sp_merge *merge,
                             const struct sp_row_span *span, size_t index, uint64_t first,
                             uint64_t n, struct sp_merge_workspace *workspace, struct sp_err *err)
{
    const struct sp_merge_change *change = &merge->changes[index];
    enum sp_status st = SP_OK;

    if (change->whole) st = change_rows(rows, span, change->whole, NULL, first, n, workspace, err);
    if (!st && change->product)
        st = add_product(rows, merge, span, change, first, n, workspace, err);
    if (!st && change->bias) {
        float scale = (float)change->bias->scale;
        st = change_rows(rows, span, change->bias->bias, &scale, first, n, workspace, err);
    }
    if (st) sp_context(err, "%s", merge->adapter.path);
    return st;
}

void sp_merge_workspace_release(struct sp_merge_workspace *workspace)
{
    free(workspace->panels);
    sp_acts_release(&workspace->rows);
    free(workspace->sums);
    free(workspace->scratch.bytes);
    free(workspace->numbers);
    *workspace = (struct sp_merge_workspace){0};
}
