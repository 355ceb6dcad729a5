/* Lines from a terminal, with editing and a history. The only user of libedit. */
#ifndef SP_CLI_CHAT_LINE_EDIT_H
#define SP_CLI_CHAT_LINE_EDIT_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sp_line_edit; /* opaque */

/* `path`: of the file that keeps the lines between sessions, or NULL. */
SP_MUST_CHECK enum sp_status sp_line_edit_open(struct sp_line_edit **out, const char *path,
                                               struct sp_err *err);
void sp_line_edit_close(struct sp_line_edit *edit); /* NULL is fine; writes the history */

/* The next line without its end, borrowed until the next call; NULL at the end of input, or when
 * a signal ends the program. An interrupt gives an empty line. */
const char *sp_line_edit_read(struct sp_line_edit *edit, const char *prompt);
/* Did an interrupt end the last line? */
bool sp_line_edit_interrupted(const struct sp_line_edit *edit);

#endif
