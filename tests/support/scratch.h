/* Manages a folder for the files of one test, and reads and writes small files in it. Failures end
 * the test. */
#ifndef SP_TESTS_SUPPORT_SCRATCH_H
#define SP_TESTS_SUPPORT_SCRATCH_H

#include <stddef.h>

/* Creates an empty folder in $TMPDIR, or else /tmp, on the first call and returns its path; static
 * until scratch_remove. */
const char *scratch_folder(void);
/* Removes the folder with its contents. */
void scratch_remove(void);
/* scratch_remove as the teardown of a cmocka test. */
int scratch_teardown(void **state);

/* Returns "folder/name" in one of a few static buffers, which are reused in rotation. */
const char *scratch_path(const char *name);
/* Writes the file and returns its path. */
const char *scratch_write(const char *name, const void *bytes, size_t size);
/* Returns the whole file, NUL-terminated; kept (keep.h). */
char *scratch_read(const char *path, size_t *size);
/* Returns the names in a folder but the hidden ones, sorted, and NULL; kept. None if there is no
 * such folder. */
const char *const *folder_names(const char *folder);
/* Fails the test unless both files have the same bytes. */
void assert_same_file(const char *a, const char *b);

#endif
