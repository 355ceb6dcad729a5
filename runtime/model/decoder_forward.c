/* One pass of rows through the layers. */
#include "runtime/model/sublayers.h"

#include "runtime/model/rope.h"

#include <assert.h>
#include <string.h>

struct embed_job {
    struct sp_workspace *ws;
    const struct sp_model *source;
    const uint32_t *ids;
};

static void embed_row(void *context, size_t t)
{
    const struct embed_job *job = context;
    const struct sp_model *own = job->ws->model;
    float *x = job->ws->x + t * job->ws->ld_x;

    sp_embed_row(job->ws, job->source, job->ids[t], x);
    if (own->positions) {
        bool learned = own->config.n_positions_table != 0;
        size_t row = learned ? own->config.first_position + job->ws->positions[t] : 0;
        const float *table = job->ws->is_second[t] ? own->second_positions : own->positions;
        job->ws->backend->vector->add(x, table + row * own->config.n_hidden, own->config.n_hidden);
    }
    if (own->config.embedding_normed || own->config.normed_input)
        sp_norm_row(job->ws, x, x, own->embedding_norm, own->embedding_norm_bias);
    sp_affine_row(job->ws, &own->embedding_affine, x);
}

static void embed(struct sp_workspace *ws, const struct sp_model *source, const uint32_t *ids,
                  size_t n)
{
    struct embed_job job = {ws, source, ids};

    assert(n <= ws->max_rows);
    if (ids != ws->ids) memcpy(ws->ids, ids, n * sizeof *ids);
    sp_backend_rows(ws->backend, n, embed_row, &job);
    if (ws->per_layer) sp_per_layer_embed(ws, ids, n);
}

/* Copies a sequence's rows of the residual stream after `layer` into its features, if the layer is
 * tapped. `first` is the row of the pass where the rows begin. */
static void keep_seq_taps(const struct sp_workspace *ws, const struct sp_batch_seq *seq,
                          size_t first, unsigned layer)
{
    const struct sp_decoder_options *options = &seq->decoder->options;
    size_t h = ws->model->config.n_hidden;

    for (unsigned i = 0; i < options->n_taps; i++) {
        if (options->taps[i] != layer) continue;
        for (size_t t = 0; t < seq->n; t++) {
            float *feature = seq->decoder->features + (t * options->n_taps + i) * h;
            if (layer == SP_TAP_FINAL && ws->model->config.norms != SP_NORM_RESIDUAL)
                sp_final_norm(ws, feature, first + t);
            else
                memcpy(feature, ws->x + (first + t) * ws->ld_x, h * sizeof *feature);
        }
    }
}

static void keep_taps(const struct sp_workspace *ws, unsigned layer)
{
    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        keep_seq_taps(ws, &ws->seqs[i], first, layer);
}

/* Computes the rotations of a sequence's rows; `first` is the row of the pass where they begin. */
static void compute_rotations(struct sp_workspace *ws, const struct sp_batch_seq *seq, size_t first)
{
    for (unsigned i = 0; i < ws->model->config.n_ropes; i++) {
        const struct sp_rope *rope = &ws->model->config.ropes[i];
        size_t half = rope->n_rot / 2;
        for (size_t t = 0; t < seq->n; t++) {
            sp_rope_row(ws->rotations[i].cos + (first + t) * half,
                        ws->rotations[i].sin + (first + t) * half, seq->decoder->frequencies[i],
                        half, rope->amplitude, seq->pos + t);
        }
    }
}

/* Sets the sequences of the pass; returns the number of its rows. */
static size_t begin_pass(struct sp_workspace *ws, const struct sp_batch_seq *seqs, size_t n_seqs)
{
    size_t n = 0;

    ws->seqs = seqs;
    ws->n_seqs = n_seqs;
    for (size_t i = 0; i < n_seqs; n += seqs[i++].n) {
        const struct sp_batch_seq *seq = &seqs[i];
        struct sp_decoder *d = seq->decoder;
        assert(d->workspace == ws && seq->n <= d->options.max_rows && seq->n_committed <= seq->n &&
               seq->pos + seq->n <= d->n_ready && n + seq->n <= ws->max_rows);
        for (size_t t = 0; t < seq->n; t++) {
            ws->positions[n + t] = seq->pos + t;
            ws->is_second[n + t] =
                seq->n_first && ws->model->second_positions && seq->pos + t >= seq->n_first;
        }
        compute_rotations(ws, seq, n);
    }
    return n;
}

static void begin_single(struct sp_decoder *d, size_t n, size_t pos, size_t n_committed)
{
    d->workspace->single =
        (struct sp_batch_seq){.decoder = d, .n = n, .pos = pos, .n_committed = n_committed};
    begin_pass(d->workspace, &d->workspace->single, 1);
}
/* Sets the adapters of the pass's rows. NULL: none has one. */
static struct sp_lora_rows *set_adapters(struct sp_workspace *ws)
{
    struct sp_lora_rows *rows = ws->lora;

    if (rows == NULL) return NULL;
    rows->n_spans = rows->n_rows = 0;
    for (size_t i = 0; i < ws->n_seqs; i++) {
        const struct sp_decoder *d = ws->seqs[i].decoder;
        const struct sp_lora_products *own = d->lora ? sp_lora_products_of(d->lora) : NULL;
        bool given = ws->model->adapters.n != 0;
        sp_lora_rows_append(rows, given ? &ws->model->adapters : own, given ? 1 : d->lora_scale,
                            ws->seqs[i].n);
    }
    return rows->n_spans ? rows : NULL;
}

/* Runs the pass's n rows through layers first..end-1. */
static void run_layers(struct sp_workspace *ws, size_t n, unsigned first, unsigned end)
{
    struct sp_lora_rows **lora = ws->backend->lora;

    for (size_t i = 0; i < ws->n_seqs; i++) {
        struct sp_decoder *d = ws->seqs[i].decoder;
        d->n_run = ws->seqs[i].n;
        d->n_committed = ws->seqs[i].n_committed;
        if (ws->seqs[i].pos == 0) sp_recurrent_reset(d);
    }
    *lora = set_adapters(ws);
    keep_taps(ws, SP_TAP_EMBEDDING);
    if (ws->altup && first < end) sp_altup_begin(ws, n);
    if (ws->hyper && first < end) sp_hyper_begin(ws, n);
    if (ws->block_attention) sp_block_attention_begin(ws);
    for (unsigned i = first; i < end; i++) {
        sp_layer_run(ws, i, n);
        keep_taps(ws, i);
    }
    if (ws->altup && first < end) sp_altup_end(ws, n);
    if (ws->hyper && first < end) sp_hyper_read(ws, &ws->model->hyper, n);
    if (ws->block_attention && first < end) sp_block_attention_end(ws, n);
    keep_taps(ws, SP_TAP_FINAL);
    *lora = NULL;
}

void sp_decoder_run(struct sp_decoder *d, const uint32_t *ids, size_t n, size_t pos,
                    size_t n_committed)
{
    begin_single(d, n, pos, n_committed);
    embed(d->workspace, d->model, ids, n);
    run_layers(d->workspace, n, 0, d->model->config.n_layers);
}

void sp_decoder_run_layers(struct sp_decoder *d, const uint32_t *ids, size_t n, const float *from,
                           float *to, unsigned first, unsigned end)
{
    struct sp_workspace *ws = d->workspace;
    size_t h = ws->model->config.n_hidden;

    begin_single(d, n, 0, n);
    embed(ws, d->model, ids, n);
    for (size_t t = 0; from && t < n; t++)
        memcpy(ws->x + t * ws->ld_x, from + t * h, h * sizeof *from);
    run_layers(ws, n, first, end);
    for (size_t t = 0; to && t < n; t++)
        memcpy(to + t * h, ws->x + t * ws->ld_x, h * sizeof *to);
}

const float *sp_decoder_features(const struct sp_decoder *d)
{
    return d->features;
}

/* ---- batches ---- */

bool sp_batch_fits(const struct sp_batch_seq *seqs, size_t n_seqs)
{
    const struct sp_workspace *ws = seqs[0].decoder->workspace;
    size_t n = 0, n_logits = 0;

    for (size_t i = 0; i < n_seqs; i++) {
        if (seqs[i].decoder->workspace != ws) return false;
        n += seqs[i].n;
        n_logits += seqs[i].n_logits;
    }
    return n <= ws->max_rows && n_logits <= ws->max_logit_rows;
}

void sp_batch_run(const struct sp_batch_seq *seqs, size_t n_seqs)
{
    struct sp_workspace *ws = seqs[0].decoder->workspace;
    size_t n = begin_pass(ws, seqs, n_seqs);

    assert(sp_batch_fits(seqs, n_seqs));
    for (size_t i = 0, first = 0; i < n_seqs; first += seqs[i++].n)
        memcpy(ws->ids + first, seqs[i].ids, seqs[i].n * sizeof *ws->ids);
    if (seqs[0].hidden)
        sp_embed_pairs(ws, n);
    else
        embed(ws, seqs[0].embedder, ws->ids, n);
    run_layers(ws, n, 0, ws->model->config.n_layers);
    sp_workspace_logits(ws);
}

/* ---- context of block drafts ---- */

void sp_decoder_add_context(struct sp_decoder *d, const float *features, size_t n, size_t pos)
{
    struct sp_workspace *ws = d->workspace;
    bool normed = d->model->config.draft.context_normed;

    begin_single(d, n, pos, n);
    sp_project_features(ws, ws->x, features, n);
    sp_layer_read(ws, d->model->hidden_norm, normed, n);
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        if (normed) sp_layer_read(ws, d->model->layers[i].input_norm, 0, n);
        sp_self_attention_store_keys(ws, i, n);
    }
}
