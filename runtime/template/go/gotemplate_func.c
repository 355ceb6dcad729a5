/* The functions of Go templates, and those that ollama adds. */
#include "runtime/template/go/gotemplate_exec.h"

#include <stdio.h>
#include <string.h>

#define FUNCTION(name)                                                                             \
    static enum sp_status name(struct sp_go_machine *m, struct sp_value *out,                      \
                               const struct sp_value *arg, size_t n)

static bool is_basic(struct sp_value v)
{
    return v.kind == SP_V_BOOL || v.kind == SP_V_INT || v.kind == SP_V_FLOAT || v.kind == SP_V_TEXT;
}

static enum sp_status equal(struct sp_go_machine *m, bool *out, struct sp_value a,
                            struct sp_value b)
{
    *out = false;
    if (sp_go_is_nil(a) || sp_go_is_nil(b)) {
        *out = sp_go_is_nil(a) && sp_go_is_nil(b);
        return SP_OK;
    }
    if (is_basic(a) != is_basic(b) || (is_basic(a) && a.kind != b.kind))
        return sp_go_fail(m, "error calling eq: incompatible types for comparison");
    if (!is_basic(a)) return sp_go_fail(m, "error calling eq: non-comparable type");
    return sp_value_equal(m->heap, out, a, b);
}

FUNCTION(call_eq)
{
    enum sp_status st = SP_OK;
    bool truth = false;

    if (n < 2) return sp_go_fail(m, "error calling eq: missing argument for comparison");
    for (size_t i = 1; i < n && !truth && !st; i++)
        st = equal(m, &truth, arg[0], arg[i]);
    *out = sp_value_bool(truth);
    return st;
}

FUNCTION(call_ne)
{
    enum sp_status st;

    (void)n;
    st = call_eq(m, out, arg, 2);
    out->truth = !out->truth;
    return st;
}

static enum sp_status less(struct sp_go_machine *m, bool *out, struct sp_value a, struct sp_value b)
{
    if (!is_basic(a) || !is_basic(b) || (a.kind == SP_V_BOOL && b.kind == SP_V_BOOL))
        return sp_go_fail(m, "error calling lt: invalid type for comparison");
    if (a.kind != b.kind)
        return sp_go_fail(m, "error calling lt: incompatible types for comparison");
    if (a.kind == SP_V_TEXT)
        *out = sp_text_order(a, b) < 0;
    else
        *out = a.kind == SP_V_INT ? a.integer < b.integer : a.real < b.real;
    return sp_heap_charge_reading(m->heap, &a, 1);
}

/* Computes lt, le, gt and ge, whichever is called, from < and == as Go defines them. */
FUNCTION(call_order)
{
    enum sp_status st;
    const char *name = m->at->value.text;
    bool greater = name[0] == 'g', or_equal = greater == (name[1] == 't'), truth = false;

    (void)n;
    if ((st = less(m, &truth, arg[0], arg[1]))) return st;
    if (or_equal && !truth && (st = equal(m, &truth, arg[0], arg[1]))) return st;
    *out = sp_value_bool(truth != greater);
    return SP_OK;
}

FUNCTION(call_not)
{
    (void)m;
    (void)n;
    *out = sp_value_bool(!sp_go_truth(arg[0]));
    return SP_OK;
}

static bool is_map(struct sp_value v)
{
    return v.kind == SP_V_DICT && !sp_go_is_struct(v);
}

FUNCTION(call_len)
{
    (void)n;
    if (arg[0].kind == SP_V_TEXT)
        *out = sp_value_int(arg[0].len);
    else if (arg[0].kind == SP_V_LIST)
        *out = sp_value_int((int64_t)arg[0].list->n);
    else if (is_map(arg[0]))
        *out = sp_value_int((int64_t)arg[0].dict->n);
    else if (sp_go_is_nil(arg[0]))
        return sp_go_fail(m, "error calling len: len of nil pointer");
    else
        return sp_go_fail(m, "error calling len: len of type %s", sp_go_type_name(arg[0]));
    return SP_OK;
}

static enum sp_status want_index(struct sp_go_machine *m, const char *name, struct sp_value v,
                                 size_t cap, size_t *out)
{
    if (sp_go_is_nil(v))
        return sp_go_fail(m, "error calling %s: cannot index slice/array with nil", name);
    if (v.kind != SP_V_INT) {
        return sp_go_fail(m, "error calling %s: cannot index slice/array with type %s", name,
                          sp_go_type_name(v));
    }
    if (v.integer < 0 || (uint64_t)v.integer > cap) {
        return sp_go_fail(m, "error calling %s: index out of range: %lld", name,
                          (long long)v.integer);
    }
    *out = (size_t)v.integer;
    return SP_OK;
}

FUNCTION(call_index)
{
    enum sp_status st;

    *out = arg[0];
    if (sp_go_is_nil(*out)) return sp_go_fail(m, "error calling index: index of untyped nil");
    for (size_t i = 1; i < n; i++) {
        size_t at = 0, len = out->kind == SP_V_TEXT ? out->len : 0;
        if (sp_go_is_nil(*out)) return sp_go_fail(m, "error calling index: index of nil pointer");
        if (out->kind == SP_V_LIST) len = out->list->n;
        if (out->kind == SP_V_LIST || out->kind == SP_V_TEXT) {
            if ((st = want_index(m, "index", arg[i], len, &at))) return st;
            if (at == len) return sp_go_fail(m, "error calling index: index out of range: %zu", at);
            *out = out->kind == SP_V_LIST ? out->list->at[at]
                                          : sp_value_int((unsigned char)out->text[at]);
        } else if (is_map(*out)) {
            const struct sp_value *item;
            if ((st = sp_dict_find(m->heap, &item, out->dict, arg[i]))) return st;
            if (arg[i].kind != SP_V_TEXT) {
                return sp_go_fail(m, "error calling index: value has type %s; should be string",
                                  sp_go_type_name(arg[i]));
            }
            *out = item ? *item : sp_value_none();
        } else {
            return sp_go_fail(m, "error calling index: can't index item of type %s",
                              sp_go_type_name(*out));
        }
    }
    return SP_OK;
}

FUNCTION(call_slice)
{
    enum sp_status st;
    struct sp_value v = arg[0];
    size_t len = v.kind == SP_V_TEXT ? v.len : v.kind == SP_V_LIST ? v.list->n : 0;
    size_t bound[3] = {0, len, len};

    if (sp_go_is_nil(v)) return sp_go_fail(m, "error calling slice: slice of untyped nil");
    if (n > 4) return sp_go_fail(m, "error calling slice: too many slice indexes: %zu", n - 1);
    if (v.kind != SP_V_TEXT && v.kind != SP_V_LIST) {
        return sp_go_fail(m, "error calling slice: can't slice item of type %s",
                          sp_go_type_name(v));
    }
    if (v.kind == SP_V_TEXT && n == 4)
        return sp_go_fail(m, "error calling slice: cannot 3-index slice a string");
    for (size_t i = 1; i < n; i++)
        if ((st = want_index(m, "slice", arg[i], len, &bound[i - 1]))) return st;
    if (bound[0] > bound[1] || bound[1] > bound[2])
        return sp_go_fail(m, "error calling slice: invalid slice index");
    if (v.kind == SP_V_TEXT) {
        *out = sp_value_text(v.text + bound[0], bound[1] - bound[0]);
        return SP_OK;
    }
    if ((st = sp_value_list(m->heap, out, v.shape, 0))) return st;
    /* A slice shares the items, since slices are never written to. */
    if (v.list->n > 0) out->list->at = v.list->at + bound[0];
    out->list->n = out->list->cap = bound[1] - bound[0];
    return SP_OK;
}

FUNCTION(call_print)
{
    struct sp_builder b = {.heap = m->heap};
    enum sp_status st = sp_go_print(&b, arg, n, false);

    *out = sp_builder_value(&b);
    return st;
}

FUNCTION(call_println)
{
    struct sp_builder b = {.heap = m->heap};
    enum sp_status st = sp_go_print(&b, arg, n, true);

    *out = sp_builder_value(&b);
    return st;
}

FUNCTION(call_printf)
{
    struct sp_builder b = {.heap = m->heap};
    enum sp_status st;

    if (arg[0].kind != SP_V_TEXT) {
        return sp_go_fail(m, "wrong type for value; expected string; got %s",
                          sp_go_type_name(arg[0]));
    }
    if ((st = sp_go_printf(&b, arg[0], arg + 1, n - 1))) {
        sp_context(m->heap->err, "template:%u", m->at->line);
        return st;
    }
    *out = sp_builder_value(&b);
    return st;
}

FUNCTION(call_json)
{
    struct sp_builder b = {.heap = m->heap};
    enum sp_status st;

    (void)n;
    st = sp_go_json(&b, arg[0]);
    *out = sp_builder_value(&b);
    return st;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[(month + 11) % 12] + (month == 2 && leap);
}

static enum sp_status date(struct sp_go_machine *m, struct sp_value *out, int year, int month,
                           int day)
{
    char text[48];

    snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
    return sp_value_copy_text(m->heap, out, text, strlen(text));
}

FUNCTION(call_current_date)
{
    (void)arg;
    (void)n;
    return date(m, out, m->now.year, m->now.month, m->now.day);
}

FUNCTION(call_yesterday_date)
{
    int year = m->now.year, month = m->now.month;

    (void)arg;
    (void)n;
    if (m->now.day > 1) return date(m, out, year, month, m->now.day - 1);
    if (--month == 0) {
        month = 12;
        year--;
    }
    return date(m, out, year, month, days_in(year, month));
}

static const char *typescript_name(struct sp_value type)
{
    static const struct {
        const char *json, *typescript;
    } names[] = {
        {"string", "string"},   {"number", "number"}, {"integer", "number"},
        {"boolean", "boolean"}, {"array", "any[]"},   {"object", "Record<string, any>"},
        {"null", "null"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (sp_text_is(type, names[i].json)) return names[i].typescript;
    return "any";
}

/* Joins the alternatives of a property's type with " | ". */
static enum sp_status build_typescript(struct sp_builder *b, struct sp_value property, int depth)
{
    enum sp_status st = SP_OK;
    const struct sp_value *any_of = NULL, *type = NULL;

    if (property.kind == SP_V_DICT && property.shape == SP_SHAPE_STRUCT && depth < SP_VALUE_DEPTH) {
        any_of = sp_dict_find_name(property.dict, "AnyOf");
        type = sp_dict_find_name(property.dict, "Type");
    }
    if (any_of != NULL && any_of->kind == SP_V_LIST && any_of->list->n > 0) {
        for (size_t i = 0; i < any_of->list->n && !st; i++) {
            if (i) st = sp_build_text(b, " | ");
            if (!st) st = build_typescript(b, any_of->list->at[i], depth + 1);
        }
        return st;
    }
    if (type == NULL || type->kind != SP_V_LIST || type->list->n == 0)
        return sp_build_text(b, "any");
    for (size_t i = 0; i < type->list->n && !st; i++) {
        if (i) st = sp_build_text(b, " | ");
        if (!st) st = sp_build_text(b, typescript_name(type->list->at[i]));
    }
    return st;
}

FUNCTION(call_typescript)
{
    struct sp_builder b = {.heap = m->heap};
    enum sp_status st;

    (void)n;
    st = build_typescript(&b, arg[0], 0);
    *out = sp_builder_value(&b);
    return st;
}

static const struct sp_go_function functions[] = {
    {"and", 1, -1, NULL},
    {"currentDate", 0, -1, call_current_date},
    {"eq", 1, -1, call_eq},
    {"ge", 2, 2, call_order},
    {"gt", 2, 2, call_order},
    {"index", 1, -1, call_index},
    {"json", 1, 1, call_json},
    {"le", 2, 2, call_order},
    {"len", 1, 1, call_len},
    {"lt", 2, 2, call_order},
    {"ne", 2, 2, call_ne},
    {"not", 1, 1, call_not},
    {"or", 1, -1, NULL},
    {"print", 0, -1, call_print},
    {"printf", 1, -1, call_printf},
    {"println", 0, -1, call_println},
    {"slice", 1, -1, call_slice},
    {"toTypeScriptType", 1, 1, call_typescript},
    {"yesterdayDate", 0, -1, call_yesterday_date},
};

const struct sp_go_function *sp_go_find_function(struct sp_value name)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (sp_text_is(name, functions[i].name)) return &functions[i];
    return NULL;
}
