#include "runtime/model/remote_message.h"

#include "format/base/mem.h"

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
