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

static void fail_at(struct lexer *x, const char *what)
{
    if (x->heap->status) return; /* the position may be behind the text after a failure */
    sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: %s", line_at(x, x->pos), what);
}

static void push(struct lexer *x, enum sp_go_token token, size_t begin, struct sp_value value)
{
    if (x->n == MAX_TOKENS) fail_at(x, "too many tokens");
    if (!sp_heap_grow(x->heap, &x->tokens, x->n, &x->cap, sizeof *x->tokens)) return;
    x->tokens[x->n++] = (struct sp_go_lexeme){.token = (uint8_t)token,
                                              .spaced = x->spaced,
                                              .line = line_at(x, begin),
                                              .begin = (uint32_t)begin,
                                              .end = (uint32_t)x->pos,
                                              .value = value};
    x->spaced = false;
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
static void check_terminator(struct lexer *x)
{
    if (x->pos >= x->size || is_space(x->text[x->pos]) || here(x, "}}")) return;
    if (strchr(".,|:)(", x->text[x->pos]) == NULL || !x->text[x->pos])
        fail_at(x, "bad character after a name");
}

static void lex_field(struct lexer *x, enum sp_go_token token)
{
    size_t begin = x->pos++, first = begin + (token == SP_G_FIELD);

    skip_word(x);
    check_terminator(x);
    if (x->pos == first && token == SP_G_FIELD)
        push(x, SP_G_DOT, begin, sp_value_none());
    else
        push(x, token, begin, sp_value_text(x->text + first, x->pos - first));
}

static const char *const keywords[] = {"block", "break", "continue", "define",   "else",
                                       "end",   "if",    "range",    "template", "with"};

static bool is_keyword(struct sp_value word)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
        if (sp_text_is(word, keywords[i])) return true;
    return false;
}

bool sp_gotemplate_has_word(const char *text, size_t len)
{
    const struct sp_value word = sp_value_text(text, len);

    return is_keyword(word) || sp_go_find_function(word) != NULL;
}

static void lex_word(struct lexer *x)
{
    size_t begin = x->pos;
    enum sp_go_token token = SP_G_NAME;
    struct sp_value word;

    skip_word(x);
    check_terminator(x);
    word = sp_value_text(x->text + begin, x->pos - begin);
    if (is_keyword(word)) token = SP_G_KEYWORD;
    if (sp_text_is(word, "nil")) token = SP_G_NIL;
    if (sp_text_is(word, "true") || sp_text_is(word, "false"))
        push(x, SP_G_LITERAL, begin, sp_value_bool(word.text[0] == 't'));
    else
        push(x, token, begin, word);
}

static void lex_quoted(struct lexer *x)
{
    struct sp_builder b = {.heap = x->heap};
    size_t begin = x->pos, pos = begin + 1;
    char quote = x->text[begin];
    struct sp_value value;

    while (pos < x->size && x->text[pos] != quote && x->text[pos] != '\n' && !x->heap->status) {
        if (x->text[pos] != '\\') {
            sp_build(&b, x->text + pos++, 1);
            continue;
        }
        pos++;
        if (!sp_build_escape(&b, x->text, x->size, &pos))
            fail_at(x, "invalid escape in a string");
        else if (x->heap->status)
            sp_context(x->heap->err, "template:%u", line_at(x, x->pos));
    }
    if (pos >= x->size || x->text[pos] != quote) fail_at(x, "unterminated quoted string");
    value = sp_builder_value(&b);
    if (quote == '\'') {
        size_t end = 0;
        uint32_t c = value.len ? sp_utf8_next(value.text, value.len, &end) : 0;
        if (value.len == 0 || end != value.len) fail_at(x, "malformed character constant");
        value = sp_value_int(c);
    }
    x->pos = pos + 1;
    push(x, SP_G_LITERAL, begin, value);
}

static void lex_raw(struct lexer *x)
{
    struct sp_builder b = {.heap = x->heap};
    size_t begin = x->pos, pos = begin + 1;

    for (; pos < x->size && x->text[pos] != '`'; pos++)
        if (x->text[pos] != '\r') sp_build(&b, x->text + pos, 1);
    if (pos >= x->size) fail_at(x, "unterminated raw quoted string");
    x->pos = pos + 1;
    push(x, SP_G_LITERAL, begin, sp_builder_value(&b));
}

/* Reads a decimal number, with a sign. */
static void lex_number(struct lexer *x)
{
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
    value = sp_value_copy_text(x->heap, x->text + next, x->pos - next);
    octal = value.len > 1 && value.text[0] == '0' && value.text[1] >= '0' && value.text[1] <= '9';
    if (octal || word_char(x, &next) || !sp_number_parse(&value, value.text) ||
        value.kind == SP_V_BIG) {
        sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: bad number syntax: \"%.*s\"",
                     line_at(x, begin), (int)(x->pos - begin < 40 ? x->pos - begin : 40),
                     x->text + begin);
    }
    if (negative && value.kind == SP_V_INT) value.integer = -value.integer;
    if (negative && value.kind == SP_V_FLOAT) value.real = -value.real;
    push(x, SP_G_LITERAL, begin, value);
}

static void lex_punctuation(struct lexer *x)
{
    static const char characters[] = "=|,:()";
    static const uint8_t tokens[] = {SP_G_ASSIGN,  SP_G_PIPE,   SP_G_COMMA,
                                     SP_G_DECLARE, SP_G_LPAREN, SP_G_RPAREN};
    const char c = x->text[x->pos], *found = c ? strchr(characters, c) : NULL;
    size_t begin = x->pos, next;

    if (found == NULL && word_char(x, &next)) {
        lex_word(x);
    } else if (found == NULL && (c < ' ' || c > '~')) {
        fail_at(x, "unrecognized character in action");
    } else {
        x->pos++;
        if (c == ':' && !here(x, "=")) fail_at(x, "expected :=");
        if (c == ')' && x->parens == 0) fail_at(x, "unexpected right paren");
        x->pos += c == ':';
        if (c == '(') x->parens++;
        if (c == ')') x->parens--;
        push(x, found ? tokens[found - characters] : SP_G_OTHER, begin,
             found ? sp_value_none() : sp_value_text(x->text + begin, 1));
    }
}

/* Reads an action from after `{{` to after `}}`. */
static void lex_action(struct lexer *x)
{
    bool trims;

    x->parens = 0;
    while (x->pos < x->size && !x->heap->status) {
        char c = x->text[x->pos];
        char next = x->pos + 1 < x->size ? x->text[x->pos + 1] : '\0';
        size_t right = right_delimiter(x, &trims), begin = x->pos;
        if (right) {
            if (x->parens) fail_at(x, "unclosed left paren");
            x->pos += right;
            push(x, SP_G_RIGHT, begin, sp_value_none());
            if (trims) skip_whitespace(x);
            return;
        }
        if (is_space(c)) {
            x->pos++;
            x->spaced = true;
        } else if (c == '"' || c == '\'') {
            lex_quoted(x);
        } else if (c == '`') {
            lex_raw(x);
        } else if (c == '$') {
            lex_field(x, SP_G_VARIABLE);
        } else if (c == '.' && !(next >= '0' && next <= '9')) {
            lex_field(x, SP_G_FIELD);
        } else if (c == '.' || c == '+' || c == '-' || (c >= '0' && c <= '9')) {
            lex_number(x);
        } else {
            lex_punctuation(x);
        }
    }
    fail_at(x, "unclosed action");
}

/* Skips a comment, which must be alone in its action; x->pos is at its slash. */
static void lex_comment(struct lexer *x)
{
    bool trims;
    size_t right;

    x->pos += 2;
    while (x->pos < x->size && !here(x, "*/"))
        x->pos++;
    if (x->pos >= x->size) {
        fail_at(x, "unclosed comment");
        return;
    }
    x->pos += 2;
    right = right_delimiter(x, &trims);
    if (!right) fail_at(x, "comment ends before closing delimiter");
    x->pos += right;
    if (trims) skip_whitespace(x);
}

static void lex_all(struct lexer *x)
{
    while (!x->heap->status) {
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
        if (end > begin) push(x, SP_G_TEXT, begin, sp_value_text(x->text + begin, end - begin));
        if (x->pos >= x->size) break;
        begin = x->pos;
        x->pos += trims ? 4 : 2;
        if (here(x, "/*")) {
            lex_comment(x);
        } else {
            push(x, SP_G_LEFT, begin, sp_value_none());
            x->spaced = true;
            lex_action(x);
        }
    }
    push(x, SP_G_END, x->size, sp_value_none());
}

const struct sp_go_lexeme *sp_go_lex(const char *text, size_t size, struct sp_heap *heap)
{
    struct lexer x = {.heap = heap, .text = text, .size = size, .line = 1};
    size_t valid = sp_utf8_valid(text, size);

    if (valid < size)
        sp_heap_fail(heap, SP_E_INPUT, "template:%u: not valid UTF-8", line_at(&x, valid));
    else
        lex_all(&x);
    return heap->status ? NULL : x.tokens;
}
