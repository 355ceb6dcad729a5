#include "format/base/unicode.h"
#include "format/json/json_scan.h"

#include <string.h>

static enum sp_status bad(size_t pos, const char *what, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: %s", pos, what);
}

/* Something else stands at `pos`, or nothing. */
static enum sp_status expected(const char *what, const struct sp_json_scan *s, size_t pos,
                               struct sp_err *err)
{
    return bad(pos, pos < s->size ? what : "the text ends too early", err);
}

/* The byte at `pos`, or -1 after the end of the text. */
static int byte_at(const struct sp_json_scan *s, size_t pos)
{
    return pos < s->size ? (unsigned char)s->text[pos] : -1;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static size_t skip_space(const struct sp_json_scan *s, size_t pos)
{
    while (is_space(byte_at(s, pos)))
        pos++;
    return pos;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_digits(const struct sp_json_scan *s, size_t pos)
{
    while (is_digit(byte_at(s, pos)))
        pos++;
    return pos;
}

/* The UTF-16 unit that the escape \uXXXX at `pos` means, or -1. */
static int32_t escaped_unit(const struct sp_json_scan *s, size_t pos)
{
    int32_t unit = 0;

    if (byte_at(s, pos) != '\\' || byte_at(s, pos + 1) != 'u') return -1;
    for (size_t i = 2; i < 6; i++) {
        int c = byte_at(s, pos + i), letter = c | 0x20;
        if (!is_digit(c) && !(letter >= 'a' && letter <= 'f')) return -1;
        unit = unit << 4 | (is_digit(c) ? c - '0' : letter - 'a' + 10);
    }
    return unit;
}

/* Checks the escape at a backslash, or a pair of surrogate escapes; *pos moves after it. */
static enum sp_status scan_escape(const struct sp_json_scan *s, size_t *pos, bool *nul,
                                  struct sp_err *err)
{
    int32_t high = escaped_unit(s, *pos), low;
    int letter = byte_at(s, *pos + 1);

    if (letter != 'u') {
        if (letter >= 0 && (letter == 0 || strchr("\"\\/bfnrt", letter) == NULL))
            return bad(*pos + 1, "invalid string sequence", err);
        *pos += 2;
        return SP_OK;
    }
    if (high < 0) return bad(*pos, "\\u needs four hexadecimal digits", err);
    if (high == 0) *nul = true;
    if (high < 0xD800 || high > 0xDFFF) {
        *pos += 6;
        return SP_OK;
    }
    low = escaped_unit(s, *pos + 6);
    if (high > 0xDBFF || low < 0xDC00 || low > 0xDFFF) return bad(*pos, "unpaired surrogate", err);
    *pos += 12;
    return SP_OK;
}

static enum sp_status scan_string(struct sp_json_scan *s, bool is_key, struct sp_err *err)
{
    enum sp_status st;
    size_t pos = s->start + 1;
    bool nul = false;

    s->has_escapes = false;
    for (int c; (c = byte_at(s, pos)) != '"';) {
        if (c < 0) return bad(s->start, "unterminated string", err);
        if (c < 0x20) return bad(pos, "control character in a string", err);
        if (c != '\\') {
            pos++;
            continue;
        }
        s->has_escapes = true;
        if ((st = scan_escape(s, &pos, &nul, err))) return st;
    }
    s->end = pos + 1;
    return nul && is_key ? bad(s->start, "key holding \\u0000", err) : SP_OK;
}

enum sp_status sp_json_scan_text(struct sp_strbuf *out, const struct sp_json_scan *s,
                                 struct sp_err *err)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *text = s->text;
    size_t pos = s->start + 1, end = s->end - 1;
    enum sp_status st = sp_strbuf_reserve(out, end - pos, err);

    while (st == SP_OK && pos < end) {
        const char *escape = s->has_escapes ? memchr(text + pos, '\\', end - pos) : NULL;
        size_t plain = escape ? (size_t)(escape - text) : end, len = 1;
        char bytes[SP_UTF8_MAX];
        const char *letter;
        uint32_t c;
        st = sp_strbuf_append(out, text + pos, plain - pos, err);
        if (st || escape == NULL) break;
        pos = plain + 2;
        if (escape[1] == 'u') {
            c = (uint32_t)escaped_unit(s, plain);
            pos = plain + 6;
            if (c >= 0xD800 && c <= 0xDBFF) {
                c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)escaped_unit(s, pos) - 0xDC00);
                pos += 6;
            }
            len = sp_utf8_put(bytes, c);
        } else {
            letter = strchr(letters, escape[1]);
            *bytes = letter ? meant[letter - letters] : escape[1];
        }
        st = sp_strbuf_append(out, bytes, len, err);
    }
    return st;
}

static bool fits_64_bits(const char *digits, size_t n, bool negative)
{
    const char *largest = negative ? "9223372036854775808" : "18446744073709551615";
    size_t len = strlen(largest);

    if (negative && n == 1 && *digits == '0') return false;
    return n < len || (n == len && memcmp(digits, largest, n) <= 0);
}

static enum sp_status scan_number(struct sp_json_scan *s, struct sp_err *err)
{
    bool negative = byte_at(s, s->start) == '-';
    size_t first = s->start + negative, pos = skip_digits(s, first), from;

    if (pos == first) return bad(s->start, "number without digits", err);
    if (pos - first > 1 && s->text[first] == '0')
        return bad(s->start, "number with a leading zero", err);
    s->token = fits_64_bits(s->text + first, pos - first, negative) ? SP_JSON_TOKEN_INTEGER
                                                                    : SP_JSON_TOKEN_WIDE;
    if (byte_at(s, pos) == '.') {
        from = pos + 1;
        pos = skip_digits(s, from);
        if (pos == from) return bad(s->start, "number without digits after its point", err);
        s->token = SP_JSON_TOKEN_DOUBLE;
    }
    if ((byte_at(s, pos) | 0x20) == 'e') {
        from = pos + 1 + (byte_at(s, pos + 1) == '+' || byte_at(s, pos + 1) == '-');
        pos = skip_digits(s, from);
        if (pos == from) return bad(s->start, "number without digits in its exponent", err);
        s->token = SP_JSON_TOKEN_DOUBLE;
    }
    if (pos < s->size && memchr(" \n\t\r,]}", s->text[pos], 7) == NULL)
        return bad(pos, "unexpected character after a number", err);
    s->end = pos;
    return SP_OK;
}

/* Scans a literal by its first letter, which may follow a minus sign. */
static enum sp_status scan_literal(struct sp_json_scan *s, struct sp_err *err)
{
    static const struct {
        char letters[3];
        const char *word, *otherwise;
        enum sp_json_token token;
    } literals[] = {
        {"n", "null", "null expected", SP_JSON_TOKEN_NULL},
        {"tT", "true", "boolean expected", SP_JSON_TOKEN_TRUE},
        {"fF", "false", "boolean expected", SP_JSON_TOKEN_FALSE},
        {"N", "NaN", "null expected", SP_JSON_TOKEN_NONFINITE},
        {"I", "Infinity", "unexpected character", SP_JSON_TOKEN_NONFINITE},
    };
    int c = byte_at(s, s->start);
    size_t i = 0, pos = s->start + (c == '-');

    c = byte_at(s, pos);
    while (i < sizeof literals / sizeof *literals && (c <= 0 || !strchr(literals[i].letters, c)))
        i++;
    if (i == sizeof literals / sizeof *literals) {
        return expected(pos == 0 && c == 0xEF ? "a byte order mark" : "unexpected character", s,
                        pos, err);
    }
    for (const char *letter = literals[i].word; *letter; letter++, pos++)
        if (byte_at(s, pos) != *letter) return expected(literals[i].otherwise, s, pos, err);
    s->token = literals[i].token;
    s->end = pos;
    return SP_OK;
}

/* Passes the colon or comma that must stand before the next key or value. */
static enum sp_status pass_separator(struct sp_json_scan *s, size_t *pos, struct sp_err *err)
{
    bool is_object = s->closing[s->depth - 1] == '}';

    if (s->next == SP_JSON_NEXT_COLON) {
        if (byte_at(s, *pos) != ':')
            return expected("object property name separator ':' expected", s, *pos, err);
        s->next = SP_JSON_NEXT_VALUE;
    } else {
        if (byte_at(s, *pos) != ',') {
            return expected(is_object ? "object value separator ',' expected"
                                      : "array value separator ',' expected",
                            s, *pos, err);
        }
        s->next = is_object ? SP_JSON_NEXT_KEY : SP_JSON_NEXT_VALUE;
    }
    *pos = skip_space(s, *pos + 1);
    return SP_OK;
}

static enum sp_status scan_key(struct sp_json_scan *s, struct sp_err *err)
{
    int c = byte_at(s, s->start);

    if (c != '"') {
        return expected(c == '}' ? "unexpected character" : "quoted object property name expected",
                        s, s->start, err);
    }
    s->next = SP_JSON_NEXT_COLON;
    return scan_string(s, true, err);
}

static enum sp_status scan_open(struct sp_json_scan *s, bool is_object, struct sp_err *err)
{
    if (s->depth == SP_JSON_DEPTH) {
        return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: nested deeper than %d",
                       s->start, SP_JSON_DEPTH);
    }
    s->closing[s->depth++] = is_object ? '}' : ']';
    s->next = SP_JSON_NEXT_FIRST;
    s->token = is_object ? SP_JSON_TOKEN_OPEN_OBJECT : SP_JSON_TOKEN_OPEN_ARRAY;
    return SP_OK;
}

static enum sp_status scan_value(struct sp_json_scan *s, struct sp_err *err)
{
    int c = byte_at(s, s->start);

    s->next = SP_JSON_NEXT_COMMA;
    if (c == '{' || c == '[') return scan_open(s, c == '{', err);
    s->token = SP_JSON_TOKEN_STRING;
    if (c == '"') return scan_string(s, false, err);
    if (is_digit(c) || (c == '-' && byte_at(s, s->start + 1) != 'I')) return scan_number(s, err);
    return scan_literal(s, err);
}

static enum sp_status check_utf8(const struct sp_json_scan *s, struct sp_err *err)
{
    size_t valid = sp_utf8_valid(s->text, s->size);

    return valid < s->size ? bad(valid, "invalid UTF-8", err) : SP_OK;
}

enum sp_status sp_json_scan(struct sp_json_scan *s, struct sp_err *err)
{
    enum sp_status st;
    size_t pos;

    if (s->end == 0 && (st = check_utf8(s, err))) return st;
    pos = s->start = skip_space(s, s->end);
    s->end = pos + 1;
    if (s->depth == 0 && s->next == SP_JSON_NEXT_COMMA) {
        s->end = pos;
        s->token = SP_JSON_TOKEN_END;
        return pos == s->size ? SP_OK : bad(pos, "unexpected character", err);
    }
    if ((s->next == SP_JSON_NEXT_FIRST || s->next == SP_JSON_NEXT_COMMA) &&
        byte_at(s, pos) == s->closing[s->depth - 1]) {
        s->depth--;
        s->next = SP_JSON_NEXT_COMMA;
        s->token = SP_JSON_TOKEN_CLOSE;
        return SP_OK;
    }
    if (s->next >= SP_JSON_NEXT_COLON) {
        if ((st = pass_separator(s, &pos, err))) return st;
        s->start = pos;
        s->end = pos + 1;
    }
    if (s->next == SP_JSON_NEXT_FIRST)
        s->next = s->closing[s->depth - 1] == '}' ? SP_JSON_NEXT_KEY : SP_JSON_NEXT_VALUE;
    s->token = SP_JSON_TOKEN_KEY;
    return s->next == SP_JSON_NEXT_KEY ? scan_key(s, err) : scan_value(s, err);
}

enum sp_status sp_json_scan_value(struct sp_json_scan *s, struct sp_err *err)
{
    enum sp_status st = SP_OK;
    size_t depth = s->depth - (s->next == SP_JSON_NEXT_FIRST);

    while (st == SP_OK && s->depth > depth)
        st = sp_json_scan(s, err);
    return st;
}
