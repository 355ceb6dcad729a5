/* The switch on dtype. Panels of one-element types are [cols][16]; block types have files of their
 * own (types/). */
#include "quantize/codec.h"

#include "format/base/bytes.h"
#include "quantize/types/q8.h"
#include "quantize/types/gptq.h"
#include "quantize/types/groupwise.h"
#include "quantize/types/float_cast.h"
#include "quantize/kernels/kernels.h"
#include "quantize/types/microscale.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The largest magnitude that `dtype` holds after rounding, as f32 bits; magnitudes of finite floats
 * order like their bits. */
static uint32_t limit_of(enum sp_dtype dtype)
{
    if (dtype == SP_F16) return 0x477fefffu;  /* just below 65520, which rounds to infinity */
    if (dtype == SP_BF16) return 0x7f7f7fffu; /* just below the number that rounds to infinity */
    return 0x7f7fffffu;
}

static size_t find_above(const float *x, uint32_t limit)
{
    size_t i = 0;

    while ((sp_bits_of_float(x[i]) & 0x7fffffff) <= limit)
        i++;
    return i;
}

/* Describes a number above the limit; the caller adds its position. */
static enum sp_status fail_number(float x, enum sp_dtype dtype, struct sp_err *err)
{
    if (isnan(x)) return sp_fail(err, SP_E_INPUT, "NaN where a number is expected");
    if (isinf(x)) return sp_fail(err, SP_E_INPUT, "infinity where a number is expected");
    return sp_fail(err, SP_E_INPUT, "%.9g does not fit in %s", (double)x,
                   sp_dtype_info(dtype)->name);
}

static void write_floats(uint8_t *out, enum sp_dtype dtype, const float *x, size_t n)
{
    if (dtype == SP_F32) sp_write_f32(out, x, n);
    if (dtype == SP_F16) sp_write_f16(out, x, n);
    if (dtype == SP_BF16) sp_write_bf16(out, x, n);
}

enum sp_status sp_encode_floats(uint8_t *out, enum sp_dtype dtype, const float *x, size_t n,
                                uint64_t first, struct sp_err *err)
{
    enum sp_status st;
    uint32_t limit = limit_of(dtype);

    assert(sp_dtype_is_float(dtype));
    if (sp_tile_ref.max_bits(x, n) > limit) {
        size_t bad = find_above(x, limit);
        st = fail_number(x[bad], dtype, err);
        sp_context(err, "element %" PRIu64, first + bad);
        return st;
    }
    write_floats(out, dtype, x, n);
    return SP_OK;
}

/* tile[16][32] = columns start..start+n-1 of rows [n_rows][cols]; missing elements are zero. */
static void load_tile(float *tile, const float *rows, size_t n_rows, size_t cols, size_t start,
                      size_t n)
{
    if (n_rows < SP_PANEL_ROWS || n < SP_BLOCK)
        memset(tile, 0, SP_PANEL_ROWS * SP_BLOCK * sizeof *tile);
    for (size_t lane = 0; lane < n_rows; lane++) {
        const float *from = rows + lane * cols + start;
        if (n == SP_BLOCK) /* nearly always true; memcpy of a constant size is not a call */
            memcpy(tile + lane * SP_BLOCK, from, SP_BLOCK * sizeof *tile);
        else
            memcpy(tile + lane * SP_BLOCK, from, n * sizeof *tile);
    }
}

/* Encodes columns of 16 elements of `dtype` from the first n columns of a tile. */
static void encode_float_columns(uint8_t *out, enum sp_dtype dtype,
                                 const struct sp_tile_kernels *kernels, const float *tile, size_t n)
{
    float columns[SP_BLOCK * SP_PANEL_ROWS];

    for (size_t k = 0; k < SP_BLOCK; k += 16)
        kernels->transpose(columns + k * SP_PANEL_ROWS, SP_PANEL_ROWS, tile + k, SP_BLOCK);
    write_floats(out, dtype, columns, n * SP_PANEL_ROWS);
}

static void decode_float_row(float *out, enum sp_dtype dtype, const uint8_t *panel, size_t cols,
                             size_t lane)
{
    size_t size = sp_dtype_info(dtype)->bits / 8;

    for (size_t k = 0; k < cols; k++)
        sp_decode_floats(out + k, dtype, panel + (k * SP_PANEL_ROWS + lane) * size, 1);
}

/* Decodes 16 columns at a time, the remaining ones one by one. */
static void decode_float_panel(float *rows, enum sp_dtype dtype, const uint8_t *panel, size_t cols,
                               const struct sp_tile_kernels *kernels)
{
    enum { N = SP_PANEL_ROWS * SP_PANEL_ROWS };
    size_t size = sp_dtype_info(dtype)->bits / 8, k = 0;
    float columns[N];

    for (; cols - k >= SP_PANEL_ROWS; k += SP_PANEL_ROWS, panel += N * size) {
        sp_decode_floats(columns, dtype, panel, N);
        kernels->transpose(rows + k, cols, columns, SP_PANEL_ROWS);
    }
    for (size_t lane = 0; lane < SP_PANEL_ROWS; lane++)
        decode_float_row(rows + lane * cols + k, dtype, panel, cols - k, lane);
}

static void decode_row(float *out, enum sp_dtype dtype, const uint8_t *panel, size_t cols,
                       size_t lane)
{
    if (dtype == SP_Q8)
        sp_q8_decode_row(out, panel, cols, lane);
    else if (sp_dtype_is_groupwise(dtype))
        sp_groupwise_decode_row(out, dtype, panel, cols, lane);
    else if (sp_dtype_is_block(dtype))
        sp_microscale_decode_row(out, sp_microscale_of(dtype), panel, cols, lane);
    else
        decode_float_row(out, dtype, panel, cols, lane);
}

/* max[row] = the largest magnitude of each row; SP_E_INPUT if a number does not fit. */
static enum sp_status check_rows(float *max, enum sp_dtype dtype,
                                 const struct sp_tile_kernels *kernels, const float *rows,
                                 size_t n_rows, size_t cols, uint64_t first_row, struct sp_err *err)
{
    enum sp_status st;
    uint32_t limit = limit_of(dtype);

    for (size_t row = 0; row < n_rows; row++) {
        const float *x = rows + row * cols;
        uint32_t bits = kernels->max_bits(x, cols);
        if (bits > limit) {
            size_t bad = find_above(x, limit);
            st = fail_number(x[bad], dtype, err);
            sp_context(err, "row %" PRIu64 ", column %zu", first_row + row, bad);
            return st;
        }
        max[row] = sp_float_of_bits(bits);
    }
    return SP_OK;
}

void sp_encoder_init(struct sp_encoder *encoder)
{
    encoder->kernels = sp_kernels_best()->tile;
    sp_q4_tables_init(&encoder->tables);
    for (uint32_t dtype = 1; dtype < SP_N_PACKED_DTYPES; dtype++)
        if (sp_dtype_is_packed(dtype) && sp_dtype_code_bits(dtype))
            sp_microscale_books_init(&encoder->books[dtype], sp_microscale_of(dtype));
}

/* Encodes one block of columns; returns its size. */
static size_t encode_block(uint8_t *out, enum sp_dtype dtype, const struct sp_encoder *encoder,
                           const float *tile, size_t n, const float *row_scale)
{
    switch (dtype) {
    case SP_Q8:
        encoder->kernels->encode_q8(out, tile);
        return SP_Q8_BLOCK_SIZE;
    case SP_Q4:
        sp_q4_encode_block(out, tile, row_scale, encoder->kernels, &encoder->tables);
        return SP_Q4_BLOCK_SIZE;
    default:
        encode_float_columns(out, dtype, encoder->kernels, tile, n);
        return n * SP_PANEL_ROWS * (sp_dtype_info(dtype)->bits / 8);
    }
}

enum sp_status sp_panel_encode(uint8_t *panel, enum sp_dtype dtype,
                               const struct sp_encoder *encoder, const float *rows, size_t n_rows,
                               size_t cols, uint64_t first_row, const float *factors,
                               float *workspace, struct sp_err *err)
{
    const unsigned code_bits = sp_dtype_code_bits(dtype); /* of q2 to q6 */
    enum sp_status st;
    float tile[SP_PANEL_ROWS * SP_BLOCK], max[SP_PANEL_ROWS], row_scale[SP_PANEL_ROWS] = {0};
    uint8_t *out = panel;
    size_t size = 0, start = 0;
    bool known = sp_panel_size(&size, dtype, cols);

    assert(known && n_rows >= 1 && n_rows <= SP_PANEL_ROWS);
    if ((st = check_rows(max, dtype, encoder->kernels, rows, n_rows, cols, first_row, err)))
        return st;
    for (size_t lane = 0; code_bits && lane < n_rows; lane++)
        row_scale[lane] = sp_microscale_row_scale(sp_microscale_of(dtype), max[lane]);
    if (code_bits) {
        sp_write_f32(out, row_scale, SP_PANEL_ROWS);
        out += SP_MICROSCALE_HEAD;
    }
    if (code_bits && (dtype != SP_Q4 || factors)) {
        encoder->kernels->gptq->encode(out, rows, n_rows, cols, row_scale, factors, workspace,
                                       &encoder->books[dtype]);
        out += cols / SP_BLOCK * sp_microscale_block_size(code_bits);
        start = cols;
    }
    for (; start < cols; start += SP_BLOCK) {
        size_t n = cols - start < SP_BLOCK ? cols - start : SP_BLOCK;
        load_tile(tile, rows, n_rows, cols, start, n);
        out += encode_block(out, dtype, encoder, tile, n, row_scale);
    }
    memset(out, 0, size - (size_t)(out - panel));
    return SP_OK;
}

void sp_panel_decode(float *rows, enum sp_dtype dtype, const uint8_t *panel, size_t n_rows,
                     size_t cols, const struct sp_tile_kernels *kernels)
{
    if (sp_dtype_is_float(dtype) && n_rows == SP_PANEL_ROWS) {
        decode_float_panel(rows, dtype, panel, cols, kernels);
        return;
    }
    for (size_t lane = 0; lane < n_rows; lane++)
        decode_row(rows + lane * cols, dtype, panel, cols, lane);
}

void sp_panel_row(float *out, enum sp_dtype dtype, const uint8_t *panels, size_t cols, size_t row)
{
    size_t size = 0;
    bool known = sp_panel_size(&size, dtype, cols);

    assert(known);
    decode_row(out, dtype, panels + row / SP_PANEL_ROWS * size, cols, row % SP_PANEL_ROWS);
}
