/* Sets of characters in a grammar of bytes: ranges of code points, spelled in UTF-8. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_CHARS_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_CHARS_H

#include "runtime/grammar/grammar.h"

struct sp_char_range {
    uint32_t first, last; /* code points */
};

/* One character out of ranges, in any order; surrogates and what is beyond U+10FFFF are none. */
uint32_t sp_grammar_chars(struct sp_grammar *g, const struct sp_char_range *ranges, size_t n,
                          uint32_t next);

/* Sorts ranges, joins what touches, and returns how many are left. */
size_t sp_char_ranges_settle(struct sp_char_range *ranges, size_t n);

/* *out = all characters but those of n settled ranges; room for n + 1. Returns how many. */
size_t sp_char_ranges_negate(struct sp_char_range *out, const struct sp_char_range *ranges,
                             size_t n);

#endif
