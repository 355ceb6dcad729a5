/* Rows of a quantized weight as floats: codes of many rows at a time, with the rows of the grids of
 * scales and zero points that go with them. */
#include "convert/source/quantized_weights_read.h"
#include "convert/source/quantized_weights.h"

#include "format/base/mem.h"
#include "quantize/float_cast.h"

#include <math.h>

/* Rows of codes being decoded, and where their scales and zero points are in the scratch. */
struct span {
    const struct sp_weight *weight;
    const struct sp_safetensors *checkpoint;
    uint64_t first_grid_row;
    const uint8_t *scale_bytes, *zero_bytes;
    float *scales, *zeros; /* of one grid row */
    uint64_t current;      /* the grid row they hold */
};

static size_t bytes_of(enum sp_dtype dtype)
{
    return sp_dtype_info(dtype)->bits / 8;
}

static uint64_t grid_row(const struct sp_weight *w, uint64_t row)
{
    uint64_t rows = w->shape[w->rank - 2];

    return row / rows * w->grid_rows + (w->grid_rows ? row % rows / w->tile.rows : 0);
}

/* Rows of zero points that share a row of words. */
static unsigned zeros_per_word(const struct sp_weight *w)
{
    return w->zeros_packed ? 32 / sp_code_bits(w->code) : 1;
}

static size_t scale_row_size(const struct sp_weight *w)
{
    return (size_t)w->grid_cols * bytes_of(w->scales->dtype);
}

static size_t zero_row_size(const struct sp_weight *w)
{
    return w->zeros ? (size_t)w->grid_cols * bytes_of(w->zeros->dtype) : 0;
}

/* Bytes for a row of codes with its scales and zero points. Both are no longer than four bytes for
 * each column: far from overflow once the codes are not. */
static size_t row_need(const struct sp_weight *w)
{
    return w->row_size + scale_row_size(w) + zero_row_size(w);
}

bool sp_weight_scratch(size_t *out, const struct sp_weight *w)
{
    size_t floats;

    if (!sp_mul(&floats, (size_t)w->grid_cols, 2 * sizeof(float))) return false;
    *out = row_need(w) > floats ? row_need(w) : floats;
    return true;
}

enum sp_dtype sp_weight_float_type(const struct sp_weight *w)
{
    bool powers_of_two = w->scale_type == SP_F8_E8M0;

    return w->to_bf16 || (w->code == SP_CODE_E2M1 && powers_of_two) ? SP_BF16 : SP_F32;
}

/* Codes of 8 bits may be -128, which q8 has not. */
bool sp_weight_fits_q8(const struct sp_weight *w)
{
    uint64_t cols = w->shape[w->rank - 1];

    return w->code == SP_CODE_U4 && w->scale_type == SP_BF16 && cols % SP_BLOCK == 0 &&
           (w->grid_cols == 1 || w->tile.cols % SP_BLOCK == 0) &&
           (w->zeros == NULL || w->zeros_packed);
}

uint64_t sp_weight_size(const struct sp_weight *w)
{
    return w->codes->size + w->scales->size + (w->zeros ? w->zeros->size : 0);
}

static enum sp_status check_scales(const struct span *s, uint64_t row, struct sp_err *err)
{
    const struct sp_weight *w = s->weight;

    for (uint64_t c = 0; c < w->grid_cols; c++) {
        if (isfinite(s->scales[c]) && (s->zeros == NULL || isfinite(s->zeros[c]))) continue;
        return sp_fail(err, SP_E_INPUT,
                       "tensor \"%s\": the %s of row %llu, column %llu is not a finite number",
                       isfinite(s->scales[c]) ? w->zeros->name : w->scales->name,
                       isfinite(s->scales[c]) ? "zero point" : "scale", (unsigned long long)row,
                       (unsigned long long)c);
    }
    return SP_OK;
}

/* scales[] and zeros[] become those of this row of the grid. */
static enum sp_status turn_to(struct span *s, uint64_t row, struct sp_err *err)
{
    const struct sp_weight *w = s->weight;
    size_t n = (size_t)w->grid_cols;
    unsigned per = zeros_per_word(w);

    if (row == s->current) return SP_OK;
    s->current = row;
    sp_checkpoint_codes_read(s->scales, w->scale_type,
                             s->scale_bytes + (row - s->first_grid_row) * scale_row_size(w), n);
    for (size_t c = 0; w->global && c < n; c++) {
        s->scales[c] = w->global_divides ? s->scales[c] / w->factor : s->scales[c] * w->factor;
    }
    if (w->zeros) {
        const uint8_t *zeros =
            s->zero_bytes + (row / per - s->first_grid_row / per) * zero_row_size(w);
        if (w->zeros_packed) {
            sp_checkpoint_codes_read_packed(s->zeros, w->code, zeros, (unsigned)(row % per), n);
        } else {
            sp_checkpoint_codes_read(s->zeros, w->zeros->dtype, zeros, n);
        }
    }
    return check_scales(s, row, err);
}

/* Reads the grids' rows for rows first..last into `bytes`. */
static enum sp_status read_grids(struct span *s, uint64_t first, uint64_t last, uint8_t *bytes,
                                 struct sp_err *err)
{
    const struct sp_weight *w = s->weight;
    uint64_t begin = grid_row(w, first), end = grid_row(w, last) + 1;
    uint64_t per = zeros_per_word(w), first_word = begin / per;
    size_t size = (size_t)(end - begin) * scale_row_size(w);
    enum sp_status st;

    s->first_grid_row = begin;
    s->current = UINT64_MAX;
    s->scale_bytes = bytes;
    st = sp_safetensors_read(s->checkpoint, w->scales, begin * scale_row_size(w), size, bytes, err);
    if (st || w->zeros == NULL) return st;
    s->zero_bytes = bytes + size;
    return sp_safetensors_read(s->checkpoint, w->zeros, first_word * zero_row_size(w),
                               (size_t)((end - 1) / per + 1 - first_word) * zero_row_size(w),
                               bytes + size, err);
}

static void decode_row(float *out, const struct span *s, const uint8_t *codes)
{
    const struct sp_weight *w = s->weight;
    size_t cols = (size_t)w->shape[w->rank - 1];

    sp_checkpoint_codes_decode_row(out, w->code, codes, cols, s->scales, s->zeros,
                                   (size_t)w->tile.cols);
    for (size_t k = 0; w->to_bf16 && k < cols; k++)
        out[k] = sp_f32_of_bf16(sp_bf16_of_f32(out[k]));
}

enum sp_status sp_weight_read(float *out, const struct sp_weight *w,
                              const struct sp_safetensors *checkpoint, uint64_t first,
                              uint64_t step, uint64_t n, uint8_t *bytes, size_t size, float *floats,
                              struct sp_err *err)
{
    struct span s = {.weight = w, .checkpoint = checkpoint, .scales = floats};
    size_t cols = (size_t)w->shape[w->rank - 1];
    uint64_t most = 1 + (size / row_need(w) - 1) / step;
    enum sp_status st;

    if (w->zeros) s.zeros = floats + w->grid_cols;
    for (uint64_t done = 0; done < n;) {
        uint64_t m = n - done < most ? n - done : most;
        uint64_t row = first + done * step, n_rows = (m - 1) * step + 1;
        size_t code_size = (size_t)n_rows * w->row_size;

        st = sp_safetensors_read(checkpoint, w->codes, row * w->row_size, code_size, bytes, err);
        if (st) return st;
        if ((st = read_grids(&s, row, row + n_rows - 1, bytes + code_size, err))) return st;
        for (uint64_t r = 0; r < m; r++) {
            if ((st = turn_to(&s, grid_row(w, row + r * step), err))) return st;
            decode_row(out + (done + r) * cols, &s, bytes + (size_t)(r * step) * w->row_size);
        }
        done += m;
    }
    return SP_OK;
}
