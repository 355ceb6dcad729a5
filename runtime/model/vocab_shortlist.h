/* The tokens that a draft's head scores when its vocabulary is large: frequent ones, and those that
 * occurred lately. The head of a small draft is a third and more of the bytes that a step reads,
 * and most of its rows belong to tokens that hardly occur (FR-Spec, Zhao et al. 2025; shortlists of
 * machine translation, Jean et al. 2015). A token that is not scored cannot be drafted; the target
 * still writes it, so no text changes.
 *
 * Byte-pair vocabularies are numbered in the order of their merges, the most frequent first, so the
 * first 32768 tokens are the frequent ones. They are multiplied where they lie. Panels of 16 rows
 * with other tokens of the text are copied behind each other; the oldest makes way. A text with
 * many rare tokens, such as one in a script that the vocabulary represents poorly, is drafted with
 * the whole head. The choice depends on the tokens alone.
 *
 * [held by one thread at a time: sequences that share a workspace share a scheduler] */
#ifndef SP_RUNTIME_MODEL_VOCAB_SHORTLIST_H
#define SP_RUNTIME_MODEL_VOCAB_SHORTLIST_H

#include "runtime/backend/backend.h"

enum {
    SP_SHORTLIST_FREQUENT = 32768, /* tokens */
    SP_SHORTLIST_RECENT = 512,     /* panels of other tokens */
};

struct sp_vocab_shortlist; /* opaque */

/* Opens a shortlist of the rows of `head`, which is borrowed. *out is NULL, with SP_OK, if `head`
 * has fewer than twice as many rows as there are frequent tokens. SP_E_NOMEM. */
SP_MUST_CHECK enum sp_status sp_vocab_shortlist_open(struct sp_vocab_shortlist **out,
                                                     const struct sp_matrix *head,
                                                     struct sp_err *err);
void sp_vocab_shortlist_close(struct sp_vocab_shortlist *list); /* NULL is fine */

/* Learns the next tokens of a text. */
void sp_vocab_shortlist_add(struct sp_vocab_shortlist *list, const uint32_t *ids, size_t n);

/* products[0] is the product with the whole head. Replaces it by those with the listed rows and
 * returns their number; 0: the whole head is to be multiplied. They are valid until the next token
 * is added; their results lie in the rows of the whole product, without order until
 * sp_vocab_shortlist_spread. */
size_t sp_vocab_shortlist_products(const struct sp_vocab_shortlist *list,
                                   struct sp_product products[2]);

/* Brings a row of the last products into the order of the tokens: logits[rows of the head]. Tokens
 * that are not listed get SP_NEVER. Several threads may each bring a row into order. */
void sp_vocab_shortlist_spread(const struct sp_vocab_shortlist *list, float *logits);

#endif
