/* A file made for the occasion: in a folder of its own under $TMPDIR or /tmp, removed as soon as it
 * is mapped, or given up. */
#ifndef SP_CLI_BASE_TEMP_FILE_H
#define SP_CLI_BASE_TEMP_FILE_H

#include "format/base/err.h"

/* Valid when zeroed. */
struct sp_temp_file {
    char *folder, *path; /* owned; NULL: none */
};

/* Makes the folder; nothing is at the path yet. Remove in any case. */
SP_MUST_CHECK enum sp_status sp_temp_file_open(struct sp_temp_file *out, const char *name,
                                               struct sp_err *err);
/* Removes file and folder, if there are any. */
void sp_temp_file_remove(struct sp_temp_file *temporary);

#endif
