#include "runtime/model/remote_attention.h"

#include "format/base/clock.h"
#include "runtime/model/decoder_internal.h"
#include "runtime/model/remote_message.h"
#include "runtime/model/remote_products.h"

#include <string.h>

/* The cache of the layer in the first sequence; those of the others have the same shape. */
static const struct sp_kv *cache_of(const struct sp_remote_attention *a)
{
    return a->ws->seqs[0].decoder->keys[a->layer];
}

static struct sp_remote_attention_head head_of(const struct sp_remote_attention *a)
{
    const struct sp_kv *kv = cache_of(a);
    const struct sp_layer *l = &a->ws->model->layers[a->layer];

    return (struct sp_remote_attention_head){
        .kind = SP_MESSAGE_ATTENTION,
        .n_seqs = (uint32_t)a->ws->n_seqs,
        .stores = a->stores,
        .attends = a->attends,
        .n_heads = l->config->n_heads,
        .n_kv_heads = kv->n_all_heads,
        .head_dim = kv->head_dim,
        .has_sinks = a->attends && l->sinks,
        .n_rows = a->n,
        .scale = (float)a->ws->model->config.attention_scale,
        .cap = (float)a->ws->model->config.attention_cap,
    };
}

/* Copies the last n columns of all rows, of which `all` are used. */
static void put_columns(uint8_t *to, const struct sp_remote_attention *a, const float *from,
                        size_t ld, size_t all, size_t n)
{
    for (size_t t = 0; t < a->n; t++, to += n * sizeof(float))
        memcpy(to, from + t * ld + all - n, n * sizeof(float));
}

static void fill_message(uint8_t *message, const struct sp_remote_attention *a,
                         const struct sp_remote_attention_head *h,
                         const struct sp_remote_attention_layout *l)
{
    const struct sp_workspace *ws = a->ws;
    const float *sinks = ws->model->layers[a->layer].sinks;
    size_t dim = h->head_dim, n_q = l->n_heads * dim, n_kv = l->n_kv_heads * dim;

    memcpy(message, h, sizeof *h);
    for (size_t i = 0; i < ws->n_seqs; i++) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        const struct sp_remote_seq s = {seq->decoder->keys[a->layer]->number, seq->pos, seq->n};
        memcpy(message + l->seqs + i * sizeof s, &s, sizeof s);
    }
    if (a->attends) {
        memcpy(message + l->ranges, ws->ranges, a->n * sizeof *ws->ranges);
        put_columns(message + l->q, a, ws->q, ws->ld_q, h->n_heads * dim, n_q);
    }
    if (h->has_sinks) {
        memcpy(message + l->sinks, sinks + h->n_heads - l->n_heads, l->n_heads * sizeof *sinks);
    }
    if (!a->stores) return;
    put_columns(message + l->k, a, ws->k, ws->ld_kv, h->n_kv_heads * dim, n_kv);
    put_columns(message + l->v, a, ws->v, ws->ld_kv, h->n_kv_heads * dim, n_kv);
}

/* Columns of a rank in a row of the attention output. */
static size_t columns_of(const struct sp_remote_attention_head *h, unsigned n_kv_heads)
{
    return (size_t)n_kv_heads * (h->n_heads / h->n_kv_heads) * h->head_dim;
}

static bool send(struct sp_ranks *ranks, struct sp_remote_attention *a)
{
    struct sp_transport *t = ranks->transport;
    const struct sp_remote_attention_head h = head_of(a);
    const struct sp_remote_attention_layout l = sp_remote_attention_layout_of(&h, t->n_ranks);
    size_t most = columns_of(&h, sp_remote_heads(h.n_kv_heads, 0, t->n_ranks).n);
    uint8_t *message = t->ops->message(t, l.size);

    if (message == NULL) return false;
    fill_message(message, a, &h, &l);
    if (!t->ops->send(t, l.size, a->attends ? a->n * most * sizeof(float) : 0)) return false;
    ranks->traffic.n_messages++;
    ranks->traffic.sent += l.size * (t->n_ranks - 1);
    return true;
}

void sp_remote_attention_send(struct sp_remote_attention *a)
{
    struct sp_ranks *ranks = cache_of(a)->ranks;

    if (ranks == NULL) return;
    pthread_mutex_lock(&ranks->lock);
    a->start = sp_seconds();
    a->is_sent = !ranks->is_lost && send(ranks, a);
    if (a->is_sent) {
        ranks->traffic.seconds += sp_seconds() - a->start;
        return;
    }
    sp_ranks_lose(ranks, "out of memory: the rows of a pass for the ranks");
    pthread_mutex_unlock(&ranks->lock);
}

/* Receives the rows of a rank. */
static bool receive(struct sp_ranks *ranks, const struct sp_remote_attention *a, unsigned rank)
{
    const struct sp_remote_attention_head h = head_of(a);
    struct sp_head_slice slice = sp_remote_heads(h.n_kv_heads, rank, ranks->transport->n_ranks);
    size_t n = a->attends ? columns_of(&h, slice.n) * sizeof(float) : 0;
    const uint8_t *rows = ranks->transport->ops->receive(ranks->transport, rank, a->n * n);
    float *to = a->ws->heads.x + columns_of(&h, slice.first);

    if (rows == NULL) return false;
    for (size_t t = 0; n && t < a->n; t++)
        memcpy(to + t * a->ws->heads.ld, rows + t * n, n);
    ranks->traffic.received += a->n * n;
    return true;
}

void sp_remote_attention_receive(struct sp_remote_attention *a)
{
    struct sp_ranks *ranks = cache_of(a)->ranks;
    double start = sp_seconds(), end;

    if (!a->is_sent) return;
    for (unsigned rank = 1; rank < ranks->transport->n_ranks; rank++) {
        if (receive(ranks, a, rank)) continue;
        sp_ranks_lose(ranks, "a rank is lost");
        break;
    }
    end = sp_seconds();
    ranks->traffic.seconds += end - start;
    ranks->traffic.product_seconds += end - a->start;
    pthread_mutex_unlock(&ranks->lock);
}
