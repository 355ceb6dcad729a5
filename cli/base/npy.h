/* NumPy's file format 1.0 for two-dimensional arrays of float32 (numpy.lib.format). */
#ifndef SP_CLI_BASE_NPY_H
#define SP_CLI_BASE_NPY_H

#include <stddef.h>
#include <stdint.h>

enum { SP_NPY_HEADER = 128, SP_NPY_MAGIC = 6 };

/* The first SP_NPY_MAGIC bytes of a file. */
extern const char sp_npy_magic[];

/* Writes the header; the numbers follow it row by row, as sp_npy_row writes them. */
void sp_npy_header(uint8_t header[SP_NPY_HEADER], size_t n_rows, size_t n_cols);
/* bytes[4 * n] = numbers[n], little-endian. */
void sp_npy_row(uint8_t *bytes, const float *numbers, size_t n);

#endif
