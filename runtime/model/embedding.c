/* The input rows of a pass.
 *
 * A prediction head or an assistant reads pairs of a token's embedding and a hidden state, each
 * normed if the draft has norms for them, and projects them together. An EAGLE-3 layer reads the
 * pair itself, and its residual stream is the hidden state g, which is fc of the target's features
 * or a feature of the draft: pair = [norm(embedding), norm(g)]; x = norm_before_residual ? norm(g)
 * : g. Source: Eagle3DraftModel in speculators. */
#include "runtime/model/decoder_internal.h"

#include <string.h>

void sp_embed_row(const struct sp_workspace *ws, const struct sp_model *source, uint32_t id,
                  float *out)
{
    const struct sp_matrix *w = &source->embedding;
    const struct sp_config *own = &ws->model->config;
    const double scales[] = {own->draft.raw_embeddings ? 1 : source->config.embedding_scale,
                             own->input_scale};

    sp_backend_read_row(ws->backend, out, w, id);
    for (size_t i = 0; i < 2; i++)
        if (scales[i] != 1) ws->backend->vector->scale(out, (float)scales[i], w->cols);
}

/* One sequence of the pass; `first` is the row of the pass where its rows begin. */
struct pair_job {
    struct sp_workspace *ws;
    const struct sp_batch_seq *seq;
    size_t first;
};

/* tapped = [embedding, hidden], as wide as the input of fc. */
static void join_row(void *context, size_t t)
{
    const struct pair_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_batch_seq *seq = job->seq;
    size_t n_embedding = seq->embedder->embedding.cols;
    size_t n_hidden = ws->model->fc.cols - n_embedding;
    float eps = (float)ws->model->config.norm_eps;
    float *embedding = ws->tapped.x + (job->first + t) * ws->tapped.ld;
    float *hidden = embedding + n_embedding;

    sp_embed_row(ws, seq->embedder, seq->ids[t], embedding);
    memcpy(hidden, seq->hidden + t * n_hidden, n_hidden * sizeof *hidden);
    if (ws->model->pair_norms[0] == NULL) return;
    vector->rms_norm(embedding, embedding, ws->model->pair_norms[0], n_embedding, eps);
    vector->rms_norm(hidden, hidden, ws->model->pair_norms[1], n_hidden, eps);
}

/* Makes an EAGLE-3 pair. The embedding is not scaled, as in the draft's training. */
static void pair_row(void *context, size_t t)
{
    const struct pair_job *job = context;
    struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const struct sp_matrix *table = &job->seq->embedder->embedding;
    const struct sp_layer *l = &ws->model->layers[0];
    size_t h = ws->model->config.n_hidden, at = job->first + t;
    const float *hidden = job->seq->hidden + t * h;
    float eps = (float)ws->model->config.norm_eps, *row = ws->pairs.x + at * ws->pairs.ld;

    sp_backend_read_row(ws->backend, row, table, job->seq->ids[t]);
    vector->rms_norm(row, row, l->input_norm, h, eps);
    vector->rms_norm(row + h, hidden, l->hidden_norm, h, eps);
    memcpy(ws->x + at * ws->ld_x, ws->model->config.draft.normed_residual ? row + h : hidden,
           h * sizeof *hidden);
}

void sp_embed_pairs(struct sp_workspace *ws, size_t n)
{
    bool reads_pair = ws->model->config.layers[0].reads_pair;

    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n) {
        struct pair_job job = {ws, &ws->seqs[i], first};
        sp_backend_rows(ws->backend, job.seq->n, reads_pair ? pair_row : join_row, &job);
    }
    if (reads_pair) return;
    sp_backend_product(ws->backend, ws->x, ws->ld_x, &ws->model->fc, NULL, &ws->tapped, n);
}
