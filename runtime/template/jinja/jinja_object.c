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

enum sp_status sp_jinja_view(struct sp_jinja_machine *m, struct sp_value *out,
                             const struct sp_dict *dict, enum sp_value_shape shape)
{
    enum sp_status st = sp_value_list(m->heap, out, shape, dict->n);

    for (size_t i = 0; i < dict->n && !st; i++) {
        struct sp_value item = shape == SP_SHAPE_KEYS ? dict->at[i].key : dict->at[i].value;
        if (shape == SP_SHAPE_ITEMS) {
            if ((st = sp_value_list(m->heap, &item, SP_SHAPE_TUPLE, 2))) return st;
            if ((st = sp_list_push(m->heap, item.list, dict->at[i].key))) return st;
            if ((st = sp_list_push(m->heap, item.list, dict->at[i].value))) return st;
        }
        st = sp_list_push(m->heap, out->list, item);
    }
    return st;
}

static enum sp_status characters_of(struct sp_jinja_machine *m, struct sp_value *out,
                                    struct sp_value text)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);
    size_t pos = 0;

    while (pos < text.len && !st) {
        size_t begin = pos;
        sp_utf8_next(text.text, text.len, &pos);
        st = sp_list_push(m->heap, out->list, sp_value_text(text.text + begin, pos - begin));
    }
    return st;
}

enum sp_status sp_jinja_items(struct sp_jinja_machine *m, const struct sp_list **out,
                              struct sp_value v)
{
    static const struct sp_list empty;
    enum sp_status st = SP_OK;
    struct sp_value list;

    switch (v.kind) {
    case SP_V_UNDEFINED:
        *out = &empty;
        return SP_OK;
    case SP_V_LIST:
        *out = v.list;
        if (v.shape != SP_SHAPE_ITERATOR) return SP_OK;
        if (v.list->used) *out = &empty;
        v.list->used = 1;
        return SP_OK;
    case SP_V_DICT:
        st = sp_jinja_view(m, &list, v.dict, SP_SHAPE_KEYS);
        break;
    case SP_V_TEXT:
        st = characters_of(m, &list, v);
        break;
    default:
        return sp_jinja_fail(m, "'%s' object is not iterable", sp_jinja_type_name(v));
    }
    if (!st) *out = list.list;
    return st;
}

enum sp_status sp_jinja_length(struct sp_jinja_machine *m, size_t *out, struct sp_value v)
{
    *out = 0;
    if (v.kind == SP_V_UNDEFINED) return SP_OK;
    if (v.kind == SP_V_TEXT) {
        *out = sp_text_characters(v);
        return sp_heap_charge(m->heap, v.len / 8);
    }
    if (v.kind == SP_V_DICT) {
        *out = v.dict->n;
        return SP_OK;
    }
    if (v.kind == SP_V_LIST && v.shape != SP_SHAPE_ITERATOR) {
        *out = v.list->n;
        return SP_OK;
    }
    return sp_jinja_fail(m, "object of type '%s' has no len()", sp_jinja_type_name(v));
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

enum sp_status sp_jinja_bind(struct sp_jinja_machine *m, const char *what, const char *params,
                             const struct sp_jinja_args *args, struct sp_value slot[SP_JINJA_SLOTS])
{
    struct sp_value name;
    const char *at = params;
    size_t n = 0, used = 0;
    bool optional;

    memset(slot, 0, SP_JINJA_SLOTS * sizeof *slot);
    while (n < SP_JINJA_MAX_ARGS && next_param(&at, &name, &optional)) {
        if (n < args->n) slot[n] = args->at[n];
        for (size_t i = 0; i < args->n_named; i++) {
            if (sp_text_order(args->names[i], name) != 0) continue;
            if (n < args->n) {
                return sp_jinja_fail(m, "%s() got multiple values for argument '%.*s'", what,
                                     (int)name.len, name.text);
            }
            slot[n] = args->named[i];
            used++;
        }
        if (slot[n].kind == SP_V_ABSENT && !optional) {
            return sp_jinja_fail(m, "%s() missing required argument '%.*s'", what, (int)name.len,
                                 name.text);
        }
        n++;
    }
    if (args->n > n)
        return sp_jinja_fail(m, "%s() takes at most %zu arguments, not %zu", what, n, args->n);
    if (used < args->n_named) {
        return sp_jinja_fail(m, "%s() got an unexpected keyword argument, it takes (%s)", what,
                             params);
    }
    return SP_OK;
}

enum sp_status sp_jinja_want_integer(struct sp_jinja_machine *m, struct sp_value arg,
                                     int64_t otherwise, int64_t *out)
{
    enum sp_status st;

    *out = otherwise;
    if (arg.kind == SP_V_ABSENT) return SP_OK;
    if ((st = sp_jinja_defined(m, arg))) return st;
    if (arg.kind != SP_V_INT && arg.kind != SP_V_BOOL) {
        return sp_jinja_fail(m, "'%s' object cannot be interpreted as an integer",
                             sp_jinja_type_name(arg));
    }
    *out = sp_value_to_integer(arg);
    return SP_OK;
}

const struct sp_jinja_function *sp_jinja_find_row(const struct sp_jinja_function *table,
                                                  struct sp_value name)
{
    for (; table->name != NULL; table++)
        if (sp_text_is(name, table->name)) return table;
    return NULL;
}

enum sp_status sp_jinja_run(struct sp_jinja_machine *m, struct sp_value *out,
                            const struct sp_jinja_function *function, struct sp_value in,
                            const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_SLOTS];

    if ((st = sp_heap_charge_reading(m->heap, &in, 1))) return st;
    if ((st = sp_heap_charge_reading(m->heap, args->at, args->n))) return st;
    if ((st = sp_heap_charge_reading(m->heap, args->named, args->n_named))) return st;
    if (function->run_any != NULL) return function->run_any(m, out, in, args, function->how);
    if ((st = sp_jinja_bind(m, function->name, function->params, args, slot))) return st;
    slot[SP_JINJA_HOW] = sp_value_int(function->how);
    return function->run(m, out, in, slot);
}

static enum sp_status new_object(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_jinja_object **object, enum sp_jinja_object_kind kind)
{
    enum sp_status st;

    if ((st = sp_heap_take(m->heap, object, sizeof **object))) return st;
    (*object)->kind = kind;
    *out = sp_value_object(*object);
    return SP_OK;
}

/* Begins the definition of an object's `call`. */
#define CALL(name)                                                                                 \
    static enum sp_status name(struct sp_jinja_machine *m, struct sp_value *out,                   \
                               struct sp_jinja_object *self, const struct sp_jinja_args *args)

CALL(loop_cycle)
{
    const struct sp_jinja_object *loop = self->self.object;

    if (args->n == 0) return sp_jinja_fail(m, "no items for cycling given");
    *out = args->at[loop->position % args->n];
    return SP_OK;
}

enum sp_status sp_jinja_loop_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                       struct sp_jinja_object *loop, struct sp_value name)
{
    enum sp_status st;
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
        if (sp_text_is(name, counts[k].name)) *out = sp_value_int((int64_t)counts[k].value);
    if (sp_text_is(name, "first")) *out = sp_value_bool(i == 0);
    if (sp_text_is(name, "last")) *out = sp_value_bool(i + 1 == items->n);
    if (sp_text_is(name, "previtem")) {
        if (i == 0) return sp_jinja_undefined(m, out, "there is no previous item");
        *out = items->at[i - 1];
    } else if (sp_text_is(name, "nextitem")) {
        if (i + 1 >= items->n) return sp_jinja_undefined(m, out, "there is no next item");
        *out = items->at[i + 1];
    } else if (sp_text_is(name, "cycle")) {
        if ((st = new_object(m, out, &method, SP_JINJA_CALLABLE))) return st;
        method->self = sp_value_object(loop);
        method->name = "cycle";
        method->call = loop_cycle;
    } else if (sp_text_is(name, "changed")) {
        return sp_jinja_refuse(m, "loop method", name);
    }
    return SP_OK;
}

CALL(call_range)
{
    enum sp_status st;
    int64_t bound[3] = {0, 0, 1}, n;

    (void)self;
    if (args->n < 1 || args->n > 3 || args->n_named)
        return sp_jinja_fail(m, "range() takes 1 to 3 numbers");
    for (size_t i = 0; i < args->n; i++) {
        struct sp_value v = args->at[i];
        if ((st = sp_jinja_defined(m, v))) return st;
        if (v.kind != SP_V_INT && v.kind != SP_V_BOOL) {
            return sp_jinja_fail(m, "'%s' object cannot be interpreted as an integer",
                                 sp_jinja_type_name(v));
        }
        bound[args->n == 1 ? 1 : i] = sp_value_to_integer(v);
    }
    if (bound[2] == 0) return sp_jinja_fail(m, "range() arg 3 must not be zero");
    if (bound[0] > INT64_MAX / 4 || bound[0] < INT64_MIN / 4 || bound[1] > INT64_MAX / 4 ||
        bound[1] < INT64_MIN / 4 || bound[2] > INT64_MAX / 4 || bound[2] < INT64_MIN / 4)
        return sp_jinja_fail(m, "range() arguments are too large");
    n = bound[2] > 0 ? (bound[1] - bound[0] + bound[2] - 1) / bound[2]
                     : (bound[0] - bound[1] - bound[2] - 1) / -bound[2];
    if (n < 0) n = 0;
    if (n > MAX_RANGE) {
        return sp_jinja_fail(m, "range of %lld numbers, at most %d are possible", (long long)n,
                             MAX_RANGE);
    }
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_RANGE, (size_t)n))) return st;
    for (int64_t i = 0; i < n && !st; i++)
        st = sp_list_push(m->heap, out->list, sp_value_int(bound[0] + i * bound[2]));
    return st;
}

/* Executes dict(pairs or mapping, **kwargs). */
static enum sp_status fill_dict(struct sp_jinja_machine *m, struct sp_dict *dict,
                                const struct sp_jinja_args *args)
{
    enum sp_status st = SP_OK;
    const struct sp_list *pairs, *pair;

    if (args->n > 1) return sp_jinja_fail(m, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n == 1 && args->at[0].kind == SP_V_DICT) {
        const struct sp_dict *from = args->at[0].dict;
        for (size_t i = 0; i < from->n && !st; i++)
            st = sp_dict_set(m->heap, dict, from->at[i].key, from->at[i].value);
    } else if (args->n == 1) {
        if ((st = sp_jinja_defined(m, args->at[0]))) return st;
        if ((st = sp_jinja_items(m, &pairs, args->at[0]))) return st;
        for (size_t i = 0; i < pairs->n && !st; i++) {
            if ((st = sp_jinja_items(m, &pair, pairs->at[i]))) return st;
            if (pair->n != 2) return sp_jinja_fail(m, "dict() needs pairs");
            st = sp_dict_set(m->heap, dict, pair->at[0], pair->at[1]);
        }
    }
    for (size_t i = 0; i < args->n_named && !st; i++)
        st = sp_dict_set(m->heap, dict, args->names[i], args->named[i]);
    return st;
}

CALL(call_dict)
{
    enum sp_status st;

    (void)self;
    if ((st = sp_value_dict(m->heap, out))) return st;
    return fill_dict(m, out->dict, args);
}

CALL(call_namespace)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    (void)self;
    if ((st = new_object(m, out, &object, SP_JINJA_NAMESPACE))) return st;
    if ((st = sp_heap_take(m->heap, &object->dict, sizeof *object->dict))) return st;
    return fill_dict(m, object->dict, args);
}

CALL(call_raise)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_SLOTS], text;

    (void)self;
    (void)out;
    if ((st = sp_jinja_bind(m, "raise_exception", "message", args, slot))) return st;
    if ((st = sp_jinja_to_text(m, &text, slot[0]))) return st;
    return sp_jinja_fail(m, "%.*s", (int)(text.len < SP_ERR_TEXT ? text.len : SP_ERR_TEXT),
                         text.text);
}

/* ---- strftime in the C locale, from the date alone, independent of the machine's zone and locale
 * ---- */

static bool leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The fields of a date. The weekday comes from the days since year 1, which began on a Monday. */
static struct tm moment(const struct sp_template_time *now)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int y = now->year - 1;
    struct tm tm = {.tm_year = now->year - 1900,
                    .tm_mon = now->month - 1,
                    .tm_mday = now->day,
                    .tm_hour = now->hour,
                    .tm_min = now->minute,
                    .tm_sec = now->second};

    tm.tm_yday = before[tm.tm_mon] + now->day - 1 + (now->month > 2 && leap(now->year));
    tm.tm_wday = (1 + y + y / 4 - y / 100 + y / 400 + tm.tm_yday) % 7;
    return tm;
}

/* Appends one conversion with its flag, `len` bytes from its '%'. */
static enum sp_status build_one(struct sp_builder *b, const char *at, size_t len,
                                const struct tm *tm, locale_t plain)
{
    char c = at[len - 1], format[4] = "", text[64];

    if (c == '\0' || c == '%' || strchr("zZ", c) != NULL)
        return sp_build_text(b, c == '%' ? "%" : "");
    if (c == 'f') return sp_build_text(b, "000000");
    if (strchr("aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY", c) == NULL) {
        return sp_fail(b->heap->err, SP_E_UNSUPPORTED, "strftime_now: conversion %.*s", (int)len,
                       at);
    }
    memcpy(format, at, len);
    return sp_build(b, text, strftime_l(text, sizeof text, format, tm, plain));
}

/* Appends the time, which has no zone: %z and %Z are empty. */
static enum sp_status build_time(struct sp_builder *b, struct sp_value format,
                                 const struct sp_template_time *now)
{
    enum sp_status st = SP_OK;
    struct tm tm;
    locale_t plain;

    if (now->year < 1 || now->year > 9999 || now->month < 1 || now->month > 12 || now->day < 1 ||
        now->day > 31) {
        return sp_fail(b->heap->err, SP_E_USAGE, "%d-%d-%d is no date", now->year, now->month,
                       now->day);
    }
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return sp_fail(b->heap->err, SP_E_NOMEM, "no locale");
    tm = moment(now);
    for (size_t i = 0, n = 1; i < format.len && !st; i += n) {
        const char *at = format.text + i;
        size_t left = format.len - i;
        n = 1;
        if (*at == '%' && left > 1) n = left > 2 && strchr("-_0", at[1]) != NULL ? 3 : 2;
        if (*at == '%' && left == 1)
            st = sp_fail(b->heap->err, SP_E_INPUT, "strftime_now: a single %% at the end");
        else
            st = n > 1 ? build_one(b, at, n, &tm, plain) : sp_build(b, at, 1);
    }
    freelocale(plain);
    return st;
}

CALL(call_strftime)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_SLOTS];
    struct sp_builder b = {.heap = m->heap};

    (void)self;
    if ((st = sp_jinja_bind(m, "strftime_now", "format", args, slot))) return st;
    if ((st = sp_jinja_defined(m, slot[0]))) return st;
    if (slot[0].kind != SP_V_TEXT) return sp_jinja_fail(m, "strftime_now() takes a str");
    if ((st = build_time(&b, slot[0], &m->now))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

CALL(call_joiner_object)
{
    if (args->n || args->n_named) return sp_jinja_fail(m, "a joiner takes no arguments");
    *out = self->position++ ? self->self : sp_value_name("");
    return SP_OK;
}

CALL(call_joiner)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_SLOTS];
    struct sp_jinja_object *object;

    (void)self;
    if ((st = sp_jinja_bind(m, "joiner", "sep=", args, slot))) return st;
    if ((st = new_object(m, out, &object, SP_JINJA_CALLABLE))) return st;
    object->name = "joiner";
    object->call = call_joiner_object;
    object->self = slot[0].kind == SP_V_ABSENT ? sp_value_name(", ") : slot[0];
    return SP_OK;
}

CALL(call_missing)
{
    (void)out;
    (void)args;
    return sp_jinja_refuse(m, "function", sp_value_name(self->name));
}

static const struct {
    const char *name;
    enum sp_status (*call)(struct sp_jinja_machine *m, struct sp_value *out,
                           struct sp_jinja_object *self, const struct sp_jinja_args *args);
} globals[] = {
    {"range", call_range},           {"dict", call_dict},
    {"namespace", call_namespace},   {"raise_exception", call_raise},
    {"strftime_now", call_strftime}, {"joiner", call_joiner},
    {"cycler", call_missing},        {"lipsum", call_missing},
};

enum sp_status sp_jinja_global(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value name)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    *out = (struct sp_value){.kind = SP_V_ABSENT};
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (!sp_text_is(name, globals[i].name)) continue;
        if ((st = new_object(m, out, &object, SP_JINJA_CALLABLE))) return st;
        object->name = globals[i].name;
        object->call = globals[i].call;
    }
    return SP_OK;
}
