/* Splits a Go template into tokens, as text/template/parse does. "{{- " trims the whitespace
 * before an action, " -}}" the whitespace after it; comments are dropped. */
#include "runtime/template/go/gotemplate_exec.h"
#include "format/base/unicode_case.h"
#include "format/base/unicode.h"
#include "runtime/template/value/value.h"

#include <string.h>

enum { MAX_TOKENS = 1 << 20 };

struct lexer {
    struct sp_heap *heap;
    const char *text;
    size_t size, pos;
    uint32_t line;
    size_t counted; /* newlines before this offset are counted in `line` */
    bool spaced;
    unsigned parens;
    struct sp_go_lexeme *tokens;
    size_t n, cap;
};

static uint32_t line_at(struct lexer *x, size_t pos)
{
    for (; x->counted < pos; x->counted++)
        x->line += x->text[x->counted] == '\n';
    return x->line;
}

static enum sp_status fail_at(struct lexer *x, const char *what)
{
    return sp_fail(x->heap->err, SP_E_INPUT, "template:%u: %s", line_at(x, x->pos), what);
}

static enum sp_status push(struct lexer *x, enum sp_go_token token, size_t begin,
                           struct sp_value value)
{
    enum sp_status st;

    if (x->n == MAX_TOKENS) return fail_at(x, "too many tokens");
    if ((st = sp_heap_grow(x->heap, &x->tokens, x->n, &x->cap, sizeof *x->tokens))) return st;
    x->tokens[x->n++] = (struct sp_go_lexeme){.token = (uint8_t)token,
                                              .spaced = x->spaced,
                                              .line = line_at(x, begin),
                                              .begin = (uint32_t)begin,
                                              .end = (uint32_t)x->pos,
                                              .value = value};
    x->spaced = false;
    return SP_OK;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool here(const struct lexer *x, const char *what)
{
    size_t len = strlen(what);

    return x->size - x->pos >= len && memcmp(x->text + x->pos, what, len) == 0;
}

/* The length of `}}`, or of whitespace and `-}}` (*trims), at the current position, else 0. */
static size_t right_delimiter(const struct lexer *x, bool *trims)
{
    *trims = x->size - x->pos >= 4 && is_space(x->text[x->pos]) &&
             memcmp(x->text + x->pos + 1, "-}}", 3) == 0;
    return *trims ? 4 : here(x, "}}") ? 2 : 0;
}

static void skip_whitespace(struct lexer *x)
{
    while (x->pos < x->size && is_space(x->text[x->pos]))
        x->pos++;
}

static bool word_char(const struct lexer *x, size_t *next)
{
    uint32_t c;

    *next = x->pos;
    if (x->pos >= x->size) return false;
    c = sp_utf8_next(x->text, x->size, next);
    return c == '_' || sp_unicode_is_alpha(c) || sp_unicode_is_decimal(c);
}

static void skip_word(struct lexer *x)
{
    size_t next;

    while (word_char(x, &next))
        x->pos = next;
}

/* Checks the character after a word. */
static enum sp_status check_terminator(struct lexer *x)
{
    if (x->pos >= x->size || is_space(x->text[x->pos]) || here(x, "}}")) return SP_OK;
    if (strchr(".,|:)(", x->text[x->pos]) != NULL && x->text[x->pos]) return SP_OK;
    return fail_at(x, "bad character after a name");
}

static enum sp_status lex_field(struct lexer *x, enum sp_go_token token)
{
    enum sp_status st;
    size_t begin = x->pos++;

    skip_word(x);
    if ((st = check_terminator(x))) return st;
    if (token == SP_G_VARIABLE)
        return push(x, token, begin, sp_value_text(x->text + begin, x->pos - begin));
    if (x->pos == begin + 1) return push(x, SP_G_DOT, begin, sp_value_none());
    return push(x, token, begin, sp_value_text(x->text + begin + 1, x->pos - begin - 1));
}

static enum sp_status lex_word(struct lexer *x)
{
    static const char *const keywords[] = {"block", "break", "continue", "define",   "else",
                                           "end",   "if",    "range",    "template", "with"};
    enum sp_status st;
    size_t begin = x->pos;
    struct sp_value word;

    skip_word(x);
    if ((st = check_terminator(x))) return st;
    word = sp_value_text(x->text + begin, x->pos - begin);
    if (sp_text_is(word, "nil")) return push(x, SP_G_NIL, begin, word);
    if (sp_text_is(word, "true") || sp_text_is(word, "false"))
        return push(x, SP_G_LITERAL, begin, sp_value_bool(word.text[0] == 't'));
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (sp_text_is(word, keywords[i])) return push(x, SP_G_KEYWORD, begin, word);
    return push(x, SP_G_NAME, begin, word);
}

static enum sp_status lex_quoted(struct lexer *x)
{
    enum sp_status st;
    struct sp_builder b = {.heap = x->heap};
    size_t begin = x->pos, pos = begin + 1;
    char quote = x->text[begin];
    struct sp_value value;

    while (pos < x->size && x->text[pos] != quote && x->text[pos] != '\n') {
        if (x->text[pos] == '\\') {
            bool known;
            pos++;
            st = sp_build_escape(&b, &known, x->text, x->size, &pos);
            if (st) sp_context(x->heap->err, "template:%u", line_at(x, x->pos));
            if (!st && !known) st = fail_at(x, "invalid escape in a string");
        } else {
            st = sp_build(&b, x->text + pos++, 1);
        }
        if (st) return st;
    }
    if (pos >= x->size || x->text[pos] != quote) return fail_at(x, "unterminated quoted string");
    value = sp_builder_value(&b);
    if (quote == '\'') {
        size_t end = 0;
        uint32_t c = value.len ? sp_utf8_next(value.text, value.len, &end) : 0;
        if (value.len == 0 || end != value.len) return fail_at(x, "malformed character constant");
        value = sp_value_int(c);
    }
    x->pos = pos + 1;
    return push(x, SP_G_LITERAL, begin, value);
}

static enum sp_status lex_raw(struct lexer *x)
{
    enum sp_status st;
    struct sp_builder b = {.heap = x->heap};
    size_t begin = x->pos, pos = begin + 1;

    for (; pos < x->size && x->text[pos] != '`'; pos++)
        if (x->text[pos] != '\r' && (st = sp_build(&b, x->text + pos, 1))) return st;
    if (pos >= x->size) return fail_at(x, "unterminated raw quoted string");
    x->pos = pos + 1;
    return push(x, SP_G_LITERAL, begin, sp_builder_value(&b));
}

/* Reads a decimal number, with a sign. */
static enum sp_status lex_number(struct lexer *x)
{
    enum sp_status st;
    size_t begin = x->pos, next;
    bool negative = x->text[begin] == '-', octal;
    struct sp_value value;

    x->pos += negative || x->text[begin] == '+';
    for (; x->pos < x->size; x->pos++) {
        char c = x->text[x->pos];
        bool exponent = x->pos > begin && (x->text[x->pos - 1] | 0x20) == 'e';
        if (!((c >= '0' && c <= '9') || c == '.' || (c | 0x20) == 'e' ||
              (exponent && (c == '+' || c == '-'))))
            break;
    }
    next = begin + (negative || x->text[begin] == '+');
    if ((st = sp_value_copy_text(x->heap, &value, x->text + next, x->pos - next))) return st;
    octal = value.len > 1 && value.text[0] == '0' && value.text[1] >= '0' && value.text[1] <= '9';
    if (octal || word_char(x, &next) || !sp_number_parse(&value, value.text) ||
        value.kind == SP_V_BIG) {
        return sp_fail(x->heap->err, SP_E_INPUT, "template:%u: bad number syntax: \"%.*s\"",
                       line_at(x, begin), (int)(x->pos - begin < 40 ? x->pos - begin : 40),
                       x->text + begin);
    }
    if (negative && value.kind == SP_V_INT) value.integer = -value.integer;
    if (negative && value.kind == SP_V_FLOAT) value.real = -value.real;
    return push(x, SP_G_LITERAL, begin, value);
}

static enum sp_status lex_punctuation(struct lexer *x)
{
    size_t begin = x->pos++, next;

    switch (x->text[begin]) {
    case '=':
        return push(x, SP_G_ASSIGN, begin, sp_value_none());
    case '|':
        return push(x, SP_G_PIPE, begin, sp_value_none());
    case ',':
        return push(x, SP_G_COMMA, begin, sp_value_none());
    case ':':
        if (!here(x, "=")) return fail_at(x, "expected :=");
        x->pos++;
        return push(x, SP_G_DECLARE, begin, sp_value_none());
    case '(':
        x->parens++;
        return push(x, SP_G_LPAREN, begin, sp_value_none());
    case ')':
        if (x->parens-- == 0) return fail_at(x, "unexpected right paren");
        return push(x, SP_G_RPAREN, begin, sp_value_none());
    default:
        break;
    }
    x->pos = begin;
    if (word_char(x, &next)) return lex_word(x);
    if (x->text[begin] < ' ' || x->text[begin] > '~')
        return fail_at(x, "unrecognized character in action");
    x->pos++;
    return push(x, SP_G_OTHER, begin, sp_value_text(x->text + begin, 1));
}

/* Reads an action from after `{{` to after `}}`. */
static enum sp_status lex_action(struct lexer *x)
{
    enum sp_status st = SP_OK;
    bool trims;

    x->parens = 0;
    while (x->pos < x->size && !st) {
        char c = x->text[x->pos];
        char next = x->pos + 1 < x->size ? x->text[x->pos + 1] : '\0';
        size_t right = right_delimiter(x, &trims), begin = x->pos;
        if (right) {
            if (x->parens) return fail_at(x, "unclosed left paren");
            x->pos += right;
            if ((st = push(x, SP_G_RIGHT, begin, sp_value_none()))) return st;
            if (trims) skip_whitespace(x);
            return SP_OK;
        }
        if (is_space(c)) {
            x->pos++;
            x->spaced = true;
        } else if (c == '"' || c == '\'') {
            st = lex_quoted(x);
        } else if (c == '`') {
            st = lex_raw(x);
        } else if (c == '$') {
            st = lex_field(x, SP_G_VARIABLE);
        } else if (c == '.' && !(next >= '0' && next <= '9')) {
            st = lex_field(x, SP_G_FIELD);
        } else if (c == '.' || c == '+' || c == '-' || (c >= '0' && c <= '9')) {
            st = lex_number(x);
        } else {
            st = lex_punctuation(x);
        }
    }
    return st ? st : fail_at(x, "unclosed action");
}

/* Skips a comment, which must be alone in its action; x->pos is at its slash. */
static enum sp_status lex_comment(struct lexer *x)
{
    bool trims;
    size_t right;

    x->pos += 2;
    while (x->pos < x->size && !here(x, "*/"))
        x->pos++;
    if (x->pos >= x->size) return fail_at(x, "unclosed comment");
    x->pos += 2;
    right = right_delimiter(x, &trims);
    if (!right) return fail_at(x, "comment ends before closing delimiter");
    x->pos += right;
    if (trims) skip_whitespace(x);
    return SP_OK;
}

static enum sp_status lex_all(struct lexer *x)
{
    enum sp_status st = SP_OK;

    while (!st) {
        size_t begin = x->pos, end;
        bool trims;
        while (x->pos < x->size && !here(x, "{{"))
            x->pos++;
        end = x->pos;
        trims =
            x->size - x->pos >= 4 && x->text[x->pos + 2] == '-' && is_space(x->text[x->pos + 3]);
        while (trims && end > begin && is_space(x->text[end - 1]))
            end--;
        x->spaced = false;
        if (end > begin) {
            st = push(x, SP_G_TEXT, begin, sp_value_text(x->text + begin, end - begin));
            if (st) return st;
        }
        if (x->pos >= x->size) return push(x, SP_G_END, x->size, sp_value_none());
        begin = x->pos;
        x->pos += trims ? 4 : 2;
        if (here(x, "/*")) {
            st = lex_comment(x);
        } else {
            if ((st = push(x, SP_G_LEFT, begin, sp_value_none()))) return st;
            x->spaced = true;
            st = lex_action(x);
        }
    }
    return st;
}

enum sp_status sp_go_lex(struct sp_go_lexeme **out, const char *text, size_t size,
                         struct sp_heap *heap)
{
    enum sp_status st;
    struct lexer x = {.heap = heap, .text = text, .size = size, .line = 1};
    size_t valid = sp_utf8_valid(text, size);

    if (valid < size)
        return sp_fail(heap->err, SP_E_INPUT, "template:%u: not valid UTF-8", line_at(&x, valid));
    if ((st = lex_all(&x))) return st;
    *out = x.tokens;
    return SP_OK;
}
