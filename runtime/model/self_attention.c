/* The attention sublayer: products for queries, keys and values, their norms and rotations, the
 * store to the cache, attention itself, and the output product.
 *
 * Between the products the unit of work is one head with all rows of the pass: heads are
 * independent, there are enough of them for the threads, and the thread that rotated a head's keys
 * stores them. */
#include "runtime/model/self_attention.h"

#include "runtime/backend/attention_heads.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/model/remote_attention.h"
#include "runtime/vector/fmath.h"

/* One pass through the sublayer. */
struct heads_job {
    struct sp_workspace *ws;
    const struct sp_layer *layer;
    bool stores; /* the layer has keys and values of its own */
    /* The heads that this rank prepares. Query heads precede the kv heads among the items. */
    size_t n_queries, n_keys;
    size_t n;
    struct sp_attention_heads heads;
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

static struct sp_attention_heads heads_of(const struct sp_workspace *ws, const struct sp_layer *l,
                                          size_t n)
{
    const struct sp_config *c = &ws->model->config;
    struct sp_attention_heads a = {
        .vector = ws->backend->vector,
        .norm = c->qk_norm,
        .q_norm = l->q_norm,
        .k_norm = l->k_norm,
        .eps = (float)c->norm_eps,
        .limit = (float)c->qkv_limit,
        .v_from_k = l->config->v_from_k,
        .v_norm = c->v_norm,
        .head_dim = l->config->head_dim,
        .query_growth = c->query_growth,
        .query_growth_from = c->query_growth_from,
        .positions = ws->positions,
        .n = n,
        .q = ws->q,
        .k = ws->k,
        .v = ws->v,
        .ld_q = ws->ld_q,
        .ld_kv = ws->ld_kv,
    };

    if (l->config->rope < 0) return a;
    a.n_rot = c->ropes[l->config->rope].n_rot;
    a.cos = ws->rotations[l->config->rope].cos;
    a.sin = ws->rotations[l->config->rope].sin;
    return a;
}

/* Least number of (head, row) pairs that is worth another thread. */
enum { MIN_HEAD_ROWS = 16 };

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
    size_t at = h * job->layer->config->head_dim;

    sp_attention_heads_key(&job->heads, h);
    put_head(job, h, ws->k + at, ws->v + at);
}

static void prepare_items(void *context, size_t first, size_t n, unsigned worker)
{
    const struct heads_job *job = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++)
        if (i < job->n_queries)
            sp_attention_heads_query(&job->heads, i);
        else
            store_head(job, i - job->n_queries);
}

static void prepare_and_store(struct heads_job *job)
{
    if (job->ws->model->config.qk_norm == SP_QK_WHOLE)
        sp_backend_rows(job->ws->backend, job->n, norm_whole_row, job);
    sp_pool_run_ranges(job->ws->backend->pool, job->n_queries + job->n_keys,
                       MIN_HEAD_ROWS / (job->n + 1) + 1, prepare_items, job);
}

void sp_self_attention_store_keys(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_product kv[] = {
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
    };
    struct heads_job job = {.ws = ws,
                            .layer = l,
                            .stores = true,
                            .n_keys = l->config->n_kv_heads,
                            .n = n,
                            .heads = heads_of(ws, l, n)};
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

/* Attention of all sequences by the heads of this rank. */
static void attend(const struct heads_job *job)
{
    const struct sp_workspace *ws = job->ws;

    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        attend_seq(job, &ws->seqs[i], first);
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

/* Sets the products that the layer has: q, k and v, output gate. Returns their number. */
static size_t list_products(const struct heads_job *job, struct sp_product needed[SP_MAX_PRODUCTS])
{
    struct sp_workspace *ws = job->ws;
    const struct sp_layer *l = job->layer;
    const struct sp_product all[] = {
        {.w = &l->q, .bias = l->q_bias, .y = ws->q, .ldy = ws->ld_q},
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
        {.w = &l->output_gate, .bias = l->output_gate_bias, .y = ws->gate, .ldy = ws->ld_q},
    };
    size_t n = 0;

    for (size_t i = 0; i < SP_MAX_PRODUCTS; i++)
        if (all[i].w->rows) needed[n++] = all[i];
    return n;
}

/* Computes the products of all heads here and on the other ranks, prepares all heads here, and
 * attends with those of each rank there. */
static void attend_after_products(struct heads_job *job, struct sp_remote_attention *remote,
                                  const struct sp_product *products, size_t n_products,
                                  const struct sp_acts *input)
{
    job->n_queries = job->layer->config->n_heads;
    if (job->stores) job->n_keys = job->layer->config->n_kv_heads;
    sp_backend_multiply(job->ws->backend, products, n_products, input, job->n);
    prepare_and_store(job);
    sp_remote_attention_send(remote);
    attend(job);
    sp_remote_attention_receive(remote);
}

/* Computes the heads of each rank there, from the input of the products to the attended rows. */
static void attend_with_products(struct heads_job *job, struct sp_remote_attention *remote,
                                 struct sp_product_job *products)
{
    const struct sp_layer_config *l = job->layer->config;
    const struct sp_backend *backend = job->ws->backend;

    if (sp_remote_attention_wants_codes(products) && !products->acts->coded)
        sp_backend_quantize(backend, products->acts, job->n);
    job->n_keys = sp_remote_attention_slice(remote, products);
    job->n_queries = l->n_heads / l->n_kv_heads * job->n_keys;
    remote->products = products;
    remote->heads = &job->heads;
    sp_remote_attention_send(remote);
    sp_product_job_run(products);
    prepare_and_store(job);
    attend(job);
    sp_remote_attention_receive(remote);
}

static void attend_everywhere(struct heads_job *job, unsigned layer)
{
    struct sp_workspace *ws = job->ws;
    struct sp_product products[SP_MAX_PRODUCTS];
    const struct sp_row_group rows = {.n = job->n};
    struct sp_product_job projection = {
        .backend = ws->backend,
        .products = products,
        .n_products = list_products(job, products),
        .acts = job->layer->config->reads_pair ? &ws->pairs : &ws->hidden,
        .groups = &rows,
        .n_groups = 1,
    };
    struct sp_remote_attention remote = {
        .ws = ws, .layer = layer, .n = job->n, .stores = job->stores, .attends = true};

    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        sp_self_attention_find_ranges(ws->ranges + first, job->layer->config, &ws->seqs[i]);
    ws->heads.cols = job->layer->o.cols;
    ws->heads.coded = sp_remote_attention_makes_codes(&remote);
    if (sp_remote_attention_can_multiply(&remote, &projection))
        attend_with_products(job, &remote, &projection);
    else
        attend_after_products(job, &remote, products, projection.n_products, projection.acts);
}

void sp_self_attention_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_product o = {.w = &l->o, .bias = l->o_bias, .y = ws->y, .ldy = ws->ld_x};
    struct heads_job job = {
        .ws = ws, .layer = l, .stores = l->k.rows != 0, .n = n, .heads = heads_of(ws, l, n)};

    attend_everywhere(&job, layer);
    if (l->output_gate.rows)
        sp_backend_rows(ws->backend, n, l->config->head_gate ? gate_heads : gate_row, &job);
    sp_backend_multiply(ws->backend, &o, 1, &ws->heads, n);
    ws->heads.coded = false;
}
