/* Iteration, argument binding, and the objects of Jinja: loop, namespace, range, dict, joiner,
 * raise_exception and strftime_now. */
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"
#include "format/system/macos.h"

#include <string.h>
#include <locale.h>
#include <time.h>

enum { MAX_RANGE = 100000 }; /* as in Jinja2's sandbox */

bool sp_jinja_iterable(struct sp_value v)
{
    return v.kind == SP_V_TEXT || v.kind == SP_V_LIST || v.kind == SP_V_DICT ||
           v.kind == SP_V_UNDEFINED;
}

struct sp_value sp_jinja_view(struct sp_jinja_machine *m, const struct sp_dict *dict,
                              enum sp_value_shape shape)
{
    struct sp_value out = sp_value_list(m->heap, shape, dict->n);

    for (size_t i = 0; i < dict->n && !m->heap->status; i++) {
        struct sp_value item = shape == SP_SHAPE_KEYS ? dict->at[i].key : dict->at[i].value;
        if (shape == SP_SHAPE_ITEMS) {
            item = sp_value_list(m->heap, SP_SHAPE_TUPLE, 2);
            sp_list_push(m->heap, item.list, dict->at[i].key);
            sp_list_push(m->heap, item.list, dict->at[i].value);
        }
        sp_list_push(m->heap, out.list, item);
    }
    return out;
}

static struct sp_value characters_of(struct sp_jinja_machine *m, struct sp_value text)
{
    struct sp_value out = sp_value_list(m->heap, SP_SHAPE_PLAIN, 0);
    size_t pos = 0;

    while (pos < text.len) {
        size_t begin = pos;
        sp_utf8_next(text.text, text.len, &pos);
        sp_list_push(m->heap, out.list, sp_value_text(text.text + begin, pos - begin));
    }
    return out;
}

const struct sp_list *sp_jinja_items(struct sp_jinja_machine *m, struct sp_value v)
{
    static const struct sp_list empty;

    switch (v.kind) {
    case SP_V_UNDEFINED:
        return &empty;
    case SP_V_LIST:
        if (v.shape != SP_SHAPE_ITERATOR) return v.list;
        if (v.list->used) return &empty;
        v.list->used = 1;
        return v.list;
    case SP_V_DICT:
        return sp_jinja_view(m, v.dict, SP_SHAPE_KEYS).list;
    case SP_V_TEXT:
        return characters_of(m, v).list;
    default:
        sp_jinja_fail(m, "'%s' object is not iterable", sp_jinja_type_name(v));
        return &empty;
    }
}

/* Reads the next name of a parameter list; false at its end. "x=" means that x is optional. */
static bool next_param(const char **at, struct sp_value *name, bool *optional)
{
    size_t len;

    while (**at == ' ')
        ++*at;
    len = strcspn(*at, " =");
    if (len == 0) return false;
    *name = sp_value_text(*at, len);
    *at += len;
    *optional = **at == '=';
    if (*optional) ++*at;
    return true;
}

bool sp_jinja_bind(struct sp_jinja_machine *m, const char *what, const char *params,
                   const struct sp_jinja_args *args, struct sp_value slot[SP_JINJA_MAX_ARGS])
{
    struct sp_value name;
    const char *at = params;
    size_t n = 0, used = 0;
    bool optional;

    memset(slot, 0, SP_JINJA_MAX_ARGS * sizeof *slot);
    for (; n < SP_JINJA_MAX_ARGS && next_param(&at, &name, &optional); n++) {
        if (n < args->n) slot[n] = args->at[n];
        for (size_t i = 0; i < args->n_named; i++) {
            if (sp_text_order(args->names[i], name) != 0) continue;
            if (n < args->n) {
                sp_jinja_fail(m, "%s() got multiple values for argument '%.*s'", what,
                              (int)name.len, name.text);
            }
            slot[n] = args->named[i];
            used++;
        }
        if (slot[n].kind == SP_V_ABSENT && !optional) {
            sp_jinja_fail(m, "%s() missing required argument '%.*s'", what, (int)name.len,
                          name.text);
        }
    }
    if (args->n > n)
        sp_jinja_fail(m, "%s() takes at most %zu arguments, not %zu", what, n, args->n);
    if (used < args->n_named)
        sp_jinja_fail(m, "%s() got an unexpected keyword argument, it takes (%s)", what, params);
    return !m->heap->status;
}

int64_t sp_jinja_want_integer(struct sp_jinja_machine *m, struct sp_value arg, int64_t otherwise)
{
    if (arg.kind == SP_V_ABSENT || !sp_jinja_defined(m, arg)) return otherwise;
    if (arg.kind == SP_V_INT || arg.kind == SP_V_BOOL) return sp_value_to_integer(arg);
    sp_jinja_fail(m, "'%s' object cannot be interpreted as an integer", sp_jinja_type_name(arg));
    return otherwise;
}

const struct sp_jinja_function *sp_jinja_find_row(const struct sp_jinja_function *table,
                                                  struct sp_value name)
{
    for (; table->name != NULL; table++)
        if (sp_text_is(name, table->name)) return table;
    return NULL;
}

struct sp_value sp_jinja_run(struct sp_jinja_machine *m, const struct sp_jinja_function *function,
                             struct sp_value in, const struct sp_jinja_args *args)
{
    struct sp_value slot[SP_JINJA_MAX_ARGS];

    if (!sp_heap_charge_reading(m->heap, &in, 1) ||
        !sp_heap_charge_reading(m->heap, args->at, args->n) ||
        !sp_heap_charge_reading(m->heap, args->named, args->n_named))
        return SP_VALUE_ABSENT;
    if (function->run_any != NULL) return function->run_any(m, in, args, function->how);
    if (!sp_jinja_bind(m, function->name, function->params, args, slot)) return SP_VALUE_ABSENT;
    return function->run(m, in, slot, function->how);
}

struct sp_jinja_object *sp_jinja_new_object(struct sp_jinja_machine *m,
                                            enum sp_jinja_object_kind kind)
{
    struct sp_jinja_object *object = sp_heap_take(m->heap, sizeof *object);

    if (object == NULL) {
        object = &m->no_object;
        *object = (struct sp_jinja_object){.dict = &m->heap->no_dict, .items = &m->heap->no_list};
    }
    object->kind = kind;
    return object;
}

/* Begins the definition of an object's `call`. */
#define CALL(name)                                                                                 \
    static struct sp_value name(SP_JINJA_UNUSED struct sp_jinja_machine *m,                        \
                                SP_JINJA_UNUSED struct sp_jinja_object *self,                      \
                                SP_JINJA_UNUSED const struct sp_jinja_args *args)

CALL(loop_cycle)
{
    const struct sp_jinja_object *loop = self->self.object;

    if (args->n == 0) return sp_jinja_fail(m, "no items for cycling given");
    return args->at[loop->position % args->n];
}

struct sp_value sp_jinja_loop_attribute(struct sp_jinja_machine *m, struct sp_jinja_object *loop,
                                        struct sp_value name)
{
    const struct sp_list *items = loop->items;
    struct sp_jinja_object *method;
    size_t i = loop->position;
    const struct {
        const char *name;
        size_t value;
    } counts[] = {{"index", i + 1},
                  {"index0", i},
                  {"revindex", items->n - i},
                  {"revindex0", items->n - i - 1},
                  {"length", items->n},
                  {"depth", 1},
                  {"depth0", 0}};

    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        if (sp_text_is(name, counts[k].name)) return sp_value_int((int64_t)counts[k].value);
    if (sp_text_is(name, "first")) return sp_value_bool(i == 0);
    if (sp_text_is(name, "last")) return sp_value_bool(i + 1 == items->n);
    if (sp_text_is(name, "previtem"))
        return i > 0 ? items->at[i - 1] : sp_jinja_undefined(m, "there is no previous item");
    if (sp_text_is(name, "nextitem"))
        return i + 1 < items->n ? items->at[i + 1] : sp_jinja_undefined(m, "there is no next item");
    if (sp_text_is(name, "changed")) return sp_jinja_refuse(m, "loop method", name);
    if (!sp_text_is(name, "cycle")) return SP_VALUE_ABSENT;
    method = sp_jinja_new_object(m, SP_JINJA_CALLABLE);
    method->self = sp_value_object(loop);
    method->name = "cycle";
    method->call = loop_cycle;
    return sp_value_object(method);
}

CALL(call_range)
{
    int64_t bound[3] = {0, 0, 1}, n;
    struct sp_value out;

    if (args->n < 1 || args->n > 3 || args->n_named)
        return sp_jinja_fail(m, "range() takes 1 to 3 numbers");
    for (size_t i = 0; i < args->n; i++)
        bound[args->n == 1 ? 1 : i] = sp_jinja_want_integer(m, args->at[i], 1);
    if (bound[2] == 0) return sp_jinja_fail(m, "range() arg 3 must not be zero");
    for (size_t i = 0; i < 3; i++)
        if (bound[i] > INT64_MAX / 4 || bound[i] < INT64_MIN / 4)
            return sp_jinja_fail(m, "range() arguments are too large");
    n = bound[2] > 0 ? (bound[1] - bound[0] + bound[2] - 1) / bound[2]
                     : (bound[0] - bound[1] - bound[2] - 1) / -bound[2];
    if (n < 0) n = 0;
    if (n > MAX_RANGE) {
        return sp_jinja_fail(m, "range of %lld numbers, at most %d are possible", (long long)n,
                             MAX_RANGE);
    }
    out = sp_value_list(m->heap, SP_SHAPE_RANGE, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        sp_list_push(m->heap, out.list, sp_value_int(bound[0] + i * bound[2]));
    return out;
}

/* Executes dict(pairs or mapping, **kwargs). */
static void fill_dict(struct sp_jinja_machine *m, struct sp_dict *dict,
                      const struct sp_jinja_args *args)
{
    if (args->n > 1) sp_jinja_fail(m, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n == 1 && args->at[0].kind == SP_V_DICT) {
        const struct sp_dict *from = args->at[0].dict;
        for (size_t i = 0; i < from->n; i++)
            sp_dict_set(m->heap, dict, from->at[i].key, from->at[i].value);
    } else if (args->n == 1 && sp_jinja_defined(m, args->at[0])) {
        const struct sp_list *pairs = sp_jinja_items(m, args->at[0]);
        for (size_t i = 0; i < pairs->n && !m->heap->status; i++) {
            const struct sp_list *pair = sp_jinja_items(m, pairs->at[i]);
            if (pair->n == 2)
                sp_dict_set(m->heap, dict, pair->at[0], pair->at[1]);
            else
                sp_jinja_fail(m, "dict() needs pairs");
        }
    }
    for (size_t i = 0; i < args->n_named; i++)
        sp_dict_set(m->heap, dict, args->names[i], args->named[i]);
}

CALL(call_dict)
{
    struct sp_value out = sp_value_dict(m->heap);

    fill_dict(m, out.dict, args);
    return out;
}

CALL(call_namespace)
{
    struct sp_jinja_object *object = sp_jinja_new_object(m, SP_JINJA_NAMESPACE);

    object->dict = sp_value_dict(m->heap).dict;
    fill_dict(m, object->dict, args);
    return sp_value_object(object);
}

CALL(call_raise)
{
    struct sp_value slot[SP_JINJA_MAX_ARGS], text;

    if (!sp_jinja_bind(m, "raise_exception", "message", args, slot)) return SP_VALUE_ABSENT;
    text = sp_jinja_to_text(m, slot[0]);
    return sp_jinja_fail(m, "%.*s", (int)(text.len < SP_ERR_TEXT ? text.len : SP_ERR_TEXT),
                         text.text);
}

/* ---- strftime in the C locale, from the date alone, independent of the machine's zone and locale
 * ---- */

/* The fields of a date. The weekday comes from the days since year 1, which began on a Monday. */
static struct tm moment(const struct sp_template_time *now)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int y = now->year - 1;
    bool leap = now->year % 4 == 0 && (now->year % 100 != 0 || now->year % 400 == 0);
    struct tm tm = {.tm_year = now->year - 1900,
                    .tm_mon = now->month - 1,
                    .tm_mday = now->day,
                    .tm_hour = now->hour,
                    .tm_min = now->minute,
                    .tm_sec = now->second};

    tm.tm_yday = before[tm.tm_mon] + now->day - 1 + (now->month > 2 && leap);
    tm.tm_wday = (1 + y + y / 4 - y / 100 + y / 400 + tm.tm_yday) % 7;
    return tm;
}

/* Appends one conversion with its flag, `len` bytes from its '%'. */
static void build_one(struct sp_builder *b, const char *at, size_t len, const struct tm *tm,
                      locale_t plain)
{
    char c = at[len - 1], format[4] = "", text[64];

    if (c == '\0' || c == '%' || strchr("zZ", c) != NULL) {
        sp_build_text(b, c == '%' ? "%" : "");
    } else if (c == 'f') {
        sp_build_text(b, "000000");
    } else if (strchr("aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY", c) == NULL) {
        sp_heap_fail(b->heap, SP_E_UNSUPPORTED, "strftime_now: conversion %.*s", (int)len, at);
    } else {
        memcpy(format, at, len);
        sp_build(b, text, strftime_l(text, sizeof text, format, tm, plain));
    }
}

/* Appends the time, which has no zone: %z and %Z are empty. */
static void build_time(struct sp_builder *b, struct sp_value format,
                       const struct sp_template_time *now)
{
    struct tm tm;
    locale_t plain;

    if (now->year < 1 || now->year > 9999 || now->month < 1 || now->month > 12 || now->day < 1 ||
        now->day > 31) {
        sp_heap_fail(b->heap, SP_E_USAGE, "%d-%d-%d is no date", now->year, now->month, now->day);
        return;
    }
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) {
        sp_heap_fail(b->heap, SP_E_NOMEM, "no locale");
        return;
    }
    tm = moment(now);
    for (size_t i = 0, n = 1; i < format.len; i += n) {
        const char *at = format.text + i;
        size_t left = format.len - i;
        n = 1;
        if (*at == '%' && left > 1) n = left > 2 && strchr("-_0", at[1]) != NULL ? 3 : 2;
        if (*at == '%' && left == 1)
            sp_heap_fail(b->heap, SP_E_INPUT, "strftime_now: a single %% at the end");
        else if (n > 1)
            build_one(b, at, n, &tm, plain);
        else
            sp_build(b, at, 1);
    }
    freelocale(plain);
}

CALL(call_strftime)
{
    struct sp_value slot[SP_JINJA_MAX_ARGS];
    struct sp_builder b = {.heap = m->heap};

    if (!sp_jinja_bind(m, "strftime_now", "format", args, slot) || !sp_jinja_defined(m, slot[0]))
        return SP_VALUE_ABSENT;
    if (slot[0].kind != SP_V_TEXT) return sp_jinja_fail(m, "strftime_now() takes a str");
    build_time(&b, slot[0], &m->now);
    return sp_builder_value(&b);
}

CALL(call_joiner_object)
{
    if (args->n || args->n_named) return sp_jinja_fail(m, "a joiner takes no arguments");
    return self->position++ ? self->self : sp_value_name("");
}

CALL(call_joiner)
{
    struct sp_value slot[SP_JINJA_MAX_ARGS];
    struct sp_jinja_object *object;

    if (!sp_jinja_bind(m, "joiner", "sep=", args, slot)) return SP_VALUE_ABSENT;
    object = sp_jinja_new_object(m, SP_JINJA_CALLABLE);
    object->name = "joiner";
    object->call = call_joiner_object;
    object->self = slot[0].kind == SP_V_ABSENT ? sp_value_name(", ") : slot[0];
    return sp_value_object(object);
}

CALL(call_missing)
{
    return sp_jinja_refuse(m, "function", sp_value_name(self->name));
}

static const struct {
    const char *name;
    struct sp_value (*call)(struct sp_jinja_machine *m, struct sp_jinja_object *self,
                            const struct sp_jinja_args *args);
} globals[] = {
    {"range", call_range},           {"dict", call_dict},
    {"namespace", call_namespace},   {"raise_exception", call_raise},
    {"strftime_now", call_strftime}, {"joiner", call_joiner},
    {"cycler", call_missing},        {"lipsum", call_missing},
};

struct sp_value sp_jinja_global(struct sp_jinja_machine *m, struct sp_value name)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        struct sp_jinja_object *object;
        if (!sp_text_is(name, globals[i].name)) continue;
        object = sp_jinja_new_object(m, SP_JINJA_CALLABLE);
        object->name = globals[i].name;
        object->call = globals[i].call;
        return sp_value_object(object);
    }
    return SP_VALUE_ABSENT;
}
