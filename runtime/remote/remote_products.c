/* Products that ranks compute together: rank 0. Rows of logits that are only needed for their
 * largest element stay with the ranks that computed them, which send the order of their largest
 * element instead; rank 0 can still ask for such a row. */
#include "runtime/remote/remote_ops.h"

#include "format/base/clock.h"

#include <string.h>

bool sp_ranks_have(const struct sp_ranks *ranks, const struct sp_matrix *weights)
{
    uintptr_t first = (uintptr_t)ranks->file.bytes, at = (uintptr_t)weights->panels;

    return at >= first && at - first < ranks->file.size;
}

/* Biases, adapters, parameters of activations, and gates that need them, stay with rank 0. */
static bool can_gate_remotely(const struct sp_product_job *job, size_t i)
{
    const struct sp_product *p = &job->products[i];

    return sp_product_uses_next(p) && p[0].bias == NULL && p[1].bias == NULL && !p->xielu &&
           !p->scales && job->lora == NULL;
}

/* Rows that are only needed for their largest element need not be sent. Biases stay with rank 0,
 * unless they are rows that were kept before. */
static bool can_keep(const struct sp_product_job *job)
{
    const struct sp_product *p = job->products;
    const struct sp_epilogue *e = p->epilogue;

    return job->n_products == 1 && e && e->rows && !p->scales &&
           (p->bias == NULL || (e->bias_rows && e->bias_rows->remote));
}

/* ---- messages ---- */

static struct sp_remote_head head_of(const struct sp_remote_job *r)
{
    const struct sp_epilogue *e = r->job.products->epilogue;
    struct sp_remote_head h = {.kind = SP_MESSAGE_PRODUCTS,
                               .n_products = (uint32_t)r->job.n_products,
                               .n_groups = (uint32_t)r->job.n_groups,
                               .n_rows = r->job.n_rows,
                               .cols = r->job.acts->cols,
                               .kept = r->kept,
                               .has_sums = r->has_sums};

    if (r->kept) {
        h.scale = e->scale;
        h.cap = e->cap;
        h.bias_kept = r->job.products->bias ? e->bias_rows->number : 0;
        h.bias_row = e->bias_row;
    }
    for (size_t i = 0; i < r->job.n_products; i++)
        if (sp_dtype_is_block(r->job.products[i].w->dtype))
            h.has_codes = 1;
        else
            h.has_floats = 1;
    return h;
}

size_t sp_remote_job_size(const struct sp_remote_job *r)
{
    const struct sp_remote_head h = head_of(r);

    return sp_remote_parts_of(&h, NULL).size;
}

void sp_remote_job_write(void *message, const struct sp_ranks *ranks, const struct sp_remote_job *r)
{
    const struct sp_remote_head h = head_of(r);
    const struct sp_remote_parts to = sp_remote_parts_of(&h, message);

    memcpy(message, &h, sizeof h);
    for (size_t i = 0; i < r->job.n_products; i++) {
        const struct sp_product *p = &r->job.products[i];
        to.products[i] =
            (struct sp_remote_product){.panels = (uint64_t)(p->w->panels - ranks->file.bytes),
                                       .rows = p->w->rows,
                                       .n_panels = p->w->n_panels,
                                       .panel_size = p->w->panel_size,
                                       .dtype = (uint32_t)p->w->dtype,
                                       .is_gated = r->is_gated[i],
                                       .is_coded = r->is_coded[i],
                                       .activation = (uint32_t)p->activation,
                                       .limit = p->limit,
                                       .gate_limit = p->gate_limit};
    }
    memcpy(to.groups, r->job.groups, r->job.n_groups * sizeof *to.groups);
    sp_remote_rows_copy(&to.rows, r->job.acts, r->job.n_rows, h.has_codes, h.has_floats);
}

/* The most bytes that a rank needs for its answer. */
static size_t largest_answer(const struct sp_remote_job *r, unsigned n_ranks)
{
    struct sp_remote_job part = *r;
    size_t most = 0;

    for (unsigned rank = 1; rank < n_ranks; rank++) {
        sp_remote_slice(&part, rank, n_ranks);
        size_t total = sp_remote_answer_of(&part).total;
        if (total > most) most = total;
    }
    return most;
}

static bool send_job(struct sp_ranks *ranks, const struct sp_remote_job *r)
{
    size_t size = sp_remote_job_size(r);
    void *message = ranks->transport->ops->buffer(ranks->transport, size);

    if (message == NULL) return false;
    sp_remote_job_write(message, ranks, r);
    return sp_ranks_send(ranks, size, largest_answer(r, ranks->transport->n_ranks));
}

/* ---- answers ---- */

/* The products whose results a rank sent. */
struct answer_job {
    struct sp_product_job job; /* the first member */
    struct sp_product products[SP_MAX_PRODUCTS];
    const void *rows[SP_MAX_PRODUCTS];    /* [n_out_rows][16 * slice.n] floats or codes */
    const float *scales[SP_MAX_PRODUCTS]; /* [n_out_rows][slice.n / 2] of codes; NULL: floats */
};

/* Copies the codes of panels, and the scales of the blocks that begin in them. */
static void copy_codes(const struct answer_job *a, const struct sp_row_group *g, size_t i,
                       size_t first, size_t n_panels)
{
    enum { BLOCK = SP_BLOCK / SP_PANEL_ROWS };
    const struct sp_panel_slice *slice = &a->job.slices[i];
    const struct sp_acts *acts = a->products[i].into;
    const int8_t *codes = a->rows[i];
    size_t block = (first + 1) / BLOCK, n_blocks = (first + n_panels + 1) / BLOCK - block;
    size_t at = first - slice->first, block_at = block - slice->first / BLOCK;

    for (size_t t = g->to; t < g->to + g->n; t++) {
        memcpy(acts->q + t * acts->ld + first * SP_PANEL_ROWS,
               codes + (t * slice->n + at) * SP_PANEL_ROWS, n_panels * SP_PANEL_ROWS);
        memcpy(acts->scale + t * acts->ld_block + block,
               a->scales[i] + t * (slice->n / BLOCK) + block_at, n_blocks * sizeof *acts->scale);
    }
}

static void copy_panels(const struct sp_product_job *job, const struct sp_row_group *g, size_t i,
                        size_t first, size_t n_panels)
{
    const struct answer_job *a = (const void *)job;
    const struct sp_panel_slice *slice = &job->slices[i];
    const float *rows = a->rows[i];

    if (a->scales[i]) {
        copy_codes(a, g, i, first, n_panels);
        return;
    }
    for (size_t t = g->to; t < g->to + g->n; t++)
        memcpy(a->products[i].y + t * a->products[i].ldy + first * SP_PANEL_ROWS,
               rows + (t * slice->n + first - slice->first) * SP_PANEL_ROWS,
               n_panels * SP_PANEL_ROWS * sizeof *rows);
}

/* Copies the results of a rank, and does the rest of the work on them. */
static void finish_rows(const struct sp_remote_job *part, const struct sp_remote_answer *places,
                        const uint8_t *bytes)
{
    struct answer_job a = {.job = part->job};
    size_t n = 0;

    for (size_t i = 0; i < part->job.n_products; i++) {
        if (i > 0 && part->is_gated[i - 1]) continue; /* only made the factors of a gate */
        a.products[n] = part->job.products[i];
        if (part->is_gated[i]) a.products[n].gated = false;
        a.job.slices[n] = part->job.slices[i];
        a.rows[n] = bytes + places->places[i];
        if (part->is_coded[i]) a.scales[n] = (const void *)(bytes + places->scales[i]);
        n++;
    }
    a.job.products = a.products;
    a.job.n_products = n;
    a.job.copy = copy_panels;
    sp_product_job_run(&a.job);
}

/* Receives the largest elements of a rank's part of kept rows, and the sums of its blocks. */
static void finish_kept(const struct sp_remote_job *part, const struct sp_remote_answer *places,
                        const uint8_t *bytes)
{
    const struct sp_epilogue *e = part->job.products->epilogue;
    const struct sp_panel_slice *slice = &part->job.slices[0];
    const uint64_t *orders = (const void *)bytes;
    const struct sp_logits_sum *sums = (const void *)(bytes + places->scales[0]);
    size_t n = sp_logits_blocks(slice->n * SP_PANEL_ROWS);
    size_t first = slice->first * SP_PANEL_ROWS / SP_LOGITS_BLOCK;

    for (size_t t = 0; t < sp_product_job_rows(&part->job); t++) {
        sp_argmax_update(&e->argmax[t], orders[t]);
        if (part->has_sums)
            memcpy(e->rows->sums + t * e->rows->ld_sums + first, sums + t * n, n * sizeof *sums);
    }
}

static bool finish_job(struct sp_ranks *ranks, const struct sp_remote_job *r, unsigned rank)
{
    struct sp_remote_job part = *r;
    struct sp_remote_answer a;
    const uint8_t *bytes;

    sp_remote_slice(&part, rank, ranks->transport->n_ranks);
    a = sp_remote_answer_of(&part);
    if ((bytes = sp_ranks_receive(ranks, rank, a.size)) == NULL) return false;
    if (r->kept)
        finish_kept(&part, &a, bytes);
    else
        finish_rows(&part, &a, bytes);
    return true;
}

/* ---- codes ---- */

void sp_remote_codes_own(const struct sp_backend *backend, const struct sp_acts *acts,
                         size_t n_cols, size_t n_rows)
{
    struct sp_acts own = *acts;

    own.cols = n_cols;
    sp_backend_quantize(backend, &own, n_rows);
}

static void set_starts(void *context, size_t t)
{
    const struct sp_acts *const *acts = context;

    sp_acts_set_starts(*acts, t);
}

void sp_remote_codes_finish(const struct sp_backend *backend, const struct sp_acts *acts,
                            size_t n_rows)
{
    sp_backend_rows(backend, n_rows, set_starts, &acts);
}

/* ---- jobs ---- */

/* Computes the part of this rank. */
static void run_own(struct sp_ranks *ranks, const struct sp_remote_job *r)
{
    struct sp_remote_job own = *r;
    const struct sp_product *p = r->job.products;
    size_t n_rows = sp_product_job_rows(&r->job);

    sp_remote_slice(&own, 0, ranks->transport->n_ranks);
    sp_remote_job_run(&own.job, ranks->pages);
    for (size_t i = 0; i < r->job.n_products; i++) {
        if (!r->is_coded[i]) continue;
        sp_remote_codes_own(r->job.backend, p[i].into, own.job.slices[i].n * SP_PANEL_ROWS, n_rows);
    }
    if (r->has_sums)
        sp_remote_job_sum(r->job.backend, p->epilogue->rows->sums, p->epilogue->rows->ld_sums, p->y,
                          p->ldy, sp_product_job_columns(&own.job), n_rows);
}

static void finish_codes(const struct sp_remote_job *r)
{
    size_t n_rows = sp_product_job_rows(&r->job);

    for (size_t i = 0; i < r->job.n_products; i++) {
        const struct sp_product *p = &r->job.products[i];
        if (!sp_product_makes_codes(p)) continue;
        if (r->is_coded[i])
            sp_remote_codes_finish(r->job.backend, p->into, n_rows);
        else
            sp_backend_quantize(r->job.backend, p->into, n_rows);
    }
}

static bool multiply(struct sp_ranks *ranks, const struct sp_product_job *job)
{
    const struct sp_product *p = job->products;
    struct sp_remote_job shared = {.job = *job};
    double t0 = sp_seconds(), t1, t2;

    if (ranks->remote.lost) return false;
    for (size_t i = 0; i < job->n_products; i++) {
        if (!sp_ranks_have(ranks, p[i].w)) return false;
        shared.is_gated[i] = can_gate_remotely(job, i);
        shared.is_coded[i] = shared.is_gated[i] && sp_product_makes_codes(&p[i]);
    }
    if (can_keep(job)) {
        shared.kept = ++ranks->n_kept;
        shared.has_sums = p->epilogue->rows->sums != NULL;
    }
    if (!send_job(ranks, &shared)) return false;
    t1 = sp_seconds();
    ranks->traffic.seconds += t1 - t0;
    run_own(ranks, &shared);
    t1 = sp_seconds();
    for (unsigned rank = 1; rank < ranks->transport->n_ranks; rank++) {
        if (finish_job(ranks, &shared, rank)) continue;
        sp_ranks_lose(ranks, "a rank is lost");
        return false;
    }
    finish_codes(&shared);
    if (shared.kept) {
        struct sp_remote_rows *rows = p->epilogue->rows;
        rows->remote = &ranks->remote;
        rows->number = shared.kept;
        rows->w = p->w;
        rows->y = p->y;
        rows->ldy = p->ldy;
    }
    t2 = sp_seconds();
    ranks->traffic.seconds += t2 - t1;
    ranks->traffic.product_seconds += t2 - t0;
    return true;
}

bool sp_remote_multiply(struct sp_remote *remote, const struct sp_product_job *job)
{
    struct sp_ranks *ranks = sp_ranks_of(remote);
    bool done;

    pthread_mutex_lock(&ranks->lock);
    done = multiply(ranks, job);
    pthread_mutex_unlock(&ranks->lock);
    return done;
}

/* ---- rows that other ranks keep ---- */

struct kept_row {
    const struct sp_remote_rows *rows;
    size_t t;
    struct sp_top_logit *top; /* [room] receives the largest elements; NULL: y receives all */
    size_t room, n_top;
};

/* Sets the slice of the rows that a rank has. Returns its columns. */
static size_t slice_row(struct sp_remote_job *part, const struct sp_remote_rows *rows,
                        const struct sp_product *product, unsigned rank, unsigned n_ranks)
{
    *part = (struct sp_remote_job){.job = {.products = product, .n_products = 1},
                                   .has_sums = rows->sums != NULL};
    sp_remote_slice(part, rank, n_ranks);
    return sp_product_job_columns(&part->job);
}

/* Receives the columns of a rank, or the largest elements among them. */
static bool receive_row(struct sp_ranks *ranks, struct kept_row *row, unsigned rank)
{
    const struct sp_remote_rows *rows = row->rows;
    const struct sp_product product = {.w = rows->w};
    struct sp_remote_job part;
    size_t n = slice_row(&part, rows, &product, rank, ranks->transport->n_ranks);
    size_t first = part.job.slices[0].first * SP_PANEL_ROWS, size;
    const void *answer;

    if (n > row->room) n = row->room;
    size = row->top ? n * sizeof *row->top : part.job.slices[0].n * SP_PANEL_ROWS * sizeof *rows->y;
    if ((answer = sp_ranks_receive(ranks, rank, size)) == NULL) return false;
    if (row->top)
        row->n_top = sp_top_logits_merge(row->top, row->n_top, row->room, answer, n, first);
    else
        memcpy(rows->y + row->t * rows->ldy + first, answer, size);
    return true;
}

static bool ask_for_row(struct sp_ranks *ranks, struct kept_row *row)
{
    const struct sp_remote_row_message m = {.kind = SP_MESSAGE_ROW,
                                            .n_top = (uint32_t)row->room,
                                            .kept = row->rows->number,
                                            .row = row->t};
    struct sp_transport *transport = ranks->transport;
    void *message = transport->ops->buffer(transport, sizeof m);

    if (message == NULL) return false;
    memcpy(message, &m, sizeof m);
    if (!sp_ranks_send(ranks, sizeof m,
                       row->rows->w->n_panels * SP_PANEL_ROWS * sizeof(struct sp_top_logit)))
        return false;
    for (unsigned rank = 1; rank < transport->n_ranks; rank++)
        if (!receive_row(ranks, row, rank)) return false;
    return true;
}

static void get_row(struct kept_row *row)
{
    struct sp_ranks *ranks = sp_ranks_of(row->rows->remote);
    double start = sp_seconds();

    pthread_mutex_lock(&ranks->lock);
    if (!ranks->remote.lost && !ask_for_row(ranks, row))
        sp_ranks_lose(ranks, "out of memory: a row of logits from the ranks");
    ranks->traffic.seconds += sp_seconds() - start;
    pthread_mutex_unlock(&ranks->lock);
}

void sp_remote_row(const struct sp_remote_rows *rows, size_t t)
{
    get_row(&(struct kept_row){.rows = rows, .t = t});
}

size_t sp_remote_top(const struct sp_remote_rows *rows, size_t t, struct sp_top_logit *top,
                     size_t room)
{
    const struct sp_product product = {.w = rows->w};
    struct kept_row row = {.rows = rows, .t = t, .top = top, .room = room};
    struct sp_remote_job own;
    size_t n = slice_row(&own, rows, &product, 0, sp_ranks_of(rows->remote)->transport->n_ranks);

    row.n_top = sp_top_logits_add(top, 0, room, rows->y + t * rows->ldy, n, 0);
    get_row(&row);
    return row.n_top;
}
