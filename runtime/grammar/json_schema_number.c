/* Numbers between bounds, digit by digit.
 *
 * A number is compared with a bound as it is written: while its digits equal those of the bound,
 * the next digit may not be smaller (or larger); once they differ, every digit is allowed. So a
 * node is determined by the number of digits so far, and by whether they equal those of the lower
 * and of the upper bound. Negative numbers are mirrored. Bounded numbers have no exponent. */
#include "runtime/grammar/json_schema_parts.h"
#include "runtime/grammar/grammar_chars.h"
#include "runtime/grammar/json_schema.h"
#include "format/base/number_text.h"

#include <math.h>
#include <string.h>

enum { MOST_DIGITS = SP_JSON_WHOLE_DIGITS + SP_JSON_FRACTION_DIGITS };

/* The digits of a non-negative bound: the whole part without leading zeros ("0" for 0), then the
 * fraction, padded with zeros. */
struct bound {
    bool is_set, exclusive;
    char digits[MOST_DIGITS + 1];
    size_t n_whole;
};

/* The signed bounds of a view. */
struct range {
    bool has_min, has_max, min_exclusive, max_exclusive;
    double min, max;
};

struct span {
    struct sp_grammar *g;
    const struct bound *low, *high;
    bool whole;
    size_t n_whole; /* digits before the point of the numbers being built */
    uint32_t next;
    /* Nodes after n digits, by whether these equal the bounds' (bit 0: low, bit 1: high). */
    uint32_t at[MOST_DIGITS + 1][4];
};

/* ---- reading bounds ---- */

/* Every number that is written is below this one. */
static const double number_limit = 1e16;

/* Reads |x| as digits; false if it has too many. */
static bool read_digits(struct bound *b, double x)
{
    char text[512], *point;
    int precision = SP_JSON_FRACTION_DIGITS;
    size_t n_fraction;

    if (!(fabs(x) < number_limit)) return false;
    /* Finds the shortest decimal fraction that is the same number. */
    for (precision = 0; precision <= SP_JSON_FRACTION_DIGITS; precision++) {
        sp_number_print(text, sizeof text, "%.*f", precision, fabs(x));
        if (!(sp_number_read(text, NULL) < fabs(x)) && !(sp_number_read(text, NULL) > fabs(x)))
            break;
    }
    if (precision > SP_JSON_FRACTION_DIGITS) return false;
    point = strchr(text, '.');
    b->n_whole = point ? (size_t)(point - text) : strlen(text);
    n_fraction = point ? strlen(point + 1) : 0;
    memset(b->digits, '0', MOST_DIGITS);
    memcpy(b->digits, text, b->n_whole);
    if (n_fraction) memcpy(b->digits + b->n_whole, point + 1, n_fraction);
    b->is_set = true;
    return true;
}

static void read_bound(struct sp_schema *s, const struct sp_schema_view *v, const char *key,
                       int sign, bool *has, bool *exclusive, double *bound)
{
    bool excludes = key[0] == 'e';
    const struct sp_json *value;
    const struct sp_schema_part *part;
    double x;

    for (size_t i = 0; (part = sp_schema_next(s, v, key, &i, &value));) {
        struct bound unused;
        if (!sp_json_to_double(value, &x) || sp_json_kind(value) == SP_JSON_BOOL) {
            sp_schema_fail(s, part, key, SP_E_INPUT, "expected a number");
        } else if (sign > 0 ? x <= -number_limit : x >= number_limit) {
            continue; /* which limits no number that can be written */
        } else if (!read_digits(&unused, x)) {
            sp_schema_fail(s, part, key, SP_E_UNSUPPORTED,
                           "expected a number below 1e16 with at most 15 digits after the point");
        } else if (!*has || (sign > 0 ? x > *bound : x < *bound) ||
                   (excludes && !(x < *bound) && !(x > *bound))) {
            *has = true;
            *exclusive = excludes;
            *bound = x;
        }
    }
}

/* Rounds a bound to an integer, which makes it inclusive. */
static void make_whole(bool has, bool *exclusive, double *bound, double (*towards)(double),
                       int sign)
{
    double rounded = towards(*bound);

    if (!has) return;
    if (*exclusive && !(rounded < *bound) && !(rounded > *bound)) rounded += sign;
    *bound = rounded;
    *exclusive = false;
}

/* ---- digits ---- */

static bool is_zero_from(const struct bound *b, size_t i)
{
    for (; i < MOST_DIGITS; i++)
        if (b->digits[i] != '0') return false;
    return true;
}

/* True if a number may end after n digits, which equal those of the bounds in `tight`. */
static bool may_end(const struct span *p, size_t n, unsigned tight)
{
    if (tight & 1 && !is_zero_from(p->low, n)) return false;
    if (tight & 1 && p->low->exclusive) return false;
    return !(tight & 2 && p->high->exclusive && is_zero_from(p->high, n));
}

/* One digit out of first..last, then `next`. */
static uint32_t digits(struct span *p, char first, char last, uint32_t next)
{
    struct sp_char_range range = {(unsigned char)first, (unsigned char)last};

    return first <= last ? sp_grammar_chars(p->g, &range, 1, next) : SP_GRAMMAR_NEVER;
}

/* Digit n of a number whose earlier digits are `tight`. */
static uint32_t digit_choice(struct span *p, size_t n, unsigned tight)
{
    char least = n == 0 && p->n_whole > 1 ? '1' : '0', most = '9';
    uint32_t choice = SP_GRAMMAR_NEVER;
    bool low = tight & 1, high = tight & 2;

    if (low && p->low->digits[n] > least) least = p->low->digits[n];
    if (high) most = p->high->digits[n];
    for (char d = least; d <= most; d++) {
        unsigned then = (unsigned)(low && d == p->low->digits[n]) |
                        (unsigned)(high && d == p->high->digits[n]) << 1;
        char last = d;
        while (last < most && then == 0 && !(low && last + 1 == p->low->digits[n]) &&
               !(high && last + 1 == p->high->digits[n]))
            last++;
        choice = sp_grammar_either(p->g, choice, digits(p, d, last, p->at[n + 1][then]));
        d = last;
    }
    return choice;
}

/* The node before the first digit. bounds: those with as many digits before the point. */
static uint32_t all_digits(struct span *p, unsigned bounds)
{
    size_t n_digits = p->n_whole + (p->whole ? 0 : SP_JSON_FRACTION_DIGITS);

    for (size_t n = n_digits + 1; n-- > 0;) {
        for (unsigned tight = 0; tight < 4; tight++) {
            if (tight & ~bounds) continue;
            uint32_t choice = n < n_digits ? digit_choice(p, n, tight) : SP_GRAMMAR_NEVER;
            if (n == p->n_whole && n < n_digits) choice = sp_grammar_text(p->g, ".", 1, choice);
            if (n >= p->n_whole && may_end(p, n, tight))
                choice = sp_grammar_either(p->g, choice, p->next);
            p->at[n][tight] = choice;
        }
    }
    return p->at[0][bounds];
}

/* Unsigned numbers low..high; a bound that is not set does not limit them. */
static uint32_t unsigned_range(struct sp_schema *s, const struct bound *low,
                               const struct bound *high, bool whole, uint32_t next)
{
    struct span p = {.g = s->g, .low = low, .high = high, .whole = whole, .next = next};
    size_t least = low->is_set ? low->n_whole : 1;
    size_t most = high->is_set ? high->n_whole : SP_JSON_WHOLE_DIGITS;
    uint32_t choice = SP_GRAMMAR_NEVER;

    for (p.n_whole = least; p.n_whole <= most; p.n_whole++) {
        unsigned bounds = (unsigned)(low->is_set && p.n_whole == low->n_whole) |
                          (unsigned)(high->is_set && p.n_whole == high->n_whole) << 1;
        choice = sp_grammar_either(s->g, choice, all_digits(&p, bounds));
    }
    return choice;
}

/* ---- the value ---- */

static bool is_empty(const struct range *r)
{
    if (!r->has_min || !r->has_max || r->min < r->max) return false;
    return r->min > r->max || r->min_exclusive || r->max_exclusive;
}

static uint32_t from_zero(struct sp_schema *s, const struct range *r, bool whole, uint32_t next)
{
    struct bound low = {0}, high = {0};

    if (r->has_max && (r->max < 0 || (!(r->max > 0) && r->max_exclusive))) return SP_GRAMMAR_NEVER;
    if (r->has_min && r->min >= 0) {
        (void)read_digits(&low, r->min);
        low.exclusive = r->min_exclusive;
    }
    if (r->has_max) (void)read_digits(&high, r->max);
    high.exclusive = r->max_exclusive;
    return unsigned_range(s, &low, &high, whole, next);
}

/* Negative numbers. Zero has no sign. */
static uint32_t below_zero(struct sp_schema *s, const struct range *r, bool whole, uint32_t next)
{
    struct bound low = {0}, high = {0};
    bool negative_max = r->has_max && r->max < 0;

    if (r->has_min && r->min >= 0) return SP_GRAMMAR_NEVER;
    (void)read_digits(&low, negative_max ? r->max : whole ? 1 : 0);
    low.exclusive = negative_max ? r->max_exclusive : !whole;
    if (r->has_min) (void)read_digits(&high, r->min);
    high.exclusive = r->min_exclusive;
    return sp_grammar_text(s->g, "-", 1, unsigned_range(s, &low, &high, whole, next));
}

uint32_t sp_schema_number(struct sp_schema *s, const struct sp_schema_view *v, bool whole,
                          uint32_t next)
{
    struct range r = {0};
    uint32_t choice;

    read_bound(s, v, "minimum", 1, &r.has_min, &r.min_exclusive, &r.min);
    read_bound(s, v, "exclusiveMinimum", 1, &r.has_min, &r.min_exclusive, &r.min);
    read_bound(s, v, "maximum", -1, &r.has_max, &r.max_exclusive, &r.max);
    read_bound(s, v, "exclusiveMaximum", -1, &r.has_max, &r.max_exclusive, &r.max);
    if (!r.has_min && !r.has_max) return sp_json_number(&s->json, whole, next);
    if (whole) {
        make_whole(r.has_min, &r.min_exclusive, &r.min, ceil, 1);
        make_whole(r.has_max, &r.max_exclusive, &r.max, floor, -1);
    }
    if (is_empty(&r) || s->g->err.status) return SP_GRAMMAR_NEVER;
    choice = from_zero(s, &r, whole, next);
    if (r.has_min && r.min >= 0) return choice;
    return sp_grammar_either(s->g, choice, below_zero(s, &r, whole, next));
}
