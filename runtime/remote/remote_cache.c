/* Caches whose heads are divided among ranks: rank 0. Rank r of n stores the kv heads of
 * sp_remote_heads, and a struct sp_kv of rank 0 has the heads of rank 0. */
#include "runtime/remote/remote_ops.h"

#include <string.h>

/* Begins a message; *bytes = the bytes of a write. The caller holds the lock. */
static enum sp_status begin(struct sp_ranks *ranks, const struct sp_remote_cache_message *m,
                            size_t n_bytes, uint8_t **bytes, struct sp_err *err)
{
    struct sp_transport *t = ranks->transport;
    size_t size = SP_REMOTE_CACHE_BYTES + n_bytes;
    enum sp_status st;
    uint8_t *message;

    if ((st = sp_ranks_check(ranks, err))) return st;
    if ((message = t->ops->buffer(t, size)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes of a message to the ranks", size);
    memcpy(message, m, sizeof *m);
    *bytes = message + SP_REMOTE_CACHE_BYTES;
    return SP_OK;
}

static enum sp_status send(struct sp_ranks *ranks, size_t n_bytes, size_t max_answer,
                           struct sp_err *err)
{
    struct sp_transport *t = ranks->transport;

    if (t->ops->send(t, SP_REMOTE_CACHE_BYTES + n_bytes, max_answer)) return SP_OK;
    return sp_fail(err, SP_E_NOMEM, "out of memory for the answers of the ranks");
}

/* Sends a message and receives the status of every rank; returns the first failure. */
static enum sp_status exchange(struct sp_ranks *ranks, size_t n_bytes, struct sp_err *err)
{
    enum sp_status st = send(ranks, n_bytes, sizeof(struct sp_remote_status), err);

    if (st) return st;
    st = sp_rank_statuses(ranks->transport, err);
    if (ranks->transport->lost[0]) sp_ranks_lose(ranks, "a rank is lost");
    return st;
}

/* Has the other ranks act on their heads. */
static enum sp_status act(const struct sp_kv *kv, const struct sp_remote_cache_message *m,
                          struct sp_err *err)
{
    struct sp_ranks *ranks = sp_ranks_of(kv->remote);
    enum sp_status st;
    uint8_t *bytes = NULL;

    pthread_mutex_lock(&ranks->lock);
    if ((st = begin(ranks, m, 0, &bytes, err)) == SP_OK) st = exchange(ranks, 0, err);
    pthread_mutex_unlock(&ranks->lock);
    return st;
}

static struct sp_remote_cache_message message_of(const struct sp_kv *kv,
                                                 enum sp_remote_cache_action action, size_t n)
{
    return (struct sp_remote_cache_message){
        .kind = SP_MESSAGE_CACHE, .action = (uint32_t)action, .number = kv->number, .n = n};
}

/* ---- opening and growing ---- */

/* Attention over divided heads cannot be computed by rank 0 alone, so the largest pass must fit.
 * Its message has the queries, keys and values of all rows, or what makes them: their inputs as
 * codes, floats or both. */
static enum sp_status check_size(const struct sp_transport *t, const struct sp_kv_options *o,
                                 struct sp_err *err)
{
    struct sp_remote_attention_head h = {
        .n_seqs = (uint32_t)o->max_rows,
        .stores = true,
        .attends = true,
        .n_heads = o->n_query_heads,
        .n_kv_heads = o->shape.n_heads,
        .head_dim = o->shape.head_dim,
        .has_sinks = true,
        .n_rows = o->max_rows,
        .has_q_bias = true,
        .has_k_bias = true,
        .has_v_bias = true,
        .has_norms = true,
        .n_rot = o->shape.head_dim,
    };
    const struct sp_remote_head products = {.n_products = SP_MAX_PRODUCTS,
                                            .n_groups = 1,
                                            .n_rows = o->max_rows,
                                            .cols = o->n_inputs,
                                            .has_codes = true,
                                            .has_floats = true};
    unsigned most = sp_remote_heads(o->shape.n_heads, 0, t->n_ranks).n;
    size_t sent = sp_remote_attention_parts_of(&h, t->n_ranks, NULL).size, made, received, size;

    h.products_size = sp_remote_parts_of(&products, NULL).size;
    made = sp_remote_attention_parts_of(&h, t->n_ranks, NULL).size;
    received = sp_remote_attended_of(&h, most).total + 1;
    size = sent > made ? sent : made;
    if (received > size) size = received;
    if (size <= t->max_size) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED,
                   "%u ranks: a pass of %zu rows has messages of up to %zu bytes, expected at most "
                   "%zu",
                   t->n_ranks, o->max_rows, size, t->max_size);
}

enum sp_status sp_remote_cache_open(struct sp_remote *remote, struct sp_kv *kv,
                                    const struct sp_kv_options *o, struct sp_err *err)
{
    struct sp_ranks *ranks = sp_ranks_of(remote);
    const struct sp_transport *t = ranks->transport;
    struct sp_kv_shape shape = o->shape;
    bool divided = shape.n_heads > 1 && shape.head_dim == shape.value_dim;
    struct sp_remote_cache_message m;
    enum sp_status st;

    if (divided) {
        if ((st = check_size(t, o, err))) return st;
        shape.n_heads = sp_remote_heads(shape.n_heads, 0, t->n_ranks).n;
    }
    st = sp_kv_init(kv, o->type, shape, o->n_positions, o->window, o->max_rows, err);
    if (st || !divided) return st;
    kv->remote = remote;
    kv->n_all_heads = o->shape.n_heads;
    kv->n_heads_here = shape.n_heads * t->n_here; /* no rank has more heads than this one */
    if (kv->n_heads_here > kv->n_all_heads) kv->n_heads_here = kv->n_all_heads;
    pthread_mutex_lock(&ranks->lock);
    kv->number = ++ranks->n_caches;
    pthread_mutex_unlock(&ranks->lock);
    m = message_of(kv, SP_REMOTE_CACHE_OPEN, 0);
    m.options = *o;
    return act(kv, &m, err);
}

enum sp_status sp_remote_cache_change(const struct sp_kv *kv, enum sp_cache_change change, size_t n,
                                      struct sp_err *err)
{
    static const enum sp_remote_cache_action actions[] = {
        [SP_CACHE_GROWS] = SP_REMOTE_CACHE_GROW,
        [SP_CACHE_SHRINKS] = SP_REMOTE_CACHE_SHRINK,
        [SP_CACHE_CLOSES] = SP_REMOTE_CACHE_CLOSE,
    };
    const struct sp_remote_cache_message m = message_of(kv, actions[change], n);

    return act(kv, &m, err);
}

/* ---- files ---- */

/* Writes rank 0's heads, then the others'. All answers are received even if the file fails. */
static enum sp_status save_span(struct sp_ranks *ranks, const struct sp_kv *kv,
                                const struct sp_remote_cache_message *m, struct sp_cache_file *file,
                                struct sp_err *err)
{
    unsigned n_ranks = ranks->transport->n_ranks;
    size_t own_size;
    uint8_t *own = sp_kv_span(kv, (size_t)m->n, m->is_value, &own_size);
    enum sp_status st, failure;
    void *answer;
    uint8_t *bytes = NULL;

    if ((st = begin(ranks, m, 0, &bytes, err))) return st;
    if ((st = send(ranks, 0, own_size, err))) return st;
    failure = sp_cache_file_bytes(file, own, own_size, err);
    for (unsigned rank = 1; rank < n_ranks; rank++) {
        unsigned n_heads = sp_remote_heads(kv->n_all_heads, rank, n_ranks).n;
        size_t size = own_size / kv->n_heads * n_heads;
        if ((answer = ranks->transport->ops->receive(ranks->transport, rank)) == NULL) {
            sp_ranks_lose(ranks, "a rank is lost");
            return sp_ranks_check(ranks, err);
        }
        if (failure == SP_OK) failure = sp_cache_file_bytes(file, answer, size, err);
    }
    return failure;
}

static enum sp_status load_span(struct sp_ranks *ranks, const struct sp_kv *kv,
                                const struct sp_remote_cache_message *m, struct sp_cache_file *file,
                                struct sp_err *err)
{
    size_t own_size, all;
    uint8_t *bytes = NULL, *own = sp_kv_span(kv, (size_t)m->n, m->is_value, &own_size);
    enum sp_status st;

    all = own_size / kv->n_heads * kv->n_all_heads;
    if ((st = begin(ranks, m, all, &bytes, err))) return st;
    if ((st = sp_cache_file_bytes(file, bytes, all, err))) return st;
    memcpy(own, bytes, own_size);
    return exchange(ranks, all, err);
}

enum sp_status sp_remote_cache_transfer(const struct sp_kv *kv, struct sp_cache_file *file,
                                        size_t index, struct sp_err *err)
{
    struct sp_ranks *ranks = sp_ranks_of(kv->remote);
    bool is_read = sp_cache_file_is_read(file);
    struct sp_remote_cache_message m =
        message_of(kv, is_read ? SP_REMOTE_CACHE_WRITE : SP_REMOTE_CACHE_READ, index);
    enum sp_status st = SP_OK;

    for (; m.is_value < 2 && st == SP_OK; m.is_value++) {
        pthread_mutex_lock(&ranks->lock);
        st = (is_read ? load_span : save_span)(ranks, kv, &m, file, err);
        pthread_mutex_unlock(&ranks->lock);
    }
    return st;
}
