#include "runtime/chat/tool_call.h"
#include "runtime/chat/chat_tag.h"

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

void sp_tool_value_string(struct sp_json_out *out, const char *text, size_t size)
{
    out->comma = false;
    sp_json_out_string(out, NULL, text, size);
}

/* ---- notations ---- */

struct reading {
    const char *text;
    size_t size, at;
    const struct sp_value_notation *notation;
    struct sp_json_out *out;
    size_t begin;           /* beginning of the value in `out` */
    char opened[MAX_DEPTH]; /* open brackets of the text; the first '(' has pairs */
    size_t depth;
};

static char last_written(const struct reading *r)
{
    return r->out->text.len > r->begin ? r->out->text.at[r->out->text.len - 1] : '\0';
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
static enum sp_value_read read_quoted(struct reading *r)
{
    const char *quote = r->notation->quote;
    size_t n = strlen(quote), from = r->at + n, i = from;

    for (; i < r->size; i++) {
        size_t left = r->size - i;
        if (memcmp(r->text + i, quote, n < left ? n : left) == 0) break;
    }
    sp_tool_value_string(r->out, r->text + from, i - from);
    if (i + n > r->size) {
        if (!r->out->no_memory) r->out->text.len--;
        return SP_VALUE_MORE;
    }
    r->at = i + n;
    return SP_VALUE_READ;
}

/* Appends the character that a backslash and the text after it mean in Python and JSON, escaped
 * for JSON. */
static void append_escape(struct sp_json_out *out, char c)
{
    if (c == 'x')
        sp_json_out_raw(out, "\\u00");
    else if (strchr("\"\\/bfnrtu", c) != NULL)
        sp_json_out_bytes(out, (char[]){'\\', c}, 2);
    else if (c == '\'')
        sp_json_out_bytes(out, &c, 1);
    else
        sp_json_out_bytes(out, (char[]){'\\', '\\', c}, 3);
}

/* A string between ' or ", with escapes. */
static enum sp_value_read read_string(struct reading *r)
{
    char quote = r->text[r->at];
    size_t i = r->at + 1;

    sp_json_out_bytes(r->out, "\"", 1);
    for (; i < r->size && r->text[i] != quote; i++) {
        unsigned char c = (unsigned char)r->text[i];
        if (c == '\\' && i + 1 == r->size) return SP_VALUE_MORE;
        if (c == '\\')
            append_escape(r->out, r->text[++i]);
        else if (c == '"' || c < 0x20)
            sp_json_out_print(r->out, "\\u%04x", c);
        else
            sp_json_out_bytes(r->out, r->text + i, 1);
    }
    if (i >= r->size) return SP_VALUE_MORE;
    r->at = i + 1;
    sp_json_out_bytes(r->out, "\"", 1);
    return SP_VALUE_READ;
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

static enum sp_value_read append_word(struct reading *r, const char *word, size_t size)
{
    const char *json = literal(word, size);

    if (wants_key(r)) {
        sp_tool_value_string(r->out, word, size);
    } else if (json != NULL) {
        sp_json_out_raw(r->out, json);
    } else if (is_number(word, size)) {
        sp_json_out_bytes(r->out, word, size);
    } else {
        sp_tool_value_string(r->out, word, size);
        if (r->notation->python) return SP_VALUE_NONE;
    }
    return SP_VALUE_READ;
}

static enum sp_value_read read_word(struct reading *r)
{
    size_t from = r->at, i = from;

    while (i < r->size && strchr(",:{}[]()", r->text[i]) == NULL &&
           !(r->text[i] == '=' && is_pairs(r)) && r->text[i])
        i++;
    if (i == from || (i < r->size && r->text[i] == '\0')) return SP_VALUE_NONE;
    if (i == r->size) return SP_VALUE_MORE;
    r->at = i;
    return append_word(r, r->text + from, sp_trim_whitespace(r->text + from, i - from));
}

static enum sp_value_read open_bracket(struct reading *r)
{
    char c = r->text[r->at++];
    bool object = c == '{' || (c == '(' && r->depth == 0);

    if (r->depth == MAX_DEPTH) return SP_VALUE_NONE;
    r->opened[r->depth++] = c;
    sp_json_out_raw(r->out, object ? "{" : "[");
    return SP_VALUE_READ;
}

static enum sp_value_read close_bracket(struct reading *r)
{
    char c = r->text[r->at++], opened = r->opened[r->depth - 1];
    bool object = opened == '{' || is_pairs(r);

    if (c != (opened == '{' ? '}' : opened == '[' ? ']' : ')')) return SP_VALUE_NONE;
    if (last_written(r) == ',') r->out->text.len--; /* a trailing comma, as in Python */
    r->depth--;
    sp_json_out_raw(r->out, object ? "}" : "]");
    return SP_VALUE_READ;
}

static bool begins_quoted(const struct reading *r)
{
    const char *quote = r->notation->quote;
    size_t n = strlen(quote), left = r->size - r->at;

    return n > 0 && memcmp(r->text + r->at, quote, n < left ? n : left) == 0;
}

static enum sp_value_read read_token(struct reading *r)
{
    char c = r->text[r->at];

    if (begins_quoted(r)) return read_quoted(r);
    if (c == '"' || (c == '\'' && r->notation->python)) return read_string(r);
    if (c == '{' || c == '[' || (c == '(' && r->notation->python)) return open_bracket(r);
    if (c == '}' || c == ']' || c == ')') return close_bracket(r);
    if (c != ',' && c != ':' && !(c == '=' && is_pairs(r))) return read_word(r);
    r->at++;
    sp_json_out_raw(r->out, c == ',' ? "," : ":");
    return SP_VALUE_READ;
}

static bool is_json(const char *text, size_t size)
{
    struct sp_json *json = NULL;
    bool is = sp_json_parse(&json, text, size, SP_JSON_STRICT, NULL) == SP_OK;

    sp_json_free(json);
    return is;
}

enum sp_value_read sp_tool_value_read(struct sp_json_out *out, size_t *end, const char *text,
                                      size_t size, const struct sp_value_notation *notation)
{
    struct reading r = {
        .text = text, .size = size, .notation = notation, .out = out, .begin = out->text.len};
    enum sp_value_read read;

    if (size == 0 || strchr("{[(", *text) == NULL || !*text) return SP_VALUE_NONE;
    do {
        r.at += sp_whitespace_run(text + r.at, size - r.at);
        read = r.at == size ? SP_VALUE_MORE : read_token(&r);
    } while (!out->no_memory && read == SP_VALUE_READ && r.depth > 0);
    if (read == SP_VALUE_READ && !is_json(out->text.at + r.begin, out->text.len - r.begin))
        read = SP_VALUE_NONE;
    if (read == SP_VALUE_NONE) out->text.len = r.begin;
    *end = r.at;
    return read;
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

void sp_tool_value_typed(struct sp_json_out *out, const struct sp_json *tools, const char *function,
                         const char *key, const char *text, size_t size)
{
    static const struct sp_value_notation python = {"", true};
    size_t from = sp_whitespace_run(text, size), n = sp_trim_whitespace(text + from, size - from);
    size_t begin = out->text.len, end;
    const char *bare = text + from, *json;

    if (sp_tool_value_is_text(sp_tool_value_tool(tools, function), key)) {
        sp_tool_value_string(out, text, size);
    } else if (n > 0 && is_json(bare, n)) {
        sp_json_out_bytes(out, bare, n);
    } else if ((json = literal(bare, n)) != NULL) {
        sp_json_out_raw(out, json);
    } else {
        if (n > 0 && (*bare == '{' || *bare == '[') &&
            sp_tool_value_read(out, &end, bare, n, &python) == SP_VALUE_READ && end == n)
            return;
        out->text.len = begin;
        sp_tool_value_string(out, text, size);
    }
}
