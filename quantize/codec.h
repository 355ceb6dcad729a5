/* Floats to and from the bytes of packed files, for every type: the only switch on dtype among the
 * codecs.
 *
 * Rows of floats, which types/float_cast.h reads from a source, are encoded as panels (matrices) or
 * plain elements (vectors) of a packed file, and decoded again. Bytes depend on the floats alone:
 * not on the machine, nor on how a tensor was divided into calls. bf16 and f16 survive the way
 * through float bit for bit.
 *
 * Weights may not be NaN or infinite, nor too large for f16: such numbers are refused, never
 * clamped. */
#ifndef SP_QUANTIZE_CODEC_H
#define SP_QUANTIZE_CODEC_H

#include "format/dtype.h"
#include "quantize/types/microscale.h"
#include "quantize/types/tile.h"

/* The constant inputs of the panel encoder: made once, read by any number of threads. */
struct sp_encoder {
    const struct sp_tile_kernels *kernels; /* the fastest this CPU has; all give the same */
    struct sp_q4_tables tables;
    struct sp_microscale_books books[SP_N_PACKED_DTYPES]; /* by dtype, of those with codes */
};

void sp_encoder_init(struct sp_encoder *encoder);

/* Writes n elements of `dtype` (f32, f16, bf16), rounded to nearest even. SP_E_INPUT naming the
 * element, counted from `first`, that is not finite or does not fit; `out` is then unspecified. */
SP_MUST_CHECK enum sp_status sp_encode_floats(uint8_t *out, enum sp_dtype dtype, const float *x,
                                              size_t n, uint64_t first, struct sp_err *err);

/* Writes one panel, sp_panel_size bytes, from rows[0..n_rows-1][cols], 1 <= n_rows <= 16; missing
 * rows become zeros. SP_E_INPUT naming row (first_row is the number of rows[0] in the tensor) and
 * column of a number that is not finite or does not fit; `panel` is then unspecified. q2 to q6 are
 * written by GPTQ if there are `factors` of the matrix's inputs (quantize/types/gptq.h), with a
 * workspace [cols][16]; without `factors` it may be NULL, and q4 has an encoder of its own. */
SP_MUST_CHECK enum sp_status sp_panel_encode(uint8_t *panel, enum sp_dtype dtype,
                                             const struct sp_encoder *encoder, const float *rows,
                                             size_t n_rows, size_t cols, uint64_t first_row,
                                             const float *factors, float *workspace,
                                             struct sp_err *err);

/* rows[0..n_rows-1][cols] = the first rows of a panel. sp_panel_row decodes one row of a matrix to
 * the same floats. */
void sp_panel_decode(float *rows, enum sp_dtype dtype, const uint8_t *panel, size_t n_rows,
                     size_t cols, const struct sp_tile_kernels *kernels);

/* out[0..cols-1] = one row of a matrix of panels, for embeddings and checks. */
void sp_panel_row(float *out, enum sp_dtype dtype, const uint8_t *panels, size_t cols, size_t row);

#endif
