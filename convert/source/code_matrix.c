/* Reading matrices of codes. Transposed ones are read strip by strip: a strip is a range of columns
 * of all stored rows. Where it is a large part of each stored row, whole rows are read, because
 * that takes fewer calls. */
#include "convert/source/quantized_weights.h"

#include "format/base/bytes.h"
#include "format/base/mem.h"
#include "quantize/checkpoint_codes.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_SIZE = 1 << 20,
    WHOLE_ROWS = 32,  /* rows are read whole if they are no longer than so many strips */
    LEAST_ROWS = 16,  /* that the buffer holds: more than the words of a group */
    SQUARE = 64,      /* stored rows that are transposed at a time */
    GROUP_CODES = 32, /* of SP_PACK_DOWN, in `bits` words of a column */
};

void sp_code_buffer_release(struct sp_code_buffer *buffer)
{
    free(buffer->bytes);
    free(buffer->codes);
    *buffer = (struct sp_code_buffer){0};
}

static enum sp_status grow_bytes(struct sp_code_buffer *buffer, size_t need, struct sp_err *err)
{
    if (need < BUFFER_SIZE) need = BUFFER_SIZE;
    return sp_reserve(&buffer->bytes, &buffer->size, need, 1, err);
}

enum sp_status sp_strip_read(struct sp_strip *strip, uint64_t first, struct sp_code_buffer *buffer,
                             struct sp_err *err)
{
    uint64_t left = strip->n_rows - first;
    bool whole = strip->step / WHOLE_ROWS <= strip->want && strip->step <= BUFFER_SIZE / LEAST_ROWS;
    size_t each = whole ? (size_t)strip->step : strip->want;
    enum sp_status st;

    if ((st = grow_bytes(buffer, LEAST_ROWS * strip->want, err))) return st;
    strip->between = each;
    strip->n = 1 + (buffer->size - strip->want) / each;
    if (strip->n > left) strip->n = (size_t)left;
    if (whole) {
        return sp_safetensors_read(strip->tensor, strip->offset + first * strip->step,
                                   (strip->n - 1) * each + strip->want, buffer->bytes, err);
    }
    for (size_t i = 0; st == SP_OK && i < strip->n; i++) {
        st = sp_safetensors_read(strip->tensor, strip->offset + (first + i) * strip->step,
                                 strip->want, buffer->bytes + i * each, err);
    }
    return st;
}

static void add_to_words(uint8_t *bytes, size_t size, uint32_t offset)
{
    for (size_t i = 0; offset && i + 4 <= size; i += 4)
        sp_put32(bytes + i, sp_get32(bytes + i) + offset);
}

/* Brings the codes of each word of AWQ's gemm kernel into their order. n is a multiple of 8. */
static void reorder_awq(uint8_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        uint8_t w[8];
        memcpy(w, codes + i, 8);
        for (size_t j = 0; j < 8; j++)
            codes[i + j] = w[j % 2 * 4 + j / 2];
    }
}

/* ---- as stored ---- */

static enum sp_status read_along(uint8_t *codes, const struct sp_code_matrix *m, uint64_t first,
                                 size_t n, struct sp_code_buffer *buffer, struct sp_err *err)
{
    uint64_t row_bytes = (m->cols * m->bits + 7) / 8 + 1, most;
    enum sp_status st;

    if ((st = grow_bytes(buffer, (size_t)row_bytes, err))) return st;
    most = 1 + (buffer->size - row_bytes) * 8 / m->pitch;
    for (size_t done = 0; done < n;) {
        uint64_t rows = n - done < most ? n - done : most, bit = (first + done) * m->pitch;
        uint64_t begin = bit / 8, end = (bit + (rows - 1) * m->pitch + m->cols * m->bits + 7) / 8;
        size_t size = (size_t)(end - begin);
        st = sp_safetensors_read(m->tensor, begin, size, buffer->bytes, err);
        if (st) return st;
        add_to_words(buffer->bytes, size, m->word_offset);
        for (uint64_t r = 0; r < rows; r++) {
            sp_checkpoint_codes_unpack(codes + (done + r) * m->cols, buffer->bytes,
                                       bit % 8 + r * m->pitch, m->bits, m->high_first,
                                       (size_t)m->cols);
        }
        done += (size_t)rows;
    }
    return SP_OK;
}

/* Codes of rows that share bytes or words: neighbors share words, rows of all quarters bytes. */
static enum sp_status read_shared(uint8_t *codes, const struct sp_code_matrix *m, uint64_t first,
                                  size_t n, struct sp_code_buffer *buffer, struct sp_err *err)
{
    bool quarters = m->packing == SP_PACK_QUARTERS;
    size_t width = quarters ? 1 : 4, size = (size_t)(quarters ? m->cols : m->pitch / 8);
    uint64_t per = 32 / m->bits, stored = m->rows / 4, held = UINT64_MAX;
    enum sp_status st;

    if ((st = grow_bytes(buffer, size + 4 - width, err))) return st;
    for (uint64_t row = first; row < first + n; row++, codes += m->cols) {
        uint64_t at = quarters ? row % stored : row / per;
        unsigned shift = m->bits * (unsigned)(quarters ? row / stored : row % per);
        if (at != held) {
            st = sp_safetensors_read(m->tensor, at * size, size, buffer->bytes, err);
            if (st) return st;
            held = at;
        }
        for (size_t k = 0; k < m->cols; k++) {
            uint32_t word = sp_get32(buffer->bytes + width * k);
            codes[k] = (uint8_t)(word >> shift & ((1u << m->bits) - 1));
        }
    }
    return SP_OK;
}

/* ---- transposed ---- */

/* codes[i][at + k] = rows[k][i] of n columns. */
static void transpose(uint8_t *codes, uint64_t cols, uint64_t at, const uint8_t *rows,
                      size_t between, size_t n_rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n_rows; k++)
            codes[i * cols + at + k] = rows[k * between + i];
}

/* Stored rows are streams of bits: columns first..first+n-1 of each, from a word's boundary on. */
static enum sp_status read_across(uint8_t *codes, const struct sp_code_matrix *m, uint64_t first,
                                  size_t n, struct sp_code_buffer *buffer, struct sp_err *err)
{
    uint64_t begin = first * m->bits / 32 * 32, end = ((first + n) * m->bits + 31) / 32 * 32;
    size_t n_words = (size_t)(end - begin) / 32, skip = (size_t)(first * m->bits - begin) / m->bits;
    size_t unpacked = m->bits == 3 ? n : n_words * (32 / m->bits);
    struct sp_strip strip = {.tensor = m->tensor,
                             .offset = begin / 8,
                             .step = m->pitch / 8,
                             .n_rows = m->cols,
                             .want = 4 * n_words};
    uint64_t bit = m->bits == 3 ? first * 3 - begin : 0;
    enum sp_status st;

    if (m->bits == 3) skip = 0;
    if ((st = sp_reserve(&buffer->codes, &buffer->n_codes, unpacked * SQUARE, 1, err))) return st;
    for (uint64_t done = 0; done < m->cols; done += strip.n) {
        if ((st = sp_strip_read(&strip, done, buffer, err))) return st;
        for (size_t k = 0; k < strip.n; k += SQUARE) {
            size_t square = strip.n - k < SQUARE ? strip.n - k : SQUARE;
            for (size_t i = 0; i < square; i++) {
                uint8_t *row = buffer->bytes + (k + i) * strip.between;
                uint8_t *out = buffer->codes + i * unpacked;
                add_to_words(row, strip.want, m->word_offset);
                sp_checkpoint_codes_unpack(out, row, bit, m->bits, false, unpacked);
                if (m->packing == SP_PACK_AWQ) reorder_awq(out, unpacked);
            }
            transpose(codes, m->cols, done + k, buffer->codes + skip, unpacked, square, n);
        }
    }
    return SP_OK;
}

/* A column of words is a stream of bits: 32 codes in `bits` words. */
static enum sp_status read_columns(uint8_t *codes, const struct sp_code_matrix *m, uint64_t first,
                                   size_t n, struct sp_code_buffer *buffer, struct sp_err *err)
{
    uint64_t n_words = (m->cols * m->bits + 31) / 32;
    struct sp_strip strip = {.tensor = m->tensor,
                             .offset = first * 4,
                             .step = m->pitch / 8,
                             .n_rows = n_words,
                             .want = n * 4};
    enum sp_status st;

    for (uint64_t word = 0; word < n_words; word += strip.n) { /* of a column */
        if ((st = sp_strip_read(&strip, word, buffer, err))) return st;
        /* Whole groups only, except for the last one. */
        if (word + strip.n < n_words) strip.n -= strip.n % m->bits;
        for (size_t w = 0; w < strip.n; w += m->bits) {
            uint64_t k = (word + w) / m->bits * GROUP_CODES;
            size_t in_group = strip.n - w < m->bits ? strip.n - w : m->bits;
            size_t n_codes = m->cols - k < GROUP_CODES ? (size_t)(m->cols - k) : GROUP_CODES;
            for (size_t i = 0; i < n; i++) {
                uint8_t stream[4 * 8];
                for (size_t j = 0; j < in_group; j++)
                    memcpy(stream + 4 * j, buffer->bytes + (w + j) * strip.between + 4 * i, 4);
                sp_checkpoint_codes_unpack(codes + i * m->cols + k, stream, 0, m->bits, false,
                                           n_codes);
            }
        }
    }
    return SP_OK;
}

enum sp_status sp_code_matrix_read(uint8_t *codes, const struct sp_code_matrix *m, uint64_t first,
                                   size_t n, struct sp_code_buffer *buffer, struct sp_err *err)
{
    bool down = m->packing == SP_PACK_DOWN;

    if (n == 0) return SP_OK;
    if (m->transposed) return (down ? read_columns : read_across)(codes, m, first, n, buffer, err);
    return (down || m->packing == SP_PACK_QUARTERS ? read_shared : read_along)(codes, m, first, n,
                                                                               buffer, err);
}
