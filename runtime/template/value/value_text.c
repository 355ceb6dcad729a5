/* Numbers to text and back. The shortest digits are found by printing 1, 2, .. 17 of them until
 * they parse as the same number, which is slower than the known algorithms, but simple, and as
 * exact as libc. */
#include "runtime/template/value/value_text.h"
#include "format/base/number_text.h"

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

enum sp_status sp_number_parse(struct sp_heap *heap, struct sp_value *out, const char *text,
                               int base, bool real)
{
    enum sp_status st;
    long long v;

    if (real) {
        *out = sp_value_float(sp_number_read(text, NULL));
        return SP_OK;
    }
    errno = 0;
    v = strtoll(text, NULL, base);
    if (errno == 0) {
        *out = sp_value_int(v);
        return SP_OK;
    }
    if (base != 10) return sp_fail(heap->err, SP_E_UNSUPPORTED, "%s exceeds 64 bits", text);
    while (*text == '0')
        text++;
    if (strlen(text) > SP_BIG_DIGITS) {
        return sp_fail(heap->err, SP_E_UNSUPPORTED,
                       "an integer of %zu digits, at most %d are supported", strlen(text),
                       SP_BIG_DIGITS);
    }
    if ((st = sp_value_copy_text(heap, out, text, strlen(text)))) return st;
    out->kind = SP_V_BIG;
    return SP_OK;
}

static enum sp_status build_exponent(struct sp_builder *b, const char *digits, size_t n,
                                     int exponent)
{
    enum sp_status st;
    char text[16];

    if ((st = sp_build(b, digits, 1))) return st;
    if (n > 1) {
        if ((st = sp_build(b, ".", 1))) return st;
        if ((st = sp_build(b, digits + 1, n - 1))) return st;
    }
    snprintf(text, sizeof text, "e%+03d", exponent);
    return sp_build_text(b, text);
}

enum sp_status sp_build_shortest(struct sp_builder *b, double v, int low, int high)
{
    enum sp_status st;
    char digits[MAX_DIGITS + 1];
    size_t n, whole;
    int point;

    if (signbit(v) && (st = sp_build(b, "-", 1))) return st;
    n = shortest_digits(digits, &point, fabs(v));
    if (v == 0) point = 1;
    if (point - 1 < low || point - 1 >= high) return build_exponent(b, digits, n, point - 1);
    if (point <= 0) {
        if ((st = sp_build_text(b, "0."))) return st;
        if ((st = sp_build_repeat(b, '0', (size_t)-point))) return st;
        return sp_build(b, digits, n);
    }
    whole = (size_t)point;
    if ((st = sp_build(b, digits, n < whole ? n : whole))) return st;
    if (n <= whole) return sp_build_repeat(b, '0', whole - n);
    if ((st = sp_build(b, ".", 1))) return st;
    return sp_build(b, digits + whole, n - whole);
}

enum sp_status sp_build_python_float(struct sp_builder *b, double v)
{
    enum sp_status st;
    size_t begin = b->len;

    if (isnan(v)) return sp_build_text(b, "nan");
    if (isinf(v)) return sp_build_text(b, v < 0 ? "-inf" : "inf");
    if ((st = sp_build_shortest(b, v, -4, 16))) return st;
    for (size_t i = begin; i < b->len; i++)
        if (b->at[i] == '.' || b->at[i] == 'e') return SP_OK;
    return sp_build_text(b, ".0");
}

enum sp_status sp_build_integer(struct sp_builder *b, struct sp_value v)
{
    char text[24];

    if (v.kind == SP_V_BIG) return sp_build(b, v.text, v.len);
    snprintf(text, sizeof text, "%" PRId64, v.integer);
    return sp_build_text(b, text);
}
