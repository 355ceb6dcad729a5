/* Methods of texts and dictionaries. Python's other methods, among them those that would change a
 * value, which Jinja2's immutable sandbox forbids, are refused by name. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

bool sp_jinja_want_text(struct sp_jinja_machine *m, struct sp_value v)
{
    if (v.kind != SP_V_TEXT && sp_jinja_defined(m, v))
        sp_jinja_fail(m, "a str is expected, not %s", sp_jinja_type_name(v));
    return v.kind == SP_V_TEXT;
}

/* ---- dictionaries ---- */

static SP_JINJA_FUNCTION(dict_get)
{
    const struct sp_value *found;

    if (!sp_value_hashable(arg[0]))
        return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(arg[0]));
    found = sp_dict_find(m->heap, in.dict, arg[0]);
    return found ? *found : arg[1].kind == SP_V_ABSENT ? sp_value_none() : arg[1];
}

static SP_JINJA_FUNCTION(dict_view)
{
    return sp_jinja_view(m, in.dict, (enum sp_value_shape)how);
}

static const struct sp_jinja_function dict_methods[] = {
    {"get", "key default=", dict_get, NULL, 0},
    {"items", "", dict_view, NULL, SP_SHAPE_ITEMS},
    {"keys", "", dict_view, NULL, SP_SHAPE_KEYS},
    {"values", "", dict_view, NULL, SP_SHAPE_VALUES},
    {NULL, NULL, NULL, NULL, 0},
};

/* ---- texts that search for another text ---- */

enum { AT_END = 1, REMOVES = 2 }; /* how affixes are found, and what is made of them */

/* Tells whether a text begins or ends with another, or with one of a tuple; or removes it. */
static SP_JINJA_FUNCTION(str_affix)
{
    const bool at_end = how & AT_END, removes = how & REMOVES;
    struct sp_value wanted = arg[0], out = removes ? in : sp_value_bool(false);
    const struct sp_list one = {.at = &wanted, .n = 1}, *list = &one;

    if (!removes && wanted.kind == SP_V_LIST && wanted.shape == SP_SHAPE_TUPLE) list = wanted.list;
    for (size_t i = 0; i < list->n; i++) {
        const struct sp_value part = list->at[i];
        const char *at;
        if (!sp_jinja_want_text(m, part) || !sp_heap_charge(m->heap, 1 + part.len / 32)) break;
        if (part.len > in.len) continue;
        at = at_end ? in.text + (in.len - part.len) : in.text;
        if (part.len > 0 && memcmp(at, part.text, part.len) != 0) continue;
        out = sp_value_bool(true);
        if (removes) out = sp_value_text(at_end ? in.text : in.text + part.len, in.len - part.len);
    }
    return out;
}

/* The byte offset of the first or last occurrence, or SIZE_MAX. */
static size_t find_end(struct sp_jinja_machine *m, struct sp_value text, struct sp_value what,
                       bool last)
{
    if (!last) return sp_jinja_find(m, text, what, 0);
    for (size_t i = text.len < what.len ? 0 : text.len - what.len + 1; i > 0; i--) {
        if (!sp_heap_charge(m->heap, what.len / 8 + 1)) break;
        if (what.len == 0 || memcmp(text.text + i - 1, what.text, what.len) == 0) return i - 1;
    }
    return SIZE_MAX;
}

enum { LAST = 1, MUST = 2 }; /* the last occurrence; there must be one */

static SP_JINJA_FUNCTION(str_find)
{
    size_t at;

    if (!sp_jinja_want_text(m, arg[0])) return SP_VALUE_ABSENT;
    at = find_end(m, in, arg[0], how & LAST);
    if (at == SIZE_MAX && how & MUST) return sp_jinja_fail(m, "substring not found");
    if (at == SIZE_MAX || !sp_heap_charge(m->heap, in.len / 16)) return sp_value_int(-1);
    return sp_value_int((int64_t)sp_text_characters(sp_value_text(in.text, at)));
}

static SP_JINJA_FUNCTION(str_count)
{
    size_t at;
    int64_t n = 0;

    if (!sp_jinja_want_text(m, arg[0])) return SP_VALUE_ABSENT;
    if (arg[0].len == 0) return sp_value_int((int64_t)sp_text_characters(in) + 1);
    for (size_t from = 0; (at = sp_jinja_find(m, in, arg[0], from)) != SIZE_MAX; n++)
        from = at + arg[0].len;
    return sp_value_int(n);
}

static void push_part(struct sp_jinja_machine *m, struct sp_value list, const char *begin,
                      const char *end)
{
    sp_list_push(m->heap, list.list, sp_value_text(begin, (size_t)(end - begin)));
}

/* Splits at runs of whitespace; the rest after `limit` splits keeps its inner spaces. */
static void split_space(struct sp_jinja_machine *m, struct sp_value out, struct sp_value text,
                        int64_t limit)
{
    size_t pos = 0, next;

    while (!m->heap->status) {
        text = sp_jinja_strip(m, sp_value_text(text.text + pos, text.len - pos), &SP_VALUE_ABSENT,
                              SP_JINJA_LEFT);
        if (text.len == 0) break;
        pos = limit == 0 ? text.len : 0;
        limit -= limit > 0;
        for (next = pos; next < text.len; pos = next)
            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        sp_heap_charge(m->heap, pos / 8);
        push_part(m, out, text.text, text.text + pos);
    }
}

static void rsplit_space(struct sp_jinja_machine *m, struct sp_value out, struct sp_value text,
                         int64_t limit)
{
    while (!m->heap->status) {
        size_t pos, prev;
        text = sp_jinja_strip(m, text, &SP_VALUE_ABSENT, SP_JINJA_RIGHT);
        if (text.len == 0) break;
        for (pos = limit == 0 ? 0 : text.len; pos > 0; pos = prev) {
            size_t next = prev = sp_utf8_prev(text.text, pos);
            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        }
        limit -= limit > 0;
        sp_heap_charge(m->heap, (text.len - pos) / 8);
        push_part(m, out, text.text + pos, text.text + text.len);
        text.len = (uint32_t)pos;
    }
}

/* Splits at a separator, from the right if `last`; the parts of rsplit come in reverse. */
static void split_at(struct sp_jinja_machine *m, struct sp_value out, struct sp_value text,
                     struct sp_value by, int64_t limit, bool last)
{
    size_t at;

    if (!sp_jinja_want_text(m, by)) return;
    if (by.len == 0) sp_jinja_fail(m, "empty separator");
    for (; limit != 0 && !m->heap->status; limit -= limit > 0) {
        const char *begin = text.text, *end = begin + text.len;
        if ((at = find_end(m, text, by, last)) == SIZE_MAX) break;
        push_part(m, out, last ? begin + at + by.len : begin, last ? end : begin + at);
        text = last ? sp_value_text(begin, at)
                    : sp_value_text(begin + at + by.len, text.len - at - by.len);
    }
    push_part(m, out, text.text, text.text + text.len);
}

static SP_JINJA_FUNCTION(str_split)
{
    int64_t limit = sp_jinja_want_integer(m, arg[1], -1);
    struct sp_value out = sp_value_list(m->heap, SP_SHAPE_PLAIN, 0), *at;

    if (sp_jinja_given(arg[0]))
        split_at(m, out, in, arg[0], limit, how & LAST);
    else
        (how & LAST ? rsplit_space : split_space)(m, out, in, limit);
    at = out.list->at;
    for (size_t i = 0, k = how & LAST ? out.list->n : 0; i + 1 < k; i++) {
        struct sp_value swap = at[i];
        at[i] = at[--k];
        at[k] = swap;
    }
    return out;
}

static SP_JINJA_FUNCTION(str_partition)
{
    const bool last = how == LAST;
    const struct sp_value empty = sp_value_name(""), by = arg[0];
    struct sp_value parts[3] = {last ? empty : in, empty, last ? in : empty}, out;
    size_t at;

    if (!sp_jinja_want_text(m, by)) return SP_VALUE_ABSENT;
    if (by.len == 0) return sp_jinja_fail(m, "empty separator");
    at = find_end(m, in, by, last);
    out = sp_value_list(m->heap, SP_SHAPE_TUPLE, 3);
    if (at != SIZE_MAX) {
        parts[0] = sp_value_text(in.text, at);
        parts[1] = by;
        parts[2] = sp_value_text(in.text + at + by.len, in.len - at - by.len);
    }
    for (int i = 0; i < 3; i++)
        sp_list_push(m->heap, out.list, parts[i]);
    return out;
}

static SP_JINJA_FUNCTION(str_replace)
{
    if (!sp_jinja_want_text(m, arg[0]) || !sp_jinja_want_text(m, arg[1])) return SP_VALUE_ABSENT;
    return sp_jinja_replace(m, in, arg[0], arg[1], sp_jinja_want_integer(m, arg[2], -1));
}

static SP_JINJA_FUNCTION(str_join)
{
    const struct sp_list *items = sp_jinja_items(m, arg[0]);
    struct sp_builder b = {.heap = m->heap};

    for (size_t i = 0; i < items->n; i++) {
        if (items->at[i].kind != SP_V_TEXT) {
            return sp_jinja_fail(m, "sequence item %zu: expected str instance, %s found", i,
                                 sp_jinja_type_name(items->at[i]));
        }
        if (i) sp_build_value(&b, in);
        sp_build_value(&b, items->at[i]);
    }
    return sp_builder_value(&b);
}

/* Finds the argument of a field of str.format: {}, {0} or {name}. `next` counts the fields {}. */
static struct sp_value field_value(struct sp_jinja_machine *m, struct sp_value field,
                                   const struct sp_jinja_args *args, size_t *next)
{
    size_t at = SIZE_MAX;

    if (field.len == 0) at = (*next)++;
    if (field.len == 1 && field.text[0] >= '0' && field.text[0] <= '9')
        at = (size_t)(field.text[0] - '0');
    if (at < args->n) return args->at[at];
    for (size_t i = args->n_named; at == SIZE_MAX && i > 0; i--)
        if (sp_text_order(args->names[i - 1], field) == 0) return args->named[i - 1];
    return sp_jinja_fail(m, "format: no argument for field {%.*s}, which may be {}, {0} or {name}",
                         (int)(field.len < 60 ? field.len : 60), field.text);
}

static SP_JINJA_FUNCTION_ANY(str_format)
{
    struct sp_builder b = {.heap = m->heap};
    size_t next = 0;

    for (size_t pos = 0; pos < in.len && !m->heap->status; pos++) {
        const char *c = in.text + pos, *end;
        if ((*c == '{' || *c == '}') && pos + 1 < in.len && c[1] == *c) {
            pos++;
        } else if (*c == '{' || *c == '}') {
            struct sp_value field;
            end = *c == '{' ? memchr(c, '}', in.len - pos) : NULL;
            if (end == NULL) return sp_jinja_fail(m, "format: a single '%c'", *c);
            field = sp_value_text(c + 1, (size_t)(end - c) - 1);
            sp_jinja_build_str(&b, field_value(m, field, args, &next));
            pos = (size_t)(end - in.text);
            continue;
        }
        sp_build(&b, c, 1);
    }
    return sp_builder_value(&b);
}

/* ---- texts by the kind of their characters ---- */

static bool is_alnum(uint32_t c)
{
    return sp_unicode_is_alpha(c) || sp_unicode_is_numeric(c);
}

/* Decimal digits, and digits outside positional systems (superscripts). */
static bool is_digit(uint32_t c)
{
    return sp_unicode_is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}

enum class { ALPHA, DIGIT, ALNUM, SPACE };

/* True if a text is not empty and all its characters are of a class. */
static SP_JINJA_FUNCTION(str_is_class)
{
    static bool (*const is[])(uint32_t c) = {[ALPHA] = sp_unicode_is_alpha,
                                             [DIGIT] = is_digit,
                                             [ALNUM] = is_alnum,
                                             [SPACE] = sp_unicode_is_space};
    bool all = in.len > 0;

    for (size_t pos = 0; pos < in.len && all;)
        all = is[how](sp_utf8_next(in.text, in.len, &pos));
    sp_heap_charge(m->heap, in.len / 4);
    return sp_value_bool(all);
}

static const struct sp_jinja_function text_methods[] = {
    {"capitalize", "", sp_jinja_recase, NULL, SP_JINJA_CAPITALIZE},
    {"count", "sub", str_count, NULL, 0},
    {"endswith", "suffix", str_affix, NULL, AT_END},
    {"find", "sub", str_find, NULL, 0},
    {"format", "", NULL, str_format, 0},
    {"index", "sub", str_find, NULL, MUST},
    {"isalnum", "", str_is_class, NULL, ALNUM},
    {"isalpha", "", str_is_class, NULL, ALPHA},
    {"isdigit", "", str_is_class, NULL, DIGIT},
    {"islower", "", sp_jinja_has_case, NULL, SP_JINJA_LOWER},
    {"isspace", "", str_is_class, NULL, SPACE},
    {"isupper", "", sp_jinja_has_case, NULL, SP_JINJA_UPPER},
    {"join", "iterable", str_join, NULL, 0},
    {"lower", "", sp_jinja_recase, NULL, SP_JINJA_LOWER},
    {"lstrip", "chars=", sp_jinja_strip, NULL, SP_JINJA_LEFT},
    {"partition", "sep", str_partition, NULL, 0},
    {"removeprefix", "prefix", str_affix, NULL, REMOVES},
    {"removesuffix", "suffix", str_affix, NULL, REMOVES | AT_END},
    {"replace", "old new count=", str_replace, NULL, 0},
    {"rfind", "sub", str_find, NULL, LAST},
    {"rpartition", "sep", str_partition, NULL, LAST},
    {"rsplit", "sep= maxsplit=", str_split, NULL, LAST},
    {"rstrip", "chars=", sp_jinja_strip, NULL, SP_JINJA_RIGHT},
    {"split", "sep= maxsplit=", str_split, NULL, 0},
    {"splitlines", "keepends=", sp_jinja_splitlines, NULL, 0},
    {"startswith", "prefix", str_affix, NULL, 0},
    {"strip", "chars=", sp_jinja_strip, NULL, SP_JINJA_BOTH},
    {"title", "", sp_jinja_recase, NULL, SP_JINJA_TITLE},
    {"upper", "", sp_jinja_recase, NULL, SP_JINJA_UPPER},
    {NULL, NULL, NULL, NULL, 0},
};

/* ---- lookup ---- */

static const char *const refused_text[] = {
    "casefold", "center",    "encode", "expandtabs",   "format_map", "isascii",     "isdecimal",
    "ljust",    "isnumeric", "rjust",  "isidentifier", "istitle",    "isprintable", "maketrans",
    "rindex",   "swapcase",  "zfill",  "translate",    NULL};
static const char *const refused_dict[] = {"clear",   "copy",       "fromkeys", "pop",
                                           "popitem", "setdefault", "update",   NULL};
static const char *const refused_list[] = {"append", "clear",   "copy",   "count",
                                           "extend", "index",   "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};

static struct sp_value call_method(struct sp_jinja_machine *m, struct sp_jinja_object *object,
                                   const struct sp_jinja_args *args)
{
    if (object->function != NULL) return sp_jinja_run(m, object->function, object->self, args);
    return sp_heap_fail(m->heap, SP_E_UNSUPPORTED, "%s.%s() is not supported in templates",
                        sp_jinja_type_name(object->self), object->name);
}

struct sp_value sp_jinja_method(struct sp_jinja_machine *m, struct sp_value self,
                                struct sp_value name)
{
    static const struct sp_jinja_function none[] = {{NULL, NULL, NULL, NULL, 0}};
    const struct sp_jinja_function *function, *table = none;
    const char *const *refused = &refused_list[sizeof refused_list / sizeof *refused_list - 1];
    struct sp_jinja_object *object;

    if (self.kind == SP_V_TEXT) {
        table = text_methods;
        refused = refused_text;
    } else if (self.kind == SP_V_DICT) {
        table = dict_methods;
        refused = refused_dict;
    } else if (self.kind == SP_V_LIST) {
        refused = refused_list;
    }
    function = sp_jinja_find_row(table, name);
    while (function == NULL && *refused != NULL && !sp_text_is(name, *refused))
        refused++;
    if (function == NULL && *refused == NULL) return SP_VALUE_ABSENT;
    object = sp_jinja_new_object(m, SP_JINJA_CALLABLE);
    object->name = function ? function->name : *refused;
    object->function = function;
    object->call = call_method;
    object->self = self;
    return sp_value_object(object);
}
