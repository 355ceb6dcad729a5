/* Packed files of checkpoints, in the user's cache folder. */
#ifndef SP_CLI_PACKED_CHECKPOINT_H
#define SP_CLI_PACKED_CHECKPOINT_H

#include "cli/base/opt.h"

/* Replaces each operand that is a model and no packed file by the path of its packed file. The
 * model is a folder, a GGUF file, or a name in the stores of other programs
 * (convert/source/source_name.h). A file from an earlier call is used again as long as names, sizes
 * and times of the files in the folder, of the GGUF file, or of ollama's manifest stay the same;
 * otherwise the target is packed, as sp_create does it with FROM and no further options, after a
 * note to stderr, and replaces earlier files of the checkpoint. The command's row tells which
 * operands are models. SP_E_INPUT: the folder has no config.json; SP_E_IO or SP_E_INPUT: neither a
 * file nor a model has this name. */
SP_MUST_CHECK enum sp_status sp_pack_operands(struct sp_args *args, struct sp_err *err);

#endif
