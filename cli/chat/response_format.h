/* Structured output: --format, and response formats of requests. */
#ifndef SP_CLI_CHAT_RESPONSE_FORMAT_H
#define SP_CLI_CHAT_RESPONSE_FORMAT_H

#include "cli/base/opt.h"
#include "format/json/json.h"
#include "runtime/spectool.h"

#define SP_OPT_FORMAT(type, member)                                                                \
    {                                                                                              \
        SP_OPT_STRING, 0, "format", NULL, "FORMAT", offsetof(type, member),                        \
            .path = true,                                                                          \
            .help = "Structured output: json (any object), a JSON schema (text that "              \
                    "begins with {), or a file with a JSON schema or a GBNF grammar"               \
    }

/* *out = the grammar of a --format value, owned by the caller; NULL if `format` is NULL. Errors
 * name the file, or --format if it is the schema itself. */
SP_MUST_CHECK enum sp_status sp_response_format_read(struct sp_grammar **out, const char *format,
                                                     struct sp_err *err);

/* Make a grammar of a request's member named `key`: of a JSON schema, and of a format, which is
 * "json" or a schema. *relaxed = why the schema, which cannot be enforced, is relaxed; relaxed
 * NULL: it is refused. */
SP_MUST_CHECK enum sp_status sp_response_format_of_schema(struct sp_grammar **out,
                                                          const struct sp_json *schema,
                                                          const char *key, struct sp_err *relaxed,
                                                          struct sp_err *err);
SP_MUST_CHECK enum sp_status sp_response_format_of_json(struct sp_grammar **out,
                                                        const struct sp_json *format,
                                                        struct sp_err *relaxed, struct sp_err *err);

#endif
