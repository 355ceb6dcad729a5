/* Splits a Jinja template into tokens, as Jinja2 does with trim_blocks and lstrip_blocks on.
 *
 * Whitespace control happens here: a tag that begins with '-' removes all whitespace before it,
 * and one that ends with '-' all whitespace after it. A block tag or comment alone on its line
 * removes the spaces before it and the newline after it ('+' keeps them); `{{ }}` removes nothing
 * by itself. Line ends become "\n" first, and one at the end of the template is dropped. */
#include "runtime/template/jinja/jinja_tree.h"
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
    struct sp_jinja_lexeme *tokens;
    size_t n, cap;
};

/* The texts of the operators, those of two characters first, and the names of other tokens. */
static const char *const names[] = {
    [SP_T_FLOORDIV] = "//",
    [SP_T_POW] = "**",
    [SP_T_EQ] = "==",
    [SP_T_NE] = "!=",
    [SP_T_GE] = ">=",
    [SP_T_LE] = "<=",
    [SP_T_GT] = ">",
    [SP_T_LT] = "<",
    [SP_T_ADD] = "+",
    [SP_T_SUB] = "-",
    [SP_T_DIV] = "/",
    [SP_T_MUL] = "*",
    [SP_T_MOD] = "%",
    [SP_T_TILDE] = "~",
    [SP_T_LBRACKET] = "[",
    [SP_T_RBRACKET] = "]",
    [SP_T_LPAREN] = "(",
    [SP_T_RPAREN] = ")",
    [SP_T_LBRACE] = "{",
    [SP_T_RBRACE] = "}",
    [SP_T_ASSIGN] = "=",
    [SP_T_DOT] = ".",
    [SP_T_COLON] = ":",
    [SP_T_PIPE] = "|",
    [SP_T_COMMA] = ",",
    [SP_T_SEMICOLON] = ";",
    [SP_T_END] = "the end of the template",
    [SP_T_TEXT] = "text",
    [SP_T_BLOCK_BEGIN] = "{%",
    [SP_T_BLOCK_END] = "%}",
    [SP_T_VAR_BEGIN] = "{{",
    [SP_T_VAR_END] = "}}",
    [SP_T_NAME] = "a name",
    [SP_T_STRING] = "a string",
    [SP_T_INT] = "a number",
    [SP_T_FLOAT] = "a number",
    [SP_T_IN] = "in",
    [SP_T_NOT_IN] = "not in",
};

const char *sp_jinja_token_name(enum sp_jinja_token token)
{
    return names[token];
}

static void push(struct lexer *x, enum sp_jinja_token token, struct sp_value value)
{
    if (x->n == MAX_TOKENS)
        sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: more than %d tokens", x->line, MAX_TOKENS);
    if (sp_heap_grow(x->heap, &x->tokens, x->n, &x->cap, sizeof *x->tokens))
        x->tokens[x->n++] =
            (struct sp_jinja_lexeme){.token = (uint8_t)token, .line = x->line, .value = value};
}

static bool looking_at(const struct lexer *x, size_t pos, const char *what)
{
    size_t len = strlen(what);

    return x->size - pos >= len && memcmp(x->text + pos, what, len) == 0;
}

static bool space_at(const struct lexer *x, size_t pos, size_t *next)
{
    if (pos >= x->size) return false;
    *next = pos;
    return sp_unicode_is_space(sp_utf8_next(x->text, x->size, next));
}

static bool name_at(const struct lexer *x, size_t pos)
{
    return sp_unicode_begins_name(sp_utf8_next(x->text, x->size, &pos));
}

static size_t skip_space(const struct lexer *x, size_t pos)
{
    size_t next;

    while (space_at(x, pos, &next))
        pos = next;
    return pos;
}

static void move_to(struct lexer *x, size_t pos)
{
    for (size_t i = x->pos; i < pos; i++)
        x->line += x->text[i] == '\n';
    x->pos = pos;
}

/* The end of the text x->pos..end after whitespace control by the next tag, with this sign. */
static size_t strip_end(const struct lexer *x, size_t end, char sign, bool block)
{
    size_t begin = x->pos, line = end;

    if (sign == '-') {
        while (end > begin) {
            size_t prev = sp_utf8_prev(x->text, end), next;
            if (prev < begin || !space_at(x, prev, &next)) break;
            end = prev;
        }
        return end;
    }
    if (sign == '+' || !block) return end;
    while (line > begin && x->text[line - 1] != '\n') {
        size_t prev = sp_utf8_prev(x->text, line), next;
        if (!space_at(x, prev, &next)) return end;
        line = prev;
    }
    return line > 0 && x->text[line - 1] != '\n' ? end : line;
}

static char sign_at(const struct lexer *x, size_t pos)
{
    return pos < x->size && (x->text[pos] == '-' || x->text[pos] == '+') ? x->text[pos] : '\0';
}

/* The position after a block tag's or comment's own whitespace control. */
static size_t trim_after(const struct lexer *x, size_t pos, char sign)
{
    if (sign == '-') return skip_space(x, pos);
    if (sign == '\0' && pos < x->size && x->text[pos] == '\n') return pos + 1;
    return pos;
}

static void push_text(struct lexer *x, size_t end)
{
    if (end > x->pos) push(x, SP_T_TEXT, sp_value_text(x->text + x->pos, end - x->pos));
}

static void lex_comment(struct lexer *x)
{
    size_t begin = x->pos + 2 + (sign_at(x, x->pos + 2) != '\0');

    for (size_t pos = begin; pos + 1 < x->size; pos++) {
        char sign = '\0';
        if (!looking_at(x, pos, "#}")) continue;
        if (pos > begin) sign = x->text[pos - 1];
        if (sign != '-' && sign != '+') sign = '\0';
        move_to(x, trim_after(x, pos + 2, sign));
        return;
    }
    sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: a comment {# without its #}", x->line);
}

/* True if `{% word %}` is at `pos`. *after: the position after it, before whitespace control;
 * *sign: that of its end. */
static bool word_tag(const struct lexer *x, size_t pos, const char *word, size_t *after, char *sign)
{
    if (!looking_at(x, pos, "{%")) return false;
    pos += 2;
    if (sign_at(x, pos)) pos++;
    pos = skip_space(x, pos);
    if (!looking_at(x, pos, word)) return false;
    pos = skip_space(x, pos + strlen(word));
    *sign = sign_at(x, pos);
    if (*sign) pos++;
    if (!looking_at(x, pos, "%}")) return false;
    *after = pos + 2;
    return true;
}

/* Reads the text up to {% endraw %}; x->pos is after {% raw %}. */
static void lex_raw(struct lexer *x)
{
    size_t after;
    char sign;

    for (size_t pos = x->pos; pos + 1 < x->size; pos++) {
        if (x->text[pos] != '{' || !word_tag(x, pos, "endraw", &after, &sign)) continue;
        push_text(x, strip_end(x, pos, sign_at(x, pos + 2), true));
        move_to(x, trim_after(x, after, sign));
        return;
    }
    sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: {%% raw %%} without {%% endraw %%}", x->line);
}

static void lex_name(struct lexer *x)
{
    size_t pos = x->pos, next = pos;

    while (next < x->size && sp_unicode_continues_name(sp_utf8_next(x->text, x->size, &next)))
        pos = next;
    push(x, SP_T_NAME, sp_value_text(x->text + x->pos, pos - x->pos));
    x->pos = pos;
}

/* Reads one escape; *pos is after the backslash, which stays if it begins no escape. */
static void unescape(struct lexer *x, struct sp_builder *b, size_t *pos)
{
    char c = x->text[*pos];

    if (c == '\n') {
        ++*pos;
    } else if (c == 'N' || (c >= '0' && c <= '7')) {
        sp_heap_fail(x->heap, SP_E_UNSUPPORTED, "template:%u: \\%c in a string is not supported",
                     x->line, c);
    } else {
        if (!sp_build_escape(b, x->text, x->size, pos)) sp_build(b, "\\", 1);
        if (x->heap->status) sp_context(x->heap->err, "template:%u", x->line);
    }
}

static void lex_string(struct lexer *x)
{
    struct sp_builder b = {.heap = x->heap};
    char quote = x->text[x->pos];
    size_t pos = x->pos + 1;

    while (pos < x->size && x->text[pos] != quote && !x->heap->status) {
        size_t begin = pos;
        while (pos < x->size && x->text[pos] != quote && x->text[pos] != '\\')
            pos++;
        sp_build(&b, x->text + begin, pos - begin);
        if (pos < x->size && x->text[pos] == '\\' && ++pos < x->size && !x->heap->status)
            unescape(x, &b, &pos);
    }
    if (pos >= x->size)
        sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: a string without its closing %c", x->line,
                     quote);
    push(x, SP_T_STRING, sp_builder_value(&b));
    if (!x->heap->status) move_to(x, pos + 1);
}

static size_t skip_digits(const struct lexer *x, size_t pos)
{
    while (pos < x->size && x->text[pos] >= '0' && x->text[pos] <= '9')
        pos++;
    return pos;
}

static void lex_number(struct lexer *x)
{
    struct sp_value value;
    size_t begin = x->pos, end = skip_digits(x, begin), more;

    if (end < x->size && x->text[end] == '.' && (more = skip_digits(x, end + 1)) > end + 1)
        end = more;
    if (end + 1 < x->size && (x->text[end] | 0x20) == 'e') {
        size_t digits = end + 1 + (x->text[end + 1] == '+' || x->text[end + 1] == '-');
        more = skip_digits(x, digits);
        if (more > digits) end = more;
    }
    value = sp_value_copy_text(x->heap, x->text + begin, end - begin);
    if (!sp_number_parse(&value, value.text)) {
        sp_heap_fail(x->heap, SP_E_UNSUPPORTED, "template:%u: %.*s exceeds 64 bits", x->line,
                     (int)(end - begin < 40 ? end - begin : 40), x->text + begin);
    }
    x->pos = end;
    push(x, value.kind == SP_V_FLOAT ? SP_T_FLOAT : SP_T_INT, value);
}

/* Reads the operator at x->pos; *open counts open brackets, within which no tag ends. */
static void lex_operator(struct lexer *x, unsigned *open)
{
    uint8_t token = SP_T_FLOORDIV;

    while (token <= SP_T_SEMICOLON && !looking_at(x, x->pos, names[token]))
        token++;
    if (token > SP_T_SEMICOLON) {
        sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: unexpected character %.*s", x->line,
                     (int)(x->size - x->pos < 4 ? x->size - x->pos : 4), x->text + x->pos);
        return;
    }
    if (strchr("([{", names[token][0]) != NULL) ++*open;
    if (strchr(")]}", names[token][0]) != NULL && (*open)-- == 0)
        sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: unexpected %c", x->line, names[token][0]);
    x->pos += strlen(names[token]);
    push(x, token, sp_value_none());
}

/* True if the tag ends at the current position, which then moves past the end. */
static bool at_tag_end(struct lexer *x, bool block)
{
    char sign = sign_at(x, x->pos);
    size_t pos = x->pos + (sign != '\0');

    if (sign == '+' && !block) return false;
    if (!looking_at(x, pos, block ? "%}" : "}}")) return false;
    pos += 2;
    if (block)
        pos = trim_after(x, pos, sign);
    else if (sign == '-')
        pos = skip_space(x, pos);
    move_to(x, pos);
    return true;
}

/* Reads a tag from after `{%` or `{{` to after its end. */
static void lex_tag(struct lexer *x, bool block)
{
    unsigned open = 0;
    size_t next;
    uint32_t began = x->line;

    push(x, block ? SP_T_BLOCK_BEGIN : SP_T_VAR_BEGIN, sp_value_none());
    while (x->pos < x->size && !x->heap->status) {
        uint32_t line = x->line;
        char c = x->text[x->pos];
        if (open == 0 && at_tag_end(x, block)) {
            push(x, block ? SP_T_BLOCK_END : SP_T_VAR_END, sp_value_none());
            if (!x->heap->status) x->tokens[x->n - 1].line = line;
            return;
        }
        if (space_at(x, x->pos, &next))
            move_to(x, next);
        else if (c >= '0' && c <= '9')
            lex_number(x);
        else if (c == '\'' || c == '"')
            lex_string(x);
        else if (name_at(x, x->pos))
            lex_name(x);
        else
            lex_operator(x, &open);
    }
    sp_heap_fail(x->heap, SP_E_INPUT, "template:%u: %s without its %s", began, block ? "{%" : "{{",
                 block ? "%}" : "}}");
}

static void lex_all(struct lexer *x)
{
    while (x->pos < x->size && !x->heap->status) {
        size_t tag = x->pos, after;
        char kind, sign, raw_sign;
        while (tag + 1 < x->size &&
               !(x->text[tag] == '{' && strchr("{%#", x->text[tag + 1]) && x->text[tag + 1]))
            tag++;
        if (tag + 1 >= x->size) {
            push_text(x, x->size);
            break;
        }
        kind = x->text[tag + 1];
        sign = sign_at(x, tag + 2);
        push_text(x, strip_end(x, tag, sign, kind != '{'));
        move_to(x, tag);
        if (kind == '%' && word_tag(x, tag, "raw", &after, &raw_sign) && raw_sign != '+') {
            move_to(x, raw_sign == '-' ? skip_space(x, after) : after);
            lex_raw(x);
        } else if (kind == '#') {
            lex_comment(x);
        } else {
            x->pos = tag + 2 + (sign != '\0');
            lex_tag(x, kind == '%');
        }
    }
    push(x, SP_T_END, sp_value_none());
}

const struct sp_jinja_lexeme *sp_jinja_lex(const char *text, size_t size, struct sp_heap *heap)
{
    struct lexer x = {.heap = heap, .line = 1};
    size_t valid = sp_utf8_valid(text, size);
    char *copy = sp_heap_take(heap, size + 1);

    if (copy == NULL) return NULL;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r') {
            copy[x.size++] = '\n';
            if (i + 1 < size && text[i + 1] == '\n') i++;
        } else {
            copy[x.size++] = text[i];
        }
        if (i >= valid) {
            sp_heap_fail(heap, SP_E_INPUT, "template:%u: not valid UTF-8", x.line);
            return NULL;
        }
        x.line += copy[x.size - 1] == '\n';
    }
    if (x.size > 0 && copy[x.size - 1] == '\n') x.size--;
    x.text = copy;
    x.line = 1;
    lex_all(&x);
    return heap->status ? NULL : x.tokens;
}
