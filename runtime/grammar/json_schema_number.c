/* Numbers between bounds, digit by digit.
 *
 * A number is compared with a bound as it is written: while its digits equal those of the bound,
 * the next digit may not be smaller (or larger); once they differ, every digit is allowed. So a
 * node is determined by the number of digits so far, and by whether they equal those of the lower
 * and of the upper bound, and by the remainder for `multipleOf`. Negative numbers are mirrored.
 * Numbers with bounds or a divisor have no exponent. */
#include "runtime/grammar/json_schema_parts.h"
#include "runtime/grammar/grammar_chars.h"
#include "runtime/grammar/json_schema.h"
#include "format/base/number_text.h"

#include <math.h>
#include <stdlib.h>
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
    bool has_large; /* a bound that only a number with an exponent could exceed */
    double min, max;
};

struct span {
    struct sp_grammar *g;
    const struct bound *low, *high;
    size_t n_whole, n_fraction; /* digits before and after the point of the numbers being built */
    uint32_t next;
    /* A number is a multiple of `multipleOf` if the integer of all its digits, times 10^shift, is
     * one of `divisor`. Its remainder after some digits is that with zeros for the digits that are
     * left.
     */
    uint32_t divisor;
    size_t shift, n_left;
    /* Nodes by how many digits are left, whether those so far equal the bounds' (bit 0: low, bit 1:
     * high), and the remainder. Those without bounds do not depend on n_whole. */
    uint32_t *nodes; /* [MOST_DIGITS + 1][4][divisor] owned */
    bool *reached;   /* [MOST_DIGITS + 1][divisor] the remainders of some digits; owned */
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
                       int sign, bool *has, bool *exclusive, double *bound, bool *has_large)
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
            *has_large = true;
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

/* 10^n in the remainders of the span. */
static uint32_t power(const struct span *p, size_t n)
{
    uint64_t x = 1 % p->divisor;

    for (n += p->shift; n > 0; n--)
        x = x * 10 % p->divisor;
    return (uint32_t)x;
}

static uint32_t *node_at(struct span *p, size_t left, unsigned tight, uint32_t remainder)
{
    return &p->nodes[(left * 4 + tight) * p->divisor + remainder];
}

/* The next digit of a number with `left` more digits, whose earlier ones are `tight`. */
static uint32_t digit_choice(struct span *p, size_t left, unsigned tight, uint32_t remainder)
{
    size_t n = p->n_whole + p->n_fraction - left;
    char least = n == 0 && p->n_whole > 1 ? '1' : '0', most = '9';
    uint32_t choice = SP_GRAMMAR_NEVER, weight = power(p, left - 1), after = SP_GRAMMAR_NEVER;
    bool low = tight & 1, high = tight & 2;
    char first;

    if (low && p->low->digits[n] > least) least = p->low->digits[n];
    if (high) most = p->high->digits[n];
    first = least;
    for (char d = least; d <= most; d++) {
        unsigned then = (unsigned)(low && d == p->low->digits[n]) |
                        (unsigned)(high && d == p->high->digits[n]) << 1;
        uint64_t sum = remainder + (uint64_t)(d - '0') * weight;
        uint32_t to = *node_at(p, left - 1, then, (uint32_t)(sum % p->divisor));
        if (to != after) {
            if (after != SP_GRAMMAR_NEVER)
                choice = sp_grammar_either(p->g, choice, digits(p, first, (char)(d - 1), after));
            first = d;
            after = to;
        }
    }
    if (after == SP_GRAMMAR_NEVER) return choice;
    return sp_grammar_either(p->g, choice, digits(p, first, most, after));
}

static uint32_t digit_node(struct span *p, size_t left, unsigned tight, uint32_t remainder)
{
    size_t n = p->n_whole + p->n_fraction - left;
    uint32_t choice = left > 0 ? digit_choice(p, left, tight, remainder) : SP_GRAMMAR_NEVER;

    if (left == p->n_fraction && left > 0 && choice != SP_GRAMMAR_NEVER)
        choice = sp_grammar_text(p->g, ".", 1, choice);
    if (left <= p->n_fraction && remainder == 0 && may_end(p, n, tight))
        choice = sp_grammar_either(p->g, choice, p->next);
    return choice;
}

/* Finds the remainders of any digits of which `left` are still to come. */
static void find_remainders(struct span *p, size_t n_digits)
{
    p->reached[n_digits * p->divisor] = true;
    for (size_t left = n_digits; left-- > 0;) {
        uint32_t weight = power(p, left);
        for (uint32_t from = 0; from < p->divisor; from++) {
            if (!p->reached[(left + 1) * p->divisor + from]) continue;
            for (uint64_t d = 0; d < 10; d++)
                p->reached[left * p->divisor + (from + d * weight) % p->divisor] = true;
        }
    }
}

/* The node before the first digit. bounds: those with as many digits before the point. */
static uint32_t all_digits(struct span *p, unsigned bounds)
{
    size_t n_digits = p->n_whole + p->n_fraction;

    for (size_t left = 0; left < n_digits; left++) {
        for (unsigned tight = left < p->n_left ? 1 : 0; tight < 4; tight++) {
            if (tight & ~bounds) continue;
            for (uint32_t r = 0; r < p->divisor; r++)
                if (p->reached[left * p->divisor + r])
                    *node_at(p, left, tight, r) = digit_node(p, left, tight, r);
        }
    }
    if (n_digits > p->n_left) p->n_left = n_digits;
    return digit_node(p, n_digits, bounds, 0);
}

/* Unsigned numbers low..high; a bound that is not set does not limit them. */
static uint32_t unsigned_range(struct span *p, const struct bound *low, const struct bound *high,
                               struct sp_err *err)
{
    size_t least = low->is_set ? low->n_whole : 1;
    size_t most = high->is_set ? high->n_whole : SP_JSON_WHOLE_DIGITS;
    uint32_t choice = SP_GRAMMAR_NEVER;

    p->low = low;
    p->high = high;
    p->n_left = 0;
    if (sp_new(&p->nodes, (MOST_DIGITS + 1) * 4 * (size_t)p->divisor, sizeof *p->nodes, err) ||
        sp_new(&p->reached, (MOST_DIGITS + 1) * (size_t)p->divisor, sizeof *p->reached, err))
        goto done;
    find_remainders(p, most + p->n_fraction);
    for (p->n_whole = least; p->n_whole <= most && !err->status; p->n_whole++) {
        unsigned bounds = (unsigned)(low->is_set && p->n_whole == low->n_whole) |
                          (unsigned)(high->is_set && p->n_whole == high->n_whole) << 1;
        choice = sp_grammar_either(p->g, choice, all_digits(p, bounds));
    }
done:
    free(p->nodes);
    free(p->reached);
    p->nodes = NULL;
    p->reached = NULL;
    return choice;
}

/* ---- the value ---- */

static bool is_empty(const struct range *r)
{
    if (!r->has_min || !r->has_max || r->min < r->max) return false;
    return r->min > r->max || r->min_exclusive || r->max_exclusive;
}

static uint32_t from_zero(struct span *p, const struct range *r)
{
    struct bound low = {0}, high = {0};

    if (r->has_max && (r->max < 0 || (!(r->max > 0) && r->max_exclusive))) return SP_GRAMMAR_NEVER;
    if (r->has_min && r->min >= 0) {
        (void)read_digits(&low, r->min);
        low.exclusive = r->min_exclusive;
    }
    if (r->has_max) (void)read_digits(&high, r->max);
    high.exclusive = r->max_exclusive;
    return unsigned_range(p, &low, &high, &p->g->err);
}

/* Negative numbers. Zero has no sign. */
static uint32_t below_zero(struct span *p, const struct range *r, bool whole)
{
    struct bound low = {0}, high = {0};
    bool negative_max = r->has_max && r->max < 0;

    if (r->has_min && r->min >= 0) return SP_GRAMMAR_NEVER;
    (void)read_digits(&low, negative_max ? r->max : whole ? 1 : 0);
    low.exclusive = negative_max ? r->max_exclusive : !whole;
    if (r->has_min) (void)read_digits(&high, r->min);
    high.exclusive = r->min_exclusive;
    return sp_grammar_text(p->g, "-", 1, unsigned_range(p, &low, &high, &p->g->err));
}

/* Reads `multipleOf`, digits without the zeros at their end. */
static void read_multiple(struct sp_schema *s, const struct sp_schema_view *v, struct span *p,
                          bool whole)
{
    enum { MOST = 4000, MOST_PRIME = 64 }; /* MOST_PRIME: without its factors 2 and 5 */
    const struct sp_json *value;
    size_t i = 0, n = MOST_DIGITS;
    const struct sp_schema_part *part = sp_schema_next(s, v, "multipleOf", &i, &value);
    struct bound b = {0};
    uint32_t divisor = 0, prime;
    double x = 0;

    p->divisor = 1;
    p->n_fraction = whole ? 0 : SP_JSON_FRACTION_DIGITS;
    if (part == NULL) return;
    if (!sp_json_to_double(value, &x) || !(x > 0))
        sp_schema_fail(s, part, "multipleOf", SP_E_INPUT, "expected a number above 0");
    while (read_digits(&b, x) && n > b.n_whole && b.digits[n - 1] == '0')
        n--;
    for (size_t k = 0; k < n && b.is_set && divisor <= MOST; k++)
        divisor = divisor * 10 + (uint32_t)(b.digits[k] - '0');
    for (prime = divisor; prime && (prime % 2 == 0 || prime % 5 == 0);)
        prime /= prime % 2 ? 5 : 2;
    if (prime > 0 && prime <= MOST_PRIME && divisor <= MOST &&
        !sp_schema_next(s, v, "multipleOf", &i, &value)) {
        p->divisor = divisor;
        p->n_fraction = whole ? 0 : n - b.n_whole;
        p->shift = whole ? n - b.n_whole : 0;
    } else if (!s->relaxed) {
        sp_schema_fail(s, part, "multipleOf", SP_E_UNSUPPORTED,
                       "only one divisor of few digits is supported");
    }
}

uint32_t sp_schema_number(struct sp_schema *s, const struct sp_schema_view *v, bool whole,
                          uint32_t next)
{
    struct span p = {.g = s->g, .next = next};
    struct range r = {0};
    uint32_t choice;

    read_bound(s, v, "minimum", 1, &r.has_min, &r.min_exclusive, &r.min, &r.has_large);
    read_bound(s, v, "exclusiveMinimum", 1, &r.has_min, &r.min_exclusive, &r.min, &r.has_large);
    read_bound(s, v, "maximum", -1, &r.has_max, &r.max_exclusive, &r.max, &r.has_large);
    read_bound(s, v, "exclusiveMaximum", -1, &r.has_max, &r.max_exclusive, &r.max, &r.has_large);
    read_multiple(s, v, &p, whole);
    if (!r.has_min && !r.has_max && !r.has_large && p.divisor == 1 &&
        p.n_fraction == (whole ? 0 : SP_JSON_FRACTION_DIGITS))
        return sp_json_number(&s->json, whole, next);
    if (whole) {
        make_whole(r.has_min, &r.min_exclusive, &r.min, ceil, 1);
        make_whole(r.has_max, &r.max_exclusive, &r.max, floor, -1);
    }
    if (is_empty(&r) || s->g->err.status) return SP_GRAMMAR_NEVER;
    choice = from_zero(&p, &r);
    if (r.has_min && r.min >= 0) return choice;
    return sp_grammar_either(s->g, choice, below_zero(&p, &r, whole));
}
