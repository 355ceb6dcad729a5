/* Constrains an answer to a grammar: computes for every token of the vocabulary whether the text
 * so far, followed by that token, can still become a text of the grammar, and excludes all other
 * tokens.
 *
 * The allowed tokens are a function of the answer's tokens alone. The caller's logits are not
 * changed: the wrapped chooser receives a copy in which excluded tokens are SP_NEVER, before any
 * sampling transform. Draft and target are constrained alike, so draft tokens obey the grammar,
 * and a round of speculation emits what plain steps would emit.
 *
 * Tokens that end an answer are allowed where the text is complete, special tokens where the
 * grammar names them. */
#ifndef SP_RUNTIME_GRAMMAR_CONSTRAINT_H
#define SP_RUNTIME_GRAMMAR_CONSTRAINT_H

#include "runtime/grammar/grammar_matcher.h"
#include "runtime/sampling/chooser.h"
#include "runtime/tokenizer/token_trie.h"

struct sp_constraint;

/* Pointers are borrowed until sp_constraint_close unless stated otherwise. */
struct sp_constraint_options {
    const struct sp_grammar *grammar;
    const struct sp_token_trie *trie;
    const struct sp_vector *vector;
    size_t n_vocab;       /* entries of a row of logits */
    size_t start;         /* position of the answer's first token */
    const uint32_t *ends; /* [n_ends] tokens that end an answer; copied */
    size_t n_ends;
    struct sp_chooser inner; /* chooses among the allowed tokens */
    bool takes_best;         /* `inner` chooses the largest logit if that token is allowed */
    size_t memory;           /* most bytes of matcher states; 0: 256 MiB */
    uint64_t work; /* most sp_grammar_matcher_work of one mask; 0: 2^23, less than a second */
};

SP_MUST_CHECK enum sp_status sp_constraint_open(struct sp_constraint **out,
                                                const struct sp_constraint_options *options,
                                                struct sp_err *err);
void sp_constraint_close(struct sp_constraint *constraint); /* NULL is fine */

/* The tokens that are allowed somewhere: bit i of bits[] is set if token i is; n are; `only` is one
 * of them. */
struct sp_token_mask {
    const uint64_t *bits; /* [(n_vocab + 63) / 64], borrowed */
    size_t n;
    uint32_t only;
};

/* The chooser of one sequence. It fails with SP_E_INPUT where the grammar allows no token of the
 * vocabulary, and where matcher states would take too much memory or work. Failures depend on
 * neither earlier calls nor time, so drafting adds none. */
struct sp_chooser sp_constraint_chooser(struct sp_constraint *constraint);

/* The mask of the tokens allowed at position `pos`, after ids[0..pos-1]; borrowed until the next
 * call. mask->bits is NULL after text that the grammar does not allow and after an end token. */
SP_MUST_CHECK enum sp_status sp_constraint_mask(struct sp_constraint *constraint,
                                                struct sp_token_mask *mask, const uint32_t *ids,
                                                size_t pos, struct sp_err *err);

/* The position of the answer's first token. */
size_t sp_constraint_start(const struct sp_constraint *constraint);

/* The bytes of a token inside a text, *len of them; borrowed. */
const char *sp_constraint_spelling(const struct sp_constraint *constraint, uint32_t id,
                                   size_t *len);

/* The id of the grammar's own token with index `number`. */
uint32_t sp_constraint_token(const struct sp_constraint *constraint, size_t number);

/* Computes the bytes that follow at position `pos` whatever the model chooses. Where whitespace is
 * optional, the result is predicted from the answer's own style. text[0 ..
 * from-1], from >= 1, are the last bytes of the answer; the new bytes are written to text[from ..
 * *len-1], *len <= cap. The grammar's own tokens appear in the encoding of sp_grammar_token. */
SP_MUST_CHECK enum sp_status sp_constraint_jump_forward(struct sp_constraint *constraint,
                                                        char *text, size_t from, size_t cap,
                                                        size_t *len, const uint32_t *ids,
                                                        size_t pos, struct sp_err *err);

#endif
