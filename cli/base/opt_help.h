/* Prints the text of --help. */
#ifndef SP_CLI_BASE_OPT_HELP_H
#define SP_CLI_BASE_OPT_HELP_H

#include "cli/base/opt.h"

/* Prints the help of a command, wrapped to `width` columns. */
void sp_opt_print_help(FILE *out, const struct sp_command *command, int width);

#endif
