/* A temporary file in a folder of its own in $TMPDIR or /tmp, removed as soon as it is mapped. */
#ifndef SP_CLI_BASE_TEMP_FILE_H
#define SP_CLI_BASE_TEMP_FILE_H

#include "format/base/err.h"

/* A temporary file. Valid when zeroed. */
struct sp_temp_file {
    char *folder, *path; /* paths; owned; NULL: no file */
};

/* Creates the folder and sets the path, at which there is no file yet. sp_temp_file_remove must be
 * called in any case. */
SP_MUST_CHECK enum sp_status sp_temp_file_open(struct sp_temp_file *out, const char *name,
                                               struct sp_err *err);
/* Removes the folder with all of its files, if it exists. */
void sp_temp_file_remove(struct sp_temp_file *temporary);

#endif
