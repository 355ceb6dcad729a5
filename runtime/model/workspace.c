/* Opens and closes workspaces. */
#include "runtime/model/workspace.h"

#include "runtime/model/altup.h"
#include "runtime/model/block_attention.h"
#include "runtime/model/block_conv.h"
#include "runtime/model/cca.h"
#include "runtime/model/delta_net.h"
#include "runtime/model/experts.h"
#include "runtime/model/gated_norm.h"
#include "runtime/model/hyper.h"
#include "runtime/model/compressed_attention.h"
#include "runtime/model/key_index.h"
#include "runtime/model/latent_attention.h"
#include "runtime/model/mamba.h"
#include "runtime/model/mamba1.h"
#include "runtime/model/ngrams.h"
#include "runtime/model/per_layer.h"
#include "runtime/model/short_conv.h"

#include <stdlib.h>

struct widths {
    size_t q, kv, ffn; /* the largest of all layers */
    unsigned heads, head_dim;
};

/* Width of a layer's projected queries or of its attention output, whichever is larger. */
static size_t width_of_heads(const struct sp_config *config, const struct sp_layer_config *l)
{
    const struct sp_latent_config *c = sp_config_latent(config, l);
    size_t query = c->nope_dim + c->rope_dim;

    if (c->kv_rank == 0) return (size_t)l->n_heads * l->head_dim;
    return l->n_heads * (query > c->value_dim ? query : c->value_dim);
}

static struct widths widest(const struct sp_config *config)
{
    size_t delta = (size_t)config->delta.n_value_heads * config->delta.value_dim;
    size_t mamba = (size_t)config->mamba.n_heads * config->mamba.head_dim;
    struct widths w = {.q = delta > mamba ? delta : mamba};

    for (unsigned i = 0; i < config->n_layers; i++) {
        const struct sp_layer_config *l = &config->layers[i];
        size_t q = width_of_heads(config, l), kv = (size_t)l->n_kv_heads * l->head_dim;
        if (q > w.q) w.q = q;
        if (kv > w.kv) w.kv = kv;
        if (l->n_ffn > w.ffn) w.ffn = l->n_ffn;
        if (l->n_shared_ffn > w.ffn) w.ffn = l->n_shared_ffn;
        if ((l->mixers & SP_MIXER_SHORT_CONV) && config->n_hidden > w.q) w.q = config->n_hidden;
        if (l->n_heads > w.heads) w.heads = l->n_heads;
        if (l->head_dim > w.head_dim) w.head_dim = l->head_dim;
    }
    return w;
}

static enum sp_status open_rotations(struct sp_workspace *ws, struct sp_err *err)
{
    const struct sp_config *config = &ws->model->config;
    enum sp_status st;

    for (unsigned i = 0; i < config->n_ropes; i++) {
        size_t half = config->ropes[i].n_rot / 2;
        if ((st = sp_arena_rows(&ws->memory, &ws->rotations[i].cos, ws->max_rows, half, err)))
            return st;
        if ((st = sp_arena_rows(&ws->memory, &ws->rotations[i].sin, ws->max_rows, half, err)))
            return st;
    }
    return SP_OK;
}

static bool has_parallel_mixers(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].mixers == SP_PARALLEL_MIXERS) return true;
    return false;
}

static bool reads_pairs(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].reads_pair) return true;
    return false;
}

static bool defers_experts(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].defers_experts) return true;
    return false;
}

static bool has_output_gate(const struct sp_config *config)
{
    if (config->latent.gated) return true;
    for (unsigned i = 0; i < config->n_layers; i++)
        if (config->layers[i].output_gate || config->layers[i].head_gate) return true;
    return false;
}

/* The memory is sparse: most passes use few rows of logits. */
static enum sp_status open_logits(struct sp_workspace *ws, struct sp_err *err)
{
    enum sp_status st;
    float *logits;
    void *memory;
    size_t n;

    if (!sp_mul(&n, ws->max_logit_rows, ws->ld_logits))
        return sp_fail(err, SP_E_NOMEM, "out of memory: logits overflow");
    if ((st = sp_new_sparse(&logits, &memory, n, sizeof *logits, err))) return st;
    if ((st = sp_arena_keep(&ws->memory, memory, err))) return st;
    ws->logits = logits;
    return SP_OK;
}

static enum sp_status open_rows(struct sp_workspace *ws, enum sp_cache_type cache_type,
                                struct sp_err *err)
{
    const struct sp_config *config = &ws->model->config;
    struct widths w = widest(config);
    size_t rows = ws->max_rows;
    enum sp_status st;

    if ((st = open_rotations(ws, err))) return st;
    if ((st = sp_arena_new(&ws->memory, &ws->positions, rows, sizeof *ws->positions, err)))
        return st;
    if ((st = sp_arena_new(&ws->memory, &ws->is_second, rows, sizeof *ws->is_second, err)))
        return st;
    if ((st = sp_arena_new(&ws->memory, &ws->ids, rows, sizeof *ws->ids, err))) return st;
    ws->ld_x = sp_matrix_ld(config->n_hidden);
    ws->ld_q = sp_matrix_ld(w.q);
    ws->ld_kv = sp_matrix_ld(w.kv);
    ws->ld_ffn = sp_matrix_ld(w.ffn);
    ws->ld_logits = sp_matrix_ld(config->n_vocab);
    if ((st = sp_arena_rows(&ws->memory, &ws->x, rows, ws->ld_x, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->y, rows, ws->ld_x, err))) return st;
    if (defers_experts(config) &&
        (st = sp_arena_rows(&ws->memory, &ws->deferred, rows, ws->ld_x, err)))
        return st;
    if (sp_config_joins(config) &&
        (st = sp_arena_rows(&ws->memory, &ws->kept, rows, ws->ld_x, err)))
        return st;
    if (has_parallel_mixers(config) &&
        (st = sp_arena_rows(&ws->memory, &ws->mamba_y, rows, ws->ld_x, err)))
        return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->q, rows, ws->ld_q, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->k, rows, ws->ld_kv, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->v, rows, ws->ld_kv, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->up, rows, ws->ld_ffn, err))) return st;
    if (config->rel_dim) {
        ws->ld_mix = sp_matrix_ld((size_t)w.heads * config->rel_dim);
        if ((st = sp_arena_rows(&ws->memory, &ws->mix, rows, ws->ld_mix, err))) return st;
    }
    if (config->row_sinks) {
        ws->ld_sinks = sp_matrix_ld(w.heads);
        if ((st = sp_arena_rows(&ws->memory, &ws->sinks, rows, ws->ld_sinks, err))) return st;
    }
    if (config->residual_normed) {
        ws->ld_dynamic = sp_matrix_ld((size_t)w.heads * config->n_residual_taps);
        if ((st = sp_arena_rows(&ws->memory, &ws->dynamic, rows, ws->ld_dynamic, err))) return st;
    }
    if (config->n_residual_taps) {
        ws->ld_convolved = ws->ld_x > ws->ld_kv ? ws->ld_x : ws->ld_kv;
        if ((st = sp_arena_rows(&ws->memory, &ws->convolved, config->n_residual_taps - 1 + rows,
                                ws->ld_convolved, err)))
            return st;
    }
    if (config->plain_mlp) {
        if ((st = sp_arena_rows(&ws->memory, &ws->ones, 1, ws->ld_ffn, err))) return st;
        for (size_t i = 0; i < ws->ld_ffn; i++)
            ws->ones[i] = 1;
    }
    if ((st = open_logits(ws, err))) return st;
    if (ws->backend->remote &&
        (st = sp_arena_new(&ws->memory, &ws->sums,
                           (ws->max_logit_rows + 1) * sp_logits_blocks(ws->ld_logits),
                           sizeof *ws->sums, err)))
        return st;
    if ((st = sp_arena_new(&ws->memory, &ws->argmax, ws->max_logit_rows, sizeof *ws->argmax, err)))
        return st;
    if ((st = sp_arena_acts(&ws->memory, &ws->hidden, rows, config->n_hidden, err))) return st;
    if (reads_pairs(config) &&
        (st = sp_arena_acts(&ws->memory, &ws->pairs, rows, 2 * (size_t)config->n_hidden, err)))
        return st;
    if ((st = sp_arena_acts(&ws->memory, &ws->heads, rows, w.q, err))) return st;
    if ((st = sp_arena_acts(&ws->memory, &ws->ffn, rows, w.ffn, err))) return st;
    if (ws->model->fc.rows &&
        (st = sp_arena_acts(&ws->memory, &ws->tapped, rows, ws->model->fc.cols, err)))
        return st;
    if ((st = sp_experts_open(ws, err))) return st;
    if ((st = sp_latent_attention_open(ws, err))) return st;
    if ((st = sp_gated_norm_open(ws, err))) return st;
    if ((st = sp_key_index_open(ws, cache_type, err))) return st;
    if ((st = sp_compressed_attention_open(ws, cache_type, err))) return st;
    if ((st = sp_delta_net_open(ws, err))) return st;
    if ((st = (config->mamba.step_rank ? sp_mamba1_open : sp_mamba_open)(ws, err))) return st;
    if ((st = sp_short_conv_open(ws, err))) return st;
    if ((st = sp_cca_open(ws, err))) return st;
    if ((st = sp_per_layer_open(ws, err))) return st;
    if ((st = sp_altup_open(ws, err))) return st;
    if ((st = sp_hyper_open(ws, err))) return st;
    if ((st = sp_block_attention_open(ws, err))) return st;
    if ((st = sp_ngrams_open(ws, err))) return st;
    if ((st = sp_block_conv_open(ws, err))) return st;
    if ((st = sp_arena_rows(&ws->memory, &ws->gate, has_output_gate(config) ? rows : 0, ws->ld_q,
                            err)))
        return st;
    if ((st = sp_arena_new(&ws->memory, &ws->ranges, rows, sizeof *ws->ranges, err))) return st;
    if ((st =
             sp_arena_new(&ws->memory, &ws->attention_seqs, rows, sizeof *ws->attention_seqs, err)))
        return st;
    if (w.heads == 0) return SP_OK; /* no layer attends */
    return sp_attention_scratch_new(&ws->attention, sp_pool_n_threads(ws->backend->pool), w.heads,
                                    w.head_dim, rows, ws->n_positions, err);
}

static void close_workspace(struct sp_workspace *ws)
{
    sp_attention_scratch_free(ws->attention);
    sp_vocab_shortlist_close(ws->shortlist);
    if (ws->key_index) sp_kv_release(&ws->key_index->gathered);
    sp_compressed_attention_close(ws);
    sp_lora_rows_free(ws->lora);
    sp_arena_release(&ws->memory);
    free(ws);
}

enum sp_status sp_workspace_open(struct sp_workspace **out, const struct sp_model *model,
                                 const struct sp_backend *backend,
                                 const struct sp_workspace_options *options, struct sp_err *err)
{
    struct sp_workspace *ws = NULL;
    enum sp_status st;

    if ((st = sp_new(&ws, 1, sizeof *ws, err))) return st;
    ws->model = model;
    ws->backend = backend;
    ws->n_users = 1;
    ws->max_rows = options->max_rows;
    ws->max_logit_rows = options->max_logit_rows;
    ws->n_positions = options->n_positions;
    if ((st = open_rows(ws, options->cache_type, err)) ||
        (model->max_lora_rank &&
         (st = sp_lora_rows_new(&ws->lora, ws->max_rows, model->max_lora_rank, err))) ||
        (options->shortlist_of &&
         (st = sp_vocab_shortlist_open(&ws->shortlist, options->shortlist_of, err)))) {
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
