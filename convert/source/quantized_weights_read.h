/* Rows of a quantized weight as floats. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H
#define SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H

#include "convert/source/quantized_weights.h"

/* The smallest float type that surely holds a weight's values. */
enum sp_dtype sp_weight_float_type(const struct sp_weight *weight);
/* Can a block of q8 hold 32 of its weights exactly, whatever they are? */
bool sp_weight_fits_q8(const struct sp_weight *weight);
/* Bytes of all its parts. */
uint64_t sp_weight_size(const struct sp_weight *weight);

/* Least scratch for reading rows, bytes; false on overflow. */
bool sp_weight_scratch(size_t *out, const struct sp_weight *weight);

/* out[n][cols] = rows first, first + step, ... `bytes` and `floats` are scratch of at least
 * sp_weight_scratch bytes and half as many elements. */
SP_MUST_CHECK enum sp_status sp_weight_read(float *out, const struct sp_weight *weight,
                                            const struct sp_safetensors *checkpoint, uint64_t first,
                                            uint64_t step, uint64_t n, uint8_t *bytes, size_t size,
                                            float *floats, struct sp_err *err);

#endif
