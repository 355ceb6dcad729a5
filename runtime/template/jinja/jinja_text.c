/* Writes values as Python does: str, repr and json.dumps; and escapes HTML. */
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/value/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void repr_at(struct sp_builder *b, struct sp_value v, int depth);

/* Appends a quoted text, with double quotes if it contains single ones only. */
static void repr_text(struct sp_builder *b, struct sp_value v)
{
    bool twice = v.len && memchr(v.text, '\'', v.len) && !memchr(v.text, '"', v.len);

    if (v.shape == SP_SHAPE_MARKUP) sp_build_text(b, "Markup(");
    sp_build_quoted(b, v, twice ? '"' : '\'', twice ? "\n\r\t\\" : "\n\r\t\\'", "nrt\\'", 0x100);
    if (v.shape == SP_SHAPE_MARKUP) sp_build(b, ")", 1);
}

static void repr_range(struct sp_builder *b, const struct sp_list *list)
{
    const struct sp_value *at = list->at;
    long long first = list->n ? (long long)at[0].integer : 0;
    long long step = list->n > 1 ? (long long)(at[1].integer - at[0].integer) : 1;
    char range[96];

    snprintf(range, sizeof range, step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
             first, first + step * (long long)list->n, step);
    sp_build_text(b, range);
}

static void repr_list(struct sp_builder *b, struct sp_value v, int depth)
{
    static const char *const open[] = {
        [SP_SHAPE_PLAIN] = "[",
        [SP_SHAPE_TUPLE] = "(",
        [SP_SHAPE_KEYS] = "dict_keys([",
        [SP_SHAPE_VALUES] = "dict_values([",
        [SP_SHAPE_ITEMS] = "dict_items([",
    };
    const char *close = "])";

    sp_build_text(b, open[v.shape]);
    for (size_t i = 0; i < v.list->n; i++) {
        if (i) sp_build(b, ", ", 2);
        repr_at(b, v.list->at[i], depth + 1);
    }
    if (v.shape == SP_SHAPE_PLAIN) close = "]";
    if (v.shape == SP_SHAPE_TUPLE) close = v.list->n == 1 ? ",)" : ")";
    sp_build_text(b, close);
}

static void repr_dict(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    sp_build(b, "{", 1);
    for (size_t i = 0; i < dict->n; i++) {
        if (i) sp_build(b, ", ", 2);
        repr_at(b, dict->at[i].key, depth + 1);
        sp_build(b, ": ", 2);
        repr_at(b, dict->at[i].value, depth + 1);
    }
    sp_build(b, "}", 1);
}

static void repr_object(struct sp_builder *b, const struct sp_jinja_object *object, int depth)
{
    char text[80];

    switch (object->kind) {
    case SP_JINJA_NAMESPACE:
        sp_build_text(b, "<Namespace ");
        repr_dict(b, object->dict, depth + 1);
        sp_build(b, ">", 1);
        return;
    case SP_JINJA_MACRO:
        sp_build_text(b, "<Macro '");
        sp_build_value(b, object->node->value);
        sp_build_text(b, "'>");
        return;
    case SP_JINJA_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", object->position + 1,
                 object->items->n);
        break;
    default:
        snprintf(text, sizeof text, "<function %.60s>", object->name ? object->name : "?");
    }
    sp_build_text(b, text);
}

static void repr_at(struct sp_builder *b, struct sp_value v, int depth)
{
    if (!sp_heap_may_nest(b->heap, depth)) return;
    switch (v.kind) {
    case SP_V_ABSENT:
    case SP_V_UNDEFINED:
        sp_build_text(b, "Undefined");
        break;
    case SP_V_NONE:
        sp_build_text(b, "None");
        break;
    case SP_V_BOOL:
        sp_build_text(b, v.truth ? "True" : "False");
        break;
    case SP_V_INT:
    case SP_V_BIG:
        sp_build_integer(b, v);
        break;
    case SP_V_FLOAT:
        sp_build_python_float(b, v.real);
        break;
    case SP_V_TEXT:
        repr_text(b, v);
        break;
    case SP_V_LIST:
        if (v.shape == SP_SHAPE_ITERATOR)
            sp_build_text(b, "<generator object>");
        else if (v.shape == SP_SHAPE_RANGE)
            repr_range(b, v.list);
        else
            repr_list(b, v, depth);
        break;
    case SP_V_DICT:
        repr_dict(b, v.dict, depth);
        break;
    default:
        repr_object(b, v.object, depth);
    }
}

void sp_jinja_build_repr(struct sp_builder *b, struct sp_value v)
{
    repr_at(b, v, 0);
}

void sp_jinja_build_str(struct sp_builder *b, struct sp_value v)
{
    if (v.kind == SP_V_TEXT)
        sp_build_value(b, v);
    else if (v.kind != SP_V_UNDEFINED)
        repr_at(b, v, 0);
}

struct sp_value sp_jinja_to_text(struct sp_jinja_machine *m, struct sp_value v)
{
    struct sp_builder b = {.heap = m->heap};

    if (v.kind == SP_V_TEXT) return v;
    sp_jinja_build_str(&b, v);
    return sp_builder_value(&b);
}

SP_JINJA_FUNCTION(sp_jinja_escape)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct sp_builder b = {.heap = m->heap};
    struct sp_value v = sp_jinja_to_text(m, in);

    if (v.shape == SP_SHAPE_MARKUP) return v;
    for (size_t i = 0; i < v.len; i++) {
        const char *found = v.text[i] ? strchr(from, v.text[i]) : NULL;
        sp_build(&b, found ? to[found - from] : v.text + i, found ? strlen(to[found - from]) : 1);
    }
    v = sp_builder_value(&b);
    v.shape = SP_SHAPE_MARKUP;
    return v;
}

static void json_at(struct sp_builder *b, struct sp_value v,
                    const struct sp_jinja_json_style *style, int depth);

/* Appends the separator before an item, and a new line with its indentation. */
static void json_gap(struct sp_builder *b, const struct sp_jinja_json_style *style, bool first,
                     int depth)
{
    if (!first) sp_build_value(b, style->item_separator);
    if (style->indent.kind == SP_V_ABSENT) return;
    sp_build(b, "\n", 1);
    for (int i = 0; i < depth; i++)
        sp_build_value(b, style->indent);
}

static void json_list(struct sp_builder *b, const struct sp_list *list,
                      const struct sp_jinja_json_style *style, int depth)
{
    sp_build(b, "[", 1);
    for (size_t i = 0; i < list->n; i++) {
        json_gap(b, style, i == 0, depth + 1);
        json_at(b, list->at[i], style, depth + 1);
    }
    if (list->n > 0) json_gap(b, style, true, depth);
    sp_build(b, "]", 1);
}

/* Appends a key as a text; numbers and truth values as JSON writes them. */
static void json_key(struct sp_builder *b, struct sp_value key,
                     const struct sp_jinja_json_style *style)
{
    if (key.kind == SP_V_TEXT) {
        sp_build_json_text(b, key, style->text);
    } else if (!sp_value_is_number(key) && key.kind != SP_V_NONE) {
        sp_heap_fail(b->heap, SP_E_INPUT, "keys must be str, int, float, bool or None, not %s",
                     sp_jinja_type_name(key));
    } else {
        sp_build(b, "\"", 1);
        json_at(b, key, style, 0);
        sp_build(b, "\"", 1);
    }
}

static void json_dict(struct sp_builder *b, const struct sp_dict *dict,
                      const struct sp_jinja_json_style *style, int depth)
{
    const struct sp_dict_entry *pairs = dict->at;

    sp_build(b, "{", 1);
    if (style->sort_keys) pairs = sp_dict_sorted(b->heap, dict);
    for (size_t i = 0; i < dict->n && !b->heap->status; i++) {
        json_gap(b, style, i == 0, depth + 1);
        json_key(b, pairs[i].key, style);
        sp_build_value(b, style->key_separator);
        json_at(b, pairs[i].value, style, depth + 1);
    }
    if (dict->n > 0) json_gap(b, style, true, depth);
    sp_build(b, "}", 1);
}

static void json_at(struct sp_builder *b, struct sp_value v,
                    const struct sp_jinja_json_style *style, int depth)
{
    if (!sp_heap_may_nest(b->heap, depth)) return;
    if (v.kind == SP_V_NONE)
        sp_build_text(b, "null");
    else if (v.kind == SP_V_BOOL)
        sp_build_text(b, v.truth ? "true" : "false");
    else if (v.kind == SP_V_INT || v.kind == SP_V_BIG)
        sp_build_integer(b, v);
    else if (v.kind == SP_V_FLOAT && !isfinite(v.real))
        sp_build_text(b, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity");
    else if (v.kind == SP_V_FLOAT)
        sp_build_python_float(b, v.real);
    else if (v.kind == SP_V_TEXT)
        sp_build_json_text(b, v, style->text);
    else if (v.kind == SP_V_LIST && (v.shape == SP_SHAPE_PLAIN || v.shape == SP_SHAPE_TUPLE))
        json_list(b, v.list, style, depth);
    else if (v.kind == SP_V_DICT)
        json_dict(b, v.dict, style, depth);
    else
        sp_heap_fail(b->heap, SP_E_INPUT, "Object of type %s is not JSON serializable",
                     sp_jinja_type_name(v));
}

void sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                         const struct sp_jinja_json_style *style)
{
    json_at(b, v, style, 0);
}
