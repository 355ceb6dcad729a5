/* Removes from a grammar the ways that no text leads to an end on, so that every prefix that the
 * matcher allows can be completed. */
#ifndef SP_RUNTIME_GRAMMAR_GRAMMAR_PRUNE_H
#define SP_RUNTIME_GRAMMAR_GRAMMAR_PRUNE_H

#include "runtime/grammar/grammar.h"

/* *root becomes SP_GRAMMAR_NEVER if the grammar has no text; *endless = then the first named rule
 * that has none, NULL if none has a name. */
SP_MUST_CHECK enum sp_status sp_grammar_prune(struct sp_grammar *g, uint32_t *root,
                                              const char **endless, struct sp_err *err);

#endif
