/* The functions of Go templates, and those that ollama adds. */
#include "runtime/template/go/gotemplate_exec.h"

#include <stdio.h>
#include <string.h>

#define UNUSED __attribute__((unused))
#define FUNCTION(name)                                                                             \
    static struct sp_value name(UNUSED struct sp_go_machine *m, UNUSED const struct sp_value *arg, \
                                UNUSED size_t n)

static bool is_basic(struct sp_value v)
{
    return v.kind == SP_V_BOOL || v.kind == SP_V_INT || v.kind == SP_V_FLOAT || v.kind == SP_V_TEXT;
}

static bool equal(struct sp_go_machine *m, struct sp_value a, struct sp_value b)
{
    if (sp_go_is_nil(a) || sp_go_is_nil(b)) return sp_go_is_nil(a) && sp_go_is_nil(b);
    if (is_basic(a) != is_basic(b) || (is_basic(a) && a.kind != b.kind))
        sp_go_fail(m, "error calling eq: incompatible types for comparison");
    else if (!is_basic(a))
        sp_go_fail(m, "error calling eq: non-comparable type");
    return sp_value_equal(m->heap, a, b);
}

FUNCTION(call_eq)
{
    bool truth = false;

    if (n < 2) return sp_go_fail(m, "error calling eq: missing argument for comparison");
    for (size_t i = 1; i < n && !truth; i++)
        truth = equal(m, arg[0], arg[i]);
    return sp_value_bool(truth);
}

FUNCTION(call_ne)
{
    return sp_value_bool(!equal(m, arg[0], arg[1]));
}

static bool less(struct sp_go_machine *m, struct sp_value a, struct sp_value b)
{
    if (!is_basic(a) || !is_basic(b) || (a.kind == SP_V_BOOL && b.kind == SP_V_BOOL))
        sp_go_fail(m, "error calling lt: invalid type for comparison");
    else if (a.kind != b.kind)
        sp_go_fail(m, "error calling lt: incompatible types for comparison");
    if (!sp_heap_charge_reading(m->heap, &a, 1)) return false;
    if (a.kind == SP_V_TEXT) return sp_text_order(a, b) < 0;
    return a.kind == SP_V_INT ? a.integer < b.integer : a.real < b.real;
}

/* Computes lt, le, gt and ge, whichever is called, from < and == as Go defines them. */
FUNCTION(call_order)
{
    const char *name = m->at->value.text;
    bool greater = name[0] == 'g', or_equal = greater == (name[1] == 't');
    bool truth = less(m, arg[0], arg[1]) || (or_equal && equal(m, arg[0], arg[1]));

    return sp_value_bool(truth != greater);
}

FUNCTION(call_not)
{
    return sp_value_bool(!sp_go_truth(arg[0]));
}

static bool is_map(struct sp_value v)
{
    return v.kind == SP_V_DICT && !sp_go_is_struct(v);
}

FUNCTION(call_len)
{
    if (arg[0].kind == SP_V_TEXT) return sp_value_int(arg[0].len);
    if (arg[0].kind == SP_V_LIST) return sp_value_int((int64_t)arg[0].list->n);
    if (is_map(arg[0])) return sp_value_int((int64_t)arg[0].dict->n);
    if (sp_go_is_nil(arg[0])) return sp_go_fail(m, "error calling len: len of nil pointer");
    return sp_go_fail(m, "error calling len: len of type %s", sp_go_type_name(arg[0]));
}

/* An index of at most `cap`; SIZE_MAX: a failure. */
static size_t want_index(struct sp_go_machine *m, const char *name, struct sp_value v, size_t cap)
{
    if (sp_go_is_nil(v))
        sp_go_fail(m, "error calling %s: cannot index slice/array with nil", name);
    else if (v.kind != SP_V_INT)
        sp_go_fail(m, "error calling %s: cannot index slice/array with type %s", name,
                   sp_go_type_name(v));
    else if (v.integer < 0 || (uint64_t)v.integer > cap)
        sp_go_fail(m, "error calling %s: index out of range: %lld", name, (long long)v.integer);
    else
        return (size_t)v.integer;
    return SIZE_MAX;
}

/* Evaluates v[index]. */
static struct sp_value index_one(struct sp_go_machine *m, struct sp_value v, struct sp_value index)
{
    size_t len = v.kind == SP_V_TEXT ? v.len : v.kind == SP_V_LIST ? v.list->n : 0, at;
    const struct sp_value *item;

    if (sp_go_is_nil(v)) return sp_go_fail(m, "error calling index: index of nil pointer");
    if (v.kind == SP_V_LIST || v.kind == SP_V_TEXT) {
        if ((at = want_index(m, "index", index, len)) == len)
            sp_go_fail(m, "error calling index: index out of range: %zu", at);
        if (at >= len) return SP_VALUE_ABSENT;
        return v.kind == SP_V_LIST ? v.list->at[at] : sp_value_int((unsigned char)v.text[at]);
    }
    if (!is_map(v))
        return sp_go_fail(m, "error calling index: can't index item of type %s",
                          sp_go_type_name(v));
    item = sp_dict_find(m->heap, v.dict, index);
    if (index.kind != SP_V_TEXT) {
        return sp_go_fail(m, "error calling index: value has type %s; should be string",
                          sp_go_type_name(index));
    }
    return item ? *item : sp_value_none();
}

FUNCTION(call_index)
{
    struct sp_value out = arg[0];

    if (sp_go_is_nil(out)) return sp_go_fail(m, "error calling index: index of untyped nil");
    for (size_t i = 1; i < n && !m->heap->status; i++)
        out = index_one(m, out, arg[i]);
    return out;
}

FUNCTION(call_slice)
{
    struct sp_value v = arg[0], out;
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
        bound[i - 1] = want_index(m, "slice", arg[i], len);
    if (bound[0] > bound[1] || bound[1] > bound[2])
        sp_go_fail(m, "error calling slice: invalid slice index");
    if (m->heap->status) return SP_VALUE_ABSENT;
    if (v.kind == SP_V_TEXT) return sp_value_text(v.text + bound[0], bound[1] - bound[0]);
    out = sp_value_list(m->heap, v.shape, 0);
    if (m->heap->status) return SP_VALUE_ABSENT;
    /* A slice shares the items, since slices are never written to. */
    if (v.list->n > 0) out.list->at = v.list->at + bound[0];
    out.list->n = out.list->cap = bound[1] - bound[0];
    return out;
}

FUNCTION(call_print)
{
    struct sp_builder b = {.heap = m->heap};

    sp_go_print(&b, arg, n, false);
    return sp_builder_value(&b);
}

FUNCTION(call_println)
{
    struct sp_builder b = {.heap = m->heap};

    sp_go_print(&b, arg, n, true);
    return sp_builder_value(&b);
}

FUNCTION(call_printf)
{
    struct sp_builder b = {.heap = m->heap};

    if (arg[0].kind != SP_V_TEXT) {
        return sp_go_fail(m, "wrong type for value; expected string; got %s",
                          sp_go_type_name(arg[0]));
    }
    sp_go_printf(&b, arg[0], arg + 1, n - 1);
    if (m->heap->status) sp_context(m->heap->err, "template:%u", m->at->line);
    return sp_builder_value(&b);
}

FUNCTION(call_json)
{
    struct sp_builder b = {.heap = m->heap};

    sp_go_json(&b, arg[0]);
    return sp_builder_value(&b);
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[(month + 11) % 12] + (month == 2 && leap);
}

static struct sp_value date(struct sp_go_machine *m, int year, int month, int day)
{
    char text[48];

    snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
    return sp_value_copy_text(m->heap, text, strlen(text));
}

FUNCTION(call_current_date)
{
    return date(m, m->now.year, m->now.month, m->now.day);
}

FUNCTION(call_yesterday_date)
{
    int year = m->now.year, month = m->now.month;

    if (m->now.day > 1) return date(m, year, month, m->now.day - 1);
    if (--month == 0) {
        month = 12;
        year--;
    }
    return date(m, year, month, days_in(year, month));
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
static void build_typescript(struct sp_builder *b, struct sp_value property, int depth)
{
    const struct sp_value *any_of = NULL, *type = NULL;

    if (property.kind == SP_V_DICT && property.shape == SP_SHAPE_STRUCT && depth < SP_VALUE_DEPTH) {
        any_of = sp_dict_find_name(property.dict, "AnyOf");
        type = sp_dict_find_name(property.dict, "Type");
    }
    if (any_of != NULL && any_of->kind == SP_V_LIST && any_of->list->n > 0) {
        for (size_t i = 0; i < any_of->list->n && !b->heap->status; i++) {
            if (i) sp_build_text(b, " | ");
            build_typescript(b, any_of->list->at[i], depth + 1);
        }
    } else if (type == NULL || type->kind != SP_V_LIST || type->list->n == 0) {
        sp_build_text(b, "any");
    } else {
        for (size_t i = 0; i < type->list->n; i++) {
            if (i) sp_build_text(b, " | ");
            sp_build_text(b, typescript_name(type->list->at[i]));
        }
    }
}

FUNCTION(call_typescript)
{
    struct sp_builder b = {.heap = m->heap};

    build_typescript(&b, arg[0], 0);
    return sp_builder_value(&b);
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
