/* Sentences that a user should see but that stop nothing, collected into one text, a line each. */
#ifndef SP_FORMAT_BASE_WARNINGS_H
#define SP_FORMAT_BASE_WARNINGS_H

#include "format/base/err.h"

/* Appends a sentence to *warnings, which is NULL or owned by the caller (free). Does nothing if
 * `warnings` is NULL. */
SP_MUST_CHECK enum sp_status sp_warn(char **warnings, struct sp_err *err, const char *format, ...)
    SP_PRINTF(3, 4);

#endif
