/* What a rank other than 0 does: it computes what the messages describe until rank 0 ends or sends
 * a message of another kind. */
#include "runtime/remote/remote_service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- jobs from messages ---- */

enum sp_status sp_acts_buffer_reserve(struct sp_acts_buffer *b, size_t n_rows, size_t cols,
                                      struct sp_err *err)
{
    enum sp_status st;

    if (n_rows > b->n_rows || cols > b->n_cols) {
        if (n_rows < b->n_rows) n_rows = b->n_rows;
        size_t n_cols = cols < b->n_cols ? b->n_cols : cols;
        sp_acts_release(&b->acts);
        b->n_rows = b->n_cols = 0;
        if ((st = sp_acts_init(&b->acts, n_rows, n_cols, err))) return st;
        b->n_rows = n_rows;
        b->n_cols = n_cols;
    }
    b->acts.cols = cols;
    return SP_OK;
}

static enum sp_status kept_rows_reserve(struct sp_kept_rows *kept, size_t n_rows, size_t cols,
                                        struct sp_err *err)
{
    enum sp_status st;

    kept->number = 0;
    kept->n_rows = n_rows;
    kept->cols = cols;
    st = sp_reserve(&kept->argmax, &kept->cap_rows, n_rows, sizeof *kept->argmax, err);
    return st ? st : sp_reserve(&kept->y, &kept->cap, n_rows * cols, sizeof *kept->y, err);
}

static void release_kept(struct sp_kept_rows *kept)
{
    free(kept->y);
    free(kept->argmax);
}

static void job_reader_release(struct sp_job_reader *reader)
{
    release_kept(&reader->kept);
    release_kept(&reader->corrected);
    sp_acts_release(&reader->received.acts);
    sp_acts_release(&reader->coded.acts);
    sp_weight_pages_close(reader->pages);
}

static enum sp_status get_products(struct sp_received_job *r,
                                   const struct sp_remote_product *products,
                                   const struct sp_rank_file *file, struct sp_err *err)
{
    for (size_t i = 0; i < r->shared.job.n_products; i++) {
        const struct sp_remote_product *p = &products[i];
        if (p->panels >= file->size || p->n_panels * p->panel_size > file->size - p->panels)
            return sp_fail(err, SP_E_BUG, "a product of weights outside the file");
        r->matrices[i] = (struct sp_matrix){.dtype = (enum sp_dtype)p->dtype,
                                            .rows = (size_t)p->rows,
                                            .cols = r->shared.job.acts->cols,
                                            .n_panels = (size_t)p->n_panels,
                                            .panel_size = (size_t)p->panel_size,
                                            .panels = file->bytes + p->panels};
        r->products[i] = (struct sp_product){.w = &r->matrices[i],
                                             .gated = p->is_gated,
                                             .activation = (enum sp_activation)p->activation,
                                             .limit = p->limit,
                                             .gate_limit = p->gate_limit};
        r->shared.is_gated[i] = p->is_gated;
        r->shared.is_coded[i] = p->is_coded;
    }
    return SP_OK;
}

enum sp_status sp_received_job_read(struct sp_received_job *r, struct sp_job_reader *reader,
                                    void *message, size_t size, struct sp_err *err)
{
    const struct sp_kept_rows *kept = &reader->kept;
    struct sp_acts *acts = &reader->received.acts;
    struct sp_remote_parts from;
    struct sp_remote_head h;
    enum sp_status st;

    assert(size >= sizeof h);
    memcpy(&h, message, sizeof h);
    from = sp_remote_parts_of(&h, message);
    assert(h.n_products <= SP_MAX_PRODUCTS && size == from.size);
    st = sp_acts_buffer_reserve(&reader->received, (size_t)h.n_rows, (size_t)h.cols, err);
    if (st) return st;
    sp_remote_rows_copy(acts, &from.rows, (size_t)h.n_rows, h.has_codes, h.has_floats);
    for (size_t t = 0; h.has_codes && t < h.n_rows; t++)
        sp_acts_set_starts(acts, t);
    *r = (struct sp_received_job){.kept = h.bias_kept ? &reader->corrected : &reader->kept};
    r->kept->epilogue = (struct sp_epilogue){.scale = h.scale, .cap = h.cap};
    r->shared.kept = h.kept;
    r->shared.has_sums = h.has_sums;
    r->shared.job = (struct sp_product_job){.backend = reader->backend,
                                            .products = r->products,
                                            .n_products = h.n_products,
                                            .acts = acts,
                                            .n_rows = (size_t)h.n_rows,
                                            .groups = from.groups,
                                            .n_groups = h.n_groups,
                                            .y_is_slice = true};
    if ((st = get_products(r, from.products, reader->file, err)) || h.bias_kept == 0) return st;
    if (h.bias_kept != kept->number || h.bias_row >= kept->n_rows)
        return sp_fail(err, SP_E_BUG, "a bias that is not kept");
    r->products[0].bias = kept->y + h.bias_row * kept->cols;
    return SP_OK;
}

/* ---- products ---- */

/* Computes a job in rows that are kept, and answers with their largest elements. */
static enum sp_status run_kept(struct sp_received_job *r, const struct sp_remote_answer *a,
                               uint8_t *bytes, struct sp_job_reader *reader, struct sp_err *err)
{
    struct sp_product_job *job = &r->shared.job;
    size_t n_rows = sp_product_job_rows(job), cols = job->slices[0].n * SP_PANEL_ROWS;
    struct sp_kept_rows *kept = r->kept;
    uint64_t *orders = (void *)bytes;
    enum sp_status st = kept_rows_reserve(kept, n_rows, cols, err);

    if (st) return st;
    kept->n = sp_product_job_columns(job);
    for (size_t t = 0; t < n_rows; t++)
        atomic_store_explicit(&kept->argmax[t], 0, memory_order_relaxed);
    kept->number = r->shared.kept;
    kept->epilogue.argmax = kept->argmax;
    r->products[0].y = kept->y;
    r->products[0].ldy = cols;
    r->products[0].epilogue = &kept->epilogue;
    sp_remote_job_run(job, reader->pages);
    for (size_t t = 0; t < n_rows; t++)
        orders[t] = atomic_load_explicit(&kept->argmax[t], memory_order_relaxed);
    if (r->shared.has_sums)
        sp_remote_job_sum(job->backend, (void *)(bytes + a->scales[0]), sp_logits_blocks(cols),
                          kept->y, cols, kept->n, n_rows);
    return SP_OK;
}

/* Computes a job in the answer. Results that are answered as codes, of one product at most, are
 * quantized into it. */
static enum sp_status run_rows(struct sp_received_job *r, const struct sp_remote_answer *a,
                               uint8_t *bytes, struct sp_job_reader *reader, struct sp_err *err)
{
    struct sp_product_job *job = &r->shared.job;
    const struct sp_acts *coded = &reader->coded.acts;
    size_t n_rows = sp_product_job_rows(job);
    enum sp_status st;

    for (size_t i = 0; i < job->n_products; i++) {
        size_t cols = job->slices[i].n * SP_PANEL_ROWS;
        r->products[i].y = (float *)(void *)(bytes + a->places[i]);
        r->products[i].ldy = cols;
        if (!r->shared.is_coded[i]) continue;
        if ((st = sp_acts_buffer_reserve(&reader->coded, n_rows, cols, err))) return st;
        r->products[i].y = coded->x;
        r->products[i].ldy = coded->ld;
    }
    sp_remote_job_run(job, reader->pages);
    for (size_t i = 0; i < job->n_products; i++) {
        if (!r->shared.is_coded[i]) continue;
        sp_backend_quantize(job->backend, coded, n_rows);
        const struct sp_acts to =
            sp_remote_rows_at(bytes + a->places[i], bytes + a->scales[i], NULL, coded->cols);
        sp_remote_rows_copy(&to, coded, n_rows, true, false);
    }
    return SP_OK;
}

static enum sp_status answer_products(struct sp_transport *transport, struct sp_job_reader *reader,
                                      void *message, size_t size, struct sp_err *err)
{
    struct sp_received_job r;
    struct sp_remote_answer a;
    enum sp_status st;
    uint8_t *bytes;

    if ((st = sp_received_job_read(&r, reader, message, size, err))) return st;
    sp_remote_slice(&r.shared, transport->rank, transport->n_ranks);
    a = sp_remote_answer_of(&r.shared);
    if ((bytes = transport->ops->buffer(transport, a.total)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", a.total);
    st =
        r.shared.kept ? run_kept(&r, &a, bytes, reader, err) : run_rows(&r, &a, bytes, reader, err);
    if (st) return st;
    transport->ops->reply(transport, a.size);
    return SP_OK;
}

/* ---- other messages ---- */

enum sp_status sp_rank_answer(struct sp_transport *transport, const void *bytes, size_t size,
                              struct sp_err *err)
{
    void *answer = transport->ops->buffer(transport, size);

    if (answer == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    if (size) memcpy(answer, bytes, size);
    transport->ops->reply(transport, size);
    return SP_OK;
}

enum sp_status sp_rank_answer_status(struct sp_transport *transport, const struct sp_err *outcome,
                                     struct sp_err *err)
{
    struct sp_remote_status answer = {.status = (uint32_t)outcome->status};

    memcpy(answer.text, outcome->text, sizeof answer.text);
    return sp_rank_answer(transport, &answer, sizeof answer, err);
}

static enum sp_status answer_row(struct sp_transport *transport, const struct sp_job_reader *reader,
                                 const void *message, struct sp_err *err)
{
    const struct sp_kept_rows *kept = &reader->kept;
    struct sp_remote_row_message m;
    const float *row;
    size_t n, size;
    void *bytes;

    memcpy(&m, message, sizeof m);
    if (m.kept == reader->corrected.number) kept = &reader->corrected;
    if (m.kept != kept->number || m.row >= kept->n_rows)
        return sp_fail(err, SP_E_BUG, "a row of logits that is not kept");
    row = kept->y + m.row * kept->cols;
    if (m.n_top == 0) return sp_rank_answer(transport, row, kept->cols * sizeof *row, err);
    n = m.n_top < kept->n ? m.n_top : kept->n;
    size = n * sizeof(struct sp_top_logit);
    if ((bytes = transport->ops->buffer(transport, size)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    sp_top_logits_add(bytes, 0, n, row, kept->n, 0);
    transport->ops->reply(transport, size);
    return SP_OK;
}

enum sp_status sp_ranks_serve(struct sp_transport *transport, const struct sp_backend *backend,
                              const struct sp_rank_file *file, bool *has_ended, struct sp_err *err)
{
    struct sp_job_reader reader = {.backend = backend, .file = file};
    struct sp_cache_service *caches = NULL;
    enum sp_status st = sp_cache_service_open(&caches, transport, &reader, err);
    void *message = NULL;
    uint32_t kind = SP_MESSAGE_PRODUCTS;
    size_t size;

    if (!st) st = sp_weight_pages_open(&reader.pages, file->bytes, file->size, err);
    while (st == SP_OK && (message = transport->ops->next(transport, &size)) != NULL) {
        memcpy(&kind, message, sizeof kind);
        if (kind == SP_MESSAGE_ECHO)
            st = sp_rank_answer(transport, (uint8_t *)message + SP_REMOTE_ALIGNMENT,
                                size - SP_REMOTE_ALIGNMENT, err);
        else if (kind == SP_MESSAGE_PRODUCTS)
            st = answer_products(transport, &reader, message, size, err);
        else if (kind == SP_MESSAGE_ROW)
            st = answer_row(transport, &reader, message, err);
        else if (kind == SP_MESSAGE_CACHE)
            st = sp_cache_service_act(caches, message, err);
        else if (kind == SP_MESSAGE_ATTENTION)
            st = sp_cache_service_attend(caches, message, err);
        else
            break;
    }
    *has_ended = message == NULL;
    job_reader_release(&reader);
    sp_cache_service_close(caches);
    return st;
}
