#include "runtime/backend/attention_job.h"

#include "runtime/backend/remote.h"
#include "runtime/vector/fmath.h"

#include <string.h>

/* ---- the preparation of a head ---- */

/* Norms one head of q or of k; `weight` is the weight of all heads. */
static void norm_head(const struct sp_attention_heads *a, size_t h, float *head,
                      const float *weight, const float *bias)
{
    if (a->norm == SP_QK_CLIP) {
        if (weight) a->vector->mul(head, weight + h * a->head_dim, a->head_dim);
        sp_shorten(head, a->clip, a->head_dim);
        return;
    }
    if (a->norm == SP_QK_OWN || a->norm == SP_QK_SHARED) sp_center(head, head, a->head_dim);
    if (a->norm == SP_QK_OWN) weight += h * a->head_dim;
    if (a->unit)
        a->vector->l2_norm(head, head, a->head_dim, a->eps, 1);
    else
        a->vector->rms_norm(head, head, weight, a->head_dim, a->eps);
    if (bias) a->vector->add(head, bias, a->head_dim);
}

/* Clamps, norms and rotates head h of row t of q or of k. */
static void prepare_head(const struct sp_attention_heads *a, size_t t, size_t h, float *head,
                         const float *weight, const float *bias)
{
    size_t at = t * (a->n_rot / 2);

    if (a->limit != 0) sp_clamp(head, a->limit, a->head_dim);
    if (a->norm == SP_QK_HEADS || a->norm == SP_QK_OWN || a->norm == SP_QK_SHARED ||
        a->norm == SP_QK_CLIP)
        norm_head(a, h, head, weight, bias);
    if (a->n_rot) a->vector->rope(head, a->cos + at, a->sin + at, a->n_rot);
    if (a->norm == SP_QK_ROTATED) norm_head(a, h, head, weight, bias);
}

float sp_query_factor(const struct sp_query_growth *growth, size_t pos)
{
    if (growth->smooth) {
        double steps = (double)(pos + growth->offset) / growth->from;
        return (float)(1 + growth->beta * sp_log(steps > 1 ? steps : 1));
    }
    if (growth->power)
        return (float)sp_pow(1 + (double)(pos + growth->offset) / growth->from, growth->beta);
    size_t steps = (pos + growth->offset) / (size_t)growth->from;

    return (float)(1 + growth->beta * sp_log((double)(1 + steps)));
}

static void add_bias(const struct sp_attention_heads *a, float *head, const float *bias, size_t at,
                     size_t dim)
{
    if (bias) a->vector->add(head, bias + at, dim);
}

/* Prepares query head h in all rows. */
static void prepare_query(const struct sp_attention_heads *a, size_t h)
{
    for (size_t t = 0; t < a->n; t++) {
        float *head = a->q + t * a->ld_q + h * a->head_dim;
        add_bias(a, head, a->q_bias, h * a->head_dim, a->head_dim);
        prepare_head(a, t, h, head, a->q_norm, a->q_norm_bias);
        if (a->q_scales) a->vector->mul(head, a->q_scales + h * a->head_dim, a->head_dim);
        if (a->growth.beta != 0)
            a->vector->scale(head, sp_query_factor(&a->growth, a->positions[t]), a->head_dim);
    }
}

/* v is the raw k projection if the layer has no v projection; Gemma 4 norms it without weight. */
static void prepare_value(const struct sp_attention_heads *a, float *v, const float *k)
{
    if (a->v_from_k) memcpy(v, k, a->head_dim * sizeof *v);
    if (a->limit != 0) sp_clamp(v, a->limit, a->value_dim);
    if (a->v_norm) a->vector->rms_norm(v, v, NULL, a->value_dim, a->eps);
    if (a->v_scale != 1) a->vector->scale(v, a->v_scale, a->value_dim);
}

/* Prepares key head h and value head h in all rows. */
static void prepare_key(const struct sp_attention_heads *a, size_t h)
{
    for (size_t t = 0; t < a->n; t++) {
        float *k = a->k + t * a->ld_kv + h * a->head_dim;
        float *v = a->v + t * a->ld_kv + h * a->value_dim;
        add_bias(a, k, a->k_bias, h * a->head_dim, a->head_dim);
        add_bias(a, v, a->v_bias, h * a->value_dim, a->value_dim);
        prepare_value(a, v, k);
        prepare_head(a, t, h, k, a->k_norm, a->k_norm_bias);
    }
}

/* ---- the job ---- */

/* Least number of (head, row) pairs that is worth another thread. */
enum { MIN_HEAD_ROWS = 16 };

struct prepare_job {
    const struct sp_attention_job *job;
    size_t n_queries; /* query heads precede the kv heads among the items */
};

static void store_head(const struct sp_attention_job *job, size_t h)
{
    const struct sp_attention_heads *a = &job->heads;
    const float *k = a->k + h * a->head_dim, *v = a->v + h * a->value_dim;

    for (size_t i = 0; i < job->n_seqs; i++) {
        const struct sp_attention_seq *seq = &job->seqs[i];
        if (h >= seq->kv->n_heads) return; /* another process has it */
        sp_kv_put_head(seq->kv, a->vector, h, seq->pos, seq->n, k, v, a->ld_kv);
        k += seq->n * a->ld_kv;
        v += seq->n * a->ld_kv;
    }
}

static void prepare_items(void *context, size_t first, size_t n, unsigned worker)
{
    const struct prepare_job *p = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++) {
        if (i < p->n_queries) {
            prepare_query(&p->job->heads, i);
            continue;
        }
        prepare_key(&p->job->heads, i - p->n_queries);
        store_head(p->job, i - p->n_queries);
    }
}

struct norm_job {
    const struct sp_attention_heads *heads;
    size_t n_q, n_k; /* columns of all heads */
};

/* One norm over all heads of a row's q, and one over all heads of its k (OLMo 2). */
static void norm_whole_row(void *context, size_t t)
{
    const struct norm_job *job = context;
    const struct sp_attention_heads *a = job->heads;
    float *q = a->q + t * a->ld_q, *k = a->k + t * a->ld_kv;

    if (job->n_q) a->vector->rms_norm(q, q, a->q_norm, job->n_q, a->eps);
    if (job->n_k) a->vector->rms_norm(k, k, a->k_norm, job->n_k, a->eps);
}

void sp_attention_job_prepare(const struct sp_attention_job *job, size_t n_queries, size_t n_keys)
{
    const struct sp_attention_heads *a = &job->heads;
    struct prepare_job items = {job, n_queries};
    struct norm_job norms = {a, n_queries * a->head_dim, n_keys * a->head_dim};

    if (a->norm == SP_QK_WHOLE) sp_backend_rows(job->backend, a->n, norm_whole_row, &norms);
    sp_pool_run_ranges(job->backend->pool, n_queries + n_keys, MIN_HEAD_ROWS / (a->n + 1) + 1,
                       prepare_items, &items);
}

/* Attends with one sequence, whose rows are those of the pass from `first` on. */
static void attend_seq(const struct sp_attention_job *job, const struct sp_attention_seq *seq,
                       size_t first)
{
    struct sp_attention a = job->attention;

    a.kv = seq->kv;
    a.n_heads = job->n_heads / seq->kv->n_all_heads * seq->kv->n_heads;
    a.q = job->heads.q + first * job->heads.ld_q;
    a.ldq = job->heads.ld_q;
    a.out = job->out->x + first * job->out->ld;
    a.ld_out = job->out->ld;
    a.n_rows = seq->n;
    a.ranges = job->ranges + first;
    if (a.sinks) a.sinks += first * a.ld_sinks;
    if (a.relative.mix) a.relative.mix += first * a.relative.ld;
    sp_attend(&a, job->heads.vector, job->backend->pool, job->scratch);
}

void sp_attention_job_attend(const struct sp_attention_job *job)
{
    for (size_t i = 0, first = 0; i < job->n_seqs; first += job->seqs[i++].n)
        attend_seq(job, &job->seqs[i], first);
}

void sp_backend_attend(const struct sp_attention_job *job)
{
    struct sp_remote *remote = job->backend->remote;

    if (remote && remote->ops->attend(remote, job)) return;
    sp_backend_multiply(job->backend, job->products, job->n_products, job->acts, job->heads.n);
    sp_attention_job_prepare(job, job->ranges ? job->n_heads : 0,
                             job->stores ? job->n_kv_heads : 0);
    if (job->ranges == NULL) return;
    sp_attention_job_attend(job);
    if (job->out->coded) sp_backend_quantize(job->backend, job->out, job->heads.n);
}
