/* Which tokens of the vocabulary a grammar allows in a state of its acceptor: one walk through the
 * trie of all tokens, whose outcome is kept. */
#ifndef SP_RUNTIME_GRAMMAR_TOKEN_MASKS_H
#define SP_RUNTIME_GRAMMAR_TOKEN_MASKS_H

#include "runtime/grammar/grammar_matcher.h"
#include "runtime/tokenizer/token_trie.h"

struct sp_token_masks; /* opaque */

/* Bit i of bits[] for token i; n of them; `only` is one of them. */
struct sp_token_mask {
    const uint64_t *bits; /* [(n_vocab + 63) / 64], borrowed */
    size_t n;
    uint32_t only;
};

/* All borrowed but for the numbers. */
struct sp_token_masks_options {
    struct sp_grammar_matcher *matcher;
    const struct sp_grammar *grammar; /* the acceptor's */
    const struct sp_token_trie *trie;
    size_t n_vocab;
    const uint32_t *ends; /* [n_ends] tokens that end an answer, where it may end */
    size_t n_ends;
    uint64_t work; /* sp_grammar_matcher_work that a walk may take */
};

SP_MUST_CHECK enum sp_status sp_token_masks_open(struct sp_token_masks **out,
                                                 const struct sp_token_masks_options *options,
                                                 struct sp_err *err);
void sp_token_masks_close(struct sp_token_masks *masks); /* NULL is fine */

/* *out: borrowed until the next call. drop: a token that begins with a blank may lose it, as at the
 * beginning of a text. SP_E_INPUT where the walk takes too much work. */
SP_MUST_CHECK enum sp_status sp_token_masks_find(struct sp_token_masks *masks,
                                                 const struct sp_token_mask **out, uint32_t state,
                                                 bool drop, struct sp_err *err);

/* SP_E_INPUT where the question in hand has taken too much work already. */
SP_MUST_CHECK enum sp_status sp_token_masks_check_work(const struct sp_token_masks *masks,
                                                       struct sp_err *err);

/* The acceptor forgets its states: nothing kept is of use any more. */
void sp_token_masks_forget(struct sp_token_masks *masks);

#endif
