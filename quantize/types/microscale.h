/* q2, q3, q4, q5 and q6, the types of 2 to 6 bits: 16 weights share one scale byte, which also
 * selects a codebook.
 *
 *   w = row_scale * (float)(b * entry(b, code))
 *
 * b is the scale byte of (half block, row), row_scale the f32 of the panel's head. The scale is the
 * whole byte as an integer: one conversion makes it a float, there is no exponent to shift and no
 * bit to mask. Its lowest bits select one of n codebooks, so each codebook is paired with every nth
 * scale; adjacent scales differ so little (1/255 of the row's largest) that this costs nothing, and
 * the encoder may use all 256 pairs. b == 0 is an exact zero block. With t = b mod n:
 *
 *   q2, q3, q4   n = 16, 8, 4 codebooks: entry = entries[t][code]; 64 entries in all, one vector
 *                register or cache line. Odd codebooks mirror the even ones:
 *                entries[t ^ 1][last - i] == -entries[t][i]
 *   q5, q6       n = 8: entry = entries[code] + offsets[t]. With so many codes the shape of a
 *                codebook matters less than its place between a half block's smallest and largest
 *                weight. The entries of q6 are -32..31.
 *
 * Entries are whole numbers in -64..64, ascending: as unsigned bytes, entry + 64, two products with
 * int8 activations fit 16 bits, which is the width of AVX2's additions. They were trained together
 * with the rounding of the scales, on Gaussian rows and heavier-tailed ones
 * (tests/oracle/train_codebooks.py). Relative rms error on Gaussian rows of 1024:
 *
 *   bits a weight, everything counted   2.53    3.53    4.53    5.53    6.53
 *   error                              0.251   0.120   0.0598  0.0295  0.0155
 *
 * Byte times entry is an exact integer, so a decoded weight is rounded once. A half block's integer
 * dot product with int8 activations stays below 16 * 64 * 127 < 2^17, times the byte below 2^25.
 *
 * The tables and the formula are part of the packed file's format; format/dtype.h has the layout of
 * the bytes. */
#ifndef SP_QUANTIZE_TYPES_MICROSCALE_H
#define SP_QUANTIZE_TYPES_MICROSCALE_H

#include "format/dtype.h"
#include "quantize/types/tile.h"

#include <stddef.h>
#include <stdint.h>

enum {
    SP_MICROSCALE_HALF = 16,     /* weights that share a scale byte */
    SP_MICROSCALE_ENTRIES = 128, /* most entries of a type: codes of 7 bits */
};

struct sp_microscale {
    unsigned code_bits, n_codebooks;
    /* At the code, or without offsets at codebook << code_bits | code; a cache line. */
    const int8_t *entries;
    const int8_t *offsets; /* [n_codebooks], or NULL: each codebook has entries of its own */
    float largest; /* product of byte and entry that the largest weight of a row is scaled to */
};

/* The row of q2, q3, q4, q5 or q6; asserts that it is one of these. */
const struct sp_microscale *sp_microscale_of(enum sp_dtype dtype);

static inline int sp_microscale_entry(const struct sp_microscale *type, uint8_t byte, unsigned code)
{
    unsigned t = byte & (type->n_codebooks - 1);

    return type->offsets ? type->entries[code] + type->offsets[t]
                         : type->entries[t << type->code_bits | code];
}

/* The codebooks of a type in the form that the encoder searches (kernels_gptq.h). */
struct sp_microscale_books {
    unsigned code_bits;
    int n_ratios;
    float ratios[7]; /* sizes tried: those that the largest weights suggest, divided by these */
    float entries[SP_MICROSCALE_ENTRIES]; /* without offsets, as sp_microscale.entries */
    float middles[SP_MICROSCALE_ENTRIES]; /* [i]: between entries i and i + 1 */
    float offsets[16];                    /* of each codebook */
    float high[16], low[16];              /* 1 / largest and smallest entry of each codebook */
};

void sp_microscale_books_init(struct sp_microscale_books *books, const struct sp_microscale *type);

/* The code of a block's weight of `row` and column k, 0..31. */
unsigned sp_microscale_code(const uint8_t *block, unsigned code_bits, size_t row, size_t k);
/* Sets the bits of a code, which are zero. */
void sp_microscale_put(uint8_t *block, unsigned code_bits, size_t row, size_t k, unsigned code);

/* The codes of columns 4g..4g+3 of a row as bytes, and setting their bits, which are zero. */
uint32_t sp_microscale_four(const uint8_t *block, unsigned code_bits, size_t row, size_t g);
void sp_microscale_put_four(uint8_t *block, unsigned code_bits, size_t row, size_t g,
                            uint32_t codes);

/* The row scale for a row whose largest magnitude is `max`: 0 for a row of (nearly) zeros. */
float sp_microscale_row_scale(const struct sp_microscale *type, float max);

/* Writes one block of SP_Q4_BLOCK_SIZE bytes from tile[16][32]: 32 columns of the panel's 16 rows,
 * all finite, none larger than the `max` of row_scale[row]. All kernels write the same bytes. */
void sp_q4_encode_block(uint8_t *block, const float *tile, const float *row_scale,
                        const struct sp_tile_kernels *kernels, const struct sp_q4_tables *tables);

/* out[0..cols-1] = row `lane` of the panel. */
void sp_microscale_decode_row(float *out, const struct sp_microscale *type, const uint8_t *panel,
                              size_t cols, size_t lane);

#endif
