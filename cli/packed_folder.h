/* Packed files of checkpoint folders, in the user's cache folder. */
#ifndef SP_CLI_PACKED_FOLDER_H
#define SP_CLI_PACKED_FOLDER_H

#include "format/base/err.h"

/* *path = the packed file of the checkpoint in `folder`, owned by the caller. A file from an
 * earlier call is used again as long as names, sizes and times of the files in the folder stay the
 * same; otherwise the target is packed with its types as stored, after a note to stderr, and
 * replaces earlier files of the folder. `command`: for the note. SP_E_INPUT: the folder has no
 * config.json. */
SP_MUST_CHECK enum sp_status sp_packed_folder(char **path, const char *folder, const char *command,
                                              struct sp_err *err);

#endif
