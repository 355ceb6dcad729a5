#include "runtime/backend/remote_message.h"

#include "format/base/mem.h"
#include "runtime/backend/attention.h"

static size_t aligned(size_t size)
{
    return sp_round_up(size, SP_REMOTE_ALIGNMENT);
}

struct sp_remote_layout sp_remote_layout_of(const struct sp_remote_head *head)
{
    struct sp_remote_layout l = {.products = aligned(sizeof *head)};
    size_t n = (size_t)(head->n_rows * head->cols);

    l.groups = l.products + aligned(head->n_products * sizeof(struct sp_remote_product));
    l.codes = l.groups + aligned(head->n_groups * sizeof(struct sp_row_group));
    l.scales = l.codes + aligned(head->has_codes ? n : 0);
    l.floats = l.scales + aligned(head->has_codes ? n / SP_BLOCK * sizeof(float) : 0);
    l.size = l.floats + aligned(head->has_floats ? n * sizeof(float) : 0);
    return l;
}

static bool is_sent(const struct sp_product_job *job, size_t i)
{
    return i == 0 || !job->gated_by_sender[i - 1];
}

struct sp_remote_answer sp_remote_answer_of(const struct sp_product_job *job)
{
    struct sp_remote_answer a = {0};
    size_t n_out = sp_product_job_rows(job);

    if (job->kept) {
        n_out *= job->has_sums ? sp_logits_blocks(job->slices[0].n * SP_PANEL_ROWS) : 0;
        a.scales[0] = aligned(sp_product_job_rows(job) * sizeof(uint64_t));
        a.size = a.total = a.scales[0] + aligned(n_out * sizeof(struct sp_logits_sum));
        return a;
    }
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

void sp_remote_slice(struct sp_product_job *job, unsigned rank, unsigned n_ranks)
{
    for (size_t i = 0; i < job->n_products; i++)
        job->slices[i] =
            sp_panel_slice_of(job->products[i].w->n_panels,
                              job->has_sums ? SP_LOGITS_PANELS : SP_BLOCK_PANELS, rank, n_ranks);
}

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

struct sp_remote_attention_layout
sp_remote_attention_layout_of(const struct sp_remote_attention_head *head, unsigned n_ranks)
{
    struct sp_remote_attention_layout l = {.seqs = aligned(sizeof *head)};
    size_t n = (size_t)head->n_rows, row = head->head_dim * sizeof(float);

    l.n_kv_heads = head->n_kv_heads - sp_remote_heads(head->n_kv_heads, 0, n_ranks).n;
    l.n_heads = l.n_kv_heads * (head->n_heads / head->n_kv_heads);
    l.ranges = l.seqs + aligned(head->n_seqs * sizeof(struct sp_remote_seq));
    l.sinks = l.ranges + aligned(head->attends ? n * sizeof(struct sp_key_range) : 0);
    l.q = l.sinks + aligned(head->has_sinks ? l.n_heads * sizeof(float) : 0);
    if (head->products_size == 0) {
        l.k = l.q + aligned(head->attends ? n * l.n_heads * row : 0);
        l.v = l.k + aligned(head->stores ? n * l.n_kv_heads * row : 0);
        l.size = l.v + aligned(head->stores ? n * l.n_kv_heads * row : 0);
        return l;
    }
    l.cos = l.q;
    l.sin = l.cos + aligned(n * (head->n_rot / 2) * sizeof(float));
    l.q_norm = l.sin + aligned(n * (head->n_rot / 2) * sizeof(float));
    l.k_norm = l.q_norm + aligned(head->has_norms ? row : 0);
    l.q_bias = l.k_norm + aligned(head->has_norms ? row : 0);
    l.k_bias = l.q_bias + aligned(head->has_q_bias ? l.n_heads * row : 0);
    l.v_bias = l.k_bias + aligned(head->has_k_bias ? l.n_kv_heads * row : 0);
    l.products = l.v_bias + aligned(head->has_v_bias ? l.n_kv_heads * row : 0);
    l.size = l.products + (size_t)head->products_size;
    return l;
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
