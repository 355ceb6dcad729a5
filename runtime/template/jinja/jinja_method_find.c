/* Methods of texts that search for another text: find, index, count, split, partition and the
 * like. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_eval.h"
#include "runtime/template/jinja/jinja_method.h"
#include "runtime/template/jinja/jinja_object.h"
#include "runtime/template/jinja/jinja_ops.h"
#include "runtime/template/jinja/jinja_string.h"

#include <string.h>

/* Slices self by range[0] and range[1]; *begin is the index of the first character of the
 * result. */
static enum sp_status cut(struct sp_jinja_machine *m, struct sp_value *out, size_t *begin,
                          struct sp_value self, const struct sp_value *range)
{
    enum sp_status st;
    const struct sp_value bound[3] = {range[0], range[1], {0}};

    *out = self;
    *begin = 0;
    if (!sp_jinja_given(range[0]) && !sp_jinja_given(range[1])) return SP_OK;
    if ((st = sp_jinja_slice(m, out, self, bound))) return st;
    if (self.len)
        *begin = sp_text_characters(sp_value_text(self.text, (size_t)(out->text - self.text)));
    return SP_OK;
}

static enum sp_status affix(struct sp_jinja_machine *m, struct sp_value *out, struct sp_value self,
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

        if ((st = sp_jinja_want_text(m, part)) || (st = sp_heap_charge(m->heap, 1 + part.len / 32)))
            return st;
        if (part.len > text.len) continue;
        at = at_end ? text.text + (text.len - part.len) : text.text;
        if (part.len == 0 || memcmp(at, part.text, part.len) == 0) *out = sp_value_bool(true);
    }
    return SP_OK;
}

SP_METHOD(str_startswith)
{
    return affix(m, out, self, arg, false);
}

SP_METHOD(str_endswith)
{
    return affix(m, out, self, arg, true);
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

/* The index of arg[0] in characters; -1: it does not occur. */
static enum sp_status locate(struct sp_jinja_machine *m, int64_t *out, struct sp_value self,
                             const struct sp_value *arg, bool last)
{
    enum sp_status st;
    struct sp_value text;
    size_t begin, at;

    if ((st = sp_jinja_want_text(m, arg[0])) || (st = cut(m, &text, &begin, self, arg + 1)))
        return st;
    st = last ? find_last(m, &at, text, arg[0]) : sp_jinja_find(m, &at, text, arg[0], 0);
    if (st) return st;
    *out =
        at == SIZE_MAX ? -1 : (int64_t)(begin + sp_text_characters(sp_value_text(text.text, at)));
    return sp_heap_charge(m->heap, text.len / 16);
}

static enum sp_status find_or_fail(struct sp_jinja_machine *m, struct sp_value *out,
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

SP_METHOD(str_find)
{
    return find_or_fail(m, out, self, arg, false, false);
}

SP_METHOD(str_rfind)
{
    return find_or_fail(m, out, self, arg, true, false);
}

SP_METHOD(str_index)
{
    return find_or_fail(m, out, self, arg, false, true);
}

SP_METHOD(str_rindex)
{
    return find_or_fail(m, out, self, arg, true, true);
}

SP_METHOD(str_count)
{
    enum sp_status st;
    struct sp_value text;
    size_t begin, at = 0, from = 0;
    int64_t n = 0;

    if ((st = sp_jinja_want_text(m, arg[0])) || (st = cut(m, &text, &begin, self, arg + 1)))
        return st;
    if (arg[0].len == 0) {
        *out = sp_value_int((int64_t)sp_text_characters(text) + 1);
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

static enum sp_status push_part(struct sp_jinja_machine *m, struct sp_value *list,
                                const char *begin, const char *end)
{
    return sp_list_push(m->heap, list->list, sp_value_text(begin, (size_t)(end - begin)));
}

/* Splits at runs of whitespace; the rest after `limit` splits keeps its inner spaces. */
static enum sp_status split_space(struct sp_jinja_machine *m, struct sp_value *out,
                                  struct sp_value text, int64_t limit)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);
    size_t pos = 0;

    while (!st) {
        size_t next, begin;

        if ((st = sp_jinja_strip(m, &text, sp_value_text(text.text + pos, text.len - pos),
                                 (struct sp_value){0}, SP_JINJA_LEFT)))
            return st;
        if (text.len == 0) break;
        if (limit == 0) return push_part(m, out, text.text, text.text + text.len);
        limit -= limit > 0;
        begin = pos = 0;
        for (next = 0; next < text.len; pos = next)
            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
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

static enum sp_status rsplit_space(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_value text, int64_t limit)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);

    while (!st) {
        size_t pos, prev;

        if ((st = sp_jinja_strip(m, &text, text, (struct sp_value){0}, SP_JINJA_RIGHT))) return st;
        if (text.len == 0) break;
        if (limit == 0) {
            st = push_part(m, out, text.text, text.text + text.len);
            break;
        }
        limit -= limit > 0;
        for (pos = text.len; pos > 0; pos = prev) {
            size_t next = prev = sp_utf8_prev(text.text, pos);

            if (sp_unicode_is_space(sp_utf8_next(text.text, text.len, &next))) break;
        }
        if ((st = sp_heap_charge(m->heap, (text.len - pos) / 8))) return st;
        st = push_part(m, out, text.text + pos, text.text + text.len);
        text.len = (uint32_t)pos;
    }
    if (!st) reverse_list(out->list);
    return st;
}

SP_METHOD(str_split)
{
    enum sp_status st;
    size_t from = 0, at;
    int64_t limit;

    if ((st = sp_jinja_want_integer(m, arg[1], -1, &limit))) return st;
    if (!sp_jinja_given(arg[0])) return split_space(m, out, self, limit);
    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    if (arg[0].len == 0) return sp_jinja_fail(m, "empty separator");
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    for (; limit != 0; limit -= limit > 0) {
        if ((st = sp_jinja_find(m, &at, self, arg[0], from))) return st;
        if (at == SIZE_MAX) break;
        if ((st = push_part(m, out, self.text + from, self.text + at))) return st;
        from = at + arg[0].len;
    }
    return push_part(m, out, self.text + from, self.text + self.len);
}

SP_METHOD(str_rsplit)
{
    enum sp_status st;
    struct sp_value text = self;
    size_t at;
    int64_t limit;

    if ((st = sp_jinja_want_integer(m, arg[1], -1, &limit))) return st;
    if (!sp_jinja_given(arg[0])) return rsplit_space(m, out, self, limit);
    if ((st = sp_jinja_want_text(m, arg[0]))) return st;
    if (arg[0].len == 0) return sp_jinja_fail(m, "empty separator");
    if ((st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0))) return st;
    for (; limit != 0; limit -= limit > 0) {
        if ((st = find_last(m, &at, text, arg[0]))) return st;
        if (at == SIZE_MAX) break;
        if ((st = push_part(m, out, text.text + at + arg[0].len, text.text + text.len))) return st;
        text.len = (uint32_t)at;
    }
    if ((st = push_part(m, out, text.text, text.text + text.len))) return st;
    reverse_list(out->list);
    return SP_OK;
}

static enum sp_status partition(struct sp_jinja_machine *m, struct sp_value *out,
                                struct sp_value self, struct sp_value by, bool last)
{
    enum sp_status st;
    const char *end = self.text + self.len;
    size_t at;

    if ((st = sp_jinja_want_text(m, by))) return st;
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

SP_METHOD(str_partition)
{
    return partition(m, out, self, arg[0], false);
}

SP_METHOD(str_rpartition)
{
    return partition(m, out, self, arg[0], true);
}

SP_METHOD(str_splitlines)
{
    return sp_jinja_splitlines(m, out, self, sp_value_truth(arg[0]));
}

const struct sp_jinja_method sp_jinja_find_methods[] = {
    {"count", "sub start= end=", str_count},
    {"endswith", "suffix start= end=", str_endswith},
    {"find", "sub start= end=", str_find},
    {"index", "sub start= end=", str_index},
    {"partition", "sep", str_partition},
    {"rfind", "sub start= end=", str_rfind},
    {"rindex", "sub start= end=", str_rindex},
    {"rpartition", "sep", str_rpartition},
    {"rsplit", "sep= maxsplit=", str_rsplit},
    {"split", "sep= maxsplit=", str_split},
    {"splitlines", "keepends=", str_splitlines},
    {"startswith", "prefix start= end=", str_startswith},
    {NULL, NULL, NULL},
};
