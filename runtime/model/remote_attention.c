#include "runtime/model/remote_attention.h"

#include "format/base/clock.h"
#include "runtime/backend/remote_message.h"
#include "runtime/backend/remote_products.h"
#include "runtime/model/decoder_internal.h"

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
    struct sp_remote_attention_head h = {
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
        .is_coded = a->attends && a->ws->heads.coded,
    };

    if (a->products == NULL) return h;
    h.norm = (uint32_t)a->heads->norm;
    h.has_q_bias = l->q_bias != NULL;
    h.has_k_bias = l->k_bias != NULL;
    h.has_v_bias = l->v_bias != NULL;
    h.has_norms = l->q_norm != NULL;
    h.has_v_norm = a->heads->v_norm;
    h.n_rot = (uint32_t)a->heads->n_rot;
    h.eps = a->heads->eps;
    h.limit = a->heads->limit;
    h.products_size = sp_remote_job_size(a->products, a->n);
    return h;
}

/* Observers and adapters read the rows of floats. */
static bool needs_floats(const struct sp_backend *backend)
{
    return backend->observer.observe || *backend->lora;
}

bool sp_remote_attention_makes_codes(const struct sp_remote_attention *a)
{
    const struct sp_layer *l = &a->ws->model->layers[a->layer];
    const struct sp_kv *kv = cache_of(a);
    size_t group = l->config->n_heads / kv->n_all_heads;

    return kv->ranks && group * kv->head_dim % SP_BLOCK == 0 && l->output_gate.rows == 0 &&
           sp_kernels_want_codes(l->o.dtype) && !needs_floats(a->ws->backend);
}

/* Norms over all heads, norms of each head's own, output gates, scales by position and adapters
 * need more than a rank receives. */
bool sp_remote_attention_can_multiply(const struct sp_remote_attention *a,
                                      const struct sp_product_job *products)
{
    const struct sp_layer *l = &a->ws->model->layers[a->layer];
    const struct sp_config *c = &a->ws->model->config;
    const struct sp_kv *kv = cache_of(a);

    if (kv->ranks == NULL || kv->n_all_heads % kv->ranks->transport->n_ranks) return false;
    if (c->qk_norm == SP_QK_WHOLE || c->qk_norm == SP_QK_OWN || c->query_growth != 0) return false;
    if (l->k.rows == 0 || l->v.rows == 0 || l->output_gate.rows) return false;
    if (kv->head_dim % SP_PANEL_ROWS || (l->q_norm == NULL) != (l->k_norm == NULL)) return false;
    for (size_t i = 0; i < products->n_products; i++)
        if (!sp_ranks_have(kv->ranks, products->products[i].w)) return false;
    return !needs_floats(a->ws->backend);
}

bool sp_remote_attention_wants_codes(const struct sp_product_job *products)
{
    for (size_t i = 0; i < products->n_products; i++)
        if (sp_kernels_want_codes(products->products[i].w->dtype)) return true;
    return false;
}

unsigned sp_remote_attention_slice(const struct sp_remote_attention *a,
                                   struct sp_product_job *products)
{
    const struct sp_kv *kv = cache_of(a);
    struct sp_head_slice own = {0, kv->n_heads};

    sp_remote_slice_heads(products, own, kv->n_all_heads);
    return own.n;
}

/* Copies the last n columns of all rows, of which `all` are used. */
static void put_columns(uint8_t *to, const struct sp_remote_attention *a, const float *from,
                        size_t ld, size_t all, size_t n)
{
    for (size_t t = 0; t < a->n; t++, to += n * sizeof(float))
        memcpy(to, from + t * ld + all - n, n * sizeof(float));
}

static void put_floats(uint8_t *to, const float *from, size_t n)
{
    if (n && from) memcpy(to, from, n * sizeof *from);
}

/* Writes the rotations, norms and biases that a rank prepares its heads with. */
static void put_products(uint8_t *message, const struct sp_remote_attention *a,
                         const struct sp_remote_attention_head *h,
                         const struct sp_remote_attention_layout *l)
{
    const struct sp_layer *layer = &a->ws->model->layers[a->layer];
    size_t dim = h->head_dim, n_q = l->n_heads * dim, n_kv = l->n_kv_heads * dim;
    size_t q = h->n_heads * dim - n_q, kv = h->n_kv_heads * dim - n_kv;

    put_floats(message + l->cos, a->heads->cos, a->n * (h->n_rot / 2));
    put_floats(message + l->sin, a->heads->sin, a->n * (h->n_rot / 2));
    put_floats(message + l->q_norm, layer->q_norm, dim);
    put_floats(message + l->k_norm, layer->k_norm, dim);
    if (h->has_q_bias) put_floats(message + l->q_bias, layer->q_bias + q, n_q);
    if (h->has_k_bias) put_floats(message + l->k_bias, layer->k_bias + kv, n_kv);
    if (h->has_v_bias) put_floats(message + l->v_bias, layer->v_bias + kv, n_kv);
    sp_remote_job_write(message + l->products, cache_of(a)->ranks, a->products, a->n);
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
    if (a->attends) memcpy(message + l->ranges, ws->ranges, a->n * sizeof *ws->ranges);
    if (h->has_sinks)
        memcpy(message + l->sinks, sinks + h->n_heads - l->n_heads, l->n_heads * sizeof *sinks);
    if (a->products) {
        put_products(message, a, h, l);
        return;
    }
    if (a->attends) put_columns(message + l->q, a, ws->q, ws->ld_q, h->n_heads * dim, n_q);
    if (!a->stores) return;
    put_columns(message + l->k, a, ws->k, ws->ld_kv, h->n_kv_heads * dim, n_kv);
    put_columns(message + l->v, a, ws->v, ws->ld_kv, h->n_kv_heads * dim, n_kv);
}

static bool send(struct sp_ranks *ranks, struct sp_remote_attention *a)
{
    struct sp_transport *t = ranks->transport;
    const struct sp_remote_attention_head h = head_of(a);
    const struct sp_remote_attention_layout l = sp_remote_attention_layout_of(&h, t->n_ranks);
    unsigned most = sp_remote_heads(h.n_kv_heads, 0, t->n_ranks).n;
    uint8_t *message = t->ops->message(t, l.size);

    if (message == NULL) return false;
    fill_message(message, a, &h, &l);
    if (!t->ops->send(t, l.size, sp_remote_attended_of(&h, most).total)) return false;
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

/* Copies the rows of a rank, or their codes, to the columns of ws->heads from `first` on. */
static void copy_rows(const struct sp_remote_attention *a, const struct sp_remote_attended *l,
                      const uint8_t *answer, size_t first)
{
    const struct sp_acts *heads = &a->ws->heads;
    size_t row = l->cols * (heads->coded ? 1 : sizeof(float));
    size_t scales = l->cols / SP_BLOCK * sizeof(float);

    for (size_t t = 0; t < a->n; t++, answer += row) {
        if (!heads->coded) {
            memcpy(heads->x + t * heads->ld + first, answer, row);
            continue;
        }
        memcpy(heads->q + t * heads->ld + first, answer, row);
        memcpy(heads->scale + t * heads->ld_block + first / SP_BLOCK,
               answer + l->scales - t * row + t * scales, scales);
    }
}

/* Receives the rows of a rank. */
static bool receive(struct sp_ranks *ranks, const struct sp_remote_attention *a, unsigned rank)
{
    const struct sp_remote_attention_head h = head_of(a);
    struct sp_head_slice slice = sp_remote_heads(h.n_kv_heads, rank, ranks->transport->n_ranks);
    const struct sp_remote_attended l = sp_remote_attended_of(&h, slice.n);
    const uint8_t *answer = ranks->transport->ops->receive(ranks->transport, rank, l.size);

    if (answer == NULL) return false;
    if (l.size) copy_rows(a, &l, answer, slice.first * (h.n_heads / h.n_kv_heads) * h.head_dim);
    ranks->traffic.received += l.size;
    return true;
}

static void set_starts(void *context, size_t t, unsigned worker)
{
    (void)worker;
    sp_acts_set_starts(context, t);
}

/* Computes the codes of the columns of rank 0. */
static void code_own(const struct sp_remote_attention *a)
{
    const struct sp_remote_attention_head h = head_of(a);
    struct sp_acts own = a->ws->heads;

    own.cols = sp_remote_attended_of(&h, cache_of(a)->n_heads).cols;
    sp_backend_quantize(a->ws->backend, &own, a->n);
}

void sp_remote_attention_receive(struct sp_remote_attention *a)
{
    struct sp_ranks *ranks = cache_of(a)->ranks;
    bool is_coded = a->attends && a->ws->heads.coded;
    double start, end;

    if (!a->is_sent) return;
    if (is_coded) code_own(a);
    start = sp_seconds();
    for (unsigned rank = 1; rank < ranks->transport->n_ranks; rank++) {
        if (receive(ranks, a, rank)) continue;
        sp_ranks_lose(ranks, "a rank is lost");
        break;
    }
    if (is_coded) sp_backend_rows(a->ws->backend, a->n, set_starts, &a->ws->heads);
    end = sp_seconds();
    ranks->traffic.seconds += end - start;
    ranks->traffic.product_seconds += end - a->start;
    pthread_mutex_unlock(&ranks->lock);
}
