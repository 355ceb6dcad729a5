/* A sequence of grammar elements, for front ends whose notation is a text (GBNF, regular
 * expressions): they read from left to right, but the graph is built from right to left. A front
 * end appends elements as it reads them and joins them at the end of the sequence. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_SEQUENCE_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_SEQUENCE_H

#include "format/base/strbuf.h"
#include "runtime/grammar/grammar.h"
#include "runtime/grammar/grammar_chars.h"

enum sp_grammar_element_kind {
    SP_GRAMMAR_ELEMENT_CHARS,
    SP_GRAMMAR_ELEMENT_TEXT,
    SP_GRAMMAR_ELEMENT_RULE
};

struct sp_grammar_element {
    enum sp_grammar_element_kind kind;
    size_t first, n; /* the element's ranges, or the bytes of its text */
    uint32_t rule;
    uint32_t min, max; /* number of repetitions */
};

/* Makes nodes of a set of characters: sp_grammar_chars, or a function that escapes some of them. */
typedef uint32_t sp_spell_fn(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                             uint32_t next);

/* A stack of sequences: one that begins inside another is joined before it. Valid when zeroed,
 * except for `g` and `spell`. */
struct sp_grammar_sequence {
    struct sp_grammar *g; /* borrowed; records failures */
    sp_spell_fn *spell;
    struct sp_grammar_element *at; /* [n] owned */
    size_t n, cap;
    struct sp_char_range *ranges; /* owned */
    size_t n_ranges, cap_ranges;
    struct sp_strbuf text;
};
void sp_grammar_sequence_release(struct sp_grammar_sequence *sequence);

/* Append an element that is matched once. `negated`: the characters outside the ranges. */
void sp_grammar_sequence_add_chars(struct sp_grammar_sequence *sequence,
                                   const struct sp_char_range *ranges, size_t n, bool negated);
void sp_grammar_sequence_add_text(struct sp_grammar_sequence *sequence, const char *text,
                                  size_t len);
void sp_grammar_sequence_add_rule(struct sp_grammar_sequence *sequence, uint32_t rule);

/* Sets the repetitions of the last element. */
void sp_grammar_sequence_repeat(struct sp_grammar_sequence *sequence, uint32_t min, uint32_t max);

/* Removes the elements from `first` on; returns the node where they begin, followed by `next`. */
uint32_t sp_grammar_sequence_join(struct sp_grammar_sequence *sequence, size_t first,
                                  uint32_t next);

#endif
