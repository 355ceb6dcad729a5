/* One pass over the pattern. What means the same in both engines is copied; what differs is spelled
 * out: the white space, word and hex classes (PCRE2 counts U+180E as white space and no marks as
 * word characters), \b, (?m), {,n}, and quantifiers of quantifiers, which PCRE2 would read as
 * possessive. */
#include "format/tokenizer/regex.h"

#include "format/base/mem.h"
#include "format/base/unicode.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 128, TEXT_MAX = 16 };

static const char space_set[] =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";
static const char not_space_set[] =
    "\\x{00}-\\x{08}\\x{0E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}"
    "\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}"
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}";
/* Outside of brackets, the superscripts and fractions of Latin-1 are word characters as well. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
static const char word_set[] = WORD "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
static const char word_member[] = WORD;
static const char hex_set[] = "0-9A-Fa-f";

struct translation {
    const char *in;
    size_t len, pos;
    char *out;
    size_t n, cap;
    size_t atom;               /* where in `out` the last atom begins */
    size_t groups[MAX_GROUPS]; /* where the open groups begin */
    size_t n_groups;
};

static enum sp_status refuse(const struct translation *t, const char *what, struct sp_err *err)
{
    return sp_fail(err, SP_E_UNSUPPORTED, "pattern, byte %zu: %s is not supported", t->pos, what);
}

static enum sp_status put(struct translation *t, const char *text, size_t len, struct sp_err *err)
{
    enum sp_status st = sp_grow(&t->out, &t->cap, t->n + len + 1, 1, err);

    if (st) return st;
    memcpy(t->out + t->n, text, len);
    t->n += len;
    return SP_OK;
}

static enum sp_status put_text(struct translation *t, const char *text, struct sp_err *err)
{
    return put(t, text, strlen(text), err);
}

static enum sp_status put_class(struct translation *t, bool negated, const char *set,
                                struct sp_err *err)
{
    enum sp_status st;

    if ((st = put_text(t, negated ? "[^" : "[", err))) return st;
    if ((st = put_text(t, set, err))) return st;
    return put_text(t, "]", err);
}

/* Copies `len` bytes of the pattern. */
static enum sp_status copy(struct translation *t, size_t len, struct sp_err *err)
{
    enum sp_status st = put(t, t->in + t->pos, len, err);

    if (st == SP_OK) t->pos += len;
    return st;
}

static char peek(const struct translation *t, size_t ahead)
{
    return t->pos + ahead < t->len ? t->in[t->pos + ahead] : '\0';
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t char_len(const struct translation *t)
{
    size_t end = t->pos;

    (void)sp_utf8_next(t->in, t->len, &end);
    return end - t->pos;
}

/* Up to and with the closing brace of \x{..} or \p{..}; 0 if there is none. */
static size_t braced(const struct translation *t)
{
    const char *end;

    if (peek(t, 2) != '{') return 0;
    end = memchr(t->in + t->pos, '}', t->len - t->pos);
    return end ? (size_t)(end - (t->in + t->pos)) + 1 : 0;
}

/* ---- escapes ----------------------------------------------------------------------------------
 */

static enum sp_status copy_hex(struct translation *t, struct sp_err *err)
{
    char text[TEXT_MAX] = "\\x{";
    size_t n_digits = peek(t, 1) == 'u' ? 4 : 2;
    enum sp_status st;

    if (peek(t, 1) == 'x' && braced(t)) return copy(t, braced(t), err);
    for (size_t i = 0; i < n_digits; i++) {
        if (!is_hex(peek(t, 2 + i))) return refuse(t, "this number of hex digits", err);
        text[3 + i] = peek(t, 2 + i);
    }
    text[3 + n_digits] = '}';
    /* \x80 and above are single bytes there, parts of characters. */
    if (n_digits == 2 && text[3] > '7') return refuse(t, "a byte that is not a character", err);
    if ((st = put_text(t, text, err))) return st;
    t->pos += 2 + n_digits;
    return SP_OK;
}

/* Escapes that are the same inside and outside of brackets. */
static enum sp_status copy_escape(struct translation *t, struct sp_err *err)
{
    char c = peek(t, 1);

    if (c == '\0') return refuse(t, "a backslash at the end", err);
    if (c == 'x' || c == 'u') return copy_hex(t, err);
    if (c == 'p' || c == 'P')
        return braced(t) ? copy(t, braced(t), err) : refuse(t, "\\p without braces", err);
    if (c == 'v') {
        t->pos += 2;
        return put_text(t, "\\x{0B}", err);
    }
    if (strchr("dDnrtfea0", c) || (uint8_t)c < '0' || (c > '9' && c < 'A') ||
        (c > 'Z' && c < 'a') || (c > 'z' && (uint8_t)c < 0x7F))
        return copy(t, 2, err);
    if ((uint8_t)c >= 0x80) { /* PCRE2 would refuse the backslash */
        t->pos++;
        return copy(t, char_len(t), err);
    }
    return refuse(t, "this escape", err);
}

static enum sp_status word_boundary(struct translation *t, bool negated, struct sp_err *err)
{
    static const char *const parts[] = {"(?:(?<=[", "])(?", "[", "])|(?<![", "])(?", "[", "]))"};
    enum sp_status st;

    for (size_t i = 0; i < 7; i++) {
        bool set_follows = i == 0 || i == 2 || i == 3 || i == 5;
        if ((st = put_text(t, parts[i], err))) return st;
        if (i == 1 && (st = put_text(t, negated ? "=" : "!", err))) return st;
        if (i == 4 && (st = put_text(t, negated ? "!" : "=", err))) return st;
        if (set_follows && (st = put_text(t, word_set, err))) return st;
    }
    return SP_OK;
}

static enum sp_status translate_escape(struct translation *t, struct sp_err *err)
{
    char c = peek(t, 1);

    t->atom = t->n;
    switch (c) {
    case 's':
    case 'S':
        t->pos += 2;
        return put_class(t, c == 'S', space_set, err);
    case 'w':
    case 'W':
        t->pos += 2;
        return put_class(t, c == 'W', word_set, err);
    case 'h':
    case 'H':
        t->pos += 2;
        return put_class(t, c == 'H', hex_set, err);
    case 'b':
    case 'B':
        t->pos += 2;
        return word_boundary(t, c == 'B', err);
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
    case 'R':
    case 'X':
        return copy(t, 2, err);
    default:
        return copy_escape(t, err);
    }
}

/* ---- brackets ---------------------------------------------------------------------------------
 */

static enum sp_status posix_class(struct translation *t, struct sp_err *err)
{
    static const struct {
        const char *name, *set;
    } table[] = {
        {"[:alpha:]", "\\p{Alphabetic}"},
        {"[:digit:]", "\\p{Nd}"},
        {"[:alnum:]", "\\p{Alphabetic}\\p{Nd}"},
        {"[:lower:]", "\\p{Lowercase}"},
        {"[:upper:]", "\\p{Uppercase}"},
        {"[:punct:]", "\\p{P}\\p{S}"},
        {"[:space:]", space_set},
        {"[:word:]", word_member},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        size_t len = strlen(table[i].name);
        if (t->len - t->pos < len || memcmp(t->in + t->pos, table[i].name, len) != 0) continue;
        t->pos += len;
        return put_text(t, table[i].set, err);
    }
    return refuse(t, "a class inside a class", err);
}

/* One member of a bracket. *set: it was a set of characters; *not_word: it was \W, which is not
 * written, since only a bracket of its own can negate so many sets. */
static enum sp_status bracket_member(struct translation *t, bool *set, bool *not_word,
                                     struct sp_err *err)
{
    char c = peek(t, 0), next = peek(t, 1);

    *set = false;
    if (c == '&' && next == '&') return refuse(t, "an intersection of classes", err);
    if (c == '[') {
        *set = true;
        return posix_class(t, err);
    }
    if (c != '\\') return copy(t, char_len(t), err);
    *set = strchr("sSwWhdDpP", next) != NULL && next != '\0';
    if (next == 'b') /* backspace there and here, but not a set */
        return copy(t, 2, err);
    if (strchr("sSwWh", next) == NULL || next == '\0') return copy_escape(t, err);
    t->pos += 2;
    switch (next) {
    case 's':
        return put_text(t, space_set, err);
    case 'S':
        return put_text(t, not_space_set, err);
    case 'w':
        return put_text(t, word_member, err);
    case 'h':
        return put_text(t, hex_set, err);
    default:
        *not_word = true;
        return SP_OK;
    }
}

static enum sp_status bracket_members(struct translation *t, bool *not_word, struct sp_err *err)
{
    bool first = true, set;
    enum sp_status st;

    while (t->pos < t->len && (first || peek(t, 0) != ']')) {
        if (first && peek(t, 0) == ']') return refuse(t, "an empty class", err);
        if ((st = bracket_member(t, &set, not_word, err))) return st;
        /* After a set, "-" stands for itself. */
        if (set && peek(t, 0) == '-') {
            t->pos++;
            if ((st = put_text(t, "\\-", err))) return st;
        }
        first = false;
    }
    if (t->pos == t->len) return refuse(t, "a class without end", err);
    t->pos++;
    return SP_OK;
}

/* [a\W] becomes (?:[a]|[^w]), and [^a\W] (?:(?![a])[w]). */
static enum sp_status finish_not_word(struct translation *t, bool negated, bool empty,
                                      struct sp_err *err)
{
    enum sp_status st;

    if (empty) {
        t->n = t->atom;
        return put_class(t, !negated, word_member, err);
    }
    const char *open = negated ? "(?:(?!" : "(?:";
    size_t len = strlen(open);
    if ((st = put_text(t, "]      ", err))) return st;
    t->n -= 6;
    memmove(t->out + t->atom + len, t->out + t->atom, t->n - t->atom);
    memcpy(t->out + t->atom, open, len);
    t->n += len;
    if ((st = put_text(t, negated ? ")" : "|", err))) return st;
    if ((st = put_class(t, !negated, word_member, err))) return st;
    return put_text(t, ")", err);
}

static enum sp_status translate_bracket(struct translation *t, struct sp_err *err)
{
    bool negated = peek(t, 1) == '^', not_word = false;
    size_t body;
    enum sp_status st;

    t->atom = t->n;
    t->pos += negated ? 2 : 1;
    if ((st = put_text(t, "[^", err))) return st;
    body = t->n;
    if ((st = bracket_members(t, &not_word, err))) return st;
    if (!negated || not_word) { /* replaces the "^" that reserved its place */
        memmove(t->out + t->atom + 1, t->out + body, t->n - body);
        t->n--;
        body--;
    }
    if (not_word) return finish_not_word(t, negated, t->n == body, err);
    return put_text(t, "]", err);
}

/* ---- groups and quantifiers -------------------------------------------------------------------
 */

/* (?imx-imx: or, at the very beginning only, (?imx-imx) */
static enum sp_status translate_options(struct translation *t, struct sp_err *err)
{
    size_t i = t->pos + 2;
    enum sp_status st;

    if ((st = put_text(t, "(?", err))) return st;
    for (; i < t->len && t->in[i] != ':' && t->in[i] != ')'; i++) {
        /* Ruby's m lets "." match a newline, which is s here. */
        const char *option = t->in[i] == 'i'   ? "i"
                             : t->in[i] == 'm' ? "s"
                             : t->in[i] == '-' ? "-"
                                               : NULL;
        if (option == NULL) return refuse(t, "this kind of group", err);
        if ((st = put_text(t, option, err))) return st;
    }
    if (i == t->len) return refuse(t, "a group without end", err);
    if (t->in[i] == ')' && t->pos != 0) return refuse(t, "an option amid the pattern", err);
    if (t->in[i] == ')') t->n_groups--;
    t->pos = i;
    return copy(t, 1, err);
}

static enum sp_status translate_group(struct translation *t, struct sp_err *err)
{
    char kind = peek(t, 2);

    if (t->n_groups == MAX_GROUPS) return refuse(t, "so deep a nesting of groups", err);
    t->groups[t->n_groups++] = t->n;
    if (peek(t, 1) == '*') return refuse(t, "a verb", err);
    if (peek(t, 1) != '?') return copy(t, 1, err);
    if (kind == '#') return refuse(t, "a comment", err);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') return copy(t, 3, err);
    if (kind != '<') return translate_options(t, err);
    return copy(t, peek(t, 3) == '=' || peek(t, 3) == '!' ? 4 : 3, err);
}

static enum sp_status close_group(struct translation *t, struct sp_err *err)
{
    if (t->n_groups == 0) return refuse(t, "a closing parenthesis without an opening one", err);
    t->atom = t->groups[--t->n_groups];
    return copy(t, 1, err);
}

/* Puts the last atom, quantifier included, into a group. */
static enum sp_status wrap_atom(struct translation *t, struct sp_err *err)
{
    enum sp_status st;

    if ((st = put_text(t, "...)", err))) return st;
    memmove(t->out + t->atom + 3, t->out + t->atom, t->n - 4 - t->atom);
    memcpy(t->out + t->atom, "(?:", 3);
    return SP_OK;
}

/* {n}, {n,}, {,m}, {n,m}; any other brace is a character. */
static enum sp_status translate_interval(struct translation *t, struct sp_err *err)
{
    size_t i = t->pos + 1;
    bool low = false, comma = false, high = false;
    enum sp_status st;

    for (; i < t->len && is_digit(t->in[i]); i++)
        low = true;
    if (i < t->len && t->in[i] == ',') {
        comma = true;
        for (i++; i < t->len && is_digit(t->in[i]); i++)
            high = true;
    }
    if (i >= t->len || t->in[i] != '}' || (!low && !high)) {
        t->atom = t->n;
        t->pos++;
        return put_text(t, "\\{", err);
    }
    if ((st = put_text(t, low ? "{" : "{0", err))) return st;
    t->pos++;
    if ((st = copy(t, i + 1 - t->pos, err))) return st;
    /* Ruby: x{2}+ repeats x{2}, and x{2}? makes it optional. */
    if (peek(t, 0) == '+' || (peek(t, 0) == '?' && !comma)) return wrap_atom(t, err);
    return SP_OK;
}

static enum sp_status translate_next(struct translation *t, struct sp_err *err)
{
    switch (t->in[t->pos]) {
    case '\\':
        return translate_escape(t, err);
    case '[':
        return translate_bracket(t, err);
    case '(':
        return translate_group(t, err);
    case ')':
        return close_group(t, err);
    case '{':
        return translate_interval(t, err);
    case '*':
    case '+':
    case '?':
        return copy(t, 1, err);
    default:
        t->atom = t->n;
        return copy(t, char_len(t), err);
    }
}

enum sp_status sp_regex_translate(char **out, size_t *out_len, const char *pattern, size_t len,
                                  struct sp_err *err)
{
    struct translation t = {.in = pattern, .len = len};
    enum sp_status st = put_text(&t, "", err);

    while (st == SP_OK && t.pos < t.len)
        st = translate_next(&t, err);
    if (st) {
        free(t.out);
        return st;
    }
    t.out[t.n] = '\0';
    *out = t.out;
    *out_len = t.n;
    return SP_OK;
}
