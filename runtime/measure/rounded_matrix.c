#include "runtime/measure/group_divergence.h"

#include "format/base/mem.h"

#include <stdlib.h>

/* What one thread needs. */
struct worker {
    struct sp_gptq_room room;
    struct sp_err err; /* the first failure */
};

/* Panels that are being rounded, one for each item of the pool. */
struct round_job {
    const struct sp_rounding *rounding;
    const struct sp_matrix *from;
    const bool *used; /* [panels], or NULL: all */
    uint8_t *panels;
    size_t panel_size;
    float *rows;            /* [threads][16][cols] */
    struct worker *workers; /* [threads] */
};

static void round_panel(void *context, size_t p, unsigned worker)
{
    const struct round_job *job = context;
    const struct sp_matrix *w = job->from;
    const struct sp_encoder *encoder = job->rounding->encoder;
    struct worker *own = &job->workers[worker];
    const float *factors;
    size_t first_row = p % w->n_panels * SP_PANEL_ROWS;
    size_t n = w->rows - first_row < SP_PANEL_ROWS ? w->rows - first_row : SP_PANEL_ROWS;
    float *rows = job->rows + worker * SP_PANEL_ROWS * w->cols;

    if (own->err.status || (job->used && !job->used[p])) return;
    if (sp_gptq_prepare(&factors, &own->room, job->rounding->weights, p / w->n_panels, w->cols,
                        NULL, &own->err))
        return;
    sp_panel_decode(rows, w->dtype, w->panels + p * w->panel_size, n, w->cols, encoder->kernels);
    (void)!sp_panel_encode(job->panels + p * job->panel_size, job->rounding->dtype, encoder, rows,
                           n, w->cols, first_row, factors, own->room.workspace, &own->err);
}

static enum sp_status run_job(struct round_job *job, size_t n_panels, struct sp_err *err)
{
    unsigned n_threads = sp_pool_n_threads(job->rounding->pool);
    enum sp_status st;

    if ((st = sp_new(&job->workers, n_threads, sizeof *job->workers, err))) return st;
    if ((st = sp_new_rows(&job->rows, n_threads, SP_PANEL_ROWS * job->from->cols, err))) goto done;
    sp_pool_run(job->rounding->pool, n_panels, round_panel, job);
    for (unsigned i = 0; i < n_threads && !st; i++)
        if (job->workers[i].err.status) st = sp_fail_as(err, &job->workers[i].err);
done:
    for (unsigned i = 0; i < n_threads; i++)
        sp_gptq_room_release(&job->workers[i].room);
    free(job->workers);
    free(job->rows);
    return st;
}

enum sp_status sp_rounded_matrix_init(struct sp_rounded_matrix *out,
                                      const struct sp_rounding *rounding, const struct sp_matrix *w,
                                      size_t n_matrices, const bool *used, struct sp_err *err)
{
    struct round_job job = {.rounding = rounding, .from = w, .used = used};
    struct sp_rounded_matrix made = {.w = *w};
    size_t n_panels = n_matrices * w->n_panels;
    enum sp_status st;

    made.w.dtype = rounding->dtype;
    if (!sp_panel_size(&made.w.panel_size, rounding->dtype, w->cols))
        return sp_fail(err, SP_E_BUG, "a matrix of %zu columns has no panels", w->cols);
    if ((st = sp_new_sparse(&job.panels, &made.memory, n_panels, made.w.panel_size, err)))
        return st;
    made.w.panels = job.panels;
    job.panel_size = made.w.panel_size;
    if ((st = run_job(&job, n_panels, err))) {
        sp_rounded_matrix_release(&made);
        return st;
    }
    *out = made;
    return SP_OK;
}

void sp_rounded_matrix_release(struct sp_rounded_matrix *matrix)
{
    free(matrix->memory);
    *matrix = (struct sp_rounded_matrix){0};
}
