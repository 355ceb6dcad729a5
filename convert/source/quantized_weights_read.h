/* Reads rows of a quantized weight as floats. */
#ifndef SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H
#define SP_CONVERT_SOURCE_QUANTIZED_WEIGHTS_READ_H

#include "convert/source/quantized_weights.h"

/* Returns the smallest float type that always holds the values of a weight. */
enum sp_dtype sp_weight_float_type(const struct sp_weight *weight);
/* Returns true if a q8 block can hold any 32 weights of the matrix exactly. */
bool sp_weight_fits_q8(const struct sp_weight *weight);
/* Returns the bytes of all parts of a weight. */
uint64_t sp_weight_size(const struct sp_weight *weight);

/* Computes the least scratch for reading rows, in bytes; returns false on overflow. */
bool sp_weight_scratch(size_t *out, const struct sp_weight *weight);

/* out[n][cols] = rows first, first + step, ... `bytes` and `floats` are scratch of at least
 * sp_weight_scratch bytes and half as many elements. */
SP_MUST_CHECK enum sp_status sp_weight_read(float *out, const struct sp_weight *weight,
                                            const struct sp_safetensors *checkpoint, uint64_t first,
                                            uint64_t step, uint64_t n, uint8_t *bytes, size_t size,
                                            float *floats, struct sp_err *err);

#endif
