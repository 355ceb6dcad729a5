/* Methods of lists and dictionaries, and the lookup of all methods. Methods that would change a
 * value are refused, as in Jinja2's immutable sandbox; Python methods that are not supported are
 * refused by name. */
#include "runtime/template/jinja/jinja_method.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_format.h"
#include "runtime/template/jinja/jinja_object.h"
#include "runtime/template/jinja/jinja_ops.h"

enum { N_TEXT_TABLES = 3 };

enum sp_status sp_jinja_want_text(struct sp_jinja_machine *m, struct sp_value v)
{
    enum sp_status st;

    if (v.kind == SP_V_TEXT) return SP_OK;
    if ((st = sp_jinja_defined(m, v))) return st;
    return sp_jinja_fail(m, "a str is expected, not %s", sp_jinja_type_name(v));
}

SP_METHOD(dict_get)
{
    const struct sp_value *found;
    enum sp_status st;

    if (!sp_value_hashable(arg[0]))
        return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(arg[0]));
    st = sp_dict_find(m->heap, &found, self.dict, arg[0]);
    *out = found ? *found : arg[1].kind == SP_V_ABSENT ? sp_value_none() : arg[1];
    return st;
}

/* Makes the list of a dictionary's keys, values or pairs. */
static enum sp_status view(struct sp_jinja_machine *m, struct sp_value *out,
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

SP_METHOD(dict_keys)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_KEYS);
}

SP_METHOD(dict_values)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_VALUES);
}

SP_METHOD(dict_items)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_ITEMS);
}

SP_METHOD(dict_copy)
{
    enum sp_status st;

    (void)arg;
    st = sp_value_dict(m->heap, out);
    for (size_t i = 0; i < self.dict->n && !st; i++)
        st = sp_dict_set(m->heap, out->dict, self.dict->at[i].key, self.dict->at[i].value);
    return st;
}

SP_METHOD(list_count)
{
    enum sp_status st = SP_OK;
    int64_t n = 0;

    for (size_t i = 0; i < self.list->n && !st; i++) {
        bool same;

        st = sp_value_equal(m->heap, &same, self.list->at[i], arg[0]);
        n += !st && same;
    }
    *out = sp_value_int(n);
    return st;
}

SP_METHOD(list_index)
{
    enum sp_status st;

    for (size_t i = 0; i < self.list->n; i++) {
        bool same;

        if ((st = sp_value_equal(m->heap, &same, self.list->at[i], arg[0]))) return st;
        if (!same) continue;
        *out = sp_value_int((int64_t)i);
        return SP_OK;
    }
    return sp_jinja_fail(m, "value is not in list");
}

SP_METHOD(list_copy)
{
    const struct sp_value all[3] = {{0}, {0}, {0}};

    (void)arg;
    return sp_jinja_slice(m, out, self, all);
}

static const struct sp_jinja_method dict_methods[] = {
    {"copy", "", dict_copy}, {"get", "key default=", dict_get}, {"items", "", dict_items},
    {"keys", "", dict_keys}, {"values", "", dict_values},       {NULL, NULL, NULL},
};

static const struct sp_jinja_method list_methods[] = {
    {"copy", "", list_copy},
    {"count", "value", list_count},
    {"index", "value", list_index},
    {NULL, NULL, NULL},
};

static const struct sp_jinja_method tuple_methods[] = {
    {"count", "value", list_count},
    {"index", "value", list_index},
    {NULL, NULL, NULL},
};

/* Methods of Python that a template may not call: they change the value or are not supported. */
static const char *const refused_str[] = {
    "encode", "format_map", "isidentifier", "isprintable", "translate", "maketrans", NULL};
static const char *const refused_dict[] = {"clear",  "pop",      "popitem", "setdefault",
                                           "update", "fromkeys", NULL};
static const char *const refused_list[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};

static enum sp_status call_method(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *object, const struct sp_jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[SP_JINJA_MAX_ARGS];

    if (object->method == NULL) {
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s.%s() is not supported in templates",
                       sp_jinja_type_name(object->self), object->name);
    }
    if ((st = sp_heap_charge_reading(m->heap, &object->self, 1)) ||
        (st = sp_jinja_charge_args(m, args)))
        return st;
    if (object->method->run == NULL) return sp_jinja_format(m, out, object->self, args);
    if ((st = sp_jinja_bind(m, object->name, object->method->params, args, slot))) return st;
    return object->method->run(m, out, object->self, slot);
}

static enum sp_status bind_method(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value self, const char *name,
                                  const struct sp_jinja_method *method)
{
    enum sp_status st;
    struct sp_jinja_object *object;

    if ((st = sp_heap_take(m->heap, &object, sizeof *object))) return st;
    object->kind = SP_JINJA_METHOD;
    object->name = name;
    object->method = method;
    object->fn = call_method;
    object->self = self;
    *out = sp_value_object(object);
    return SP_OK;
}

enum sp_status sp_jinja_method(struct sp_jinja_machine *m, struct sp_value *out, bool *found,
                               struct sp_value self, struct sp_value name)
{
    const struct sp_jinja_method *methods[N_TEXT_TABLES] = {NULL};
    const char *const *refused = NULL;

    *found = true;
    if (self.kind == SP_V_TEXT) {
        methods[0] = sp_jinja_text_methods;
        methods[1] = sp_jinja_find_methods;
        methods[2] = sp_jinja_is_methods;
        refused = refused_str;
    } else if (self.kind == SP_V_DICT) {
        methods[0] = dict_methods;
        refused = refused_dict;
    } else if (self.kind == SP_V_LIST && self.shape == SP_SHAPE_PLAIN) {
        methods[0] = list_methods;
        refused = refused_list;
    } else if (self.kind == SP_V_LIST &&
               (self.shape == SP_SHAPE_TUPLE || self.shape == SP_SHAPE_RANGE)) {
        methods[0] = tuple_methods;
    }
    for (size_t i = 0; i < N_TEXT_TABLES && methods[i] != NULL; i++) {
        for (const struct sp_jinja_method *row = methods[i]; row->name != NULL; row++)
            if (sp_text_is(name, row->name)) return bind_method(m, out, self, row->name, row);
    }
    for (; refused != NULL && *refused != NULL; refused++)
        if (sp_text_is(name, *refused)) return bind_method(m, out, self, *refused, NULL);
    *found = false;
    return SP_OK;
}
