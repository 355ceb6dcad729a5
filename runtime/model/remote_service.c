#include "runtime/model/remote_service.h"

#include "format/base/mem.h"
#include "runtime/model/remote_cache_service.h"
#include "runtime/model/remote_message.h"

#include <assert.h>
#include <string.h>

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

static void get_rows(const struct sp_acts *acts, const uint8_t *message,
                     const struct sp_remote_layout *l, const struct sp_remote_head *h)
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
    for (size_t i = 0; i < r->job.n_products; i++, at += sizeof(struct sp_remote_product)) {
        struct sp_remote_product h;
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
static enum sp_status place_results(struct received_job *r, const struct sp_remote_answer *a,
                                    uint8_t *bytes, struct rank_buffers *b, struct sp_err *err)
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
static void put_codes(const struct received_job *r, const struct sp_remote_answer *a,
                      uint8_t *bytes)
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
    struct sp_remote_answer a;
    struct sp_acts *acts;
    struct sp_remote_head h;
    struct sp_remote_layout l;
    enum sp_status st;
    uint8_t *bytes;

    assert(size >= sizeof h);
    memcpy(&h, message, sizeof h);
    l = sp_remote_layout_of(&h);
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
    sp_remote_slice(&r.job, transport->rank, transport->n_ranks);
    a = sp_remote_answer_of(&r.job);
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
    void *bytes = transport->ops->answer(transport, size - SP_REMOTE_ALIGNMENT);

    if (bytes == NULL) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: %zu bytes for an answer", size);
    }
    memcpy(bytes, message + SP_REMOTE_ALIGNMENT, size - SP_REMOTE_ALIGNMENT);
    transport->ops->reply(transport, size - SP_REMOTE_ALIGNMENT);
    return SP_OK;
}

enum sp_status sp_remote_serve(struct sp_transport *transport, const struct sp_backend *backend,
                               const struct sp_rank_file *file, bool *has_ended, struct sp_err *err)
{
    struct rank_buffers buffers = {0};
    struct sp_cache_service *caches = NULL;
    enum sp_status st = sp_cache_service_open(&caches, transport, backend, err);
    const void *message = NULL;
    uint32_t kind = SP_MESSAGE_PRODUCTS;
    size_t size;

    while (st == SP_OK && (message = transport->ops->next(transport, &size)) != NULL) {
        memcpy(&kind, message, sizeof kind);
        if (kind == SP_MESSAGE_ECHO) {
            st = answer_echo(transport, message, size, err);
        } else if (kind == SP_MESSAGE_PRODUCTS) {
            st = answer_message(transport, &buffers, backend, file, message, size, err);
        } else if (kind == SP_MESSAGE_CACHE) {
            st = sp_cache_service_act(caches, message, err);
        } else if (kind == SP_MESSAGE_ATTENTION) {
            st = sp_cache_service_attend(caches, message, err);
        } else {
            break;
        }
    }
    *has_ended = message == NULL;
    release_widths(&buffers.received);
    release_widths(&buffers.coded);
    sp_cache_service_close(caches);
    return st;
}
