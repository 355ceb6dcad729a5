/* What a folder holds as a model: a checkpoint, or GGUF files. */
#ifndef SP_CONVERT_SOURCE_MODEL_FOLDER_H
#define SP_CONVERT_SOURCE_MODEL_FOLDER_H

#include "format/base/err.h"

#include <stddef.h>

/* The GGUF files of models in a folder and in the folders in it, as repositories with a folder for
 * each type have them; of a split one the first part counts. With a tag, such as "Q4_K_M", only
 * those that have it in their name or in that of their folder. *n = their number, *path = one of
 * them, owned by the caller; NULL if there is none. */
SP_MUST_CHECK enum sp_status sp_folder_find_gguf(char **path, size_t *n, const char *folder,
                                                 const char *tag, struct sp_err *err);

/* *path = NULL if the folder is a checkpoint, else the only GGUF file that it holds, owned by the
 * caller. SP_E_INPUT says what else the folder holds, and what to do with it. */
SP_MUST_CHECK enum sp_status sp_folder_find_model(char **path, const char *folder,
                                                  struct sp_err *err);

#endif
