/* A folder for one test's files, and reading and writing small files in it. Failures end the test.
 */
#ifndef SP_TESTS_SUPPORT_SCRATCH_H
#define SP_TESTS_SUPPORT_SCRATCH_H

#include <stddef.h>

/* Path of a new empty folder inside the working directory; static until the next call of
 * scratch_remove. */
const char *scratch_folder(void);
/* Removes it with everything inside. */
void scratch_remove(void);

/* "folder/name", in one of a few static buffers that take turns. */
const char *scratch_path(const char *name);
/* Writes the file and returns its path. */
const char *scratch_write(const char *name, const void *bytes, size_t size);
/* The whole file, NUL-terminated; free() it. */
char *scratch_read(const char *path, size_t *size);

#endif
