/* Rows of tensors as published: blocks are decoded, and what the converter did is undone. */

#include "convert/gguf/gguf_model.h"
#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "format/ggml_type.h"
#include "quantize/ggml_blocks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum sp_dtype sp_gguf_weight_float_type(const struct sp_gguf_weight *w)
{
    if (w->less != 0 || w->log || w->scale) return SP_F32;
    switch (w->tensor->type) {
    case SP_GGML_F16:
        return SP_F16;
    case SP_GGML_BF16:
    case SP_GGML_MXFP4: /* two significant bits times a power of two */
    case SP_GGML_NVFP4: /* two significant bits times four */
        return SP_BF16;
    default:
        return SP_F32;
    }
}

enum sp_dtype sp_gguf_weight_kept(uint8_t *flags, const struct sp_gguf_weight *w)
{
    bool changed = w->less != 0 || w->log || w->scale || w->is_value || w->cols.run || w->rank < 2;

    *flags = 0;
    return changed ? SP_DTYPE_NONE : sp_ggml_kept(flags, w->tensor->type);
}

enum sp_status sp_gguf_weight_put_row(uint8_t *panel, size_t lane, const struct sp_gguf_weight *w,
                                      uint64_t row, uint8_t *bytes, struct sp_err *err)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);
    size_t n_blocks = (size_t)(w->shape[w->rank - 1] / info->block), size = n_blocks * info->size;
    uint64_t stored = w->rows.run ? sp_gguf_stored_at(&w->rows, row) : row;
    struct sp_group groups[SP_GGML_MAX_GROUPS];
    uint8_t flags;
    const struct sp_groupwise *type = &sp_dtype_info(sp_gguf_weight_kept(&flags, w))->groups;
    enum sp_status st = sp_gguf_read(w->tensor, stored * size, size, bytes, err);

    for (size_t i = 0; i < n_blocks && !st; i++) {
        size_t n = sp_ggml_unpack(groups, w->tensor->type, bytes + i * info->size);
        for (size_t g = 0; g < n && !st; g++) {
            sp_group_put(panel, type, i * n + g, lane, &groups[g]);
            st = sp_group_check(panel, type, i * n + g, lane, &groups[g], row, err);
        }
    }
    return st;
}

bool sp_gguf_weight_scratch(size_t *out, const struct sp_gguf_weight *w, uint64_t n_cols)
{
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);
    uint64_t blocks = n_cols / info->block + (n_cols % info->block != 0);

    return blocks <= SIZE_MAX && sp_mul(out, (size_t)blocks, info->size);
}

/* The natural logarithm, by operations that every machine rounds alike, which C libraries do
 * not promise. With x = m 2^e and s = (m - 1) / (m + 1) it is e log 2 + 2 (s + s^3 / 3 + ...). */
static double logarithm(double x)
{
    int e;
    double m = frexp(x, &e), s, sum = 0;

    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    s = (m - 1) / (m + 1);
    for (int k = 23; k > 0; k -= 2)
        sum = sum * s * s + 1.0 / k;
    return e * 0.69314718055994531 + 2 * s * sum;
}

/* x of -e^x. Its published number is a bfloat16 in most checkpoints, and is taken where it is
 * within the rounding of the exponential. */
static float undo_exponential(float stored)
{
    float x = (float)logarithm(-(double)stored);
    uint32_t bits = sp_bits_of_float(x) + 0x7fff;
    float near = sp_float_of_bits((bits + (bits >> 16 & 1)) & 0xffff0000);
    float rounding = 1.2e-7f * (fabsf(x) > 1 ? fabsf(x) : 1);

    return fabsf(near - x) <= rounding ? near : x;
}

/* Undoes what the converter did to n numbers, the first of which is element `first`. */
static enum sp_status undo(float *x, const struct sp_gguf_weight *w, uint64_t first, size_t n,
                           struct sp_err *err)
{
    for (size_t i = 0; w->less != 0 && i < n; i++)
        x[i] -= w->less;
    for (size_t i = 0; w->log && i < n; i++) {
        if (!(x[i] < 0) || isinf(x[i])) {
            return sp_fail(err, SP_E_INPUT, "tensor %s: element %" PRIu64 " is not below 0",
                           w->tensor->name, first + i);
        }
        x[i] = undo_exponential(x[i]);
    }
    return SP_OK;
}

/* Elements first..first + n - 1 in stored order; both are multiples of a block. */
static enum sp_status read_run(float *out, const struct sp_gguf_weight *w, uint64_t first,
                               uint64_t n, uint8_t *bytes, size_t size, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_ggml_type_info *info = sp_ggml_type_info(w->tensor->type);
    uint64_t block = first / info->block, left = n / info->block;

    while (left) {
        size_t some = left < size / info->size ? (size_t)left : size / info->size;
        st = sp_gguf_read(w->tensor, block * info->size, some * info->size, bytes, err);
        if (st) return st;
        sp_ggml_decode(out, w->tensor->type, bytes, some);
        st = undo(out, w, block * info->block, some * info->block, err);
        if (st) return st;
        out += some * info->block;
        block += some;
        left -= some;
    }
    return SP_OK;
}

/* Puts n rows in the published order of columns. */
static enum sp_status reorder_columns(float *x, const struct sp_gguf_weight *w, uint64_t n_cols,
                                      uint64_t n, struct sp_err *err)
{
    enum sp_status st;
    float *row;

    if (n_cols != w->shape[w->rank - 1])
        return sp_fail(err, SP_E_BUG, "tensor %s: columns of a part of a row", w->tensor->name);
    if ((st = sp_new(&row, (size_t)n_cols, sizeof *row, err))) return st;
    for (uint64_t i = 0; i < n; i++, x += n_cols) {
        memcpy(row, x, (size_t)n_cols * sizeof *row);
        for (uint64_t k = 0; k < n_cols; k++)
            x[k] = row[sp_gguf_stored_at(&w->cols, k)];
    }
    free(row);
    return SP_OK;
}

/* Multiplies rows first, first + step, ... by the factors of their matrices. */
static enum sp_status scale_rows(float *x, const struct sp_gguf_weight *w, uint64_t n_cols,
                                 uint64_t first, uint64_t step, uint64_t n, struct sp_err *err)
{
    uint64_t rows = w->scale->shape[0] == 1 ? UINT64_MAX : w->shape[1], read = UINT64_MAX;
    float factor = 1;

    if (n_cols != w->shape[w->rank - 1])
        return sp_fail(err, SP_E_BUG, "tensor %s: a part of a scaled row", w->tensor->name);
    for (uint64_t i = 0; i < n; i++, x += n_cols) {
        uint64_t matrix = (first + i * step) / rows;
        uint8_t bytes[4];
        enum sp_status st;
        if (matrix != read) {
            if ((st = sp_gguf_read(w->scale, 4 * matrix, 4, bytes, err))) return st;
            factor = sp_float_of_bits(sp_get32(bytes));
            read = matrix;
        }
        for (uint64_t k = 0; k < n_cols; k++)
            x[k] *= factor;
    }
    return SP_OK;
}

static enum sp_status read_rows(float *out, const struct sp_gguf_weight *w, uint64_t n_cols,
                                uint64_t first, uint64_t step, uint64_t n, uint8_t *bytes,
                                size_t size, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    if (w->rows.run == 0 && step == 1)
        return read_run(out, w, first * n_cols, n * n_cols, bytes, size, err);
    if (w->rows.run && w->rank == 1 && n_cols > 1) { /* a whole vector: its elements are its rows */
        n *= n_cols;
        first *= n_cols;
        n_cols = 1;
    }
    for (uint64_t i = 0; i < n && !st; i++) {
        uint64_t row = sp_gguf_stored_at(&w->rows, first + i * step);
        st = read_run(out + i * n_cols, w, row * n_cols, n_cols, bytes, size, err);
    }
    return st;
}

enum sp_status sp_gguf_weight_read(float *out, const struct sp_gguf_weight *w, uint64_t n_cols,
                                   uint64_t first, uint64_t step, uint64_t n, uint8_t *bytes,
                                   size_t size, struct sp_err *err)
{
    enum sp_status st;

    for (uint64_t i = 0; w->is_value && i < n * n_cols; i++)
        out[i] = w->value;
    if (w->is_value) return SP_OK;
    /* Rows of one element are those of a vector in another order, or of one that is taken apart. */
    if (n_cols % sp_ggml_type_info(w->tensor->type)->block) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor %s: %s blocks cannot be split",
                       w->tensor->name, sp_ggml_type_info(w->tensor->type)->name);
    }
    st = read_rows(out, w, n_cols, first, step, n, bytes, size, err);
    if (!st && w->scale) st = scale_rows(out, w, n_cols, first, step, n, err);
    return st || w->cols.run == 0 ? st : reorder_columns(out, w, n_cols, n, err);
}
