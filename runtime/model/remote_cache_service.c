#include "runtime/model/remote_cache_service.h"

#include "format/base/mem.h"
#include "runtime/model/attention.h"
#include "runtime/model/remote_message.h"

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
    const struct sp_backend *backend;
    struct cache *buckets[N_BUCKETS]; /* by number */
    struct sp_attention_scratch *scratch;
    struct sizes sizes; /* of the scratch */
};

enum sp_status sp_cache_service_open(struct sp_cache_service **out, struct sp_transport *transport,
                                     const struct sp_backend *backend, struct sp_err *err)
{
    enum sp_status st = sp_new(out, 1, sizeof **out, err);

    if (st) return st;
    (*out)->transport = transport;
    (*out)->backend = backend;
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
    for (size_t i = 0; i < N_BUCKETS; i++) {
        while (s->buckets[i])
            remove_cache(&s->buckets[i]);
    }
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
    if ((st = sp_attention_scratch_new(&scratch, sp_pool_n_threads(s->backend->pool), n.heads,
                                       n.head_dim, n.rows, n.positions, err)))
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

    if (answer == NULL) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    }
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
    if (*at == NULL && m.action != SP_REMOTE_CACHE_OPEN && m.action != SP_REMOTE_CACHE_CLOSE) {
        return sp_fail(err, SP_E_BUG, "a message about an unknown cache");
    }
    switch ((enum sp_remote_cache_action)m.action) {
    case SP_REMOTE_CACHE_OPEN:
        status.status = (uint32_t)open_cache(s, at, &m, &failure);
        if (*at) (*at)->kv.n_all_heads = m.shape.n_heads;
        break;
    case SP_REMOTE_CACHE_CLOSE:
        if (*at) remove_cache(at); /* else it did not open */
        break;
    case SP_REMOTE_CACHE_GROW:
        if ((*at)->kv.n_heads) {
            status.status = (uint32_t)sp_kv_grow(&(*at)->kv, (size_t)m.n, &failure);
        }
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

/* What a message holds for this rank. */
struct received {
    struct sp_remote_attention_head h;
    struct sp_remote_attention_layout l;
    const uint8_t *message;
    struct sp_head_slice own; /* kv heads, among those of the message */
    size_t group;
    float *out; /* [n_rows][own.n * group * head_dim] */
};

static const float *floats_at(const struct received *r, size_t part, size_t first)
{
    return (const float *)(const void *)(r->message + part) + first;
}

/* Stores and attends for one sequence, whose rows are those of the message from `first` on. */
static void attend_seq(struct sp_cache_service *s, const struct received *r, struct sp_kv *kv,
                       const struct sp_remote_seq *seq, size_t first)
{
    size_t dim = r->h.head_dim, ld_kv = r->l.n_kv_heads * dim, ld_q = r->l.n_heads * dim;
    size_t at = first * ld_kv + r->own.first * dim, n_heads = r->own.n * r->group;
    struct store_job store = {.backend = s->backend,
                              .kv = kv,
                              .pos = (size_t)seq->pos,
                              .n = (size_t)seq->n,
                              .ld = ld_kv,
                              .k = floats_at(r, r->l.k, at),
                              .v = floats_at(r, r->l.v, at)};
    const struct sp_attention a = {
        .kv = kv,
        .n_heads = (unsigned)n_heads,
        .scale = r->h.scale,
        .cap = r->h.cap,
        .sinks = r->h.has_sinks ? floats_at(r, r->l.sinks, r->own.first * r->group) : NULL,
        .q = floats_at(r, r->l.q, first * ld_q + r->own.first * r->group * dim),
        .ldq = ld_q,
        .out = r->out + first * n_heads * dim,
        .ld_out = n_heads * dim,
        .n_rows = (size_t)seq->n,
        .ranges = (const struct sp_key_range *)(const void *)(r->message + r->l.ranges) + first,
    };

    if (r->h.stores) {
        sp_pool_run_ranges(s->backend->pool, kv->n_heads, MIN_HEAD_ROWS / (store.n + 1) + 1,
                           store_heads, &store);
    }
    if (r->h.attends) sp_attend(&a, s->backend->vector, s->backend->pool, s->scratch);
}

enum sp_status sp_cache_service_attend(struct sp_cache_service *s, const uint8_t *message,
                                       struct sp_err *err)
{
    struct received r = {.message = message};
    struct sp_remote_seq seq;
    size_t size, first = 0;

    memcpy(&r.h, message, sizeof r.h);
    r.l = sp_remote_attention_layout_of(&r.h, s->transport->n_ranks);
    r.own = own_heads(s, r.h.n_kv_heads);
    r.own.first -= r.h.n_kv_heads - (unsigned)r.l.n_kv_heads;
    r.group = r.h.n_heads / r.h.n_kv_heads;
    size = r.h.attends ? (size_t)r.h.n_rows * r.own.n * r.group * r.h.head_dim * sizeof(float) : 0;
    if ((r.out = s->transport->ops->answer(s->transport, size + 1)) == NULL) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    }
    for (size_t i = 0; r.own.n && i < r.h.n_seqs; i++, first += (size_t)seq.n) {
        struct cache **at;
        memcpy(&seq, message + r.l.seqs + i * sizeof seq, sizeof seq);
        at = place_of(s, seq.cache);
        if (*at == NULL) return sp_fail(err, SP_E_BUG, "attention to an unknown cache");
        attend_seq(s, &r, &(*at)->kv, &seq, first);
    }
    s->transport->ops->reply(s->transport, size);
    return SP_OK;
}
