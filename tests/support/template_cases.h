/* Compiles and renders templates, and runs files of template cases with expected results, one JSON
 * object per line. */
#ifndef SP_TESTS_SUPPORT_TEMPLATE_CASES_H
#define SP_TESTS_SUPPORT_TEMPLATE_CASES_H

#include "runtime/template/template.h"

#include <stdbool.h>

/* Return a compiled template, and what it makes of the input; kept. Refusals end the test. */
struct sp_template *keep_template(const char *text, enum sp_template_language language);
char *keep_rendered(const struct sp_template *t, const struct sp_template_input *in);

struct template_cases {
    const char *lines;     /* path of the file: {"template", "rendered" or "error", ...} a line */
    const char *variables; /* path of the variables of all cases; NULL: each line has its messages,
                              tools and so on */
    const char *folder;    /* of the file that "template" names; NULL: "template" is the text */
    const char *suffix;    /* suffix of the template files */
    enum sp_template_language language;
};

/* Renders every line with the clock at noon of 2025-06-15. Fails the test if a result differs from
 * the expected one, naming the first few, or if there are fewer than `at_least` lines. Skips the
 * test if the file does not exist and at_least is 0. */
void template_cases_check(const struct template_cases *what, size_t at_least);

/* Compiles and renders a template with at most `memory` bytes and `work` steps; the message of the
 * step that failed. */
typedef enum sp_status message_fn(struct sp_err *err, const char *text, size_t memory,
                                  uint64_t work);
/* Compares the message, and the status if it is given, of each of the n lines of a file:
 * {"template", "message", "status"}. */
void template_refusals_check(const char *path, message_fn *message_of, size_t n);

#endif
