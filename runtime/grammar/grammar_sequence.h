/* A sequence of grammar elements, for front ends whose notation is a text (GBNF, regular
 * expressions): they read from left to right, but the graph is built from right to left. A front
 * end appends elements as it reads them and joins them at the end of the sequence. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_SEQUENCE_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_SEQUENCE_H

#include "format/base/strbuf.h"
#include "runtime/grammar/grammar.h"

/* ---- sets of characters as ranges of code points ---- */

struct sp_char_range {
    uint32_t first, last; /* code points */
};

/* Matches one character of ranges in any order; surrogates and those above U+10FFFF are ignored. */
uint32_t sp_grammar_chars(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                          uint32_t next);

/* Writes the complement of n sorted, disjoint ranges to out[0..n]; returns its number of ranges. */
size_t sp_char_ranges_negate(struct sp_char_range *out, const struct sp_char_range *ranges,
                             size_t n);

/* ---- sequences ---- */

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

/* ---- patterns (grammar_regex.c) ----
 *
 * Regular expressions as JSON Schema defines them (ECMA-262), in a grammar.
 *
 * Supported: characters, `.`, classes with ranges and negation, \d \w \s \D \W \S, \t \n \r \f \v
 * \0 \xHH \uHHHH \u{H...}, escaped punctuation, groups (capturing or not), |, * + ? {m} {m,}
 * {m,n}, lazy or not, and ^ and $ at the ends of the pattern or of one of its alternatives.
 * Refused by name: constructs that are not regular or look around (back references, \b,
 * assertions), and \p{...}. */

/* Returns the node that matches the pattern, followed by `next`. Without ^ and $ the match may
 * stand anywhere in the text. `spell` makes nodes of characters. Failures are recorded in the
 * grammar: SP_E_UNSUPPORTED or SP_E_INPUT. */
uint32_t sp_grammar_regex(struct sp_grammar *g, const char *pattern, size_t len, sp_spell_fn *spell,
                          uint32_t next);

#endif
