/* Attention over caches whose heads are divided among ranks: rank 0.
 *
 * Each rank stores the keys and values of its heads and attends for the query heads that read them,
 * in the order of additions of one process; rank 0 receives the rows. If the heads divide evenly, a
 * rank also multiplies the rows of q, k and v that make its heads, and prepares them: rank 0 then
 * sends the input of these products, and what the heads need. Otherwise rank 0 sends q, k and v of
 * other ranks' heads. */
#include "runtime/remote/remote_ops.h"

#include "format/base/clock.h"

#include <string.h>

/* One exchange: a job, the products that make q, k and v on each rank (NULL: q, k and v are sent),
 * and the head of its message. */
struct exchange {
    struct sp_ranks *ranks;
    const struct sp_attention_job *job;
    const struct sp_remote_job *products;
    struct sp_remote_attention_head h;
    double start;
};

/* True if each rank can multiply what makes its heads. Norms over all heads, norms of each head's
 * own, output gates, scales by position, observers and adapters need more than a rank receives. */
static bool can_multiply(const struct sp_ranks *ranks, const struct sp_attention_job *job)
{
    const struct sp_attention_heads *h = &job->heads;
    const struct sp_product *p = job->products;
    const struct sp_kv *kv = job->seqs->kv;

    if (kv->n_all_heads % ranks->transport->n_ranks || kv->head_dim % SP_PANEL_ROWS) return false;
    if (job->n_products != 3 || p[0].y != h->q || p[1].y != h->k || p[2].y != h->v) return false;
    if (h->norm == SP_QK_WHOLE || h->norm == SP_QK_OWN || h->growth.beta != 0) return false;
    if (h->q_scales || h->q_norm_bias) return false;
    if ((h->q_norm == NULL) != (h->k_norm == NULL)) return false;
    for (size_t i = 0; i < job->n_products; i++)
        if (!sp_ranks_have(ranks, p[i].w)) return false;
    return !job->backend->observer.observe && *job->backend->lora == NULL;
}

static struct sp_remote_attention_head head_of(const struct sp_attention_job *job,
                                               const struct sp_remote_job *products)
{
    const struct sp_kv *kv = job->seqs->kv;
    const struct sp_attention_heads *a = &job->heads;
    bool attends = job->ranges != NULL;
    size_t own_cols = job->n_heads / kv->n_all_heads * kv->head_dim;
    struct sp_remote_attention_head h = {
        .kind = SP_MESSAGE_ATTENTION,
        .n_seqs = (uint32_t)job->n_seqs,
        .stores = job->stores,
        .attends = attends,
        .n_heads = job->n_heads,
        .n_kv_heads = kv->n_all_heads,
        .head_dim = kv->head_dim,
        .has_sinks = attends && job->attention.sinks,
        .n_rows = a->n,
        .scale = job->attention.scale,
        .cap = job->attention.cap,
        .is_coded = attends && job->out->coded && own_cols % SP_BLOCK == 0,
    };

    if (products == NULL) return h;
    h.norm = (uint32_t)a->norm;
    h.has_q_bias = job->products[0].bias != NULL;
    h.has_k_bias = job->products[1].bias != NULL;
    h.has_v_bias = job->products[2].bias != NULL;
    h.has_norms = a->q_norm != NULL;
    h.has_v_norm = a->v_norm;
    h.n_rot = (uint32_t)a->n_rot;
    h.eps = a->eps;
    h.limit = a->limit;
    h.products_size = sp_remote_job_size(products);
    return h;
}

/* ---- messages ---- */

/* Copies the last n columns of n_rows rows, of which `all` are used. */
static void put_columns(float *to, const float *from, size_t ld, size_t all, size_t n,
                        size_t n_rows)
{
    for (size_t t = 0; t < n_rows; t++)
        memcpy(to + t * n, from + t * ld + all - n, n * sizeof *to);
}

static void put_floats(float *to, const float *from, size_t n)
{
    if (n && from) memcpy(to, from, n * sizeof *from);
}

/* The last n elements of a bias. */
static void put_bias(float *to, const struct sp_product *p, size_t n)
{
    if (p->bias) put_floats(to, p->bias + p->w->rows - n, n);
}

/* Writes the rotations, norms and biases that a rank prepares its heads with. */
static void put_products(const struct sp_remote_attention_parts *to, const struct exchange *x)
{
    const struct sp_attention_heads *a = &x->job->heads;
    size_t dim = a->head_dim, n_kv = to->n_kv_heads * dim;

    put_floats(to->cos, a->cos, a->n * (a->n_rot / 2));
    put_floats(to->sin, a->sin, a->n * (a->n_rot / 2));
    put_floats(to->q_norm, a->q_norm, dim);
    put_floats(to->k_norm, a->k_norm, dim);
    put_bias(to->q_bias, &x->job->products[0], to->n_heads * dim);
    put_bias(to->k_bias, &x->job->products[1], n_kv);
    put_bias(to->v_bias, &x->job->products[2], n_kv);
    sp_remote_job_write(to->products, x->ranks, x->products);
}

static void fill_message(void *message, const struct exchange *x)
{
    const struct sp_attention_job *job = x->job;
    const struct sp_attention_heads *a = &job->heads;
    const struct sp_remote_attention_head *h = &x->h;
    const struct sp_remote_attention_parts to =
        sp_remote_attention_parts_of(h, x->ranks->transport->n_ranks, message);
    size_t dim = h->head_dim, n_kv = to.n_kv_heads * dim;

    memcpy(message, h, sizeof *h);
    for (size_t i = 0; i < job->n_seqs; i++) {
        const struct sp_attention_seq *seq = &job->seqs[i];
        to.seqs[i] = (struct sp_remote_seq){seq->kv->number, seq->pos, seq->n};
    }
    if (h->attends) memcpy(to.ranges, job->ranges, a->n * sizeof *job->ranges);
    if (h->has_sinks)
        put_floats(to.sinks, job->attention.sinks + h->n_heads - to.n_heads, to.n_heads);
    if (x->products) {
        put_products(&to, x);
        return;
    }
    if (h->attends) put_columns(to.q, a->q, a->ld_q, h->n_heads * dim, to.n_heads * dim, a->n);
    if (!h->stores) return;
    put_columns(to.k, a->k, a->ld_kv, h->n_kv_heads * dim, n_kv, a->n);
    put_columns(to.v, a->v, a->ld_kv, h->n_kv_heads * dim, n_kv, a->n);
}

static bool send(struct exchange *x)
{
    struct sp_transport *t = x->ranks->transport;
    size_t size = sp_remote_attention_parts_of(&x->h, t->n_ranks, NULL).size;
    unsigned most = sp_remote_heads(x->h.n_kv_heads, 0, t->n_ranks).n;
    void *message = t->ops->buffer(t, size);

    if (message == NULL) return false;
    fill_message(message, x);
    return sp_ranks_send(x->ranks, size, sp_remote_attended_of(&x->h, most).total);
}

/* ---- answers ---- */

/* Receives the columns of a rank: floats, or codes and scales. */
static bool receive_rank(const struct exchange *x, unsigned rank)
{
    struct sp_head_slice slice =
        sp_remote_heads(x->h.n_kv_heads, rank, x->ranks->transport->n_ranks);
    const struct sp_remote_attended l = sp_remote_attended_of(&x->h, slice.n);
    uint8_t *answer = sp_ranks_receive(x->ranks, rank, l.size);
    size_t first = slice.first * (x->h.n_heads / x->h.n_kv_heads) * x->h.head_dim;
    struct sp_acts to = *x->job->out, from;

    if (answer == NULL) return false;
    if (l.size == 0) return true;
    from = sp_remote_rows_at(answer, answer + l.scales, answer, l.cols);
    to.cols = l.cols;
    to.x += first;
    to.q += first;
    to.scale += first / SP_BLOCK;
    sp_remote_rows_copy(&to, &from, (size_t)x->h.n_rows, x->h.is_coded, !x->h.is_coded);
    return true;
}

/* Receives the columns of other ranks, and completes the codes of all. */
static void receive(const struct exchange *x)
{
    const struct sp_attention_job *job = x->job;
    size_t own = sp_remote_attended_of(&x->h, job->seqs->kv->n_heads).cols;
    double start, end;

    if (x->h.is_coded) sp_remote_codes_own(job->backend, job->out, own, job->heads.n);
    start = sp_seconds();
    for (unsigned rank = 1; rank < x->ranks->transport->n_ranks; rank++) {
        if (receive_rank(x, rank)) continue;
        sp_ranks_lose(x->ranks, "a rank is lost");
        break;
    }
    if (x->h.is_coded)
        sp_remote_codes_finish(job->backend, job->out, job->heads.n);
    else if (x->h.attends && job->out->coded)
        sp_backend_quantize(job->backend, job->out, job->heads.n);
    end = sp_seconds();
    x->ranks->traffic.seconds += end - start;
    x->ranks->traffic.product_seconds += end - x->start;
}

/* ---- jobs ---- */

/* Makes the heads of this rank from the input of the products, as other ranks do theirs. */
static void make_own(const struct exchange *x)
{
    const struct sp_kv *kv = x->job->seqs->kv;
    struct sp_product_job own = x->products->job;

    sp_remote_slice_heads(&own, (struct sp_head_slice){0, kv->n_heads}, kv->n_all_heads);
    sp_remote_job_run(&own, x->ranks->pages);
    sp_attention_job_prepare(x->job, x->job->n_heads / kv->n_all_heads * kv->n_heads, kv->n_heads);
}

/* Has each rank attend with its heads. */
static void attend(struct exchange *x)
{
    struct sp_ranks *ranks = x->ranks;
    bool is_sent;

    x->h = head_of(x->job, x->products);
    pthread_mutex_lock(&ranks->lock);
    x->start = sp_seconds();
    is_sent = !ranks->remote.lost && send(x);
    if (is_sent)
        ranks->traffic.seconds += sp_seconds() - x->start;
    else
        sp_ranks_lose(ranks, "out of memory: the rows of a pass for the ranks");
    if (x->products) make_own(x);
    if (x->job->ranges) sp_attention_job_attend(x->job);
    if (is_sent) receive(x);
    pthread_mutex_unlock(&ranks->lock);
}

bool sp_remote_attend(struct sp_remote *remote, const struct sp_attention_job *job)
{
    struct sp_ranks *ranks = sp_ranks_of(remote);
    struct exchange x = {.ranks = ranks, .job = job};
    const struct sp_row_group rows = {.n = job->heads.n};
    const struct sp_remote_job products = {.job = {.backend = job->backend,
                                                   .products = job->products,
                                                   .n_products = job->n_products,
                                                   .acts = job->acts,
                                                   .n_rows = job->heads.n,
                                                   .groups = &rows,
                                                   .n_groups = 1}};
    bool wants_codes = false;

    if (job->seqs->kv->remote == NULL) return false;
    if (can_multiply(ranks, job)) {
        x.products = &products;
        for (size_t i = 0; i < job->n_products; i++)
            wants_codes = wants_codes || sp_dtype_is_block(job->products[i].w->dtype);
        if (wants_codes && !job->acts->coded)
            sp_backend_quantize(job->backend, job->acts, job->heads.n);
    } else {
        sp_backend_multiply(job->backend, job->products, job->n_products, job->acts, job->heads.n);
        sp_attention_job_prepare(job, job->ranges ? job->n_heads : 0,
                                 job->stores ? job->n_kv_heads : 0);
    }
    attend(&x);
    return true;
}
