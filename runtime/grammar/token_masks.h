/* The tokens of the vocabulary that a grammar allows in a state of its matcher: one walk over the
 * trie of all tokens, whose result is cached. */
#ifndef SP_RUNTIME_GRAMMAR_TOKEN_MASKS_H
#define SP_RUNTIME_GRAMMAR_TOKEN_MASKS_H

#include "runtime/grammar/constraint.h"

struct sp_token_masks; /* opaque */

/* The options and the matcher are borrowed until close. */
SP_MUST_CHECK enum sp_status sp_token_masks_open(struct sp_token_masks **out,
                                                 const struct sp_constraint_options *options,
                                                 struct sp_grammar_matcher *matcher,
                                                 struct sp_err *err);
void sp_token_masks_close(struct sp_token_masks *masks); /* NULL is fine */

/* Finds the mask of a state; *out is borrowed until the next call. drop: a token may lose its
 * leading space, as at the beginning of a text. SP_E_INPUT: the walk takes too much work. */
SP_MUST_CHECK enum sp_status sp_token_masks_find(struct sp_token_masks *masks,
                                                 const struct sp_token_mask **out, uint32_t state,
                                                 bool drop, struct sp_err *err);

/* SP_E_INPUT if the current probe of the matcher has taken more work than allowed. */
SP_MUST_CHECK enum sp_status sp_token_masks_check_work(const struct sp_token_masks *masks,
                                                       struct sp_err *err);

/* Drops all masks; call it when the matcher forgets its states. */
void sp_token_masks_forget(struct sp_token_masks *masks);

#endif
