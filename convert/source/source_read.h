/* Rows and elements of a source's tensors as floats. */
#ifndef SP_CONVERT_SOURCE_SOURCE_READ_H
#define SP_CONVERT_SOURCE_SOURCE_READ_H

#include "convert/source/source.h"

/* The scratch memory of one reading thread, which grows to what a tensor needs. */
struct sp_scratch {
    uint8_t *bytes; /* owned */
    size_t size;
    float *floats;                         /* owned; of size / 2 elements */
    struct sp_weight_workspace *weights;   /* owned; rows of quantized weights */
    const struct sp_tile_kernels *kernels; /* that turn panels into rows */
    struct sp_merge_workspace *merging;    /* owned */
};

/* Opens scratch of `size` bytes, by which rows are read at a time. *out is untouched on failure. */
SP_MUST_CHECK enum sp_status sp_scratch_open(struct sp_scratch *out, size_t size,
                                             struct sp_err *err);
void sp_scratch_release(struct sp_scratch *scratch);

/* out[0..n_rows-1][cols] = rows first_row.. of a matrix, as floats. Of a packed file's matrix,
 * first_row begins a panel and the range ends with a panel or a matrix. */
SP_MUST_CHECK enum sp_status sp_source_read_rows(float *out, const struct sp_source *source,
                                                 const struct sp_tensor_spec *spec,
                                                 uint64_t first_row, uint64_t n_rows,
                                                 struct sp_scratch *scratch, struct sp_err *err);

/* Writes a panel of the type that keeps the codes of a tensor (sp_stored), from rows first_row..
 * of one matrix. */
SP_MUST_CHECK enum sp_status sp_source_read_codes(uint8_t *panel, const struct sp_source *source,
                                                  const struct sp_tensor_spec *spec,
                                                  const struct sp_stored *stored,
                                                  uint64_t first_row, size_t n_rows,
                                                  struct sp_scratch *scratch, struct sp_err *err);

/* Scales numbers of a packed file's tensor, which were decoded elsewhere, back to those of the
 * model if the tensor is smoothed: n from number `first` on, of a matrix whole rows. */
void sp_source_undo_smoothing(float *x, const struct sp_source *source,
                              const struct sp_tensor_spec *spec, uint64_t first, size_t n);

/* All elements of a tensor that is not laid out as a matrix. */
SP_MUST_CHECK enum sp_status sp_source_read_all(float *out, const struct sp_source *source,
                                                const struct sp_tensor_spec *spec,
                                                struct sp_scratch *scratch, struct sp_err *err);

#endif
