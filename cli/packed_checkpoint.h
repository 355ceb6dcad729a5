/* Packed files of checkpoints, in the user's cache folder. */
#ifndef SP_CLI_PACKED_CHECKPOINT_H
#define SP_CLI_PACKED_CHECKPOINT_H

#include "format/base/err.h"

#include <stdbool.h>

/* True if the path is a folder or a GGUF file, or if there is no such file, so that it may be the
 * name of a model. */
bool sp_needs_packing(const char *path);

/* *path = the packed file of a checkpoint, owned by the caller. The checkpoint is a folder, a GGUF
 * file, or a name in the stores of other programs (convert/source/source_name.h). A file from an
 * earlier call is used again as long as names, sizes and times of the files in the folder, of the
 * GGUF file, or of ollama's manifest stay the same; otherwise the target is packed, as sp_create
 * does it with FROM and no further options, after a note to stderr, and replaces earlier files of
 * the checkpoint. `command`: for the note. SP_E_INPUT: the folder has no config.json; SP_E_IO or
 * SP_E_INPUT: neither a file nor a model has this name. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint(char **path, const char *checkpoint,
                                                  const char *command, struct sp_err *err);

#endif
