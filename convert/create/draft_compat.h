/* Checks that a draft can serve a target.
 *
 * A draft never changes the text that the target writes, but an unsuitable draft proposes useless
 * tokens or reads outside its tables. The check runs before anything is written. It compares
 * vocabularies, tokenizers (by content), widths and taps, and it reads configs and tokenizers but
 * no weights. */
#ifndef SP_CONVERT_CREATE_DRAFT_COMPAT_H
#define SP_CONVERT_CREATE_DRAFT_COMPAT_H

#include "format/config/config.h"

/* rows[id] is the row of the draft for the target's token `id`: a permutation of 0..n-1. */
struct sp_vocab_order {
    uint32_t *rows;   /* [n], owned; NULL: every row keeps its place */
    size_t n;         /* rows of the draft's tables */
    size_t n_matched; /* tokens that have another id in the draft */
    size_t n_unknown; /* ids whose token the draft does not have in any place */
};

/* One side of the comparison, target or draft. All pointers are borrowed. */
struct sp_draft_compat_side {
    const struct sp_config *config; /* settled (sp_config_settle) */
    const char *tokenizer; /* tokenizer.json; NULL: there is none, or both are known to match */
    size_t tokenizer_size;
    const char *tokenizer_config; /* tokenizer_config.json; NULL: there is none */
    size_t tokenizer_config_size;
};

/* *order: where the rows of a language model have to be put, owned by the caller even on failure
 * (free rows). SP_E_INPUT names what does not fit. What fits but is worth knowing is appended to
 * *warnings, one sentence a line (sp_warn). same_source: both were read from the same source. */
SP_MUST_CHECK enum sp_status sp_draft_compat_check(struct sp_vocab_order *order,
                                                   const struct sp_draft_compat_side *target,
                                                   const struct sp_draft_compat_side *draft,
                                                   bool same_source, char **warnings,
                                                   struct sp_err *err);

#endif
