/* One position's row of logits, on its way from a forward pass to a chooser. */
#ifndef SP_RUNTIME_MODEL_LOGITS_H
#define SP_RUNTIME_MODEL_LOGITS_H

#include "runtime/vector/vector.h"

/* What the reader of a pass needs of its rows of logits. */
enum sp_logits_need {
    SP_LOGITS_ROWS, /* all elements */
    SP_LOGITS_BEST  /* the largest element; other ranks keep their parts of the rows */
};

struct sp_logits {
    const float *row; /* [n], borrowed; NULL: sp_logits_row completes it */
    size_t n;
    size_t best; /* index of the largest, the lowest index of equal ones; SIZE_MAX: an element is
                    not finite */
    /* Receives the parts of a row that other ranks keep; NULL: `row` is set. */
    const float *(*complete)(void *source, size_t at);
    void *source; /* borrowed */
    size_t at;    /* the number of the row for `source` */
};

/* The row [n], valid as long as the logits. It is undefined if a rank is lost, which
 * sp_decoder_check reports. */
static inline const float *sp_logits_row(const struct sp_logits *logits)
{
    return logits->row ? logits->row : logits->complete(logits->source, logits->at);
}

/* The logit of a token that a draft cannot propose. It is finite, since non-finite logits are
 * errors. */
#define SP_NEVER (-1e30f)

static inline struct sp_logits sp_logits_of(const struct sp_vector *vector, const float *row,
                                            size_t n)
{
    return (struct sp_logits){.row = row, .n = n, .best = vector->argmax(row, n)};
}

#endif
