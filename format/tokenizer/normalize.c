/* Text that is normal already is by far the most common: it is recognized character by character
 * and copied. Only segments with something to do are taken apart: from the character before the
 * first mark or decomposable character to the next that cannot touch what is before it. */
#include "format/tokenizer/rewrite.h"

#include "format/base/unicode.h"

#include <utf8proc.h>

enum {
    MAX_DECOMPOSITION = 32, /* longest in Unicode: 18 */
    FEW = 16,               /* number of combining marks that are sorted in place */
};

/* Code points of one segment. */
struct chars {
    int32_t *at;
    size_t n, cap;
};

/* Code points with a decomposition or a combining class that were assigned after Unicode 9. The
 * `tokenizers` library normalizes by the tables of Unicode 9, so models never saw these composed,
 * decomposed or moved. A range may cover others, which have nothing to do. */
static const struct {
    uint32_t first, last;
} newer[] = {
    {0x7FD, 0x7FD},     {0x897, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1AFF},   {0x1CF7, 0x1CF7},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xA82C, 0xA82C},
    {0xA8FF, 0xA8FF},   {0xAB69, 0xAB69},   {0x10781, 0x107BA}, {0x10D24, 0x10F85},
    {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9},
    {0x111CE, 0x111CF}, {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x113B8, 0x113E2},
    {0x1145E, 0x1145E}, {0x1182C, 0x11A99}, {0x11D31, 0x11F5A}, {0x13440, 0x13455},
    {0x1611E, 0x1612F}, {0x16D40, 0x16D6C}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87},
    {0x16FE4, 0x16FF1}, {0x1CCD6, 0x1CCF9}, {0x1CF00, 0x1CF46}, {0x1E030, 0x1E5EF},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool sp_normal_knows(uint32_t c)
{
    size_t low = 0, high = sizeof newer / sizeof newer[0];

    if (c < newer[0].first) return true;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > newer[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low == sizeof newer / sizeof newer[0] || c < newer[low].first;
}

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
    unsigned class = (unsigned)utf8proc_get_property(c)->combining_class;

    return class && sp_normal_knows((uint32_t)c) ? class : 0;
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
        if (end - i <= FEW)
            sort_few(chars->at + i, end - i);
        else if ((st = sort_many(chars->at + i, end - i, err)))
            return st;
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
        if (!sp_normal_knows(c)) {
            chars->at[chars->n++] = (int32_t)c;
            continue;
        }
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, chars->at + chars->n,
                                                     MAX_DECOMPOSITION, options, &bounds);
        if (n < 0 || n > MAX_DECOMPOSITION)
            return sp_fail(err, SP_E_BUG, "U+%04X has no decomposition", c);
        chars->n += (size_t)n;
    }
    return reorder(chars, err);
}

/* Returns true if nothing composes across this character. The first Hangul final stands for no
 * final in the arithmetic of syllables, but the library would consume it as one. */
static bool is_barrier(int32_t c)
{
    return c == 0x11A7 || !sp_normal_knows((uint32_t)c);
}

static enum sp_status compose(struct chars *chars, struct sp_err *err)
{
    size_t n = 0;

    for (size_t i = 0, end; i < chars->n; i = end) {
        utf8proc_ssize_t kept = 1;

        for (end = i; end < chars->n && !is_barrier(chars->at[end]); end++)
            continue;
        if (end == i) {
            end++;
        } else {
            kept = utf8proc_normalize_utf32(chars->at + i, (utf8proc_ssize_t)(end - i),
                                            UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        }
        if (kept < 0) return sp_fail(err, SP_E_BUG, "composing: %s", utf8proc_errmsg(kept));
        memmove(chars->at + n, chars->at + i, (size_t)kept * sizeof *chars->at);
        n += (size_t)kept;
    }
    chars->n = n;
    return SP_OK;
}

static enum sp_status append_segment(struct sp_strbuf *out, struct chars *chars,
                                     enum sp_normal_form form, const char *text, size_t len,
                                     struct sp_err *err)
{
    bool compatible = form == SP_NFKC || form == SP_NFKD;
    enum sp_status st;

    if ((st = decompose(chars, text, len, compatible, err))) return st;
    if (form == SP_NFC || form == SP_NFKC) {
        if ((st = compose(chars, err))) return st;
    }
    if ((st = sp_strbuf_reserve(out, chars->n * SP_UTF8_MAX, err))) return st;
    for (size_t i = 0; i < chars->n; i++)
        out->len += sp_utf8_put(out->at + out->len, (uint32_t)chars->at[i]);
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

static enum sp_status compose_all(struct sp_strbuf *out, struct chars *chars, bool *changed,
                                  const char *text, size_t len, struct sp_err *err)
{
    size_t done = 0, begin, end;
    enum sp_status st;

    *changed = false;
    while (find_segment(text, len, done, &begin, &end)) {
        *changed = true;
        if ((st = sp_strbuf_append(out, text + done, begin - done, err))) return st;
        if ((st = append_segment(out, chars, SP_NFC, text + begin, end - begin, err))) return st;
        done = end;
    }
    return *changed ? sp_strbuf_append(out, text + done, len - done, err) : SP_OK;
}

enum sp_status sp_normalize(struct sp_strbuf *out, bool *changed, enum sp_normal_form form,
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

enum sp_status sp_lowercase(struct sp_strbuf *out, const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st;

    for (size_t i = 0; i < len;) {
        uint32_t c = sp_utf8_next(text, len, &i);
        if ((st = sp_strbuf_reserve(out, 2 * SP_UTF8_MAX, err))) return st;
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
