/* Reads lines from a terminal, with editing and a history. Only its source uses libedit. */
#ifndef SP_CLI_CHAT_LINE_EDIT_H
#define SP_CLI_CHAT_LINE_EDIT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sp_line_edit; /* opaque */

/* Opens the editor. `path`: the file that stores the history; NULL: none. */
SP_MUST_CHECK enum sp_status sp_line_edit_open(struct sp_line_edit **out, const char *path,
                                               struct sp_err *err);
void sp_line_edit_close(struct sp_line_edit *edit); /* accepts NULL; writes the history */

/* Sets the texts to which Tab completes the start of a line: [n], borrowed until close, ASCII. */
void sp_line_edit_complete(struct sp_line_edit *edit, const char *const *texts, size_t n);

/* Returns the next line without its line end, borrowed until the next call; NULL at the end of
 * input or when a signal ends the program. An interrupt returns an empty line. */
const char *sp_line_edit_read(struct sp_line_edit *edit, const char *prompt);
/* True if an interrupt ended the last line. */
bool sp_line_edit_interrupted(const struct sp_line_edit *edit);
/* True if an interrupt ended the last line before anything was typed. */
bool sp_line_edit_interrupted_empty(const struct sp_line_edit *edit);

/* Writes the name and version of the library that is used, for `spectool --version --verbose`. */
void sp_line_edit_library(char *text, size_t size);

#endif
