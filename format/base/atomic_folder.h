/* A folder that appears under its name at commit, complete and on the disk, or never. Until then it
 * is a temporary beside it (.NAME.PID-N.tmp). What is in it are files, and folders of files. */
#ifndef SP_FORMAT_BASE_ATOMIC_FOLDER_H
#define SP_FORMAT_BASE_ATOMIC_FOLDER_H

#include "format/base/err.h"

#include <stdbool.h>

struct sp_atomic_folder; /* opaque */

/* True if this may be in a folder that is replaced. `inside`: the name of the folder in it where
 * the entry is, or NULL. */
typedef bool sp_folder_entry_fn(const char *inside, const char *name);

/* An existing folder is replaced with `force`, if `ours` allows everything that is in it: a slip of
 * the pen must not cost a user's folder. Else SP_E_USAGE. */
SP_MUST_CHECK enum sp_status sp_atomic_folder_open(struct sp_atomic_folder **out, const char *path,
                                                   bool force, sp_folder_entry_fn *ours,
                                                   struct sp_err *err);

/* Where its files are to be written until commit; borrowed. They are to be on the disk by then. */
const char *sp_atomic_folder_path(const struct sp_atomic_folder *folder);

/* Makes a folder in it; *path owned by the caller. */
SP_MUST_CHECK enum sp_status sp_atomic_folder_add(char **path,
                                                  const struct sp_atomic_folder *folder,
                                                  const char *name, struct sp_err *err);

/* Syncs and moves it to its name; what it replaces is then removed. Without `force`, what appeared
 * under the name meanwhile stays (SP_E_USAGE). Close afterwards in any case. */
SP_MUST_CHECK enum sp_status sp_atomic_folder_commit(struct sp_atomic_folder *folder,
                                                     struct sp_err *err);

/* Frees; what was not committed is removed. NULL is fine. */
void sp_atomic_folder_close(struct sp_atomic_folder *folder);

#endif
