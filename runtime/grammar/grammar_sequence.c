#include "runtime/grammar/grammar_sequence.h"
#include "runtime/grammar/grammar_chars.h"

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
    n = sp_char_ranges_normalize(sorted, n);
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
    if (element->kind != SP_GRAMMAR_ELEMENT_RULE) {
        rule = sp_grammar_rule(p->g, NULL, 0);
        sp_grammar_define(p->g, rule, once(p, element, SP_GRAMMAR_END));
    }
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
