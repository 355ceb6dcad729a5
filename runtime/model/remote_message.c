#include "runtime/model/remote_message.h"

#include "format/base/mem.h"
#include "runtime/model/attention.h"

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
        job->slices[i] = sp_panel_slice_of(job->products[i].w->n_panels, rank, n_ranks);
}

struct sp_head_slice sp_remote_heads(unsigned n_heads, unsigned rank, unsigned n_ranks)
{
    unsigned first = (n_heads * rank + n_ranks - 1) / n_ranks;
    unsigned end = (n_heads * (rank + 1) + n_ranks - 1) / n_ranks;

    return (struct sp_head_slice){first, end - first};
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
    l.k = l.q + aligned(head->attends ? n * l.n_heads * row : 0);
    l.v = l.k + aligned(head->stores ? n * l.n_kv_heads * row : 0);
    l.size = l.v + aligned(head->stores ? n * l.n_kv_heads * row : 0);
    return l;
}
