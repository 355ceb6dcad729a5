/* Cutting a normalized text into the pieces that the model sees, one by one. */
#ifndef SP_RUNTIME_TOKENIZER_PRETOKEN_H
#define SP_RUNTIME_TOKENIZER_PRETOKEN_H

#include "format/tokenizer/rewrite.h"

/* Told each piece in order; it is valid UTF-8, not empty, and borrowed during the call. */
typedef enum sp_status sp_piece_fn(void *context, const char *piece, size_t len,
                                   struct sp_err *err);

struct sp_pretoken {
    const struct sp_rewrite *steps; /* [n], borrowed */
    size_t n;
    struct sp_regex_matcher *matcher;      /* borrowed */
    size_t *budget;                        /* of rewriting; borrowed */
    struct sp_strbuf spaces[SP_MAX_STEPS]; /* where step i writes; owned, zero at first */
    sp_piece_fn *piece;
    void *context;
};

/* Applies all steps to `text`; at_start: it stands at the very start of the input. */
SP_MUST_CHECK enum sp_status sp_pretoken_run(struct sp_pretoken *p, const char *text, size_t len,
                                             bool at_start, struct sp_err *err);
void sp_pretoken_release(struct sp_pretoken *p); /* the spaces */

#endif
