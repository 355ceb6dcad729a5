/* Changing rows as they are read. A product's right factor is laid out as the panels that the
 * kernels multiply, once for each thread that comes to its matrix; of the left one the rows that
 * are wanted are read. */
#include "convert/adapter/merge.h"

#include "format/base/mem.h"
#include "quantize/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 1 << 18 }; /* bytes of a factor read at a time, or one row of it */

static enum sp_status grow(void *array, size_t *cap, size_t n, size_t size, struct sp_err *err)
{
    void **p = array, *grown = NULL;
    enum sp_status st;

    if (n <= *cap) return SP_OK;
    if ((st = sp_new_aligned(&grown, n, size, err))) return st;
    free(*p);
    *p = grown;
    *cap = n;
    return SP_OK;
}

/* room->numbers[0..n-1] = elements first.. of a tensor. */
static enum sp_status read_elements(struct sp_merge_room *room, const struct sp_merge *merge,
                                    const struct sp_safetensor *t, uint64_t first, size_t n,
                                    struct sp_err *err)
{
    size_t width = sp_dtype_info(t->dtype)->bits / 8;
    enum sp_status st;

    if ((st = grow(&room->bytes, &room->cap_bytes, n * width, 1, err))) return st;
    st = grow(&room->numbers, &room->cap_numbers, n, sizeof *room->numbers, err);
    if (st) return st;
    st = sp_safetensors_read(merge->adapter.file, t, first * width, n * width, room->bytes, err);
    if (st) return st;
    sp_decode_floats(room->numbers, t->dtype, room->bytes, n);
    return SP_OK;
}

/* ---- products ---- */

/* Panel element (column c of the result, k of the rank). */
static float *panel_element(struct sp_merge_room *room, size_t rank, size_t c, size_t k)
{
    return room->panels + (c / SP_PANEL_ROWS * rank + k) * SP_PANEL_ROWS + c % SP_PANEL_ROWS;
}

static size_t n_panels(size_t cols)
{
    return (cols + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
}

/* Lays out the right factor, whole rows of its tensor at a time. */
static enum sp_status hold_right(struct sp_merge_room *room, const struct sp_merge *merge,
                                 const struct sp_adapter_factors *f, size_t rank, size_t cols,
                                 struct sp_err *err)
{
    size_t rows = f->transposed ? cols : rank, width = f->transposed ? rank : cols;
    size_t most = READ_SIZE / (width * sizeof(float)) + 1, size;
    enum sp_status st;

    if (!sp_mul(&size, n_panels(cols) * SP_PANEL_ROWS, rank)) {
        return sp_fail(err, SP_E_UNSUPPORTED, "tensor \"%s\" is too large", f->right->name);
    }
    st = grow(&room->panels, &room->cap_panels, size, sizeof *room->panels, err);
    if (st) return st;
    memset(room->panels, 0, size * sizeof *room->panels);
    for (size_t row = 0; row < rows; row += most) {
        size_t n = rows - row < most ? rows - row : most;

        st = read_elements(room, merge, f->right, (room->expert * rows + row) * width, n * width,
                           err);
        if (st) return st;
        for (size_t i = 0; i < n * width; i++) {
            size_t r = row + i / width, c = i % width;
            *panel_element(room, rank, f->transposed ? r : c, f->transposed ? c : r) =
                room->numbers[i];
        }
    }
    return SP_OK;
}

static enum sp_status hold(struct sp_merge_room *room, const struct sp_merge *merge,
                           const struct sp_merge_change *change, size_t cols, struct sp_err *err)
{
    struct sp_adapter_factors f = sp_adapter_factors(&merge->adapter, change->product);
    size_t rank = (size_t)f.rank;
    enum sp_status st;

    if (room->held == change->product && room->expert == change->expert) return SP_OK;
    room->held = NULL;
    room->expert = change->expert;
    if (room->rank != rank) {
        sp_acts_release(&room->rows);
        room->rank = 0;
        if ((st = sp_acts_init(&room->rows, SP_TILE_ROWS, rank, err))) return st;
        room->rank = rank;
    }
    st = grow(&room->sums, &room->cap_sums, SP_TILE_ROWS * n_panels(cols) * SP_PANEL_ROWS,
              sizeof *room->sums, err);
    if (st || (st = hold_right(room, merge, &f, rank, cols, err))) return st;
    room->held = change->product;
    return SP_OK;
}

/* room->rows = n rows of the left factor, row, row + step, ... */
static enum sp_status read_left(struct sp_merge_room *room, const struct sp_merge *merge,
                                uint64_t row, uint64_t step, size_t n, struct sp_err *err)
{
    struct sp_adapter_factors f = sp_adapter_factors(&merge->adapter, room->held);
    size_t rank = room->rank, ld = room->rows.ld;
    enum sp_status st;

    if (room->held->experts) row += room->expert * f.left->shape[1];
    if (!f.transposed) {
        st = read_elements(room, merge, f.left, row * rank, ((n - 1) * (size_t)step + 1) * rank,
                           err);
        if (st) return st;
        for (size_t r = 0; r < n; r++) {
            memcpy(room->rows.x + r * ld, room->numbers + r * step * rank, rank * sizeof(float));
        }
    }
    for (size_t k = 0; f.transposed && k < rank; k++) {
        st = read_elements(room, merge, f.left, k * f.left->shape[1] + row,
                           (size_t)((n - 1) * step + 1), err);
        if (st) return st;
        for (size_t r = 0; r < n; r++)
            room->rows.x[r * ld + k] = room->numbers[r * step];
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

static enum sp_status give_lengths(float *rows, const struct sp_merge *merge,
                                   const struct sp_piece *piece, uint64_t first, size_t n,
                                   struct sp_merge_room *room, struct sp_err *err)
{
    const struct sp_safetensor *magnitudes = room->held->magnitudes;
    enum sp_status st;

    for (size_t r = 0; r < n; r++) {
        uint64_t row = piece->first_row + (first + r) * piece->step;

        if ((st = read_elements(room, merge, magnitudes, row, 1, err))) return st;
        give_length(rows + r * piece->n_cols, (size_t)piece->n_cols, room->numbers[0]);
    }
    return SP_OK;
}

/* At most a tile of rows. */
static enum sp_status add_tile(float *rows, const struct sp_merge *merge,
                               const struct sp_piece *piece, uint64_t first, size_t n,
                               struct sp_merge_room *room, struct sp_err *err)
{
    const struct sp_kernels *kernels = sp_kernels_best();
    size_t cols = (size_t)piece->n_cols, ld = n_panels(cols) * SP_PANEL_ROWS;
    float scale = (float)room->held->scale;
    enum sp_status st;

    st = read_left(room, merge, piece->first_row + first * piece->step, piece->step, n, err);
    if (st) return st;
    sp_matmul_rows(kernels, SP_F32, room->sums, ld, (const uint8_t *)room->panels, n_panels(cols),
                   &room->rows, 0, n);
    for (size_t r = 0; r < n; r++) {
        for (size_t c = 0; c < cols; c++)
            rows[r * cols + c] += scale * room->sums[r * ld + c];
    }
    return room->held->magnitudes ? give_lengths(rows, merge, piece, first, n, room, err) : SP_OK;
}

static enum sp_status add_product(float *rows, const struct sp_merge *merge,
                                  const struct sp_piece *piece,
                                  const struct sp_merge_change *change, uint64_t first, uint64_t n,
                                  struct sp_merge_room *room, struct sp_err *err)
{
    enum sp_status st;

    if ((st = hold(room, merge, change, (size_t)piece->n_cols, err))) return st;
    for (uint64_t done = 0; done < n; done += SP_TILE_ROWS) {
        size_t m = n - done < SP_TILE_ROWS ? (size_t)(n - done) : SP_TILE_ROWS;

        st = add_tile(rows + done * piece->n_cols, merge, piece, first + done, m, room, err);
        if (st) return st;
    }
    return SP_OK;
}

/* ---- whole rows, biases ---- */

/* Rows of another tensor of the same shape: put in place of those that are there, or added. */
static enum sp_status change_rows(float *rows, const struct sp_merge *merge,
                                  const struct sp_piece *piece, const struct sp_safetensor *t,
                                  const float *scale, uint64_t first, uint64_t n,
                                  struct sp_merge_room *room, struct sp_err *err)
{
    size_t cols = (size_t)piece->n_cols;

    for (uint64_t r = 0; r < n; r++, rows += cols) {
        uint64_t row = piece->first_row + (first + r) * piece->step;
        enum sp_status st = read_elements(room, merge, t, row * cols, cols, err);

        if (st) return st;
        if (scale == NULL) memcpy(rows, room->numbers, cols * sizeof *rows);
        for (size_t c = 0; scale && c < cols; c++)
            rows[c] += *scale * room->numbers[c];
    }
    return SP_OK;
}

enum sp_status sp_merge_rows(float *rows, const struct sp_merge *merge,
                             const struct sp_piece *piece, size_t index, uint64_t first, uint64_t n,
                             struct sp_merge_room *room, struct sp_err *err)
{
    const struct sp_merge_change *change = &merge->changes[index];
    enum sp_status st = SP_OK;

    if (change->whole) {
        st = change_rows(rows, merge, piece, change->whole, NULL, first, n, room, err);
    }
    if (!st && change->product) {
        st = add_product(rows, merge, piece, change, first, n, room, err);
    }
    if (!st && change->bias) {
        float scale = (float)change->bias->scale;
        st = change_rows(rows, merge, piece, change->bias->bias, &scale, first, n, room, err);
    }
    if (st) sp_context(err, "%s", merge->adapter.path);
    return st;
}

void sp_merge_room_release(struct sp_merge_room *room)
{
    free(room->panels);
    sp_acts_release(&room->rows);
    free(room->sums);
    free(room->bytes);
    free(room->numbers);
    *room = (struct sp_merge_room){0};
}
