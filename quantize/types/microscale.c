/* Encoding and decoding of q2 to q6: microscale.h explains the bytes.
 *
 * q4's encoder turns a block into whole numbers, weights in units of their row's scale; the rest is
 * mostly integer arithmetic (microscale_fit.h). The other types are encoded by panels
 * (kernels_gptq.h). */
#include "quantize/types/microscale.h"
#include "format/base/bytes.h"

#include <assert.h>
#include <float.h>

_Alignas(64) static const int8_t q4_codebooks[64] = {
    -64, -46, -37, -29, -22, -16, -10, -4, 1,  6,  12, 18, 24, 31, 39, 48,
    -48, -39, -31, -24, -18, -12, -6,  -1, 4,  10, 16, 22, 29, 37, 46, 64,
    -57, -48, -38, -29, -22, -16, -11, -6, -1, 3,  7,  12, 17, 23, 30, 42,
    -42, -30, -23, -17, -12, -7,  -3,  1,  6,  11, 16, 22, 29, 38, 48, 57,
};

_Alignas(64) static const int8_t q2_codebooks[64] = {
    -50, -23, -2, 24, -24, 2,  23, 50, -39, -6,  12, 36, -36, -12, 6,  39,
    -48, -11, 8,  31, -31, -8, 11, 48, -53, -18, 4,  27, -27, -4,  18, 53,
    -44, -19, 3,  33, -33, -3, 19, 44, -56, -26, -4, 15, -15, 4,   26, 56,
    -60, -15, 1,  17, -17, -1, 15, 60, -40, -15, 10, 33, -33, -10, 15, 40,
};

_Alignas(64) static const int8_t q3_codebooks[64] = {
    -51, -35, -22, -9,  2,  14, 26, 40, -40, -26, -14, -2, 9,  22, 35, 51,
    -48, -33, -18, -7,  3,  13, 25, 48, -48, -25, -13, -3, 7,  18, 33, 48,
    -59, -28, -15, -5,  4,  13, 25, 38, -38, -25, -13, -4, 5,  15, 28, 59,
    -59, -37, -21, -10, -1, 9,  20, 33, -33, -20, -9,  1,  10, 21, 37, 59,
};

_Alignas(64) static const int8_t q5_entries[32] = {
    -42, -33, -29, -26, -24, -21, -18, -16, -14, -12, -10, -8, -6, -4, -3, -1,
    1,   3,   4,   6,   8,   10,  12,  14,  16,  18,  21,  24, 26, 29, 33, 42,
};

_Alignas(64) static const int8_t q6_entries[64] = {
    -32, -31, -30, -29, -28, -27, -26, -25, -24, -23, -22, -21, -20, -19, -18, -17,
    -16, -15, -14, -13, -12, -11, -10, -9,  -8,  -7,  -6,  -5,  -4,  -3,  -2,  -1,
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,
    16,  17,  18,  19,  20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,  31,
};

static const int8_t q5_offsets[8] = {1, -1, 3, -3, 5, -5, 7, -7};
static const int8_t q6_offsets[8] = {2, -1, 4, -3, 6, -5, 9, -8};

/* Codebooks end between 15 and 64, so that the search goes further in both directions than the byte
 * that gives the largest weight exactly. */
static const struct sp_microscale types[] = {
    [2] = {2, 16, q2_codebooks, NULL, 49.0f * 255.0f},
    [3] = {3, 8, q3_codebooks, NULL, 49.0f * 255.0f},
    [4] = {4, 4, q4_codebooks, NULL, 49.0f * 255.0f},
    [5] = {5, 8, q5_entries, q5_offsets, 34.0f * 255.0f},
    [6] = {6, 8, q6_entries, q6_offsets, 29.0f * 255.0f},
};

const struct sp_microscale *sp_microscale_of(enum sp_dtype dtype)
{
    unsigned code_bits = sp_dtype_code_bits(dtype);

    assert(code_bits != 0);
    return types + code_bits;
}

/* With these the error of Gaussian and of heavier-tailed rows is within 0.7 % of the error with the
 * best of all 255 bytes. q4's are those of its other encoder. */
static const float ratios[][7] = {
    [2] = {1.27f, 1.57f, 1.06f, 1.39f},
    [3] = {1.06f, 0.97f, 1.18f, 0.67f},
    [4] = {1.015f, 0.835f, 1.068f, 0.964f},
    [5] = {1.0f, 0.79f, 0.73f, 0.67f, 0.82f, 1.03f, 0.61f},
    [6] = {0.97f, 1.0f, 0.91f, 0.85f, 0.94f},
};

void sp_microscale_books_init(struct sp_microscale_books *books, const struct sp_microscale *type)
{
    const unsigned n = 1u << type->code_bits;
    const unsigned n_entries = type->offsets ? n : n * type->n_codebooks;

    assert(n_entries <= sizeof books->entries / sizeof *books->entries);
    *books = (struct sp_microscale_books){.code_bits = type->code_bits};
    while (books->n_ratios < 7 && ratios[type->code_bits][books->n_ratios] > 0) {
        books->ratios[books->n_ratios] = ratios[type->code_bits][books->n_ratios];
        books->n_ratios++;
    }
    for (unsigned i = 0; i < n_entries; i++) {
        books->entries[i] = (float)type->entries[i];
        if (i + 1 < n_entries)
            books->middles[i] = 0.5f * (float)(type->entries[i] + type->entries[i + 1]);
    }
    for (unsigned t = 0; t < type->n_codebooks; t++) {
        books->offsets[t] = type->offsets ? (float)type->offsets[t] : 0;
        books->high[t] = 1.0f / (float)sp_microscale_entry(type, (uint8_t)t, n - 1);
        books->low[t] = 1.0f / (float)sp_microscale_entry(type, (uint8_t)t, 0);
    }
}

float sp_microscale_row_scale(const struct sp_microscale *type, float max)
{
    float scale = max / type->largest;

    if (scale < FLT_MIN) return 0;
    return scale > FLT_MAX / (64.0f * 255.0f) ? FLT_MAX / (64.0f * 255.0f) : scale;
}

/* ---- planes of bits ---- */

/* Where bits of four codes are: so many bits of each of four bytes, from bit `shift` on. */
struct place {
    size_t byte;
    unsigned shift;
};

/* The place of columns 4g..4g+3 of a row in a plane of `bits` that begins at byte `first`. */
static struct place place_in(unsigned bits, size_t first, size_t row, size_t g)
{
    size_t at = first + 4 * row;

    if (bits == 8) return (struct place){at + 64 * g, 0};
    if (bits == 4) return (struct place){at + 128 * (g / 4) + 64 * (g % 2), g % 4 < 2 ? 0 : 4};
    if (bits == 2) return (struct place){at + 64 * (g / 4), 2 * (unsigned)(g % 4)};
    return (struct place){at, (unsigned)g};
}

/* The lowest bits of four bytes. */
static uint32_t low_bits(unsigned bits)
{
    return 0x01010101u * ((1u << bits) - 1);
}

/* Bits of the widest plane of `bits`; a code's planes follow each other from the widest on. */
static unsigned plane_bits(unsigned bits)
{
    return bits >= 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
}

uint32_t sp_microscale_four(const uint8_t *block, unsigned code_bits, size_t row, size_t g)
{
    uint32_t codes = 0;

    for (unsigned from = 0, bits; from < code_bits; from += bits) {
        bits = plane_bits(code_bits - from);
        struct place p = place_in(bits, 64 * from, row, g);
        codes |= (sp_get32(block + p.byte) >> p.shift & low_bits(bits)) << from;
    }
    return codes;
}

void sp_microscale_put_four(uint8_t *block, unsigned code_bits, size_t row, size_t g,
                            uint32_t codes)
{
    for (unsigned from = 0, bits; from < code_bits; from += bits) {
        bits = plane_bits(code_bits - from);
        struct place p = place_in(bits, 64 * from, row, g);
        uint32_t plane = codes >> from & low_bits(bits);
        sp_put32(block + p.byte, sp_get32(block + p.byte) | plane << p.shift);
    }
}

unsigned sp_microscale_code(const uint8_t *block, unsigned code_bits, size_t row, size_t k)
{
    return sp_microscale_four(block, code_bits, row, k / 4) >> 8 * (k % 4) & 255;
}

void sp_microscale_put(uint8_t *block, unsigned code_bits, size_t row, size_t k, unsigned code)
{
    sp_microscale_put_four(block, code_bits, row, k / 4, code << 8 * (k % 4));
}

/* ---- blocks ---- */

void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale,
                        const struct sp_tile_kernels *kernels, const struct sp_q4_tables *tables)
{
    _Alignas(64) int16_t v[SP_PANEL_ROWS * SP_BLOCK];
    float inverse[SP_PANEL_ROWS];

    for (size_t row = 0; row < SP_PANEL_ROWS; row++)
        inverse[row] = row_scale[row] > 0 ? 1.0f / row_scale[row] : 0;
    kernels->whole_q4(v, tile, inverse);
    kernels->fit_q4(block, v, tables);
}

void sp_microscale_decode_row(float *out, const struct sp_microscale *type, const uint8_t *panel,
                              size_t cols, size_t lane)
{
    const size_t size = sp_microscale_block_size(type->code_bits);
    const uint8_t *block = panel + SP_MICROSCALE_HEAD;
    float row_scale = sp_float_of_bits(sp_get32(panel + 4 * lane));

    for (size_t first = 0; first < cols; first += SP_BLOCK, block += size) {
        const uint8_t *scale_bytes = block + size - 2 * SP_PANEL_ROWS + lane;
        for (size_t k = 0; k < SP_BLOCK; k++) {
            uint8_t byte = scale_bytes[k / SP_MICROSCALE_HALF * SP_PANEL_ROWS];
            unsigned code = sp_microscale_code(block, type->code_bits, lane, k);
            out[first + k] = row_scale * (float)(byte * sp_microscale_entry(type, byte, code));
        }
    }
}
