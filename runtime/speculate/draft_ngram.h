/* N-gram drafting without a model: draft tokens are what followed the last tokens where these
 * stood in the text before (prompt lookup decoding, Saxena 2023). It works well for an answer that
 * repeats its question, an edited file or a list of similar lines, and a search costs nothing
 * compared with a pass.
 *
 * Every token of the committed text and every pair of neighbors is indexed under a hash, in a
 * chain from the newest place to the oldest. A search walks the chain of the last two tokens and
 * takes the place that matches the end of the text for longest, the newest of equals. The longer
 * the match, the higher the confidence. If no two tokens match, the draft token is what last
 * followed the last token: it is seldom right, but one more row of a pass costs little. Such a
 * token is only proposed where the draft length is chosen by what pays, not where it is given. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_NGRAM_H
#define SP_RUNTIME_SPECULATE_DRAFT_NGRAM_H

#include "runtime/speculate/drafter.h"

/* The longest proposal: with the anchor it fills a pass of 16 rows; more rows are not cheaper. */
enum { SP_DRAFT_NGRAM_MAX = 15 };

#define SP_LOOKUP_NAME "lookup"

/* n_positions: the session's context. The drafter belongs to no file: its operations
 * check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_ngram_open(struct sp_drafter **out, size_t n_positions,
                                                 struct sp_err *err);

#endif
