#include "runtime/backend/attention_heads.h"

#include "runtime/vector/fmath.h"

#include <string.h>

/* Norms one head of q or of k; `weight` is the weight of all heads. */
static void norm_head(const struct sp_attention_heads *a, size_t h, float *head,
                      const float *weight)
{
    if (a->norm == SP_QK_OWN) {
        sp_center(head, head, a->head_dim);
        weight += h * a->head_dim;
    }
    a->vector->rms_norm(head, head, weight, a->head_dim, a->eps);
}

/* Clamps, norms and rotates head h of row t of q or of k. */
static void prepare_head(const struct sp_attention_heads *a, size_t t, size_t h, float *head,
                         const float *weight)
{
    size_t at = t * (a->n_rot / 2);

    if (a->limit != 0) sp_clamp(head, a->limit, a->head_dim);
    if (a->norm == SP_QK_HEADS || a->norm == SP_QK_OWN) norm_head(a, h, head, weight);
    if (a->n_rot) a->vector->rope(head, a->cos + at, a->sin + at, a->n_rot);
    if (a->norm == SP_QK_ROTATED) norm_head(a, h, head, weight);
}

static void scale_query(const struct sp_attention_heads *a, size_t t, float *head)
{
    size_t steps = a->positions[t] / (size_t)a->query_growth_from;
    double factor = 1 + a->query_growth * sp_log((double)(1 + steps));

    a->vector->scale(head, (float)factor, a->head_dim);
}

static void add_bias(const struct sp_attention_heads *a, size_t h, float *head, const float *bias)
{
    if (bias) a->vector->add(head, bias + h * a->head_dim, a->head_dim);
}

void sp_attention_heads_query(const struct sp_attention_heads *a, size_t h)
{
    for (size_t t = 0; t < a->n; t++) {
        float *head = a->q + t * a->ld_q + h * a->head_dim;
        add_bias(a, h, head, a->q_bias);
        prepare_head(a, t, h, head, a->q_norm);
        if (a->query_growth != 0) scale_query(a, t, head);
    }
}

/* v is the raw k projection if the layer has no v projection; Gemma 4 norms it without weight. */
static void prepare_value(const struct sp_attention_heads *a, float *v, const float *k)
{
    if (a->v_from_k) memcpy(v, k, a->head_dim * sizeof *v);
    if (a->limit != 0) sp_clamp(v, a->limit, a->head_dim);
    if (a->v_norm) a->vector->rms_norm(v, v, NULL, a->head_dim, a->eps);
}

void sp_attention_heads_key(const struct sp_attention_heads *a, size_t h)
{
    for (size_t t = 0; t < a->n; t++) {
        size_t at = t * a->ld_kv + h * a->head_dim;
        add_bias(a, h, a->k + at, a->k_bias);
        add_bias(a, h, a->v + at, a->v_bias);
        prepare_value(a, a->v + at, a->k + at);
        prepare_head(a, t, h, a->k + at, a->k_norm);
    }
}
