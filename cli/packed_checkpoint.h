/* Packed files of checkpoints, in the user's cache folder. */
#ifndef SP_CLI_PACKED_CHECKPOINT_H
#define SP_CLI_PACKED_CHECKPOINT_H

#include "format/base/err.h"

#include <stdbool.h>

/* True if the path is a folder or a GGUF file. */
bool sp_is_checkpoint(const char *path);

/* *path = the packed file of a checkpoint folder or a GGUF file, owned by the caller. A file from
 * an earlier call is used again as long as names, sizes and times of the files in the folder, or of
 * the GGUF file, stay the same; otherwise the target is packed as sp_create does it without further
 * options, after a note to stderr, and replaces earlier files of the checkpoint. `command`: for the
 * note. SP_E_INPUT: the folder has no config.json. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint(char **path, const char *checkpoint,
                                                  const char *command, struct sp_err *err);

#endif
