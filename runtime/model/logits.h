/* One position's row of logits, on its way from a forward pass to a chooser. */
#ifndef SP_RUNTIME_MODEL_LOGITS_H
#define SP_RUNTIME_MODEL_LOGITS_H

#include "runtime/vector/vector.h"

struct sp_logits {
    const float *row; /* [n], borrowed */
    size_t n;
    size_t best; /* index of the largest, the lowest index of equal ones; SIZE_MAX: an element is
                    not finite */
};

/* The logit of a token that a draft cannot propose. It is finite, since non-finite logits are
 * errors. */
#define SP_NEVER (-1e30f)

static inline struct sp_logits sp_logits_of(const struct sp_vector *vector, const float *row,
                                            size_t n)
{
    return (struct sp_logits){row, n, vector->argmax(row, n)};
}

#endif
