#include "runtime/grammar/grammar_sequence.h"

#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 64, MOST_CHAR = 0x10FFFF, END = -1 };

struct regex {
    struct sp_grammar_sequence sequence;
    struct sp_grammar *g;
    const char *text;
    size_t len, pos;
    struct sp_char_range *class; /* ranges of the class being read, owned */
    size_t n_class, cap_class;
};

static const struct sp_char_range digits[] = {{'0', '9'}};
static const struct sp_char_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct sp_char_range space[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF},
};
static const struct sp_char_range line_ends[] = {{0x0A, 0x0A}, {0x0D, 0x0D}, {0x2028, 0x2029}};

#define N_OF(array) (sizeof(array) / sizeof *(array))

static void refuse(struct regex *r, enum sp_status status, const char *what)
{
    sp_grammar_fail(r->g, status, "character %zu: %s", r->pos + 1, what);
    r->pos = r->len;
}

/* The next character, or END. */
static int peek(const struct regex *r)
{
    size_t pos = r->pos;

    return pos < r->len ? (int)sp_utf8_next(r->text, r->len, &pos) : END;
}

static int take(struct regex *r)
{
    return r->pos < r->len ? (int)sp_utf8_next(r->text, r->len, &r->pos) : END;
}

static bool take_if(struct regex *r, char c)
{
    if (r->pos == r->len || r->text[r->pos] != c) return false;
    r->pos++;
    return true;
}

/* ---- characters ---- */

static void class_add(struct regex *r, const struct sp_char_range *ranges, size_t n)
{
    if (r->g->err.status) return;
    if (sp_grow(&r->class, &r->cap_class, r->n_class + n, sizeof *r->class, &r->g->err)) return;
    memcpy(r->class + r->n_class, ranges, n * sizeof *ranges);
    r->n_class += n;
}

static void class_add_others(struct regex *r, const struct sp_char_range *ranges, size_t n)
{
    struct sp_char_range others[N_OF(space) + 1];

    class_add(r, others, sp_char_ranges_negate(others, ranges, n));
}

/* Reads n hexadecimal digits; n == 0: all digits before a closing brace. */
static uint32_t take_hex(struct regex *r, size_t n)
{
    uint32_t value = 0;

    for (size_t i = 0; n ? i < n : !take_if(r, '}'); i++) {
        int digit = sp_hex_digit(take(r));
        if (digit < 0 || value > MOST_CHAR / 16) {
            refuse(r, SP_E_INPUT, "expected the hexadecimal digits of a character");
            return 0;
        }
        value = value * 16 + (uint32_t)digit;
    }
    return value;
}

/* Reads the digits of \u; a surrogate pair such as \uD83D\uDE00 is one character. */
static uint32_t take_unicode(struct regex *r)
{
    uint32_t c, low;
    size_t after;

    if (take_if(r, '{')) return take_hex(r, 0);
    c = take_hex(r, 4);
    after = r->pos;
    if (c < 0xD800 || c > 0xDBFF || !take_if(r, '\\') || !take_if(r, 'u')) {
        r->pos = after;
        return c;
    }
    low = take_hex(r, 4);
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    r->pos = after;
    return c;
}

/* Reads an escape after its backslash: adds a class or, if true, sets *out to a character. */
static bool take_escape(struct regex *r, uint32_t *out)
{
    static const struct {
        char name;
        const struct sp_char_range *at;
        size_t n;
    } classes[] = {{'d', digits, N_OF(digits)}, {'w', word, N_OF(word)}, {'s', space, N_OF(space)}};
    static const char controls[] = "tnrfv", meant[] = "\t\n\r\f\v";
    int c = take(r);
    const char *control = c > 0 && c < 128 ? strchr(controls, c) : NULL;

    for (size_t i = 0; i < N_OF(classes); i++) {
        if ((c | 0x20) != classes[i].name) continue;
        (c == classes[i].name ? class_add : class_add_others)(r, classes[i].at, classes[i].n);
        return false;
    }
    switch (c) {
    case '0':
        *out = 0;
        return true;
    case 'x':
        *out = take_hex(r, 2);
        return true;
    case 'u':
        *out = take_unicode(r);
        return true;
    default:
        break;
    }
    if (control) {
        *out = (uint32_t)meant[control - controls];
        return true;
    }
    if (c == END || (c < 128 && (strchr("pPbBkc", c) || (c >= '1' && c <= '9')))) {
        refuse(r, SP_E_UNSUPPORTED, "this escape is not supported");
        return false;
    }
    *out = (uint32_t)c;
    return true;
}

/* Reads one member of [...]. Returns true for a single character. */
static bool take_member(struct regex *r, uint32_t *c)
{
    if (!take_if(r, '\\')) {
        *c = (uint32_t)take(r);
        return true;
    }
    if (take_if(r, 'b')) {
        *c = '\b';
        return true;
    }
    return take_escape(r, c);
}

static void take_class(struct regex *r)
{
    bool negated = take_if(r, '^');
    struct sp_char_range range;

    r->n_class = 0;
    while (!take_if(r, ']')) {
        if (peek(r) == END) {
            refuse(r, SP_E_INPUT, "a character class is not closed by ]");
            return;
        }
        if (!take_member(r, &range.first)) continue;
        range.last = range.first;
        if (r->len - r->pos > 1 && r->text[r->pos] == '-' && r->text[r->pos + 1] != ']') {
            r->pos++;
            if (!take_member(r, &range.last) || range.last < range.first) {
                refuse(r, SP_E_INPUT, "a range that ends before it begins");
                return;
            }
        }
        class_add(r, &range, 1);
    }
    sp_grammar_sequence_add_chars(&r->sequence, r->class, r->n_class, negated);
}

static void take_one(struct regex *r)
{
    struct sp_char_range range;

    r->n_class = 0;
    if (take_if(r, '.')) {
        sp_grammar_sequence_add_chars(&r->sequence, line_ends, N_OF(line_ends), true);
        return;
    }
    if (!take_if(r, '\\')) {
        range.first = (uint32_t)take(r);
    } else if (!take_escape(r, &range.first)) {
        sp_grammar_sequence_add_chars(&r->sequence, r->class, r->n_class, false);
        return;
    }
    range.last = range.first;
    sp_grammar_sequence_add_chars(&r->sequence, &range, 1, false);
}

/* ---- sequences ---- */

static uint32_t take_number(struct regex *r)
{
    uint32_t n = 0;

    if (peek(r) < '0' || peek(r) > '9') refuse(r, SP_E_INPUT, "expected a repeat count");
    while (peek(r) >= '0' && peek(r) <= '9' && n <= SP_GRAMMAR_TIMES)
        n = n * 10 + (uint32_t)(take(r) - '0');
    if (n > SP_GRAMMAR_TIMES) refuse(r, SP_E_UNSUPPORTED, "too many times");
    return n;
}

/* Reads the quantifier of the last element, if there is one. */
static void take_quantifier(struct regex *r)
{
    uint32_t min = 1, max = 1;

    if (take_if(r, '*')) {
        min = 0;
        max = SP_NO_LIMIT;
    } else if (take_if(r, '+')) {
        max = SP_NO_LIMIT;
    } else if (take_if(r, '?')) {
        min = 0;
    } else if (take_if(r, '{')) {
        min = max = take_number(r);
        if (take_if(r, ',')) max = peek(r) == '}' ? SP_NO_LIMIT : take_number(r);
        if (!take_if(r, '}') || max < min) refuse(r, SP_E_INPUT, "expected {m}, {m,} or {m,n}");
    } else {
        return;
    }
    take_if(r, '?'); /* a lazy quantifier matches the same language */
    sp_grammar_sequence_repeat(&r->sequence, min, max);
}

static uint32_t take_alternatives(struct regex *r, unsigned depth, uint32_t next);

static void take_group(struct regex *r, unsigned depth)
{
    uint32_t rule;

    if (take_if(r, '?') && !take_if(r, ':')) {
        refuse(r, SP_E_UNSUPPORTED, "of the groups that begin with (? only (?: is supported");
        return;
    }
    if (depth == MOST_NESTED) {
        refuse(r, SP_E_UNSUPPORTED, "groups are nested too deeply");
        return;
    }
    rule = sp_grammar_group(r->g, take_alternatives(r, depth + 1, SP_GRAMMAR_END));
    if (!take_if(r, ')')) refuse(r, SP_E_INPUT, "a group is not closed by )");
    sp_grammar_sequence_add_rule(&r->sequence, rule);
}

static void take_element(struct regex *r, unsigned depth)
{
    int c = peek(r);

    if (take_if(r, '('))
        take_group(r, depth);
    else if (take_if(r, '['))
        take_class(r);
    else if (c == '*' || c == '+' || c == '?' || c == '{')
        refuse(r, SP_E_INPUT, "there is nothing to be repeated");
    else if (c == '^' || c == '$')
        refuse(r, SP_E_UNSUPPORTED, "^ and $ are read at the ends of the pattern only");
    else
        take_one(r);
    take_quantifier(r);
}

static void add_anything(struct regex *r)
{
    sp_grammar_sequence_add_chars(&r->sequence, NULL, 0, true);
    sp_grammar_sequence_repeat(&r->sequence, 0, SP_NO_LIMIT);
}

/* Reads one alternative. An alternative of the whole pattern that lacks ^ or $ may be preceded or
 * followed by any text. */
static uint32_t take_alternative(struct regex *r, unsigned depth, uint32_t next)
{
    size_t first = r->sequence.n;
    bool open = depth == 0;

    if (depth == 0 && !take_if(r, '^')) add_anything(r);
    while (peek(r) != END && peek(r) != '|' && peek(r) != ')' && !r->g->err.status) {
        if (depth == 0 && peek(r) == '$') {
            size_t at = r->pos + 1;
            if (at == r->len || r->text[at] == '|') {
                r->pos++;
                open = false;
                break;
            }
        }
        take_element(r, depth);
    }
    if (open) add_anything(r);
    return sp_grammar_sequence_join(&r->sequence, first, next);
}

static uint32_t take_alternatives(struct regex *r, unsigned depth, uint32_t next)
{
    uint32_t choice = take_alternative(r, depth, next);

    while (take_if(r, '|'))
        choice = sp_grammar_either(r->g, choice, take_alternative(r, depth, next));
    return choice;
}

uint32_t sp_grammar_regex(struct sp_grammar *g, const char *pattern, size_t len, sp_spell_fn *spell,
                          uint32_t next)
{
    struct regex r = {.sequence = {.g = g, .spell = spell}, .g = g, .text = pattern, .len = len};
    uint32_t start = take_alternatives(&r, 0, next);

    if (r.pos < r.len) refuse(&r, SP_E_INPUT, "a ) closes no group");
    sp_grammar_sequence_release(&r.sequence);
    free(r.class);
    return start;
}
