/* Numbers to text and back, and texts with escapes. The shortest digits are found by printing 1, 2,
 * .. 17 of them until they parse as the same number, which is slower than the known algorithms, but
 * simple, and as exact as libc. */
#include "runtime/template/value/value.h"
#include "format/base/number_text.h"
#include "format/base/unicode.h"
#include "format/base/unicode_case.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIGITS = 17 };

/* Computes the fewest decimal digits that parse as `v`, which is finite and >= 0, and returns
 * their number. v = 0.d1 d2 d3 ... * 10^*point. */
static size_t shortest_digits(char digits[MAX_DIGITS + 1], int *point, double v)
{
    char text[40];
    size_t n = 0;
    const char *exponent;

    for (int precision = 0; precision < MAX_DIGITS; precision++) {
        sp_number_print(text, sizeof text, "%.*e", precision, v);
        if (sp_number_read(text, NULL) == v) break;
    }
    for (const char *c = text; *c && *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    exponent = strchr(text, 'e');
    *point = (exponent ? (int)strtol(exponent + 1, NULL, 10) : 0) + 1;
    return n;
}

bool sp_number_parse(struct sp_value *out, const char *text)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(text, &end, 10);
    if (*end == '\0') {
        *out = sp_value_natural(v);
        return errno == 0 && end != text;
    }
    *out = sp_value_float(sp_number_read(text, &end));
    return *end == '\0';
}

bool sp_build_escape(struct sp_builder *b, const char *text, size_t size, size_t *pos)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *pos < size ? text[*pos] : '\0', bytes[SP_UTF8_MAX];
    const char *found = c ? strchr(from, c) : NULL;
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;

    if (found == NULL && digits == 0) return false;
    ++*pos;
    if (found != NULL) {
        sp_build(b, &to[found - from], 1);
        return true;
    }
    for (int i = 0; i < digits; i++, ++*pos) {
        int d = *pos < size ? sp_hex_digit(text[*pos]) : -1;
        if (d < 0) {
            sp_heap_fail(b->heap, SP_E_INPUT, "an escape in a string needs %d hexadecimal digits",
                         digits);
            return true;
        }
        code = code << 4 | (uint32_t)d;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        sp_heap_fail(b->heap, SP_E_INPUT, "no character has the number 0x%x", code);
    else
        sp_build(b, bytes, sp_utf8_put(bytes, code));
    return true;
}

static void build_exponent(struct sp_builder *b, const char *digits, size_t n, int exponent)
{
    char text[16];

    sp_build(b, digits, 1);
    if (n > 1) {
        sp_build(b, ".", 1);
        sp_build(b, digits + 1, n - 1);
    }
    snprintf(text, sizeof text, "e%+03d", exponent);
    sp_build_text(b, text);
}

void sp_build_shortest(struct sp_builder *b, double v, int low, int high)
{
    char digits[MAX_DIGITS + 1];
    size_t n, whole;
    int point;

    if (signbit(v)) sp_build(b, "-", 1);
    n = shortest_digits(digits, &point, fabs(v));
    if (v == 0) point = 1;
    whole = point > 0 ? (size_t)point : 0;
    if (point - 1 < low || point - 1 >= high) {
        build_exponent(b, digits, n, point - 1);
    } else if (whole == 0) {
        sp_build_text(b, "0.");
        sp_build_repeat(b, '0', (size_t)-point);
        sp_build(b, digits, n);
    } else {
        sp_build(b, digits, n < whole ? n : whole);
        sp_build_repeat(b, '0', n < whole ? whole - n : 0);
        if (n > whole) sp_build(b, ".", 1);
        if (n > whole) sp_build(b, digits + whole, n - whole);
    }
}

void sp_build_python_float(struct sp_builder *b, double v)
{
    size_t begin = b->len;

    if (isnan(v) || isinf(v)) {
        sp_build_text(b, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    sp_build_shortest(b, v, -4, 16);
    for (size_t i = begin; i < b->len; i++)
        if (b->at[i] == '.' || b->at[i] == 'e') return;
    sp_build_text(b, ".0");
}

void sp_build_integer(struct sp_builder *b, struct sp_value v)
{
    char text[24];

    snprintf(text, sizeof text, v.kind == SP_V_BIG ? "%" PRIu64 : "%" PRId64, v.natural);
    sp_build_text(b, text);
}

void sp_build_quoted(struct sp_builder *b, struct sp_value v, char quote, const char *from,
                     const char *to, uint32_t two_digits)
{
    size_t pos = 0;

    sp_build(b, &quote, 1);
    while (pos < v.len && !b->heap->status) {
        size_t begin = pos;
        char escape[16] = "";
        uint32_t c = sp_utf8_next(v.text, v.len, &pos);
        const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        bool invalid = c == 0xfffd && pos - begin == 1;
        if (invalid) c = (unsigned char)v.text[begin];
        if (found != NULL)
            snprintf(escape, sizeof escape, "\\%c", to[found - from]);
        else if (invalid || (c < two_digits && !sp_unicode_is_printable(c)))
            snprintf(escape, sizeof escape, "\\x%02x", c);
        else if (!sp_unicode_is_printable(c))
            snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        sp_build(b, *escape ? escape : v.text + begin, *escape ? strlen(escape) : pos - begin);
    }
    sp_build(b, &quote, 1);
}

void sp_build_json_text(struct sp_builder *b, struct sp_value v, enum sp_json_text how)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    size_t pos = 0;
    char escape[16];

    sp_build(b, "\"", 1);
    while (pos < v.len && !b->heap->status) {
        size_t begin = pos;
        uint32_t c = sp_utf8_next(v.text, v.len, &pos);
        const char *found = c && c < 0x80 ? strchr(from, (int)c) : NULL;
        bool go = how == SP_JSON_TEXT_GO;
        bool coded = c < 0x20 || (how == SP_JSON_TEXT_ASCII && c > 0x7f) ||
                     (go && (c == '<' || c == '>' || c == '&' || c == 0x2028 || c == 0x2029));
        if (found != NULL && !(go && (c == '\b' || c == '\f')))
            snprintf(escape, sizeof escape, "\\%c", to[found - from]);
        else if (coded && c >= 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
                     0xdc00 + (c & 0x3ff));
        else if (coded)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            escape[0] = '\0';
        sp_build(b, *escape ? escape : v.text + begin, *escape ? strlen(escape) : pos - begin);
    }
    sp_build(b, "\"", 1);
}
