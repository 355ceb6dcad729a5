/* Reads the elements of a source's tensor. Failures end the test. */
#ifndef SP_TESTS_SUPPORT_STORED_TENSOR_H
#define SP_TESTS_SUPPORT_STORED_TENSOR_H

#include "convert/source/source.h"

/* Returns all elements as floats; kept (keep.h). *dtype is the stored type. */
float *stored_tensor_floats(const struct sp_source *source, const struct sp_tensor_spec *spec,
                            enum sp_dtype *dtype);

#endif
