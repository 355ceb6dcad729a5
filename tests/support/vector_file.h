/* Files of testdata/vectors: one case a line, hexadecimal numbers separated by blanks. */
#ifndef SP_TESTS_SUPPORT_VECTOR_FILE_H
#define SP_TESTS_SUPPORT_VECTOR_FILE_H

#include <stddef.h>
#include <stdint.h>

/* All numbers of the file, owned (free). Fails the test unless there are `per_line` on every line;
 * *n_lines is at least 1. */
uint64_t *vector_file_read(const char *name, size_t per_line, size_t *n_lines);

#endif
