#include "tests/support/unit_test.h"

static struct sp_err reported;
struct sp_err *const why = &reported;

void unit_check_ok(int status, const char *what, const char *file, int line)
{
    struct sp_err err = reported;

    reported = (struct sp_err){0};
    if (status == SP_OK) return;
    print_error("%s: status %d, \"%s\"\n", what, status, err.text);
    _fail(file, line);
}

void unit_check_failure(int found, int status, const char *text, bool whole, const char *file,
                        int line)
{
    struct sp_err err = reported;

    reported = (struct sp_err){0};
    if (found == status && (whole ? strcmp(err.text, text) == 0 : strstr(err.text, text) != NULL))
        return;
    print_error("status %d, \"%s\", expected %d, \"%s\"\n", found, err.text, status, text);
    _fail(file, line);
}
