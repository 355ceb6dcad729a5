/* Attention of query rows over stored keys.
 *
 * A row attends to positions first..last-1. The keys are walked in spans of SP_SPAN positions,
 * aligned to multiples of SP_SPAN: each span gives (max, sum, weighted values) on its own, and the
 * spans are merged in ascending order:  m' = max(m, ms); acc = acc * e^(m-m') + acc_s * e^(ms-m');
 * and the sum likewise. The result therefore depends on the row, its positions and the cache alone,
 * and any thread may compute any span and head. */
#ifndef SP_RUNTIME_BACKEND_ATTENTION_H
#define SP_RUNTIME_BACKEND_ATTENTION_H

#include "format/base/mem.h"
#include "format/base/pool.h"
#include "runtime/backend/kv.h"

struct sp_key_range {
    size_t first, last; /* first <= last; positions first..last-1, all stored */
};

/* What is added to a score by the distance of its key, d < extent: the sum of the profiles at d,
 * weighed by what the query mixes. */
struct sp_relative_bias {
    const float *mix; /* [n_rows][ld]: [dim] of each query head; NULL: nothing is added */
    size_t ld, dim, extent;
    const float *profiles; /* [dim][extent], from the largest distance to 0 */
};

struct sp_attention {
    const struct sp_kv *kv;
    unsigned n_heads; /* query heads; a multiple of kv->n_heads; head h reads kv head h / group */
    float scale;      /* multiplies q.k */
    float cap;        /* soft cap after scaling; 0: none */
    /* [n_heads] of a row, ld_sinks from one to the next, or NULL: a logit that joins the softmax
     * and carries no value. */
    const float *sinks;
    size_t ld_sinks; /* 0: all rows have the same */
    /* [n_heads] or NULL: subtracted from a score for each position between its key and the row */
    const float *slopes;
    /* The product of slope and key's position, rounded to bfloat16, is added to q.k instead. */
    bool slopes_rounded;
    struct sp_relative_bias relative;
    const float *q;     /* [n_rows][ldq] */
    size_t ldq, q_step; /* q_step: from one head of a row to the next; 0: heads are contiguous */
    float *out;         /* [n_rows][ld_out] */
    size_t ld_out,
        out_step; /* out_step: from one head of a row to the next; 0: heads are contiguous */
    size_t n_rows;
    const struct sp_key_range *ranges; /* [n_rows] */
};

/* Scratch for up to max_rows rows, contexts of up to n_positions, and n_threads threads, in memory
 * of an arena; NULL if it has none. */
struct sp_attention_scratch;
struct sp_attention_scratch *sp_attention_scratch_new(struct sp_arena *memory, unsigned n_threads,
                                                      unsigned max_heads, unsigned max_head_dim,
                                                      size_t max_rows, size_t n_positions);

void sp_attend(const struct sp_attention *job, const struct sp_vector *vector, struct sp_pool *pool,
               struct sp_attention_scratch *scratch);

#endif
