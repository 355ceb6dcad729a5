/* Sets of characters, as ranges of code points, in a grammar of bytes. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_CHARS_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_CHARS_H

#include "runtime/grammar/grammar.h"

struct sp_char_range {
    uint32_t first, last; /* code points */
};

/* Matches one character of ranges in any order; surrogates and those above U+10FFFF are ignored. */
uint32_t sp_grammar_chars(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                          uint32_t next);

/* Sorts ranges, merges those that overlap or touch, and returns how many are left. */
size_t sp_char_ranges_normalize(struct sp_char_range *ranges, size_t n);

/* Writes the complement of n sorted, disjoint ranges to out[0..n]; returns its number of ranges. */
size_t sp_char_ranges_negate(struct sp_char_range *out, const struct sp_char_range *ranges,
                             size_t n);

#endif
