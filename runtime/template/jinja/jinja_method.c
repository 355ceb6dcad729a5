/* Methods of texts and dictionaries. Python's other methods, among them those that would change a
 * value, which Jinja2's immutable sandbox forbids, are refused by name. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

enum sp_status sp_jinja_want_text(struct sp_jinja_machine *m, struct sp_value v)
{
    enum sp_status st;

    if (v.kind == SP_V_TEXT) return SP_OK;
    if ((st = sp_jinja_defined(m, v))) return st;
    return sp_jinja_fail(m, "a str is expected, not %s", sp_jinja_type_name(v));
}

/* ---- dictionaries ---- */

SP_JINJA_FUNCTION(dict_get)
{
    const struct sp_value *found;
    enum sp_status st;

    if (!sp_value_hashable(arg[0]))
        return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(arg[0]));
    st = sp_dict_find(m->heap, &found, in.dict, arg[0]);
    *out = found ? *found : arg[1].kind == SP_V_ABSENT ? sp_value_none() : arg[1];
    return st;
}

SP_JINJA_FUNCTION(dict_view)
{
    return sp_jinja_view(m, out, in.dict, (enum sp_value_shape)arg[SP_JINJA_HOW].integer);
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
SP_JINJA_FUNCTION(str_affix)
{
    enum sp_status st;
    const bool at_end = arg[SP_JINJA_HOW].integer & AT_END;
    const bool removes = arg[SP_JINJA_HOW].integer & REMOVES;
    struct sp_value wanted = arg[0];
    const struct sp_list one = {.at = &wanted, .n = 1}, *list = &one;

    if (!removes && wanted.kind == SP_V_LIST && wanted.shape == SP_SHAPE_TUPLE) list = wanted.list;
    *out = removes ? in : sp_value_bool(false);
    for (size_t i = 0; i < list->n; i++) {
        const struct sp_value part = list->at[i];
        const char *at;
        if ((st = sp_jinja_want_text(m, part))) return st;
        if ((st = sp_heap_charge(m->heap, 1 + part.len / 32))) return st;
        if (part.len > in.len) continue;
        at = at_end ? in.text + (in.len - part.len) : in.text;
        if (part.len > 0 && memcmp(at, part.text, part.len) != 0) continue;
        *out = sp_value_bool(true);
        if (removes) *out = sp_value_text(at_end ? in.text : in.text + part.len, in.len - part.len);
    }
    return SP_OK;
}

/* The byte offset of the last occurrence, or SIZE_MAX. */
static enum sp_status find_last(struct sp_jinja_machine *m, size_t *at, struct sp_value text,
                                struct sp_value what)
{
    *at = SIZE_MAX;
    for (size_t i = text.len < what.len ? 0 : text.len - what.len + 1; i > 0; i--) {
        enum sp_status st;
        if ((st = sp_heap_charge(m->heap, what.len / 8 + 1))) return st;
        if (what.len && memcmp(text.text + i - 1, what.text, what.len) != 0) continue;
        *at = i - 1;
        break;
    }
    return SP_OK;
}

enum { LAST = 1, MUST = 2 }; /* the last occurrence; there must be one */

SP_JINJA_FUNCTION(str_find)
{
    enum sp_status st;
    const int64_t how = arg[SP_JINJA_HOW].integer;
    size_t at;

    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    st = how & LAST ? find_last(m, &at, in, arg[0]) : sp_jinja_find(m, &at, in, arg[0], 0);
    if (st) return st;
    if (at == SIZE_MAX && how & MUST) return sp_jinja_fail(m, "substring not found");
    *out = sp_value_int(-1);
    if (at != SIZE_MAX)
        *out = sp_value_int((int64_t)sp_text_characters(sp_value_text(in.text, at)));
    return sp_heap_charge(m->heap, in.len / 16);
}

SP_JINJA_FUNCTION(str_count)
{
    enum sp_status st;
    size_t at = 0, from = 0;
    int64_t n = 0;

    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    if (arg[0].len == 0) {
        *out = sp_value_int((int64_t)sp_text_characters(in) + 1);
        return SP_OK;
    }
    for (;; n++) {
        if ((st = sp_jinja_find(m, &at, in, arg[0], from))) return st;
        if (at == SIZE_MAX) break;
        from = at + arg[0].len;
    }
    *out = sp_value_int(n);
    return SP_OK;
}

static enum sp_status push_part(struct sp_jinja_machine *m, struct sp_value *list,
                                const char *begin, const char *end)
{
    return sp_list_push(m->heap, list->list, sp_value_text(begin, (size_t)(end - begin)));
}

/* Splits at runs of whitespace; the rest after `limit` splits keeps its inner spaces. */
static enum sp_status split_space(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value text, int64_t limit)
{
    enum sp_status st = SP_OK;
    size_t pos = 0;

    while (!st) {
        size_t next;
        if ((st = sp_jinja_strip(m, &text, sp_value_text(text.text + pos, text.len - pos),
                                 (struct sp_value){0}, SP_JINJA_LEFT)))
            return st;
        if (text.len == 0) break;
        if (limit == 0) return push_part(m, out, text.text, text.text + text.len);
        limit -= limit > 0;
        pos = 0;
        for (next = 0; next < text.len; pos = next)
            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        if ((st = sp_heap_charge(m->heap, pos / 8))) return st;
        st = push_part(m, out, text.text, text.text + pos);
    }
    return st;
}

static enum sp_status rsplit_space(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_value text, int64_t limit)
{
    enum sp_status st = SP_OK;

    while (!st) {
        size_t pos, prev;
        if ((st = sp_jinja_strip(m, &text, text, (struct sp_value){0}, SP_JINJA_RIGHT))) return st;
        if (text.len == 0) break;
        if (limit == 0) return push_part(m, out, text.text, text.text + text.len);
        limit -= limit > 0;
        for (pos = text.len; pos > 0; pos = prev) {
            size_t next = prev = sp_utf8_prev(text.text, pos);
            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        }
        if ((st = sp_heap_charge(m->heap, (text.len - pos) / 8))) return st;
        st = push_part(m, out, text.text + pos, text.text + text.len);
        text.len = (uint32_t)pos;
    }
    return st;
}

/* Splits at a separator, from the right if `last`; the parts of rsplit come in reverse. */
static enum sp_status split_at(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value text, struct sp_value by, int64_t limit, bool last)
{
    enum sp_status st;
    size_t at;

    if ((st = sp_jinja_want_text(m, by))) return st;
    if (by.len == 0) return sp_jinja_fail(m, "empty separator");
    for (; limit != 0; limit -= limit > 0) {
        const char *begin = text.text, *end = begin + text.len;
        st = last ? find_last(m, &at, text, by) : sp_jinja_find(m, &at, text, by, 0);
        if (st) return st;
        if (at == SIZE_MAX) break;
        st = last ? push_part(m, out, begin + at + by.len, end)
                  : push_part(m, out, begin, begin + at);
        if (st) return st;
        text = last ? sp_value_text(begin, at)
                    : sp_value_text(begin + at + by.len, text.len - at - by.len);
    }
    return push_part(m, out, text.text, text.text + text.len);
}

SP_JINJA_FUNCTION(str_split)
{
    enum sp_status st;
    int64_t limit;

    if ((st = sp_jinja_want_integer(m, arg[1], -1, &limit))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    if (!sp_jinja_given(arg[0])) return split_space(m, out, in, limit);
    return split_at(m, out, in, arg[0], limit, false);
}

SP_JINJA_FUNCTION(str_rsplit)
{
    enum sp_status st;
    struct sp_value *at;
    int64_t limit;

    if ((st = sp_jinja_want_integer(m, arg[1], -1, &limit))) return st;
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    st = sp_jinja_given(arg[0]) ? split_at(m, out, in, arg[0], limit, true)
                                : rsplit_space(m, out, in, limit);
    at = out->list->at;
    for (size_t i = 0, k = out->list->n; i + 1 < k && !st; i++) {
        struct sp_value swap = at[i];
        at[i] = at[--k];
        at[k] = swap;
    }
    return st;
}

SP_JINJA_FUNCTION(str_partition)
{
    enum sp_status st;
    const bool last = arg[SP_JINJA_HOW].integer == LAST;
    const struct sp_value empty = sp_value_name(""), by = arg[0];
    struct sp_value parts[3] = {last ? empty : in, empty, last ? in : empty};
    size_t at;

    if ((st = sp_jinja_want_text(m, by))) return st;
    if (by.len == 0) return sp_jinja_fail(m, "empty separator");
    st = last ? find_last(m, &at, in, by) : sp_jinja_find(m, &at, in, by, 0);
    if (st || (st = sp_value_list(m->heap, out, SP_SHAPE_TUPLE, 3))) return st;
    if (at != SIZE_MAX) {
        parts[0] = sp_value_text(in.text, at);
        parts[1] = by;
        parts[2] = sp_value_text(in.text + at + by.len, in.len - at - by.len);
    }
    for (int i = 0; i < 3 && !st; i++)
        st = sp_list_push(m->heap, out->list, parts[i]);
    return st;
}

SP_JINJA_FUNCTION(str_splitlines)
{
    return sp_jinja_splitlines(m, out, in, sp_value_truth(arg[0]));
}

SP_JINJA_FUNCTION(str_strip)
{
    return sp_jinja_strip(m, out, in, arg[0], (enum sp_jinja_sides)arg[SP_JINJA_HOW].integer);
}

SP_JINJA_FUNCTION(str_recase)
{
    return sp_jinja_recase(m, out, in, (enum sp_jinja_case)arg[SP_JINJA_HOW].integer);
}

SP_JINJA_FUNCTION(str_replace)
{
    enum sp_status st;
    int64_t count;

    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    if ((st = sp_jinja_want_text(m, arg[1]))) return st;
    if ((st = sp_jinja_want_integer(m, arg[2], -1, &count))) return st;
    return sp_jinja_replace(m, out, in, arg[0], arg[1], count);
}

SP_JINJA_FUNCTION(str_join)
{
    enum sp_status st;
    const struct sp_list *items;
    struct sp_builder b = {.heap = m->heap};

    if ((st = sp_jinja_items(m, &items, arg[0]))) return st;
    for (size_t i = 0; i < items->n; i++) {
        if (items->at[i].kind != SP_V_TEXT) {
            return sp_jinja_fail(m, "sequence item %zu: expected str instance, %s found", i,
                                 sp_jinja_type_name(items->at[i]));
        }
        if (i && (st = sp_build(&b, in.text, in.len))) return st;
        if ((st = sp_build(&b, items->at[i].text, items->at[i].len))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

/* Finds the argument of a field of str.format: {}, {0} or {name}. `next` counts the fields {}. */
static enum sp_status field_value(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value field, const struct sp_jinja_args *args,
                                  size_t *next)
{
    size_t at = SIZE_MAX;

    if (field.len == 0) at = (*next)++;
    if (field.len == 1 && field.text[0] >= '0' && field.text[0] <= '9')
        at = (size_t)(field.text[0] - '0');
    out->kind = SP_V_ABSENT;
    if (at < args->n) *out = args->at[at];
    for (size_t i = 0; at == SIZE_MAX && i < args->n_named; i++)
        if (sp_text_order(args->names[i], field) == 0) *out = args->named[i];
    if (out->kind != SP_V_ABSENT) return SP_OK;
    return sp_jinja_fail(m, "format: no argument for field {%.*s}, which may be {}, {0} or {name}",
                         (int)(field.len < 60 ? field.len : 60), field.text);
}

static enum sp_status str_format(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value in, const struct sp_jinja_args *args, int how)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    size_t next = 0;

    (void)how;
    for (size_t pos = 0; pos < in.len && !st; pos++) {
        const char *c = in.text + pos, *end;
        struct sp_value v;
        if (*c == '{' || *c == '}') {
            if (pos + 1 < in.len && c[1] == *c) {
                pos++;
            } else {
                end = *c == '{' ? memchr(c, '}', in.len - pos) : NULL;
                if (end == NULL) return sp_jinja_fail(m, "format: a single '%c'", *c);
                st = field_value(m, &v, sp_value_text(c + 1, (size_t)(end - c) - 1), args, &next);
                if (!st) st = sp_jinja_build_str(&b, v);
                pos = (size_t)(end - in.text);
                continue;
            }
        }
        st = sp_build(&b, c, 1);
    }
    *out = sp_builder_value(&b);
    return st;
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
SP_JINJA_FUNCTION(str_is_class)
{
    static bool (*const is[])(uint32_t c) = {[ALPHA] = sp_unicode_is_alpha,
                                             [DIGIT] = is_digit,
                                             [ALNUM] = is_alnum,
                                             [SPACE] = sp_unicode_is_space};
    bool all = in.len > 0;

    for (size_t pos = 0; pos < in.len && all;)
        all = is[arg[SP_JINJA_HOW].integer](sp_utf8_next(in.text, in.len, &pos));
    *out = sp_value_bool(all);
    return sp_heap_charge(m->heap, in.len / 4);
}

SP_JINJA_FUNCTION(str_is_case)
{
    return sp_jinja_has_case(m, out, in, arg[SP_JINJA_HOW].integer == SP_JINJA_UPPER);
}

static const struct sp_jinja_function text_methods[] = {
    {"capitalize", "", str_recase, NULL, SP_JINJA_CAPITALIZE},
    {"count", "sub", str_count, NULL, 0},
    {"endswith", "suffix", str_affix, NULL, AT_END},
    {"find", "sub", str_find, NULL, 0},
    {"format", "", NULL, str_format, 0},
    {"index", "sub", str_find, NULL, MUST},
    {"isalnum", "", str_is_class, NULL, ALNUM},
    {"isalpha", "", str_is_class, NULL, ALPHA},
    {"isdigit", "", str_is_class, NULL, DIGIT},
    {"islower", "", str_is_case, NULL, SP_JINJA_LOWER},
    {"isspace", "", str_is_class, NULL, SPACE},
    {"isupper", "", str_is_case, NULL, SP_JINJA_UPPER},
    {"join", "iterable", str_join, NULL, 0},
    {"lower", "", str_recase, NULL, SP_JINJA_LOWER},
    {"lstrip", "chars=", str_strip, NULL, SP_JINJA_LEFT},
    {"partition", "sep", str_partition, NULL, 0},
    {"removeprefix", "prefix", str_affix, NULL, REMOVES},
    {"removesuffix", "suffix", str_affix, NULL, REMOVES | AT_END},
    {"replace", "old new count=", str_replace, NULL, 0},
    {"rfind", "sub", str_find, NULL, LAST},
    {"rpartition", "sep", str_partition, NULL, LAST},
    {"rsplit", "sep= maxsplit=", str_rsplit, NULL, 0},
    {"rstrip", "chars=", str_strip, NULL, SP_JINJA_RIGHT},
    {"split", "sep= maxsplit=", str_split, NULL, 0},
    {"splitlines", "keepends=", str_splitlines, NULL, 0},
    {"startswith", "prefix", str_affix, NULL, 0},
    {"strip", "chars=", str_strip, NULL, SP_JINJA_BOTH},
    {"title", "", str_recase, NULL, SP_JINJA_TITLE},
    {"upper", "", str_recase, NULL, SP_JINJA_UPPER},
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

static enum sp_status call_method(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_jinja_object *object, const struct sp_jinja_args *args)
{
    if (object->function != NULL) return sp_jinja_run(m, out, object->function, object->self, args);
    return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s.%s() is not supported in templates",
                   sp_jinja_type_name(object->self), object->name);
}

enum sp_status sp_jinja_method(struct sp_jinja_machine *m, struct sp_value *out, bool *found,
                               struct sp_value self, struct sp_value name)
{
    static const struct sp_jinja_function none[] = {{NULL, NULL, NULL, NULL, 0}};
    enum sp_status st;
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
    *found = function != NULL || *refused != NULL;
    if (!*found) return SP_OK;
    if ((st = sp_heap_take(m->heap, &object, sizeof *object))) return st;
    object->kind = SP_JINJA_CALLABLE;
    object->name = function ? function->name : *refused;
    object->function = function;
    object->call = call_method;
    object->self = self;
    *out = sp_value_object(object);
    return SP_OK;
}
