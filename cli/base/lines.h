/* Standard input, line by line, while somebody listens to standard output. */
#ifndef SP_CLI_BASE_LINES_H
#define SP_CLI_BASE_LINES_H

#include "format/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Calls `line` for every line of standard input, without the blanks and the line end that close it;
 * blank lines are skipped. Errors are led by the line's number. `enough` (NULL: never) ends it
 * without an error; it is asked before every line and, while input is silent, a few times a second,
 * and after every signal. A reader that has left standard output ends the program as a write would:
 * by SIGPIPE, or, where that is ignored, with SP_E_IO. */
SP_MUST_CHECK enum sp_status sp_each_line(enum sp_status (*line)(void *context, const char *text,
                                                                 size_t size, struct sp_err *err),
                                          bool (*enough)(void *context), void *context,
                                          struct sp_err *err);

#endif
