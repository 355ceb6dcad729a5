/* Writes values as Python does: str, repr and json.dumps; and escapes HTML. */
#include "runtime/template/jinja/jinja_machine.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/value/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum sp_status repr_at(struct sp_builder *b, struct sp_value v, int depth);

static enum sp_status too_deep(struct sp_builder *b)
{
    return sp_fail(b->heap->err, SP_E_INPUT, "values nested deeper than %d", SP_VALUE_DEPTH);
}

/* Appends a quoted text, with double quotes if it contains single ones only. */
static enum sp_status repr_text(struct sp_builder *b, struct sp_value v)
{
    enum sp_status st;
    bool twice = v.len && memchr(v.text, '\'', v.len) && !memchr(v.text, '"', v.len);
    char quote = twice ? '"' : '\'', escape[16];
    size_t pos = 0;

    if (v.shape == SP_SHAPE_MARKUP && (st = sp_build_text(b, "Markup("))) return st;
    if ((st = sp_build(b, &quote, 1))) return st;
    while (pos < v.len) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(v.text, v.len, &pos);
        const char *as = NULL;
        if (c == '\n') as = "\\n";
        if (c == '\r') as = "\\r";
        if (c == '\t') as = "\\t";
        if (c == '\\') as = "\\\\";
        if (c == (unsigned char)quote) as = twice ? "\\\"" : "\\'";
        if (as == NULL && !sp_unicode_is_printable(c)) {
            if (c < 0x100)
                snprintf(escape, sizeof escape, "\\x%02x", c);
            else
                snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
            as = escape;
        }
        if ((st = as ? sp_build_text(b, as) : sp_build(b, v.text + begin, pos - begin))) return st;
    }
    if ((st = sp_build(b, &quote, 1))) return st;
    return v.shape == SP_SHAPE_MARKUP ? sp_build(b, ")", 1) : SP_OK;
}

static enum sp_status repr_list(struct sp_builder *b, struct sp_value v, int depth)
{
    static const char *const open[] = {
        [SP_SHAPE_PLAIN] = "[",
        [SP_SHAPE_TUPLE] = "(",
        [SP_SHAPE_KEYS] = "dict_keys([",
        [SP_SHAPE_VALUES] = "dict_values([",
        [SP_SHAPE_ITEMS] = "dict_items([",
    };
    enum sp_status st;
    const char *close = "])";
    char range[96];

    if (v.shape == SP_SHAPE_ITERATOR) return sp_build_text(b, "<generator object>");
    if (v.shape == SP_SHAPE_RANGE) {
        const struct sp_value *at = v.list->at;
        long long first = v.list->n ? (long long)at[0].integer : 0;
        long long step = v.list->n > 1 ? (long long)(at[1].integer - at[0].integer) : 1;
        snprintf(range, sizeof range, step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                 first, first + step * (long long)v.list->n, step);
        return sp_build_text(b, range);
    }
    if ((st = sp_build_text(b, open[v.shape]))) return st;
    for (size_t i = 0; i < v.list->n; i++) {
        if (i && (st = sp_build(b, ", ", 2))) return st;
        if ((st = repr_at(b, v.list->at[i], depth + 1))) return st;
    }
    if (v.shape == SP_SHAPE_PLAIN) close = "]";
    if (v.shape == SP_SHAPE_TUPLE) close = v.list->n == 1 ? ",)" : ")";
    return sp_build_text(b, close);
}

static enum sp_status repr_dict(struct sp_builder *b, const struct sp_dict *dict, int depth)
{
    enum sp_status st;

    if ((st = sp_build(b, "{", 1))) return st;
    for (size_t i = 0; i < dict->n; i++) {
        if (i && (st = sp_build(b, ", ", 2))) return st;
        if ((st = repr_at(b, dict->at[i].key, depth + 1))) return st;
        if ((st = sp_build(b, ": ", 2))) return st;
        if ((st = repr_at(b, dict->at[i].value, depth + 1))) return st;
    }
    return sp_build(b, "}", 1);
}

static enum sp_status repr_object(struct sp_builder *b, const struct sp_jinja_object *object,
                                  int depth)
{
    enum sp_status st;
    char text[80];

    switch (object->kind) {
    case SP_JINJA_NAMESPACE:
        if ((st = sp_build_text(b, "<Namespace "))) return st;
        if ((st = repr_dict(b, object->dict, depth + 1))) return st;
        return sp_build(b, ">", 1);
    case SP_JINJA_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", object->position + 1,
                 object->items->n);
        return sp_build_text(b, text);
    case SP_JINJA_MACRO:
        if ((st = sp_build_text(b, "<Macro '"))) return st;
        if ((st = sp_build(b, object->node->value.text, object->node->value.len))) return st;
        return sp_build_text(b, "'>");
    default:
        snprintf(text, sizeof text, "<function %.60s>", object->name ? object->name : "?");
        return sp_build_text(b, text);
    }
}

static enum sp_status repr_at(struct sp_builder *b, struct sp_value v, int depth)
{
    if (depth > SP_VALUE_DEPTH) return too_deep(b);
    switch (v.kind) {
    case SP_V_ABSENT:
    case SP_V_UNDEFINED:
        return sp_build_text(b, "Undefined");
    case SP_V_NONE:
        return sp_build_text(b, "None");
    case SP_V_BOOL:
        return sp_build_text(b, v.truth ? "True" : "False");
    case SP_V_INT:
    case SP_V_BIG:
        return sp_build_integer(b, v);
    case SP_V_FLOAT:
        return sp_build_python_float(b, v.real);
    case SP_V_TEXT:
        return repr_text(b, v);
    case SP_V_LIST:
        return repr_list(b, v, depth);
    case SP_V_DICT:
        return repr_dict(b, v.dict, depth);
    default:
        return repr_object(b, v.object, depth);
    }
}

enum sp_status sp_jinja_build_repr(struct sp_builder *b, struct sp_value v)
{
    return repr_at(b, v, 0);
}

enum sp_status sp_jinja_build_str(struct sp_builder *b, struct sp_value v)
{
    if (v.kind == SP_V_UNDEFINED) return SP_OK;
    if (v.kind == SP_V_TEXT) return sp_build(b, v.text, v.len);
    return repr_at(b, v, 0);
}

enum sp_status sp_jinja_to_text(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};

    if (v.kind == SP_V_TEXT) {
        *out = v;
        return SP_OK;
    }
    if ((st = sp_jinja_build_str(&b, v))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

enum sp_status sp_jinja_escape(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value v)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};

    if ((st = sp_jinja_to_text(m, &v, v))) return st;
    if (v.shape == SP_SHAPE_MARKUP) {
        *out = v;
        return SP_OK;
    }
    for (size_t i = 0; i < v.len; i++) {
        const char *found = v.text[i] ? strchr(from, v.text[i]) : NULL;
        st = found ? sp_build_text(&b, to[found - from]) : sp_build(&b, v.text + i, 1);
        if (st) return st;
    }
    *out = sp_builder_value(&b);
    out->shape = SP_SHAPE_MARKUP;
    return SP_OK;
}

static enum sp_status json_at(struct sp_builder *b, struct sp_value v,
                              const struct sp_jinja_json_style *style, int depth);

/* Appends the separator before an item, and a new line with its indentation. */
static enum sp_status json_gap(struct sp_builder *b, const struct sp_jinja_json_style *style,
                               bool first, int depth)
{
    enum sp_status st;

    if (!first && (st = sp_build(b, style->item_separator.text, style->item_separator.len)))
        return st;
    if (style->indent == NULL) return SP_OK;
    if ((st = sp_build(b, "\n", 1))) return st;
    for (int i = 0; i < depth; i++)
        if ((st = sp_build(b, style->indent, style->indent_len))) return st;
    return SP_OK;
}

static enum sp_status json_list(struct sp_builder *b, const struct sp_list *list,
                                const struct sp_jinja_json_style *style, int depth)
{
    enum sp_status st;

    if (list->n == 0) return sp_build_text(b, "[]");
    if ((st = sp_build(b, "[", 1))) return st;
    for (size_t i = 0; i < list->n; i++) {
        if ((st = json_gap(b, style, i == 0, depth + 1))) return st;
        if ((st = json_at(b, list->at[i], style, depth + 1))) return st;
    }
    if (style->indent != NULL && (st = json_gap(b, style, true, depth))) return st;
    return sp_build(b, "]", 1);
}

/* Appends a key as a text; numbers and truth values as JSON writes them. */
static enum sp_status json_key(struct sp_builder *b, struct sp_value key,
                               const struct sp_jinja_json_style *style)
{
    enum sp_status st;

    if (key.kind == SP_V_TEXT) return sp_build_json_text(b, key, style->text);
    if (!sp_value_is_number(key) && key.kind != SP_V_NONE) {
        return sp_fail(b->heap->err, SP_E_INPUT,
                       "keys must be str, int, float, bool or None, not %s",
                       sp_jinja_type_name(key));
    }
    if ((st = sp_build(b, "\"", 1))) return st;
    if ((st = json_at(b, key, style, 0))) return st;
    return sp_build(b, "\"", 1);
}

static enum sp_status json_dict(struct sp_builder *b, const struct sp_dict *dict,
                                const struct sp_jinja_json_style *style, int depth)
{
    enum sp_status st;
    const struct sp_dict_entry *pairs = dict->at;

    if (dict->n == 0) return sp_build_text(b, "{}");
    if ((st = sp_build(b, "{", 1))) return st;
    if (style->sort_keys && (st = sp_dict_sorted(b->heap, &pairs, dict))) return st;
    for (size_t i = 0; i < dict->n; i++) {
        if ((st = json_gap(b, style, i == 0, depth + 1))) return st;
        if ((st = json_key(b, pairs[i].key, style))) return st;
        if ((st = sp_build(b, style->key_separator.text, style->key_separator.len))) return st;
        if ((st = json_at(b, pairs[i].value, style, depth + 1))) return st;
    }
    if (style->indent != NULL && (st = json_gap(b, style, true, depth))) return st;
    return sp_build(b, "}", 1);
}

static enum sp_status json_at(struct sp_builder *b, struct sp_value v,
                              const struct sp_jinja_json_style *style, int depth)
{
    if (depth > SP_VALUE_DEPTH) return too_deep(b);
    switch (v.kind) {
    case SP_V_NONE:
        return sp_build_text(b, "null");
    case SP_V_BOOL:
        return sp_build_text(b, v.truth ? "true" : "false");
    case SP_V_INT:
    case SP_V_BIG:
        return sp_build_integer(b, v);
    case SP_V_FLOAT:
        if (isnan(v.real)) return sp_build_text(b, "NaN");
        if (isinf(v.real)) return sp_build_text(b, v.real < 0 ? "-Infinity" : "Infinity");
        return sp_build_python_float(b, v.real);
    case SP_V_TEXT:
        return sp_build_json_text(b, v, style->text);
    case SP_V_LIST:
        if (v.shape != SP_SHAPE_PLAIN && v.shape != SP_SHAPE_TUPLE) break;
        return json_list(b, v.list, style, depth);
    case SP_V_DICT:
        return json_dict(b, v.dict, style, depth);
    default:
        break;
    }
    return sp_fail(b->heap->err, SP_E_INPUT, "Object of type %s is not JSON serializable",
                   sp_jinja_type_name(v));
}

enum sp_status sp_jinja_build_json(struct sp_builder *b, struct sp_value v,
                                   const struct sp_jinja_json_style *style)
{
    return json_at(b, v, style, 0);
}
