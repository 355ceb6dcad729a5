/* The index of sparse attention: which keys the rows of a pass attend to. */
#ifndef SP_RUNTIME_MODEL_KEY_INDEX_H
#define SP_RUNTIME_MODEL_KEY_INDEX_H

#include "runtime/backend/kv.h"

struct sp_pool;
struct sp_acts;      /* quantize/kernels/kernels.h */
struct sp_decoder;   /* runtime/model/decoder_internal.h */
struct sp_workspace; /* runtime/model/workspace.h */

struct sp_key_index_scratch {
    float *q, *k, *weights; /* [max_rows][ld_q], [max_rows][ld_k], [max_rows][ld_weights] */
    size_t ld_q, ld_k, ld_weights;
    float *pool_key;    /* [head_dim] */
    float *angles;      /* [head_dim] cosines and sines of a pool */
    uint8_t *queries;   /* [n_heads] of one row, prepared */
    float *head_scores; /* [threads][n_heads][SP_SPAN] */
    size_t n_choices;   /* of a row: one, or one for each head of the index (blocks) */
    float *scores;      /* [n_choices][ld_scores] of one row, in whole spans */
    size_t ld_scores;
    size_t n_chosen;  /* the most keys that a row attends to without a choice, or by one */
    uint32_t *chosen; /* [max_rows][n_choices][n_chosen] ascending, of rows that see more */
};

/* The type of caches whose numbers are read one by one, or choose keys: they are never coded, which
 * would choose other keys. */
static inline enum sp_cache_type sp_uncoded_type(enum sp_cache_type type)
{
    return type == SP_CACHE_F32 ? SP_CACHE_F32 : SP_CACHE_F16;
}

/* Tokens of a cache that become one row. Their numbers are their keys, and the gates their values
 * (keyed), or the values begin with the numbers and end with the gates. A token has `width` of
 * both, of which the last tokens, `rate` of them, use the last `dim`, and those before them the
 * first. */
struct sp_token_pool {
    const struct sp_kv *from;
    bool keyed;
    const float *bias; /* [rate][width] of the gates; NULL: all gates are 0 */
    size_t first, n;   /* tokens */
    size_t rate, width, dim;
};

/* out[dim] = the mean of the tokens' numbers, weighed by the softmax of their gates. */
void sp_pool_tokens(float *out, const struct sp_token_pool *pool);

/* Allocates ws->key_index for decoders with caches of this type; leaves it NULL if the model has no
 * index. Memory that lacks is noticed when the workspace's arena is checked. */
SP_MUST_CHECK enum sp_status sp_key_index_open(struct sp_workspace *ws,
                                               enum sp_cache_type cache_type, struct sp_err *err);

/* Opens a cache of index keys. */
SP_MUST_CHECK enum sp_status
sp_key_index_open_cache(struct sp_kv *cache, const struct sp_decoder *d, struct sp_err *err);

/* Stores the index keys of the pass's n rows of ws->hidden and chooses the keys of each row, by the
 * latents of its queries, which a norm of the index's own input overwrites; NULL: by ws->hidden. */
void sp_key_index_choose(struct sp_workspace *ws, unsigned layer, struct sp_acts *latents,
                         size_t n);

/* The top_k best of the n > top_k keys in `cache`, ascending, by the queries and weights of row t
 * that were made in ws->key_index. Valid until the next pass. */
const uint32_t *sp_key_index_rank(struct sp_workspace *ws, const struct sp_kv *cache, size_t t,
                                  size_t n);

/* Keys and values that are copied to positions 0..n-1 of a cache: n_from positions of one cache,
 * and behind them those from `first` on of another. */
struct sp_gathering {
    struct sp_kv *to;
    const struct sp_kv *from, *rest; /* rest: unused if n is n_from */
    const uint32_t *chosen; /* [n_choices][ld] positions in `from`, one list for all heads or one
                               for as many heads each; NULL: the first ones */
    size_t n_choices, ld;
    size_t n_from, first, n;
};
void sp_gather_keys(struct sp_gathering *gathering, struct sp_pool *pool);

/* Copies the keys and values that were chosen for row t of the pass from `kv`, to the first
 * positions of ws->gathered; returns their number. */
size_t sp_key_index_gather(struct sp_workspace *ws, const struct sp_kv *kv, size_t t);

#endif
