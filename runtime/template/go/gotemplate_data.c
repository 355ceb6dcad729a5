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
    F_STRUCT,  /* of `fields` */
    F_STRUCTS, /* a slice of them */
    F_MAP,     /* map[string] of them */
};

struct field {
    const char *go, *json;
    uint8_t type;    /* enum field_type */
    bool omit_empty; /* omitempty: left out of JSON if empty */
    const struct field *fields;
};

static const struct field property_fields[] = {
    {"AnyOf", "anyOf", F_STRUCTS, true, property_fields},
    {"Type", "type", F_TYPES, true, NULL},
    {"Items", "items", F_ANY, true, NULL},
    {"Description", "description", F_TEXT, true, NULL},
    {"Enum", "enum", F_LIST, true, NULL},
    {"Properties", "properties", F_MAP, true, property_fields},
    {NULL, NULL, 0, false, NULL},
};

static const struct field parameters_fields[] = {
    {"Type", "type", F_TEXT, false, NULL},
    {"Defs", "$defs", F_ANY, true, NULL},
    {"Items", "items", F_ANY, true, NULL},
    {"Required", "required", F_LIST, true, NULL},
    {"Properties", "properties", F_MAP, false, property_fields},
    {NULL, NULL, 0, false, NULL},
};

static const struct field function_fields[] = {
    {"Name", "name", F_TEXT, false, NULL},
    {"Description", "description", F_TEXT, false, NULL},
    {"Parameters", "parameters", F_STRUCT, false, parameters_fields},
    {NULL, NULL, 0, false, NULL},
};

static const struct field tool_fields[] = {
    {"Type", "type", F_TEXT, false, NULL},
    {"Items", "items", F_ANY, true, NULL},
    {"Function", "function", F_STRUCT, false, function_fields},
    {NULL, NULL, 0, false, NULL},
};

static const struct field call_function_fields[] = {
    {"Index", "index", F_INT, false, NULL},
    {"Name", "name", F_TEXT, false, NULL},
    {"Arguments", "arguments", F_ARGUMENTS, false, NULL},
    {NULL, NULL, 0, false, NULL},
};

static const struct field call_fields[] = {
    {"ID", "id", F_TEXT, true, NULL},
    {"Function", "function", F_STRUCT, false, call_function_fields},
    {NULL, NULL, 0, false, NULL},
};

static const struct field message_fields[] = {
    {"Role", "role", F_TEXT, false, NULL},
    {"Content", "content", F_TEXT, false, NULL},
    {"Thinking", "thinking", F_TEXT, true, NULL},
    {"Images", "images", F_LIST, true, NULL},
    {"ToolCalls", "tool_calls", F_STRUCTS, true, call_fields},
    {"ToolName", "tool_name", F_TEXT, true, NULL},
    {"ToolCallID", "tool_call_id", F_TEXT, true, NULL},
    {NULL, NULL, 0, false, NULL},
};

static struct sp_value make_struct(struct sp_heap *heap, const struct field *fields,
                                   const struct sp_json *json, int depth);

/* Turns the integers of a value into floats, as encoding/json decodes every number. */
static void floats_only(struct sp_heap *heap, struct sp_value *v, int depth)
{
    if (!sp_heap_may_nest(heap, depth)) return;
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

static struct sp_value make_map(struct sp_heap *heap, const struct field *fields,
                                const struct sp_json *json, int depth)
{
    struct sp_json_iter it = {0};
    struct sp_value out = sp_value_dict(heap);

    out.shape = SP_SHAPE_JSON;
    if (json != NULL && sp_json_kind(json) != SP_JSON_OBJECT) return wrong(heap, "an object", json);
    while (!heap->status && sp_json_next(json, &it)) {
        struct sp_value name = sp_value_copy_text(heap, it.key, strlen(it.key));
        sp_dict_set(heap, out.dict, name, make_struct(heap, fields, it.value, depth + 1));
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
    case F_STRUCT:
        return make_struct(heap, f->fields, json, depth + 1);
    case F_STRUCTS:
        return make_structs(heap, f->fields, json, depth);
    case F_MAP:
        return make_map(heap, f->fields, json, depth);
    default:
        return sp_go_value(heap, json);
    }
}

static struct sp_value make_struct(struct sp_heap *heap, const struct field *fields,
                                   const struct sp_json *json, int depth)
{
    struct sp_value out = sp_value_dict(heap);

    if (!sp_heap_may_nest(heap, depth)) return SP_VALUE_ABSENT;
    if (json != NULL && sp_json_kind(json) != SP_JSON_OBJECT) {
        return sp_heap_fail(heap, SP_E_INPUT, "%s where an object with %s, %s, ... is expected",
                            sp_json_kind_name(sp_json_kind(json)), fields[0].json, fields[1].json);
    }
    out.shape = fields == tool_fields ? SP_SHAPE_JSON_STRUCT : SP_SHAPE_STRUCT;
    out.dict->fields = fields;
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

static void json_struct(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    const struct field *fields = dict->fields;
    bool first = true;

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
    if (!sp_heap_may_nest(b->heap, depth)) return;
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
