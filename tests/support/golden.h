/* Reads golden values: JSON files and NumPy arrays written by independent implementations. */
#ifndef SP_TESTS_SUPPORT_GOLDEN_H
#define SP_TESTS_SUPPORT_GOLDEN_H

#include "format/json/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the whole file, NUL-terminated; kept (keep.h). NULL if it does not exist. */
char *golden_file(const char *path, size_t *size);

/* Parses a JSON file; kept. NULL if the file does not exist. */
struct sp_json *golden_json(const char *path);

/* Returns the values of a file with one on each line, and NULL; kept. None if the file does not
 * exist. */
struct sp_json *const *golden_lines(const char *path);

/* Returns the next line of a text, NUL-terminated in place; NULL at the end. *text advances past
 * it. */
char *next_line(char **text);

/* Returns the token ids of a JSON array; kept. */
uint32_t *golden_ids(const struct sp_json *array, size_t *n);

/* Reads a two-dimensional float32 .npy file; kept. Fails the test if it cannot be read. */
float *golden_npy(const char *path, size_t *rows, size_t *cols);

bool golden_exists(const char *path);

/* Returns the sorted names of the folders of testdata/families, NULL-terminated; static. */
const char *const *golden_families(void);

/* The same of ../shared/oracle/newer, whose families need not be supported; none without it. */
const char *const *golden_newer(void);

/* A cmocka test: `fn` with the name of a folder of golden values as its state. */
#define GOLDEN_CASE(fn, folder)                                                                    \
    {                                                                                              \
#fn " " folder, fn, NULL, NULL, (void *)(uintptr_t)(folder)                                \
    }

#endif
