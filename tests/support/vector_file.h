/* Reads files of testdata/vectors: a case per line, hexadecimal numbers between whitespace. */
#ifndef SP_TESTS_SUPPORT_VECTOR_FILE_H
#define SP_TESTS_SUPPORT_VECTOR_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Returns all numbers of the file; kept (keep.h). Fails the test unless every line has `per_line`
 * numbers. *n_lines is at least 1. */
uint64_t *vector_file_read(const char *name, size_t per_line, size_t *n_lines);

#endif
