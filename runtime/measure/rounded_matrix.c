#include "runtime/measure/group_divergence.h"

#include "format/base/mem.h"

#include <stdlib.h>

/* Panels that are being rounded, one for each item of the pool. */
struct round_job {
    const struct sp_rounding *rounding;
    const struct sp_matrix *from;
    const bool *used; /* [panels], or NULL: all */
    uint8_t *panels;
    size_t panel_size;
    float *rows;    /* [threads][2][16][cols]: rows, and space for the encoder */
    float *factors; /* [n_factors], of squares [threads][n_factors]; NULL: errors weigh equally */
    size_t n_factors;
    size_t *matrices; /* [threads] the matrix, counted from 1, of whose squares a thread has them */
    enum sp_status *results; /* [threads] the first failure, with its message */
    struct sp_err *errors;   /* [threads] */
};

static const float *find_factors(const struct round_job *job, size_t matrix, unsigned worker)
{
    struct sp_gptq_weights weights = job->rounding->weights;
    float *factors;

    if (weights.squares == NULL) return job->factors;
    factors = job->factors + worker * job->n_factors;
    if (job->matrices[worker] != matrix + 1)
        sp_gptq_factors(factors, weights, matrix, job->from->cols, NULL);
    job->matrices[worker] = matrix + 1;
    return factors;
}

static void round_panel(void *context, size_t p, unsigned worker)
{
    const struct round_job *job = context;
    const struct sp_matrix *w = job->from;
    const struct sp_encoder *encoder = job->rounding->encoder;
    size_t first_row = p % w->n_panels * SP_PANEL_ROWS;
    size_t n = w->rows - first_row < SP_PANEL_ROWS ? w->rows - first_row : SP_PANEL_ROWS;
    float *rows = job->rows + worker * 2 * SP_PANEL_ROWS * w->cols;

    if (job->results[worker] || (job->used && !job->used[p])) return;
    sp_panel_decode(rows, w->dtype, w->panels + p * w->panel_size, n, w->cols, encoder->kernels);
    job->results[worker] =
        sp_panel_encode(job->panels + p * job->panel_size, job->rounding->dtype, encoder, rows, n,
                        w->cols, first_row, find_factors(job, p / w->n_panels, worker),
                        rows + SP_PANEL_ROWS * w->cols, &job->errors[worker]);
}

static enum sp_status open_factors(struct round_job *job, unsigned n_threads, struct sp_err *err)
{
    struct sp_gptq_weights weights = job->rounding->weights;
    enum sp_status st;

    if (!sp_gptq_is_weighed(weights)) return SP_OK;
    if (!sp_gptq_size(&job->n_factors, job->from->cols))
        return sp_fail(err, SP_E_UNSUPPORTED, "too many columns");
    st = sp_new_rows(&job->factors, weights.squares ? n_threads : 1, job->n_factors, err);
    if (st == SP_OK && weights.factors)
        sp_gptq_factors(job->factors, weights, 0, job->from->cols, NULL);
    return st;
}

static enum sp_status run_job(struct round_job *job, size_t n_panels, struct sp_err *err)
{
    unsigned n_threads = sp_pool_n_threads(job->rounding->pool);
    enum sp_status st;

    if ((st = open_factors(job, n_threads, err))) goto done;
    if ((st = sp_new_rows(&job->rows, n_threads, 2 * SP_PANEL_ROWS * job->from->cols, err)))
        goto done;
    if ((st = sp_new(&job->matrices, n_threads, sizeof *job->matrices, err))) goto done;
    if ((st = sp_new(&job->results, n_threads, sizeof *job->results, err))) goto done;
    if ((st = sp_new(&job->errors, n_threads, sizeof *job->errors, err))) goto done;
    sp_pool_run(job->rounding->pool, n_panels, round_panel, job);
    for (unsigned i = 0; i < n_threads && !st; i++) {
        st = job->results[i];
        if (st && err) *err = job->errors[i];
    }
done:
    free(job->rows);
    free(job->factors);
    free(job->matrices);
    free(job->results);
    free(job->errors);
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
