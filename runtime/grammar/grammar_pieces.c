#include "runtime/grammar/grammar_pieces.h"
#include "runtime/grammar/grammar_chars.h"

#include <stdlib.h>
#include <string.h>

void sp_grammar_pieces_release(struct sp_grammar_pieces *p)
{
    free(p->at);
    free(p->ranges);
    sp_strbuf_release(&p->text);
}

static void add(struct sp_grammar_pieces *p, struct sp_grammar_piece piece)
{
    if (p->g->err.status) return;
    if (sp_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at, &p->g->err)) return;
    piece.min = piece.max = 1;
    p->at[p->n++] = piece;
}

void sp_grammar_pieces_add_chars(struct sp_grammar_pieces *p, const struct sp_char_range *ranges,
                                 size_t n, bool negated)
{
    size_t first = p->n_ranges, cap = p->cap_ranges;
    struct sp_char_range *sorted;

    if (p->g->err.status) return;
    /* Room to sort them, and for what is between them. */
    if (sp_grow(&p->ranges, &cap, first + 2 * n + 1, sizeof *p->ranges, &p->g->err)) return;
    p->cap_ranges = cap;
    sorted = p->ranges + first + (negated ? n + 1 : 0);
    if (n) memcpy(sorted, ranges, n * sizeof *ranges);
    n = sp_char_ranges_settle(sorted, n);
    if (negated) n = sp_char_ranges_negate(p->ranges + first, sorted, n);
    p->n_ranges += n;
    add(p, (struct sp_grammar_piece){.kind = SP_GRAMMAR_PIECE_CHARS, .first = first, .n = n});
}

void sp_grammar_pieces_add_text(struct sp_grammar_pieces *p, const char *text, size_t len)
{
    size_t first = p->text.len;

    if (p->g->err.status || sp_strbuf_append(&p->text, text, len, &p->g->err)) return;
    add(p, (struct sp_grammar_piece){.kind = SP_GRAMMAR_PIECE_TEXT, .first = first, .n = len});
}

void sp_grammar_pieces_add_rule(struct sp_grammar_pieces *p, uint32_t rule)
{
    add(p, (struct sp_grammar_piece){.kind = SP_GRAMMAR_PIECE_RULE, .rule = rule});
}

void sp_grammar_pieces_repeat(struct sp_grammar_pieces *p, uint32_t min, uint32_t max)
{
    if (p->g->err.status) return;
    p->at[p->n - 1].min = min;
    p->at[p->n - 1].max = max;
}

static uint32_t once(struct sp_grammar_pieces *p, const struct sp_grammar_piece *piece,
                     uint32_t next)
{
    switch (piece->kind) {
    case SP_GRAMMAR_PIECE_CHARS:
        return p->spell(p->g, p->ranges + piece->first, piece->n, next);
    case SP_GRAMMAR_PIECE_TEXT:
        return sp_grammar_text(p->g, p->text.at + piece->first, piece->n, next);
    case SP_GRAMMAR_PIECE_RULE:
    default:
        return sp_grammar_call(p->g, piece->rule, 1, 1, next);
    }
}

/* Loops and options need no rule, and walk faster without one. */
static uint32_t several(struct sp_grammar_pieces *p, const struct sp_grammar_piece *piece,
                        uint32_t next)
{
    uint32_t rule = piece->rule;

    if (piece->max == 0) return next;
    if (piece->max == 1) {
        uint32_t one = once(p, piece, next);
        return piece->min ? one : sp_grammar_either(p->g, one, next);
    }
    if (piece->max == SP_NO_LIMIT && piece->min <= 1) {
        uint32_t fork = sp_grammar_fork(p->g), one = once(p, piece, fork);
        sp_grammar_join(p->g, fork, one, next);
        return piece->min ? one : fork;
    }
    if (piece->kind != SP_GRAMMAR_PIECE_RULE) {
        rule = sp_grammar_rule(p->g, NULL, 0);
        sp_grammar_define(p->g, rule, once(p, piece, SP_GRAMMAR_END));
    }
    return sp_grammar_call(p->g, rule, piece->min, piece->max, next);
}

uint32_t sp_grammar_pieces_join(struct sp_grammar_pieces *p, size_t first, uint32_t next)
{
    if (p->g->err.status) return SP_GRAMMAR_NEVER;
    while (p->n > first) {
        const struct sp_grammar_piece *piece = &p->at[--p->n];
        next = several(p, piece, next);
        if (piece->kind == SP_GRAMMAR_PIECE_CHARS) p->n_ranges = piece->first;
        if (piece->kind == SP_GRAMMAR_PIECE_TEXT) p->text.len = piece->first;
    }
    return next;
}
