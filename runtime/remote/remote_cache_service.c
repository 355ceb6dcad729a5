#include "runtime/remote/remote_service.h"

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
    struct sp_arena memory;           /* of the next members */
    struct sp_attention_scratch *scratch;
    struct sp_attention_seq *seqs; /* [sizes.rows] of a message */
    struct sizes sizes;            /* of the scratch */
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
    sp_arena_release(&s->memory);
    free(s);
}

static struct sp_head_slice own_heads(const struct sp_cache_service *s, unsigned n_heads)
{
    return sp_remote_heads(n_heads, s->transport->rank, s->transport->n_ranks);
}

/* ---- caches ---- */

/* Replaces the scratch if it is too small for a cache's attention. */
static enum sp_status grow_scratch(struct sp_cache_service *s, const struct sp_kv_options *o,
                                   struct sp_err *err)
{
    struct sp_arena memory = {0};
    struct sp_attention_scratch *scratch;
    struct sp_attention_seq *seqs;
    struct sizes n = s->sizes;
    enum sp_status st;

    if (o->n_query_heads > n.heads) n.heads = o->n_query_heads;
    if (o->shape.head_dim > n.head_dim) n.head_dim = o->shape.head_dim;
    if (o->max_rows > n.rows) n.rows = o->max_rows;
    if (o->n_positions > n.positions) n.positions = o->n_positions;
    if (s->scratch && memcmp(&n, &s->sizes, sizeof n) == 0) return SP_OK;
    seqs = sp_arena_new(&memory, n.rows, sizeof *seqs);
    scratch = sp_attention_scratch_new(&memory, sp_pool_n_threads(s->reader->backend->pool),
                                       n.heads, n.head_dim, n.rows, n.positions);
    if ((st = sp_arena_check(&memory, err))) {
        sp_arena_release(&memory);
        return st;
    }
    sp_arena_release(&s->memory);
    s->memory = memory;
    s->scratch = scratch;
    s->seqs = seqs;
    s->sizes = n;
    return SP_OK;
}

static enum sp_status open_cache(struct sp_cache_service *s, struct cache **at,
                                 const struct sp_remote_cache_message *m, struct sp_err *err)
{
    const struct sp_kv_options *o = &m->options;
    struct sp_kv_shape shape = o->shape;
    struct cache *cache = NULL;
    enum sp_status st;

    shape.n_heads = own_heads(s, shape.n_heads).n;
    if ((st = grow_scratch(s, o, err)) || (st = sp_new(&cache, 1, sizeof *cache, err))) return st;
    cache->number = m->number;
    *at = cache;
    if (shape.n_heads == 0) return SP_OK;
    return sp_kv_init(&cache->kv, o->type, shape, o->n_positions, o->window, o->max_rows, err);
}

static void write_span(const struct sp_cache_service *s, struct sp_kv *kv,
                       const struct sp_remote_cache_message *m, const uint8_t *bytes)
{
    size_t size;
    uint8_t *to = sp_kv_span(kv, (size_t)m->n, m->is_value, &size);

    if (size == 0) return;
    memcpy(to, bytes + own_heads(s, kv->n_all_heads).first * (size / kv->n_heads), size);
}

enum sp_status sp_cache_service_act(struct sp_cache_service *s, const uint8_t *message,
                                    struct sp_err *err)
{
    struct sp_remote_cache_message m;
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
        failure.status = open_cache(s, at, &m, &failure);
        if (*at) (*at)->kv.n_all_heads = m.options.shape.n_heads;
        break;
    case SP_REMOTE_CACHE_CLOSE:
        if (*at) remove_cache(at); /* NULL: the cache did not open */
        break;
    case SP_REMOTE_CACHE_GROW:
        if ((*at)->kv.n_heads) failure.status = sp_kv_grow(&(*at)->kv, (size_t)m.n, &failure);
        break;
    case SP_REMOTE_CACHE_SHRINK:
        if ((*at)->kv.n_heads) sp_kv_shrink(&(*at)->kv, (size_t)m.n);
        break;
    case SP_REMOTE_CACHE_READ:
        span = sp_kv_span(&(*at)->kv, (size_t)m.n, m.is_value, &size);
        return sp_rank_answer(s->transport, span, size, err);
    case SP_REMOTE_CACHE_WRITE:
        write_span(s, &(*at)->kv, &m, message + SP_REMOTE_CACHE_BYTES);
        break;
    }
    return sp_rank_answer_status(s->transport, &failure, err);
}

/* ---- attention ---- */

/* Attention of this rank: its heads, and their place in the message and the answer. */
struct attention {
    struct sp_attention_job job;
    struct sp_remote_attention_head h;
    struct sp_remote_attention_parts from;
    struct sp_remote_attended answer;
    struct sp_head_slice own; /* kv heads of this rank */
    size_t first;             /* of these among the kv heads of the message */
    size_t group;             /* query heads of a kv head */
    struct sp_acts rows;      /* of the answer: codes or floats */
};

/* The bias of the own heads, of which there are `group` for a kv head. */
static const float *own_bias(const struct attention *a, const float *bias, size_t group)
{
    return bias + a->first * group * a->h.head_dim;
}

/* Multiplies the rows of q, k and v that make the own heads, in memory behind the answer. Returns
 * how these are prepared. */
static enum sp_status make_heads(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                                 struct sp_err *err)
{
    const struct sp_remote_attention_head *h = &a->h;
    struct sp_attention_heads *heads = &a->job.heads;
    struct sp_received_job r;
    enum sp_status st =
        sp_received_job_read(&r, s->reader, a->from.products, (size_t)h->products_size, err);

    if (st) return st;
    heads->q = r.products[0].y = (float *)(void *)(bytes + a->answer.q);
    heads->k = r.products[1].y = (float *)(void *)(bytes + a->answer.k);
    heads->v = r.products[2].y = (float *)(void *)(bytes + a->answer.v);
    heads->ld_q = r.products[0].ldy = a->answer.cols;
    heads->ld_kv = r.products[1].ldy = r.products[2].ldy = a->answer.kv_cols;
    if (h->has_q_bias) heads->q_bias = own_bias(a, a->from.q_bias, a->group);
    if (h->has_k_bias) heads->k_bias = own_bias(a, a->from.k_bias, 1);
    if (h->has_v_bias) heads->v_bias = own_bias(a, a->from.v_bias, 1);
    heads->norm = (enum sp_qk_norm)h->norm;
    heads->q_norm = h->has_norms ? a->from.q_norm : NULL;
    heads->k_norm = h->has_norms ? a->from.k_norm : NULL;
    heads->eps = h->eps;
    heads->limit = h->limit;
    heads->v_norm = h->has_v_norm;
    heads->n_rot = h->n_rot;
    heads->cos = a->from.cos;
    heads->sin = a->from.sin;
    sp_remote_slice_heads(&r.shared.job, a->own, h->n_kv_heads);
    sp_remote_job_run(&r.shared.job, s->reader->pages);
    return SP_OK;
}

/* Refers to the own heads in the message. They are prepared, so nothing is left to do on them. */
static void take_heads(struct attention *a)
{
    struct sp_attention_heads *heads = &a->job.heads;
    size_t dim = a->h.head_dim;

    heads->ld_q = a->from.n_heads * dim;
    heads->ld_kv = a->from.n_kv_heads * dim;
    if (a->h.attends) heads->q = a->from.q + a->first * a->group * dim;
    if (!a->h.stores) return;
    heads->k = a->from.k + a->first * dim;
    heads->v = a->from.v + a->first * dim;
}

static enum sp_status find_caches(struct sp_cache_service *s, const struct attention *a,
                                  struct sp_err *err)
{
    for (size_t i = 0; i < a->h.n_seqs; i++) {
        const struct sp_remote_seq *seq = &a->from.seqs[i];
        struct cache **at = place_of(s, seq->cache);
        if (*at == NULL) return sp_fail(err, SP_E_BUG, "attention to an unknown cache");
        s->seqs[i] = (struct sp_attention_seq){&(*at)->kv, (size_t)seq->pos, (size_t)seq->n};
    }
    return SP_OK;
}

/* Sets where attended rows go: to the answer, unless they are quantized for it. */
static enum sp_status place_rows(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                                 struct sp_err *err)
{
    a->rows = sp_remote_rows_at(bytes, bytes + a->answer.scales, bytes, a->answer.cols);
    a->job.out = a->h.is_coded ? &s->reader->coded.acts : &a->rows;
    if (!a->h.is_coded) return SP_OK;
    return sp_acts_buffer_reserve(&s->reader->coded, (size_t)a->h.n_rows, a->answer.cols, err);
}

static enum sp_status attend(struct sp_cache_service *s, struct attention *a, uint8_t *bytes,
                             struct sp_err *err)
{
    bool makes = a->h.products_size != 0;
    enum sp_status st;

    if ((st = place_rows(s, a, bytes, err)) || (st = find_caches(s, a, err))) return st;
    if (makes && (st = make_heads(s, a, bytes, err))) return st;
    if (!makes) take_heads(a);
    sp_attention_job_prepare(&a->job, makes ? a->own.n * a->group : 0, a->h.stores ? a->own.n : 0);
    if (a->h.attends) sp_attention_job_attend(&a->job);
    if (!a->h.is_coded) return SP_OK;
    sp_backend_quantize(s->reader->backend, a->job.out, a->job.heads.n);
    sp_remote_rows_copy(&a->rows, a->job.out, a->job.heads.n, true, false);
    return SP_OK;
}

/* Sets the job but for its heads and rows. */
static void begin_job(const struct sp_cache_service *s, struct attention *a)
{
    const struct sp_remote_attention_head *h = &a->h;
    const struct sp_backend *backend = s->reader->backend;

    a->job = (struct sp_attention_job){
        .backend = backend,
        .heads = {.vector = backend->vector,
                  .head_dim = h->head_dim,
                  .value_dim = h->head_dim,
                  .v_scale = 1,
                  .n = (size_t)h->n_rows},
        .n_heads = h->n_heads,
        .n_kv_heads = h->n_kv_heads,
        .stores = h->stores,
        .seqs = s->seqs,
        .n_seqs = h->n_seqs,
        .ranges = a->from.ranges,
        .attention = {.scale = h->scale,
                      .cap = h->cap,
                      .sinks = h->has_sinks ? a->from.sinks + a->first * a->group : NULL},
        .scratch = s->scratch,
    };
}

enum sp_status sp_cache_service_attend(struct sp_cache_service *s, void *message,
                                       struct sp_err *err)
{
    struct attention a = {0};
    enum sp_status st;
    uint8_t *bytes;

    memcpy(&a.h, message, sizeof a.h);
    a.from = sp_remote_attention_parts_of(&a.h, s->transport->n_ranks, message);
    a.own = own_heads(s, a.h.n_kv_heads);
    a.first = a.own.first - (a.h.n_kv_heads - a.from.n_kv_heads);
    a.group = a.h.n_heads / a.h.n_kv_heads;
    a.answer = sp_remote_attended_of(&a.h, a.own.n);
    begin_job(s, &a);
    if ((bytes = s->transport->ops->buffer(s->transport, a.answer.total + 1)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", a.answer.total);
    if (a.own.n && (st = attend(s, &a, bytes, err))) return st;
    s->transport->ops->reply(s->transport, a.answer.size);
    return SP_OK;
}
