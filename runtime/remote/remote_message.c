#include "runtime/remote/remote_message.h"

#include "format/base/mem.h"
#include "runtime/remote/ranks.h"

#include <string.h>

static size_t aligned(size_t size)
{
    return sp_round_up(size, SP_REMOTE_ALIGNMENT);
}

/* Appends a part of `size` bytes to a message of *end bytes. Its place; NULL without a message. */
static void *part(uint8_t *message, size_t *end, size_t size)
{
    size_t at = *end;

    *end += aligned(size);
    return message ? message + at : NULL;
}

/* ---- products ---- */

/* The part of `rank` of n_panels panels: whole blocks of `block` panels. */
static struct sp_panel_slice slice_of(size_t n_panels, size_t block, unsigned rank,
                                      unsigned n_ranks)
{
    size_t n_blocks = (n_panels + block - 1) / block;
    size_t first = n_blocks * rank / n_ranks * block;
    size_t end = n_blocks * (rank + 1) / n_ranks * block;

    return (struct sp_panel_slice){first, (end < n_panels ? end : n_panels) - first};
}

void sp_remote_slice(struct sp_remote_job *r, unsigned rank, unsigned n_ranks)
{
    size_t block = (r->has_sums ? SP_LOGITS_BLOCK : SP_BLOCK) / SP_PANEL_ROWS;

    for (size_t i = 0; i < r->job.n_products; i++)
        r->job.slices[i] = slice_of(r->job.products[i].w->n_panels, block, rank, n_ranks);
}

struct sp_remote_parts sp_remote_parts_of(const struct sp_remote_head *h, void *message)
{
    struct sp_remote_parts p = {0};
    size_t n = (size_t)(h->n_rows * h->cols);
    void *codes, *scales, *floats;

    part(message, &p.size, sizeof *h);
    p.products = part(message, &p.size, h->n_products * sizeof *p.products);
    p.groups = part(message, &p.size, h->n_groups * sizeof *p.groups);
    codes = part(message, &p.size, h->has_codes ? n : 0);
    scales = part(message, &p.size, h->has_codes ? n / SP_BLOCK * sizeof(float) : 0);
    floats = part(message, &p.size, h->has_floats ? n * sizeof(float) : 0);
    p.rows = sp_remote_rows_at(codes, scales, floats, (size_t)h->cols);
    return p;
}

struct sp_acts sp_remote_rows_at(void *codes, void *scales, void *floats, size_t cols)
{
    return (struct sp_acts){.cols = cols,
                            .ld = cols,
                            .ld_block = cols / SP_BLOCK,
                            .x = floats,
                            .q = codes,
                            .scale = scales};
}

void sp_remote_rows_copy(const struct sp_acts *to, const struct sp_acts *from, size_t n_rows,
                         bool codes, bool floats)
{
    size_t n_blocks = to->cols / SP_BLOCK;

    for (size_t t = 0; t < n_rows; t++) {
        if (codes) {
            memcpy(to->q + t * to->ld, from->q + t * from->ld, to->cols);
            memcpy(to->scale + t * to->ld_block, from->scale + t * from->ld_block,
                   n_blocks * sizeof *to->scale);
        }
        if (floats) memcpy(to->x + t * to->ld, from->x + t * from->ld, to->cols * sizeof *to->x);
    }
}

struct sp_remote_answer sp_remote_answer_of(const struct sp_remote_job *r)
{
    struct sp_remote_answer a = {0};
    size_t n_out = sp_product_job_rows(&r->job);

    if (r->kept) {
        a.scales[0] = aligned(n_out * sizeof(uint64_t));
        n_out *= r->has_sums ? sp_logits_blocks(r->job.slices[0].n * SP_PANEL_ROWS) : 0;
        a.size = a.total = a.scales[0] + aligned(n_out * sizeof(struct sp_logits_sum));
        return a;
    }
    for (int sent = 1; sent >= 0; sent--) {
        for (size_t i = 0; i < r->job.n_products; i++) {
            bool is_sent = i == 0 || !r->is_gated[i - 1];
            if (is_sent != (sent == 1)) continue;
            size_t n = n_out * r->job.slices[i].n * SP_PANEL_ROWS;
            a.places[i] = a.total;
            a.total += aligned(r->is_coded[i] ? n : n * sizeof(float));
            a.scales[i] = a.total;
            if (r->is_coded[i]) a.total += aligned(n / SP_BLOCK * sizeof(float));
        }
        if (sent) a.size = a.total;
    }
    return a;
}

void sp_remote_job_run(struct sp_product_job *job, struct sp_weight_pages *pages)
{
    for (size_t i = 0; i < job->n_products; i++) {
        const struct sp_panel_slice *slice = &job->slices[i];
        const struct sp_matrix *w = job->products[i].w;
        for (size_t g = 0; g < job->n_groups; g++) {
            size_t first = job->groups[g].matrix * w->n_panels + slice->first;
            sp_weight_pages_need(pages, w->panels + first * w->panel_size,
                                 slice->n * w->panel_size);
        }
    }
    sp_product_job_run(job);
}

struct sum_job {
    const struct sp_backend *backend;
    struct sp_logits_sum *sums;
    const float *y;
    size_t ld_sums, ldy, n, n_blocks;
};

static void sum_blocks(void *context, size_t first, size_t n, unsigned worker)
{
    const struct sum_job *s = context;

    (void)worker;
    for (size_t i = first; i < first + n; i++) {
        size_t t = i / s->n_blocks, block = i % s->n_blocks, at = block * SP_LOGITS_BLOCK;
        size_t len = s->n - at < SP_LOGITS_BLOCK ? s->n - at : SP_LOGITS_BLOCK;
        s->sums[t * s->ld_sums + block] =
            sp_logits_sum_of(s->backend->vector, s->y + t * s->ldy + at, len);
    }
}

void sp_remote_job_sum(const struct sp_backend *backend, struct sp_logits_sum *sums, size_t ld_sums,
                       const float *y, size_t ldy, size_t n, size_t n_rows)
{
    enum { MIN_BLOCKS = 8 };
    struct sum_job s = {backend, sums, y, ld_sums, ldy, n, sp_logits_blocks(n)};

    sp_pool_run_ranges(backend->pool, n_rows * s.n_blocks, MIN_BLOCKS, sum_blocks, &s);
}

/* ---- caches and attention ---- */

struct sp_head_slice sp_remote_heads(unsigned n_heads, unsigned rank, unsigned n_ranks)
{
    unsigned first = (n_heads * rank + n_ranks - 1) / n_ranks;
    unsigned end = (n_heads * (rank + 1) + n_ranks - 1) / n_ranks;

    return (struct sp_head_slice){first, end - first};
}

void sp_remote_slice_heads(struct sp_product_job *job, struct sp_head_slice kv_heads,
                           unsigned n_kv_heads)
{
    for (size_t i = 0; i < job->n_products; i++) {
        size_t n = job->products[i].w->n_panels / n_kv_heads;
        job->slices[i] = (struct sp_panel_slice){kv_heads.first * n, kv_heads.n * n};
    }
}

struct sp_remote_attention_parts
sp_remote_attention_parts_of(const struct sp_remote_attention_head *h, unsigned n_ranks,
                             void *message)
{
    struct sp_remote_attention_parts p = {0};
    size_t n = (size_t)h->n_rows, row = h->head_dim * sizeof(float), *end = &p.size;
    size_t angles = n * (h->n_rot / 2) * sizeof(float);

    p.n_kv_heads = h->n_kv_heads - sp_remote_heads(h->n_kv_heads, 0, n_ranks).n;
    p.n_heads = p.n_kv_heads * (h->n_heads / h->n_kv_heads);
    part(message, end, sizeof *h);
    p.seqs = part(message, end, h->n_seqs * sizeof *p.seqs);
    p.ranges = part(message, end, h->attends ? n * sizeof *p.ranges : 0);
    p.sinks = part(message, end, h->has_sinks ? p.n_heads * sizeof *p.sinks : 0);
    if (h->products_size == 0) {
        p.q = part(message, end, h->attends ? n * p.n_heads * row : 0);
        p.k = part(message, end, h->stores ? n * p.n_kv_heads * row : 0);
        p.v = part(message, end, h->stores ? n * p.n_kv_heads * row : 0);
        return p;
    }
    p.cos = part(message, end, angles);
    p.sin = part(message, end, angles);
    p.q_norm = part(message, end, h->has_norms ? row : 0);
    p.k_norm = part(message, end, h->has_norms ? row : 0);
    p.q_bias = part(message, end, h->has_q_bias ? p.n_heads * row : 0);
    p.k_bias = part(message, end, h->has_k_bias ? p.n_kv_heads * row : 0);
    p.v_bias = part(message, end, h->has_v_bias ? p.n_kv_heads * row : 0);
    p.products = part(message, end, (size_t)h->products_size);
    return p;
}

struct sp_remote_attended sp_remote_attended_of(const struct sp_remote_attention_head *head,
                                                unsigned n_kv_heads)
{
    struct sp_remote_attended a = {.kv_cols = n_kv_heads * (size_t)head->head_dim};
    size_t n = (size_t)head->n_rows, n_kv = n * a.kv_cols * sizeof(float), n_out;

    a.cols = head->n_heads / head->n_kv_heads * a.kv_cols;
    n_out = head->attends ? n * a.cols : 0;
    a.scales = aligned(head->is_coded ? n_out : n_out * sizeof(float));
    a.size = a.scales + aligned(head->is_coded ? n_out / SP_BLOCK * sizeof(float) : 0);
    a.q = a.size;
    a.k = a.q + aligned(head->products_size ? n_out * sizeof(float) : 0);
    a.v = a.k + aligned(head->products_size ? n_kv : 0);
    a.total = a.v + aligned(head->products_size ? n_kv : 0);
    return a;
}
