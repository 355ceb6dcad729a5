/* The input rows of a prediction head or an assistant: a token's embedding and a hidden state, each
 * normed where the draft has norms for them, projected together. */
#include "runtime/decoder.h"

#include <assert.h>
#include <string.h>

struct pair_job {
    struct sp_decoder *d;
    const struct sp_model *source;
    const uint32_t *ids;
    const float *hidden; /* [n][n_hidden] */
};

/* tapped = [embedding, hidden], as wide as the fc wants */
static void join_row(void *context, size_t t, unsigned worker)
{
    const struct pair_job *job = context;
    struct sp_decoder *d = job->d;
    const struct sp_vector *vector = d->engine->vector;
    size_t n_embedding = job->source->embedding.cols;
    size_t n_hidden = d->model->fc.cols - n_embedding;
    float eps = (float)d->model->config.norm_eps, *row = d->tapped.x + t * d->tapped.ld;
    float *embedding = row, *hidden = row + n_embedding;

    (void)worker;
    sp_decoder_embed_row(d, job->source, job->ids[t], embedding);
    memcpy(hidden, job->hidden + t * n_hidden, n_hidden * sizeof *hidden);
    if (d->model->pair_norms[0] == NULL) return;
    vector->rms_norm(embedding, embedding, d->model->pair_norms[0], n_embedding, eps);
    vector->rms_norm(hidden, hidden, d->model->pair_norms[1], n_hidden, eps);
}

void sp_decoder_pair(struct sp_decoder *d, const struct sp_model *source, const uint32_t *ids,
                     const float *hidden, size_t n)
{
    struct pair_job job = {d, source, ids, hidden};
    struct sp_product fc = {.w = &d->model->fc, .y = d->x, .ldy = d->ld_x};

    assert(n <= d->options.max_rows);
    sp_engine_rows(d->engine, n, join_row, &job);
    sp_engine_multiply(d->engine, &fc, 1, &d->tapped, n);
}
