/* Guesses without a model: what followed the last tokens when they stood in the text before (prompt
 * lookup decoding, Saxena 2023). An answer that repeats its question, a file under edit, a list of
 * like lines are guessed well, and a search costs nothing beside a pass.
 *
 * Every token of the committed text and every pair of neighbours is filed under a hash, in a chain
 * that leads from the newest to the oldest. A search walks the chain of the last two tokens and
 * takes the place that agrees with the text's end for longest, the newest of equals. The longer
 * that is, the surer is what follows it. Where no two tokens agree, what last followed the last one
 * is guessed: seldom right, but one more row of a pass costs little. Such guesses are made where
 * the depth is chosen by what pays, not where it is given. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_NGRAM_H
#define SP_RUNTIME_SPECULATE_DRAFT_NGRAM_H

#include "runtime/speculate/drafter.h"

/* Most guesses of a proposal: with the token before them they fill a pass of 16 rows, and more rows
 * would not be cheaper by the row. */
enum { SP_DRAFT_NGRAM_MAX = 15 };

#define SP_LOOKUP_NAME "lookup"

/* n_positions: context of the session. The drafter belongs to no file: of its ops max_draft_len,
 * taps, check, open and logits are NULL. */
SP_MUST_CHECK enum sp_status sp_draft_ngram_open(struct sp_drafter **out, size_t n_positions,
                                                 struct sp_err *err);

#endif
