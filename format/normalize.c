/* Text that is normal already is by far the most common: it is recognised character by character
 * and copied. Only segments with something to do are taken apart: from the character before the
 * first mark or decomposable character to the next character that cannot touch what is before it.
 */
#include "format/normalize.h"

#include "format/unicode.h"

#include <utf8proc.h>

enum {
    MAX_DECOMPOSITION = 32, /* longest in Unicode: 18 */
    FEW = 16,               /* so many marks are sorted in place */
};

/* Code points of one segment. */
struct chars {
    int32_t *at;
    size_t n, cap;
};

/* Stands in the composed form for itself, whatever is before it. */
static bool is_inert(uint32_t c)
{
    const utf8proc_property_t *p;

    if (c < 0x300) return true;
    if (c >= 0xAC00 && c <= 0xD7A3) return true;  /* Hangul syllables */
    if (c >= 0x1160 && c <= 0x11FF) return false; /* vowels and finals join the syllable before */
    p = utf8proc_get_property((utf8proc_int32_t)c);
    if (p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0) return false;
    return !sp_char_is_mark(c);
}

static unsigned combining_class(int32_t c)
{
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

static void sort_few(int32_t *marks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int32_t c = marks[i];
        unsigned class = combining_class(c);
        size_t k = i;
        for (; k > 0 && combining_class(marks[k - 1]) > class; k--)
            marks[k] = marks[k - 1];
        marks[k] = c;
    }
}

/* Stable, by combining class. */
static enum sp_status sort_many(int32_t *marks, size_t n, struct sp_err *err)
{
    size_t begin[257] = {0};
    int32_t *sorted = NULL;
    enum sp_status st;

    if ((st = sp_new(&sorted, n, sizeof *sorted, err))) return st;
    for (size_t i = 0; i < n; i++)
        begin[(combining_class(marks[i]) & 0xFF) + 1]++;
    for (size_t i = 1; i < 257; i++)
        begin[i] += begin[i - 1];
    for (size_t i = 0; i < n; i++)
        sorted[begin[combining_class(marks[i]) & 0xFF]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *marks);
    free(sorted);
    return SP_OK;
}

static enum sp_status reorder(struct chars *chars, struct sp_err *err)
{
    for (size_t i = 0, end; i < chars->n; i = end + 1) {
        enum sp_status st;
        for (end = i; end < chars->n && combining_class(chars->at[end]) != 0; end++)
            continue;
        if (end - i <= FEW) {
            sort_few(chars->at + i, end - i);
        } else if ((st = sort_many(chars->at + i, end - i, err))) {
            return st;
        }
    }
    return SP_OK;
}

static enum sp_status decompose(struct chars *chars, const char *text, size_t len, bool compatible,
                                struct sp_err *err)
{
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    enum sp_status st;

    if (compatible) options |= UTF8PROC_COMPAT;
    chars->n = 0;
    for (size_t i = 0; i < len;) {
        uint32_t c = sp_utf8_next(text, len, &i);
        int bounds = 0;
        st = sp_grow(&chars->at, &chars->cap, chars->n + MAX_DECOMPOSITION, sizeof *chars->at, err);
        if (st) return st;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, chars->at + chars->n,
                                                     MAX_DECOMPOSITION, options, &bounds);
        if (n < 0 || n > MAX_DECOMPOSITION) {
            return sp_fail(err, SP_E_BUG, "U+%04X has no decomposition", c);
        }
        chars->n += (size_t)n;
    }
    return reorder(chars, err);
}

static enum sp_status append_segment(struct sp_text *out, struct chars *chars,
                                     enum sp_normal_form form, const char *text, size_t len,
                                     struct sp_err *err)
{
    bool compatible = form == SP_NFKC || form == SP_NFKD;
    enum sp_status st;

    if ((st = decompose(chars, text, len, compatible, err))) return st;
    if (form == SP_NFC || form == SP_NFKC) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(chars->at, (utf8proc_ssize_t)chars->n,
                                                      UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (n < 0) return sp_fail(err, SP_E_BUG, "composing: %s", utf8proc_errmsg(n));
        chars->n = (size_t)n;
    }
    if ((st = sp_text_reserve(out, chars->n * SP_UTF8_MAX, err))) return st;
    for (size_t i = 0; i < chars->n; i++) {
        out->len += sp_utf8_put(out->at + out->len, (uint32_t)chars->at[i]);
    }
    return SP_OK;
}

/* Where the first segment with something to do begins, at or after `pos`, and where it ends. */
static bool find_segment(const char *text, size_t len, size_t pos, size_t *begin, size_t *end)
{
    size_t inert = pos;

    for (size_t i = pos; i < len;) {
        size_t at = i;
        if (is_inert(sp_utf8_next(text, len, &i))) {
            inert = at;
            continue;
        }
        *begin = inert;
        for (*end = i; i < len && !is_inert(sp_utf8_next(text, len, &i)); *end = i)
            continue;
        return true;
    }
    return false;
}

static enum sp_status compose_all(struct sp_text *out, struct chars *chars, bool *changed,
                                  const char *text, size_t len, struct sp_err *err)
{
    size_t done = 0, begin, end;
    enum sp_status st;

    *changed = false;
    while (find_segment(text, len, done, &begin, &end)) {
        *changed = true;
        if ((st = sp_text_append(out, text + done, begin - done, err))) return st;
        if ((st = append_segment(out, chars, SP_NFC, text + begin, end - begin, err))) return st;
        done = end;
    }
    return *changed ? sp_text_append(out, text + done, len - done, err) : SP_OK;
}

enum sp_status sp_normalize(struct sp_text *out, bool *changed, enum sp_normal_form form,
                            const char *text, size_t len, struct sp_err *err)
{
    struct chars chars = {0};
    size_t ascii = 0;
    enum sp_status st = SP_OK;

    *changed = false;
    while (ascii < len && (uint8_t)text[ascii] < 0x80)
        ascii++;
    if (ascii == len) return SP_OK;
    if (form == SP_NFC) {
        st = compose_all(out, &chars, changed, text, len, err);
    } else {
        *changed = true;
        st = append_segment(out, &chars, form, text, len, err);
    }
    free(chars.at);
    return st;
}

enum sp_status sp_lowercase(struct sp_text *out, const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < len;) {
        uint32_t c = sp_utf8_next(text, len, &i);
        if ((st = sp_text_reserve(out, 2 * SP_UTF8_MAX, err))) return st;
        if (c == 0x130) { /* the one letter whose lower case is two characters */
            out->len += sp_utf8_put(out->at + out->len, 'i');
            c = 0x307;
        } else {
            c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        }
        out->len += sp_utf8_put(out->at + out->len, c);
    }
    return SP_OK;
}
