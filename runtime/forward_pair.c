/* The input rows of a prediction head: embedding and hidden state, each normed, projected together.
 */
#include "runtime/decoder.h"

#include <assert.h>

struct pair_job {
    struct sp_decoder *d;
    const float *hidden; /* [n][H] */
};

/* tapped = [norm(embedding), norm(hidden)] */
static void join_row(void *context, size_t t, unsigned worker)
{
    const struct pair_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_vector *vector = d->engine->vector;
    size_t n = d->model->config.n_hidden;
    float eps = (float)d->model->config.norm_eps, *row = d->tapped.x + t * d->tapped.ld;

    (void)worker;
    vector->rms_norm(row, d->x + t * d->ld_x, d->model->pair_norms[0], n, eps);
    vector->rms_norm(row + n, job->hidden + t * n, d->model->pair_norms[1], n, eps);
}

void sp_decoder_pair(struct sp_decoder *d, const struct sp_model *source, const uint32_t *ids,
                     const float *hidden, size_t n)
{
    struct pair_job job = {d, hidden};
    struct sp_product fc = {.w = &d->model->fc, .y = d->x, .ldy = d->ld_x};

    assert(n <= d->options.max_rows);
    sp_decoder_embed(d, source, ids, n);
    sp_engine_rows(d->engine, n, join_row, &job);
    sp_engine_multiply(d->engine, &fc, 1, &d->tapped, n);
}
