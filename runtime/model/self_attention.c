/* The attention sublayer: products for queries, keys and values, their norms and rotations, the
 * store to the cache, attention itself, and the output product.
 *
 * Between the products the unit of work is one head with all rows of the pass: heads are
 * independent, there are enough of them for the threads, and the thread that rotated a head's keys
 * stores them. */
#include "runtime/model/self_attention.h"

#include "runtime/model/decoder_internal.h"
#include "runtime/model/remote_attention.h"
#include "runtime/vector/fmath.h"

#include <string.h>

/* One pass through the sublayer. */
struct heads_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    bool stores;      /* the layer has keys and values of its own */
    size_t n_queries; /* query heads, which precede the kv heads among the items; 0: none */
    size_t n;
};

/* One norm over all heads of a row's q, and one over all heads of its k (OLMo 2). */
static void norm_whole_row(void *context, size_t t, unsigned worker)
{
    const struct heads_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    float eps = (float)ws->model->config.norm_eps, *q = ws->q + t * ws->ld_q,
          *k = ws->k + t * ws->ld_kv;

    (void)worker;
    if (job->n_queries) ws->backend->vector->rms_norm(q, q, l->q_norm, l->q.rows, eps);
    if (job->stores) ws->backend->vector->rms_norm(k, k, l->k_norm, l->k.rows, eps);
}

/* Least number of (head, row) pairs that is worth another thread. */
enum { MIN_HEAD_ROWS = 16 };

/* Norms one head of q or of k; `weight` is the weight of all heads. */
static void norm_head(const struct heads_job *job, size_t h, float *head, const float *weight)
{
    const struct sp_config *c = &job->ws->model->config;
    size_t dim = job->layer->config->head_dim;

    if (c->qk_norm == SP_QK_OWN) {
        sp_center(head, head, dim);
        weight += h * dim;
    }
    job->ws->backend->vector->rms_norm(head, head, weight, dim, (float)c->norm_eps);
}

/* Clamps, norms and rotates head h of row t of q or of k. */
static void prepare_head(const struct heads_job *job, size_t t, size_t h, float *head,
                         const float *weight)
{
    const struct sp_workspace *ws = job->ws;
    enum sp_qk_norm norm = ws->model->config.qk_norm;
    float limit = (float)ws->model->config.qkv_limit;
    int rope = job->layer->config->rope;

    if (limit != 0) sp_clamp(head, limit, job->layer->config->head_dim);
    if (norm == SP_QK_HEADS || norm == SP_QK_OWN) norm_head(job, h, head, weight);
    if (rope >= 0) {
        const struct sp_rotation *rotation = &ws->rotations[rope];
        size_t n_rot = ws->model->config.ropes[rope].n_rot;
        ws->backend->vector->rope(head, rotation->cos + t * (n_rot / 2),
                                  rotation->sin + t * (n_rot / 2), n_rot);
    }
    if (norm == SP_QK_ROTATED) norm_head(job, h, head, weight);
}

/* Ministral 3 scales queries by position: q *= 1 + beta ln(1 + floor(p / from)). */
static void scale_query(const struct heads_job *job, size_t t, float *head)
{
    const struct sp_config *c = &job->ws->model->config;
    size_t steps = job->ws->positions[t] / (size_t)c->query_growth_from;
    double factor = 1 + c->query_growth * sp_log((double)(1 + steps));

    job->ws->backend->vector->scale(head, (float)factor, job->layer->config->head_dim);
}

static void prepare_query(const struct heads_job *job, size_t h)
{
    for (size_t t = 0; t < job->n; t++) {
        float *head = job->ws->q + t * job->ws->ld_q + h * job->layer->config->head_dim;
        prepare_head(job, t, h, head, job->layer->q_norm);
        if (job->ws->model->config.query_growth != 0) scale_query(job, t, head);
    }
}

/* v is the raw k projection if the layer has no v projection; Gemma 4 norms it without weight. */
static void prepare_value(const struct heads_job *job, float *v, const float *k)
{
    size_t dim = job->layer->config->head_dim;
    const struct sp_config *c = &job->ws->model->config;

    if (job->layer->config->v_from_k) memcpy(v, k, dim * sizeof *v);
    if (c->qkv_limit != 0) sp_clamp(v, (float)c->qkv_limit, dim);
    if (c->v_norm) job->ws->backend->vector->rms_norm(v, v, NULL, dim, (float)c->norm_eps);
}

static void put_head(const struct heads_job *job, size_t h, const float *k, const float *v)
{
    const struct sp_workspace *ws = job->ws;
    unsigned layer = (unsigned)job->layer->config->kv_source;

    for (size_t i = 0; i < ws->n_seqs; i++) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        struct sp_kv *kv = &seq->decoder->caches[layer];
        if (h >= kv->n_heads) return; /* a head of another rank */
        sp_kv_put_head(kv, ws->backend->vector, h, seq->pos, seq->n, k, v, ws->ld_kv);
        k += seq->n * ws->ld_kv;
        v += seq->n * ws->ld_kv;
    }
}

/* Prepares and stores the keys and values of one head. */
static void store_head(const struct heads_job *job, size_t h)
{
    const struct sp_workspace *ws = job->ws;
    float *k = ws->k + h * job->layer->config->head_dim;
    float *v = ws->v + h * job->layer->config->head_dim;

    for (size_t t = 0; t < job->n; t++) {
        prepare_value(job, v + t * ws->ld_kv, k + t * ws->ld_kv);
        prepare_head(job, t, h, k + t * ws->ld_kv, job->layer->k_norm);
    }
    put_head(job, h, k, v);
}

static void prepare_items(void *context, size_t first, size_t n, unsigned worker)
{
    const struct heads_job *job = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++) {
        if (i < job->n_queries) {
            prepare_query(job, i);
        } else {
            store_head(job, i - job->n_queries);
        }
    }
}

static void prepare_and_store(struct heads_job *job)
{
    size_t n_items = job->n_queries + (job->stores ? job->layer->config->n_kv_heads : 0);

    if (job->ws->model->config.qk_norm == SP_QK_WHOLE) {
        sp_backend_rows(job->ws->backend, job->n, norm_whole_row, job);
    }
    sp_pool_run_ranges(job->ws->backend->pool, n_items, MIN_HEAD_ROWS / (job->n + 1) + 1,
                       prepare_items, job);
}

void sp_self_attention_store_keys(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_product kv[] = {
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
    };
    struct heads_job job = {.ws = ws, .layer = l, .stores = true, .n = n};
    struct sp_remote_attention remote = {.ws = ws, .layer = layer, .n = n, .stores = true};

    sp_backend_multiply(ws->backend, kv, 2, &ws->hidden, n);
    prepare_and_store(&job);
    sp_remote_attention_send(&remote);
    sp_remote_attention_receive(&remote);
}

/* A window counts the row itself; with window_before it counts only keys before the sequence's
 * rows. A layer that is not causal (block drafts) also attends to later rows of the pass. A layer
 * that reads the target's keys does not attend to its own position, which the target has not
 * processed yet. */
void sp_self_attention_find_ranges(struct sp_key_range *ranges, const struct sp_layer_config *l,
                                   const struct sp_batch_seq *seq)
{
    size_t n = seq->n, pos = seq->pos;

    for (size_t t = 0; t < n; t++) {
        size_t p = pos + t;
        struct sp_key_range *r = &ranges[t];
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

/* Attention of one sequence by the heads of this rank; `first` is the row of the pass where its
 * rows begin. */
static void attend_seq(const struct heads_job *job, const struct sp_batch_seq *seq, size_t first)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_config *config = &ws->model->config;
    const struct sp_layer_config *l = job->layer->config;
    const struct sp_kv *kv = seq->decoder->keys[l - config->layers];
    struct sp_attention a = {
        .kv = kv,
        .n_heads = l->n_heads / kv->n_all_heads * kv->n_heads,
        .scale = (float)config->attention_scale,
        .cap = (float)config->attention_cap,
        .sinks = job->layer->sinks,
        .q = ws->q + first * ws->ld_q,
        .ldq = ws->ld_q,
        .out = ws->heads.x + first * ws->heads.ld,
        .ld_out = ws->heads.ld,
        .n_rows = seq->n,
        .ranges = ws->ranges + first,
    };

    sp_attend(&a, ws->backend->vector, ws->backend->pool, ws->attention);
}

/* Attention of all sequences by all ranks. */
static void attend(const struct heads_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    struct sp_remote_attention remote = {
        .ws = ws, .layer = layer, .n = job->n, .stores = job->stores, .attends = true};

    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        sp_self_attention_find_ranges(ws->ranges + first, job->layer->config, &ws->seqs[i]);
    sp_remote_attention_send(&remote);
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        attend_seq(job, &ws->seqs[i], first);
    sp_remote_attention_receive(&remote);
}

/* Multiplies the attention output by the sigmoid of its gate (Qwen3.5). */
static void gate_row(void *context, size_t t, unsigned worker)
{
    const struct heads_job *job = context;
    struct sp_workspace *ws = job->ws;

    (void)worker;
    ws->backend->vector->sigmoid_mul(ws->heads.x + t * ws->heads.ld, ws->gate + t * ws->ld_q,
                                     ws->heads.cols);
}

/* Multiplies each head of the attention output by the sigmoid of one gate per head (LFM3). */
static void gate_heads(void *context, size_t t, unsigned worker)
{
    const struct heads_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_layer_config *l = job->layer->config;
    const float *gate = ws->gate + t * ws->ld_q;
    float *head = ws->heads.x + t * ws->heads.ld;

    (void)worker;
    for (size_t h = 0; h < l->n_heads; h++, head += l->head_dim)
        ws->backend->vector->scale(head, sp_sigmoidf(gate[h]), l->head_dim);
}

/* Computes the products that the layer has: q, k and v, output gate. */
static void project(const struct heads_job *job)
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    const struct sp_acts *input = l->config->reads_pair ? &ws->pairs : &ws->hidden;
    const struct sp_product all[] = {
        {.w = &l->q, .bias = l->q_bias, .y = ws->q, .ldy = ws->ld_q},
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
        {.w = &l->output_gate, .bias = l->output_gate_bias, .y = ws->gate, .ldy = ws->ld_q},
    };
    struct sp_product needed[SP_MAX_PRODUCTS];
    size_t n = 0;

    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++) {
        if (all[i].w->rows) needed[n++] = all[i];
    }
    sp_backend_multiply(ws->backend, needed, n, input, job->n);
}

void sp_self_attention_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_product o = {.w = &l->o, .bias = l->o_bias, .y = ws->y, .ldy = ws->ld_x};
    struct heads_job job = {
        .ws = ws, .layer = l, .stores = l->k.rows != 0, .n_queries = l->config->n_heads, .n = n};

    project(&job);
    prepare_and_store(&job);
    attend(&job, layer);
    ws->heads.cols = l->o.cols;
    if (l->output_gate.rows) {
        sp_backend_rows(ws->backend, n, l->config->head_gate ? gate_heads : gate_row, &job);
    }
    sp_backend_multiply(ws->backend, &o, 1, &ws->heads, n);
}
