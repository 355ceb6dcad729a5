#include "cli/base/out.h"

#include "format/base/bytes.h"

#include <stdio.h>
#include <string.h>

const char sp_npy_magic[] = "\x93NUMPY";

void sp_npy_header(uint8_t header[SP_NPY_HEADER], size_t n_rows, size_t n_cols)
{
    char text[SP_NPY_HEADER];
    int n =
        snprintf(text, sizeof text,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", n_rows, n_cols);

    memcpy(header, sp_npy_magic, SP_NPY_MAGIC);
    sp_put16(header + 6, 1);
    sp_put16(header + 8, SP_NPY_HEADER - 10);
    memset(header + 10, ' ', SP_NPY_HEADER - 10);
    memcpy(header + 10, text, (size_t)n);
    header[SP_NPY_HEADER - 1] = '\n';
}

void sp_npy_row(uint8_t *bytes, const float *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sp_put32(bytes + 4 * i, sp_bits_of_float(numbers[i]));
}
