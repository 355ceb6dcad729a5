/* --format: what form answers are held to. */
#ifndef SP_CLI_FORM_H
#define SP_CLI_FORM_H

#include "cli/opt.h"
#include "runtime/spectool.h"

#define SP_OPT_FORMAT(type, member)                                                                \
    {                                                                                              \
        SP_OPT_STRING, 0, "format", NULL, "FORM", offsetof(type, member),                          \
            .path = true,                                                                          \
            .help =                                                                                \
                "Hold the answer to a form: json (an object), or a file with a JSON schema or "    \
                "a GBNF grammar"                                                                   \
    }

/* *out = the grammar of a form as it was given, owned by the caller; NULL where `form` is. Errors
 * name the file. */
SP_MUST_CHECK enum sp_status sp_form_read(struct sp_grammar **out, const char *form,
                                          struct sp_err *err);

#endif
