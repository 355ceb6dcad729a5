/* Opens and closes workspaces. */
#include "runtime/model/key_index.h"
#include "runtime/model/sublayers.h"

#include <stdlib.h>

/* What the layers need: the largest of all, and what any of them has. */
struct needs {
    size_t q, kv, ffn;
    unsigned head_dim;
    bool parallel_mixers, pairs, deferred, output_gates;
};

/* Width of a layer's projected queries or of its attention output, whichever is larger. */
static size_t width_of_heads(const struct sp_config *config, const struct sp_layer_config *l)
{
    const struct sp_latent_config *c = sp_config_latent(config, l);
    size_t query = c->nope_dim + c->rope_dim;

    if (c->kv_rank == 0) return (size_t)l->n_heads * l->head_dim;
    return l->n_heads * (query > c->value_dim ? query : c->value_dim);
}

static struct needs find_needs(struct sp_workspace *ws)
{
    const struct sp_config *config = &ws->model->config;
    size_t delta = (size_t)config->delta.n_value_heads * config->delta.value_dim;
    size_t mamba = (size_t)config->mamba.n_heads * config->mamba.head_dim;
    struct needs w = {.q = delta > mamba ? delta : mamba, .output_gates = config->latent.gated};

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        size_t q = width_of_heads(config, l), kv = (size_t)l->n_kv_heads * l->head_dim;
        if (q > w.q) w.q = q;
        if (kv > w.kv) w.kv = kv;
        if (l->n_ffn > w.ffn) w.ffn = l->n_ffn;
        if (l->n_shared_ffn > w.ffn) w.ffn = l->n_shared_ffn;
        if ((l->mixers & SP_MIXER_SHORT_CONV) && config->n_hidden > w.q) w.q = config->n_hidden;
        if (l->n_heads > ws->most_heads) ws->most_heads = l->n_heads;
        if (l->head_dim > w.head_dim) w.head_dim = l->head_dim;
        w.parallel_mixers = w.parallel_mixers || l->mixers == SP_PARALLEL_MIXERS;
        w.pairs = w.pairs || l->reads_pair;
        w.deferred = w.deferred || l->defers_experts;
        w.output_gates = w.output_gates || l->output_gate || l->head_gate;
    }
    return w;
}

/* The logits, whose memory is sparse: most passes use few rows. */
static enum sp_status open_logits(struct sp_workspace *ws, struct sp_err *err)
{
    struct sp_arena *m = &ws->memory;
    enum sp_status st;
    void *memory;
    size_t n;

    if (!sp_mul(&n, ws->max_logit_rows, ws->ld_logits))
        return sp_fail(err, SP_E_NOMEM, "out of memory: logits overflow");
    if ((st = sp_new_sparse(&ws->logits, &memory, n, sizeof *ws->logits, err))) return st;
    sp_arena_keep(m, memory, n, sizeof *ws->logits);
    n = (ws->max_logit_rows + 1) * sp_logits_blocks(ws->ld_logits);
    if (ws->backend->remote) ws->sums = sp_arena_new(m, n, sizeof *ws->sums);
    ws->argmax = sp_arena_new(m, ws->max_logit_rows, sizeof *ws->argmax);
    return SP_OK;
}

/* What all models have. */
static void open_rows(struct sp_workspace *ws, const struct needs *w)
{
    const struct sp_config *config = &ws->model->config;
    struct sp_arena *m = &ws->memory;
    size_t rows = ws->max_rows;

    ws->positions = sp_arena_new(m, rows, sizeof *ws->positions);
    ws->is_second = sp_arena_new(m, rows, sizeof *ws->is_second);
    ws->ids = sp_arena_new(m, rows, sizeof *ws->ids);
    ws->ranges = sp_arena_new(m, rows, sizeof *ws->ranges);
    ws->attention_seqs = sp_arena_new(m, rows, sizeof *ws->attention_seqs);
    ws->ld_x = sp_matrix_ld(config->n_hidden);
    ws->ld_q = sp_matrix_ld(w->q);
    ws->ld_kv = sp_matrix_ld(w->kv);
    ws->ld_ffn = sp_matrix_ld(w->ffn);
    ws->ld_logits = sp_matrix_ld(config->n_vocab);
    ws->x = sp_arena_rows(m, rows, ws->ld_x);
    ws->y = sp_arena_rows(m, rows, ws->ld_x);
    ws->q = sp_arena_rows(m, rows, ws->ld_q);
    ws->k = sp_arena_rows(m, rows, ws->ld_kv);
    ws->v = sp_arena_rows(m, rows, ws->ld_kv);
    ws->up = sp_arena_rows(m, rows, ws->ld_ffn);
    ws->hidden = sp_arena_acts(m, rows, config->n_hidden);
    ws->heads = sp_arena_acts(m, rows, w->q);
    ws->ffn = sp_arena_acts(m, rows, w->ffn);
    for (unsigned i = 0; i < config->n_ropes; i++) {
        size_t half = config->ropes[i].n_rot / 2;
        ws->rotations[i].cos = sp_arena_rows(m, rows, half);
        ws->rotations[i].sin = sp_arena_rows(m, rows, half);
    }
}

/* What some models have, beside the buffers of kinds of layers. */
static void open_special_rows(struct sp_workspace *ws, const struct needs *w)
{
    const struct sp_config *config = &ws->model->config;
    struct sp_arena *m = &ws->memory;
    size_t rows = ws->max_rows, n_taps = config->n_residual_taps;

    if (w->deferred) ws->deferred = sp_arena_rows(m, rows, ws->ld_x);
    if (w->parallel_mixers) ws->mamba_y = sp_arena_rows(m, rows, ws->ld_x);
    if (w->pairs) ws->pairs = sp_arena_acts(m, rows, 2 * (size_t)config->n_hidden);
    if (w->output_gates) ws->gate = sp_arena_rows(m, rows, ws->ld_q);
    if (sp_config_joins(config)) ws->kept = sp_arena_rows(m, rows, ws->ld_x);
    if (ws->model->fc.rows) ws->tapped = sp_arena_acts(m, rows, ws->model->fc.cols);
    ws->ld_mix = sp_matrix_ld((size_t)ws->most_heads * config->rel_dim);
    if (config->rel_dim) ws->mix = sp_arena_rows(m, rows, ws->ld_mix);
    ws->ld_sinks = config->row_sinks ? sp_matrix_ld(ws->most_heads) : 0;
    if (config->row_sinks) ws->sinks = sp_arena_rows(m, rows, ws->ld_sinks);
    ws->ld_dynamic = sp_matrix_ld((size_t)ws->most_heads * n_taps);
    if (config->residual_normed) ws->dynamic = sp_arena_rows(m, rows, ws->ld_dynamic);
    ws->ld_convolved = ws->ld_x > ws->ld_kv ? ws->ld_x : ws->ld_kv;
    if (n_taps) ws->convolved = sp_arena_rows(m, n_taps - 1 + rows, ws->ld_convolved);
    if (config->plain_mlp) ws->ones = sp_arena_rows(m, 1, ws->ld_ffn);
    for (size_t i = 0; ws->ones && i < ws->ld_ffn; i++)
        ws->ones[i] = 1;
}

static enum sp_status open_all(struct sp_workspace *ws, const struct sp_decoder_options *o,
                               struct sp_err *err)
{
    /* Processes that compute together multiply the whole head, each a part of it. */
    const struct sp_model *head = ws->backend->remote ? NULL : o->shortlist_of;
    struct sp_arena *m = &ws->memory;
    size_t lora_rank = ws->model->max_lora_rank;
    const struct needs w = find_needs(ws);
    enum sp_status st;

    open_rows(ws, &w);
    open_special_rows(ws, &w);
    sp_experts_open(ws);
    sp_latent_attention_open(ws);
    sp_gated_norm_open(ws);
    sp_delta_net_open(ws);
    sp_mamba_open(ws);
    sp_short_conv_open(ws);
    sp_cca_open(ws);
    sp_per_layer_open(ws);
    sp_altup_open(ws);
    sp_hyper_open(ws);
    sp_block_attention_open(ws);
    sp_ngrams_open(ws);
    sp_block_conv_open(ws);
    if ((st = open_logits(ws, err))) return st;
    if ((st = sp_key_index_open(ws, o->cache_type, err))) return st;
    if ((st = sp_compressed_attention_open(ws, o->cache_type, err))) return st;
    if (ws->most_heads)
        ws->attention =
            sp_attention_scratch_new(m, sp_pool_n_threads(ws->backend->pool), ws->most_heads,
                                     w.head_dim, ws->max_rows, ws->n_positions);
    if (lora_rank) ws->lora = sp_lora_rows_new(m, ws->max_rows, lora_rank);
    if (head && head->head_bias == NULL && head->head_scales == NULL)
        ws->shortlist = sp_vocab_shortlist_new(m, &head->head);
    return sp_arena_check(m, err);
}

static void close_workspace(struct sp_workspace *ws)
{
    sp_kv_release(&ws->gathered);
    sp_arena_release(&ws->memory);
    free(ws);
}

enum sp_status sp_workspace_open(struct sp_workspace **out, const struct sp_model *model,
                                 const struct sp_backend *backend,
                                 const struct sp_decoder_options *options, struct sp_err *err)
{
    struct sp_workspace *ws = NULL;
    enum sp_status st;

    if ((st = sp_new(&ws, 1, sizeof *ws, err))) return st;
    ws->model = model;
    ws->backend = backend;
    ws->n_users = 1;
    ws->max_rows = options->max_rows;
    ws->max_logit_rows = options->max_logit_rows * (options->max_batch ? options->max_batch : 1);
    ws->n_positions = options->n_positions;
    if ((st = open_all(ws, options, err))) {
        close_workspace(ws);
        return st;
    }
    *out = ws;
    return SP_OK;
}

void sp_workspace_unref(struct sp_workspace *workspace)
{
    if (workspace && --workspace->n_users == 0) close_workspace(workspace);
}
