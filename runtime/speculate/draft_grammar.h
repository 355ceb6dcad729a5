/* Jump-forward decoding as a drafter: text that the grammar leaves no choice about, such as the
 * name of the next property, spelled in the tokens that the tokenizer would give it.
 *
 * Where a grammar only leaves a choice of whitespace, as JSON does, the answer's own style
 * decides: what came after a comma is expected after the next one. The text is certain but for
 * whitespace, its tokens are not: a model may spell it otherwise, and its last token may reach
 * beyond the certain text. So they are verified as draft tokens like any others. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_GRAMMAR_H
#define SP_RUNTIME_SPECULATE_DRAFT_GRAMMAR_H

#include "runtime/grammar/constraint.h"
#include "runtime/speculate/drafter.h"

/* The longest proposal: with the anchor it fills a pass of 16 rows. */
enum { SP_DRAFT_GRAMMAR_MAX = 15 };

/* Opens a drafter for one answer; constraint and tokenizer are borrowed. It belongs to no file:
 * its operations check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_grammar_open(struct sp_drafter **out,
                                                   struct sp_constraint *constraint,
                                                   const struct sp_tokenizer *tokenizer,
                                                   struct sp_err *err);

#endif
