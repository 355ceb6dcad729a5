/* The folders of the user for files that programs keep (XDG base directories). */
#ifndef SP_CLI_BASE_USER_FOLDER_H
#define SP_CLI_BASE_USER_FOLDER_H

#include "format/base/err.h"

/* Creates "spectool" in the folder that the environment variable names or, if it is unset, in the
 * folder `otherwise` of the home folder; only the user can read what is created. *path is owned by
 * the caller. SP_E_IO: there is no home folder, or the folder cannot be created. */
SP_MUST_CHECK enum sp_status sp_user_folder(char **path, const char *variable,
                                            const char *otherwise, struct sp_err *err);

#endif
