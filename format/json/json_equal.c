/* Equality of JSON values as JSON Schema has it (core, 4.2.2). Numbers are compared by their
 * digits, so that none is too long or too large. */
#include "format/json/json.h"
#include "format/json/json_write.h"

#include <stdlib.h>
#include <string.h>

/* A number as it is written: its digits from the first to the last that is not 0, a point among
 * them, and the power of ten of the first. Zero has none. */
struct decimal {
    bool negative;
    const char *first, *end;
    long long power;
};

static struct decimal read_decimal(const char *text)
{
    const long long most = 1LL << 40; /* of an exponent; what is beyond counts as this */
    struct decimal d = {.negative = *text == '-'};
    const char *begin = text + d.negative, *mantissa_end = begin + strcspn(begin, "eE");
    const char *point = begin + strcspn(begin, ".eE");
    long long exponent = *mantissa_end ? strtoll(mantissa_end + 1, NULL, 10) : 0;

    d.first = begin + strspn(begin, "0.");
    d.end = mantissa_end;
    if (d.first >= d.end) return (struct decimal){.first = d.end, .end = d.end};
    while (d.end[-1] == '0' || d.end[-1] == '.')
        d.end--;
    if (exponent > most) exponent = most;
    if (exponent < -most) exponent = -most;
    d.power = point - d.first - (point > d.first) + exponent;
    return d;
}

static bool same_digits(const struct decimal *a, const struct decimal *b)
{
    const char *x = a->first, *y = b->first;

    while (x < a->end && y < b->end) {
        x += *x == '.';
        y += *y == '.';
        if (*x++ != *y++) return false;
    }
    return x == a->end && y == b->end;
}

static enum sp_status compare_numbers(bool *equal, const struct sp_json *a, const struct sp_json *b,
                                      struct sp_err *err)
{
    enum sp_status st;
    char *a_text = NULL, *b_text = NULL;
    struct decimal x, y;
    int64_t i, k;

    if (sp_json_kind(a) == SP_JSON_INT && sp_json_kind(b) == SP_JSON_INT && sp_json_to_i64(a, &i) &&
        sp_json_to_i64(b, &k)) {
        *equal = i == k;
        return SP_OK;
    }
    *equal = false;
    if ((st = sp_json_print(&a_text, a, err)) || (st = sp_json_print(&b_text, b, err))) goto done;
    x = read_decimal(a_text);
    y = read_decimal(b_text);
    *equal = x.negative == y.negative && x.power == y.power && same_digits(&x, &y);
done:
    free(a_text);
    free(b_text);
    return st;
}

/* Compares two values of the same kind. The recursion is as deep as documents may nest. */
static enum sp_status compare_members(bool *equal, const struct sp_json *a, const struct sp_json *b,
                                      struct sp_err *err)
{
    enum sp_status st = SP_OK;
    struct sp_json_iter it = {0};
    size_t n = sp_json_len(a);

    *equal = n == sp_json_len(b);
    if (sp_json_kind(a) == SP_JSON_ARRAY) {
        for (size_t i = 0; i < n && *equal && st == SP_OK; i++)
            st = sp_json_equal(equal, sp_json_at(a, i), sp_json_at(b, i), err);
        return st;
    }
    while (*equal && st == SP_OK && sp_json_next(a, &it)) {
        *equal = sp_json_has(b, it.key);
        if (*equal) st = sp_json_equal(equal, it.value, sp_json_get(b, it.key), err);
    }
    return st;
}

static bool is_number(enum sp_json_kind kind)
{
    return kind == SP_JSON_INT || kind == SP_JSON_DOUBLE;
}

enum sp_status sp_json_equal(bool *equal, const struct sp_json *a, const struct sp_json *b,
                             struct sp_err *err)
{
    enum sp_json_kind kind = sp_json_kind(a);
    size_t a_len, b_len;
    const char *x, *y;
    bool p = false, q = false;

    if (is_number(kind) && is_number(sp_json_kind(b))) return compare_numbers(equal, a, b, err);
    *equal = kind == sp_json_kind(b);
    if (!*equal || kind == SP_JSON_NULL) return SP_OK;
    if (kind == SP_JSON_ARRAY || kind == SP_JSON_OBJECT) return compare_members(equal, a, b, err);
    if (kind == SP_JSON_STRING) {
        x = sp_json_to_string(a, &a_len);
        y = sp_json_to_string(b, &b_len);
        *equal = a_len == b_len && memcmp(x, y, a_len) == 0;
    } else {
        *equal = sp_json_to_bool(a, &p) && sp_json_to_bool(b, &q) && p == q;
    }
    return SP_OK;
}
