/* Compiles grammars and reads texts by them. Failures end the test. */
#ifndef SP_TESTS_SUPPORT_GRAMMAR_CHECKS_H
#define SP_TESTS_SUPPORT_GRAMMAR_CHECKS_H

#include "runtime/grammar/grammar_matcher.h"

/* Return the grammar of a text in GBNF, or of a JSON schema, and a matcher; kept (keep.h). */
struct sp_grammar *keep_gbnf(const char *text);
struct sp_grammar *keep_schema(const char *text);
struct sp_grammar_matcher *keep_matcher(const struct sp_grammar *g);

/* Whether the whole text is one of the grammar. */
bool matcher_allows(struct sp_grammar_matcher *matcher, const char *text, size_t size);
bool grammar_allows(const struct sp_grammar *g, const char *text);

#endif
