#include "runtime/remote/remote_job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

enum sp_status sp_kept_rows_reserve(struct sp_kept_rows *kept, size_t n_rows, size_t cols,
                                    struct sp_err *err)
{
    enum sp_status st;

    kept->number = 0;
    kept->n_rows = n_rows;
    kept->cols = cols;
    if (n_rows > kept->cap_rows) {
        free(kept->argmax);
        kept->argmax = NULL;
        kept->cap_rows = 0;
        if ((st = sp_new(&kept->argmax, n_rows, sizeof *kept->argmax, err))) return st;
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
    free(kept->argmax);
}

void sp_job_reader_release(struct sp_job_reader *reader)
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
                                             .limit = p->limit};
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
