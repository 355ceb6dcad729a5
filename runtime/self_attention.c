/* The attention sublayer: products for queries, keys and values, their norms and rotations, what
 * goes into the cache, attention itself, and the product that takes the result back.
 *
 * Between the products the unit of work is a head with all rows of the pass: heads are independent,
 * there are enough of them for the threads, and a head's keys are stored by whoever rotated them.
 */
#include "runtime/decoder.h"
#include "runtime/fmath.h"

#include <string.h>

/* One pass through the sublayer. */
struct heads_job {
    struct sp_decoder *d;
    const struct sp_layer *layer;
    struct sp_kv *kv; /* where the keys and values go */
    size_t n_queries; /* heads of q among the items, before those of k and v; 0: no queries */
    size_t n, pos;
};

/* One norm over all heads of a row's q and k (OLMo 2). */
static void norm_whole_row(void *context, size_t t, unsigned worker)
{
    const struct heads_job *job = context;
    const struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;
    float eps = (float)d->model->config.norm_eps, *q = d->q + t * d->ld_q, *k = d->k + t * d->ld_kv;

    (void)worker;
    if (job->n_queries) d->engine->vector->rms_norm(q, q, l->q_norm, l->q.rows, eps);
    if (job->kv) d->engine->vector->rms_norm(k, k, l->k_norm, l->k.rows, eps);
}

/* Head-times-row items that are worth another thread. */
enum { LEAST_HEAD_ROWS = 16 };

/* The norm of one head of q or of k; `weight` is that of all of them. */
static void norm_head(const struct heads_job *job, size_t h, float *head, const float *weight)
{
    const struct sp_config *c = &job->d->model->config;
    size_t dim = job->layer->config->head_dim;

    if (c->qk_norm == SP_QK_OWN) {
        sp_center(head, head, dim);
        weight += h * dim;
    }
    job->d->engine->vector->rms_norm(head, head, weight, dim, (float)c->norm_eps);
}

/* Norms and rotates head h of row t: of q or of k. */
static void shape_head(const struct heads_job *job, size_t t, size_t h, float *head,
                       const float *weight)
{
    const struct sp_decoder *d = job->d;
    enum sp_qk_norm norm = d->model->config.qk_norm;
    int rope = job->layer->config->rope;

    if (norm == SP_QK_HEADS || norm == SP_QK_OWN) norm_head(job, h, head, weight);
    if (rope >= 0) {
        const struct rotation *r = &d->rotations[rope];
        size_t n_rot = d->model->config.ropes[rope].n_rot;
        d->engine->vector->rope(head, r->cos + t * (n_rot / 2), r->sin + t * (n_rot / 2), n_rot);
    }
    if (norm == SP_QK_TURNED) norm_head(job, h, head, weight);
}

/* Ministral 3: queries grow with the position, q *= 1 + beta ln(1 + floor(p / from)). */
static void grow_query(const struct heads_job *job, size_t t, float *head)
{
    const struct sp_config *c = &job->d->model->config;
    size_t steps = (job->pos + t) / (size_t)c->query_growth_from;
    double factor = 1 + c->query_growth * sp_log((double)(1 + steps));

    job->d->engine->vector->scale(head, (float)factor, job->layer->config->head_dim);
}

static void shape_query(const struct heads_job *job, size_t h)
{
    for (size_t t = 0; t < job->n; t++) {
        float *head = job->d->q + t * job->d->ld_q + h * job->layer->config->head_dim;
        shape_head(job, t, h, head, job->layer->q_norm);
        if (job->d->model->config.query_growth != 0) grow_query(job, t, head);
    }
}

/* v: the raw k projection where a layer has none of its own; normed without weight (Gemma 4). */
static void shape_value(const struct heads_job *job, float *v, const float *k)
{
    size_t dim = job->layer->config->head_dim;
    const struct sp_config *c = &job->d->model->config;

    if (job->layer->config->v_from_k) memcpy(v, k, dim * sizeof *v);
    if (c->v_norm) job->d->engine->vector->rms_norm(v, v, NULL, dim, (float)c->norm_eps);
}

/* Keys and values of one head, shaped and stored. */
static void store_head(const struct heads_job *job, size_t h)
{
    const struct sp_decoder *d = job->d;
    float *k = d->k + h * job->layer->config->head_dim;
    float *v = d->v + h * job->layer->config->head_dim;

    for (size_t t = 0; t < job->n; t++) {
        shape_value(job, v + t * d->ld_kv, k + t * d->ld_kv);
        shape_head(job, t, h, k + t * d->ld_kv, job->layer->k_norm);
    }
    sp_kv_put_head(job->kv, d->engine->vector, h, job->pos, job->n, k, v, d->ld_kv);
}

static void shape_items(void *context, size_t first, size_t n, unsigned worker)
{
    const struct heads_job *job = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++) {
        if (i < job->n_queries) {
            shape_query(job, i);
        } else {
            store_head(job, i - job->n_queries);
        }
    }
}

static void shape_and_store(struct heads_job *job)
{
    size_t n_items = job->n_queries + (job->kv ? job->layer->config->n_kv_heads : 0);

    if (job->d->model->config.qk_norm == SP_QK_WHOLE) {
        sp_engine_rows(job->d->engine, job->n, norm_whole_row, job);
    }
    sp_pool_run_ranges(job->d->engine->pool, n_items, LEAST_HEAD_ROWS / (job->n + 1) + 1,
                       shape_items, job);
}

void sp_decoder_store_keys(struct sp_decoder *d, unsigned layer, size_t n, size_t pos)
{
    const struct sp_layer *l = &d->model->layers[layer];
    struct sp_product kv[] = {
        {.w = &l->k, .bias = l->k_bias, .y = d->k, .ldy = d->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = d->v, .ldy = d->ld_kv},
    };
    struct heads_job job = {.d = d, .layer = l, .kv = &d->caches[layer], .n = n, .pos = pos};

    sp_engine_multiply(d->engine, kv, 2, &d->hidden, n);
    shape_and_store(&job);
}

/* Which keys each row of the pass sees: windows count the row itself, or else what lies in front of
 * the pass; a layer that is not causal (block drafts) looks ahead to the end of the pass too; one
 * that reads the target's keys does not see its own position, which the target has not seen yet. */
static void find_ranges(struct sp_decoder *d, const struct sp_layer_config *l, size_t n, size_t pos)
{
    for (size_t t = 0; t < n; t++) {
        size_t p = pos + t;
        struct sp_key_range *r = &d->ranges[t];
        r->last = l->causal ? p + 1 : pos + n;
        if (l->kv_source < 0) r->last = p;
        r->first = 0;
        if (l->window == 0) continue;
        if (l->window_before) {
            if (pos > l->window) r->first = pos - l->window;
            continue;
        }
        if (p + 1 > l->window) r->first = p + 1 - l->window;
        if (r->last > p + l->window) r->last = p + l->window;
    }
}

static void attend(const struct heads_job *job)
{
    struct sp_decoder *d = job->d;
    const struct sp_config *config = &d->model->config;
    const struct sp_layer_config *l = job->layer->config;
    struct sp_attention a = {
        .kv = d->keys[l - config->layers],
        .n_heads = l->n_heads,
        .scale = (float)config->attention_scale,
        .cap = (float)config->attention_cap,
        .sinks = job->layer->sinks,
        .q = d->q,
        .ldq = d->ld_q,
        .out = d->heads.x,
        .ld_out = d->heads.ld,
        .n_rows = job->n,
        .ranges = d->ranges,
    };

    find_ranges(d, l, job->n, job->pos);
    sp_attend(&a, d->engine->vector, d->engine->pool, d->attention);
}

/* Attention output times sigmoid of its gate (Qwen3.5). */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct heads_job *job = context;
    struct sp_decoder *d = job->d;

    (void)worker;
    d->engine->vector->sigmoid_mul(d->heads.x + t * d->heads.ld, d->gate + t * d->ld_q,
                                   d->heads.cols);
}

/* The products that this layer needs: q; k and v if it has keys of its own; an output gate. */
static void project(const struct heads_job *job)
{
    struct sp_decoder *d = job->d;
    const struct sp_layer *l = job->layer;
    const struct sp_acts *input = l->config->reads_pair ? &d->pairs : &d->hidden;
    const struct sp_product all[] = {
        {.w = &l->q, .bias = l->q_bias, .y = d->q, .ldy = d->ld_q},
        {.w = &l->k, .bias = l->k_bias, .y = d->k, .ldy = d->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = d->v, .ldy = d->ld_kv},
        {.w = &l->output_gate, .y = d->gate, .ldy = d->ld_q},
    };
    struct sp_product needed[SP_MAX_PRODUCTS];
    size_t n = 0;

    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++) {
        if (all[i].w->rows) needed[n++] = all[i];
    }
    sp_engine_multiply(d->engine, needed, n, input, job->n);
}

void sp_decoder_attend(struct sp_decoder *d, unsigned layer, size_t n, size_t pos)
{
    const struct sp_layer *l = &d->model->layers[layer];
    struct sp_product o = {.w = &l->o, .bias = l->o_bias, .y = d->y, .ldy = d->ld_x};
    struct heads_job job = {.d = d,
                            .layer = l,
                            .kv = l->k.rows ? &d->caches[l->config->kv_source] : NULL,
                            .n_queries = l->config->n_heads,
                            .n = n,
                            .pos = pos};

    project(&job);
    shape_and_store(&job);
    attend(&job);
    d->heads.cols = l->o.cols;
    if (l->output_gate.rows) sp_engine_rows(d->engine, n, gate_row, &job);
    sp_engine_multiply(d->engine, &o, 1, &d->heads, n);
}
