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

static struct sp_value make_struct(struct sp_heap *heap, const struct field *fields,
                                   const struct sp_json *json, int depth);

/* Turns the integers of a value into floats, as encoding/json decodes every number. */
static void floats_only(struct sp_heap *heap, struct sp_value *v, int depth)
{
    if (depth > SP_VALUE_DEPTH)
        sp_heap_fail(heap, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    if (heap->status) return;
    if (v->kind == SP_V_INT || v->kind == SP_V_BIG) *v = sp_value_float(sp_value_to_double(*v));
    for (size_t i = 0; v->kind == SP_V_LIST && i < v->list->n; i++)
        floats_only(heap, &v->list->at[i], depth + 1);
    for (size_t i = 0; v->kind == SP_V_DICT && i < v->dict->n; i++)
        floats_only(heap, &v->dict->at[i].value, depth + 1);
}

struct sp_value sp_go_value(struct sp_heap *heap, const struct sp_json *json)
{
    struct sp_value out = sp_value_from_json(heap, json);

    floats_only(heap, &out, 0);
    return out;
}

static struct sp_value wrong(struct sp_heap *heap, const char *wanted, const struct sp_json *json)
{
    return sp_heap_fail(heap, SP_E_INPUT, "%s, expected %s", sp_json_kind_name(sp_json_kind(json)),
                        wanted);
}

/* Makes a text from a string, or from the concatenated parts of a content if all are text. */
static struct sp_value make_text(struct sp_heap *heap, const struct sp_json *json)
{
    struct sp_builder b = {.heap = heap};
    const char *text;
    size_t len;

    if (json == NULL) return sp_value_name("");
    text = sp_json_to_string(json, &len);
    if (text != NULL) return sp_value_copy_text(heap, text, len);
    if (sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "a string", json);
    for (size_t i = 0; i < sp_json_len(json); i++) {
        text = sp_json_to_string(sp_json_get(sp_json_at(json, i), "text"), &len);
        if (text == NULL) return sp_heap_fail(heap, SP_E_UNSUPPORTED, "part %zu is not text", i);
        sp_build(&b, text, len);
    }
    return sp_builder_value(&b);
}

static struct sp_value make_list(struct sp_heap *heap, const struct sp_json *json)
{
    if (json == NULL) return sp_value_list(heap, SP_SHAPE_PLAIN, 0);
    if (sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "an array", json);
    return sp_go_value(heap, json);
}

static struct sp_value make_types(struct sp_heap *heap, const struct sp_json *json)
{
    struct sp_value out;

    if (json != NULL && sp_json_kind(json) == SP_JSON_STRING) {
        out = sp_value_list(heap, SP_SHAPE_TYPE, 1);
        sp_list_push(heap, out.list, sp_go_value(heap, json));
        return out;
    }
    out = make_list(heap, json);
    out.shape = SP_SHAPE_TYPE;
    return out;
}

/* Makes an object, also from the JSON text of one, as OpenAI's API has it. */
static struct sp_value make_arguments(struct sp_heap *heap, const struct sp_json *json)
{
    struct sp_json *parsed = NULL;
    struct sp_value out;
    const char *text;
    size_t len;

    if (json != NULL && (text = sp_json_to_string(json, &len)) != NULL) {
        struct sp_err err = {0};
        if (sp_json_parse_within(&parsed, text, len, SP_JSON_LENIENT, SP_JSON_SETTINGS, &err))
            return sp_heap_fail(heap, err.status, "%s", err.text);
        json = parsed;
    }
    if (json == NULL)
        out = sp_value_dict(heap);
    else if (sp_json_kind(json) == SP_JSON_OBJECT)
        out = sp_go_value(heap, json);
    else
        out = wrong(heap, "an object", json);
    sp_json_free(parsed);
    out.shape = SP_SHAPE_JSON;
    return out;
}

static struct sp_value make_properties(struct sp_heap *heap, const struct sp_json *json, int depth)
{
    struct sp_json_iter it = {0};
    struct sp_value out = sp_value_dict(heap);

    out.shape = SP_SHAPE_JSON;
    if (json != NULL && sp_json_kind(json) != SP_JSON_OBJECT) return wrong(heap, "an object", json);
    while (!heap->status && sp_json_next(json, &it)) {
        struct sp_value name = sp_value_copy_text(heap, it.key, strlen(it.key));
        sp_dict_set(heap, out.dict, name, make_struct(heap, property_fields, it.value, depth + 1));
    }
    return out;
}

static struct sp_value make_structs(struct sp_heap *heap, const struct field *fields,
                                    const struct sp_json *json, int depth)
{
    struct sp_value out;

    if (json != NULL && sp_json_kind(json) != SP_JSON_ARRAY) return wrong(heap, "an array", json);
    out = sp_value_list(heap, SP_SHAPE_PLAIN, sp_json_len(json));
    for (size_t i = 0; i < sp_json_len(json) && !heap->status; i++)
        sp_list_push(heap, out.list, make_struct(heap, fields, sp_json_at(json, i), depth + 1));
    return out;
}

static struct sp_value make_field(struct sp_heap *heap, const struct field *f,
                                  const struct sp_json *json, int depth)
{
    double d = 0;

    switch (f->type) {
    case F_TEXT:
        return make_text(heap, json);
    case F_INT:
        if (json != NULL && !sp_json_to_double(json, &d)) return wrong(heap, "an integer", json);
        return sp_value_int(d > -1e9 && d < 1e9 ? (int64_t)d : 0);
    case F_LIST:
        return make_list(heap, json);
    case F_TYPES:
        return make_types(heap, json);
    case F_ARGUMENTS:
        return make_arguments(heap, json);
    case F_FUNCTION:
        return make_struct(heap, function_fields, json, depth + 1);
    case F_PARAMETERS:
        return make_struct(heap, parameters_fields, json, depth + 1);
    case F_CALL:
        return make_struct(heap, call_function_fields, json, depth + 1);
    case F_PROPERTIES:
        return make_properties(heap, json, depth);
    case F_PROPERTY_LIST:
        return make_structs(heap, property_fields, json, depth);
    case F_CALLS:
        return make_structs(heap, call_fields, json, depth);
    default:
        return sp_go_value(heap, json);
    }
}

static struct sp_value make_struct(struct sp_heap *heap, const struct field *fields,
                                   const struct sp_json *json, int depth)
{
    struct sp_value out = sp_value_dict(heap);

    if (depth > SP_VALUE_DEPTH)
        return sp_heap_fail(heap, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    if (json != NULL && sp_json_kind(json) != SP_JSON_OBJECT) {
        return sp_heap_fail(heap, SP_E_INPUT, "%s where an object with %s, %s, ... is expected",
                            sp_json_kind_name(sp_json_kind(json)), fields[0].json, fields[1].json);
    }
    out.shape = fields == tool_fields ? SP_SHAPE_JSON_STRUCT : SP_SHAPE_STRUCT;
    for (const struct field *f = fields; f->go != NULL && !heap->status; f++) {
        const struct sp_json *member = sp_json_get(json, f->go);
        struct sp_value value;
        if (member == NULL) member = sp_json_get(json, f->json);
        value = make_field(heap, f, member, depth);
        if (heap->status) sp_context(heap->err, "%s", f->json);
        sp_dict_set_name(heap, out.dict, f->go, value);
    }
    return out;
}

struct sp_value sp_go_message(struct sp_heap *heap, const struct sp_json *json)
{
    return make_struct(heap, message_fields, json, 0);
}

struct sp_value sp_go_tools(struct sp_heap *heap, const struct sp_json *json)
{
    struct sp_value out = make_structs(heap, tool_fields, json, 0);

    out.shape = SP_SHAPE_JSON;
    return out;
}

/* ---- encoding/json ---- */

static void json_at(struct sp_builder *b, struct sp_value v, int depth);

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

static void json_struct(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    const struct field *fields = table_of(dict);
    bool first = true;

    if (fields == NULL) {
        sp_heap_fail(b->heap, SP_E_BUG, "a struct without its table");
        return;
    }
    sp_build(b, "{", 1);
    for (size_t i = 0; i < dict->n; i++) {
        /* An interface{} is empty only if it is nil, whatever its content. */
        const struct sp_value v = dict->at[i].value;
        bool empty = fields[i].type == F_ANY ? v.kind == SP_V_NONE : !sp_value_truth(v);
        if (fields[i].omit_empty && empty) continue;
        if (!first) sp_build(b, ",", 1);
        sp_build_json_text(b, sp_value_name(fields[i].json), SP_JSON_TEXT_GO);
        sp_build(b, ":", 1);
        json_at(b, v, depth + 1);
        first = false;
    }
    sp_build(b, "}", 1);
}

static void json_map(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    const struct sp_dict_entry *pairs = sp_dict_sorted(b->heap, dict);

    sp_build(b, "{", 1);
    for (size_t i = 0; i < dict->n && !b->heap->status; i++) {
        if (i) sp_build(b, ",", 1);
        sp_build_json_text(b, pairs[i].key, SP_JSON_TEXT_GO);
        sp_build(b, ":", 1);
        json_at(b, pairs[i].value, depth + 1);
    }
    sp_build(b, "}", 1);
}

static void json_list(struct sp_builder *b, const struct sp_list *list, int depth)
{
    sp_build(b, "[", 1);
    for (size_t i = 0; i < list->n; i++) {
        if (i) sp_build(b, ",", 1);
        json_at(b, list->at[i], depth + 1);
    }
    sp_build(b, "]", 1);
}

/* Appends a float: with an exponent below 1e-6 and from 1e21 on, without a leading zero. */
static void json_float(struct sp_builder *b, double v)
{
    if (isfinite(v))
        sp_build_shortest(b, v, -6, 21);
    else
        sp_heap_fail(b->heap, SP_E_INPUT, "json: unsupported value");
    if (b->len > 4 && memcmp(b->at + b->len - 4, "e-0", 3) == 0) {
        b->at[b->len - 2] = b->at[b->len - 1];
        b->len--;
    }
}

static void json_at(struct sp_builder *b, struct sp_value v, int depth)
{
    if (depth > SP_VALUE_DEPTH)
        sp_heap_fail(b->heap, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
    if (b->heap->status) return;
    if (v.kind == SP_V_BOOL)
        sp_build_text(b, v.truth ? "true" : "false");
    else if (v.kind == SP_V_INT)
        sp_build_integer(b, v);
    else if (v.kind == SP_V_FLOAT)
        json_float(b, v.real);
    else if (v.kind == SP_V_TEXT)
        sp_build_json_text(b, v, SP_JSON_TEXT_GO);
    else if (v.kind == SP_V_LIST && v.shape == SP_SHAPE_TYPE && v.list->n == 1)
        json_at(b, v.list->at[0], depth + 1);
    else if (v.kind == SP_V_LIST)
        json_list(b, v.list, depth);
    else if (v.kind == SP_V_DICT && sp_go_is_struct(v))
        json_struct(b, v.dict, depth);
    else if (v.kind == SP_V_DICT)
        json_map(b, v.dict, depth);
    else
        sp_build_text(b, "null");
}

void sp_go_json(struct sp_builder *b, struct sp_value v)
{
    json_at(b, v, 0);
}
