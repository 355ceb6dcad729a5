/* Rows of a quantized weight as floats. Codes, scales and zero points of a range of rows are
 * unpacked into arrays in row order; decoding takes them from there, whatever the layout of the
 * file.
 *
 * A weight whose columns are stored one after another is unpacked ahead of the rows wanted, because
 * reading a few of its rows takes as many calls as reading hundreds. Strips of four chunks of the
 * executor halve the time of AWQ checkpoints compared with strips of one. */
#include "convert/source/quantized_weights.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/groupwise.h"

#include <math.h>
#include <stdlib.h>

enum {
    STRIP_CODES = 1 << 19, /* unpacked at a time, if rows are not longer */
    STRIP_ROWS = 4096,
    AHEAD = 4, /* times as many where columns are stored one after another */
};

static uint64_t columns(const struct sp_weight *w)
{
    return w->shape[w->rank - 1];
}

/* Products of codes and powers of two, or of codes of 2 and scales of 4 significant bits, fit
 * bf16. */
enum sp_dtype sp_weight_float_type(const struct sp_weight *w)
{
    bool short_scales = w->scale_type == SP_F8_E8M0 || (w->scale_type == SP_F8_E4M3 && !w->global);

    return w->to_bf16 || (w->code == SP_CODE_E2M1 && short_scales) ? SP_BF16 : SP_F32;
}

/* The smallest type with the bits of a code whose groups are parts of those of the weight. */
static enum sp_dtype affine_type(const struct sp_weight *w, bool centered)
{
    uint64_t cols = columns(w), shared = w->grid_cols == 1 ? cols : w->tile.cols;
    size_t size, least = SIZE_MAX;
    enum sp_dtype found = SP_DTYPE_NONE;

    for (uint32_t d = SP_I4G32; d < SP_N_PACKED_DTYPES; d++) {
        const struct sp_groupwise *groups = &sp_dtype_info(d)->groups;
        bool scale = w->code == SP_CODE_TERNARY || (w->codes.bits % 4 == 0 && centered);
        bool fits = (groups->kind == SP_GROUP_SCALE && scale) ||
                    (groups->kind == SP_GROUP_AFFINE && w->code != SP_CODE_TERNARY);

        if (!fits || groups->levels || groups->code_bits != w->codes.bits) continue;
        if (shared % groups->cols) continue;
        if (!sp_panel_size(&size, d, (size_t)cols) || size >= least) continue;
        found = d;
        least = size;
    }
    return found;
}

enum sp_dtype sp_weight_kept(uint8_t *flags, const struct sp_weight *w)
{
    bool has_zeros = w->zeros || w->zero_codes.tensor;
    bool centered = w->code == SP_CODE_CENTERED || w->code == SP_CODE_SIGNED;

    *flags = 0;
    if (w->index || w->flat || w->nested.scales || w->after != 0 || w->scales_divide)
        return SP_DTYPE_NONE;
    if (w->code == SP_CODE_E2M1 && !has_zeros && columns(w) % SP_BLOCK == 0) {
        if (w->global) *flags = w->global_divides ? SP_GROUPS_DIVIDES : SP_GROUPS_FIRST;
        if (w->to_bf16) *flags |= SP_GROUPS_ROUNDED;
        if (w->scale_type == SP_F8_E8M0 && w->tile.cols == 32 && *flags == 0) return SP_MXFP4;
        return w->scale_type == SP_F8_E4M3 && w->tile.cols == 16 ? SP_NVFP4 : SP_DTYPE_NONE;
    }
    if (!centered && w->code != SP_CODE_UNSIGNED && w->code != SP_CODE_TERNARY)
        return SP_DTYPE_NONE;
    if (w->global || w->to_bf16 || !sp_dtype_is_float(w->scale_type)) return SP_DTYPE_NONE;
    if (w->zeros && w->zeros->dtype != (w->biases ? w->scale_type : SP_I8)) return SP_DTYPE_NONE;
    *flags = (uint8_t)((w->scale_type == SP_F16 ? 0 : SP_GROUPS_BF16) |
                       (w->biases ? SP_GROUPS_BIAS : 0));
    return affine_type(w, centered && !has_zeros);
}

void sp_weight_workspace_release(struct sp_weight_workspace *ws)
{
    free(ws->codes);
    free(ws->scales);
    free(ws->zeros);
    free(ws->index);
    free(ws->zero_codes);
    free(ws->row);
    sp_code_buffer_release(&ws->buffer);
    *ws = (struct sp_weight_workspace){0};
}

/* The row of the grid that column k of a row belongs to; of a flat weight its group. */
static uint64_t grid_row(const struct sp_weight *w, uint64_t row, uint64_t k)
{
    uint64_t rows = w->shape[w->rank - 2];

    if (w->flat) return (row * columns(w) + k) / w->tile.cols;
    return row / rows * w->grid_rows + (w->grid_rows ? row % rows / w->tile.rows : 0);
}

/* ---- scales and zero points ---- */

/* out[n][grid_cols] = rows of the grid from a tensor of numbers. */
static enum sp_status read_numbers(float *out, const struct sp_weight *w,
                                   const struct sp_safetensor *t, enum sp_dtype type,
                                   uint64_t first, size_t n, struct sp_weight_workspace *ws,
                                   struct sp_err *err)
{
    size_t groups = (size_t)w->grid_cols, size = sp_dtype_info(t->dtype)->bits / 8;
    size_t stored = w->scales_transposed ? n : groups;
    struct sp_strip strip = {.tensor = t, .step = w->scale_pitch * size, .want = stored * size};
    enum sp_status st;

    strip.offset = first * (w->scales_transposed ? size : strip.step);
    strip.n_rows = w->scales_transposed ? groups : n;
    if ((st = sp_reserve(&ws->row, &ws->caps[5], stored, sizeof(float), err))) return st;
    for (size_t done = 0; done < strip.n_rows; done += strip.n) {
        if ((st = sp_strip_read(&strip, done, &ws->buffer, err))) return st;
        for (size_t i = 0; i < strip.n; i++) {
            const uint8_t *row = ws->buffer.bytes + i * strip.between;
            if (!w->scales_transposed) {
                sp_checkpoint_codes_read(out + (done + i) * groups, type, row, groups);
                continue;
            }
            sp_checkpoint_codes_read(ws->row, type, row, n);
            for (size_t r = 0; r < n; r++)
                out[r * groups + done + i] = ws->row[r];
        }
    }
    return SP_OK;
}

static enum sp_status read_zero_codes(const struct sp_weight *w, uint64_t first, size_t n,
                                      struct sp_weight_workspace *ws, struct sp_err *err)
{
    size_t all = n * (size_t)w->grid_cols;
    unsigned one = w->zeros_wrap ? 1 : 0, mask = (1u << w->zero_codes.bits) - 1;
    enum sp_status st;

    if ((st = sp_reserve(&ws->zero_codes, &ws->caps[4], all, 1, err))) return st;
    st = sp_code_matrix_read(ws->zero_codes, &w->zero_codes, first, n, &ws->buffer, err);
    for (size_t i = 0; st == SP_OK && i < all; i++)
        ws->zeros[i] = (float)((ws->zero_codes[i] + one) & mask);
    return st;
}

static enum sp_status check_finite(const float *x, const struct sp_weight *w, size_t n,
                                   const struct sp_weight_workspace *ws, const char *name,
                                   const char *what, struct sp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i])) continue;
        return sp_fail(err, SP_E_INPUT,
                       "tensor \"%s\": the %s of row %llu, column %llu is not a finite number",
                       name, what, (unsigned long long)(ws->first_grid_row + i / w->grid_cols),
                       (unsigned long long)(i % w->grid_cols));
    }
    return SP_OK;
}

/* out[n] = numbers first.. of a vector. */
static enum sp_status read_vector(float *out, const struct sp_safetensor *t, uint64_t first,
                                  size_t n, struct sp_weight_workspace *ws, struct sp_err *err)
{
    struct sp_weight plain = {.grid_cols = 1, .scale_pitch = 1};

    return read_numbers(out, &plain, t, t->dtype, first, n, ws, err);
}

/* scales[i] becomes table[code] * nested[i / block] + offset. */
static enum sp_status read_nested(const struct sp_weight *w, uint64_t first, size_t n,
                                  struct sp_weight_workspace *ws, struct sp_err *err)
{
    const struct sp_nested_scales *nested = &w->nested;
    uint64_t begin = first / nested->block, end = (first + n - 1) / nested->block + 1;
    struct sp_code_matrix codes = {
        .tensor = w->scales, .bits = 8, .rows = w->scales->shape[0], .cols = 1, .pitch = 8};
    enum sp_status st;

    if ((st = sp_reserve(&ws->zero_codes, &ws->caps[4], n, 1, err)) ||
        (st = sp_code_matrix_read(ws->zero_codes, &codes, first, n, &ws->buffer, err)) ||
        (st = read_vector(ws->zeros, nested->scales, begin, (size_t)(end - begin), ws, err)))
        return st;
    for (size_t i = 0; i < n; i++) {
        uint64_t block = (first + i) / nested->block - begin;
        ws->scales[i] = ws->nested[ws->zero_codes[i]] * ws->zeros[block] + nested->offset;
    }
    return SP_OK;
}

static enum sp_status load_grid(const struct sp_weight *w, uint64_t first, uint64_t last,
                                struct sp_weight_workspace *ws, struct sp_err *err)
{
    uint64_t begin = grid_row(w, first, 0);
    size_t n = (size_t)(grid_row(w, last, columns(w) - 1) + 1 - begin);
    size_t all = n * (size_t)w->grid_cols;
    enum sp_status st;

    ws->first_grid_row = begin;
    if ((st = sp_reserve(&ws->scales, &ws->caps[1], all, sizeof(float), err))) return st;
    if ((st = sp_reserve(&ws->zeros, &ws->caps[2], all, sizeof(float), err))) return st;
    st = w->nested.scales
             ? read_nested(w, begin, n, ws, err)
             : read_numbers(ws->scales, w, w->scales, w->scale_type, begin, n, ws, err);
    if (st) return st;
    for (size_t i = 0; w->scales_divide && i < all; i++)
        ws->scales[i] = 1 / ws->scales[i];
    for (size_t i = 0; w->global && !ws->plain_scales && i < all; i++)
        ws->scales[i] = w->global_divides ? ws->scales[i] / w->factor : ws->scales[i] * w->factor;
    if ((st = check_finite(ws->scales, w, all, ws, w->scales->name, "scale", err))) return st;
    if (w->zero_codes.tensor) return read_zero_codes(w, begin, n, ws, err);
    if (w->zeros == NULL) return SP_OK;
    st = read_numbers(ws->zeros, w, w->zeros, w->zeros->dtype, begin, n, ws, err);
    if (st) return st;
    return check_finite(ws->zeros, w, all, ws, w->zeros->name, w->biases ? "bias" : "zero point",
                        err);
}

/* ---- what all rows share ---- */

static enum sp_status load_index(const struct sp_weight *w, struct sp_weight_workspace *ws,
                                 struct sp_err *err)
{
    size_t n = (size_t)columns(w);
    enum sp_status st;

    if ((st = sp_reserve(&ws->index, &ws->caps[3], n, sizeof *ws->index, err))) return st;
    st = sp_safetensors_read(w->index, 0, n * sizeof *ws->index, ws->index, err);
    for (size_t k = 0; st == SP_OK && k < n; k++) {
        uint32_t g = sp_get32((const uint8_t *)(ws->index + k));
        if (g >= w->grid_cols) {
            return sp_fail(err, SP_E_INPUT, "tensor \"%s\" changed while it was read",
                           w->index->name);
        }
        ws->index[k] = g;
    }
    return st;
}

static enum sp_status load_tables(const struct sp_weight *w, struct sp_weight_workspace *ws,
                                  struct sp_err *err)
{
    enum sp_status st;

    if (w->index && (st = load_index(w, ws, err))) return st;
    if (w->nested.table && (st = read_vector(ws->nested, w->nested.table, 0, 256, ws, err)))
        return st;
    if (w->table) return read_vector(ws->values, w->table, 0, 16, ws, err);
    sp_checkpoint_codes_values(ws->values, w->code, w->codes.bits);
    return SP_OK;
}

/* ---- rows ---- */

/* Unpacks rows from `first` on, at least one, and no more than `most` unless reading ahead pays. */
static enum sp_status load_strip(const struct sp_weight *w, uint64_t first, uint64_t most,
                                 struct sp_weight_workspace *ws, struct sp_err *err)
{
    uint64_t n = STRIP_CODES / columns(w), left = w->codes.rows - first;
    const struct sp_weight *held = ws->weight;
    enum sp_status st;

    if (w->codes.transposed) {
        most = left;
        n *= AHEAD;
    }
    if (n > STRIP_ROWS) n = STRIP_ROWS;
    if (n > most) n = most;
    if (n == 0) n = 1;
    ws->weight = NULL;
    if (held != w && (st = load_tables(w, ws, err))) return st;
    if ((st = sp_reserve(&ws->codes, &ws->caps[0], n * columns(w), 1, err)) ||
        (st = sp_code_matrix_read(ws->codes, &w->codes, first, (size_t)n, &ws->buffer, err)) ||
        (st = load_grid(w, first, first + n - 1, ws, err)))
        return st;
    ws->weight = w;
    ws->first = first;
    ws->n = n;
    return SP_OK;
}

static void decode_row(float *out, const struct sp_weight *w, uint64_t row,
                       const struct sp_weight_workspace *ws)
{
    size_t cols = (size_t)columns(w);
    uint64_t at = (grid_row(w, row, 0) - ws->first_grid_row) * w->grid_cols;
    struct sp_code_groups groups = {.scales = ws->scales + at,
                                    .biases = w->biases,
                                    .index = w->index ? ws->index : NULL,
                                    .size = (size_t)w->tile.cols};

    if (w->zeros || w->zero_codes.tensor) groups.zeros = ws->zeros + at;
    if (w->flat) groups.first = (size_t)(row * cols % w->tile.cols);
    sp_checkpoint_codes_decode_row(out, ws->values, ws->codes + (row - ws->first) * cols, cols,
                                   &groups);
    for (size_t k = 0; w->after != 0 && k < cols; k++)
        out[k] *= w->after;
    for (size_t k = 0; w->to_bf16 && k < cols; k++)
        out[k] = sp_f32_of_bf16(sp_bf16_of_f32(out[k]));
}

/* Loads the strip of a row, unless it is loaded, and no more than `most` rows. */
static enum sp_status hold_row(const struct sp_weight *w, uint64_t row, uint64_t most,
                               bool plain_scales, struct sp_weight_workspace *ws,
                               struct sp_err *err)
{
    bool held = ws->weight == w && row >= ws->first && row - ws->first < ws->n;

    if (held && ws->plain_scales == plain_scales) return SP_OK;
    ws->plain_scales = plain_scales;
    return load_strip(w, row, most, ws, err);
}

/* The bits of an e4m3 whose value is x. */
static uint8_t e4m3_of(float x)
{
    uint32_t bits = sp_bits_of_float(x), size = bits & 0x7fffffff;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);

    if (size < 121u << 23) return sign | (uint8_t)(sp_float_of_bits(size) * 512);
    return sign | (uint8_t)((size - (120u << 23)) >> 20);
}

static void put_number16(uint8_t *out, float x, uint8_t flags)
{
    sp_put16(out, flags & SP_GROUPS_BF16 ? sp_bf16_of_f32(x) : sp_f16_of_f32(x));
}

/* The numbers of the group that begins at column k of a row with these scales and zeros. */
static void put_numbers(struct sp_group *group, const struct sp_weight *w, enum sp_dtype dtype,
                        uint8_t flags, const float *scales, const float *zeros, size_t k)
{
    size_t g = k / (size_t)w->tile.cols;
    bool centered = w->code == SP_CODE_CENTERED || w->code == SP_CODE_SIGNED;
    float zero = centered ? (float)(1 << (w->codes.bits - 1)) : 0;

    if (dtype == SP_MXFP4) {
        group->numbers[0] = (uint8_t)(sp_bits_of_float(scales[g]) >> 23);
    } else if (dtype == SP_NVFP4) {
        group->numbers[0] = e4m3_of(scales[g]);
        group->numbers[1] = e4m3_of(scales[g + 1]);
    } else {
        put_number16(group->numbers, scales[g], flags);
        put_number16(group->numbers + 2, zeros ? zero + zeros[g] : zero, flags);
    }
}

enum sp_status sp_weight_put_row(uint8_t *panel, size_t lane, const struct sp_weight *w,
                                 uint64_t row, struct sp_weight_workspace *ws, struct sp_err *err)
{
    uint8_t flags;
    enum sp_dtype dtype = sp_weight_kept(&flags, w);
    const struct sp_groupwise *groups = &sp_dtype_info(dtype)->groups;
    size_t cols = (size_t)columns(w), n = groups->cols, at;
    uint8_t change = w->code == SP_CODE_SIGNED ? (uint8_t)(1 << (w->codes.bits - 1)) : 0;
    enum sp_status st = hold_row(w, row, w->codes.rows - row, true, ws, err);

    if (st) return st;
    if (w->global) sp_group_put_factor(panel, lane, w->factor);
    at = (size_t)((grid_row(w, row, 0) - ws->first_grid_row) * w->grid_cols);
    for (size_t k = 0; k < cols; k += n) {
        const uint8_t *codes = ws->codes + (row - ws->first) * cols + k;
        struct sp_group group;

        for (size_t i = 0; i < n; i++)
            group.codes[i] = codes[i] ^ change;
        put_numbers(&group, w, dtype, flags, ws->scales + at,
                    w->zeros || w->zero_codes.tensor ? ws->zeros + at : NULL, k);
        sp_group_put(panel, groups, k / n, lane, &group);
        if ((st = sp_group_check(panel, groups, k / n, lane, &group, row, err))) return st;
    }
    return SP_OK;
}

enum sp_status sp_weight_read(float *out, const struct sp_weight *w, uint64_t first, uint64_t step,
                              uint64_t n, struct sp_weight_workspace *ws, struct sp_err *err)
{
    uint64_t end = first + (n - 1) * step + 1;

    for (uint64_t row = first; n > 0 && row < end; row += step, out += columns(w)) {
        enum sp_status st = hold_row(w, row, end - row, false, ws, err);
        if (st) return st;
        decode_row(out, w, row, ws);
    }
    return SP_OK;
}
