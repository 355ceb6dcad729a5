/* Guesses that a grammar makes: text that has to come, such as the name of the next property,
 * spelled in the tokens that the tokenizer would give it.
 *
 * Where a grammar leaves a choice of blanks alone, as JSON does, the answer's own habit decides:
 * what came behind a comma is guessed to come behind the next. The text is certain but for blanks,
 * its tokens are not: a model may spell it otherwise, and its last token may reach into what is not
 * forced any more. So these are guesses like any others. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_GRAMMAR_H
#define SP_RUNTIME_SPECULATE_DRAFT_GRAMMAR_H

#include "runtime/grammar/constraint.h"
#include "runtime/speculate/drafter.h"

/* Most guesses of a proposal: with the token before them they fill a pass of 16 rows. */
enum { SP_DRAFT_GRAMMAR_MAX = 15 };

/* For one answer, whose constraint is borrowed, as is the tokenizer. The drafter belongs to no
 * file: of its ops max_draft_len, taps, check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_grammar_open(struct sp_drafter **out,
                                                   struct sp_constraint *constraint,
                                                   const struct sp_tokenizer *tokenizer,
                                                   struct sp_err *err);

#endif
