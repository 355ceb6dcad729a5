/* Reads settings from the members of a JSON object: a request of an API or a line of a batch.
 *
 * Errors are SP_E_INPUT and name the member. */
#ifndef SP_CLI_CHAT_REQUEST_SETTINGS_H
#define SP_CLI_CHAT_REQUEST_SETTINGS_H

#include "cli/base/settings.h"
#include "format/json/json.h"
#include "cli/base/opt.h"
#include "runtime/spectool.h"

/* SP_E_INPUT: KEY is KIND OF VALUE (NULL: missing), expected EXPECTED. */
enum sp_status sp_request_wrong(const char *key, const struct sp_json *value, const char *expected,
                                struct sp_err *err);

/* Sets the Modelfile's parameter from the member `key`, if there is one, with its range and
 * messages; 40.0 is the integer 40. */
SP_MUST_CHECK enum sp_status sp_request_settings_read(struct sp_settings *settings,
                                                      const struct sp_json *object, const char *key,
                                                      const char *parameter, struct sp_err *err);

/* Sets the members of `object` that have the name of a setting of this kind. *key: of a failure. */
SP_MUST_CHECK enum sp_status sp_request_settings_read_named(struct sp_settings *settings,
                                                            const struct sp_json *object,
                                                            enum sp_setting_kind kind,
                                                            const char **key, struct sp_err *err);

/* Adds a text, or an array of texts, to the stop texts; stop NULL adds none. */
SP_MUST_CHECK enum sp_status sp_request_settings_read_stops(struct sp_settings *settings,
                                                            const struct sp_json *stop,
                                                            struct sp_err *err);

/* Replaces the sequence breakers of DRY by the object's "dry_sequence_breakers", if it has any. */
SP_MUST_CHECK enum sp_status sp_request_settings_read_breakers(struct sp_settings *settings,
                                                               const struct sp_json *object,
                                                               struct sp_err *err);

/* Adds {"ID": bias, ...} to the logit biases; object NULL adds none. */
SP_MUST_CHECK enum sp_status sp_request_settings_read_biases(struct sp_settings *settings,
                                                             const struct sp_json *object,
                                                             struct sp_err *err);

/* ---- structured output: --format, and response formats of requests ---- */

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
