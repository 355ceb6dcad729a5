#include "runtime/chat/tool_call.h"
#include "runtime/chat/chat_tag.h"

#include <stdio.h>

enum { MAX_DEPTH = 64 };

enum sp_value_read sp_tool_value_json_end(size_t *end, const char *text, size_t size)
{
    char closers[MAX_DEPTH];
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            quoted = c != '"';
            if (quoted || depth > 0) continue;
            *end = i + 1;
            return SP_VALUE_READ;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH) return SP_VALUE_NONE;
            closers[depth++] = c == '{' ? '}' : ']';
        } else if (c == '}' || c == ']') {
            if (depth == 0 || closers[depth - 1] != c) return SP_VALUE_NONE;
            if (--depth > 0) continue;
            *end = i + 1;
            return SP_VALUE_READ;
        }
        if (depth == 0 && !quoted) return SP_VALUE_NONE;
    }
    return SP_VALUE_MORE;
}

enum sp_status sp_tool_value_string(struct sp_strbuf *out, const char *text, size_t size,
                                    struct sp_err *err)
{
    enum sp_status st = sp_strbuf_append(out, "\"", 1, err);

    for (size_t i = 0; i < size && !st; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (c == '"' || c == '\\') {
            st = sp_strbuf_append(out, (char[]){'\\', (char)c}, 2, err);
        } else if (c == '\n') {
            st = sp_strbuf_append(out, "\\n", 2, err);
        } else if (c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            st = sp_strbuf_append(out, escape, 6, err);
        } else {
            st = sp_strbuf_append(out, text + i, 1, err);
        }
    }
    return st ? st : sp_strbuf_append(out, "\"", 1, err);
}

/* ---- notations ---- */

struct reading {
    const char *text;
    size_t size, at;
    const struct sp_value_notation *notation;
    struct sp_strbuf *out;
    size_t begin;           /* beginning of the value in `out` */
    char opened[MAX_DEPTH]; /* open brackets of the text; the first '(' has pairs */
    size_t depth;
    struct sp_err *err;
};

static char last_written(const struct reading *r)
{
    return r->out->len > r->begin ? r->out->at[r->out->len - 1] : '\0';
}

static bool is_pairs(const struct reading *r)
{
    return r->depth == 1 && r->opened[0] == '(';
}

static bool wants_key(const struct reading *r)
{
    char last = last_written(r);

    return (r->opened[r->depth - 1] == '{' || is_pairs(r)) && (last == '{' || last == ',');
}

/* A string between `quote`s, without escapes; as far as it is known. */
static enum sp_status read_quoted(enum sp_value_read *read, struct reading *r)
{
    const char *quote = r->notation->quote;
    size_t n = strlen(quote), from = r->at + n, i = from;
    enum sp_status st;

    for (; i < r->size; i++) {
        size_t left = r->size - i;
        if (memcmp(r->text + i, quote, n < left ? n : left) == 0) break;
    }
    *read = i + n <= r->size ? SP_VALUE_READ : SP_VALUE_MORE;
    st = sp_tool_value_string(r->out, r->text + from, i - from, r->err);
    if (*read == SP_VALUE_READ)
        r->at = i + n;
    else if (!st)
        r->out->len--;
    return st;
}

/* Appends the character that a backslash and the text after it mean in Python and JSON, escaped
 * for JSON; *n bytes are used. */
static enum sp_status append_escape(struct sp_strbuf *out, const char *text, size_t *n,
                                    struct sp_err *err)
{
    static const char same[] = "\"\\/bfnrtu";
    char hex[7];

    *n = 1;
    if (strchr(same, *text) != NULL) return sp_strbuf_append(out, (char[]){'\\', *text}, 2, err);
    if (*text == '\'') return sp_strbuf_append(out, text, 1, err);
    if (*text == 'x') {
        snprintf(hex, sizeof hex, "\\u00");
        return sp_strbuf_append(out, hex, 4, err);
    }
    return sp_strbuf_append(out, "\\\\", 2, err) ? SP_E_NOMEM : sp_strbuf_append(out, text, 1, err);
}

/* A string between ' or ", with escapes. */
static enum sp_status read_string(enum sp_value_read *read, struct reading *r)
{
    char quote = r->text[r->at];
    enum sp_status st = sp_strbuf_append(r->out, "\"", 1, r->err);
    size_t i = r->at + 1, n;

    *read = SP_VALUE_MORE;
    for (; i < r->size && r->text[i] != quote && !st; i += n) {
        unsigned char c = (unsigned char)r->text[i];
        char escape[8];
        n = 1;
        if (c == '\\') {
            if (i + 1 == r->size) return SP_OK;
            st = append_escape(r->out, r->text + i + 1, &n, r->err);
            n++;
        } else if (c == '"' || c < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            st = sp_strbuf_append(r->out, escape, 6, r->err);
        } else {
            st = sp_strbuf_append(r->out, r->text + i, 1, r->err);
        }
    }
    if (st || i >= r->size) return st;
    r->at = i + 1;
    *read = SP_VALUE_READ;
    return sp_strbuf_append(r->out, "\"", 1, r->err);
}

static size_t count_digits(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* Returns true for a number without an exponent whose integer part 64 bits certainly hold. */
static bool is_plain_number(const char *text, size_t size)
{
    enum { SURE_SIZE = 18 };
    size_t sign = *text == '-', whole = count_digits(text + sign, size - sign), n = sign + whole;

    if (size > SURE_SIZE || whole == 0 || (whole > 1 && text[sign] == '0')) return false;
    if (n == size) return true;
    return text[n] == '.' && n + 1 < size &&
           count_digits(text + n + 1, size - n - 1) == size - n - 1;
}

/* Only unusual numbers need the parser: a list is read again with every token of it. */
static bool is_number(const char *text, size_t size)
{
    struct sp_json *json = NULL;
    enum sp_json_kind kind;

    if (size > 0 && is_plain_number(text, size)) return true;
    if (size == 0 || (*text != '-' && (*text < '0' || *text > '9'))) return false;
    if (sp_json_parse(&json, text, size, SP_JSON_STRICT, NULL)) return false;
    kind = sp_json_kind(json);
    sp_json_free(json);
    return kind == SP_JSON_INT || kind == SP_JSON_DOUBLE;
}

/* Returns the JSON of a word that is a value, in Python's spelling too, which some templates
 * print; NULL: none. */
static const char *literal(const char *word, size_t size)
{
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == size && memcmp(words[i], word, size) == 0) return words[i % 3];
    return NULL;
}

static enum sp_status append_word(enum sp_value_read *read, struct reading *r, const char *word,
                                  size_t size)
{
    const char *json = literal(word, size);

    *read = SP_VALUE_READ;
    if (wants_key(r)) return sp_tool_value_string(r->out, word, size, r->err);
    if (json != NULL) return sp_strbuf_append(r->out, json, strlen(json), r->err);
    if (is_number(word, size)) return sp_strbuf_append(r->out, word, size, r->err);
    if (r->notation->python) *read = SP_VALUE_NONE;
    return sp_tool_value_string(r->out, word, size, r->err);
}

static enum sp_status read_word(enum sp_value_read *read, struct reading *r)
{
    size_t from = r->at, i = from;

    while (i < r->size && strchr(",:{}[]()", r->text[i]) == NULL &&
           !(r->text[i] == '=' && is_pairs(r)) && r->text[i])
        i++;
    *read = i == r->size ? SP_VALUE_MORE : SP_VALUE_READ;
    if (i == from || (i < r->size && r->text[i] == '\0')) *read = SP_VALUE_NONE;
    if (*read != SP_VALUE_READ) return SP_OK;
    r->at = i;
    return append_word(read, r, r->text + from, sp_trim_whitespace(r->text + from, i - from));
}

static enum sp_status open_bracket(enum sp_value_read *read, struct reading *r)
{
    char c = r->text[r->at++];
    bool object = c == '{' || (c == '(' && r->depth == 0);

    *read = r->depth < MAX_DEPTH ? SP_VALUE_READ : SP_VALUE_NONE;
    if (*read == SP_VALUE_NONE) return SP_OK;
    r->opened[r->depth++] = c;
    return sp_strbuf_append(r->out, object ? "{" : "[", 1, r->err);
}

static enum sp_status close_bracket(enum sp_value_read *read, struct reading *r)
{
    char c = r->text[r->at++], opened = r->opened[r->depth - 1];
    bool object = opened == '{' || is_pairs(r);

    *read = SP_VALUE_NONE;
    if (c != (opened == '{' ? '}' : opened == '[' ? ']' : ')')) return SP_OK;
    if (last_written(r) == ',') r->out->len--; /* a trailing comma, as in Python */
    r->depth--;
    *read = SP_VALUE_READ;
    return sp_strbuf_append(r->out, object ? "}" : "]", 1, r->err);
}

static bool begins_quoted(const struct reading *r)
{
    const char *quote = r->notation->quote;
    size_t n = strlen(quote), left = r->size - r->at;

    return n > 0 && memcmp(r->text + r->at, quote, n < left ? n : left) == 0;
}

static enum sp_status read_token(enum sp_value_read *read, struct reading *r)
{
    char c = r->text[r->at];

    if (begins_quoted(r)) return read_quoted(read, r);
    if (c == '"' || (c == '\'' && r->notation->python)) return read_string(read, r);
    if (c == '{' || c == '[' || (c == '(' && r->notation->python)) return open_bracket(read, r);
    if (c == '}' || c == ']' || c == ')') return close_bracket(read, r);
    if (c != ',' && c != ':' && !(c == '=' && is_pairs(r))) return read_word(read, r);
    r->at++;
    *read = SP_VALUE_READ;
    return sp_strbuf_append(r->out, c == ',' ? "," : ":", 1, r->err);
}

static bool is_json(const char *text, size_t size)
{
    struct sp_json *json = NULL;
    bool is = sp_json_parse(&json, text, size, SP_JSON_STRICT, NULL) == SP_OK;

    sp_json_free(json);
    return is;
}

enum sp_status sp_tool_value_read(enum sp_value_read *read, struct sp_strbuf *out, size_t *end,
                                  const char *text, size_t size,
                                  const struct sp_value_notation *notation, struct sp_err *err)
{
    struct reading r = {.text = text,
                        .size = size,
                        .notation = notation,
                        .out = out,
                        .begin = out->len,
                        .err = err};
    enum sp_status st = SP_OK;

    *read = SP_VALUE_NONE;
    if (size == 0 || strchr("{[(", *text) == NULL || !*text) return SP_OK;
    do {
        r.at += sp_whitespace_run(text + r.at, size - r.at);
        if (r.at == size)
            *read = SP_VALUE_MORE;
        else
            st = read_token(read, &r);
    } while (!st && *read == SP_VALUE_READ && r.depth > 0);
    if (!st && *read == SP_VALUE_READ && !is_json(out->at + r.begin, out->len - r.begin))
        *read = SP_VALUE_NONE;
    if (*read == SP_VALUE_NONE) out->len = r.begin;
    *end = r.at;
    return st;
}

/* ---- types ---- */

const struct sp_json *sp_tool_value_tool(const struct sp_json *tools, const char *name)
{
    for (size_t i = 0; i < sp_json_len(tools); i++) {
        const struct sp_json *tool = sp_json_at(tools, i);
        const struct sp_json *function = sp_json_get(tool, "function");
        const char *is;
        if (function == NULL) function = tool;
        is = sp_json_to_string(sp_json_get(function, "name"), NULL);
        if (is != NULL && strcmp(is, name) == 0) return function;
    }
    return NULL;
}

static bool is_text_type(const struct sp_json *type)
{
    const char *name = sp_json_to_string(type, NULL);

    return name != NULL && strcmp(name, "string") == 0;
}

bool sp_tool_value_is_text(const struct sp_json *function, const char *key)
{
    const struct sp_json *parameters = sp_json_get(function, "parameters");
    const struct sp_json *property = sp_json_get(sp_json_get(parameters, "properties"), key);
    const struct sp_json *type = sp_json_get(property, "type");

    for (size_t i = 0; i < sp_json_len(type); i++)
        if (is_text_type(sp_json_at(type, i))) return true;
    return property == NULL || is_text_type(type);
}

enum sp_status sp_tool_value_typed(struct sp_strbuf *out, const struct sp_json *tools,
                                   const char *function, const char *key, const char *text,
                                   size_t size, struct sp_err *err)
{
    static const struct sp_value_notation python = {"", true};
    size_t from = sp_whitespace_run(text, size), n = sp_trim_whitespace(text + from, size - from),
           end;
    const char *bare = text + from, *json;
    enum sp_value_read read;
    enum sp_status st;

    if (sp_tool_value_is_text(sp_tool_value_tool(tools, function), key))
        return sp_tool_value_string(out, text, size, err);
    if (n > 0 && is_json(bare, n)) return sp_strbuf_append(out, bare, n, err);
    if ((json = literal(bare, n)) != NULL) return sp_strbuf_append(out, json, strlen(json), err);
    if (n > 0 && (*bare == '{' || *bare == '[')) {
        size_t begin = out->len;
        if ((st = sp_tool_value_read(&read, out, &end, bare, n, &python, err))) return st;
        if (read == SP_VALUE_READ && end == n) return SP_OK;
        out->len = begin;
    }
    return sp_tool_value_string(out, text, size, err);
}
