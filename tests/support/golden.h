/* Golden values: JSON files and NumPy arrays that independent implementations wrote. */
#ifndef SP_TESTS_SUPPORT_GOLDEN_H
#define SP_TESTS_SUPPORT_GOLDEN_H

#include "format/base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A parsed JSON file (sp_json_free); NULL when the file does not exist. */
struct sp_json *golden_json(const char *path);

/* Array of ids, owned (free). */
uint32_t *golden_ids(const struct sp_json *array, size_t *n);

/* A float32 .npy of two dimensions, owned (free). Fails the test when it cannot be read. */
float *golden_npy(const char *path, size_t *rows, size_t *cols);

bool golden_exists(const char *path);

/* Names of the folders of testdata/families, sorted, the last one NULL. Owned by the function. */
const char *const *golden_families(void);

/* A row of cmocka's tests: `fn` with the name of a folder of golden values as its state. */
#define GOLDEN_CASE(fn, folder)                                                                    \
    {                                                                                              \
#fn " " folder, fn, NULL, NULL, (void *)(uintptr_t)(folder)                                \
    }

#endif
