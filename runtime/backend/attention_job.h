/* One layer's attention for the rows of a pass: the products that make queries, keys and values,
 * the preparation of heads, the store to the caches, and attention itself.
 *
 * Between the products the unit of work is one head with all rows of the pass: heads are
 * independent, there are enough of them for the threads, and the thread that rotated a head's keys
 * stores them. Processes that compute a model together divide the heads of a job: each has those
 * that its caches have. */
#ifndef SP_RUNTIME_BACKEND_ATTENTION_JOB_H
#define SP_RUNTIME_BACKEND_ATTENTION_JOB_H

#include "format/config/config.h"
#include "runtime/backend/attention.h"
#include "runtime/backend/backend.h"
#include "runtime/vector/vector.h"

/* Biases, clamps, norms and rotations of the heads of queries, keys and values, between their
 * products and attention. Each head is prepared by itself, so a rank prepares the heads that it
 * stores, and a thread some of them. */
struct sp_attention_heads {
    const struct sp_vector *vector; /* static */
    /* Biases of all heads, head 0 first; NULL: none, or the products added them. Borrowed. */
    const float *q_bias, *k_bias, *v_bias;
    enum sp_qk_norm norm;                   /* SP_QK_WHOLE: done for whole rows, not for heads */
    const float *q_norm, *k_norm;           /* [head_dim], or SP_QK_OWN: of all heads; borrowed */
    const float *q_norm_bias, *k_norm_bias; /* [head_dim], or NULL; borrowed */
    const float *q_scales; /* of all heads, after the rotation; NULL: none; borrowed */
    bool unit;             /* the norms make vectors of length 1 */
    float clip;            /* the length of SP_QK_CLIP, whose q_norm is of all heads */
    float eps;
    float limit;                /* q, k and v are clamped to it; 0: not */
    bool v_from_k;              /* v is k before its norm and rotation */
    bool v_norm;                /* v is normed without weights */
    size_t head_dim, value_dim; /* of a key, of a value */
    float v_scale;              /* factor of v */
    size_t n_rot;               /* 0: no rotation */
    const float *cos, *sin;     /* [n][n_rot / 2]; borrowed */
    struct sp_query_growth growth;
    const size_t *positions; /* [n], of scaled queries; borrowed */
    size_t n;                /* rows */
    float *q, *k, *v;        /* [n][ld_q], [n][ld_kv], [n][ld_kv]; borrowed */
    size_t ld_q, ld_kv;
};

/* The rows of one sequence, which follow those of the sequence before. */
struct sp_attention_seq {
    struct sp_kv *kv; /* of the layer; the same shape in all sequences */
    size_t pos, n;
};

struct sp_attention_job {
    const struct sp_backend *backend;
    /* That make q, k and v of the heads, and perhaps more; none: these are made. */
    const struct sp_product *products;
    size_t n_products;
    const struct sp_acts *acts; /* which the products read */
    struct sp_attention_heads heads;
    unsigned n_heads, n_kv_heads; /* of the layer */
    bool stores;                  /* writes keys and values; else the caches have them */
    const struct sp_attention_seq *seqs;
    size_t n_seqs;
    const struct sp_key_range *ranges; /* [heads.n]; NULL: the job only stores */
    /* Scale, cap, sinks, slopes and bias by distance; the other members are not used. */
    struct sp_attention attention;
    /* Receives the attended rows; if it is coded, their codes, and perhaps no floats. */
    const struct sp_acts *out;
    struct sp_attention_scratch *scratch;
};

/* The factor of a query at this position. */
float sp_query_factor(const struct sp_query_growth *growth, size_t pos);

/* Runs a job, with all processes that compute the model. */
void sp_backend_attend(const struct sp_attention_job *job);

/* Prepares query heads 0..n_queries-1 and key and value heads 0..n_keys-1 of all rows, and stores
 * those that the caches have. */
void sp_attention_job_prepare(const struct sp_attention_job *job, size_t n_queries, size_t n_keys);
/* Attends by the query heads that read the heads of the caches. */
void sp_attention_job_attend(const struct sp_attention_job *job);

#endif
