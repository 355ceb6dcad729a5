/* One position's row of logits, on its way from a forward pass to a chooser. */
#ifndef SP_RUNTIME_BACKEND_LOGITS_H
#define SP_RUNTIME_BACKEND_LOGITS_H

#include "runtime/vector/vector.h"

#include <string.h>

/* What the reader of a pass needs of its rows of logits, from the most to the least. With the last
 * two, other processes keep their parts of the rows. */
enum sp_logits_need {
    SP_LOGITS_WHOLE,       /* all elements, also where a draft has a shortlist */
    SP_LOGITS_ROWS,        /* all elements */
    SP_LOGITS_PROBABILITY, /* the largest element and its softmax probability */
    SP_LOGITS_BEST         /* the largest element */
};

/* The largest element m of a block of SP_LOGITS_BLOCK elements, and the sum of e^(x - m) over them:
 * the softmax of a row is computed from its blocks in order, whichever process summed them. */
struct sp_logits_sum {
    float max, sum;
};
enum { SP_LOGITS_BLOCK = 1024 };

/* Blocks of n elements. */
static inline size_t sp_logits_blocks(size_t n)
{
    return (n + SP_LOGITS_BLOCK - 1) / SP_LOGITS_BLOCK;
}

/* Of x[n], n <= SP_LOGITS_BLOCK. The kernel overwrites its input, so the block is copied. */
static inline struct sp_logits_sum sp_logits_sum_of(const struct sp_vector *vector, const float *x,
                                                    size_t n)
{
    _Alignas(64) float block[SP_LOGITS_BLOCK];
    struct sp_logits_sum s;

    memcpy(block, x, n * sizeof *block);
    vector->softmax(block, 0, n, &s.max, &s.sum);
    return s;
}

struct sp_logits {
    const float *row; /* [n], borrowed; NULL: sp_logits_row completes it */
    size_t n;
    size_t best; /* index of the largest, the lowest index of equal ones; SIZE_MAX: an element is
                    not finite */
    float max;   /* the largest element; set with `sums` */
    /* [sp_logits_blocks(n)], borrowed; NULL: they are computed from the row. */
    const struct sp_logits_sum *sums;
    /* The logits of a draft's head that scores a part of the vocabulary, from which the row and its
     * probabilities are made; borrowed; NULL: the head scored this row. */
    const struct sp_logits *scored;
    /* Receives the parts of a row that other processes keep; NULL: `row` is set. */
    const float *(*complete)(void *source, size_t at);
    void *source; /* borrowed */
    size_t at;    /* the number of the row for `source` */
};

/* The row [n], valid as long as the logits. It is undefined if a process is lost, which
 * sp_decoder_check reports. */
static inline const float *sp_logits_row(const struct sp_logits *logits)
{
    return logits->row ? logits->row : logits->complete(logits->source, logits->at);
}

/* The logit of a token that a draft cannot propose: finite, since non-finite logits are errors. */
#define SP_NEVER (-1e30f)

static inline struct sp_logits sp_logits_of(const struct sp_vector *vector, const float *row,
                                            size_t n)
{
    return (struct sp_logits){.row = row, .n = n, .best = vector->argmax(row, n)};
}

/* The largest logits of a row, the best first: a list that is also sent between processes. */
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
