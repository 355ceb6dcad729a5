/* The values that ollama passes to a template, and their text in encoding/json.
 *
 * Messages and tools are structs in ollama: a field that the JSON lacks has its zero value, and a
 * field that ollama does not define is dropped. Each struct is one table: the field's name in Go,
 * its name in JSON, and the function that makes its value. */
#include "runtime/template/go/gotemplate_exec.h"
#include "runtime/template/value/value.h"

#include <math.h>
#include <string.h>

enum field_type {
    F_TEXT,
    F_INT,
    F_ANY,   /* interface{} */
    F_LIST,  /* []interface{} */
    F_TYPES, /* api.PropertyType: one name or several */
    F_ARGUMENTS,
    F_FUNCTION,
    F_PARAMETERS,
    F_PROPERTIES,
    F_PROPERTY_LIST,
    F_CALLS,
    F_CALL,
};

struct field {
    const char *go, *json;
    uint8_t type;    /* enum field_type */
    bool omit_empty; /* omitempty: left out of JSON if empty */
};

static const struct field message_fields[] = {
    {"Role", "role", F_TEXT, false},
    {"Content", "content", F_TEXT, false},
    {"Thinking", "thinking", F_TEXT, true},
    {"Images", "images", F_LIST, true},
    {"ToolCalls", "tool_calls", F_CALLS, true},
    {"ToolName", "tool_name", F_TEXT, true},
    {"ToolCallID", "tool_call_id", F_TEXT, true},
    {NULL, NULL, 0, false},
};

static const struct field call_fields[] = {
    {"ID", "id", F_TEXT, true},
    {"Function", "function", F_CALL, false},
    {NULL, NULL, 0, false},
};

static const struct field call_function_fields[] = {
    {"Index", "index", F_INT, false},
    {"Name", "name", F_TEXT, false},
    {"Arguments", "arguments", F_ARGUMENTS, false},
    {NULL, NULL, 0, false},
};

static const struct field tool_fields[] = {
    {"Type", "type", F_TEXT, false},
    {"Items", "items", F_ANY, true},
    {"Function", "function", F_FUNCTION, false},
    {NULL, NULL, 0, false},
};

static const struct field function_fields[] = {
    {"Name", "name", F_TEXT, false},
    {"Description", "description", F_TEXT, false},
    {"Parameters", "parameters", F_PARAMETERS, false},
    {NULL, NULL, 0, false},
};

static const struct field parameters_fields[] = {
    {"Type", "type", F_TEXT, false},
    {"Defs", "$defs", F_ANY, true},
    {"Items", "items", F_ANY, true},
    {"Required", "required", F_LIST, true},
    {"Properties", "properties", F_PROPERTIES, false},
    {NULL, NULL, 0, false},
};

static const struct field property_fields[] = {
    {"AnyOf", "anyOf", F_PROPERTY_LIST, true},
    {"Type", "type", F_TYPES, true},
    {"Items", "items", F_ANY, true},
    {"Description", "description", F_TEXT, true},
    {"Enum", "enum", F_LIST, true},
    {"Properties", "properties", F_PROPERTIES, true},
    {NULL, NULL, 0, false},
};

static const struct field *const tables[] = {
    message_fields,  call_fields,       call_function_fields, tool_fields,
    function_fields, parameters_fields, property_fields,
};

static enum sp_status make_struct(struct sp_heap *heap, struct sp_value *out,
                                  const struct field *fields, const struct sp_json *json,
                                  int depth);

/* Turns the integers of a value into floats, as encoding/json decodes every number. */
static enum sp_status floats_only(struct sp_heap *heap, struct sp_value *v, int depth)
{
    enum sp_status st = SP_OK;

    if (depth > SP_VALUE_DEPTH)
        return sp_fail(heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    if (v->kind == SP_V_INT || v->kind == SP_V_BIG) *v = sp_value_float(sp_value_to_double(*v));
    for (size_t i = 0; v->kind == SP_V_LIST && i < v->list->n && !st; i++)
        st = floats_only(heap, &v->list->at[i], depth + 1);
    for (size_t i = 0; v->kind == SP_V_DICT && i < v->dict->n && !st; i++)
        st = floats_only(heap, &v->dict->at[i].value, depth + 1);
    return st;
}

enum sp_status sp_go_value(struct sp_heap *heap, struct sp_value *out, const struct sp_json *json)
{
    enum sp_status st = sp_value_from_json(heap, out, json);

    return st ? st : floats_only(heap, out, 0);
}

static enum sp_status wrong(struct sp_heap *heap, const char *wanted, const struct sp_json *json)
{
    return sp_fail(heap->err, SP_E_INPUT, "%s, expected %s", sp_json_kind_name(sp_json_kind(json)),
                   wanted);
}

/* Makes a text from a string, or from the concatenated parts of a content if all are text. */
static enum sp_status make_text(struct sp_heap *heap, struct sp_value *out,
                                const struct sp_json *json)
{
    enum sp_status st;
    struct sp_builder b = {.heap = heap};
    const char *text;
    size_t len;

    *out = sp_value_name("");
    if (json == NULL) return SP_OK;
    text = sp_json_to_string(json, &len);
    if (text != NULL) return sp_value_copy_text(heap, out, text, len);
    if (sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "a string", json);
    for (size_t i = 0; i < sp_json_len(json); i++) {
        text = sp_json_to_string(sp_json_get(sp_json_at(json, i), "text"), &len);
        if (text == NULL) return sp_fail(heap->err, SP_E_UNSUPPORTED, "part %zu is not text", i);
        if ((st = sp_build(&b, text, len))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

static enum sp_status make_list(struct sp_heap *heap, struct sp_value *out,
                                const struct sp_json *json)
{
    if (json == NULL) return sp_value_list(heap, out, SP_SHAPE_PLAIN, 0);
    if (sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "an array", json);
    return sp_go_value(heap, out, json);
}

static enum sp_status make_types(struct sp_heap *heap, struct sp_value *out,
                                 const struct sp_json *json)
{
    enum sp_status st;
    struct sp_value name;

    if (json != NULL && sp_json_kind(json) == SP_JSON_STRING) {
        if ((st = sp_value_list(heap, out, SP_SHAPE_TYPE, 1))) return st;
        if ((st = sp_go_value(heap, &name, json))) return st;
        return sp_list_push(heap, out->list, name);
    }
    if ((st = make_list(heap, out, json))) return st;
    out->shape = SP_SHAPE_TYPE;
    return SP_OK;
}

/* Makes an object, also from the JSON text of one, as OpenAI's API has it. */
static enum sp_status make_arguments(struct sp_heap *heap, struct sp_value *out,
                                     const struct sp_json *json)
{
    enum sp_status st;
    struct sp_json *parsed = NULL;
    const char *text;
    size_t len;

    if (json == NULL) {
        st = sp_value_dict(heap, out);
    } else if ((text = sp_json_to_string(json, &len)) != NULL) {
        st = sp_json_parse_within(&parsed, text, len, SP_JSON_LENIENT, SP_JSON_SETTINGS, heap->err);
        if (!st && sp_json_kind(parsed) != SP_JSON_OBJECT) st = wrong(heap, "an object", parsed);
        if (!st) st = sp_go_value(heap, out, parsed);
        sp_json_free(parsed);
    } else if (sp_json_kind(json) != SP_JSON_OBJECT) {
        return wrong(heap, "an object", json);
    } else {
        st = sp_go_value(heap, out, json);
    }
    if (!st) out->shape = SP_SHAPE_JSON;
    return st;
}

static enum sp_status make_properties(struct sp_heap *heap, struct sp_value *out,
                                      const struct sp_json *json, int depth)
{
    enum sp_status st;
    struct sp_json_iter it = {0};
    struct sp_value name, property;

    if ((st = sp_value_dict(heap, out))) return st;
    out->shape = SP_SHAPE_JSON;
    if (json == NULL) return SP_OK;
    if (sp_json_kind(json) != SP_JSON_OBJECT) return wrong(heap, "an object", json);
    while (!st && sp_json_next(json, &it)) {
        st = sp_value_copy_text(heap, &name, it.key, strlen(it.key));
        if (!st) st = make_struct(heap, &property, property_fields, it.value, depth + 1);
        if (!st) st = sp_dict_set(heap, out->dict, name, property);
    }
    return st;
}

static enum sp_status make_structs(struct sp_heap *heap, struct sp_value *out,
                                   const struct field *fields, const struct sp_json *json,
                                   int depth)
{
    enum sp_status st;
    struct sp_value item;

    if (json != NULL && sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "an array", json);
    st = sp_value_list(heap, out, SP_SHAPE_PLAIN, sp_json_len(json));
    for (size_t i = 0; i < sp_json_len(json) && !st; i++) {
        st = make_struct(heap, &item, fields, sp_json_at(json, i), depth + 1);
        if (!st) st = sp_list_push(heap, out->list, item);
    }
    return st;
}

static enum sp_status make_field(struct sp_heap *heap, struct sp_value *out, const struct field *f,
                                 const struct sp_json *json, int depth)
{
    double d = 0;

    switch (f->type) {
    case F_TEXT:
        return make_text(heap, out, json);
    case F_INT:
        if (json != NULL && !sp_json_to_double(json, &d)) return wrong(heap, "an integer", json);
        *out = sp_value_int(d > -1e9 && d < 1e9 ? (int64_t)d : 0);
        return SP_OK;
    case F_LIST:
        return make_list(heap, out, json);
    case F_TYPES:
        return make_types(heap, out, json);
    case F_ARGUMENTS:
        return make_arguments(heap, out, json);
    case F_FUNCTION:
        return make_struct(heap, out, function_fields, json, depth + 1);
    case F_PARAMETERS:
        return make_struct(heap, out, parameters_fields, json, depth + 1);
    case F_CALL:
        return make_struct(heap, out, call_function_fields, json, depth + 1);
    case F_PROPERTIES:
        return make_properties(heap, out, json, depth);
    case F_PROPERTY_LIST:
        return make_structs(heap, out, property_fields, json, depth);
    case F_CALLS:
        return make_structs(heap, out, call_fields, json, depth);
    default:
        return sp_go_value(heap, out, json);
    }
}

static enum sp_status make_struct(struct sp_heap *heap, struct sp_value *out,
                                  const struct field *fields, const struct sp_json *json, int depth)
{
    enum sp_status st;
    struct sp_value value;

    if (depth > SP_VALUE_DEPTH)
        return sp_fail(heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    if (json != NULL && sp_json_kind(json) != SP_JSON_OBJECT) {
        return sp_fail(heap->err, SP_E_INPUT, "%s where an object with %s, %s, ... is expected",
                       sp_json_kind_name(sp_json_kind(json)), fields[0].json, fields[1].json);
    }
    if ((st = sp_value_dict(heap, out))) return st;
    out->shape = fields == tool_fields ? SP_SHAPE_JSON_STRUCT : SP_SHAPE_STRUCT;
    for (const struct field *f = fields; f->go != NULL && !st; f++) {
        const struct sp_json *member = sp_json_get(json, f->go);
        if (member == NULL) member = sp_json_get(json, f->json);
        if ((st = make_field(heap, &value, f, member, depth))) {
            sp_context(heap->err, "%s", f->json);
            return st;
        }
        st = sp_dict_set_name(heap, out->dict, f->go, value);
    }
    return st;
}

enum sp_status sp_go_message(struct sp_heap *heap, struct sp_value *out, const struct sp_json *json)
{
    return make_struct(heap, out, message_fields, json, 0);
}

enum sp_status sp_go_tools(struct sp_heap *heap, struct sp_value *out, const struct sp_json *json)
{
    enum sp_status st = make_structs(heap, out, tool_fields, json, 0);

    if (!st) out->shape = SP_SHAPE_JSON;
    return st;
}

/* ---- encoding/json ---- */

static enum sp_status json_at(struct sp_builder *b, struct sp_value v, int depth);

/* Finds the table with the Go names of a struct, or NULL. */
static const struct field *table_of(const struct sp_dict *dict)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        size_t n = 0;
        while (tables[t][n].go != NULL && n < dict->n &&
               sp_text_is(dict->at[n].key, tables[t][n].go))
            n++;
        if (n == dict->n && tables[t][n].go == NULL) return tables[t];
    }
    return NULL;
}

static enum sp_status json_struct(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    enum sp_status st;
    const struct field *fields = table_of(dict);
    bool first = true;

    if (fields == NULL) return sp_fail(b->heap->err, SP_E_BUG, "a struct without its table");
    if ((st = sp_build(b, "{", 1))) return st;
    for (size_t i = 0; i < dict->n; i++) {
        /* An interface{} is empty only if it is nil, whatever its content. */
        const struct sp_value v = dict->at[i].value;
        bool empty = fields[i].type == F_ANY ? v.kind == SP_V_NONE : !sp_value_truth(v);
        if (fields[i].omit_empty && empty) continue;
        if (!first && (st = sp_build(b, ",", 1))) return st;
        if ((st = sp_build_json_text(b, sp_value_name(fields[i].json), SP_JSON_TEXT_GO))) return st;
        if ((st = sp_build(b, ":", 1))) return st;
        if ((st = json_at(b, v, depth + 1))) return st;
        first = false;
    }
    return sp_build(b, "}", 1);
}

static enum sp_status json_map(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    enum sp_status st;
    const struct sp_dict_entry *pairs;

    if ((st = sp_dict_sorted(b->heap, &pairs, dict)) || (st = sp_build(b, "{", 1))) return st;
    for (size_t i = 0; i < dict->n; i++) {
        if (i && (st = sp_build(b, ",", 1))) return st;
        if ((st = sp_build_json_text(b, pairs[i].key, SP_JSON_TEXT_GO))) return st;
        if ((st = sp_build(b, ":", 1))) return st;
        if ((st = json_at(b, pairs[i].value, depth + 1))) return st;
    }
    return sp_build(b, "}", 1);
}

/* Appends a float: with an exponent below 1e-6 and from 1e21 on, without a leading zero. */
static enum sp_status json_float(struct sp_builder *b, double v)
{
    enum sp_status st;

    if (!isfinite(v)) return sp_fail(b->heap->err, SP_E_INPUT, "json: unsupported value");
    if ((st = sp_build_shortest(b, v, -6, 21))) return st;
    if (b->len > 4 && memcmp(b->at + b->len - 4, "e-0", 3) == 0) {
        b->at[b->len - 2] = b->at[b->len - 1];
        b->len--;
    }
    return SP_OK;
}

static enum sp_status json_at(struct sp_builder *b, struct sp_value v, int depth)
{
    enum sp_status st;

    if (depth > SP_VALUE_DEPTH)
        return sp_fail(b->heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    switch (v.kind) {
    case SP_V_BOOL:
        return sp_build_text(b, v.truth ? "true" : "false");
    case SP_V_INT:
        return sp_build_integer(b, v);
    case SP_V_FLOAT:
        return json_float(b, v.real);
    case SP_V_TEXT:
        return sp_build_json_text(b, v, SP_JSON_TEXT_GO);
    case SP_V_LIST:
        if (v.shape == SP_SHAPE_TYPE && v.list->n == 1) return json_at(b, v.list->at[0], depth + 1);
        if ((st = sp_build(b, "[", 1))) return st;
        for (size_t i = 0; i < v.list->n; i++) {
            if (i && (st = sp_build(b, ",", 1))) return st;
            if ((st = json_at(b, v.list->at[i], depth + 1))) return st;
        }
        return sp_build(b, "]", 1);
    case SP_V_DICT:
        return sp_go_is_struct(v) ? json_struct(b, v.dict, depth) : json_map(b, v.dict, depth);
    default:
        return sp_build_text(b, "null");
    }
}

enum sp_status sp_go_json(struct sp_builder *b, struct sp_value v)
{
    return json_at(b, v, 0);
}
