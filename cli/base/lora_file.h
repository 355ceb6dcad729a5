/* LoRA adapters that a command gives an open package, from the files that ADAPTER lines name. */
#ifndef SP_CLI_BASE_LORA_FILE_H
#define SP_CLI_BASE_LORA_FILE_H

#include "runtime/spectool.h"

/* Reads the adapter at `path` (a folder of PEFT or mlx-lm, or a GGUF file) for a package that was
 * opened from the packed file at `packed`. It is opened before the sessions that may have it.
 * SP_E_UNSUPPORTED names a tensor that can only be merged. command: for notes. */
SP_MUST_CHECK enum sp_status sp_lora_file_open(struct sp_lora **out, struct sp_package *package,
                                               const char *packed, const char *path,
                                               const char *command, struct sp_err *err);

#endif
