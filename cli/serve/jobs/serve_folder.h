/* The packed files that the command line of the server names. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_FOLDER_H
#define SP_CLI_SERVE_JOBS_SERVE_FOLDER_H

#include "format/base/err.h"

#include <stddef.h>

/* Paths of packed files. Valid when zeroed. */
struct sp_serve_paths {
    char **at; /* [n], owned with the strings */
    size_t n, cap;
};

/* Adds a file or, of a folder, all packed files in it, in the order of their names; hidden files do
 * not count, and a note names a file that cannot be read. SP_E_INPUT: the folder has none. */
SP_MUST_CHECK enum sp_status sp_serve_paths_add(struct sp_serve_paths *paths, const char *path,
                                                struct sp_err *err);
void sp_serve_paths_release(struct sp_serve_paths *paths);

#endif
