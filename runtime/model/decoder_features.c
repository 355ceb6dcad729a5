/* EAGLE-3: fuses the hidden states of several target layers into the input of the draft's layer. */
#include "runtime/model/decoder_internal.h"

#include <assert.h>
#include <string.h>

struct fuse_job {
    struct sp_workspace *ws;
    const float *features; /* [n][fc.cols] */
};

static void norm_features(void *context, size_t t, unsigned worker)
{
    const struct fuse_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_draft_config *config = &ws->model->config.draft;
    size_t width = ws->model->fc.cols, part = width;
    float eps = (float)ws->model->config.norm_eps, *row = ws->tapped.x + t * ws->tapped.ld;

    (void)worker;
    memcpy(row, job->features + t * width, width * sizeof *row);
    if (ws->model->feature_norm == NULL) return;
    if (config->taps_normed) part = config->target_hidden;
    for (size_t i = 0; i < width; i += part)
        ws->backend->vector->rms_norm(row + i, row + i, ws->model->feature_norm + i, part, eps);
}

void sp_decoder_fuse_features(struct sp_decoder *d, float *out, const float *features, size_t n)
{
    struct sp_workspace *ws = d->workspace;
    struct fuse_job job = {ws, features};
    struct sp_product fc = {.w = &ws->model->fc, .y = ws->y, .ldy = ws->ld_x};
    size_t h = ws->model->config.n_hidden;

    assert(n <= ws->max_rows);
    sp_backend_rows(ws->backend, n, norm_features, &job);
    sp_backend_multiply(ws->backend, &fc, 1, &ws->tapped, n);
    for (size_t t = 0; t < n; t++)
        memcpy(out + t * h, ws->y + t * ws->ld_x, h * sizeof *out);
}
