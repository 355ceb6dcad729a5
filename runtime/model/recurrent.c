/* The states of recurrent layers, their checkpoints, and the positions to which a decoder can go
 * back. */
#include "runtime/model/recurrent.h"

#include "runtime/model/decoder_internal.h"

#include <assert.h>
#include <string.h>

/* ---- the history of a convolution ---- */

void sp_conv_history_convolve(const struct sp_conv_history *h, const struct sp_vector *vector,
                              float *y, const float *taps, const float *input, size_t ld, size_t t)
{
    memset(y, 0, h->width * sizeof *y);
    for (size_t i = 0; i <= h->n_before; i++)
        vector->mul_add(y, taps + i * h->width, input + (t + i) * ld, h->width);
}

void sp_conv_history_run(const struct sp_workspace *ws, unsigned layer, unsigned which,
                         float *input, size_t ld, sp_row_fn *row, void *job, size_t *first)
{
    *first = 0;
    for (size_t i = 0; i < ws->n_seqs; *first += ws->seqs[i++].n) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        struct sp_conv_history *h = &seq->decoder->recurrent[layer].histories[which];
        float *rows = input + *first * ld;
        for (size_t k = 0; k < h->n_before; k++)
            memcpy(rows + k * ld, h->rows + k * h->width, h->width * sizeof *rows);
        sp_backend_rows(ws->backend, seq->n, row, job);
        assert(seq->n - seq->n_committed <= h->max_logged);
        for (size_t k = 0; k < h->n_before + seq->n - seq->n_committed; k++)
            memcpy(h->rows + k * h->width, rows + (seq->n_committed + k) * ld,
                   h->width * sizeof *rows);
    }
}

/* ---- the states of a decoder ---- */

static void add_span(struct sp_decoder *d, float *floats, size_t n)
{
    d->spans[d->n_spans++] = (struct sp_state_span){floats, n};
    d->n_state += n;
}

static void open_history(struct sp_decoder *d, struct sp_recurrent *r, size_t which,
                         size_t n_before, size_t width)
{
    struct sp_conv_history *h = &r->histories[which];

    *h = (struct sp_conv_history){
        .n_before = n_before, .max_logged = d->options.max_logit_rows, .width = width};
    h->rows = sp_arena_rows(&d->memory, n_before + h->max_logged, width);
    add_span(d, h->rows, n_before * width);
}

/* Opens head states of the sizes of the workspace's buffers, and the history of the convolution
 * before them. */
static void open_heads(struct sp_decoder *d, unsigned layer, const struct sp_recurrent_scratch *s,
                       size_t kernel)
{
    struct sp_recurrent *r = &d->recurrent[layer];
    struct sp_head_sizes sizes = s->sizes;

    sizes.max_logged = d->options.max_logit_rows;
    sp_head_state_init(&r->heads, &d->memory, &sizes);
    r->heads.rates = d->model->layers[layer].mamba.rates;
    add_span(d, r->heads.state, s->n_values * sizes.key_dim);
    open_history(d, r, 0, kernel - 1, s->n_convolved);
}

static void open_layer(struct sp_decoder *d, unsigned i)
{
    const struct sp_config *c = &d->model->config;
    const struct sp_layer_config *l = &c->layers[i];
    struct sp_recurrent *r = &d->recurrent[i];
    size_t keys = (size_t)l->n_kv_heads * l->head_dim, queries = (size_t)l->n_heads * l->head_dim;

    for (size_t k = 0; c->n_residual_taps && k < SP_LAYER_CONVS; k++)
        open_history(d, r, k, c->n_residual_taps - 1, k < SP_CONV_MIXER ? keys : c->n_hidden);
    if (l->mixers & SP_MIXER_DELTA_NET) open_heads(d, i, d->workspace->delta_net, c->delta.kernel);
    if (l->mixers & SP_MIXER_MAMBA) open_heads(d, i, d->workspace->mamba, c->mamba.kernel);
    if (l->mixers & SP_MIXER_SHORT_CONV)
        open_history(d, r, 0, c->short_conv.kernel - 1, c->n_hidden);
    if (l->mixers & SP_MIXER_CCA) /* q, k and the delayed half of v */
        open_history(d, r, 0, c->cca.kernel + c->cca.mix_kernel - 2, queries + keys + keys / 2);
    if (l->ngrams)
        open_history(d, r, SP_NGRAMS_HISTORY, (c->ngrams.kernel - 1) * c->ngrams.longest,
                     (size_t)c->hyper.n_streams * c->n_hidden + 1);
}

void sp_recurrent_open(struct sp_decoder *d)
{
    unsigned n = d->model->config.n_layers;

    if (!sp_config_is_recurrent(&d->model->config)) return;
    d->recurrent = sp_arena_new(&d->memory, n, sizeof *d->recurrent);
    d->spans = sp_arena_new(&d->memory, n * (1 + SP_LAYER_CONVS), sizeof *d->spans);
    for (unsigned i = 0; d->recurrent && d->spans && i < n; i++)
        open_layer(d, i);
    for (size_t i = 0; d->options.checkpoints && i < SP_STATE_CHECKPOINTS; i++)
        d->checkpoints[i].floats = sp_arena_new(&d->memory, d->n_state, sizeof(float));
}

/* Copies the states of all layers to a checkpoint, or back. */
static void copy_states(const struct sp_decoder *d, float *kept, bool back)
{
    for (size_t i = 0; i < d->n_spans; kept += d->spans[i++].n) {
        const struct sp_state_span *s = &d->spans[i];
        memcpy(back ? s->floats : kept, back ? kept : s->floats, s->n * sizeof *kept);
    }
}

/* Drops logged rows that were committed but not yet applied. */
static void drop_pending(struct sp_decoder *d)
{
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++)
        d->recurrent[i].heads.n_pending = 0;
}

void sp_recurrent_reset(struct sp_decoder *d)
{
    drop_pending(d);
    for (size_t i = 0; i < d->n_spans; i++)
        memset(d->spans[i].floats, 0, d->spans[i].n * sizeof(float));
}

void sp_decoder_commit(struct sp_decoder *d, size_t n)
{
    size_t n_more = n - d->n_committed;

    assert(n >= d->n_committed && n <= d->n_run);
    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (r->heads.state) sp_head_state_commit(&r->heads, n_more);
        for (size_t k = 0; k < SP_LAYER_CONVS; k++) {
            struct sp_conv_history *h = &r->histories[k];
            if (h->rows && n_more)
                memmove(h->rows, h->rows + n_more * h->width,
                        h->n_before * h->width * sizeof *h->rows);
        }
    }
}

size_t sp_decoder_state_size(const struct sp_decoder *d)
{
    return d->n_state * sizeof(float);
}

enum sp_status sp_decoder_transfer_state(struct sp_decoder *d, struct sp_cache_file *file,
                                         struct sp_err *err)
{
    enum sp_status st = SP_OK;

    for (unsigned i = 0; d->recurrent && i < d->model->config.n_layers; i++) {
        struct sp_recurrent *r = &d->recurrent[i];
        if (r->heads.state) sp_head_state_flush(&r->heads, d->backend->vector, d->backend->pool);
    }
    for (size_t i = 0; i < d->n_spans && !st; i++)
        st = sp_cache_file_bytes(file, d->spans[i].floats, d->spans[i].n * sizeof(float), err);
    return st;
}

/* ---- going back ---- */

void sp_decoder_checkpoint(struct sp_decoder *d, size_t len)
{
    struct sp_state_checkpoint *checkpoint = &d->checkpoints[0];

    assert(d->n_committed == d->n_run);
    if (checkpoint->floats == NULL) return;
    for (size_t i = 1; i < SP_STATE_CHECKPOINTS; i++)
        if (d->checkpoints[i].len < checkpoint->len) checkpoint = &d->checkpoints[i];
    checkpoint->len = len;
    copy_states(d, checkpoint->floats, false);
}

bool sp_decoder_keeps_windows(const struct sp_decoder *d, size_t len, size_t to)
{
    for (unsigned i = 0; i < d->model->config.n_layers; i++) {
        const struct sp_layer_config *l = &d->model->config.layers[i];
        size_t reach = sp_layer_reach(l), first = to > reach ? to - reach : 0;
        if (reach == 0 || l->kv_source != (int)i) continue;
        if (d->caches[i].n_slots >= d->options.n_positions) continue; /* one slot per position */
        if (first + d->caches[i].n_slots < len + d->options.max_rows) return false;
    }
    return true;
}

bool sp_decoder_can_rewind(const struct sp_decoder *d, size_t len, size_t to)
{
    if (sp_config_is_recurrent(&d->model->config)) return to == len || to == 0;
    return sp_decoder_keeps_windows(d, len, to);
}

size_t sp_decoder_rewind_point(const struct sp_decoder *d, size_t len, size_t most)
{
    size_t to = 0;

    if (sp_decoder_can_rewind(d, len, most)) return most;
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS; i++) {
        size_t checkpoint = d->checkpoints[i].len;
        if (checkpoint > to && checkpoint <= most && sp_decoder_keeps_windows(d, len, checkpoint))
            to = checkpoint;
    }
    return to;
}

void sp_decoder_rewind(struct sp_decoder *d, size_t len, size_t to)
{
    for (size_t i = 0; i < SP_STATE_CHECKPOINTS; i++) {
        struct sp_state_checkpoint *checkpoint = &d->checkpoints[i];
        if (checkpoint->len > to) checkpoint->len = 0;
        if (to == 0 || to >= len || checkpoint->len != to) continue;
        copy_states(d, checkpoint->floats, true);
        drop_pending(d);
    }
}

/* ---- layers with head states ---- */

struct sp_recurrent_scratch *sp_recurrent_scratch_new(struct sp_workspace *ws,
                                                      const struct sp_head_sizes *sizes,
                                                      size_t kernel, bool has_strengths)
{
    struct sp_recurrent_scratch *s = sp_arena_new(&ws->memory, 1, sizeof *s);
    size_t n = ws->max_rows;

    if (s == NULL) return NULL;
    s->sizes = *sizes;
    s->n_values = sizes->n_heads * sizes->value_dim;
    s->n_keys = sizes->n_keys * sizes->key_dim;
    s->channels = s->n_convolved = s->n_values + 2 * s->n_keys;
    s->ld = sp_matrix_ld(s->channels);
    s->ld_z = sp_matrix_ld(s->n_values);
    s->ld_heads = sp_matrix_ld(sizes->n_heads);
    s->ld_decays = sp_matrix_ld(sp_head_n_decays(sizes));
    s->input = sp_arena_rows(&ws->memory, kernel - 1 + n, s->ld);
    s->mixed = sp_arena_rows(&ws->memory, n, s->ld);
    s->z = sp_arena_rows(&ws->memory, n, s->ld_z);
    s->out = sp_arena_rows(&ws->memory, n, s->ld_z);
    s->decays = sp_arena_rows(&ws->memory, n, s->ld_decays);
    if (has_strengths)
        s->strengths = sp_arena_rows(&ws->memory, n, s->ld_heads);
    else
        s->values = sp_arena_rows(&ws->memory, n, s->ld_z);
    sp_head_workspace_init(&s->workspace, &ws->memory, sizes->key_dim,
                           sp_pool_n_threads(ws->backend->pool));
    return s;
}

float *sp_recurrent_convolve(const struct sp_recurrent_job *job, const float *taps, size_t i)
{
    const struct sp_recurrent_scratch *s = job->scratch;
    float *u = s->mixed + (job->first + i) * s->ld;

    sp_conv_history_convolve(job->history, job->ws->backend->vector, u, taps,
                             s->input + job->first * s->ld, s->ld, i);
    return u;
}

static void run_recurrence(const struct sp_recurrent_job *job, struct sp_head_state *state,
                           const struct sp_batch_seq *seq)
{
    const struct sp_recurrent_scratch *s = job->scratch;
    size_t ld_v = s->values ? s->ld_z : s->ld;
    struct sp_head_pass pass = {
        .vector = job->ws->backend->vector,
        .workspace = &s->workspace,
        .state = state,
        .q = job->q + job->first * s->ld,
        .k = job->k + job->first * s->ld,
        .v = job->v + job->first * ld_v,
        .ld = s->ld,
        .ld_v = ld_v,
        .decays = s->decays + job->first * s->ld_decays,
        .strengths = s->strengths ? s->strengths + job->first * s->ld_heads : NULL,
        .ld_decays = s->ld_decays,
        .ld_heads = s->ld_heads,
        .out = s->out + job->first * s->ld_z,
        .ld_out = s->ld_z,
        .n = seq->n,
        .n_committed = seq->n_committed,
    };

    sp_head_state_run(&pass, job->ws->backend->pool);
}

void sp_recurrent_job_convolve(struct sp_recurrent_job *job, unsigned layer)
{
    const struct sp_recurrent_scratch *s = job->scratch;

    job->history = &job->ws->seqs[0].decoder->recurrent[layer].histories[0];
    sp_conv_history_run(job->ws, layer, 0, s->input, s->ld, job->mix_row, job, &job->first);
}

void sp_recurrent_job_scan(struct sp_recurrent_job *job, unsigned layer)
{
    const struct sp_workspace *ws = job->ws;

    job->first = 0;
    for (size_t i = 0; i < ws->n_seqs; job->first += ws->seqs[i++].n)
        run_recurrence(job, &ws->seqs[i].decoder->recurrent[layer].heads, &ws->seqs[i]);
}
