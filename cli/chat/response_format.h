/* What form answers are held to: --format, and members of requests. */
#ifndef SP_CLI_CHAT_RESPONSE_FORMAT_H
#define SP_CLI_CHAT_RESPONSE_FORMAT_H

#include "cli/base/opt.h"
#include "format/base/json.h"
#include "runtime/spectool.h"

#define SP_OPT_FORMAT(type, member)                                                                \
    {                                                                                              \
        SP_OPT_STRING, 0, "format", NULL, "FORM", offsetof(type, member),                          \
            .path = true,                                                                          \
            .help = "Structured output: json (any object), or a file with a "                      \
                    "JSON schema or a GBNF grammar"                                                \
    }

/* *out = the grammar of a form as it was given, owned by the caller; NULL where `form` is. Errors
 * name the file. */
SP_MUST_CHECK enum sp_status sp_response_format_read(struct sp_grammar **out, const char *form,
                                                     struct sp_err *err);

/* The same for one in a request's member called `key`, a JSON schema; and in one called
 * format: "json", or a schema. */
SP_MUST_CHECK enum sp_status sp_response_format_of_schema(struct sp_grammar **out,
                                                          const struct sp_json *schema,
                                                          const char *key, struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_response_format_of_json(struct sp_grammar **out,
                                                        const struct sp_json *format,
                                                        struct sp_err *err);

#endif
