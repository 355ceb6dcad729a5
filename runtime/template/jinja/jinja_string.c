/* String operations that filters and methods share. Texts are UTF-8; characters are code points. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

enum sp_status sp_jinja_find(struct sp_jinja_machine *m, size_t *at, struct sp_value text,
                             struct sp_value what, size_t from)
{
    size_t compared = 0, pos = from;
    enum sp_status st;

    *at = SIZE_MAX;
    if (what.len == 0 && from <= text.len) *at = from;
    if (what.len == 0 || text.len < what.len) return sp_heap_charge(m->heap, 1);
    while (pos <= text.len - what.len) {
        const char *first = memchr(text.text + pos, what.text[0], text.len - what.len + 1 - pos);
        if (first == NULL) break;
        pos = (size_t)(first - text.text);
        compared += what.len / 8 + 1;
        if (compared > 1 << 16) {
            if ((st = sp_heap_charge(m->heap, compared))) return st;
            compared = 0;
        }
        if (memcmp(first, what.text, what.len) == 0) {
            *at = pos;
            break;
        }
        pos++;
    }
    return sp_heap_charge(m->heap, compared + (text.len - from) / 64 + 1);
}

static bool in_set(struct sp_value chars, uint32_t c)
{
    for (size_t pos = 0; pos < chars.len;)
        if (sp_utf8_next(chars.text, chars.len, &pos) == c) return true;
    return false;
}

enum sp_status sp_jinja_strip(struct sp_jinja_machine *m, struct sp_value *out,
                              struct sp_value text, struct sp_value chars,
                              enum sp_jinja_sides sides)
{
    enum sp_status st;
    bool by_whitespace = chars.kind == SP_V_ABSENT || chars.kind == SP_V_NONE;
    size_t begin = 0, end = text.len, steps = 1;

    if (!by_whitespace && chars.kind != SP_V_TEXT) {
        if ((st = sp_jinja_defined(m, chars))) return st;
        return sp_jinja_fail(m, "strip arg must be None or str, not %s", sp_jinja_type_name(chars));
    }
    while ((sides & SP_JINJA_LEFT) && begin < end) {
        size_t next = begin;
        uint32_t c = sp_utf8_next(text.text, end, &next);
        if (!(by_whitespace ? sp_unicode_is_space(c) : in_set(chars, c))) break;
        begin = next;
        steps++;
    }
    while ((sides & SP_JINJA_RIGHT) && end > begin) {
        size_t prev = sp_utf8_prev(text.text, end), next = prev;
        uint32_t c = sp_utf8_next(text.text, end, &next);
        if (!(by_whitespace ? sp_unicode_is_space(c) : in_set(chars, c))) break;
        end = prev;
        steps++;
    }
    *out = sp_value_text(text.text + begin, end - begin);
    out->shape = text.shape;
    return sp_heap_charge(m->heap, by_whitespace ? steps / 4 + 1 : steps * (chars.len / 4 + 1));
}

/* Replaces an empty `from`, which occurs between any two characters and at both ends. */
static enum sp_status replace_empty(struct sp_jinja_machine *m, struct sp_value *out,
                                    struct sp_value text, struct sp_value to, int64_t count)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    size_t pos = 0;

    while (!st) {
        size_t begin = pos;
        if (count != 0) st = sp_build(&b, to.text, to.len);
        if (count > 0) count--;
        if (st || pos >= text.len) break;
        sp_utf8_next(text.text, text.len, &pos);
        st = sp_build(&b, text.text + begin, pos - begin);
    }
    *out = sp_builder_value(&b);
    return st;
}

enum sp_status sp_jinja_replace(struct sp_jinja_machine *m, struct sp_value *out,
                                struct sp_value text, struct sp_value from, struct sp_value to,
                                int64_t count)
{
    enum sp_status st;
    struct sp_builder b = {.heap = m->heap};
    size_t pos = 0, at;

    if (from.len == 0) return replace_empty(m, out, text, to, count);
    for (; count != 0; count -= count > 0) {
        if ((st = sp_jinja_find(m, &at, text, from, pos))) return st;
        if (at == SIZE_MAX) break;
        if ((st = sp_build(&b, text.text + pos, at - pos))) return st;
        if ((st = sp_build(&b, to.text, to.len))) return st;
        pos = at + from.len;
    }
    if ((st = sp_build(&b, text.text + pos, text.len - pos))) return st;
    *out = sp_builder_value(&b);
    return SP_OK;
}

/* True for a capital sigma at the end of a word, which becomes the final small one. */
static bool final_sigma(struct sp_value text, size_t begin, size_t end)
{
    size_t prev = begin ? sp_utf8_prev(text.text, begin) : 0, pos = prev;

    if (begin == 0 || !sp_unicode_is_cased(sp_utf8_next(text.text, text.len, &pos))) return false;
    return end >= text.len || !sp_unicode_is_cased(sp_utf8_next(text.text, text.len, &end));
}

static size_t mapped(uint32_t to[SP_CASE_FOLD_MAX], uint32_t c, enum sp_jinja_case how, bool first,
                     bool in_word)
{
    switch (how) {
    case SP_JINJA_UPPER:
        return sp_unicode_upper(to, c);
    case SP_JINJA_TITLE:
        return in_word ? sp_unicode_lower(to, c) : sp_unicode_title(to, c);
    case SP_JINJA_CAPITALIZE:
        return first ? sp_unicode_title(to, c) : sp_unicode_lower(to, c);
    case SP_JINJA_LOWER:
        return sp_unicode_lower(to, c);
    }
    to[0] = c;
    return 1;
}

enum sp_status sp_jinja_recase(struct sp_jinja_machine *m, struct sp_value *out,
                               struct sp_value text, enum sp_jinja_case how)
{
    enum sp_status st = SP_OK;
    struct sp_builder b = {.heap = m->heap};
    char bytes[SP_UTF8_MAX];
    bool in_word = false;
    size_t pos = 0;

    while (pos < text.len && !st) {
        uint32_t to[SP_CASE_FOLD_MAX];
        size_t begin = pos;
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        size_t n = mapped(to, c, how, begin == 0, in_word);
        if (c == 0x3a3 && to[0] == 0x3c3 && final_sigma(text, begin, pos)) to[0] = 0x3c2;
        in_word = sp_unicode_is_cased(c);
        for (size_t i = 0; i < n && !st; i++)
            st = sp_build(&b, bytes, sp_utf8_put(bytes, to[i]));
    }
    *out = sp_builder_value(&b);
    out->shape = text.shape;
    return st;
}

enum sp_status sp_jinja_has_case(struct sp_jinja_machine *m, struct sp_value *out,
                                 struct sp_value text, bool upper)
{
    bool any = false, all = true;

    for (size_t pos = 0; pos < text.len && all;) {
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        if (!sp_unicode_is_cased(c)) continue;
        all = upper ? sp_unicode_is_upper(c) : sp_unicode_is_lower(c);
        any = true;
    }
    *out = sp_value_bool(any && all);
    return sp_heap_charge(m->heap, text.len / 4);
}

static bool line_end(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

enum sp_status sp_jinja_splitlines(struct sp_jinja_machine *m, struct sp_value *out,
                                   struct sp_value text, bool keep_ends)
{
    enum sp_status st = sp_value_list(m->heap, out, SP_SHAPE_PLAIN, 0);
    size_t pos = 0, begin = 0;

    while (pos < text.len && !st) {
        size_t end = pos;
        if (!line_end(sp_utf8_next(text.text, text.len, &pos))) continue;
        if (text.text[end] == '\r' && pos < text.len && text.text[pos] == '\n') pos++;
        st = sp_list_push(m->heap, out->list,
                          sp_value_text(text.text + begin, (keep_ends ? pos : end) - begin));
        begin = pos;
    }
    if (!st && begin < text.len)
        st = sp_list_push(m->heap, out->list, sp_value_text(text.text + begin, text.len - begin));
    return st ? st : sp_heap_charge(m->heap, text.len / 4);
}
