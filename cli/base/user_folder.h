/* The folders of the user for files that programs keep (XDG base directories). */
#ifndef SP_CLI_BASE_USER_FOLDER_H
#define SP_CLI_BASE_USER_FOLDER_H

#include "convert/source/source_name.h"
#include "format/base/err.h"

/* Creates "spectool" in the folder that the environment variable names or, if it is unset, in the
 * folder `otherwise` of the home folder; only the user can read what is created. *path = the path
 * of `name` in it, which is empty for the folder itself, owned by the caller; it is not set on
 * failure. SP_E_IO: there is no home folder, or the folder cannot be created. */
SP_MUST_CHECK enum sp_status sp_user_file(char **path, const char *variable, const char *otherwise,
                                          const char *name, struct sp_err *err);

/* The stores of models that other programs keep for the user. */
struct sp_user_stores {
    struct sp_source_stores stores; /* borrows from the members below */
    char hub[4096], ollama[4096];
};

/* Fills *out with the folders that Hugging Face's tools and ollama use, by their environment
 * variables. Whether the folders exist is not checked. */
void sp_user_stores_find(struct sp_user_stores *out);

/* ---- temporary files ----
 *
 * A temporary file in a folder of its own in $TMPDIR or /tmp, removed as soon as it is mapped. */

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
