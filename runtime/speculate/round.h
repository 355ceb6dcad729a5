/* One round of an answer, whoever guesses in it: nobody, the file's draft, a lookup in the text so
 * far, the answer's grammar, or of these the one that promises more.
 *
 * Each has a depth controller of its own. What costs nothing goes first, the grammar before the
 * lookup, and is verified if it promises more tokens a second than the draft has brought so far. A
 * depth that is given is kept: the grammar or the lookup makes as many guesses as were asked for
 * wherever it finds enough, and else the draft does. */
#ifndef SP_RUNTIME_SPECULATE_ROUND_H
#define SP_RUNTIME_SPECULATE_ROUND_H

#include "runtime/speculate/draft_grammar.h"
#include "runtime/speculate/speculate.h"

/* What earlier rounds taught about cost and acceptance. */
struct sp_draft_mix {
    struct sp_draft_length draft, ngram, grammar_draft;
};

/* Whose guesses were verified. */
enum sp_proposed_by { SP_PROPOSED_BY_DRAFT, SP_PROPOSED_BY_NGRAM, SP_PROPOSED_BY_GRAMMAR };

void sp_draft_mix_init(struct sp_draft_mix *mix, const struct sp_speculator *speculator);

/* most: guesses of the round at most, 0: a plain step. automatic: as many of these as pay. *by:
 * whose the guesses verified were, the draft's where there were none. */
SP_MUST_CHECK enum sp_status sp_draft_mix_round(struct sp_draft_mix *mix,
                                                struct sp_speculator *speculator, size_t most,
                                                bool automatic, const struct sp_chooser *chooser,
                                                sp_emit_fn *emit, void *context,
                                                struct sp_round *round, enum sp_proposed_by *by,
                                                struct sp_err *err);

#endif
