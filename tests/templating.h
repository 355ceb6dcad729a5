/* Files of templates and what they must make: one JSON object a line. */
#ifndef SP_TESTS_TEMPLATING_H
#define SP_TESTS_TEMPLATING_H

#include "runtime/template.h"

#include <stdbool.h>

struct templating {
    const char *lines;     /* path of the file: {"template", "rendered" or "error", ...} a line */
    const char *variables; /* path of all variables; NULL: messages, tools, ... stand in the line */
    const char *folder;    /* "template" names a file here; NULL: it is the text itself */
    const char *suffix;    /* of such a file */
    enum sp_template_language language;
};

/* Renders every line at noon of 2025-06-15 and returns how many came out otherwise than the line
 * says, naming the first few; *n = the number of lines, 0 where there is no such file. */
size_t templating_failures(size_t *n, const struct templating *what);

#endif
