/* The statistics of drafting with a packed file on this machine, in the user's cache folder: run
 * and serve begin with what earlier processes learned. They change no text. Failures are ignored:
 * the process then learns everything itself. */
#ifndef SP_CLI_CHAT_DRAFTING_CACHE_H
#define SP_CLI_CHAT_DRAFTING_CACHE_H

#include "runtime/spectool.h"
#include "cli/base/backend_opts.h"

/* Creates the folder of the files, which has nothing else. Returns its path, owned by the caller;
 * NULL: there is none. */
char *sp_drafting_cache_folder(void);

/* Begins with the statistics of earlier processes with the same file, machine, kernels and numbers
 * of threads and ranks. One run in eight tries to draft even if it did not pay in the last one. */
void sp_drafting_cache_load(struct sp_package *package);

/* Keeps what this process learned, unless the file was changed meanwhile. */
void sp_drafting_cache_save(const struct sp_package *package);

/* ---- the folder of processed prompts ---- */

/* Opens the prompt cache that the options name, or that of the user. *folder: its path, owned by
 * the caller. Without a folder of the user both are NULL; one that is named and cannot be used is
 * SP_E_IO or SP_E_USAGE. command: of notes, static. */
SP_MUST_CHECK enum sp_status sp_prompt_folder_open(struct sp_prompt_cache **out, char **folder,
                                                   const struct sp_backend_opts *options,
                                                   const char *command, struct sp_err *err);

#endif
