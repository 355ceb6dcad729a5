/* Iteration, argument binding, and the objects of Jinja: loop, namespace, range, dict, cycler,
 * joiner, raise_exception and strftime_now. */
#include "runtime/template/jinja/jinja_object.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_filter.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_predicate.h"
#include "runtime/template/jinja/jinja_string.h"
#include "runtime/template/jinja/jinja_text.h"
#include "runtime/template/jinja/jinja_time.h"

#include <string.h>

enum { MAX_RANGE = 100000 }; /* as in Jinja2's sandbox */

bool sp_jinja_iterable(struct sp_value v)
{
    return v.kind == SP_V_TEXT || v.kind == SP_V_LIST || v.kind == SP_V_DICT ||
           v.kind == SP_V_UNDEFINED;
}

static enum sp_status keys_of(struct sp_jinja_machine *m, struct sp_value *out,
                              const struct sp_dict *dict)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, dict->n);

    for (size_t i = 0; i < dict->n && !st; i++)
        st = sp_list_push(m->heap, out->list, dict->at[i].key);
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
        st = keys_of(m, &list, v.dict);
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
                             const struct sp_jinja_args *args,
                             struct sp_value slot[SP_JINJA_MAX_ARGS])
{
    struct sp_value name;
    const char *at = params;
    size_t n = 0, used = 0;
    bool optional;

    memset(slot, 0, SP_JINJA_MAX_ARGS * sizeof *slot);
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

enum sp_status sp_jinja_charge_args(struct sp_jinja_machine *m, const struct sp_jinja_args *args)
{
    enum sp_status st = sp_heap_charge_reading(m->heap, args->at, args->n);

    return st ? st : sp_heap_charge_reading(m->heap, args->named, args->n_named);
}

enum sp_status sp_jinja_run_filter(struct sp_jinja_machine *m, struct sp_value *out,
                                   const struct sp_jinja_filter *filter, struct sp_value in,
                                   const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS];

    if ((st = sp_heap_charge_reading(m->heap, &in, 1)) || (st = sp_jinja_charge_args(m, args)))
        return st;
    if (filter->run_any != NULL) return filter->run_any(m, out, in, args);
    if ((st = sp_jinja_bind(m, filter->name, filter->params, args, slot))) return st;
    return filter->run(m, out, in, slot);
}

enum sp_status sp_jinja_run_test(struct sp_jinja_machine *m, bool *out,
                                 const struct sp_jinja_test *test, struct sp_value in,
                                 const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS];

    if ((st = sp_heap_charge_reading(m->heap, &in, 1)) || (st = sp_jinja_charge_args(m, args)))
        return st;
    if ((st = sp_jinja_bind(m, test->name, test->params, args, slot))) return st;
    return test->run(m, out, in, slot);
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

static enum sp_status loop_cycle(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    const struct sp_jinja_object *loop = self->self.object;

    if (args->n == 0) return sp_jinja_fail(m, "no items for cycling given");
    *out = args->at[loop->position % args->n];
    return SP_OK;
}

static enum sp_status loop_changed(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_jinja_object *loop = self->self.object;
    struct sp_value seen;
    bool same = false;

    if ((st = sp_value_list(m->heap, &seen, SP_SHAPE_TUPLE, args->n))) return st;
    for (size_t i = 0; i < args->n; i++)
        if ((st = sp_list_push(m->heap, seen.list, args->at[i]))) return st;
    if (loop->changed.kind != SP_V_ABSENT &&
        (st = sp_value_equal(m->heap, &same, loop->changed, seen)))
        return st;
    loop->changed = seen;
    *out = sp_value_bool(!same);
    return SP_OK;
}

static enum sp_status loop_method(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *loop, struct sp_value name)
{
    enum sp_status st;
    struct sp_jinja_object *method;

    if ((st = new_object(m, out, &method, SP_JINJA_METHOD))) return st;
    method->self = sp_value_object(loop);
    method->name = sp_text_is(name, "cycle") ? "cycle" : "changed";
    method->fn = sp_text_is(name, "cycle") ? loop_cycle : loop_changed;
    return SP_OK;
}

enum sp_status sp_jinja_loop_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                       struct sp_jinja_object *loop, struct sp_value name)
{
    const struct sp_list *items = loop->items;
    size_t i = loop->position;
    const struct {
        const char *name;
        size_t value;
    } counts[] = {
        {"index", i + 1},           {"index0", i},
        {"revindex", items->n - i}, {"revindex0", items->n - i - 1},
        {"length", items->n},       {"depth", loop->depth + 1},
        {"depth0", loop->depth},
    };

    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        if (!sp_text_is(name, counts[k].name)) continue;
        *out = sp_value_int((int64_t)counts[k].value);
        return SP_OK;
    }
    if (sp_text_is(name, "first")) {
        *out = sp_value_bool(i == 0);
    } else if (sp_text_is(name, "last")) {
        *out = sp_value_bool(i + 1 == items->n);
    } else if (sp_text_is(name, "previtem")) {
        if (i == 0) return sp_jinja_undefined(m, out, "there is no previous item");
        *out = items->at[i - 1];
    } else if (sp_text_is(name, "nextitem")) {
        if (i + 1 >= items->n) return sp_jinja_undefined(m, out, "there is no next item");
        *out = items->at[i + 1];
    } else if (sp_text_is(name, "cycle") || sp_text_is(name, "changed")) {
        return loop_method(m, out, loop, name);
    }
    return SP_OK;
}

static enum sp_status call_range(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_jinja_object *self, const struct sp_jinja_args *args)
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

static enum sp_status call_dict(struct sp_jinja_machine *m, struct sp_value *out,
                                struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;

    (void)self;
    if ((st = sp_value_dict(m->heap, out))) return st;
    return fill_dict(m, out->dict, args);
}

static enum sp_status call_namespace(struct sp_jinja_machine *m, struct sp_value *out,
                                     struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    (void)self;
    if ((st = new_object(m, out, &object, SP_JINJA_NAMESPACE))) return st;
    if ((st = sp_heap_take(m->heap, &object->dict, sizeof *object->dict))) return st;
    return fill_dict(m, object->dict, args);
}

static enum sp_status call_raise(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS], text;

    (void)self;
    (void)out;
    if ((st = sp_jinja_bind(m, "raise_exception", "message", args, slot))) return st;
    if ((st = sp_jinja_to_text(m, &text, slot[0]))) return st;
    return sp_jinja_fail(m, "%.*s", (int)(text.len < SP_ERR_TEXT ? text.len : SP_ERR_TEXT),
                         text.text);
}

static enum sp_status call_strftime(struct sp_jinja_machine *m, struct sp_value *out,
                                    struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS];
    struct sp_builder b = {.heap = m->heap};

    (void)self;
    if ((st = sp_jinja_bind(m, "strftime_now", "format", args, slot))) return st;
    if ((st = sp_jinja_defined(m, slot[0]))) return st;
    if (slot[0].kind != SP_V_TEXT) return sp_jinja_fail(m, "strftime_now() takes a str");
    if ((st = sp_jinja_build_time(&b, slot[0], &m->now))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

static enum sp_status call_joiner_object(struct sp_jinja_machine *m, struct sp_value *out,
                                         struct sp_jinja_object *self,
                                         const struct sp_jinja_args *args)
{
    if (args->n || args->n_named) return sp_jinja_fail(m, "a joiner takes no arguments");
    *out = self->position++ ? self->self : sp_value_name("");
    return SP_OK;
}

static enum sp_status call_joiner(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS];
    struct sp_jinja_object *object;

    (void)self;
    if ((st = sp_jinja_bind(m, "joiner", "sep=", args, slot))) return st;
    if ((st = new_object(m, out, &object, SP_JINJA_JOINER))) return st;
    object->name = "joiner";
    object->fn = call_joiner_object;
    object->self = slot[0].kind == SP_V_ABSENT ? sp_value_name(", ") : slot[0];
    return SP_OK;
}

static enum sp_status cycler_next(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    struct sp_jinja_object *cycler = self->self.object;
    const struct sp_list *items = cycler->self.list;

    if (args->n || args->n_named) return sp_jinja_fail(m, "cycler.next() takes no arguments");
    *out = items->at[cycler->position];
    cycler->position = (cycler->position + 1) % items->n;
    return SP_OK;
}

static enum sp_status cycler_reset(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    struct sp_jinja_object *cycler = self->self.object;

    if (args->n || args->n_named) return sp_jinja_fail(m, "cycler.reset() takes no arguments");
    cycler->position = 0;
    *out = sp_value_none();
    return SP_OK;
}

enum sp_status sp_jinja_cycler_attribute(struct sp_jinja_machine *m, struct sp_value *out,
                                         struct sp_jinja_object *cycler, struct sp_value name)
{
    enum sp_status st;
    struct sp_jinja_object *method;
    bool next = sp_text_is(name, "next");

    if (sp_text_is(name, "current")) {
        *out = cycler->self.list->at[cycler->position];
    } else if (sp_text_is(name, "pos")) {
        *out = sp_value_int((int64_t)cycler->position);
    } else if (sp_text_is(name, "items")) {
        *out = cycler->self;
    } else if (next || sp_text_is(name, "reset")) {
        if ((st = new_object(m, out, &method, SP_JINJA_METHOD))) return st;
        method->self = sp_value_object(cycler);
        method->name = next ? "next" : "reset";
        method->fn = next ? cycler_next : cycler_reset;
    }
    return SP_OK;
}

static enum sp_status call_cycler(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    (void)self;
    if (args->n_named) return sp_jinja_fail(m, "cycler() takes no keyword arguments");
    if (args->n == 0) return sp_jinja_fail(m, "at least one item has to be provided");
    if ((st = new_object(m, out, &object, SP_JINJA_CYCLER))) return st;
    object->name = "cycler";
    if ((st = sp_value_list(m->heap, &object->self, SP_SHAPE_TUPLE, args->n))) return st;
    for (size_t i = 0; i < args->n && !st; i++)
        st = sp_list_push(m->heap, object->self.list, args->at[i]);
    return st;
}

static enum sp_status call_missing(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_jinja_object *self, const struct sp_jinja_args *args)
{
    (void)out;
    (void)args;
    return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s() is not supported", self->name);
}

static const struct {
    const char *name;
    enum sp_status (*fn)(struct sp_jinja_machine *m, struct sp_value *out,
                         struct sp_jinja_object *self, const struct sp_jinja_args *args);
} globals[] = {
    {"range", call_range},           {"dict", call_dict},
    {"namespace", call_namespace},   {"raise_exception", call_raise},
    {"strftime_now", call_strftime}, {"joiner", call_joiner},
    {"cycler", call_cycler},         {"lipsum", call_missing},
};

enum sp_status sp_jinja_global(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value name)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    *out = (struct sp_value){.kind = SP_V_ABSENT};
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (!sp_text_is(name, globals[i].name)) continue;
        if ((st = new_object(m, out, &object, SP_JINJA_FUNCTION))) return st;
        object->name = globals[i].name;
        object->fn = globals[i].fn;
    }
    return SP_OK;
}
