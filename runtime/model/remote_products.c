#include "runtime/model/remote_products.h"

#include "format/base/clock.h"
#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A message is a struct head, the products, the groups of rows, and then the activations of all
 * rows: codes and scales, or floats, or both, as the weights need them. Ranks are processes of one
 * version of the program, so the structs are sent as they are in memory. */
struct head {
    uint32_t kind; /* SP_MESSAGE_PRODUCTS */
    uint32_t n_products, n_groups;
    uint64_t n_rows, cols;
    uint32_t has_codes, has_floats;
};

struct product_head {
    uint64_t panels; /* place in the file */
    uint64_t rows, n_panels, panel_size;
    uint32_t dtype;
    uint32_t is_gated, is_coded; /* by the sender of the answer */
    uint32_t activation;
    float limit;
};

enum { ALIGNMENT = 64 };

static size_t aligned(size_t size)
{
    return sp_round_up(size, ALIGNMENT);
}

/* The places of the parts of a message. */
struct layout {
    size_t products, groups, codes, scales, floats, size;
};

static struct layout layout_of(const struct head *h)
{
    struct layout l = {.products = aligned(sizeof *h)};
    size_t n = (size_t)(h->n_rows * h->cols);

    l.groups = l.products + aligned(h->n_products * sizeof(struct product_head));
    l.codes = l.groups + aligned(h->n_groups * sizeof(struct sp_row_group));
    l.scales = l.codes + aligned(h->has_codes ? n : 0);
    l.floats = l.scales + aligned(h->has_codes ? n / SP_BLOCK * sizeof(float) : 0);
    l.size = l.floats + aligned(h->has_floats ? n * sizeof(float) : 0);
    return l;
}

/* The places of a job's results in an answer: [n_out_rows][16 * n] floats of each product's slice,
 * or as many codes and their scales. Products that only make factors for a gate come last and are
 * not sent. */
struct answer {
    size_t places[SP_MAX_PRODUCTS], scales[SP_MAX_PRODUCTS];
    size_t size, total; /* bytes that are sent; with the factors */
};

static bool is_sent(const struct sp_product_job *job, size_t i)
{
    return i == 0 || !job->gated_by_sender[i - 1];
}

static struct answer answer_of(const struct sp_product_job *job)
{
    struct answer a = {0};
    size_t n_out = sp_product_job_rows(job);

    for (int sent = 1; sent >= 0; sent--) {
        for (size_t i = 0; i < job->n_products; i++) {
            if (is_sent(job, i) != (sent == 1)) continue;
            size_t n = n_out * job->slices[i].n * SP_PANEL_ROWS;
            a.places[i] = a.total;
            a.total += aligned(job->coded_by_sender[i] ? n : n * sizeof(float));
            a.scales[i] = a.total;
            if (job->coded_by_sender[i]) a.total += aligned(n / SP_BLOCK * sizeof(float));
        }
        if (sent) a.size = a.total;
    }
    return a;
}

static void slice_job(struct sp_product_job *job, unsigned rank, unsigned n_ranks)
{
    for (size_t i = 0; i < job->n_products; i++)
        job->slices[i] = sp_panel_slice_of(job->products[i].w->n_panels, rank, n_ranks);
}

/* The most bytes that a rank needs for its answer. */
static size_t largest_answer(const struct sp_product_job *job, unsigned n_ranks)
{
    struct sp_product_job part = *job;
    size_t most = 0;

    for (unsigned rank = 1; rank < n_ranks; rank++) {
        slice_job(&part, rank, n_ranks);
        size_t total = answer_of(&part).total;
        if (total > most) most = total;
    }
    return most;
}

/* ---- rank 0 ---- */

void sp_ranks_close(struct sp_ranks *ranks)
{
    if (ranks == NULL) return;
    if (ranks->close) {
        ranks->close(ranks);
    } else {
        ranks->transport->ops->close(ranks->transport);
    }
    free(ranks);
}

static bool is_in_file(const struct sp_rank_file *file, const struct sp_matrix *w)
{
    uintptr_t first = (uintptr_t)file->bytes, at = (uintptr_t)w->panels;

    return at >= first && at - first < file->size;
}

/* Biases and parameters of activations stay with rank 0, and so do the gates that need them. */
static bool can_gate_remotely(const struct sp_product *p)
{
    return sp_product_uses_next(p) && p[0].bias == NULL && p[1].bias == NULL && !p->xielu;
}

static struct head head_of(const struct sp_product_job *job, size_t n_rows)
{
    struct head h = {.kind = SP_MESSAGE_PRODUCTS,
                     .n_products = (uint32_t)job->n_products,
                     .n_groups = (uint32_t)job->n_groups,
                     .n_rows = n_rows,
                     .cols = job->acts->cols};

    for (size_t i = 0; i < job->n_products; i++) {
        if (sp_kernels_want_codes(job->products[i].w->dtype)) {
            h.has_codes = 1;
        } else {
            h.has_floats = 1;
        }
    }
    return h;
}

static void put_products(uint8_t *to, const struct sp_ranks *ranks,
                         const struct sp_product_job *job)
{
    for (size_t i = 0; i < job->n_products; i++, to += sizeof(struct product_head)) {
        const struct sp_product *p = &job->products[i];
        const struct product_head h = {.panels = (uint64_t)(p->w->panels - ranks->file.bytes),
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

static void put_rows(uint8_t *message, const struct layout *l, const struct head *h,
                     const struct sp_acts *acts)
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

/* Sends the job to all other ranks. */
static bool send_job(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows)
{
    struct sp_transport *transport = ranks->transport;
    struct head h = head_of(job, n_rows);
    struct layout l = layout_of(&h);
    uint8_t *message = transport->ops->message(transport, l.size);

    if (message == NULL) return false;
    memcpy(message, &h, sizeof h);
    put_products(message + l.products, ranks, job);
    memcpy(message + l.groups, job->groups, job->n_groups * sizeof *job->groups);
    put_rows(message, &l, &h, job->acts);
    if (!transport->ops->send(transport, l.size, largest_answer(job, transport->n_ranks)))
        return false;
    ranks->traffic.n_messages++;
    ranks->traffic.sent += l.size * (transport->n_ranks - 1);
    return true;
}

static void lose(struct sp_ranks *ranks)
{
    if (ranks->is_lost) return;
    ranks->is_lost = true;
    if (ranks->on_lost) ranks->on_lost(ranks->context, ranks->transport->lost);
}

/* Receives what a rank computed. */
static bool finish_job(struct sp_ranks *ranks, const struct sp_product_job *job, unsigned rank)
{
    struct sp_transport *transport = ranks->transport;
    struct sp_product_job part = *job;
    struct answer a;
    const uint8_t *bytes;

    slice_job(&part, rank, transport->n_ranks);
    a = answer_of(&part);
    bytes = transport->ops->receive(transport, rank, a.size);
    if (bytes == NULL) return false;
    part.is_answer = true;
    for (size_t i = 0; i < part.n_products; i++) {
        part.answers[i] = bytes + a.places[i];
        part.scales[i] = (const float *)(const void *)(bytes + a.scales[i]);
    }
    ranks->traffic.received += a.size;
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
        if (job->coded_by_sender[i]) {
            sp_backend_rows(job->backend, n, set_starts, &starts);
        } else {
            sp_backend_quantize(job->backend, p->into, n);
        }
    }
}

bool sp_remote_multiply(struct sp_ranks *ranks, const struct sp_product_job *job, size_t n_rows)
{
    struct sp_product_job shared = *job, own;
    double t0 = sp_seconds(), t1, t2;

    if (ranks->is_lost) return false;
    for (size_t i = 0; i < job->n_products; i++) {
        if (!is_in_file(&ranks->file, job->products[i].w)) return false;
        shared.gated_by_sender[i] = can_gate_remotely(&job->products[i]);
        shared.coded_by_sender[i] =
            shared.gated_by_sender[i] && sp_product_makes_codes(&job->products[i]);
    }
    if (!send_job(ranks, &shared, n_rows)) return false;
    t1 = sp_seconds();
    ranks->traffic.seconds += t1 - t0;
    own = shared;
    memset(own.gated_by_sender, 0, sizeof own.gated_by_sender);
    slice_job(&own, 0, ranks->transport->n_ranks);
    sp_product_job_run(&own);
    code_own(&own);
    t1 = sp_seconds();
    for (unsigned rank = 1; rank < ranks->transport->n_ranks; rank++) {
        if (finish_job(ranks, &shared, rank)) continue;
        lose(ranks);
        return false;
    }
    finish_codes(&shared);
    t2 = sp_seconds();
    ranks->traffic.seconds += t2 - t1;
    ranks->traffic.product_seconds += t2 - t0;
    return true;
}

/* The bytes of an echo follow its kind. */
bool sp_ranks_echo(struct sp_ranks *ranks, void *bytes, size_t size, double *seconds)
{
    struct sp_transport *transport = ranks->transport;
    uint32_t kind = SP_MESSAGE_ECHO;
    double start = sp_seconds();
    uint8_t *message;

    if (ranks->is_lost || !(message = transport->ops->message(transport, ALIGNMENT + size)))
        return false;
    memcpy(message, &kind, sizeof kind);
    memcpy(message + ALIGNMENT, bytes, size);
    if (!transport->ops->send(transport, ALIGNMENT + size, size)) return false;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++) {
        const void *answer = transport->ops->receive(transport, rank, size);
        if (answer == NULL) {
            lose(ranks);
            return false;
        }
        memcpy(bytes, answer, size);
    }
    *seconds = sp_seconds() - start;
    return true;
}

/* ---- other ranks ---- */

/* Activations by number of columns, which are few in a model. */
enum { MAX_WIDTHS = 32 };

struct acts_by_width {
    struct sp_acts acts[MAX_WIDTHS];
    size_t n_rows[MAX_WIDTHS], n_widths;
};

struct rank_buffers {
    struct acts_by_width received, coded; /* coded: slices whose codes are the answer */
};

static void release_widths(struct acts_by_width *b)
{
    for (size_t i = 0; i < b->n_widths; i++)
        sp_acts_release(&b->acts[i]);
}

/* Returns activations of n_rows rows; their contents are those of an earlier message. */
static enum sp_status find_acts(struct acts_by_width *b, struct sp_acts **out, size_t n_rows,
                                size_t cols, struct sp_err *err)
{
    enum sp_status st;
    size_t i = 0;

    while (i < b->n_widths && b->acts[i].cols != cols)
        i++;
    if (i == MAX_WIDTHS) i = 0;
    if (i == b->n_widths) b->n_widths++;
    *out = &b->acts[i];
    if (b->acts[i].cols == cols && b->n_rows[i] >= n_rows) return SP_OK;
    sp_acts_release(&b->acts[i]);
    b->n_rows[i] = 0;
    if ((st = sp_acts_init(&b->acts[i], n_rows, cols, err))) return st;
    b->n_rows[i] = n_rows;
    return SP_OK;
}

static void get_rows(const struct sp_acts *acts, const uint8_t *message, const struct layout *l,
                     const struct head *h)
{
    size_t cols = acts->cols, n_blocks = cols / SP_BLOCK;

    for (size_t t = 0; t < h->n_rows; t++) {
        if (h->has_codes) {
            memcpy(acts->q + t * acts->ld, message + l->codes + t * cols, cols);
            memcpy(acts->scale + t * acts->ld_block,
                   message + l->scales + t * n_blocks * sizeof(float), n_blocks * sizeof(float));
            sp_acts_set_starts(acts, t);
        }
        if (!h->has_floats) continue;
        memcpy(acts->x + t * acts->ld, message + l->floats + t * cols * sizeof(float),
               cols * sizeof(float));
    }
}

/* The job that a message describes, with what its pointers refer to. */
struct received_job {
    struct sp_product_job job;
    struct sp_product products[SP_MAX_PRODUCTS];
    struct sp_matrix matrices[SP_MAX_PRODUCTS];
    const struct sp_acts *coded[SP_MAX_PRODUCTS]; /* results to quantize; NULL: floats */
};

static enum sp_status get_products(struct received_job *r, const uint8_t *at,
                                   const struct sp_rank_file *file, struct sp_err *err)
{
    for (size_t i = 0; i < r->job.n_products; i++, at += sizeof(struct product_head)) {
        struct product_head h;
        memcpy(&h, at, sizeof h);
        if (h.panels >= file->size || h.n_panels * h.panel_size > file->size - h.panels) {
            return sp_fail(err, SP_E_BUG, "a product of weights outside the file");
        }
        r->matrices[i] = (struct sp_matrix){.dtype = (enum sp_dtype)h.dtype,
                                            .rows = (size_t)h.rows,
                                            .cols = r->job.acts->cols,
                                            .n_panels = (size_t)h.n_panels,
                                            .panel_size = (size_t)h.panel_size,
                                            .panels = file->bytes + h.panels};
        r->products[i] = (struct sp_product){.w = &r->matrices[i],
                                             .gated = h.is_gated,
                                             .activation = (enum sp_activation)h.activation,
                                             .limit = h.limit};
        r->job.gated_by_sender[i] = h.is_gated;
        r->job.coded_by_sender[i] = h.is_coded;
    }
    return SP_OK;
}

/* Sets where the results of a job are computed: in the answer, unless they are quantized for it. */
static enum sp_status place_results(struct received_job *r, const struct answer *a, uint8_t *bytes,
                                    struct rank_buffers *b, struct sp_err *err)
{
    for (size_t i = 0; i < r->job.n_products; i++) {
        size_t cols = r->job.slices[i].n * SP_PANEL_ROWS;
        struct sp_acts *acts;
        enum sp_status st;

        r->products[i].y = (float *)(void *)(bytes + a->places[i]);
        r->products[i].ldy = cols;
        if (!r->job.coded_by_sender[i]) continue;
        if ((st = find_acts(&b->coded, &acts, sp_product_job_rows(&r->job), cols, err))) return st;
        r->products[i].y = acts->x;
        r->products[i].ldy = acts->ld;
        r->coded[i] = acts;
    }
    return SP_OK;
}

/* Quantizes results into the answer. */
static void put_codes(const struct received_job *r, const struct answer *a, uint8_t *bytes)
{
    size_t n_rows = sp_product_job_rows(&r->job);

    for (size_t i = 0; i < r->job.n_products; i++) {
        const struct sp_acts *acts = r->coded[i];
        if (acts == NULL) continue;
        size_t cols = acts->cols, scales_size = cols / SP_BLOCK * sizeof(float);
        sp_backend_quantize(r->job.backend, acts, n_rows);
        for (size_t t = 0; t < n_rows; t++) {
            memcpy(bytes + a->places[i] + t * cols, acts->q + t * acts->ld, cols);
            memcpy(bytes + a->scales[i] + t * scales_size, acts->scale + t * acts->ld_block,
                   scales_size);
        }
    }
}

static enum sp_status answer_message(struct sp_transport *transport, struct rank_buffers *b,
                                     const struct sp_backend *backend,
                                     const struct sp_rank_file *file, const uint8_t *message,
                                     size_t size, struct sp_err *err)
{
    struct received_job r = {0};
    struct answer a;
    struct sp_acts *acts;
    struct head h;
    struct layout l;
    enum sp_status st;
    uint8_t *bytes;

    assert(size >= sizeof h);
    memcpy(&h, message, sizeof h);
    l = layout_of(&h);
    assert(h.n_products <= SP_MAX_PRODUCTS && size == l.size);
    if ((st = find_acts(&b->received, &acts, (size_t)h.n_rows, (size_t)h.cols, err))) return st;
    r.job = (struct sp_product_job){
        .backend = backend,
        .products = r.products,
        .n_products = h.n_products,
        .acts = acts,
        .groups = (const struct sp_row_group *)(const void *)(message + l.groups),
        .n_groups = h.n_groups,
        .y_is_slice = true,
    };
    if ((st = get_products(&r, message + l.products, file, err))) return st;
    get_rows(acts, message, &l, &h);
    slice_job(&r.job, transport->rank, transport->n_ranks);
    a = answer_of(&r.job);
    if ((bytes = transport->ops->answer(transport, a.total)) == NULL) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", a.total);
    }
    if ((st = place_results(&r, &a, bytes, b, err))) return st;
    memset(r.job.gated_by_sender, 0, sizeof r.job.gated_by_sender);
    sp_product_job_run(&r.job);
    put_codes(&r, &a, bytes);
    transport->ops->reply(transport, a.size);
    return SP_OK;
}

static enum sp_status answer_echo(struct sp_transport *transport, const uint8_t *message,
                                  size_t size, struct sp_err *err)
{
    void *bytes = transport->ops->answer(transport, size - ALIGNMENT);

    if (bytes == NULL) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    }
    memcpy(bytes, message + ALIGNMENT, size - ALIGNMENT);
    transport->ops->reply(transport, size - ALIGNMENT);
    return SP_OK;
}

enum sp_status sp_remote_serve(struct sp_transport *transport, const struct sp_backend *backend,
                               const struct sp_rank_file *file, bool *has_ended, struct sp_err *err)
{
    struct rank_buffers buffers = {0};
    enum sp_status st = SP_OK;
    const void *message = NULL;
    uint32_t kind = SP_MESSAGE_PRODUCTS;
    size_t size;

    while (st == SP_OK && (message = transport->ops->next(transport, &size)) != NULL) {
        memcpy(&kind, message, sizeof kind);
        if (kind == SP_MESSAGE_ECHO) {
            st = answer_echo(transport, message, size, err);
        } else if (kind == SP_MESSAGE_PRODUCTS) {
            st = answer_message(transport, &buffers, backend, file, message, size, err);
        } else {
            break;
        }
    }
    *has_ended = message == NULL;
    release_widths(&buffers.received);
    release_widths(&buffers.coded);
    return st;
}
