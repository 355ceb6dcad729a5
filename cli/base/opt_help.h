/* Prints the text of --help. */
#ifndef SP_CLI_BASE_OPT_HELP_H
#define SP_CLI_BASE_OPT_HELP_H

#include "cli/base/opt.h"

/* What an operand FILE may be where a command takes a model. */
#define SP_OPT_MODEL_HELP                                                                          \
    "FILE is a packed file, or a checkpoint folder, a GGUF file or the name of a stored model "    \
    "(ORG/NAME, NAME:TAG), which is packed once into the cache folder."

/* Prints the help of a command, wrapped to `width` columns. */
void sp_opt_print_help(FILE *out, const struct sp_command *command, int width);

#endif
