/* Reads standard input line by line and watches whether standard output is still read. */
#ifndef SP_CLI_BASE_LINES_H
#define SP_CLI_BASE_LINES_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Calls `line` for every line of standard input with its number, from 1, and without trailing
 * whitespace; lines of whitespace are skipped. Errors are prefixed with the line's number; a line
 * of more than 64 MiB is SP_E_INPUT. `stop` (NULL: never) ends the loop without an error; it is
 * called before every line, a few times a second while there is no input, and after every signal.
 * If the reader of standard output has closed it the program ends as after a failed write: by
 * SIGPIPE or, if that is ignored, with SP_E_IO. `what`: see sp_input_announce. */
SP_MUST_CHECK enum sp_status
sp_each_line(enum sp_status (*line)(void *context, size_t number, const char *text, size_t size,
                                    struct sp_err *err),
             bool (*stop)(void *context), void *context, const char *what, struct sp_err *err);

#endif
