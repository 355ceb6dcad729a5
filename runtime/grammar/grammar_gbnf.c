/* GBNF, the notation of llama.cpp's grammars: rules of characters in Backus-Naur form with
 * repetitions. The rule "root" is the start.
 *
 * root  ::= item ("," item){1,3}     # a sequence, a group, a repetition
 * item  ::= [a-z_]+ | "\"" [^"\x00-\x1F]* "\""
 *
 * An alternative continues over line ends inside a group and after a "|". Groups become rules
 * without a name. llama.cpp's single tokens, <...>, are refused: this grammar describes text. */
#include "runtime/grammar/grammar_sequence.h"

#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 64, MOST_CHAR = 0x10FFFF, MOST_NAMES = 4096 };

/* A rule that has been defined or called. */
struct named {
    const char *name; /* [len], borrowed from the text */
    size_t len, at;   /* length of the name; offset of its first use in the text */
    uint32_t rule;
    bool defined;
};

struct gbnf {
    struct sp_grammar_sequence sequence;
    struct sp_grammar *g;
    const char *text;
    size_t size, pos;
    struct named *names; /* [n_names] owned */
    size_t n_names, cap_names;
    struct sp_char_range *class; /* ranges of the class being read, owned */
    size_t n_class, cap_class;
};

/* ---- reading ---- */

static void fail_at(struct gbnf *b, size_t at, enum sp_status status, const char *what)
{
    size_t line = 1, begin = 0;

    for (size_t i = 0; i < at; i++) {
        if (b->text[i] != '\n') continue;
        line++;
        begin = i + 1;
    }
    sp_grammar_fail(b->g, status, "%zu:%zu: %s", line, at - begin + 1, what);
    b->pos = b->size;
}

static void fail(struct gbnf *b, const char *what)
{
    fail_at(b, b->pos, SP_E_INPUT, what);
}

static char peek(const struct gbnf *b)
{
    return b->pos < b->size ? b->text[b->pos] : '\0';
}

static bool take_if(struct gbnf *b, const char *text)
{
    size_t len = strlen(text);

    if (b->size - b->pos < len || memcmp(b->text + b->pos, text, len) != 0) return false;
    b->pos += len;
    return true;
}

/* Skips spaces, tabs and comments, and with `lines` also line ends. */
static void skip_whitespace(struct gbnf *b, bool lines)
{
    for (; b->pos < b->size; b->pos++) {
        char c = peek(b);
        if (c == '#') {
            while (b->pos < b->size && peek(b) != '\n')
                b->pos++;
            if (!lines || b->pos == b->size) return;
            continue;
        }
        if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) return;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '-' || c == '_';
}

/* Reads a name and returns its rule, which is created on first use. */
static struct named *take_name(struct gbnf *b)
{
    size_t at = b->pos;

    while (is_name_char(peek(b)))
        b->pos++;
    for (size_t i = 0; i < b->n_names; i++) {
        struct named *n = &b->names[i];
        if (n->len == b->pos - at && memcmp(n->name, b->text + at, n->len) == 0) return n;
    }
    if (b->pos == at) {
        fail(b, "expected the name of a rule");
        return NULL;
    }
    if (b->n_names == MOST_NAMES) fail(b, "too many rules");
    if (b->g->err.status ||
        sp_grow(&b->names, &b->cap_names, b->n_names + 1, sizeof *b->names, &b->g->err))
        return NULL;
    b->names[b->n_names] = (struct named){
        .name = b->text + at,
        .len = b->pos - at,
        .at = at,
        .rule = sp_grammar_rule(b->g, b->text + at, b->pos - at),
    };
    return &b->names[b->n_names++];
}

/* ---- characters ---- */

static uint32_t take_hex(struct gbnf *b, size_t n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    uint32_t value = 0;

    for (size_t i = 0; i < n; i++, b->pos++) {
        const char *digit = peek(b) ? strchr(digits, peek(b)) : NULL;
        if (digit == NULL) {
            fail(b, "expected a hexadecimal digit");
            return 0;
        }
        value = value << 4 | (uint32_t)((digit - digits) % 16);
    }
    if (value > MOST_CHAR || (value >= 0xD800 && value <= 0xDFFF))
        fail(b, "not the number of a Unicode character");
    return value;
}

/* Reads one character inside quotation marks or brackets. */
static uint32_t take_char(struct gbnf *b)
{
    static const char letters[] = "nrt\"\\[]", meant[] = "\n\r\t\"\\[]";
    const char *letter;

    if (b->pos == b->size) {
        fail(b, "the text ends inside quotation marks or brackets");
        return 0;
    }
    if (!take_if(b, "\\")) return sp_utf8_next(b->text, b->size, &b->pos);
    if (take_if(b, "x")) return take_hex(b, 2);
    if (take_if(b, "u")) return take_hex(b, 4);
    if (take_if(b, "U")) return take_hex(b, 8);
    letter = peek(b) ? strchr(letters, peek(b)) : NULL;
    if (letter == NULL) {
        fail(b, "expected n, r, t, x, u, U, \", \\, [ or ] after a backslash");
        return 0;
    }
    b->pos++;
    return (uint32_t)meant[letter - letters];
}

static void take_text(struct gbnf *b)
{
    struct sp_strbuf text = {0};
    char bytes[SP_UTF8_MAX];

    while (!b->g->err.status && !take_if(b, "\"")) {
        size_t n = sp_utf8_put(bytes, take_char(b));
        if (sp_strbuf_append(&text, bytes, n, &b->g->err)) break;
    }
    sp_grammar_sequence_add_text(&b->sequence, text.at, text.len);
    sp_strbuf_release(&text);
}

static void take_class(struct gbnf *b)
{
    bool negated = take_if(b, "^");

    b->n_class = 0;
    while (!b->g->err.status && !take_if(b, "]")) {
        struct sp_char_range range;
        size_t at = b->pos;
        range.first = range.last = take_char(b);
        if (peek(b) == '-' && b->pos + 1 < b->size && b->text[b->pos + 1] != ']') {
            b->pos++;
            range.last = take_char(b);
        }
        if (range.last < range.first)
            fail_at(b, at, SP_E_INPUT, "a range that ends before it begins");
        if (b->g->err.status ||
            sp_grow(&b->class, &b->cap_class, b->n_class + 1, sizeof *b->class, &b->g->err))
            return;
        b->class[b->n_class++] = range;
    }
    sp_grammar_sequence_add_chars(&b->sequence, b->class, b->n_class, negated);
}

/* ---- sequences ---- */

static uint32_t take_number(struct gbnf *b)
{
    uint32_t n = 0;

    if (!is_digit(peek(b))) fail(b, "expected a repeat count");
    while (is_digit(peek(b)) && n <= SP_GRAMMAR_TIMES)
        n = n * 10 + (uint32_t)(b->text[b->pos++] - '0');
    if (n > SP_GRAMMAR_TIMES) fail(b, "the repeat count is too large");
    skip_whitespace(b, false);
    return n;
}

/* Reads {m}, {m,} or {m,n} after the opening brace. */
static void take_braces(struct gbnf *b, uint32_t *min, uint32_t *max)
{
    skip_whitespace(b, false);
    *min = *max = take_number(b);
    if (take_if(b, ",")) {
        skip_whitespace(b, false);
        *max = peek(b) == '}' ? SP_NO_LIMIT : take_number(b);
    }
    if (!take_if(b, "}")) fail(b, "expected }");
    if (*max < *min) fail(b, "the maximum repeat count is below the minimum");
}

static void take_quantifier(struct gbnf *b)
{
    uint32_t min = 1, max = 1;

    if (take_if(b, "*")) {
        min = 0;
        max = SP_NO_LIMIT;
    } else if (take_if(b, "+")) {
        max = SP_NO_LIMIT;
    } else if (take_if(b, "?")) {
        min = 0;
    } else if (take_if(b, "{")) {
        take_braces(b, &min, &max);
    } else {
        return;
    }
    sp_grammar_sequence_repeat(&b->sequence, min, max);
    skip_whitespace(b, false);
    if (peek(b) && strchr("*+?{", peek(b))) fail(b, "expected one repeat count, found a second");
}

static uint32_t take_alternatives(struct gbnf *b, unsigned depth);

static void take_group(struct gbnf *b, unsigned depth)
{
    uint32_t rule;

    if (depth == MOST_NESTED) {
        fail(b, "groups are nested too deeply");
        return;
    }
    rule = sp_grammar_group(b->g, take_alternatives(b, depth + 1));
    if (!take_if(b, ")")) fail(b, "expected )");
    sp_grammar_sequence_add_rule(&b->sequence, rule);
}

/* Reads one element of a sequence; false at the end of the alternative. */
static bool take_element(struct gbnf *b, unsigned depth)
{
    struct named *name;

    if (take_if(b, "\"")) {
        take_text(b);
    } else if (take_if(b, "[")) {
        take_class(b);
    } else if (take_if(b, ".")) {
        sp_grammar_sequence_add_chars(&b->sequence, NULL, 0, true);
    } else if (take_if(b, "(")) {
        take_group(b, depth);
    } else if (is_name_char(peek(b))) {
        if ((name = take_name(b))) sp_grammar_sequence_add_rule(&b->sequence, name->rule);
    } else if (peek(b) == '<' || (peek(b) == '!' && b->pos + 1 < b->size)) {
        fail_at(b, b->pos, SP_E_UNSUPPORTED, "token references are not supported in grammars");
    } else {
        return false;
    }
    skip_whitespace(b, depth > 0);
    take_quantifier(b);
    skip_whitespace(b, depth > 0);
    return !b->g->err.status;
}

static uint32_t take_alternative(struct gbnf *b, unsigned depth)
{
    size_t first = b->sequence.n;

    while (take_element(b, depth))
        continue;
    return sp_grammar_sequence_join(&b->sequence, first, SP_GRAMMAR_END);
}

static uint32_t take_alternatives(struct gbnf *b, unsigned depth)
{
    uint32_t choice;

    skip_whitespace(b, true);
    choice = take_alternative(b, depth);
    while (take_if(b, "|")) {
        skip_whitespace(b, true);
        choice = sp_grammar_either(b->g, choice, take_alternative(b, depth));
    }
    return choice;
}

static void take_rule(struct gbnf *b)
{
    size_t at = b->pos, which;
    struct named *name = take_name(b);
    uint32_t choice;

    if (name == NULL) return;
    which = (size_t)(name - b->names); /* take_name may reallocate the list */
    if (name->defined) {
        fail_at(b, at, SP_E_INPUT, "this rule was defined before");
        return;
    }
    skip_whitespace(b, false);
    if (!take_if(b, "::=")) {
        fail(b, "expected ::= after the name of the rule");
        return;
    }
    choice = take_alternatives(b, 0);
    if (b->pos < b->size && peek(b) != '\n' && peek(b) != '\r') {
        fail(b,
             "expected a text, characters in brackets, a group, the name of a rule or the end of "
             "the line");
        return;
    }
    b->names[which].defined = true;
    sp_grammar_define(b->g, b->names[which].rule, choice);
    skip_whitespace(b, true);
}

/* Finds the rule "root" and checks that every called rule is defined. */
static uint32_t find_root(struct gbnf *b)
{
    static const char root[] = "root";
    uint32_t found = SP_GRAMMAR_NEVER;

    for (size_t i = 0; i < b->n_names; i++) {
        const struct named *n = &b->names[i];
        if (!n->defined) fail_at(b, n->at, SP_E_INPUT, "this rule is not defined");
        if (n->len != sizeof root - 1 || memcmp(n->name, root, n->len) != 0) continue;
        found = sp_grammar_call(b->g, n->rule, 1, 1, SP_GRAMMAR_END);
    }
    if (found == SP_GRAMMAR_NEVER)
        sp_grammar_fail(b->g, SP_E_INPUT, "the grammar has no rule \"root\"");
    return found;
}

enum sp_status sp_grammar_of_gbnf(struct sp_grammar **out, const char *text, size_t size,
                                  struct sp_err *err)
{
    struct gbnf b = {.text = text, .size = size};
    enum sp_status st;

    if (size > SP_GRAMMAR_TEXT) {
        return sp_fail(err, SP_E_UNSUPPORTED, "the grammar has more than %d bytes",
                       SP_GRAMMAR_TEXT);
    }
    if (sp_utf8_valid(text, size) != size)
        return sp_fail(err, SP_E_INPUT, "the grammar is not valid UTF-8");
    if ((st = sp_grammar_new(&b.g, err))) return st;
    b.sequence.g = b.g;
    b.sequence.spell = sp_grammar_chars;
    skip_whitespace(&b, true);
    while (b.pos < b.size && !b.g->err.status)
        take_rule(&b);
    st = sp_grammar_finish(b.g, find_root(&b), err);
    if (st)
        sp_grammar_close(b.g);
    else
        *out = b.g;
    sp_grammar_sequence_release(&b.sequence);
    free(b.names);
    free(b.class);
    return st;
}
