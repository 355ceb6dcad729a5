/* Compares two matrices, number by number. Equal tables are stored once. */
#ifndef SP_CONVERT_SOURCE_TENSOR_EQUAL_H
#define SP_CONVERT_SOURCE_TENSOR_EQUAL_H

#include "convert/source/source.h"

/* *same: both sources have their matrix, in one shape, and every element is the same float; false
 * where one is of a type that cannot be read. Reads them a few rows at a time. */
SP_MUST_CHECK enum sp_status sp_tensor_equal(bool *same, const struct sp_source *a,
                                             const char *a_name, const struct sp_source *b,
                                             const char *b_name, struct sp_err *err);

#endif
