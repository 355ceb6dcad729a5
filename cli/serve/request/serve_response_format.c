/* Reads the response format of a request from the members of each API. */
#include "cli/serve/request/serve_request.h"
#include "cli/chat/request_settings.h"

#include <string.h>

/* Sets the grammar of the request, which may have only one. */
static enum sp_status set_grammar(struct sp_serve_request *request, struct sp_grammar *grammar,
                                  const char *key, struct sp_err *err)
{
    if (request->grammar == NULL) {
        request->grammar = grammar;
        return SP_OK;
    }
    sp_grammar_close(grammar);
    return sp_fail(err, SP_E_INPUT, "%s: the request has another response format already", key);
}

static enum sp_status set_json(struct sp_serve_request *request, const char *key,
                               struct sp_err *err)
{
    struct sp_grammar *grammar = NULL;
    enum sp_status st = sp_grammar_of_json(&grammar, err);

    return st ? st : set_grammar(request, grammar, key, err);
}

/* Says why a schema is relaxed, if it is. */
static void note_relaxed(struct sp_serve_request *request, const struct sp_err *relaxed)
{
    if (relaxed->status) sp_serve_request_change(request, "relaxed %.200s", relaxed->text);
}

/* A schema that cannot be enforced is relaxed, unless it must be strict. */
static enum sp_status set_schema(struct sp_serve_request *request, const struct sp_json *schema,
                                 const char *key, bool strict, struct sp_err *err)
{
    struct sp_grammar *grammar = NULL;
    struct sp_err relaxed = {0};
    enum sp_status st =
        sp_response_format_of_schema(&grammar, schema, key, strict ? NULL : &relaxed, err);

    if (st) return st;
    note_relaxed(request, &relaxed);
    return set_grammar(request, grammar, key, err);
}

static enum sp_status set_gbnf(struct sp_serve_request *request, const struct sp_json *gbnf,
                               const char *key, struct sp_err *err)
{
    struct sp_grammar *grammar = NULL;
    size_t len;
    const char *text = sp_json_to_string(gbnf, &len);
    enum sp_status st;

    if (text == NULL) return sp_fail(err, SP_E_INPUT, "%s: expected a string", key);
    if (len == 0) return SP_OK;
    if ((st = sp_grammar_of_gbnf(&grammar, text, len, err))) {
        sp_context(err, "%s", key);
        return st;
    }
    return set_grammar(request, grammar, key, err);
}

/* The names of a response format's members, for error messages. */
struct format_keys {
    const char *format, *schema, *wrapped; /* wrapped: name of the schema inside type json_schema */
    bool always_strict;                    /* the API has no member `strict` */
};

/* Reads {"type": "text"}, {"type": "json_object"}, optionally with llama-server's "schema", or
 * {"type": "json_schema"}, whose schema is in `inner`. */
static enum sp_status read_format(struct sp_serve_request *request, const struct sp_json *format,
                                  const struct sp_json *inner, const struct format_keys *keys,
                                  struct sp_err *err)
{
    const char *type = sp_json_to_string(sp_json_get(format, "type"), NULL);
    bool strict = keys->always_strict;
    enum sp_status st;

    if ((st = sp_json_get_bool(inner, "strict", &strict, err))) {
        sp_context(err, "%s", keys->format);
        return st;
    }
    if (type && strcmp(type, "text") == 0) return SP_OK;
    if (type && strcmp(type, "json_object") == 0) {
        const struct sp_json *schema = sp_json_get(format, "schema");
        return schema ? set_schema(request, schema, keys->schema, strict, err)
                      : set_json(request, keys->format, err);
    }
    if (type == NULL || strcmp(type, "json_schema") != 0) {
        return sp_fail(err, SP_E_INPUT, "%s.type: expected text, json_object or json_schema",
                       keys->format);
    }
    if (sp_json_get(inner, "schema") == NULL)
        return sp_fail(err, SP_E_INPUT, "%s is missing", keys->wrapped);
    return set_schema(request, sp_json_get(inner, "schema"), keys->wrapped, strict, err);
}

enum sp_status sp_serve_responses_read_response_format(struct sp_serve_request *request,
                                                       struct sp_err *err)
{
    static const struct format_keys keys = {"text.format", "text.format.schema",
                                            "text.format.schema", false};
    const struct sp_json *format = sp_json_get(sp_json_get(request->body, "text"), "format");

    return format ? read_format(request, format, format, &keys, err) : SP_OK;
}

enum sp_status sp_serve_openai_read_response_format(struct sp_serve_request *request,
                                                    struct sp_err *err)
{
    static const struct format_keys keys = {"response_format", "response_format.schema",
                                            "response_format.json_schema.schema", false};
    const struct sp_json *format = sp_json_get(request->body, "response_format");
    const struct sp_json *gbnf = sp_json_get(request->body, "grammar");
    const struct sp_json *schema = sp_json_get(request->body, "json_schema");
    enum sp_status st;

    if (format &&
        (st = read_format(request, format, sp_json_get(format, "json_schema"), &keys, err)))
        return st;
    if (gbnf && (st = set_gbnf(request, gbnf, "grammar", err))) return st;
    if (schema == NULL) return SP_OK;
    if (sp_json_kind(schema) == SP_JSON_OBJECT && sp_json_len(schema) == 0) return SP_OK;
    return set_schema(request, schema, "json_schema", false, err);
}

enum sp_status sp_serve_ollama_read_response_format(struct sp_serve_request *request,
                                                    struct sp_err *err)
{
    const struct sp_json *format = sp_json_get(request->body, "format");
    const char *text = sp_json_to_string(format, NULL);
    struct sp_grammar *grammar = NULL;
    struct sp_err relaxed = {0};
    enum sp_status st;

    if (format == NULL || (text && *text == '\0')) return SP_OK;
    if ((st = sp_response_format_of_json(&grammar, format, &relaxed, err))) return st;
    note_relaxed(request, &relaxed);
    return set_grammar(request, grammar, "format", err);
}

/* Reads output_config.format, or output_format as the API's first releases name it. */
enum sp_status sp_serve_anthropic_read_response_format(struct sp_serve_request *request,
                                                       struct sp_err *err)
{
    static const struct format_keys keys = {"output_config.format", "output_config.format.schema",
                                            "output_config.format.schema", true},
                                    old_keys = {"output_format", "output_format.schema",
                                                "output_format.schema", true};
    const struct sp_json *format =
        sp_json_get(sp_json_get(request->body, "output_config"), "format");
    const struct sp_json *old = sp_json_get(request->body, "output_format");
    enum sp_status st = SP_OK;

    if (format) st = read_format(request, format, format, &keys, err);
    return st || old == NULL ? st : read_format(request, old, old, &old_keys, err);
}
