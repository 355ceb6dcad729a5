/* Holds an answer to a grammar: says of every token of the vocabulary whether the text so far, with
 * it, can still become a text of the grammar, and leaves the others out of the choice.
 *
 * Which tokens are left is a function of the answer's tokens alone. The logits stay what they are:
 * a chooser is handed a copy in which tokens that are left out are SP_NEVER, before everything that
 * sampling does. Draft and target are treated alike, so a draft guesses within the grammar, and a
 * round brings what plain steps would.
 *
 * The tokens that end an answer are possible where the text is complete, special tokens where the
 * grammar names them. */
#ifndef SP_RUNTIME_GRAMMAR_CONSTRAINT_H
#define SP_RUNTIME_GRAMMAR_CONSTRAINT_H

#include "runtime/grammar/grammar_matcher.h"
#include "runtime/sampling/chooser.h"
#include "runtime/grammar/token_masks.h"

struct sp_constraint;

/* All borrowed but for the numbers. */
struct sp_constraint_options {
    const struct sp_grammar *grammar;
    const struct sp_token_trie *trie;
    const struct sp_vector *vector;
    size_t n_vocab;       /* entries of a logit row */
    size_t start;         /* position of the answer's first token */
    const uint32_t *ends; /* [n_ends] tokens that end an answer; copied */
    size_t n_ends;
    struct sp_chooser inner; /* who chooses from what is left */
    bool takes_best;         /* ... the largest logit, if that is left */
    size_t memory;           /* bytes that the grammar's states may take; 0: the usual 256 MiB */
    uint64_t work; /* sp_grammar_matcher_work that weighing all tokens may take once; 0: the usual
                    * 2^23, less than a second */
};

SP_MUST_CHECK enum sp_status sp_constraint_open(struct sp_constraint **out,
                                                const struct sp_constraint_options *options,
                                                struct sp_err *err);
void sp_constraint_close(struct sp_constraint *constraint); /* NULL is fine */

/* Chooses for one sequence. SP_E_INPUT where no token of the vocabulary goes on, and where states
 * would take too much memory or work: none of it depends on what was asked before or on time, so
 * drafting adds no failure. */
struct sp_chooser sp_constraint_chooser(struct sp_constraint *constraint);

/* Which tokens may stand at position `pos`, behind ids[0..pos-1]; borrowed until the next call.
 * Behind what the grammar does not allow, and behind an end: bits NULL. */
SP_MUST_CHECK enum sp_status sp_constraint_mask(struct sp_constraint *constraint,
                                                struct sp_token_mask *mask, const uint32_t *ids,
                                                size_t pos, struct sp_err *err);

/* Position of the answer's first token; the bytes of a token inside a text, [*len]; the token that
 * the grammar has under a number. */
size_t sp_constraint_start(const struct sp_constraint *constraint);
const char *sp_constraint_spelling(const struct sp_constraint *constraint, uint32_t id,
                                   size_t *len);
uint32_t sp_constraint_token(const struct sp_constraint *constraint, size_t number);

/* The bytes that come at position `pos` whatever the model chooses; where blanks may come or not,
 * it is guessed to do as it did the last time behind the same byte. text[from - 1], and what is
 * before it, are bytes of the answer; what comes goes to text[from .. *len - 1], up to text[cap -
 * 1]. Tokens of the grammar's own are among them as it spells them. */
SP_MUST_CHECK enum sp_status sp_constraint_jump_forward(struct sp_constraint *constraint,
                                                        char *text, size_t from, size_t cap,
                                                        size_t *len, const uint32_t *ids,
                                                        size_t pos, struct sp_err *err);

#endif
