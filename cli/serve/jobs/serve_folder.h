/* The packed files that the command line of the server names. */
#ifndef SP_CLI_SERVE_JOBS_SERVE_FOLDER_H
#define SP_CLI_SERVE_JOBS_SERVE_FOLDER_H

#include "format/base/err.h"
#include "cli/base/opt.h"

#include <stdbool.h>
#include <stddef.h>

/* *out = the name of a model that the user calls `given`, owned by the caller: that of the file
 * without folder and suffix ("qwen" for "models/qwen.bin"), that of the folder, or the name in the
 * store of another program as it is ("org/name"). */
SP_MUST_CHECK enum sp_status sp_serve_name_of(char **out, const char *given, struct sp_err *err);

/* A packed file. */
struct sp_serve_path {
    char *given;   /* what the user calls it: its path, or the path or name of a checkpoint that was
                    * packed into the cache folder; owned */
    char *name;    /* of the model, by sp_serve_name_of; owned */
    char *path;    /* owned */
    bool is_named; /* by the command line, not found in a folder */
};

/* Packed files. Valid when zeroed. */
struct sp_serve_paths {
    struct sp_serve_path *at; /* [n] owned */
    size_t n, cap;
};

/* Adds the file at `path`, which the command line calls `given`. */
SP_MUST_CHECK enum sp_status sp_serve_paths_add(struct sp_serve_paths *paths, const char *given,
                                                const char *path, struct sp_err *err);
/* Adds all packed files in a folder, in the order of their names; hidden files do not count, and a
 * note names a file that cannot be read. SP_E_INPUT: the folder has none. */
SP_MUST_CHECK enum sp_status sp_serve_paths_add_folder(struct sp_serve_paths *paths,
                                                       const char *folder, struct sp_err *err);
void sp_serve_paths_release(struct sp_serve_paths *paths);

/* ---- LoRA adapters ----
 *
 * The LoRA adapters that the command line of the server names, NAME=PATH each. A request that names
 * an adapter is answered by the one model that the server then has, with the adapter. */

/* Valid when zeroed. */
struct sp_serve_adapters {
    char **names;       /* [n]; owned */
    const char **paths; /* [n]; the array is owned, the strings are borrowed from the list */
    size_t n;
};

/* Reads the values of --adapter. SP_E_USAGE: a value has another form, a name is not unique. */
SP_MUST_CHECK enum sp_status sp_serve_adapters_read(struct sp_serve_adapters *out,
                                                    const struct sp_opt_list *list,
                                                    struct sp_err *err);
void sp_serve_adapters_release(struct sp_serve_adapters *adapters);

#endif
