/* The folder of processed prompts that run and serve use. */
#ifndef SP_CLI_CHAT_PROMPT_FOLDER_H
#define SP_CLI_CHAT_PROMPT_FOLDER_H

#include "cli/base/backend_opts.h"

/* Opens the prompt cache that the options name, or that of the user. *folder: its path, owned by
 * the caller. Without a folder of the user both are NULL; one that is named and cannot be used is
 * SP_E_IO or SP_E_USAGE. command: of notes, static. */
SP_MUST_CHECK enum sp_status sp_prompt_folder_open(struct sp_prompt_cache **out, char **folder,
                                                   const struct sp_backend_opts *options,
                                                   const char *command, struct sp_err *err);

#endif
