#include "format/base/json_scan.h"
#include "format/base/unicode.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static enum sp_status bad(size_t pos, const char *what, struct sp_err *err)
{
    return sp_fail(err, SP_E_INPUT, "not valid JSON at byte %zu: %s", pos, what);
}

/* The byte at `pos`, or -1 after the end of the text. */
static int byte_at(const struct sp_json_scan *s, size_t pos)
{
    return pos < s->size ? (unsigned char)s->text[pos] : -1;
}

static size_t skip_space(const struct sp_json_scan *s, size_t pos)
{
    while (pos < s->size && memchr(" \n\t\r", s->text[pos], 4))
        pos++;
    return pos;
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
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

/* Reads the escape at a backslash, or a pair of surrogate escapes; *pos moves after it. Which
 * letters may follow a backslash is checked by the parser. */
static enum sp_status scan_escape(const struct sp_json_scan *s, size_t *pos, bool *nul,
                                  struct sp_err *err)
{
    int32_t high = escaped_unit(s, *pos), low;

    if (byte_at(s, *pos + 1) != 'u') {
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

static enum sp_status scan_string(enum sp_json_token *token, struct sp_json_scan *s,
                                  struct sp_err *err)
{
    enum sp_status st;
    size_t pos = s->start + 1;
    bool nul = false;

    for (int c; (c = byte_at(s, pos)) != '"';) {
        if (c < 0) return bad(s->start, "unterminated string", err);
        if (c < 0x20) return bad(pos, "control character in a string", err);
        if (c != '\\')
            pos++;
        else if ((st = scan_escape(s, &pos, &nul, err)))
            return st;
    }
    s->end = pos + 1;
    *token = byte_at(s, skip_space(s, s->end)) == ':' ? SP_JSON_TOKEN_KEY : SP_JSON_TOKEN_STRING;
    if (nul && *token == SP_JSON_TOKEN_KEY) return bad(s->start, "key holding \\u0000", err);
    return SP_OK;
}

static bool fits_64_bits(const char *digits, size_t n, bool negative)
{
    const char *largest = negative ? "9223372036854775808" : "18446744073709551615";
    size_t len = strlen(largest);

    if (negative && n == 1 && *digits == '0') return false;
    return n < len || (n == len && memcmp(digits, largest, n) <= 0);
}

static enum sp_status scan_number(enum sp_json_token *token, struct sp_json_scan *s,
                                  struct sp_err *err)
{
    bool negative = byte_at(s, s->start) == '-', integer;
    size_t first = s->start + negative, pos = skip_digits(s, first), from;

    if (pos == first) return bad(s->start, "number without digits", err);
    if (pos - first > 1 && s->text[first] == '0')
        return bad(s->start, "number with a leading zero", err);
    integer = byte_at(s, pos) != '.' && (byte_at(s, pos) | 0x20) != 'e';
    *token = integer && !fits_64_bits(s->text + first, pos - first, negative)
                 ? SP_JSON_TOKEN_WIDE
                 : SP_JSON_TOKEN_NUMBER;
    if (byte_at(s, pos) == '.') {
        from = pos + 1;
        pos = skip_digits(s, from);
        if (pos == from) return bad(s->start, "number without digits after its point", err);
    }
    if ((byte_at(s, pos) | 0x20) == 'e') {
        from = pos + 1 + (byte_at(s, pos + 1) == '+' || byte_at(s, pos + 1) == '-');
        pos = skip_digits(s, from);
        if (pos == from) return bad(s->start, "number without digits in its exponent", err);
    }
    if (pos < s->size && memchr(" \n\t\r,]}", s->text[pos], 7) == NULL)
        return bad(pos, "unexpected character after a number", err);
    s->end = pos;
    return SP_OK;
}

enum sp_status sp_json_scan(enum sp_json_token *token, struct sp_json_scan *s, struct sp_err *err)
{
    size_t pos = s->end;
    int c;

    if (pos == 0) {
        size_t valid = sp_utf8_valid(s->text, s->size);
        if (valid < s->size) return bad(valid, "invalid UTF-8", err);
    }
    do {
        pos = skip_space(s, pos);
        c = byte_at(s, pos++);
    } while (c == ',' || c == ':');
    s->start = pos - 1;
    s->end = pos;
    if (c == '"') return scan_string(token, s, err);
    if (is_digit(c) || (c == '-' && !is_letter(byte_at(s, pos)))) return scan_number(token, s, err);
    if (c == '{') {
        *token = SP_JSON_TOKEN_OPEN_OBJECT;
    } else if (c == '[') {
        *token = SP_JSON_TOKEN_OPEN_ARRAY;
    } else if (c == '}' || c == ']') {
        *token = SP_JSON_TOKEN_CLOSE;
    } else if (c < 0) {
        s->end = s->size;
        *token = SP_JSON_TOKEN_END;
    } else if (c == '-' || is_letter(c)) {
        *token = SP_JSON_TOKEN_LITERAL;
        while (is_letter(byte_at(s, s->end)))
            s->end++;
    } else {
        return bad(s->start, pos == 1 && c == 0xEF ? "a byte order mark" : "unexpected character",
                   err);
    }
    return SP_OK;
}

enum sp_status sp_json_scan_value(enum sp_json_token token, struct sp_json_scan *s,
                                  struct sp_err *err)
{
    enum sp_status st;
    size_t depth = 0;

    for (;;) {
        if (token == SP_JSON_TOKEN_OPEN_OBJECT || token == SP_JSON_TOKEN_OPEN_ARRAY) depth++;
        if (token == SP_JSON_TOKEN_CLOSE && depth > 0) depth--;
        if (depth == 0 || token == SP_JSON_TOKEN_END) return SP_OK;
        if ((st = sp_json_scan(&token, s, err))) return st;
    }
}
