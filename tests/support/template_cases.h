/* Files of templates and what they must make: one JSON object a line. */
#ifndef SP_TESTS_SUPPORT_TEMPLATE_CASES_H
#define SP_TESTS_SUPPORT_TEMPLATE_CASES_H

#include "runtime/template/template.h"

#include <stdbool.h>

struct template_cases {
    const char *lines;     /* path of the file: {"template", "rendered" or "error", ...} a line */
    const char *variables; /* path of all variables; NULL: messages, tools, ... stand in the line */
    const char *folder;    /* "template" names a file here; NULL: it is the text itself */
    const char *suffix;    /* of such a file */
    enum sp_template_language language;
};

/* Renders every line at noon of 2025-06-15 and fails the test where one comes out otherwise than
 * the line says, naming the first few, or where there are not `at_least` lines. No such file, and
 * at_least 0: the test is skipped. */
void template_cases_check(const struct template_cases *what, size_t at_least);

#endif
