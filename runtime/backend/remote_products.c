#include "runtime/backend/remote_products.h"

#include "format/base/clock.h"
#include "format/base/mem.h"
#include "runtime/backend/remote_message.h"
#include "runtime/backend/top_logits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_ranks_close(struct sp_ranks *ranks)
{
    if (ranks == NULL) return;
    if (ranks->close)
        ranks->close(ranks);
    else
        ranks->transport->ops->close(ranks->transport);
    pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}

enum sp_status sp_ranks_new(struct sp_ranks **out, const struct sp_ranks *with, struct sp_err *err)
{
    enum sp_status st = sp_new(out, 1, sizeof **out, err);

    if (st) return st;
    **out = *with;
    pthread_mutex_init(&(*out)->lock, NULL);
    return SP_OK;
}

void sp_ranks_lose(struct sp_ranks *ranks, const char *why)
{
    char *text = ranks->transport->lost;

    if (ranks->is_lost) return;
    if (*text == '\0') snprintf(text, sizeof ranks->transport->lost, "%s", why);
    ranks->is_lost = true;
    if (ranks->on_lost) ranks->on_lost(ranks->context, text);
}

enum sp_status sp_ranks_check(const struct sp_ranks *ranks, struct sp_err *err)
{
    return ranks->is_lost ? sp_fail(err, SP_E_IO, "%s", ranks->transport->lost) : SP_OK;
}

void sp_ranks_look(struct sp_ranks *ranks)
{
    struct sp_transport *transport = ranks->transport;

    if (pthread_mutex_trylock(&ranks->lock)) return;
    if (!ranks->is_lost && transport->ops->look && !transport->ops->look(transport))
        sp_ranks_lose(ranks, "a rank is lost");
    pthread_mutex_unlock(&ranks->lock);
}

bool sp_ranks_have(const struct sp_ranks *ranks, const struct sp_matrix *weights)
{
    uintptr_t first = (uintptr_t)ranks->file.bytes, at = (uintptr_t)weights->panels;

    return at >= first && at - first < ranks->file.size;
}

/* Biases, adapters and parameters of activations stay with rank 0, and so do the gates that need
 * them. */
static bool can_gate_remotely(const struct sp_product_job *job, size_t i)
{
    const struct sp_product *p = &job->products[i];

    return sp_product_uses_next(p) && p[0].bias == NULL && p[1].bias == NULL && !p->xielu &&
           job->lora == NULL;
}

/* Rows that are only needed for their largest element need not be sent. Biases stay with rank 0,
 * unless they are rows that were kept before. */
static bool can_keep(const struct sp_product_job *job)
{
    const struct sp_product *p = job->products;

    return job->n_products == 1 && p->finish && p->finish->kept &&
           (p->bias == NULL || p->finish->bias);
}

static struct sp_remote_head head_of(const struct sp_product_job *job, size_t n_rows)
{
    struct sp_remote_head h = {.kind = SP_MESSAGE_PRODUCTS,
                               .n_products = (uint32_t)job->n_products,
                               .n_groups = (uint32_t)job->n_groups,
                               .n_rows = n_rows,
                               .cols = job->acts->cols,
                               .kept = job->kept,
                               .has_sums = job->has_sums};

    if (job->kept) {
        const struct sp_finish *finish = job->products->finish;
        h.scale = finish->scale;
        h.cap = finish->cap;
        h.bias_kept = finish->bias ? finish->bias->number : 0;
        h.bias_row = finish->bias_row;
    }
    for (size_t i = 0; i < job->n_products; i++)
        if (sp_kernels_want_codes(job->products[i].w->dtype))
            h.has_codes = 1;
        else
            h.has_floats = 1;
    return h;
}

static void put_products(uint8_t *to, const struct sp_ranks *ranks,
                         const struct sp_product_job *job)
{
    for (size_t i = 0; i < job->n_products; i++, to += sizeof(struct sp_remote_product)) {
        const struct sp_product *p = &job->products[i];
        const struct sp_remote_product h = {.panels = (uint64_t)(p->w->panels - ranks->file.bytes),
                                            .rows = p->w->rows,
                                            .n_panels = p->w->n_panels,
                                            .panel_size = p->w->panel_size,
                                            .dtype = (uint32_t)p->w->dtype,
                                            .is_gated = job->gated_by_sender[i],
                                            .is_coded = job->coded_by_sender[i],
                                            .activation = (uint32_t)p->activation,
                                            .limit = p->limit};
        memcpy(to, &h, sizeof h);
    }
}

static void put_rows(uint8_t *message, const struct sp_remote_layout *l,
                     const struct sp_remote_head *h, const struct sp_acts *acts)
{
    size_t cols = acts->cols, n_blocks = cols / SP_BLOCK;

    for (size_t t = 0; t < h->n_rows; t++) {
        if (h->has_codes) {
            memcpy(message + l->codes + t * cols, acts->q + t * acts->ld, cols);
            memcpy(message + l->scales + t * n_blocks * sizeof(float),
                   acts->scale + t * acts->ld_block, n_blocks * sizeof(float));
        }
        if (!h->has_floats) continue;
        memcpy(message + l->floats + t * cols * sizeof(float), acts->x + t * acts->ld,
               cols * sizeof(float));
    }
}

/* The most bytes that a rank needs for its answer. */
static size_t largest_answer(const struct sp_product_job *job, unsigned n_ranks)
{
    struct sp_product_job part = *job;
    size_t most = 0;

    for (unsigned rank = 1; rank < n_ranks; rank++) {
        sp_remote_slice(&part, rank, n_ranks);
        size_t total = sp_remote_answer_of(&part).total;
        if (total > most) most = total;
    }
    return most;
}

size_t sp_remote_job_size(const struct sp_product_job *job, size_t n_rows)
{
    const struct sp_remote_head h = head_of(job, n_rows);

    return sp_remote_layout_of(&h).size;
}

void sp_remote_job_write(uint8_t *message, const struct sp_ranks *ranks,
                         const struct sp_product_job *job, size_t n_rows)
{
    const struct sp_remote_head h = head_of(job, n_rows);
    const struct sp_remote_layout l = sp_remote_layout_of(&h);

    memcpy(message, &h, sizeof h);
    put_products(message + l.products, ranks, job);
    memcpy(message + l.groups, job->groups, job->n_groups * sizeof *job->groups);
    put_rows(message, &l, &h, job->acts);
}

/* Sends the job to all other ranks. */
static bool send_job(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows)
{
    struct sp_transport *transport = ranks->transport;
    size_t size = sp_remote_job_size(job, n_rows);
    uint8_t *message = transport->ops->message(transport, size);

    if (message == NULL) return false;
    sp_remote_job_write(message, ranks, job, n_rows);
    if (!transport->ops->send(transport, size, largest_answer(job, transport->n_ranks)))
        return false;
    ranks->traffic.n_messages++;
    ranks->traffic.sent += size * (transport->n_ranks - 1);
    return true;
}

static void update_bests(const struct sp_product_job *job, const uint64_t *orders)
{
    for (size_t t = 0; t < sp_product_job_rows(job); t++)
        sp_best_update(&job->products->finish->best[t], orders[t]);
}

/* Copies the blocks of a rank's slices. */
static void copy_sums(const struct sp_product_job *part, const struct sp_logits_sum *from)
{
    const struct sp_kept *kept = part->products->finish->kept;
    size_t n = sp_logits_blocks(part->slices[0].n * SP_PANEL_ROWS);
    struct sp_logits_sum *to = kept->sums + part->slices[0].first / SP_LOGITS_PANELS;

    for (size_t t = 0; t < sp_product_job_rows(part); t++)
        memcpy(to + t * kept->ld_sums, from + t * n, n * sizeof *from);
}

/* Receives what a rank computed. */
static bool finish_job(struct sp_ranks *ranks, const struct sp_product_job *job, unsigned rank)
{
    struct sp_transport *transport = ranks->transport;
    struct sp_product_job part = *job;
    struct sp_remote_answer a;
    const uint8_t *bytes;

    sp_remote_slice(&part, rank, transport->n_ranks);
    a = sp_remote_answer_of(&part);
    bytes = transport->ops->receive(transport, rank, a.size);
    if (bytes == NULL) return false;
    ranks->traffic.received += a.size;
    if (job->kept) {
        update_bests(job, (const void *)bytes);
        if (job->has_sums) copy_sums(&part, (const void *)(bytes + a.scales[0]));
        return true;
    }
    part.is_answer = true;
    for (size_t i = 0; i < part.n_products; i++) {
        part.answers[i] = bytes + a.places[i];
        part.scales[i] = (const float *)(const void *)(bytes + a.scales[i]);
    }
    sp_product_job_run(&part);
    return true;
}

struct starts_job {
    const struct sp_acts *acts;
};

static void set_starts(void *context, size_t t, unsigned worker)
{
    const struct starts_job *job = context;

    (void)worker;
    sp_acts_set_starts(job->acts, t);
}

/* Computes the codes of a job's own slices. */
static void code_own(const struct sp_product_job *own)
{
    for (size_t i = 0; i < own->n_products; i++) {
        if (!own->coded_by_sender[i]) continue;
        struct sp_acts acts = *own->products[i].into;
        acts.cols = own->slices[i].n * SP_PANEL_ROWS; /* the first ones, as this is rank 0 */
        sp_backend_quantize(own->backend, &acts, sp_product_job_rows(own));
    }
}

/* Completes the codes of all slices. */
static void finish_codes(const struct sp_product_job *job)
{
    for (size_t i = 0; i < job->n_products; i++) {
        const struct sp_product *p = &job->products[i];
        struct starts_job starts = {p->into};
        size_t n = sp_product_job_rows(job);
        if (!sp_product_makes_codes(p)) continue;
        if (job->coded_by_sender[i])
            sp_backend_rows(job->backend, n, set_starts, &starts);
        else
            sp_backend_quantize(job->backend, p->into, n);
    }
}

static bool multiply(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows)
{
    struct sp_product_job shared = *job, own;
    double t0 = sp_seconds(), t1, t2;

    if (ranks->is_lost) return false;
    for (size_t i = 0; i < job->n_products; i++) {
        if (!sp_ranks_have(ranks, job->products[i].w)) return false;
        shared.gated_by_sender[i] = can_gate_remotely(job, i);
        shared.coded_by_sender[i] =
            shared.gated_by_sender[i] && sp_product_makes_codes(&job->products[i]);
    }
    if (can_keep(job)) {
        shared.kept = ++ranks->n_kept;
        shared.has_sums = job->products->finish->kept->sums != NULL;
    }
    if (!send_job(ranks, &shared, n_rows)) return false;
    if (shared.kept) job->products->finish->kept->number = shared.kept;
    t1 = sp_seconds();
    ranks->traffic.seconds += t1 - t0;
    own = shared;
    memset(own.gated_by_sender, 0, sizeof own.gated_by_sender);
    sp_remote_slice(&own, 0, ranks->transport->n_ranks);
    sp_product_job_run(&own);
    code_own(&own);
    if (own.has_sums) {
        const struct sp_kept *kept = own.products->finish->kept;
        sp_product_job_sum(&own, kept->sums, kept->ld_sums);
    }
    t1 = sp_seconds();
    for (unsigned rank = 1; rank < ranks->transport->n_ranks; rank++) {
        if (finish_job(ranks, &shared, rank)) continue;
        sp_ranks_lose(ranks, "a rank is lost");
        return false;
    }
    finish_codes(&shared);
    t2 = sp_seconds();
    ranks->traffic.seconds += t2 - t1;
    ranks->traffic.product_seconds += t2 - t0;
    return true;
}

bool sp_remote_multiply(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows)
{
    bool done;

    pthread_mutex_lock(&ranks->lock);
    done = multiply(ranks, job, n_rows);
    pthread_mutex_unlock(&ranks->lock);
    return done;
}

/* Rank 0's view of a row that the other ranks keep. */
struct kept_row {
    const struct sp_matrix *w;
    uint64_t number;
    bool has_sums;
    size_t t;
    float *y;                 /* [w->rows] receives their columns, unless there is `top` */
    struct sp_top_logit *top; /* [room] receives the largest elements; NULL: none */
    size_t room, n_top;
};

/* Receives the columns of a rank, or the largest elements among them. */
static bool receive_row(struct sp_ranks *ranks, struct kept_row *row, unsigned rank)
{
    const struct sp_product product = {.w = row->w};
    struct sp_product_job part = {
        .products = &product, .n_products = 1, .kept = row->number, .has_sums = row->has_sums};
    const void *answer;
    size_t first, n, size;

    sp_remote_slice(&part, rank, ranks->transport->n_ranks);
    first = part.slices[0].first * SP_PANEL_ROWS;
    n = sp_product_job_columns(&part);
    if (n > row->room) n = row->room;
    size = row->top ? n * sizeof *row->top : part.slices[0].n * SP_PANEL_ROWS * sizeof *row->y;
    if ((answer = ranks->transport->ops->receive(ranks->transport, rank, size)) == NULL)
        return false;
    ranks->traffic.received += size;
    if (row->top)
        row->n_top = sp_top_logits_merge(row->top, row->n_top, row->room, answer, n, first);
    else
        memcpy(row->y + first, answer, size);
    return true;
}

static bool ask_for_row(struct sp_ranks *ranks, struct kept_row *row)
{
    const struct sp_remote_row_message m = {
        .kind = SP_MESSAGE_ROW, .n_top = (uint32_t)row->room, .kept = row->number, .row = row->t};
    struct sp_transport *transport = ranks->transport;
    void *message = transport->ops->message(transport, sizeof m);

    if (message == NULL) return false;
    memcpy(message, &m, sizeof m);
    if (!transport->ops->send(transport, sizeof m,
                              row->w->n_panels * SP_PANEL_ROWS * sizeof(struct sp_top_logit)))
        return false;
    ranks->traffic.n_messages++;
    ranks->traffic.sent += sizeof m * (transport->n_ranks - 1);
    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        if (!receive_row(ranks, row, rank)) return false;
    return true;
}

static void get_row(struct sp_ranks *ranks, struct kept_row *row)
{
    double start = sp_seconds();

    pthread_mutex_lock(&ranks->lock);
    if (!ranks->is_lost && !ask_for_row(ranks, row))
        sp_ranks_lose(ranks, "out of memory: a row of logits from the ranks");
    ranks->traffic.seconds += sp_seconds() - start;
    pthread_mutex_unlock(&ranks->lock);
}

void sp_remote_row(struct sp_ranks *ranks, const struct sp_kept *kept, const struct sp_matrix *w,
                   size_t t, float *y)
{
    struct kept_row row = {
        .w = w, .number = kept->number, .has_sums = kept->sums != NULL, .t = t, .y = y};

    get_row(ranks, &row);
}

size_t sp_remote_top(struct sp_ranks *ranks, const struct sp_kept *kept, const struct sp_matrix *w,
                     size_t t, const float *y, struct sp_top_logit *top, size_t room)
{
    const struct sp_product product = {.w = w};
    struct sp_product_job own = {
        .products = &product, .n_products = 1, .has_sums = kept->sums != NULL};
    struct kept_row row = {.w = w,
                           .number = kept->number,
                           .has_sums = kept->sums != NULL,
                           .t = t,
                           .top = top,
                           .room = room};

    sp_remote_slice(&own, 0, ranks->transport->n_ranks);
    row.n_top = sp_top_logits_add(top, 0, room, y, sp_product_job_columns(&own), 0);
    get_row(ranks, &row);
    return row.n_top;
}

static bool echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds)
{
    struct sp_transport *transport = ranks->transport;
    uint32_t kind = SP_MESSAGE_ECHO;
    double start = sp_seconds();
    uint8_t *message;

    if (ranks->is_lost ||
        !(message = transport->ops->message(transport, SP_REMOTE_ALIGNMENT + size)))
        return false;
    memcpy(message, &kind, sizeof kind);
    memcpy(message + SP_REMOTE_ALIGNMENT, bytes, size);
    if (!transport->ops->send(transport, SP_REMOTE_ALIGNMENT + size, size)) return false;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++) {
        const void *answer = transport->ops->receive(transport, rank, size);
        if (answer == NULL) {
            sp_ranks_lose(ranks, "a rank is lost");
            return false;
        }
        memcpy(bytes, answer, size);
    }
    *seconds = sp_seconds() - start;
    return true;
}

bool sp_ranks_echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds)
{
    bool done;

    pthread_mutex_lock(&ranks->lock);
    done = echo(ranks, bytes, size, seconds);
    pthread_mutex_unlock(&ranks->lock);
    return done;
}
