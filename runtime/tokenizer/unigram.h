/* The Unigram model of SentencePiece: of all ways to cut a piece into tokens, the one whose scores
 * (log probabilities) have the largest sum.
 *
 * Source: T. Kudo, "Subword Regularization", 2018, section 3.2; found by the Viterbi algorithm, in
 * time proportional to the piece and to the longest token. */
#ifndef SP_RUNTIME_TOKENIZER_UNIGRAM_H
#define SP_RUNTIME_TOKENIZER_UNIGRAM_H

#include "format/tokenizer/tokmap.h"
#include "runtime/tokenizer/id_list.h"

/* The buffer of one encoding, which later pieces use again. Valid when zeroed. */
struct sp_unigram {
    struct sp_unigram_node *nodes; /* owned */
    size_t cap;
};

void sp_unigram_release(struct sp_unigram *unigram);

/* Appends the ids of a piece of valid UTF-8. Adjacent characters that are not in the vocabulary
 * become one unknown token, or the tokens of their bytes if all of these exist. */
SP_MUST_CHECK enum sp_status sp_unigram_encode(struct sp_unigram *unigram,
                                               const struct sp_tokmap *map, const char *piece,
                                               size_t len, struct sp_id_list *ids,
                                               struct sp_err *err);

#endif
