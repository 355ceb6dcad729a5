/* String operations that filters and methods share. Texts are UTF-8; characters are code points. */
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/jinja/jinja_machine.h"

#include <string.h>

size_t sp_jinja_find(struct sp_jinja_machine *m, struct sp_value text, struct sp_value what,
                     size_t from)
{
    size_t compared = 0, pos = from, found = SIZE_MAX;

    if (what.len == 0 || text.len < what.len) {
        sp_heap_charge(m->heap, 1);
        return what.len == 0 && from <= text.len ? from : SIZE_MAX;
    }
    while (pos <= text.len - what.len && found == SIZE_MAX) {
        const char *first = memchr(text.text + pos, what.text[0], text.len - what.len + 1 - pos);
        if (first == NULL) break;
        pos = (size_t)(first - text.text);
        compared += what.len / 8 + 1;
        if (compared > 1 << 16) {
            if (!sp_heap_charge(m->heap, compared)) return SIZE_MAX;
            compared = 0;
        }
        if (memcmp(first, what.text, what.len) == 0)
            found = pos;
        else
            pos++;
    }
    return sp_heap_charge(m->heap, compared + (text.len - from) / 64 + 1) ? found : SIZE_MAX;
}

static bool in_set(struct sp_value chars, uint32_t c)
{
    for (size_t pos = 0; pos < chars.len;)
        if (sp_utf8_next(chars.text, chars.len, &pos) == c) return true;
    return false;
}

SP_JINJA_FUNCTION(sp_jinja_strip)
{
    const struct sp_value text = sp_jinja_to_text(m, in), chars = arg[0];
    bool by_whitespace = !sp_jinja_given(chars);
    size_t begin = 0, end = text.len, steps = 1;
    struct sp_value out;

    if (!by_whitespace && chars.kind != SP_V_TEXT) {
        if (!sp_jinja_defined(m, chars)) return SP_VALUE_ABSENT;
        return sp_jinja_fail(m, "strip arg must be None or str, not %s", sp_jinja_type_name(chars));
    }
    for (size_t next = 0; (how & SP_JINJA_LEFT) && begin < end; begin = next, steps++) {
        uint32_t c = sp_utf8_next(text.text, end, &next);
        if (!(by_whitespace ? sp_unicode_is_space(c) : in_set(chars, c))) break;
    }
    for (size_t prev = end; (how & SP_JINJA_RIGHT) && end > begin; end = prev, steps++) {
        size_t next = prev = sp_utf8_prev(text.text, end);
        uint32_t c = sp_utf8_next(text.text, end, &next);
        if (!(by_whitespace ? sp_unicode_is_space(c) : in_set(chars, c))) break;
    }
    out = sp_value_text(text.text + begin, end - begin);
    out.shape = text.shape;
    sp_heap_charge(m->heap, by_whitespace ? steps / 4 + 1 : steps * (chars.len / 4 + 1));
    return out;
}

/* Replaces an empty `from`, which occurs between any two characters and at both ends. */
static struct sp_value replace_empty(struct sp_jinja_machine *m, struct sp_value text,
                                     struct sp_value to, int64_t count)
{
    struct sp_builder b = {.heap = m->heap};
    size_t pos = 0;

    for (;;) {
        size_t begin = pos;
        if (count != 0) sp_build_value(&b, to);
        if (count > 0) count--;
        if (pos >= text.len) return sp_builder_value(&b);
        sp_utf8_next(text.text, text.len, &pos);
        sp_build(&b, text.text + begin, pos - begin);
    }
}

struct sp_value sp_jinja_replace(struct sp_jinja_machine *m, struct sp_value text,
                                 struct sp_value from, struct sp_value to, int64_t count)
{
    struct sp_builder b = {.heap = m->heap};
    size_t pos = 0, at;

    if (from.len == 0) return replace_empty(m, text, to, count);
    for (; count != 0; count -= count > 0) {
        if ((at = sp_jinja_find(m, text, from, pos)) == SIZE_MAX) break;
        sp_build(&b, text.text + pos, at - pos);
        sp_build_value(&b, to);
        pos = at + from.len;
    }
    sp_build(&b, text.text + pos, text.len - pos);
    return sp_builder_value(&b);
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
    if (how == SP_JINJA_UPPER) return sp_unicode_upper(to, c);
    if ((how == SP_JINJA_TITLE && !in_word) || (how == SP_JINJA_CAPITALIZE && first))
        return sp_unicode_title(to, c);
    return sp_unicode_lower(to, c);
}

SP_JINJA_FUNCTION(sp_jinja_recase)
{
    struct sp_builder b = {.heap = m->heap};
    struct sp_value text = sp_jinja_to_text(m, in), out;
    char bytes[SP_UTF8_MAX];
    bool in_word = false;
    size_t pos = 0;

    while (pos < text.len) {
        uint32_t to[SP_CASE_FOLD_MAX];
        size_t begin = pos;
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        size_t n = mapped(to, c, (enum sp_jinja_case)how, begin == 0, in_word);
        if (c == 0x3a3 && to[0] == 0x3c3 && final_sigma(text, begin, pos)) to[0] = 0x3c2;
        in_word = sp_unicode_is_cased(c);
        for (size_t i = 0; i < n; i++)
            sp_build(&b, bytes, sp_utf8_put(bytes, to[i]));
    }
    out = sp_builder_value(&b);
    out.shape = text.shape;
    return out;
}

SP_JINJA_FUNCTION(sp_jinja_has_case)
{
    const struct sp_value text = sp_jinja_to_text(m, in);
    bool any = false, all = true;

    for (size_t pos = 0; pos < text.len && all;) {
        uint32_t c = sp_utf8_next(text.text, text.len, &pos);
        if (!sp_unicode_is_cased(c)) continue;
        all = how == SP_JINJA_UPPER ? sp_unicode_is_upper(c) : sp_unicode_is_lower(c);
        any = true;
    }
    sp_heap_charge(m->heap, text.len / 4);
    return sp_value_bool(any && all);
}

static bool line_end(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

SP_JINJA_FUNCTION(sp_jinja_splitlines)
{
    const bool keep_ends = sp_value_truth(arg[0]);
    struct sp_value out = sp_value_list(m->heap, SP_SHAPE_PLAIN, 0);
    size_t pos = 0, begin = 0;

    while (pos < in.len) {
        size_t end = pos;
        if (!line_end(sp_utf8_next(in.text, in.len, &pos))) continue;
        if (in.text[end] == '\r' && pos < in.len && in.text[pos] == '\n') pos++;
        sp_list_push(m->heap, out.list,
                     sp_value_text(in.text + begin, (keep_ends ? pos : end) - begin));
        begin = pos;
    }
    if (begin < in.len)
        sp_list_push(m->heap, out.list, sp_value_text(in.text + begin, in.len - begin));
    sp_heap_charge(m->heap, in.len / 4);
    return out;
}
