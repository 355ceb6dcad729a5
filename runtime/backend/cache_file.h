/* A page of the prompt cache: a file with what some tokens of a prompt left in the caches.
 *
 * Each object has one function that walks its contents in a fixed order for both directions, so
 * that what is written and what is read cannot differ. Floats have the bits of memory: a session
 * that continues from a page gives the same bits as the one that wrote it, on any machine.
 *
 *   "SPPAGE\0\0", version (8 bytes, little-endian like all numbers), contents, XXH3-64 of the
 * contents
 *
 * A file from an untrusted source is refused, or at worst leads to another text, as an untrusted
 * model may; it never causes an access outside of memory: every size is checked when it is read. */
#ifndef SP_RUNTIME_BACKEND_CACHE_FILE_H
#define SP_RUNTIME_BACKEND_CACHE_FILE_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_cache_file; /* opaque: a file that is being written, or read */

/* Creates a file, which appears when it is finished. After a power failure it may be damaged, which
 * its reader notices. */
SP_MUST_CHECK enum sp_status sp_cache_file_create(struct sp_cache_file **out, const char *path,
                                                  struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_cache_file_open(struct sp_cache_file **out, const char *path,
                                                struct sp_err *err);
/* NULL is fine. A created file that is not finished is removed. */
void sp_cache_file_close(struct sp_cache_file *file);

bool sp_cache_file_is_read(const struct sp_cache_file *file);
uint64_t sp_cache_file_size(const struct sp_cache_file *file); /* bytes written or read so far */

/* Writes or reads bytes. */
SP_MUST_CHECK enum sp_status sp_cache_file_bytes(struct sp_cache_file *file, void *bytes,
                                                 size_t size, struct sp_err *err);
/* Writes or reads one number; SP_E_INPUT if a read number is larger than `most`. */
SP_MUST_CHECK enum sp_status sp_cache_file_number(struct sp_cache_file *file, size_t *number,
                                                  size_t most, struct sp_err *err);
/* Writes bytes, or reads as many that must equal them; SP_E_INPUT if they differ. */
SP_MUST_CHECK enum sp_status sp_cache_file_match(struct sp_cache_file *file, const void *bytes,
                                                 size_t size, struct sp_err *err);

/* Ends the file. Reading skips the rest of the contents; SP_E_INPUT: the digest does not match. */
SP_MUST_CHECK enum sp_status sp_cache_file_finish(struct sp_cache_file *file, struct sp_err *err);

#endif
