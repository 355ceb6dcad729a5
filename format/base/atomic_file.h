/* Files that appear under their names complete or not at all. */
#ifndef SP_FORMAT_BASE_ATOMIC_FILE_H
#define SP_FORMAT_BASE_ATOMIC_FILE_H

#include "format/base/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file that appears under its name at commit, complete and on the disk, or never. Until then it
 * is a temporary in the same folder, without a name or, where the file system has no such files,
 * .NAME.PID-N.tmp; with the permissions it will have: those of the file that it replaces, or of any
 * new file. */
struct sp_atomic_file; /* opaque */

/* Refuses (SP_E_USAGE) to replace a file that is neither empty nor begins with `magic`, as every
 * `kind` ("packed file") does: a mistyped output name must not destroy a checkpoint. */
SP_MUST_CHECK enum sp_status sp_atomic_file_check_replaced(const char *path, const void *magic,
                                                           size_t magic_size, const char *kind,
                                                           struct sp_err *err);

/* Refuses (SP_E_USAGE, SP_E_IO) what sp_atomic_file_open would refuse before it creates anything,
 * so that long work is not done in vain. */
SP_MUST_CHECK enum sp_status sp_atomic_file_check(const char *path, bool force, struct sp_err *err);

/* `size`: what the file will have, reserved where the file system can do that, so that a full disk
 * is noticed here; 0 where it is not known. An existing file is replaced (through symbolic links)
 * with `force`, else SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_atomic_file_open(struct sp_atomic_file **out, const char *path,
                                                 bool force, uint64_t size, struct sp_err *err);

/* From now on whole blocks of a mapped file that are written, from and to the beginning of a block,
 * are copied by the system, which shares them where the file system can do that. The mapping stays
 * until close. */
void sp_atomic_file_copies(struct sp_atomic_file *output, const struct sp_mapping *source);
enum { SP_FILE_BLOCK = 4096 };

/* Thread-safe for ranges that do not overlap. */
SP_MUST_CHECK enum sp_status sp_atomic_file_write_at(struct sp_atomic_file *output, uint64_t offset,
                                                     const void *bytes, size_t size,
                                                     struct sp_err *err);

/* Syncs, moves the file to its name, syncs the folder. Without `force`, a file that appeared under
 * the name meanwhile stays (SP_E_USAGE). Close afterwards in any case. */
SP_MUST_CHECK enum sp_status sp_atomic_file_commit(struct sp_atomic_file *output,
                                                   struct sp_err *err);

/* Moves the file to its name without a sync: other processes see it whole, but after a power
 * failure it may be damaged. */
SP_MUST_CHECK enum sp_status sp_atomic_file_publish(struct sp_atomic_file *output,
                                                    struct sp_err *err);

/* Frees; what was not committed is removed. NULL is fine. */
void sp_atomic_file_close(struct sp_atomic_file *output);

/* Writes a file of these bytes: opens, writes, commits and closes it. */
SP_MUST_CHECK enum sp_status sp_atomic_file_write_file(const char *path, bool force,
                                                       const void *bytes, size_t size,
                                                       struct sp_err *err);

#endif
