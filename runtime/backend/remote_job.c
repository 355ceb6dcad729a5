#include "runtime/backend/remote_job.h"

#include "runtime/backend/remote_message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void release_widths(struct sp_acts_by_width *b)
{
    for (size_t i = 0; i < b->n_widths; i++)
        sp_acts_release(&b->acts[i]);
}

enum sp_status sp_acts_by_width_find(struct sp_acts_by_width *b, struct sp_acts **out,
                                     size_t n_rows, size_t cols, struct sp_err *err)
{
    enum sp_status st;
    size_t i = 0;

    while (i < b->n_widths && b->acts[i].cols != cols)
        i++;
    if (i == SP_MAX_WIDTHS) i = 0;
    if (i == b->n_widths) b->n_widths++;
    *out = &b->acts[i];
    if (b->acts[i].cols == cols && b->n_rows[i] >= n_rows) return SP_OK;
    sp_acts_release(&b->acts[i]);
    b->n_rows[i] = 0;
    if ((st = sp_acts_init(&b->acts[i], n_rows, cols, err))) return st;
    b->n_rows[i] = n_rows;
    return SP_OK;
}

void sp_remote_codes_write(uint8_t *codes, uint8_t *scales, const struct sp_acts *acts,
                           size_t n_rows)
{
    size_t cols = acts->cols, scales_size = cols / SP_BLOCK * sizeof(float);

    for (size_t t = 0; t < n_rows; t++) {
        memcpy(codes + t * cols, acts->q + t * acts->ld, cols);
        memcpy(scales + t * scales_size, acts->scale + t * acts->ld_block, scales_size);
    }
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

enum sp_status sp_kept_rows_reserve(struct sp_kept_rows *kept, size_t n_rows, size_t cols,
                                    struct sp_err *err)
{
    enum sp_status st;

    kept->number = 0;
    kept->n_rows = n_rows;
    kept->cols = cols;
    if (n_rows > kept->cap_rows) {
        free(kept->best);
        kept->best = NULL;
        kept->cap_rows = 0;
        if ((st = sp_new(&kept->best, n_rows, sizeof *kept->best, err))) return st;
        kept->cap_rows = n_rows;
    }
    if (n_rows * cols <= kept->cap) return SP_OK;
    free(kept->y);
    kept->y = NULL;
    kept->cap = 0;
    if ((st = sp_new_aligned(&kept->y, n_rows * cols, sizeof *kept->y, err))) return st;
    kept->cap = n_rows * cols;
    return SP_OK;
}

static void release_kept(struct sp_kept_rows *kept)
{
    free(kept->y);
    free(kept->best);
}

void sp_job_reader_release(struct sp_job_reader *reader)
{
    release_kept(&reader->kept);
    release_kept(&reader->corrected);
    release_widths(&reader->received);
    release_widths(&reader->coded);
}

static enum sp_status get_products(struct sp_remote_job *r, const uint8_t *at,
                                   const struct sp_rank_file *file, struct sp_err *err)
{
    for (size_t i = 0; i < r->job.n_products; i++, at += sizeof(struct sp_remote_product)) {
        struct sp_remote_product h;
        memcpy(&h, at, sizeof h);
        if (h.panels >= file->size || h.n_panels * h.panel_size > file->size - h.panels)
            return sp_fail(err, SP_E_BUG, "a product of weights outside the file");
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

enum sp_status sp_remote_job_read(struct sp_remote_job *job, struct sp_job_reader *reader,
                                  const uint8_t *message, size_t size, struct sp_err *err)
{
    struct sp_acts *acts;
    struct sp_remote_head h;
    struct sp_remote_layout l;
    enum sp_status st;

    assert(size >= sizeof h);
    memcpy(&h, message, sizeof h);
    l = sp_remote_layout_of(&h);
    assert(h.n_products <= SP_MAX_PRODUCTS && size == l.size);
    if ((st = sp_acts_by_width_find(&reader->received, &acts, (size_t)h.n_rows, (size_t)h.cols,
                                    err)))
        return st;
    *job = (struct sp_remote_job){0};
    job->job = (struct sp_product_job){
        .backend = reader->backend,
        .products = job->products,
        .n_products = h.n_products,
        .acts = acts,
        .groups = (const struct sp_row_group *)(const void *)(message + l.groups),
        .n_groups = h.n_groups,
        .y_is_slice = true,
        .kept = h.kept,
        .has_sums = h.has_sums,
    };
    job->kept = h.bias_kept ? &reader->corrected : &reader->kept;
    job->kept->finish = (struct sp_finish){.scale = h.scale, .cap = h.cap};
    get_rows(acts, message, &l, &h);
    if ((st = get_products(job, message + l.products, reader->file, err))) return st;
    if (h.bias_kept == 0) return SP_OK;
    if (h.bias_kept != reader->kept.number || h.bias_row >= reader->kept.n_rows)
        return sp_fail(err, SP_E_BUG, "a bias that is not kept");
    job->products[0].bias = reader->kept.y + h.bias_row * reader->kept.cols;
    return SP_OK;
}
