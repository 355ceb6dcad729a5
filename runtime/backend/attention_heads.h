/* Biases, clamps, norms and rotations of the heads of queries, keys and values, between their
 * products and attention. Each head is prepared by itself, so a rank prepares the heads that it
 * stores, and a thread some of them. */
#ifndef SP_RUNTIME_BACKEND_ATTENTION_HEADS_H
#define SP_RUNTIME_BACKEND_ATTENTION_HEADS_H

#include "format/config/config.h"
#include "runtime/vector/vector.h"

struct sp_attention_heads {
    const struct sp_vector *vector; /* static */
    /* Biases of all heads, head 0 first; NULL: none, or the products added them. Borrowed. */
    const float *q_bias, *k_bias, *v_bias;
    enum sp_qk_norm norm;         /* SP_QK_WHOLE: done for whole rows, not for heads */
    const float *q_norm, *k_norm; /* [head_dim], or SP_QK_OWN: of all heads; borrowed */
    float eps;
    float limit;   /* q, k and v are clamped to it; 0: not */
    bool v_from_k; /* v is k before its norm and rotation */
    bool v_norm;   /* v is normed without weights */
    size_t head_dim;
    size_t n_rot;           /* 0: no rotation */
    const float *cos, *sin; /* [n][n_rot / 2]; borrowed */
    /* Ministral 3 scales queries by position: q *= 1 + beta ln(1 + floor(p / from)). */
    double query_growth, query_growth_from; /* beta, 0: not scaled; from */
    const size_t *positions;                /* [n], of scaled queries; borrowed */
    size_t n;                               /* rows */
    float *q, *k, *v;                       /* [n][ld_q], [n][ld_kv], [n][ld_kv]; borrowed */
    size_t ld_q, ld_kv;
};

/* Prepares query head h in all rows. Threads may prepare different heads. */
void sp_attention_heads_query(const struct sp_attention_heads *a, size_t h);
/* Prepares key head h and value head h in all rows. Threads may prepare different heads. */
void sp_attention_heads_key(const struct sp_attention_heads *a, size_t h);

#endif
