/* Packed files of checkpoints, in the user's cache folder. */
#ifndef SP_CLI_PACKED_CHECKPOINT_H
#define SP_CLI_PACKED_CHECKPOINT_H

#include "cli/base/user_folder.h"
#include "cli/commands.h"
#include "convert/create/create.h"
#include "format/base/err.h"

#include <stdbool.h>

/* Row of the option tables of commands that generate; `type` is their struct of options. */
#define SP_OPT_PACK_TYPE(type, member)                                                             \
    {                                                                                              \
        SP_OPT_CHOICE, 'q', "quantize", NULL, "TYPE",                                              \
            .offset = offsetof(type, member), .choices = sp_cmd_types, .shown = "as stored",       \
            .help = "Type of the weights in which a folder, a GGUF file or a name is packed into " \
                    "the cache folder"                                                             \
    }

/* True if the path is a folder or a GGUF file, or no file at all, so that it may name a model. */
bool sp_packed_checkpoint_is_needed(const char *path);

/* True if FROM takes the path, or may take it as a name: a folder, a file of weights, a packed
 * file, or no file at all. */
bool sp_packed_checkpoint_is_model(const char *path);
/* Refuses a folder without config.json, and a checkpoint's configuration, with what to give
 * instead. Any other path passes, also one that does not exist. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_check(const char *path, struct sp_err *err);

/* *path = the packed file of the model that an operand names, owned by the caller. A path of any
 * file but a GGUF file is copied. A folder, a GGUF file, or a name in the stores of other programs
 * (convert/source/source_name.h) is packed: a file from an earlier call is used again as long as
 * names, sizes and times of the files in the folder, of the GGUF file, or of ollama's manifest stay
 * the same; otherwise the target and its built-in head are packed, as sp_create does it without
 * further options, after a note to stderr, and replace earlier files of the checkpoint. A command
 * calls it where it opens the file, after its options are checked, since packing may take minutes.
 * `type`: that of the target's weights, one of sp_cmd_types, each with a file of its own; NULL: as
 * stored. `command`: for the note. SP_E_USAGE: a type of what is packed already. SP_E_INPUT: the
 * folder has no config.json, or the file is no model, such as a Modelfile; SP_E_IO or SP_E_INPUT:
 * neither a file nor a model has this name. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_find(char **path, const char *given,
                                                       const char *type, const char *command,
                                                       struct sp_err *err);
/* Writes the outline (convert/create/create.h) of the packed file that sp_packed_checkpoint_find
 * would make to a temporary file. No weight is read, and nothing is kept. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_outline(struct sp_temp_file *out,
                                                          const char *given, const char *command,
                                                          struct sp_err *err);
/* Reads and checks every weight of a model that is not packed, as packing does, and writes nothing.
 * *report is that of sp_create. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_read(struct sp_create_report *report,
                                                       const char *given, const char *command,
                                                       struct sp_err *err);
/* Refuses what sp_packed_checkpoint_find refuses without packing anything. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_check_name(const char *given, struct sp_err *err);
/* As sp_packed_checkpoint_find, but the path of a folder, or of any file but a Modelfile and
 * weights, is copied, too: for commands that read only a checkpoint's tokenizer or template. */
SP_MUST_CHECK enum sp_status sp_packed_checkpoint_or_folder(char **path, const char *given,
                                                            const char *command,
                                                            struct sp_err *err);

#endif
