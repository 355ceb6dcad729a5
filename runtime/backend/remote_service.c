#include "runtime/backend/remote_service.h"

#include "format/base/mem.h"
#include "runtime/backend/remote_cache_service.h"
#include "runtime/backend/remote_job.h"
#include "runtime/backend/remote_message.h"
#include "runtime/backend/top_logits.h"

#include <string.h>

/* Has the results of a job computed in rows that are kept. */
static enum sp_status keep_results(struct sp_remote_job *r, struct sp_err *err)
{
    size_t n_rows = sp_product_job_rows(&r->job), cols = r->job.slices[0].n * SP_PANEL_ROWS;
    struct sp_kept_rows *kept = r->kept;
    enum sp_status st = sp_kept_rows_reserve(kept, n_rows, cols, err);

    if (st) return st;
    kept->n = sp_product_job_columns(&r->job);
    for (size_t t = 0; t < n_rows; t++)
        atomic_store_explicit(&kept->best[t], 0, memory_order_relaxed);
    kept->number = r->job.kept;
    kept->finish.best = kept->best;
    r->products[0].y = kept->y;
    r->products[0].ldy = cols;
    r->products[0].finish = &kept->finish;
    return SP_OK;
}

/* Sets where the results of a job are computed: in the answer, unless they are quantized for it. */
static enum sp_status place_results(struct sp_remote_job *r, const struct sp_remote_answer *a,
                                    uint8_t *bytes, struct sp_job_reader *b, struct sp_err *err)
{
    for (size_t i = 0; i < r->job.n_products; i++) {
        size_t cols = r->job.slices[i].n * SP_PANEL_ROWS;
        struct sp_acts *acts;
        enum sp_status st;

        r->products[i].y = (float *)(void *)(bytes + a->places[i]);
        r->products[i].ldy = cols;
        if (!r->job.coded_by_sender[i]) continue;
        if ((st = sp_acts_by_width_find(&b->coded, &acts, sp_product_job_rows(&r->job), cols, err)))
            return st;
        r->products[i].y = acts->x;
        r->products[i].ldy = acts->ld;
        r->coded[i] = acts;
    }
    return SP_OK;
}

/* Quantizes results into the answer. */
static void put_codes(const struct sp_remote_job *r, const struct sp_remote_answer *a,
                      uint8_t *bytes)
{
    size_t n_rows = sp_product_job_rows(&r->job);

    for (size_t i = 0; i < r->job.n_products; i++) {
        const struct sp_acts *acts = r->coded[i];
        if (acts == NULL) continue;
        sp_backend_quantize(r->job.backend, acts, n_rows);
        sp_remote_codes_write(bytes + a->places[i], bytes + a->scales[i], acts, n_rows);
    }
}

static void put_bests(const struct sp_kept_rows *kept, uint64_t *orders)
{
    for (size_t t = 0; t < kept->n_rows; t++)
        orders[t] = atomic_load_explicit(&kept->best[t], memory_order_relaxed);
}

static enum sp_status answer_message(struct sp_transport *transport, struct sp_job_reader *reader,
                                     const uint8_t *message, size_t size, struct sp_err *err)
{
    struct sp_remote_job r;
    struct sp_remote_answer a;
    enum sp_status st;
    uint8_t *bytes;

    if ((st = sp_remote_job_read(&r, reader, message, size, err))) return st;
    sp_remote_slice(&r.job, transport->rank, transport->n_ranks);
    a = sp_remote_answer_of(&r.job);
    if ((bytes = transport->ops->answer(transport, a.total)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", a.total);
    st = r.job.kept ? keep_results(&r, err) : place_results(&r, &a, bytes, reader, err);
    if (st) return st;
    memset(r.job.gated_by_sender, 0, sizeof r.job.gated_by_sender);
    sp_product_job_run(&r.job);
    if (r.job.kept) {
        put_bests(r.kept, (void *)bytes);
        if (r.job.has_sums) {
            sp_product_job_sum(&r.job, (void *)(bytes + a.scales[0]),
                               sp_logits_blocks(r.kept->cols));
        }
    } else {
        put_codes(&r, &a, bytes);
    }
    transport->ops->reply(transport, a.size);
    return SP_OK;
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
    n = m.n_top < kept->n ? m.n_top : kept->n;
    size = m.n_top ? n * sizeof(struct sp_top_logit) : kept->cols * sizeof *row;
    if ((bytes = transport->ops->answer(transport, size)) == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    if (m.n_top)
        sp_top_logits_add(bytes, 0, n, row, kept->n, 0);
    else if (size)
        memcpy(bytes, row, size);
    transport->ops->reply(transport, size);
    return SP_OK;
}

static enum sp_status answer_echo(struct sp_transport *transport, const uint8_t *message,
                                  size_t size, struct sp_err *err)
{
    void *bytes = transport->ops->answer(transport, size - SP_REMOTE_ALIGNMENT);

    if (bytes == NULL)
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    memcpy(bytes, message + SP_REMOTE_ALIGNMENT, size - SP_REMOTE_ALIGNMENT);
    transport->ops->reply(transport, size - SP_REMOTE_ALIGNMENT);
    return SP_OK;
}

enum sp_status sp_remote_serve(struct sp_transport *transport, const struct sp_backend *backend,
                               const struct sp_rank_file *file, bool *has_ended, struct sp_err *err)
{
    struct sp_job_reader reader = {.backend = backend, .file = file};
    struct sp_cache_service *caches = NULL;
    enum sp_status st = sp_cache_service_open(&caches, transport, &reader, err);
    const void *message = NULL;
    uint32_t kind = SP_MESSAGE_PRODUCTS;
    size_t size;

    while (st == SP_OK && (message = transport->ops->next(transport, &size)) != NULL) {
        memcpy(&kind, message, sizeof kind);
        if (kind == SP_MESSAGE_ECHO)
            st = answer_echo(transport, message, size, err);
        else if (kind == SP_MESSAGE_PRODUCTS)
            st = answer_message(transport, &reader, message, size, err);
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
    sp_job_reader_release(&reader);
    sp_cache_service_close(caches);
    return st;
}
