/* Pre-tokenization: cuts a normalized text into the pieces that the model encodes separately. */
#ifndef SP_RUNTIME_TOKENIZER_PRETOKEN_H
#define SP_RUNTIME_TOKENIZER_PRETOKEN_H

#include "format/tokenizer/rewrite.h"

/* Receives the pieces in order. A piece is valid UTF-8, not empty, and borrowed during the call. */
typedef enum sp_status sp_piece_fn(void *context, const char *piece, size_t len,
                                   struct sp_err *err);

struct sp_pretoken {
    const struct sp_rewrite *steps; /* [n], borrowed */
    size_t n;
    struct sp_regex_matcher *matcher;      /* borrowed */
    size_t *budget;                        /* remaining work of rewriting steps; borrowed */
    struct sp_strbuf spaces[SP_MAX_STEPS]; /* [i] output of step i; owned, zero at first */
    sp_piece_fn *piece;
    void *context;
};

/* Applies all steps to `text`; at_start: it is at the very start of the input. */
SP_MUST_CHECK enum sp_status sp_pretoken_run(struct sp_pretoken *p, const char *text, size_t len,
                                             bool at_start, struct sp_err *err);
void sp_pretoken_release(struct sp_pretoken *p); /* releases the outputs of the steps */

#endif
