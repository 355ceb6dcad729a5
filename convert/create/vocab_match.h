/* Matches the vocabulary of a small language model with that of its target.
 *
 * A draft speaks to its target in ids. Entries that the tokenizer can produce must have equal ids
 * on both sides. Added tokens, and entries that no merge produces, may have other ids or be
 * missing: the rows of the draft are then put into the order of the target. */
#ifndef SP_CONVERT_CREATE_VOCAB_MATCH_H
#define SP_CONVERT_CREATE_VOCAB_MATCH_H

#include "format/tokenizer/vocab.h"

/* rows[id] is the row of the draft for the target's token `id`: a permutation of 0..n-1. */
struct sp_vocab_order {
    uint32_t *rows;   /* [n], owned; NULL: every row keeps its place */
    size_t n;         /* rows of the draft's tables */
    size_t n_matched; /* tokens that have another id in the draft */
    size_t n_unknown; /* ids whose token the draft does not have in any place */
};

/* Compares tokens. *out is owned by the caller (free rows). n_rows is the number of rows in the
 * draft's tables. SP_E_INPUT names the first id whose tokens differ and that cannot be moved. */
SP_MUST_CHECK enum sp_status sp_vocab_match(struct sp_vocab_order *out,
                                            const struct sp_vocab *target,
                                            const struct sp_vocab *draft, size_t n_rows,
                                            struct sp_err *err);

/* A token's text for messages, shortened to a readable length; not NUL-terminated. */
struct sp_shown_token {
    int len;
    const char *text;
};
struct sp_shown_token sp_vocab_show(const struct sp_vocab *vocab, uint32_t id);

#endif
