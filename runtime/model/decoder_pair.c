/* The input rows of a prediction head or an assistant: a token's embedding and a hidden state, each
 * normed where the draft has norms for them, projected together.
 *
 * An EAGLE-3 layer reads both side by side instead, and its residual stream is the hidden state:
 * g = fc features, or what the draft fed back; pair = [norm(embedding), norm(g)];
 * x = norm_before_residual ? norm(g) : g. Source: Eagle3DraftModel in speculators. */
#include "runtime/model/decoder_internal.h"

#include <assert.h>
#include <string.h>

/* The rows of one share of the pass, of which `first` is the first. */
struct pair_job {
    struct sp_workspace *r;
    const struct sp_batch_seq *seq;
    size_t first;
};

/* tapped = [embedding, hidden], as wide as the fc wants */
static void join_row(void *context, size_t t, unsigned worker)
{
    const struct pair_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_vector *vector = r->backend->vector;
    const struct sp_batch_seq *seq = job->seq;
    size_t n_embedding = seq->embedder->embedding.cols;
    size_t n_hidden = r->model->fc.cols - n_embedding;
    float eps = (float)r->model->config.norm_eps;
    float *embedding = r->tapped.x + (job->first + t) * r->tapped.ld;
    float *hidden = embedding + n_embedding;

    (void)worker;
    sp_embed_row(r, seq->embedder, seq->ids[t], embedding);
    memcpy(hidden, seq->hidden + t * n_hidden, n_hidden * sizeof *hidden);
    if (r->model->pair_norms[0] == NULL) return;
    vector->rms_norm(embedding, embedding, r->model->pair_norms[0], n_embedding, eps);
    vector->rms_norm(hidden, hidden, r->model->pair_norms[1], n_hidden, eps);
}

/* The table's row as it is: an EAGLE-3 draft is trained on unscaled embeddings. */
static void pair_row(void *context, size_t t, unsigned worker)
{
    const struct pair_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_vector *vector = r->backend->vector;
    const struct sp_matrix *table = &job->seq->embedder->embedding;
    const struct sp_layer *l = &r->model->layers[0];
    size_t h = r->model->config.n_hidden, at = job->first + t;
    const float *hidden = job->seq->hidden + t * h;
    float eps = (float)r->model->config.norm_eps, *row = r->pairs.x + at * r->pairs.ld;

    (void)worker;
    sp_panel_row(row, table->dtype, table->panels, table->cols, job->seq->ids[t]);
    vector->rms_norm(row, row, l->input_norm, h, eps);
    vector->rms_norm(row + h, hidden, l->hidden_norm, h, eps);
    memcpy(r->x + at * r->ld_x, r->model->config.draft.normed_residual ? row + h : hidden,
           h * sizeof *hidden);
}

void sp_embed_pairs(struct sp_workspace *r, size_t n)
{
    bool apart = r->model->config.layers[0].reads_pair;
    struct sp_product fc = {.w = &r->model->fc, .y = r->x, .ldy = r->ld_x};

    for (size_t i = 0, first = 0; i < r->n_seqs; first += r->seqs[i++].n) {
        struct pair_job job = {r, &r->seqs[i], first};
        sp_backend_rows(r->backend, job.seq->n, apart ? pair_row : join_row, &job);
    }
    if (!apart) sp_backend_multiply(r->backend, &fc, 1, &r->tapped, n);
}

struct fuse_job {
    struct sp_workspace *r;
    const float *features; /* [n][fc.cols] */
};

static void norm_features(void *context, size_t t, unsigned worker)
{
    const struct fuse_job *job = context;
    struct sp_workspace *r = job->r;
    const struct sp_draft_config *config = &r->model->config.draft;
    size_t width = r->model->fc.cols, part = width;
    float eps = (float)r->model->config.norm_eps, *row = r->tapped.x + t * r->tapped.ld;

    (void)worker;
    memcpy(row, job->features + t * width, width * sizeof *row);
    if (r->model->feature_norm == NULL) return;
    if (config->taps_normed) part = config->target_hidden;
    for (size_t i = 0; i < width; i += part) {
        r->backend->vector->rms_norm(row + i, row + i, r->model->feature_norm + i, part, eps);
    }
}

void sp_decoder_fuse_features(struct sp_decoder *d, float *out, const float *features, size_t n)
{
    struct sp_workspace *r = d->workspace;
    struct fuse_job job = {r, features};
    struct sp_product fc = {.w = &r->model->fc, .y = r->y, .ldy = r->ld_x};
    size_t h = r->model->config.n_hidden;

    assert(n <= r->max_rows);
    sp_backend_rows(r->backend, n, norm_features, &job);
    sp_backend_multiply(r->backend, &fc, 1, &r->tapped, n);
    for (size_t t = 0; t < n; t++)
        memcpy(out + t * h, r->y + t * r->ld_x, h * sizeof *out);
}
