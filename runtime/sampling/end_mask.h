/* A chooser that chooses no end token before an answer has its least number of tokens: `min_tokens`
 * of a request. It masks the logits of draft and target alike. */
#ifndef SP_RUNTIME_SAMPLING_END_MASK_H
#define SP_RUNTIME_SAMPLING_END_MASK_H

#include "runtime/sampling/chooser.h"
#include "runtime/vector/vector.h"

struct sp_end_mask {
    struct sp_chooser inner; /* chooses from the masked logits */
    const struct sp_vector *vector;
    const uint32_t *ends[2]; /* [n_ends[i]] end tokens; borrowed */
    size_t n_ends[2];
    size_t first; /* the first position that may have one */
    float *row;   /* [n_vocab rounded up to 16] owned by the caller */
};

/* `mask` is borrowed by the chooser. */
struct sp_chooser sp_end_mask_chooser(struct sp_end_mask *mask);

#endif
