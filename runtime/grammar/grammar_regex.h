/* Regular expressions as JSON Schema defines them (ECMA-262), in a grammar.
 *
 * Supported: characters, `.`, classes with ranges and negation, \d \w \s \D \W \S, \t \n \r \f \v
 * \0 \xHH \uHHHH \u{H...}, escaped punctuation, groups (capturing or not), |, * + ? {m} {m,}
 * {m,n}, lazy or not, and ^ and $ at the ends of the pattern or of one of its alternatives.
 * Refused by name: constructs that are not regular or look around (back references, \b,
 * assertions), and \p{...}. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_REGEX_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_REGEX_H

#include "runtime/grammar/grammar_sequence.h"

/* Returns the node that matches the pattern, followed by `next`. Without ^ and $ the match may
 * stand anywhere in the text. `spell` makes nodes of characters. Failures are recorded in the
 * grammar: SP_E_UNSUPPORTED or SP_E_INPUT. */
uint32_t sp_grammar_regex(struct sp_grammar *g, const char *pattern, size_t len, sp_spell_fn *spell,
                          uint32_t next);

#endif
