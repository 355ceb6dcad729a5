/* The largest logits of a row, the best first: a list that is also sent between ranks. */
#ifndef SP_RUNTIME_BACKEND_TOP_LOGITS_H
#define SP_RUNTIME_BACKEND_TOP_LOGITS_H

#include <stddef.h>
#include <stdint.h>

struct sp_top_logit {
    uint32_t index; /* in the row; equal logits are ordered by it */
    float logit;
};

/* Adds the elements of a part of the row, part[n], which begins at index `first`, behind those in
 * the list: it has `room`, and indexes below `first`. Returns the new number. */
size_t sp_top_logits_add(struct sp_top_logit *top, size_t n_top, size_t room, const float *part,
                         size_t n, size_t first);

/* The same with the largest elements of a part, best first, by their indexes in the part. */
size_t sp_top_logits_merge(struct sp_top_logit *top, size_t n_top, size_t room,
                           const struct sp_top_logit *part, size_t n, size_t first);

#endif
