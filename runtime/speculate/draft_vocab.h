/* The vocabulary of a draft whose head scores a subset of the target's tokens: row i is token i +
 * d2t[i]. Choosers know a single vocabulary: the largest logit gets the target's id, and the row is
 * spread over the target's ids for those that read it; tokens without a row are never drafted. */
#ifndef SP_RUNTIME_SPECULATE_DRAFT_VOCAB_H
#define SP_RUNTIME_SPECULATE_DRAFT_VOCAB_H

#include "runtime/backend/logits.h"
#include "runtime/model/model.h"

struct sp_draft_vocab {
    uint32_t *tokens; /* [head rows] ids of the target, ascending; NULL: row i is token i */
    float *scores;    /* [n_vocab] logits by the target's ids, SP_NEVER for tokens without a row */
    size_t n_vocab;
    struct sp_logits scored; /* over the head's rows, the last ones */
};

/* Opens the vocabulary of a draft that passed sp_draft_vocab_check, in
 * `memory`. */
SP_MUST_CHECK enum sp_status sp_draft_vocab_init(struct sp_draft_vocab *map,
                                                 struct sp_arena *memory,
                                                 const struct sp_model *draft, size_t n_vocab,
                                                 struct sp_err *err);

/* Checks that each row of the draft's head is one of the target's n_vocab tokens. */
SP_MUST_CHECK enum sp_status sp_draft_vocab_check(const struct sp_model *draft, size_t n_vocab,
                                                  struct sp_err *err);

/* The model whose head a shortlist may stand for (struct sp_decoder_options): `head`, or NULL if
 * the rows of the draft's head are not the target's tokens. */
const struct sp_model *sp_draft_vocab_shortlist(const struct sp_model *draft,
                                                const struct sp_model *head);

/* The logits in the order of the target's ids, valid until the next call and as long as those of
 * the head's rows; equal logits keep their order. Probabilities are those of the head's rows. */
struct sp_logits sp_draft_vocab_spread(struct sp_draft_vocab *map, struct sp_logits logits);

#endif
