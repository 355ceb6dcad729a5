/* Weights as floats, in rows. The tensor of a checkpoint or GGUF file is a sequence of pieces, each
 * every step-th row of a stored tensor, possibly transposed or quantized; that of a packed file is
 * decoded panel by panel. */
#include "convert/source/source.h"
#include "convert/adapter/merge.h"
#include "convert/source/quantized_weights.h"

#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "format/safetensors.h"
#include "quantize/codec.h"
#include "quantize/types/float_cast.h"
#include "quantize/kernels/kernels.h"
#include "quantize/types/groupwise.h"

#include <stdlib.h>

/* A row span and the stored tensor it is cut from. */
struct cut {
    const struct sp_row_span *span;
    const struct sp_gguf_weight *block; /* NULL: not of a GGUF file */
    const struct sp_weight *weight;     /* NULL: plain numbers in `tensor` */
    const struct sp_safetensor *tensor;
    size_t width;               /* bytes of an element */
    struct sp_scratch *scratch; /* for reading */
    struct sp_err *err;
};

static struct cut cut_of(const struct sp_source *source, const struct sp_tensor_spec *spec,
                         size_t i)
{
    struct cut cut = {.span = &source->specs.spans[spec->first_span + i]};

    if (source->gguf) {
        cut.block = sp_gguf_weight_find(source->gguf, cut.span->source);
        return cut;
    }
    cut.weight = sp_quantized_weights_find(&source->weights, cut.span->source);
    if (cut.weight) return cut;
    cut.tensor = sp_safetensors_find(source->checkpoint, cut.span->source);
    cut.width = sp_dtype_info(cut.tensor->dtype)->bits / 8;
    return cut;
}

/* The columns of a stored weight that is decoded by whole rows. */
static uint64_t stored_cols(const struct cut *cut)
{
    return cut->block ? cut->block->shape[cut->block->rank - 1]
                      : cut->weight->shape[cut->weight->rank - 1];
}

static enum sp_status grow_scratch(struct sp_scratch *scratch, size_t size, struct sp_err *err)
{
    enum sp_status st;

    free(scratch->bytes);
    free(scratch->floats);
    scratch->bytes = NULL;
    scratch->floats = NULL;
    scratch->size = 0;
    if ((st = sp_new_aligned(&scratch->bytes, size, 1, err))) return st;
    if ((st = sp_new_aligned(&scratch->floats, size / 2 + 1, sizeof(float), err))) return st;
    scratch->size = size;
    return SP_OK;
}

/* Makes room for what reading a cut takes: a row of plain numbers as bytes, or a row of a weight
 * that is decoded and read transposed as floats. */
static enum sp_status fit_scratch(struct sp_scratch *scratch, const struct cut *cut,
                                  const struct sp_tensor_spec *spec, struct sp_err *err)
{
    const struct sp_row_span *p = cut->span;
    size_t block = 0, row = 0;
    bool fits = true;

    if (cut->block) {
        fits = sp_gguf_weight_scratch(&block, cut->block,
                                      p->transposed ? stored_cols(cut) : p->n_cols);
    }
    if (p->transposed == (cut->tensor == NULL)) {
        fits = fits && sp_mul(&row, cut->tensor ? p->n_cols : (size_t)stored_cols(cut),
                              cut->tensor ? cut->width : 2);
    }
    if (!fits) return sp_fail(err, SP_E_INPUT, "tensor %s: its rows are too long", spec->name);
    if (block > row) row = block;
    return row > scratch->size ? grow_scratch(scratch, row, err) : SP_OK;
}

enum sp_status sp_scratch_open(struct sp_scratch *out, size_t size, struct sp_err *err)
{
    struct sp_scratch scratch = {.kernels = sp_kernels_best()->tile};
    enum sp_status st = grow_scratch(&scratch, size, err);

    if (st)
        sp_scratch_release(&scratch);
    else
        *out = scratch;
    return st;
}

void sp_scratch_release(struct sp_scratch *scratch)
{
    free(scratch->bytes);
    free(scratch->floats);
    sp_merge_workspace_release(&scratch->merging);
    sp_weight_workspace_release(&scratch->weights);
    *scratch = (struct sp_scratch){0};
}

/* As many rows as the scratch holds with what lies between them. */
static enum sp_status read_plain(float *out, const struct cut *cut, uint64_t first, uint64_t n)
{
    enum sp_status st;
    const struct sp_row_span *p = cut->span;
    size_t cols = p->n_cols, row_size = cols * cut->width, step = p->step * row_size;
    uint64_t most = 1 + (cut->scratch->size - row_size) / step;

    for (uint64_t done = 0; done < n;) {
        uint64_t m = n - done < most ? n - done : most;
        uint64_t row = p->first_row + (first + done) * p->step;
        st = sp_safetensors_read(cut->tensor, row * row_size, (size_t)(m - 1) * step + row_size,
                                 cut->scratch->bytes, cut->err);
        if (st) return st;
        for (uint64_t r = 0; r < m; r += p->step == 1 ? m : 1) {
            sp_decode_floats(out + (done + r) * cols, cut->tensor->dtype,
                             cut->scratch->bytes + r * step, p->step == 1 ? m * cols : cols);
        }
        done += m;
    }
    return SP_OK;
}

/* Rows that are columns in the file, n of them within one matrix that begins at element `base` and
 * has `width` columns there: for each k, one run across the wanted rows. */
static enum sp_status read_transposed_run(float *out, const struct cut *cut, uint64_t base,
                                          uint64_t width, uint64_t first, uint64_t n)
{
    enum sp_status st;
    size_t cols = cut->span->n_cols, step = cut->span->step;
    size_t span = (size_t)(n - 1) * step + 1;

    for (size_t k = 0; k < cols; k++) {
        st = sp_safetensors_read(cut->tensor, (base + k * width + first) * cut->width,
                                 span * cut->width, cut->scratch->bytes, cut->err);
        if (st) return st;
        sp_decode_floats(cut->scratch->floats, cut->tensor->dtype, cut->scratch->bytes, span);
        for (size_t r = 0; r < n; r++)
            out[r * cols + k] = cut->scratch->floats[r * step];
    }
    return SP_OK;
}

static enum sp_status read_transposed(float *out, const struct cut *cut, uint64_t first, uint64_t n)
{
    enum sp_status st;
    const struct sp_row_span *p = cut->span;
    uint64_t width = cut->tensor->shape[cut->tensor->rank - 1];
    uint64_t most = 1 + (cut->scratch->size / cut->width - 1) / p->step;

    for (uint64_t done = 0; done < n;) {
        uint64_t row = p->first_row + (first + done) * p->step;
        uint64_t base = row / width * (p->pitch ? p->pitch : p->n_cols) * width;
        uint64_t inside = row % width, left = 1 + (width - 1 - inside) / p->step;
        uint64_t m = n - done < most ? n - done : most;
        if (m > left) m = left;
        st = read_transposed_run(out + done * p->n_cols, cut, base, width, inside, m);
        if (st) return st;
        done += m;
    }
    return SP_OK;
}

/* Rows first, first + step, ... of a stored weight as floats. */
static enum sp_status decode_rows(float *out, const struct cut *cut, uint64_t n_cols,
                                  uint64_t first, uint64_t step, uint64_t n)
{
    if (cut->block) {
        return sp_gguf_weight_read(out, cut->block, n_cols, first, step, n, cut->scratch->bytes,
                                   cut->scratch->size, cut->err);
    }
    return sp_weight_read(out, cut->weight, first, step, n, &cut->scratch->weights, cut->err);
}

/* Rows of floats that are columns of a weight that is decoded: whole rows of it, as many at a time
 * as the scratch holds, give one element of each. */
static enum sp_status read_transposed_weight(float *out, const struct cut *cut, uint64_t first,
                                             uint64_t n)
{
    const struct sp_row_span *p = cut->span;
    uint64_t width = stored_cols(cut), most = cut->scratch->size / 2 / width;

    for (uint64_t done = 0, m; done < n; done += m) {
        uint64_t row = p->first_row + (first + done) * p->step, inside = row % width;
        uint64_t base = row / width * (p->pitch ? p->pitch : p->n_cols);
        m = 1 + (width - 1 - inside) / p->step;
        if (m > n - done) m = n - done;
        for (uint64_t k = 0, rows; k < p->n_cols; k += rows) {
            enum sp_status st;
            rows = p->n_cols - k < most ? p->n_cols - k : most;
            st = decode_rows(cut->scratch->floats, cut, width, base + k, 1, rows);
            if (st) return st;
            for (uint64_t r = 0; r < m; r++) {
                for (uint64_t i = 0; i < rows; i++) {
                    out[(done + r) * p->n_cols + k + i] =
                        cut->scratch->floats[i * width + inside + r * p->step];
                }
            }
        }
    }
    return SP_OK;
}

/* The span of a row of a tensor; *row becomes that of the span's stored tensor. */
static struct cut cut_at(const struct sp_source *source, const struct sp_tensor_spec *spec,
                         uint64_t *row)
{
    size_t i = 0;
    struct cut cut;

    while (*row >= source->specs.spans[spec->first_span + i].n_rows)
        *row -= source->specs.spans[spec->first_span + i++].n_rows;
    cut = cut_of(source, spec, i);
    *row = cut.span->first_row + *row * cut.span->step;
    return cut;
}

enum sp_status sp_source_read_codes(uint8_t *panel, const struct sp_source *source,
                                    const struct sp_tensor_spec *spec,
                                    const struct sp_stored *stored, uint64_t first_row,
                                    size_t n_rows, struct sp_scratch *scratch, struct sp_err *err)
{
    enum sp_status st = SP_OK;

    sp_group_panel_init(panel, stored->kept, (size_t)sp_spec_cols(spec), stored->kept_flags);
    for (size_t lane = 0; lane < n_rows && !st; lane++) {
        uint64_t row = first_row + lane;
        struct cut cut = cut_at(source, spec, &row);

        if ((st = fit_scratch(scratch, &cut, spec, err))) return st;
        if (cut.block)
            st = sp_gguf_weight_put_row(panel, lane, cut.block, row, scratch->bytes, err);
        else
            st = sp_weight_put_row(panel, lane, cut.weight, row, &scratch->weights, err);
    }
    return st;
}

/* Panels of matrices of `rows` rows each; both ends of the range are panel boundaries. */
static void decode_panels(float *out, const struct sp_pack_tensor *t, uint64_t first_row,
                          uint64_t n_rows, const struct sp_tile_kernels *kernels)
{
    uint64_t rows = t->shape[t->rank - 2];
    size_t cols = t->shape[t->rank - 1], panel_size = 0;
    uint64_t per_matrix = (rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;

    (void)sp_panel_size(&panel_size, t->dtype, cols);
    for (uint64_t done = 0; done < n_rows;) {
        uint64_t row = first_row + done, inside = row % rows;
        uint64_t n = rows - inside < SP_PANEL_ROWS ? rows - inside : SP_PANEL_ROWS;
        uint64_t panel = row / rows * per_matrix + inside / SP_PANEL_ROWS;
        sp_panel_decode(out + done * cols, t->dtype, t->data + panel * panel_size, (size_t)n, cols,
                        kernels);
        done += n;
    }
}

/* The tensor's spec with its row spans; a packed file's has none unless an adapter is merged. */
static const struct sp_tensor_spec *cut_by(const struct sp_source *source,
                                           const struct sp_tensor_spec *spec)
{
    return source->merge ? sp_merge_spec(source->merge, spec) : spec;
}

static const struct sp_row_span *piece_of(const struct sp_source *source,
                                          const struct sp_tensor_spec *list, size_t i)
{
    const struct sp_specs *specs = source->pack ? &source->merge->specs : &source->specs;

    return &specs->spans[list->first_span + i];
}

/* Reads a span's rows from the file, or takes rows read before, and merges the adapter into
 * those that it changes. */
static enum sp_status read_merged(float *out, const struct sp_source *source,
                                  const struct sp_tensor_spec *list, size_t i, uint64_t first,
                                  uint64_t n, struct sp_scratch *scratch, struct sp_err *err)
{
    enum sp_status st;

    if (source->pack == NULL) {
        struct cut cut = cut_of(source, list, i);
        cut.scratch = scratch;
        cut.err = err;
        if ((st = fit_scratch(scratch, &cut, list, err))) return st;
        if (cut.tensor)
            st = (cut.span->transposed ? read_transposed : read_plain)(out, &cut, first, n);
        else if (cut.span->transposed)
            st = read_transposed_weight(out, &cut, first, n);
        else
            st = decode_rows(out, &cut, cut.span->n_cols,
                             cut.span->first_row + first * cut.span->step, cut.span->step, n);
        if (st) return st;
    }
    if (source->merge == NULL) return SP_OK;
    return sp_merge_rows(out, source->merge, piece_of(source, list, i), list->first_span + i, first,
                         n, &scratch->merging, err);
}

/* The numbers of a packed file's tensor, scaled back to those of the model if it is smoothed. */
static void decode(float *out, const struct sp_source *source, const struct sp_tensor_spec *spec,
                   uint64_t first_row, uint64_t n_rows, const struct sp_tile_kernels *kernels)
{
    const struct sp_pack_tensor *t = sp_pack_find(source->pack, source->part, spec->name);
    const struct sp_smoothed_norm *norm =
        sp_smoothing_of(&source->smoothing, &source->config, spec->name);
    size_t n = (size_t)sp_spec_elements(spec);

    if (n_rows == SP_ALL_ROWS) {
        sp_decode_floats(out, t->dtype, t->data, n);
    } else {
        decode_panels(out, t, first_row, n_rows, kernels);
        n = (size_t)(n_rows * sp_spec_cols(spec));
    }
    if (norm)
        sp_smoothing_apply(out, n, spec->role, &source->config, norm->exponents, norm->n, true);
}

enum sp_status sp_source_read_rows(float *out, const struct sp_source *source,
                                   const struct sp_tensor_spec *spec, uint64_t first_row,
                                   uint64_t n_rows, struct sp_scratch *scratch, struct sp_err *err)
{
    enum sp_status st;
    const struct sp_tensor_spec *list = cut_by(source, spec);
    uint64_t begin = 0;

    if (source->pack) decode(out, source, spec, first_row, n_rows, scratch->kernels);
    for (size_t i = 0; i < list->n_spans && n_rows; i++) {
        const struct sp_row_span *span = piece_of(source, list, i);
        uint64_t end = begin + span->n_rows;
        if (first_row < end) {
            uint64_t n = end - first_row < n_rows ? end - first_row : n_rows;
            st = read_merged(out, source, list, i, first_row - begin, n, scratch, err);
            if (st) return st;
            out += n * span->n_cols;
            first_row += n;
            n_rows -= n;
        }
        begin = end;
    }
    return SP_OK;
}
