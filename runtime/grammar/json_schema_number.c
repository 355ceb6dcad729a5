/* Numbers between bounds, digit by digit.
 *
 * A number is compared with a bound as it is written: while its digits equal those of the bound,
 * the next digit may not be smaller (or larger); once they differ, every digit is allowed. So a
 * node is determined by the number of digits so far, and by whether they equal those of the lower
 * and of the upper bound, and by the remainder for `multipleOf`. Negative numbers are mirrored.
 * Numbers with bounds or a divisor have no exponent. */
#include "runtime/grammar/grammar_sequence.h"
#include "runtime/grammar/json_schema.h"
#include "format/json/json_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = SP_JSON_WHOLE_DIGITS + SP_JSON_FRACTION_DIGITS, MOST_EXPONENT = 1 << 20 };

/* A bound: its sign, the digits of the whole part without leading zeros ("0" for 0), then the
 * fraction, padded with zeros. */
struct bound {
    bool is_set, exclusive, negative;
    char digits[MOST_DIGITS + 1];
    size_t n_whole;
};

/* The bounds of a view. */
struct range {
    struct bound min, max;
    bool has_large; /* a bound that only a number with an exponent could exceed */
};

struct span {
    struct sp_grammar *g;
    const struct bound *low, *high;
    size_t n_whole, n_fraction; /* digits before and after the point of the numbers being built */
    uint32_t next;
    /* A number is a multiple of `multipleOf` if the integer of all its digits, times 10^shift, is
     * one of `divisor`. Its remainder after some digits is that with zeros for the digits that are
     * left. */
    uint32_t divisor;
    size_t shift, n_left;
    /* Nodes by how many digits are left, whether those so far equal the bounds' (bit 0: low, bit 1:
     * high), and the remainder. Those without bounds do not depend on n_whole. */
    uint32_t *nodes; /* [MOST_DIGITS + 1][4][divisor] owned */
    bool *reached;   /* [MOST_DIGITS + 1][divisor] the remainders of some digits; owned */
};

/* ---- reading bounds ---- */

enum fit { FITS, TOO_LARGE, TOO_PRECISE };

/* Reads the text of a JSON number. Of one that does not fit only the sign is read. */
static enum fit read_digits(struct bound *b, const char *text)
{
    char kept[MOST_DIGITS]; /* the digits from the first on that is not 0 */
    long point = 0;         /* how many of the digits stand before the point */
    size_t n = 0;
    bool fraction = false, precise = false;

    *b = (struct bound){.is_set = true, .negative = *text == '-', .n_whole = 1};
    for (text += b->negative; *text == '.' || (*text >= '0' && *text <= '9'); text++) {
        if (*text == '.') {
            fraction = true;
            continue;
        }
        if (n == 0 && *text == '0') {
            point -= fraction;
            continue;
        }
        point += !fraction;
        if (n < MOST_DIGITS)
            kept[n++] = *text;
        else
            precise = precise || *text != '0';
    }
    memset(b->digits, '0', MOST_DIGITS);
    while (n > 0 && kept[n - 1] == '0')
        n--;
    if (n == 0) b->negative = false;
    if (n == 0) return FITS;
    if (*text) {
        long exponent = strtol(text + 1, NULL, 10);
        point += exponent < -MOST_EXPONENT  ? -MOST_EXPONENT
                 : exponent > MOST_EXPONENT ? MOST_EXPONENT
                                            : exponent;
    }
    if (point > SP_JSON_WHOLE_DIGITS) return TOO_LARGE;
    if (precise || (long)n - point > SP_JSON_FRACTION_DIGITS) return TOO_PRECISE;
    if (point > 0) b->n_whole = (size_t)point;
    memcpy(b->digits + (point > 0 ? 0 : 1 - point), kept, n);
    return FITS;
}

static enum fit read_number(struct sp_schema *s, struct bound *b, const struct sp_json *value)
{
    char *text = NULL;
    enum fit fit = TOO_LARGE;

    if (sp_json_print(&text, value, &s->g->err) == SP_OK) fit = read_digits(b, text);
    free(text);
    return fit;
}

/* Compares two bounds as strcmp does. */
static int compare(const struct bound *a, const struct bound *b)
{
    int order = memcmp(a->digits, b->digits, MOST_DIGITS);

    if (a->n_whole != b->n_whole) order = a->n_whole < b->n_whole ? -1 : 1;
    if (a->negative != b->negative) order = 1;
    return a->negative ? -order : order;
}

/* Reads the closest bound of all parts; sign: 1 for minima, -1 for maxima. */
static void read_bound(struct sp_schema *s, const struct sp_schema_view *v, const char *key,
                       int sign, struct bound *bound, bool *has_large)
{
    const struct sp_json *value;
    const struct sp_schema_part *part;
    double x;

    for (size_t i = 0; (part = sp_schema_next(s, v, key, &i, &value));) {
        struct bound b = {0};
        enum fit fit;
        int order = 1;
        if (!sp_json_to_double(value, &x) || isnan(x)) {
            sp_schema_fail(s, part, key, SP_E_INPUT, "expected a number");
            return;
        }
        fit = read_number(s, &b, value);
        b.exclusive = key[0] == 'e';
        if (bound->is_set) order = sign * compare(&b, bound);
        if (fit == TOO_LARGE && b.negative == (sign > 0)) {
            *has_large = true;
        } else if (fit != FITS) {
            sp_schema_fail(s, part, key, SP_E_UNSUPPORTED,
                           "expected a number below 1e16 with at most 15 digits after the point");
        } else if (order > 0 || (order == 0 && b.exclusive)) {
            *bound = b;
        }
    }
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

static uint32_t from_zero(struct span *p, const struct range *r)
{
    static const struct bound none = {0};
    const struct bound *max = &r->max;

    if (max->negative || (max->is_set && max->exclusive && is_zero_from(max, 0)))
        return SP_GRAMMAR_NEVER;
    return unsigned_range(p, r->min.negative ? &none : &r->min, max, &p->g->err);
}

/* Negative numbers. Zero has no sign. */
static uint32_t below_zero(struct span *p, const struct range *r, bool whole)
{
    struct bound low = r->max;

    if (r->min.is_set && !r->min.negative) return SP_GRAMMAR_NEVER;
    if (!low.negative) (void)read_digits(&low, whole ? "1" : "0");
    if (!r->max.negative) low.exclusive = !whole;
    return sp_grammar_text(p->g, "-", 1, unsigned_range(p, &low, &r->min, &p->g->err));
}

/* Reads `multipleOf`, digits without the zeros at their end. */
static void read_multiple(struct sp_schema *s, const struct sp_schema_view *v, struct span *p,
                          bool whole)
{
    enum { MOST = 4000, MOST_PRIME = 64 }; /* MOST_PRIME: without its factors 2 and 5 */
    const struct sp_json *value;
    size_t i = 0, n = MOST_DIGITS;
    const struct sp_schema_part *part = sp_schema_next(s, v, "multipleOf", &i, &value);
    struct bound b;
    enum fit fit;
    uint32_t divisor = 0, prime;
    double x = 0;

    p->divisor = 1;
    p->n_fraction = whole ? 0 : SP_JSON_FRACTION_DIGITS;
    if (part == NULL) return;
    if (!sp_json_to_double(value, &x) || !(x > 0))
        sp_schema_fail(s, part, "multipleOf", SP_E_INPUT, "expected a number above 0");
    fit = read_number(s, &b, value);
    while (fit == FITS && n > b.n_whole && b.digits[n - 1] == '0')
        n--;
    for (size_t k = 0; k < n && fit == FITS && divisor <= MOST; k++)
        divisor = divisor * 10 + (uint32_t)(b.digits[k] - '0');
    for (prime = divisor; prime && (prime % 2 == 0 || prime % 5 == 0);)
        prime /= prime % 2 ? 5 : 2;
    if (prime > 0 && prime <= MOST_PRIME && divisor <= MOST &&
        !sp_schema_next(s, v, "multipleOf", &i, &value)) {
        p->divisor = divisor;
        p->n_fraction = whole ? 0 : n - b.n_whole;
        p->shift = whole ? n - b.n_whole : 0;
    } else {
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

    read_bound(s, v, "minimum", 1, &r.min, &r.has_large);
    read_bound(s, v, "exclusiveMinimum", 1, &r.min, &r.has_large);
    read_bound(s, v, "maximum", -1, &r.max, &r.has_large);
    read_bound(s, v, "exclusiveMaximum", -1, &r.max, &r.has_large);
    read_multiple(s, v, &p, whole);
    if (!r.min.is_set && !r.max.is_set && !r.has_large && p.divisor == 1 &&
        p.n_fraction == (whole ? 0 : SP_JSON_FRACTION_DIGITS))
        return sp_json_number(&s->json, whole, next);
    if (s->g->err.status) return SP_GRAMMAR_NEVER;
    choice = from_zero(&p, &r);
    return sp_grammar_either(s->g, choice, below_zero(&p, &r, whole));
}
