#include "runtime/grammar/grammar_sequence.h"
#include "runtime/grammar/grammar.h"
#include "format/base/unicode.h"

#include <stdlib.h>
#include <string.h>

void sp_grammar_sequence_release(struct sp_grammar_sequence *p)
{
    free(p->at);
    free(p->ranges);
    sp_strbuf_release(&p->text);
}

static void add(struct sp_grammar_sequence *p, struct sp_grammar_element element)
{
    if (p->g->err.status) return;
    if (sp_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at, &p->g->err)) return;
    element.min = element.max = 1;
    p->at[p->n++] = element;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct sp_char_range *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts ranges, merges those that overlap or touch, and returns how many are left. */
static size_t normalize(struct sp_char_range *ranges, size_t n)
{
    size_t kept = 0;

    if (n == 0) return 0;
    qsort(ranges, n, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < n; i++)
        if (ranges[kept].last != UINT32_MAX && ranges[i].first > ranges[kept].last + 1)
            ranges[++kept] = ranges[i];
        else if (ranges[i].last > ranges[kept].last)
            ranges[kept].last = ranges[i].last;
    return kept + 1;
}

void sp_grammar_sequence_add_chars(struct sp_grammar_sequence *p,
                                   const struct sp_char_range *ranges, size_t n, bool negated)
{
    size_t first = p->n_ranges, cap = p->cap_ranges;
    struct sp_char_range *sorted;

    if (p->g->err.status) return;
    /* Space to sort the ranges, and for their complement. */
    if (sp_grow(&p->ranges, &cap, first + 2 * n + 1, sizeof *p->ranges, &p->g->err)) return;
    p->cap_ranges = cap;
    sorted = p->ranges + first + (negated ? n + 1 : 0);
    if (n) memcpy(sorted, ranges, n * sizeof *ranges);
    n = normalize(sorted, n);
    if (negated) n = sp_char_ranges_negate(p->ranges + first, sorted, n);
    p->n_ranges += n;
    add(p, (struct sp_grammar_element){.kind = SP_GRAMMAR_ELEMENT_CHARS, .first = first, .n = n});
}

void sp_grammar_sequence_add_text(struct sp_grammar_sequence *p, const char *text, size_t len)
{
    size_t first = p->text.len;

    if (p->g->err.status || sp_strbuf_append(&p->text, text, len, &p->g->err)) return;
    add(p, (struct sp_grammar_element){.kind = SP_GRAMMAR_ELEMENT_TEXT, .first = first, .n = len});
}

void sp_grammar_sequence_add_rule(struct sp_grammar_sequence *p, uint32_t rule)
{
    add(p, (struct sp_grammar_element){.kind = SP_GRAMMAR_ELEMENT_RULE, .rule = rule});
}

void sp_grammar_sequence_repeat(struct sp_grammar_sequence *p, uint32_t min, uint32_t max)
{
    if (p->g->err.status) return;
    p->at[p->n - 1].min = min;
    p->at[p->n - 1].max = max;
}

static uint32_t once(struct sp_grammar_sequence *p, const struct sp_grammar_element *element,
                     uint32_t next)
{
    switch (element->kind) {
    case SP_GRAMMAR_ELEMENT_CHARS:
        return p->spell(p->g, p->ranges + element->first, element->n, next);
    case SP_GRAMMAR_ELEMENT_TEXT:
        return sp_grammar_text(p->g, p->text.at + element->first, element->n, next);
    case SP_GRAMMAR_ELEMENT_RULE:
    default:
        return sp_grammar_call(p->g, element->rule, 1, 1, next);
    }
}

/* Repeats an element. Options and loops need no rule, and match faster without one. */
static uint32_t several(struct sp_grammar_sequence *p, const struct sp_grammar_element *element,
                        uint32_t next)
{
    uint32_t rule = element->rule;

    if (element->max == 0) return next;
    if (element->max == 1) {
        uint32_t one = once(p, element, next);
        return element->min ? one : sp_grammar_either(p->g, one, next);
    }
    if (element->max == SP_NO_LIMIT && element->min <= 1) {
        uint32_t fork = sp_grammar_fork(p->g), one = once(p, element, fork);
        sp_grammar_join(p->g, fork, one, next);
        return element->min ? one : fork;
    }
    if (element->kind != SP_GRAMMAR_ELEMENT_RULE)
        rule = sp_grammar_group(p->g, once(p, element, SP_GRAMMAR_END));
    return sp_grammar_call(p->g, rule, element->min, element->max, next);
}

uint32_t sp_grammar_sequence_join(struct sp_grammar_sequence *p, size_t first, uint32_t next)
{
    if (p->g->err.status) return SP_GRAMMAR_NEVER;
    while (p->n > first) {
        const struct sp_grammar_element *element = &p->at[--p->n];
        next = several(p, element, next);
        if (element->kind == SP_GRAMMAR_ELEMENT_CHARS) p->n_ranges = element->first;
        if (element->kind == SP_GRAMMAR_ELEMENT_TEXT) p->text.len = element->first;
    }
    return next;
}

/* ---- sets of characters ----
 *
 * Ranges of code points become a few sequences of byte ranges (Thompson's construction for UTF-8,
 * as in RE2), which share their last nodes. */

enum { MOST_CHAR = 0x10FFFF, FIRST_SURROGATE = 0xD800, LAST_SURROGATE = 0xDFFF };

size_t sp_char_ranges_negate(struct sp_char_range *out, const struct sp_char_range *ranges,
                             size_t n)
{
    uint32_t from = 0;
    size_t made = 0;

    for (size_t i = 0; i < n && from <= MOST_CHAR; i++) {
        if (ranges[i].first > from) out[made++] = (struct sp_char_range){from, ranges[i].first - 1};
        from = ranges[i].last < MOST_CHAR ? ranges[i].last + 1 : MOST_CHAR + 1;
    }
    if (from <= MOST_CHAR) out[made++] = (struct sp_char_range){from, MOST_CHAR};
    return made;
}

/* A set of characters that is being turned into nodes. It is cut into blocks: code points of
 * equally many bytes, each byte of which runs from its own first to its own last value
 * independently of the others. */
struct chars {
    struct sp_grammar *g;
    uint32_t next, way;
    uint32_t tail[SP_UTF8_MAX]; /* node that reads 1.. continuation bytes, then next; 0: not made */
    struct sp_byte_set ascii;
};

static void add_bytes(struct sp_byte_set *set, unsigned first, unsigned last)
{
    for (unsigned byte = first; byte <= last; byte++)
        set->bits[byte / 64] |= (uint64_t)1 << byte % 64;
}

static uint32_t byte_range(struct sp_grammar *g, unsigned first, unsigned last, uint32_t next)
{
    struct sp_byte_set set = {0};

    add_bytes(&set, first, last);
    return sp_grammar_bytes(g, &set, next);
}

static void add_block(struct chars *c, uint32_t first, uint32_t last)
{
    char from[SP_UTF8_MAX], to[SP_UTF8_MAX];
    size_t n = sp_utf8_put(from, first);
    uint32_t at = c->next;
    bool whole = true;

    sp_utf8_put(to, last);
    if (n == 1) {
        add_bytes(&c->ascii, first, last);
        return;
    }
    for (size_t i = n; i-- > 0;) {
        unsigned a = (unsigned char)from[i], b = (unsigned char)to[i];
        whole = whole && i > 0 && a == 0x80 && b == 0xBF;
        if (!whole) {
            at = byte_range(c->g, a, b, at);
        } else {
            uint32_t *tail = &c->tail[n - 1 - i];
            if (*tail == 0) *tail = byte_range(c->g, a, b, at);
            at = *tail;
        }
    }
    c->way = sp_grammar_either(c->g, c->way, at);
}

/* Where to cut first..last: the last code point of the first part; `last` if it is a block. */
static uint32_t find_cut(uint32_t first, uint32_t last)
{
    static const uint32_t longest[] = {0x7F, 0x7FF, 0xFFFF};

    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++)
        if (first <= longest[i] && longest[i] < last) return longest[i];
    if (last <= longest[0]) return last;
    for (unsigned bits = 6; bits <= 18; bits += 6) {
        uint32_t mask = ((uint32_t)1 << bits) - 1;
        if ((first & ~mask) == (last & ~mask)) continue;
        if (first & mask) return first | mask;
        if ((last & mask) != mask) return (last & ~mask) - 1;
    }
    return last;
}

static void add_range(struct chars *c, uint32_t first, uint32_t last)
{
    while (first <= last) {
        uint32_t to = last, cut;
        while ((cut = find_cut(first, to)) != to)
            to = cut;
        add_block(c, first, to);
        first = to + 1;
    }
}

uint32_t sp_grammar_chars(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                          uint32_t next)
{
    struct chars c = {.g = g, .next = next, .way = SP_GRAMMAR_NEVER};
    bool any = false;

    for (size_t i = 0; i < n && !g->err.status; i++) {
        uint32_t first = ranges[i].first, last = ranges[i].last;
        if (last > MOST_CHAR) last = MOST_CHAR;
        if (first <= LAST_SURROGATE && last >= FIRST_SURROGATE) {
            if (first < FIRST_SURROGATE) add_range(&c, first, FIRST_SURROGATE - 1);
            first = LAST_SURROGATE + 1;
        }
        add_range(&c, first, last);
    }
    for (size_t i = 0; i < 4; i++)
        any = any || c.ascii.bits[i] != 0;
    return any ? sp_grammar_either(g, sp_grammar_bytes(g, &c.ascii, next), c.way) : c.way;
}
