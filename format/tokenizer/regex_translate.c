/* One pass over the pattern. What means the same in both engines is copied; what differs is spelled
 * out: the white space, word and hex classes (PCRE2 counts U+180E as white space and no marks as
 * word characters), \b, (?m), {,n}, and quantifiers of quantifiers, which PCRE2 would read as
 * possessive. */
#include "format/tokenizer/regex.h"

#include "format/base/strbuf.h"
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

/* The first failure is kept: from then on nothing is written. Functions return the status. */
struct translation {
    const char *in;
    size_t len, pos;
    struct sp_strbuf out;
    size_t atom;               /* where in `out` the last atom begins */
    size_t groups[MAX_GROUPS]; /* where the open groups begin */
    size_t n_groups;
    enum sp_status st;
    struct sp_err *err;
};

static enum sp_status refuse(struct translation *t, const char *what)
{
    if (t->st) return t->st;
    return t->st = sp_fail(t->err, SP_E_UNSUPPORTED, "pattern, byte %zu: %s is not supported",
                           t->pos, what);
}

static enum sp_status put(struct translation *t, const char *text, size_t len)
{
    if (!t->st) t->st = sp_strbuf_append(&t->out, text, len, t->err);
    return t->st;
}

static enum sp_status put_text(struct translation *t, const char *text)
{
    return put(t, text, strlen(text));
}

static enum sp_status put_class(struct translation *t, bool negated, const char *set)
{
    put_text(t, negated ? "[^" : "[");
    put_text(t, set);
    return put_text(t, "]");
}

/* Puts a text in front of what `out` has from `at` on. */
static void insert(struct translation *t, size_t at, const char *text)
{
    size_t len = strlen(text);

    put(t, text, len); /* makes the space */
    if (t->st) return;
    memmove(t->out.at + at + len, t->out.at + at, t->out.len - len - at);
    memcpy(t->out.at + at, text, len);
}

/* Copies `len` bytes of the pattern. */
static enum sp_status copy(struct translation *t, size_t len)
{
    put(t, t->in + t->pos, len);
    t->pos += len;
    return t->st;
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

/* ---- escapes ---- */

static enum sp_status copy_hex(struct translation *t)
{
    char text[TEXT_MAX] = "\\x{";
    size_t n_digits = peek(t, 1) == 'u' ? 4 : 2;

    if (peek(t, 1) == 'x' && braced(t)) return copy(t, braced(t));
    for (size_t i = 0; i < n_digits; i++) {
        if (!is_hex(peek(t, 2 + i))) return refuse(t, "this number of hex digits");
        text[3 + i] = peek(t, 2 + i);
    }
    text[3 + n_digits] = '}';
    /* \x80 and above are single bytes there, parts of characters. */
    if (n_digits == 2 && text[3] > '7') return refuse(t, "a byte that is not a character");
    t->pos += 2 + n_digits;
    return put_text(t, text);
}

/* Escapes that are the same inside and outside of brackets. */
static enum sp_status copy_escape(struct translation *t)
{
    char c = peek(t, 1);

    if (c == '\0') return refuse(t, "a backslash at the end");
    if (c == 'x' || c == 'u') return copy_hex(t);
    if (c == 'p' || c == 'P')
        return braced(t) ? copy(t, braced(t)) : refuse(t, "\\p without braces");
    if (c == 'v') {
        t->pos += 2;
        return put_text(t, "\\x{0B}");
    }
    if (strchr("dDnrtfea0", c) || (uint8_t)c < '0' || (c > '9' && c < 'A') ||
        (c > 'Z' && c < 'a') || (c > 'z' && (uint8_t)c < 0x7F))
        return copy(t, 2);
    if ((uint8_t)c < 0x80) return refuse(t, "this escape");
    t->pos++; /* PCRE2 would refuse the backslash */
    return copy(t, char_len(t));
}

static enum sp_status word_boundary(struct translation *t, bool negated)
{
    const char *const parts[] = {"(?:(?<=[", word_set, "])(?", negated ? "=" : "!", "[", word_set,
                                 "])|(?<![", word_set, "])(?", negated ? "!" : "=", "[", word_set,
                                 "]))"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        put_text(t, parts[i]);
    return t->st;
}

static enum sp_status translate_escape(struct translation *t)
{
    static const struct {
        char name;
        const char *set;
    } classes[] = {{'s', space_set}, {'w', word_set}, {'h', hex_set}};
    char c = peek(t, 1);

    t->atom = t->out.len;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if ((c | 0x20) != classes[i].name) continue;
        t->pos += 2;
        return put_class(t, c != classes[i].name, classes[i].set);
    }
    if (c && strchr("AzZGRX", c)) return copy(t, 2);
    if (c != 'b' && c != 'B') return copy_escape(t);
    t->pos += 2;
    return word_boundary(t, c == 'B');
}

/* ---- brackets ---- */

static enum sp_status posix_class(struct translation *t)
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
        return put_text(t, table[i].set);
    }
    return refuse(t, "a class inside a class");
}

/* One member of a bracket; true if it was a set of characters. *not_word: it was \W, which is not
 * written, since only a bracket of its own can negate so many sets. */
static bool bracket_member(struct translation *t, bool *not_word)
{
    static const struct {
        char name;
        const char *set;
    } sets[] = {
        {'s', space_set}, {'S', not_space_set}, {'w', word_member}, {'h', hex_set}, {'W', ""}};
    char c = peek(t, 0), next = peek(t, 1);

    if (c == '&' && next == '&') refuse(t, "an intersection of classes");
    if (c == '[') posix_class(t);
    if (c != '\\' && c != '[') copy(t, char_len(t));
    if (c != '\\') return c == '[';
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (next != sets[i].name) continue;
        t->pos += 2;
        put_text(t, sets[i].set);
        *not_word = *not_word || next == 'W';
        return true;
    }
    if (next == 'b') /* backspace there and here, but not a set */
        copy(t, 2);
    else
        copy_escape(t);
    return next && strchr("dDpP", next);
}

static enum sp_status bracket_members(struct translation *t, bool *not_word)
{
    if (peek(t, 0) == ']') return refuse(t, "an empty class");
    while (t->pos < t->len && peek(t, 0) != ']' && !t->st) {
        bool set = bracket_member(t, not_word);
        /* After a set, "-" stands for itself. */
        if (set && peek(t, 0) == '-') {
            t->pos++;
            put_text(t, "\\-");
        }
    }
    if (t->pos == t->len) refuse(t, "a class without end");
    t->pos++;
    return t->st;
}

/* [a\W] becomes (?:[a]|[^w]), and [^a\W] (?:(?![a])[w]). */
static enum sp_status finish_not_word(struct translation *t, bool negated, bool empty)
{
    if (empty) {
        t->out.len = t->atom;
        return put_class(t, !negated, word_member);
    }
    put_text(t, "]");
    insert(t, t->atom, negated ? "(?:(?!" : "(?:");
    put_text(t, negated ? ")" : "|");
    put_class(t, !negated, word_member);
    return put_text(t, ")");
}

static enum sp_status translate_bracket(struct translation *t)
{
    bool negated = peek(t, 1) == '^', not_word = false;
    size_t body;

    t->atom = body = t->out.len;
    t->pos += negated ? 2 : 1;
    if (bracket_members(t, &not_word)) return t->st;
    insert(t, t->atom, negated && !not_word ? "[^" : "[");
    body += negated && !not_word ? 2 : 1;
    if (not_word) return finish_not_word(t, negated, t->out.len == body);
    return put_text(t, "]");
}

/* ---- groups and quantifiers ---- */

/* (?imx-imx: or, at the very beginning only, (?imx-imx) */
static enum sp_status translate_options(struct translation *t)
{
    size_t i = t->pos + 2;

    put_text(t, "(?");
    for (; i < t->len && t->in[i] != ':' && t->in[i] != ')'; i++) {
        /* Ruby's m lets "." match a newline, which is s here. */
        const char *option = t->in[i] == 'i'   ? "i"
                             : t->in[i] == 'm' ? "s"
                             : t->in[i] == '-' ? "-"
                                               : NULL;
        if (option == NULL) return refuse(t, "this kind of group");
        put_text(t, option);
    }
    if (i == t->len) return refuse(t, "a group without end");
    if (t->in[i] == ')' && t->pos != 0) return refuse(t, "an option amid the pattern");
    if (t->in[i] == ')') t->n_groups--;
    t->pos = i;
    return copy(t, 1);
}

static enum sp_status translate_group(struct translation *t)
{
    char kind = peek(t, 2);

    if (t->n_groups == MAX_GROUPS) return refuse(t, "so deep a nesting of groups");
    t->groups[t->n_groups++] = t->out.len;
    if (peek(t, 1) == '*') return refuse(t, "a verb");
    if (peek(t, 1) != '?') return copy(t, 1);
    if (kind == '#') return refuse(t, "a comment");
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') return copy(t, 3);
    if (kind != '<') return translate_options(t);
    return copy(t, peek(t, 3) == '=' || peek(t, 3) == '!' ? 4 : 3);
}

static enum sp_status close_group(struct translation *t)
{
    if (t->n_groups == 0) return refuse(t, "a closing parenthesis without an opening one");
    t->atom = t->groups[--t->n_groups];
    return copy(t, 1);
}

/* {n}, {n,}, {,m}, {n,m}; any other brace is a character. */
static enum sp_status translate_interval(struct translation *t)
{
    size_t i = t->pos + 1;
    bool low = false, comma = false, high = false;

    for (; i < t->len && is_digit(t->in[i]); i++)
        low = true;
    if (i < t->len && t->in[i] == ',') {
        comma = true;
        for (i++; i < t->len && is_digit(t->in[i]); i++)
            high = true;
    }
    if (i >= t->len || t->in[i] != '}' || (!low && !high)) {
        t->atom = t->out.len;
        t->pos++;
        return put_text(t, "\\{");
    }
    put_text(t, low ? "{" : "{0");
    t->pos++;
    copy(t, i + 1 - t->pos);
    /* Ruby: x{2}+ repeats x{2}, and x{2}? makes it optional: the atom with its quantifier becomes a
     * group. */
    if (peek(t, 0) != '+' && (peek(t, 0) != '?' || comma)) return t->st;
    insert(t, t->atom, "(?:");
    return put_text(t, ")");
}

static enum sp_status translate_next(struct translation *t)
{
    switch (t->in[t->pos]) {
    case '\\':
        return translate_escape(t);
    case '[':
        return translate_bracket(t);
    case '(':
        return translate_group(t);
    case ')':
        return close_group(t);
    case '{':
        return translate_interval(t);
    case '*':
    case '+':
    case '?':
        return copy(t, 1);
    default:
        t->atom = t->out.len;
        return copy(t, char_len(t));
    }
}

enum sp_status sp_regex_translate(char **out, size_t *out_len, const char *pattern, size_t len,
                                  struct sp_err *err)
{
    struct translation t = {.in = pattern, .len = len, .err = err};

    while (t.pos < t.len && !translate_next(&t))
        continue;
    if (put(&t, "", 1)) {
        sp_strbuf_release(&t.out);
        return t.st;
    }
    *out = t.out.at;
    *out_len = t.out.len - 1;
    return SP_OK;
}
