/* Methods of texts, lists and dictionaries. Those that would change a value are refused, as in
 * Jinja2's immutable sandbox; those of Python's that are missing here are refused by name. */
#include "format/letters.h"
#include "format/unicode.h"
#include "runtime/jinja_builtin.h"

#include <stdio.h>
#include <string.h>

struct jinja_method {
    const char *name;
    const char *params;
    enum sp_status (*run)(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                          const struct sp_value *arg);
};

#define METHOD(name)                                                                               \
    static enum sp_status name(struct jinja_machine *m, struct sp_value *out,                      \
                               struct sp_value self, const struct sp_value *arg)

static bool given(struct sp_value v)
{
    return v.kind != SP_V_ABSENT && v.kind != SP_V_NONE;
}

static enum sp_status want_text(struct jinja_machine *m, struct sp_value v)
{
    enum sp_status st;

    if (v.kind == SP_V_TEXT) return SP_OK;
    if ((st = sp_jinja_defined(m, v))) return st;
    return sp_jinja_fail(m, "a str is expected, not %s", sp_jinja_type_name(v));
}

static enum sp_status want_integer(struct jinja_machine *m, struct sp_value v, int64_t otherwise,
                                   int64_t *out)
{
    enum sp_status st;

    *out = otherwise;
    if (v.kind == SP_V_ABSENT) return SP_OK;
    if ((st = sp_jinja_defined(m, v))) return st;
    if (v.kind != SP_V_INT && v.kind != SP_V_BOOL) {
        return sp_jinja_fail(m, "'%s' object cannot be interpreted as an integer",
                             sp_jinja_type_name(v));
    }
    *out = v.kind == SP_V_BOOL ? v.truth : v.integer;
    return SP_OK;
}

METHOD(str_strip)
{
    return sp_jinja_strip(m, out, self, arg[0], JINJA_BOTH);
}

METHOD(str_lstrip)
{
    return sp_jinja_strip(m, out, self, arg[0], JINJA_LEFT);
}

METHOD(str_rstrip)
{
    return sp_jinja_strip(m, out, self, arg[0], JINJA_RIGHT);
}

METHOD(str_upper)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, JINJA_UPPER);
}

METHOD(str_lower)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, JINJA_LOWER);
}

METHOD(str_title)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, JINJA_TITLE);
}

METHOD(str_capitalize)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, JINJA_CAPITALIZE);
}

METHOD(str_swapcase)
{
    (void)arg;
    return sp_jinja_recase(m, out, self, JINJA_SWAP);
}

METHOD(str_replace)
{
    enum sp_status st;
    int64_t count;

    if ((st = want_text(m, arg[0])) || (st = want_text(m, arg[1])) ||
        (st = want_integer(m, arg[2], -1, &count))) {
        return st;
    }
    return sp_jinja_replace(m, out, self, arg[0], arg[1], count);
}

/* self[arg[i]:arg[i+1]] for the methods that take a range, with its first character's index. */
static enum sp_status cut(struct jinja_machine *m, struct sp_value *out, size_t *begin,
                          struct sp_value self, const struct sp_value *range)
{
    enum sp_status st;
    const struct sp_value bound[3] = {range[0], range[1], {0}};

    *out = self;
    *begin = 0;
    if (!given(range[0]) && !given(range[1])) return SP_OK;
    if ((st = sp_jinja_slice(m, out, self, bound))) return st;
    if (self.len) {
        *begin = sp_jinja_text_len(sp_value_text(self.text, (size_t)(out->text - self.text)));
    }
    return SP_OK;
}

static enum sp_status affix(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                            const struct sp_value *arg, bool at_end)
{
    enum sp_status st;
    struct sp_list one = {.at = NULL, .n = 1};
    struct sp_value text, wanted = arg[0];
    const struct sp_list *list = &one;
    size_t begin;

    if ((st = cut(m, &text, &begin, self, arg + 1))) return st;
    one.at = &wanted;
    if (wanted.kind == SP_V_LIST && wanted.shape == SP_SHAPE_TUPLE) list = wanted.list;
    *out = sp_value_bool(false);
    for (size_t i = 0; i < list->n; i++) {
        const struct sp_value part = list->at[i];
        const char *at;

        if ((st = want_text(m, part))) return st;
        if (part.len > text.len) continue;
        at = at_end ? text.text + (text.len - part.len) : text.text;
        if (part.len == 0 || memcmp(at, part.text, part.len) == 0) *out = sp_value_bool(true);
    }
    return SP_OK;
}

METHOD(str_startswith)
{
    return affix(m, out, self, arg, false);
}

METHOD(str_endswith)
{
    return affix(m, out, self, arg, true);
}

/* The last occurrence, or SIZE_MAX. */
static enum sp_status find_last(struct jinja_machine *m, size_t *at, struct sp_value text,
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

/* The index of arg[0] in characters; -1: it does not occur. */
static enum sp_status locate(struct jinja_machine *m, int64_t *out, struct sp_value self,
                             const struct sp_value *arg, bool last)
{
    enum sp_status st;
    struct sp_value text;
    size_t begin, at;

    if ((st = want_text(m, arg[0])) || (st = cut(m, &text, &begin, self, arg + 1))) return st;
    st = last ? find_last(m, &at, text, arg[0]) : sp_jinja_find(m, &at, text, arg[0], 0);
    if (st) return st;
    *out = at == SIZE_MAX ? -1 : (int64_t)(begin + sp_jinja_text_len(sp_value_text(text.text, at)));
    return sp_heap_charge(m->heap, text.len / 16);
}

static enum sp_status find_or_fail(struct jinja_machine *m, struct sp_value *out,
                                   struct sp_value self, const struct sp_value *arg, bool last,
                                   bool fail)
{
    enum sp_status st;
    int64_t at = 0;

    if ((st = locate(m, &at, self, arg, last))) return st;
    if (at < 0 && fail) return sp_jinja_fail(m, "substring not found");
    *out = sp_value_int(at);
    return SP_OK;
}

METHOD(str_find)
{
    return find_or_fail(m, out, self, arg, false, false);
}

METHOD(str_rfind)
{
    return find_or_fail(m, out, self, arg, true, false);
}

METHOD(str_index)
{
    return find_or_fail(m, out, self, arg, false, true);
}

METHOD(str_rindex)
{
    return find_or_fail(m, out, self, arg, true, true);
}

METHOD(str_count)
{
    enum sp_status st;
    struct sp_value text;
    size_t begin, at = 0, from = 0;
    int64_t n = 0;

    if ((st = want_text(m, arg[0])) || (st = cut(m, &text, &begin, self, arg + 1))) return st;
    if (arg[0].len == 0) {
        *out = sp_value_int((int64_t)sp_jinja_text_len(text) + 1);
        return SP_OK;
    }
    for (;;) {
        if ((st = sp_jinja_find(m, &at, text, arg[0], from))) return st;
        if (at == SIZE_MAX) break;
        from = at + arg[0].len;
        n++;
    }
    *out = sp_value_int(n);
    return SP_OK;
}

METHOD(str_join)
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
        if (i && (st = sp_build(&b, self.text, self.len))) return st;
        if ((st = sp_build(&b, items->at[i].text, items->at[i].len))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

static enum sp_status push_part(struct jinja_machine *m, struct sp_value *list, const char *begin,
                                const char *end)
{
    return sp_list_push(m->heap, list->list, sp_value_text(begin, (size_t)(end - begin)));
}

/* Words between runs of white space; what remains after `limit` splits keeps its inner spaces. */
static enum sp_status split_space(struct jinja_machine *m, struct sp_value *out,
                                  struct sp_value text, int64_t limit)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);
    size_t pos = 0;

    while (!st) {
        size_t next, begin;

        if ((st = sp_jinja_strip(m, &text, sp_value_text(text.text + pos, text.len - pos),
                                 (struct sp_value){0}, JINJA_LEFT))) {
            return st;
        }
        if (text.len == 0) break;
        if (limit-- == 0) return push_part(m, out, text.text, text.text + text.len);
        begin = pos = 0;
        for (next = 0; next < text.len; pos = next) {
            if (sp_letter_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        }
        if ((st = sp_heap_charge(m->heap, pos / 8))) return st;
        st = push_part(m, out, text.text + begin, text.text + pos);
    }
    return st;
}

static void reverse_list(struct sp_list *list)
{
    for (size_t i = 0; i < list->n / 2; i++) {
        struct sp_value swap = list->at[i];

        list->at[i] = list->at[list->n - 1 - i];
        list->at[list->n - 1 - i] = swap;
    }
}

static enum sp_status rsplit_space(struct jinja_machine *m, struct sp_value *out,
                                   struct sp_value text, int64_t limit)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);

    while (!st) {
        size_t pos, prev;

        if ((st = sp_jinja_strip(m, &text, text, (struct sp_value){0}, JINJA_RIGHT))) return st;
        if (text.len == 0) break;
        if (limit-- == 0) {
            st = push_part(m, out, text.text, text.text + text.len);
            break;
        }
        for (pos = text.len; pos > 0; pos = prev) {
            size_t next = prev = sp_utf8_prev(text.text, pos);

            if (sp_letter_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        }
        if ((st = sp_heap_charge(m->heap, (text.len - pos) / 8))) return st;
        st = push_part(m, out, text.text + pos, text.text + text.len);
        text.len = (uint32_t)pos;
    }
    if (!st) reverse_list(out->list);
    return st;
}

METHOD(str_split)
{
    enum sp_status st;
    size_t from = 0, at;
    int64_t limit;

    if ((st = want_integer(m, arg[1], -1, &limit))) return st;
    if (!given(arg[0])) return split_space(m, out, self, limit);
    if ((st = want_text(m, arg[0]))) return st;
    if (arg[0].len == 0) return sp_jinja_fail(m, "empty separator");
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    while (limit-- != 0) {
        if ((st = sp_jinja_find(m, &at, self, arg[0], from))) return st;
        if (at == SIZE_MAX) break;
        if ((st = push_part(m, out, self.text + from, self.text + at))) return st;
        from = at + arg[0].len;
    }
    return push_part(m, out, self.text + from, self.text + self.len);
}

METHOD(str_rsplit)
{
    enum sp_status st;
    struct sp_value text = self;
    size_t at;
    int64_t limit;

    if ((st = want_integer(m, arg[1], -1, &limit))) return st;
    if (!given(arg[0])) return rsplit_space(m, out, self, limit);
    if ((st = want_text(m, arg[0]))) return st;
    if (arg[0].len == 0) return sp_jinja_fail(m, "empty separator");
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    while (limit-- != 0) {
        if ((st = find_last(m, &at, text, arg[0]))) return st;
        if (at == SIZE_MAX) break;
        if ((st = push_part(m, out, text.text + at + arg[0].len, text.text + text.len))) return st;
        text.len = (uint32_t)at;
    }
    if ((st = push_part(m, out, text.text, text.text + text.len))) return st;
    reverse_list(out->list);
    return SP_OK;
}

static enum sp_status partition(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                                struct sp_value by, bool last)
{
    enum sp_status st;
    const char *end = self.text + self.len;
    size_t at;

    if ((st = want_text(m, by))) return st;
    if (by.len == 0) return sp_jinja_fail(m, "empty separator");
    st = last ? find_last(m, &at, self, by) : sp_jinja_find(m, &at, self, by, 0);
    if (st || (st = sp_value_list(m->heap, out, SP_SHAPE_TUPLE, 3))) return st;
    if (at == SIZE_MAX) {
        if (last && (st = push_part(m, out, "", ""))) return st;
        if (last && (st = push_part(m, out, "", ""))) return st;
        if ((st = sp_list_push(m->heap, out->list, self)) || last) return st;
        if ((st = push_part(m, out, end, end))) return st;
        return push_part(m, out, end, end);
    }
    if ((st = push_part(m, out, self.text, self.text + at))) return st;
    if ((st = sp_list_push(m->heap, out->list, by))) return st;
    return push_part(m, out, self.text + at + by.len, end);
}

METHOD(str_partition)
{
    return partition(m, out, self, arg[0], false);
}

METHOD(str_rpartition)
{
    return partition(m, out, self, arg[0], true);
}

METHOD(str_splitlines)
{
    return sp_jinja_splitlines(m, out, self, sp_value_truth(arg[0]));
}

METHOD(str_removeprefix)
{
    enum sp_status st;

    if ((st = want_text(m, arg[0]))) return st;
    *out = self;
    if (arg[0].len && arg[0].len <= self.len && memcmp(self.text, arg[0].text, arg[0].len) == 0) {
        *out = sp_value_text(self.text + arg[0].len, self.len - arg[0].len);
    }
    return SP_OK;
}

METHOD(str_removesuffix)
{
    enum sp_status st;

    if ((st = want_text(m, arg[0]))) return st;
    *out = self;
    if (arg[0].len && arg[0].len <= self.len &&
        memcmp(self.text + (self.len - arg[0].len), arg[0].text, arg[0].len) == 0) {
        *out = sp_value_text(self.text, self.len - arg[0].len);
    }
    return SP_OK;
}

/* Pads to a width: `left` and `right` parts of the missing characters. */
static enum sp_status pad(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                          const struct sp_value *arg, int side)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    struct sp_value fill = given(arg[1]) ? arg[1] : sp_value_name(" ");
    size_t len = sp_jinja_text_len(self), missing, left;
    int64_t width;

    if ((st = want_text(m, fill)) || (st = want_integer(m, arg[0], 0, &width))) return st;
    if (sp_jinja_text_len(fill) != 1) {
        return sp_jinja_fail(m, "The fill character must be exactly one character long");
    }
    missing = width > (int64_t)len ? (size_t)width - len : 0;
    left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & (size_t)width & 1);
    for (size_t i = 0; i < left; i++) {
        if ((st = sp_build(&b, fill.text, fill.len))) return st;
    }
    if ((st = sp_build(&b, self.text, self.len))) return st;
    for (size_t i = left; i < missing; i++) {
        if ((st = sp_build(&b, fill.text, fill.len))) return st;
    }
    *out = sp_builder_value(&b);
    return SP_OK;
}

METHOD(str_ljust)
{
    return pad(m, out, self, arg, -1);
}

METHOD(str_rjust)
{
    return pad(m, out, self, arg, 1);
}

METHOD(str_center)
{
    return pad(m, out, self, arg, 0);
}

METHOD(str_zfill)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    size_t len = sp_jinja_text_len(self), sign;
    int64_t width;

    if ((st = want_integer(m, arg[0], 0, &width))) return st;
    sign = self.len && (self.text[0] == '-' || self.text[0] == '+');
    if ((st = sp_build(&b, self.text, sign))) return st;
    if (width > (int64_t)len && (st = sp_build_repeat(&b, '0', (size_t)width - len))) return st;
    if ((st = sp_build(&b, self.text + sign, self.len - sign))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

METHOD(str_expandtabs)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    int64_t size, column = 0;

    if ((st = want_integer(m, arg[0], 8, &size))) return st;
    for (size_t pos = 0; pos < self.len && !st;) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(self.text, self.len, &pos);

        if (c == '\t') {
            int64_t fill = size > 0 ? size - column % size : 0;

            st = sp_build_repeat(&b, ' ', (size_t)fill);
            column += fill;
        } else {
            st = sp_build(&b, self.text + begin, pos - begin);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    *out = sp_builder_value(&b);
    return st;
}

/* Do all characters have a property, and is there one? */
static enum sp_status all_are(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                              bool (*is)(uint32_t c))
{
    bool all = self.len > 0;

    for (size_t pos = 0; pos < self.len && all;)
        all = is(sp_utf8_next(self.text, self.len, &pos));
    *out = sp_value_bool(all);
    return sp_heap_charge(m->heap, self.len / 4);
}

static bool is_alnum(uint32_t c)
{
    return sp_letter_is_alpha(c) || sp_letter_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

/* Decimal digits, and those that are digits without being part of a number system (superscripts).
 */
static bool is_digit(uint32_t c)
{
    return sp_letter_is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468);
}

#define CLASS_METHOD(name, property)                                                               \
    METHOD(name)                                                                                   \
    {                                                                                              \
        (void)arg;                                                                                 \
        return all_are(m, out, self, property);                                                    \
    }
CLASS_METHOD(str_isalpha, sp_letter_is_alpha)
CLASS_METHOD(str_isdigit, is_digit)
CLASS_METHOD(str_isdecimal, sp_letter_is_decimal)
CLASS_METHOD(str_isnumeric, sp_letter_is_numeric)
CLASS_METHOD(str_isalnum, is_alnum)
CLASS_METHOD(str_isspace, sp_letter_is_space)

METHOD(str_isascii)
{
    enum sp_status st;

    (void)arg;
    st = all_are(m, out, self, is_ascii);
    if (self.len == 0) *out = sp_value_bool(true);
    return st;
}

static enum sp_status case_test(struct jinja_machine *m, struct sp_value *out, struct sp_value self,
                                const char *name)
{
    enum sp_status st;
    bool truth = false;

    st = sp_jinja_find_test(sp_value_name(name))->run(m, &truth, self, NULL);
    *out = sp_value_bool(truth);
    return st;
}

METHOD(str_isupper)
{
    (void)arg;
    return case_test(m, out, self, "upper");
}

METHOD(str_islower)
{
    (void)arg;
    return case_test(m, out, self, "lower");
}

METHOD(str_istitle)
{
    bool any = false, in_word = false, title = true;

    (void)arg;
    for (size_t pos = 0; pos < self.len && title;) {
        uint32_t c = sp_utf8_next(self.text, self.len, &pos);

        if (sp_letter_is_lower(c)) title = in_word;
        if (sp_letter_is_cased(c) && !sp_letter_is_lower(c)) title = !in_word;
        in_word = sp_letter_is_cased(c);
        any = any || in_word;
    }
    *out = sp_value_bool(any && title);
    return sp_heap_charge(m->heap, self.len / 4);
}

METHOD(dict_get)
{
    const struct sp_value *found;

    if (!sp_value_hashable(arg[0])) {
        return sp_jinja_fail(m, "unhashable type: '%s'", sp_jinja_type_name(arg[0]));
    }
    found = sp_dict_find(self.dict, arg[0]);
    *out = found ? *found : arg[1].kind == SP_V_ABSENT ? sp_value_none() : arg[1];
    return sp_heap_charge(m->heap, 4);
}

/* A view of a dictionary: its keys, values or pairs. */
static enum sp_status view(struct jinja_machine *m, struct sp_value *out,
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

METHOD(dict_keys)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_KEYS);
}

METHOD(dict_values)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_VALUES);
}

METHOD(dict_items)
{
    (void)arg;
    return view(m, out, self.dict, SP_SHAPE_ITEMS);
}

METHOD(dict_copy)
{
    enum sp_status st;

    (void)arg;
    st = sp_value_dict(m->heap, out);
    for (size_t i = 0; i < self.dict->n && !st; i++) {
        st = sp_dict_set(m->heap, out->dict, self.dict->at[i].key, self.dict->at[i].value);
    }
    return st;
}

METHOD(list_count)
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

METHOD(list_index)
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

METHOD(list_copy)
{
    const struct sp_value all[3] = {{0}, {0}, {0}};

    (void)arg;
    return sp_jinja_slice(m, out, self, all);
}

static const struct jinja_method str_methods[] = {
    {"capitalize", "", str_capitalize},
    {"casefold", "", str_lower},
    {"center", "width fillchar=", str_center},
    {"count", "sub start= end=", str_count},
    {"endswith", "suffix start= end=", str_endswith},
    {"expandtabs", "tabsize=", str_expandtabs},
    {"find", "sub start= end=", str_find},
    {"index", "sub start= end=", str_index},
    {"isalnum", "", str_isalnum},
    {"isalpha", "", str_isalpha},
    {"isascii", "", str_isascii},
    {"isdecimal", "", str_isdecimal},
    {"isdigit", "", str_isdigit},
    {"islower", "", str_islower},
    {"isnumeric", "", str_isnumeric},
    {"isspace", "", str_isspace},
    {"istitle", "", str_istitle},
    {"isupper", "", str_isupper},
    {"join", "iterable", str_join},
    {"ljust", "width fillchar=", str_ljust},
    {"lower", "", str_lower},
    {"lstrip", "chars=", str_lstrip},
    {"partition", "sep", str_partition},
    {"removeprefix", "prefix", str_removeprefix},
    {"removesuffix", "suffix", str_removesuffix},
    {"replace", "old new count=", str_replace},
    {"rfind", "sub start= end=", str_rfind},
    {"rindex", "sub start= end=", str_rindex},
    {"rjust", "width fillchar=", str_rjust},
    {"rpartition", "sep", str_rpartition},
    {"rsplit", "sep= maxsplit=", str_rsplit},
    {"rstrip", "chars=", str_rstrip},
    {"split", "sep= maxsplit=", str_split},
    {"splitlines", "keepends=", str_splitlines},
    {"startswith", "prefix start= end=", str_startswith},
    {"strip", "chars=", str_strip},
    {"swapcase", "", str_swapcase},
    {"title", "", str_title},
    {"upper", "", str_upper},
    {"zfill", "width", str_zfill},
    {"format", "", NULL},
    {NULL, NULL, NULL},
};

static const struct jinja_method dict_methods[] = {
    {"copy", "", dict_copy}, {"get", "key default=", dict_get}, {"items", "", dict_items},
    {"keys", "", dict_keys}, {"values", "", dict_values},       {NULL, NULL, NULL},
};

static const struct jinja_method list_methods[] = {
    {"copy", "", list_copy},
    {"count", "value", list_count},
    {"index", "value", list_index},
    {NULL, NULL, NULL},
};

static const struct jinja_method tuple_methods[] = {
    {"count", "value", list_count},
    {"index", "value", list_index},
    {NULL, NULL, NULL},
};

/* Python has them, a template may not call them: they change the value, or are missing here. */
static const char *const refused_str[] = {
    "encode", "format_map", "isidentifier", "isprintable", "translate", "maketrans", NULL};
static const char *const refused_dict[] = {"clear",  "pop",      "popitem", "setdefault",
                                           "update", "fromkeys", NULL};
static const char *const refused_list[] = {"append", "clear",   "extend", "insert", "pop",
                                           "remove", "reverse", "sort",   NULL};

static enum sp_status call_method(struct jinja_machine *m, struct sp_value *out,
                                  struct jinja_object *object, const struct jinja_args *args)
{
    enum sp_status st;
    struct sp_value slot[JINJA_MAX_ARGS];

    if (object->method == NULL) {
        return sp_fail(m->heap->err, SP_E_UNSUPPORTED, "%s.%s() is not supported in templates",
                       sp_jinja_type_name(object->self), object->name);
    }
    if (object->method->run == NULL) return sp_jinja_format(m, out, object->self, args);
    if ((st = sp_jinja_bind(m, object->name, object->method->params, args, slot))) return st;
    return object->method->run(m, out, object->self, slot);
}

static enum sp_status bind_method(struct jinja_machine *m, struct sp_value *out,
                                  struct sp_value self, const char *name,
                                  const struct jinja_method *method)
{
    enum sp_status st;
    struct jinja_object *object;

    if ((st = sp_heap_take(m->heap, &object, sizeof *object))) return st;
    object->kind = JINJA_METHOD;
    object->name = name;
    object->method = method;
    object->fn = call_method;
    object->self = self;
    *out = sp_value_object(object);
    return SP_OK;
}

enum sp_status sp_jinja_method(struct jinja_machine *m, struct sp_value *out, bool *found,
                               struct sp_value self, struct sp_value name)
{
    const struct jinja_method *methods = NULL;
    const char *const *refused = NULL;

    *found = true;
    if (self.kind == SP_V_TEXT) {
        methods = str_methods;
        refused = refused_str;
    } else if (self.kind == SP_V_DICT) {
        methods = dict_methods;
        refused = refused_dict;
    } else if (self.kind == SP_V_LIST && self.shape == SP_SHAPE_PLAIN) {
        methods = list_methods;
        refused = refused_list;
    } else if (self.kind == SP_V_LIST &&
               (self.shape == SP_SHAPE_TUPLE || self.shape == SP_SHAPE_RANGE)) {
        methods = tuple_methods;
    }
    for (; methods != NULL && methods->name != NULL; methods++) {
        if (sp_text_is(name, methods->name))
            return bind_method(m, out, self, methods->name, methods);
    }
    for (; refused != NULL && *refused != NULL; refused++) {
        if (sp_text_is(name, *refused)) return bind_method(m, out, self, *refused, NULL);
    }
    *found = false;
    return SP_OK;
}
