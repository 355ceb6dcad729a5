#include "runtime/backend/remote_cache_service.h"

#include "format/base/mem.h"
#include "runtime/backend/attention.h"
#include "runtime/backend/attention_heads.h"
#include "runtime/backend/remote_message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { N_BUCKETS = 1024 };

/* The heads of one cache; without heads, kv is empty. */
struct cache {
    uint64_t number;
    struct sp_kv kv;
    struct cache *next; /* in its bucket */
};

/* Sizes of attention scratch. */
struct sizes {
    unsigned heads, head_dim;
    size_t rows, positions;
};

struct sp_cache_service {
    struct sp_transport *transport;
    struct sp_job_reader *reader;     /* borrowed */
    struct cache *buckets[N_BUCKETS]; /* by number */
    struct sp_attention_scratch *scratch;
    struct sizes sizes; /* of the scratch */
};

enum sp_status sp_cache_service_open(struct sp_cache_service **out, struct sp_transport *transport,
                                     struct sp_job_reader *reader, struct sp_err *err)
{
    enum sp_status st = sp_new(out, 1, sizeof **out, err);

    if (st) return st;
    (*out)->transport = transport;
    (*out)->reader = reader;
    return SP_OK;
}

/* Returns where the cache is linked, or where it would be. */
static struct cache **place_of(struct sp_cache_service *s, uint64_t number)
{
    struct cache **at = &s->buckets[number % N_BUCKETS];

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void remove_cache(struct cache **at)
{
    struct cache *cache = *at;

    *at = cache->next;
    sp_kv_release(&cache->kv);
    free(cache);
}

void sp_cache_service_close(struct sp_cache_service *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < N_BUCKETS; i++)
        while (s->buckets[i])
            remove_cache(&s->buckets[i]);
    sp_attention_scratch_free(s->scratch);
    free(s);
}

static struct sp_head_slice own_heads(const struct sp_cache_service *s, unsigned n_heads)
{
    return sp_remote_heads(n_heads, s->transport->rank, s->transport->n_ranks);
}

/* ---- caches ---- */

/* Replaces the scratch if it is too small for a cache's attention. */
static enum sp_status grow_scratch(struct sp_cache_service *s,
                                   const struct sp_remote_cache_message *m, struct sp_err *err)
{
    struct sp_attention_scratch *scratch = NULL;
    struct sizes n = s->sizes;
    enum sp_status st;

    if (m->n_query_heads > n.heads) n.heads = m->n_query_heads;
    if (m->shape.head_dim > n.head_dim) n.head_dim = m->shape.head_dim;
    if (m->max_rows > n.rows) n.rows = (size_t)m->max_rows;
    if (m->n_positions > n.positions) n.positions = (size_t)m->n_positions;
    if (s->scratch && memcmp(&n, &s->sizes, sizeof n) == 0) return SP_OK;
    if ((st = sp_attention_scratch_new(&scratch, sp_pool_n_threads(s->reader->backend->pool),
                                       n.heads, n.head_dim, n.rows, n.positions, err)))
        return st;
    sp_attention_scratch_free(s->scratch);
    s->scratch = scratch;
    s->sizes = n;
    return SP_OK;
}

static enum sp_status open_cache(struct sp_cache_service *s, struct cache **at,
                                 const struct sp_remote_cache_message *m, struct sp_err *err)
{
    struct sp_kv_shape shape = m->shape;
    struct cache *cache = NULL;
    enum sp_status st;

    shape.n_heads = own_heads(s, shape.n_heads).n;
    if ((st = grow_scratch(s, m, err)) || (st = sp_new(&cache, 1, sizeof *cache, err))) return st;
    cache->number = m->number;
    *at = cache;
    if (shape.n_heads == 0) return SP_OK;
    return sp_kv_init(&cache->kv, (enum sp_cache_type)m->type, shape, (size_t)m->n_positions,
                      (size_t)m->window, (size_t)m->max_rows, err);
}

/* The keys or values of a span, NULL without heads; *size = their bytes. */
static uint8_t *span_of(const struct sp_kv *kv, const struct sp_remote_cache_message *m,
                        size_t *size)
{
    size_t block_size = m->is_value ? kv->value_block_size : kv->key_block_size;

    *size = SP_SPAN / SP_KV_BLOCK * kv->n_heads * block_size;
    if (*size == 0) return NULL;
    assert((m->n + 1) * SP_SPAN <= kv->n_ready);
    return (m->is_value ? kv->values : kv->keys) + m->n * *size;
}

static enum sp_status answer_bytes(struct sp_cache_service *s, const void *bytes, size_t size,
                                   struct sp_err *err)
{
    uint8_t *answer = s->transport->ops->answer(s->transport, size + 1);

    if (answer == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    if (size) memcpy(answer, bytes, size);
    s->transport->ops->reply(s->transport, size);
    return SP_OK;
}

static void write_span(const struct sp_cache_service *s, struct sp_kv *kv,
                       const struct sp_remote_cache_message *m, const uint8_t *bytes)
{
    size_t size;
    uint8_t *to = span_of(kv, m, &size);

    if (size == 0) return;
    memcpy(to, bytes + own_heads(s, kv->n_all_heads).first * (size / kv->n_heads), size);
}

enum sp_status sp_cache_service_act(struct sp_cache_service *s, const uint8_t *message,
                                    struct sp_err *err)
{
    struct sp_remote_cache_message m;
    struct sp_remote_status status = {0};
    struct sp_err failure = {0};
    struct cache **at;
    const uint8_t *span;
    size_t size;

    memcpy(&m, message, sizeof m);
    at = place_of(s, m.number);
    if (*at == NULL && m.action != SP_REMOTE_CACHE_OPEN && m.action != SP_REMOTE_CACHE_CLOSE)
        return sp_fail(err, SP_E_BUG, "a message about an unknown cache");
    switch ((enum sp_remote_cache_action)m.action) {
    case SP_REMOTE_CACHE_OPEN:
        status.status = (uint32_t)open_cache(s, at, &m, &failure);
        if (*at) (*at)->kv.n_all_heads = m.shape.n_heads;
        break;
    case SP_REMOTE_CACHE_CLOSE:
        if (*at) remove_cache(at); /* NULL: the cache did not open */
        break;
    case SP_REMOTE_CACHE_GROW:
        if ((*at)->kv.n_heads)
            status.status = (uint32_t)sp_kv_grow(&(*at)->kv, (size_t)m.n, &failure);
        break;
    case SP_REMOTE_CACHE_SHRINK:
        if ((*at)->kv.n_heads) sp_kv_shrink(&(*at)->kv, (size_t)m.n);
        break;
    case SP_REMOTE_CACHE_READ:
        span = span_of(&(*at)->kv, &m, &size);
        return answer_bytes(s, span, size, err);
    case SP_REMOTE_CACHE_WRITE:
        write_span(s, &(*at)->kv, &m, message + SP_REMOTE_CACHE_BYTES);
        break;
    }
    memcpy(status.text, failure.text, sizeof status.text);
    return answer_bytes(s, &status, sizeof status, err);
}

/* ---- attention ---- */

/* Least number of (head, row) pairs whose keys and values are worth another thread. */
enum { MIN_HEAD_ROWS = 64 };

/* The rows of one sequence in a message. */
struct store_job {
    const struct sp_backend *backend;
    struct sp_kv *kv;
    size_t pos, n, ld;
    const float *k, *v;
};

static void store_heads(void *context, size_t first, size_t n, unsigned worker)
{
    const struct store_job *job = context;

    (void)worker;
    for (size_t h = first; h < first + n; h++) {
        size_t column = h * job->kv->head_dim;
        sp_kv_put_head(job->kv, job->backend->vector, h, job->pos, job->n, job->k + column,
                       job->v + column, job->ld);
    }
}

/* Attention of this rank: where its heads are, and where the rows of its answer go. */
struct attention {
    struct sp_remote_attention_head h;
    struct sp_remote_attention_layout l;
    struct sp_remote_attended answer;
    const uint8_t *message;
    struct sp_head_slice own;  /* kv heads of this rank */
    struct sp_head_slice sent; /* their place among the heads of the message */
    size_t group;              /* query heads of a kv head */
    const float *q, *k, *v;    /* the own heads: [n_rows][ld_q], [n_rows][ld_kv] */
    size_t ld_q, ld_kv;
    float *out; /* [n_rows][ld_out] */
    size_t ld_out;
    const struct sp_acts *coded; /* whose x is out, to be quantized for the answer; NULL: none */
};

static const float *floats_at(const struct attention *a, size_t part, size_t first)
{
    return (const float *)(const void *)(a->message + part) + first;
}

/* The bias of the heads of the message from `head` on. */
static const float *bias_at(const struct attention *a, bool has_bias, size_t part, size_t head)
{
    return has_bias ? floats_at(a, part, head * a->h.head_dim) : NULL;
}

/* Returns the preparation of this rank's heads. */
static struct sp_attention_heads heads_of(const struct sp_cache_service *s,
                                          const struct attention *a)
{
    const struct sp_remote_attention_head *h = &a->h;

    return (struct sp_attention_heads){
        .vector = s->reader->backend->vector,
        .q_bias = bias_at(a, h->has_q_bias, a->l.q_bias, a->sent.first * a->group),
        .k_bias = bias_at(a, h->has_k_bias, a->l.k_bias, a->sent.first),
        .v_bias = bias_at(a, h->has_v_bias, a->l.v_bias, a->sent.first),
        .norm = (enum sp_qk_norm)h->norm,
        .q_norm = h->has_norms ? floats_at(a, a->l.q_norm, 0) : NULL,
        .k_norm = h->has_norms ? floats_at(a, a->l.k_norm, 0) : NULL,
        .eps = h->eps,
        .limit = h->limit,
        .v_norm = h->has_v_norm,
        .head_dim = h->head_dim,
        .n_rot = h->n_rot,
        .cos = floats_at(a, a->l.cos, 0),
        .sin = floats_at(a, a->l.sin, 0),
        .n = (size_t)h->n_rows,
    };
}

/* Query heads precede the kv heads among the items. */
struct prepare_job {
    const struct sp_attention_heads *heads;
    size_t n_queries;
};

static void prepare_items(void *context, size_t first, size_t n, unsigned worker)
{
    const struct prepare_job *job = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++)
        if (i < job->n_queries)
            sp_attention_heads_query(job->heads, i);
        else
            sp_attention_heads_key(job->heads, i - job->n_queries);
}

static void prepare(const struct sp_cache_service *s, const struct attention *a,
                    const struct sp_attention_heads *heads)
{
    struct prepare_job job = {heads, a->own.n * a->group};

    sp_pool_run_ranges(s->reader->backend->pool, job.n_queries + a->own.n,
                       MIN_HEAD_ROWS / (heads->n + 1) + 1, prepare_items, &job);
}

/* Multiplies the rows of q, k and v that make the own heads, in memory behind the answer. */
static enum sp_status multiply(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                               struct sp_err *err)
{
    struct sp_attention_heads job = heads_of(s, a);
    struct sp_remote_job r;
    enum sp_status st = sp_remote_job_read(&r, s->reader, a->message + a->l.products,
                                           (size_t)a->h.products_size, err);

    if (st) return st;
    job.q = r.products[0].y = (float *)(void *)(bytes + a->answer.q);
    job.k = r.products[1].y = (float *)(void *)(bytes + a->answer.k);
    job.v = r.products[2].y = (float *)(void *)(bytes + a->answer.v);
    job.ld_q = r.products[0].ldy = a->answer.cols;
    job.ld_kv = r.products[1].ldy = r.products[2].ldy = a->answer.kv_cols;
    sp_remote_slice_heads(&r.job, a->own, a->h.n_kv_heads);
    sp_product_job_run(&r.job);
    prepare(s, a, &job);
    a->q = job.q;
    a->k = job.k;
    a->v = job.v;
    a->ld_q = job.ld_q;
    a->ld_kv = job.ld_kv;
    return SP_OK;
}

/* Refers to the own heads in the message. */
static void take_heads(struct attention *a)
{
    size_t dim = a->h.head_dim;

    a->ld_q = a->l.n_heads * dim;
    a->ld_kv = a->l.n_kv_heads * dim;
    a->q = floats_at(a, a->l.q, a->sent.first * a->group * dim);
    a->k = floats_at(a, a->l.k, a->sent.first * dim);
    a->v = floats_at(a, a->l.v, a->sent.first * dim);
}

/* Stores and attends for one sequence, whose rows are those of the pass from `first` on. */
static void attend_seq(struct sp_cache_service *s, const struct attention *r, struct sp_kv *kv,
                       const struct sp_remote_seq *seq, size_t first)
{
    const struct sp_backend *backend = s->reader->backend;
    struct store_job store = {.backend = backend,
                              .kv = kv,
                              .pos = (size_t)seq->pos,
                              .n = (size_t)seq->n,
                              .ld = r->ld_kv,
                              .k = r->k + first * r->ld_kv,
                              .v = r->v + first * r->ld_kv};
    const struct sp_attention a = {
        .kv = kv,
        .n_heads = (unsigned)(r->own.n * r->group),
        .scale = r->h.scale,
        .cap = r->h.cap,
        .sinks = r->h.has_sinks ? floats_at(r, r->l.sinks, r->sent.first * r->group) : NULL,
        .q = r->q + first * r->ld_q,
        .ldq = r->ld_q,
        .out = r->out + first * r->ld_out,
        .ld_out = r->ld_out,
        .n_rows = (size_t)seq->n,
        .ranges = (const struct sp_key_range *)(const void *)(r->message + r->l.ranges) + first,
    };

    if (r->h.stores) {
        sp_pool_run_ranges(backend->pool, kv->n_heads, MIN_HEAD_ROWS / (store.n + 1) + 1,
                           store_heads, &store);
    }
    if (r->h.attends) sp_attend(&a, backend->vector, backend->pool, s->scratch);
}

static enum sp_status attend_seqs(struct sp_cache_service *s, const struct attention *a,
                                  struct sp_err *err)
{
    struct sp_remote_seq seq;
    size_t first = 0;

    for (size_t i = 0; i < a->h.n_seqs; i++, first += (size_t)seq.n) {
        struct cache **at;
        memcpy(&seq, a->message + a->l.seqs + i * sizeof seq, sizeof seq);
        at = place_of(s, seq.cache);
        if (*at == NULL) return sp_fail(err, SP_E_BUG, "attention to an unknown cache");
        attend_seq(s, a, &(*at)->kv, &seq, first);
    }
    return SP_OK;
}

/* Sets where attended rows go: to the answer, unless they are quantized for it. */
static enum sp_status place_rows(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                                 struct sp_err *err)
{
    struct sp_acts *acts = NULL;
    enum sp_status st;

    a->out = (float *)(void *)bytes;
    a->ld_out = a->answer.cols;
    if (!a->h.is_coded) return SP_OK;
    if ((st = sp_acts_by_width_find(&s->reader->coded, &acts, (size_t)a->h.n_rows, a->answer.cols,
                                    err)))
        return st;
    a->coded = acts;
    a->out = acts->x;
    a->ld_out = acts->ld;
    return SP_OK;
}

static void put_codes(const struct sp_cache_service *s, const struct attention *a, uint8_t *bytes)
{
    if (a->coded == NULL) return;
    sp_backend_quantize(s->reader->backend, a->coded, (size_t)a->h.n_rows);
    sp_remote_codes_write(bytes, bytes + a->answer.scales, a->coded, (size_t)a->h.n_rows);
}

static enum sp_status attend(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                             struct sp_err *err)
{
    enum sp_status st = place_rows(s, a, bytes, err);

    if (st) return st;
    if (a->h.products_size)
        st = multiply(s, a, bytes, err);
    else
        take_heads(a);
    if (st || (st = attend_seqs(s, a, err))) return st;
    put_codes(s, a, bytes);
    return SP_OK;
}

enum sp_status sp_cache_service_attend(struct sp_cache_service *s, const uint8_t *message,
                                       struct sp_err *err)
{
    struct attention a = {.message = message};
    enum sp_status st;
    uint8_t *bytes;

    memcpy(&a.h, message, sizeof a.h);
    a.l = sp_remote_attention_layout_of(&a.h, s->transport->n_ranks);
    a.own = own_heads(s, a.h.n_kv_heads);
    a.sent = a.own;
    a.sent.first -= a.h.n_kv_heads - (unsigned)a.l.n_kv_heads;
    a.group = a.h.n_heads / a.h.n_kv_heads;
    a.answer = sp_remote_attended_of(&a.h, a.own.n);
    if ((bytes = s->transport->ops->answer(s->transport, a.answer.total + 1)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", a.answer.total);
    if (a.own.n && (st = attend(s, &a, bytes, err))) return st;
    s->transport->ops->reply(s->transport, a.answer.size);
    return SP_OK;
}
