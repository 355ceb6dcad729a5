/* One round of an answer by several drafters: the grammar of the answer (jump-forward decoding),
 * the n-gram lookup in the text so far, and the file's draft model.
 *
 * Each has a draft length controller of its own. The grammar and the n-gram lookup cost nothing, so
 * they are asked first, in this order; a proposal of theirs is verified if it promises more tokens
 * a second than the draft model has brought so far, an n-gram's if it promises half as much again.
 * With a given draft length they are verified
 * wherever they propose anything, and the draft model proposes elsewhere. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_MIX_H
#define SP_RUNTIME_SPECULATE_DRAFT_MIX_H

#include "runtime/speculate/speculate.h"

/* The controllers of a session. Looking up costs and accepts otherwise in every text, so what is
 * learned of it stays with the session; all sessions of a package draft with one model. */
struct sp_draft_mix {
    struct sp_drafting_controller ngram_controller, grammar_controller;
    struct sp_draft_length draft, ngram, grammar_draft;
    bool ngram_if_automatic; /* no lookup with a given draft length */
};

/* The drafter whose tokens were verified. */
enum sp_proposed_by { SP_PROPOSED_BY_DRAFT, SP_PROPOSED_BY_NGRAM, SP_PROPOSED_BY_GRAMMAR };

/* `drafting`: of the draft model; must outlive *mix, which must stay where it is. */
void sp_draft_mix_init(struct sp_draft_mix *mix, struct sp_drafting_controller *drafting,
                       bool ngram_if_automatic);

/* Runs one round. most: the greatest number of draft tokens, 0 for a plain step; automatic: the
 * controllers choose how many of these to draft and to verify. *by: the drafter whose tokens were
 * verified, SP_PROPOSED_BY_DRAFT if there were none. Fills *round. */
SP_MUST_CHECK enum sp_status sp_draft_mix_round(struct sp_draft_mix *mix,
                                                struct sp_speculator *speculator, size_t most,
                                                bool automatic, const struct sp_chooser *chooser,
                                                sp_emit_fn *emit, void *context,
                                                struct sp_round *round, enum sp_proposed_by *by,
                                                struct sp_err *err);

#endif
