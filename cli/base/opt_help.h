/* Prints the text of --help. */
#ifndef SP_CLI_BASE_OPT_HELP_H
#define SP_CLI_BASE_OPT_HELP_H

#include "cli/base/opt.h"

/* What an operand FILE may be where a command takes a model. */
#define SP_OPT_MODEL_HELP                                                                          \
    "FILE is a packed file, or a checkpoint folder, a GGUF file or the name of a stored model "    \
    "(ORG/NAME, NAME:TAG), which is packed once into the cache folder."

/* Prints the help of a command. */
void sp_opt_print_help(FILE *out, const struct sp_command *command);

/* Returns the columns of a help text on `out`. */
int sp_help_width(FILE *out);
/* Prints words from `column` on, breaks lines before `width` and indents the following lines.
 * Returns the column after the text. */
int sp_help_put_words(FILE *out, const char *text, int column, int indent, int width);
/* Prints paragraphs, which an empty line separates, and a line end. */
void sp_help_put_paragraphs(FILE *out, const char *text, int width);

#endif
