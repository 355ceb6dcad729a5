/* The specification of all matrix kernels in plain C: the "scalar" set.
 *
 * Every step of a sum is written out, the fused ones as fmaf, so that this file and the formulas in
 * kernels.h can be read side by side. The loops over the lanes of a panel are inside those over k:
 * that is the order of the bytes, and a compiler may use vectors for the lanes without changing a
 * bit. Weights of a block are decoded once for all rows of activations. */
#include "quantize/kernels/kernels.h"

#include "format/base/bytes.h"
#include "quantize/types/float_cast.h"
#include "quantize/types/groupwise.h"
#include "quantize/types/microscale.h"
#include "quantize/types/q8.h"

#include <assert.h>
#include <math.h>

enum { LANES = SP_PANEL_ROWS, HALF = SP_MICROSCALE_HALF };

/* The bits of the largest |x[0..n-1]|. Magnitudes are compared as integers: finite numbers have the
 * same order, and a NaN has the largest bits. */
static uint32_t max_bits(const float *x, size_t n)
{
    uint32_t max = 0;

    for (size_t k = 0; k < n; k++) {
        uint32_t bits = sp_bits_of_float(x[k]) & 0x7fffffffu;
        if (bits > max) max = bits;
    }
    return max;
}

/* The sum of 16 codes, in words of 8: bytes become unsigned by adding 128, then pairs of bytes, and
 * then four lanes of 16 bits, are added. */
static int32_t sum_of_half(const int8_t *q)
{
    const uint64_t even = 0x00ff00ff00ff00ff, ones = 0x0001000100010001;
    uint64_t lanes = 0, word;

    for (size_t i = 0; i < HALF; i += sizeof word) {
        memcpy(&word, q + i, sizeof word);
        word ^= 0x8080808080808080;
        lanes += (word & even) + (word >> 8 & even);
    }
    return (int32_t)(lanes * ones >> 48) - 128 * HALF;
}

void sp_acts_set_starts(const struct sp_acts *acts, size_t t)
{
    const int8_t *q = acts->q + t * acts->ld;
    int32_t *start_q4 = acts->start_q4 + t * acts->ld_block * 2;
    int32_t *start_q8 = acts->start_q8 + t * acts->ld_block;

    for (size_t k = 0; k < acts->cols; k += SP_BLOCK) {
        int32_t first = sum_of_half(q + k), second = sum_of_half(q + k + HALF);
        start_q4[k / HALF] = 2 - 64 * first;
        start_q4[k / HALF + 1] = 2 - 64 * second;
        start_q8[k / SP_BLOCK] = -128 * (first + second);
    }
    sp_acts_set_sums(acts, t);
}

void sp_acts_set_sums(const struct sp_acts *acts, size_t t)
{
    const int32_t *start = acts->start_q4 + t * acts->ld_block * 2;
    float *sums = acts->sums + t * acts->ld_block * 3;

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, start += 2, sums += 3) {
        sums[1] = (float)((2 - start[0]) / 64);
        sums[2] = (float)((2 - start[1]) / 64);
        sums[0] = sums[1] + sums[2];
    }
}

static void quantize_row(const struct sp_acts *acts, size_t t)
{
    const float *x = acts->x + t * acts->ld;
    int8_t *q = acts->q + t * acts->ld;
    float *scale = acts->scale + t * acts->ld_block;

    assert(acts->cols % SP_BLOCK == 0);
    for (size_t k = 0; k < acts->cols; k += SP_BLOCK) {
        float max = sp_float_of_bits(max_bits(x + k, SP_BLOCK));
        float inverse = 127.0f / max;
        bool keep = inverse > 0 && !isinf(inverse); /* false if max is 0, infinite or NaN */
        scale[k / SP_BLOCK] = isinf(inverse) ? 0.0f : max / 127.0f;
        for (size_t i = 0; i < SP_BLOCK; i++)
            q[k + i] = keep ? (int8_t)lrintf(x[k + i] * inverse) : 0;
    }
    sp_acts_set_starts(acts, t);
}

/* ---- a panel: acc[t][r] is the result of row t of the activations and row r of the panel ---- */

/* acc[r] = fmaf(w[r][k], x[k], acc[r]), k ascending. */
static void float_panel(float acc[][LANES], const uint8_t *panel, const struct sp_matmul *m)
{
    const struct sp_acts *acts = m->acts;
    const size_t column = LANES * (sp_dtype_info(m->dtype)->bits / 8);
    float w[LANES];

    for (size_t k = 0; k < acts->cols; k++) {
        sp_decode_floats(w, m->dtype, panel + k * column, LANES);
        for (size_t t = 0; t < m->n_rows; t++) {
            float x = acts->x[(m->first + t) * acts->ld + k];
            for (size_t r = 0; r < LANES; r++)
                acc[t][r] = fmaf(w[r], x, acc[t][r]);
        }
    }
}

/* Returns sum_k w[k] * q[k] over n columns, exact in int32. */
static int32_t dot(const int16_t *w, const int8_t *q, size_t n)
{
    int32_t i = 0;

    for (size_t k = 0; k < n; k++)
        i += w[k] * q[k];
    return i;
}

static void q8_panel(float acc[][LANES], const uint8_t *panel, const struct sp_matmul *m)
{
    const struct sp_acts *acts = m->acts;
    int16_t w[LANES][SP_BLOCK];
    float w_scale[LANES];

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, panel += SP_Q8_BLOCK_SIZE) {
        for (size_t k = 0; k < SP_BLOCK; k += 4)
            for (size_t r = 0; r < LANES; r++)
                for (size_t i = 0; i < 4; i++)
                    w[r][k + i] = (int16_t)(panel[LANES * k + 4 * r + i] - 128);
        sp_read_bf16(w_scale, panel + LANES * SP_BLOCK, LANES);
        for (size_t t = 0; t < m->n_rows; t++) {
            const int8_t *q = acts->q + (m->first + t) * acts->ld + b * SP_BLOCK;
            float x_scale = acts->scale[(m->first + t) * acts->ld_block + b];
            for (size_t r = 0; r < LANES; r++) {
                int32_t i = dot(w[r], q, SP_BLOCK);
                acc[t][r] = fmaf((float)i, w_scale[r] * x_scale, acc[t][r]);
            }
        }
    }
}

/* Decodes the entries of one block of 16 rows: entries[r][k]. */
static void microscale_decode(int16_t entries[LANES][SP_BLOCK], const struct sp_microscale *type,
                              const uint8_t *block, const uint8_t *scale_bytes)
{
    for (size_t r = 0; r < LANES; r++) {
        for (size_t k = 0; k < SP_BLOCK; k += 4) {
            uint32_t codes = sp_microscale_four(block, type->code_bits, r, k / 4);
            uint8_t byte = scale_bytes[k / HALF * LANES + r];
            for (size_t i = 0; i < 4; i++, codes >>= 8)
                entries[r][k + i] = (int16_t)sp_microscale_entry(type, byte, codes & 255);
        }
    }
}

/* A quarter of the sum over half a block, rounded: at most 16 * 64 * 127 / 4 < 2^15. */
static int32_t quarter(int32_t i)
{
    return (i + 2) >> 2;
}

static void microscale_panel(float acc[][LANES], const uint8_t *panel, const struct sp_matmul *m)
{
    const struct sp_acts *acts = m->acts;
    const struct sp_microscale *type = sp_microscale_of(m->dtype);
    const size_t size = sp_microscale_block_size(type->code_bits);
    const uint8_t *block = panel + SP_MICROSCALE_HEAD;
    int16_t w[LANES][SP_BLOCK];
    float row_scale[LANES];

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++, block += size) {
        const uint8_t *b0 = block + size - 2 * LANES, *b1 = b0 + LANES;
        microscale_decode(w, type, block, b0);
        for (size_t t = 0; t < m->n_rows; t++) {
            const int8_t *q = acts->q + (m->first + t) * acts->ld + b * SP_BLOCK;
            float x_scale = acts->scale[(m->first + t) * acts->ld_block + b];
            for (size_t r = 0; r < LANES; r++) {
                int32_t j0 = quarter(dot(w[r], q, HALF));
                int32_t j1 = quarter(dot(w[r] + HALF, q + HALF, HALF));
                acc[t][r] = fmaf((float)(j0 * b0[r] + j1 * b1[r]), x_scale, acc[t][r]);
            }
        }
    }
    sp_read_f32(row_scale, panel, LANES);
    for (size_t t = 0; t < m->n_rows; t++)
        for (size_t r = 0; r < LANES; r++)
            acc[t][r] *= 4 * row_scale[r];
}

/* w[r][k] = u of block b, factors[r] = its scale and least weight. */
static void group_decode(int16_t w[LANES][SP_BLOCK], struct sp_group_factors factors[LANES],
                         const struct sp_groupwise *groups, const uint8_t *panel, size_t b)
{
    const size_t n_blocks = groups->cols / SP_BLOCK;

    for (size_t r = 0; r < LANES; r++) {
        struct sp_group group;
        sp_group_get(&group, panel, groups, b / n_blocks, r);
        sp_group_factors(&factors[r], panel, groups, r, &group, b % n_blocks);
        for (size_t k = 0; k < SP_BLOCK; k++) {
            uint8_t code = group.codes[b % n_blocks * SP_BLOCK + k];
            w[r][k] = groups->levels ? sp_levels[groups->levels][code] : code;
        }
    }
}

static void groupwise_panel(float acc[][LANES], const uint8_t *panel, const struct sp_matmul *m)
{
    const struct sp_acts *acts = m->acts;
    const struct sp_groupwise *groups = &sp_dtype_info(m->dtype)->groups;
    const bool is_int8 = sp_group_is_int8(groups->kind, groups->code_bits);
    struct sp_group_factors factors[LANES];
    int16_t w[LANES][SP_BLOCK];

    for (size_t b = 0; b < acts->cols / SP_BLOCK; b++) {
        group_decode(w, factors, groups, panel, b);
        for (size_t t = 0; t < m->n_rows; t++) {
            const int8_t *q = acts->q + (m->first + t) * acts->ld + b * SP_BLOCK;
            const size_t at = (m->first + t) * acts->ld_block + b;
            const float *sums = acts->sums + at * 3;
            const float x_scale = acts->scale[at];
            int32_t start = is_int8 ? acts->start_q8[at] : 0;
            for (size_t r = 0; r < LANES; r++) {
                const struct sp_group_factors *f = &factors[r];
                int32_t i0 = dot(w[r], q, HALF), i1 = dot(w[r] + HALF, q + HALF, HALF);
                float v = (float)(i0 + i1 + start) * f->scale[0];
                if (sp_group_has_halves(groups->kind)) {
                    v = fmaf((float)i1, f->scale[1], (float)i0 * f->scale[0]);
                    v = fmaf(f->least[1], sums[2], fmaf(f->least[0], sums[1], v));
                } else if (!is_int8) {
                    v = fmaf(f->least[0], sums[0], v);
                }
                acc[t][r] = fmaf(v, x_scale, acc[t][r]);
            }
        }
    }
}

static void matmul(const struct sp_matmul *m)
{
    void (*const multiply)(float[][LANES], const uint8_t *, const struct sp_matmul *) =
        m->dtype == SP_Q8                 ? q8_panel
        : sp_dtype_is_groupwise(m->dtype) ? groupwise_panel
        : sp_dtype_is_block(m->dtype)     ? microscale_panel
                                          : float_panel;
    size_t panel_size = 0;
    bool known = sp_panel_size(&panel_size, m->dtype, m->acts->cols);

    assert(known && m->n_rows >= 1 && m->n_rows <= SP_TILE_ROWS);
    for (size_t p = 0; p < m->n_panels; p++) {
        float acc[SP_TILE_ROWS][LANES] = {{0}};
        multiply(acc, m->panels + p * panel_size, m);
        for (size_t t = 0; t < m->n_rows; t++)
            memcpy(m->y + t * m->ldy + p * LANES, acc[t], sizeof acc[t]);
    }
}

const struct sp_kernels sp_kernels_ref = {
    .name = "scalar",
    .others = matmul,
    .tile = &sp_tile_ref,
};

/* ---- the inner loops of the encoders (tile.h) ---- */

static void transpose(float *out, size_t ld_out, const float *x, size_t ld)
{
    for (size_t r = 0; r < 16; r++)
        for (size_t c = 0; c < 16; c++)
            out[c * ld_out + r] = x[r * ld + c];
}

static void whole_q4(int16_t *v, const float *tile, const float *inverse)
{
    for (size_t row = 0; row < SP_PANEL_ROWS; row++) {
        const float *x = tile + row * SP_BLOCK;
        /* Adding 1.5 * 2^23 leaves the integer, rounded to even, in the low bits. */
        for (size_t k = 0; k < SP_BLOCK; k++) {
            uint32_t bits = sp_bits_of_float(x[k] * inverse[row] + 12582912.0f);
            v[sp_q4_place(row, k)] = (int16_t)(bits & 0xffff);
        }
    }
}

const struct sp_tile_kernels sp_tile_ref = {
    .quantize_row = quantize_row,
    .max_bits = max_bits,
    .transpose = transpose,
    .encode_q8 = sp_q8_encode_block,
    .whole_q4 = whole_q4,
    .fit_q4 = sp_q4_fit_ref,
    .gptq = &sp_gptq_ref,
};
