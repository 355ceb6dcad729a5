/* Reads the response format of a request from the members of each API. */
#include "cli/serve/request/serve_request.h"
#include "cli/chat/response_format.h"

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

enum sp_status sp_serve_openai_read_grammar(const struct sp_serve_member *m, struct sp_err *err)
{
    const char *key = m->field->key;
    struct sp_grammar *grammar = NULL;
    size_t len;
    const char *text = sp_json_to_string(m->value, &len);
    enum sp_status st;

    if (text == NULL) return sp_fail(err, SP_E_INPUT, "%s: expected a string", key);
    if (len == 0) return SP_OK;
    if ((st = sp_grammar_of_gbnf(&grammar, text, len, err))) {
        sp_context(err, "%s", key);
        return st;
    }
    return set_grammar(m->request, grammar, key, err);
}

/* Reads {"type": "text"}, {"type": "json_object"}, optionally with llama-server's "schema", or
 * {"type": "json_schema"}, whose schema is in the member `inner` or, if it is NULL, in the format.
 * `key`: of the format, for messages. */
static enum sp_status read_format(struct sp_serve_request *request, const struct sp_json *format,
                                  const char *key, const char *inner, bool strict,
                                  struct sp_err *err)
{
    const struct sp_json *holder = inner ? sp_json_get(format, inner) : format, *schema;
    const char *type = sp_json_get_text(format, "type");
    char schema_key[64];
    enum sp_status st;

    if ((st = sp_json_get_bool(holder, "strict", &strict, err))) {
        sp_context(err, "%s", key);
        return st;
    }
    snprintf(schema_key, sizeof schema_key, "%s.schema", key);
    if (type && strcmp(type, "text") == 0) return SP_OK;
    if (type && strcmp(type, "json_object") == 0) {
        schema = sp_json_get(format, "schema");
        return schema ? set_schema(request, schema, schema_key, strict, err)
                      : set_json(request, key, err);
    }
    if (type == NULL || strcmp(type, "json_schema") != 0)
        return sp_fail(err, SP_E_INPUT, "%s.type: expected text, json_object or json_schema", key);
    if (inner) snprintf(schema_key, sizeof schema_key, "%s.%s.schema", key, inner);
    if ((schema = sp_json_get(holder, "schema")) == NULL)
        return sp_fail(err, SP_E_INPUT, "%s is missing", schema_key);
    return set_schema(request, schema, schema_key, strict, err);
}

enum sp_status sp_serve_responses_read_response_format(const struct sp_serve_member *m,
                                                       struct sp_err *err)
{
    const struct sp_json *format = sp_json_get(m->value, "format");

    return format ? read_format(m->request, format, "text.format", NULL, false, err) : SP_OK;
}

enum sp_status sp_serve_openai_read_response_format(const struct sp_serve_member *m,
                                                    struct sp_err *err)
{
    return read_format(m->request, m->value, m->field->key, "json_schema", false, err);
}

enum sp_status sp_serve_openai_read_json_schema(const struct sp_serve_member *m, struct sp_err *err)
{
    if (sp_json_kind(m->value) == SP_JSON_OBJECT && sp_json_len(m->value) == 0) return SP_OK;
    return set_schema(m->request, m->value, m->field->key, false, err);
}

enum sp_status sp_serve_ollama_read_response_format(const struct sp_serve_member *m,
                                                    struct sp_err *err)
{
    const char *text = sp_json_to_string(m->value, NULL);
    struct sp_grammar *grammar = NULL;
    struct sp_err relaxed = {0};
    enum sp_status st;

    if (text && *text == '\0') return SP_OK;
    if ((st = sp_response_format_of_json(&grammar, m->value, &relaxed, err))) return st;
    note_relaxed(m->request, &relaxed);
    return set_grammar(m->request, grammar, m->field->key, err);
}

/* Reads output_config.format, or output_format as the API's first releases name it. */
enum sp_status sp_serve_anthropic_read_response_format(const struct sp_serve_member *m,
                                                       struct sp_err *err)
{
    const struct sp_json *format = sp_json_get(m->value, "format");

    if (strcmp(m->field->key, "output_format") == 0)
        return read_format(m->request, m->value, m->field->key, NULL, true, err);
    return format ? read_format(m->request, format, "output_config.format", NULL, true, err)
                  : SP_OK;
}
