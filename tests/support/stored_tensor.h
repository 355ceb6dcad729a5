/* Opens sources and reads the elements of their tensors. Failures end the test. */
#ifndef SP_TESTS_SUPPORT_STORED_TENSOR_H
#define SP_TESTS_SUPPORT_STORED_TENSOR_H

#include "convert/source/source.h"

/* Opens a target; kept (keep.h). */
struct sp_source *keep_source(const char *path);

/* Returns all elements as floats; kept (keep.h). *dtype is the stored type. */
float *stored_tensor_floats(const struct sp_source *source, const struct sp_tensor_spec *spec,
                            enum sp_dtype *dtype);

#endif
