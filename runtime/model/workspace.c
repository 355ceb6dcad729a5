/* Opens and closes room for passes. */
#include "runtime/model/workspace.h"

#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>

struct widths {
    size_t q, kv, ffn; /* largest over the layers */
    unsigned heads, head_dim;
};

/* Queries as they are projected, and what attention makes of them. */
static size_t width_of_heads(const struct sp_config *config, const struct sp_layer_config *l)
{
    const struct sp_latent_config *c = &config->latent;
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

static enum sp_status open_rotations(struct sp_workspace *r, struct sp_err *err)
{
    const struct sp_config *config = &r->model->config;
    enum sp_status st;

    for (unsigned i = 0; i < config->n_ropes; i++) {
        size_t half = config->ropes[i].n_rot / 2;
        if ((st = sp_new_rows(&r->rotations[i].cos, r->max_rows, half, err))) return st;
        if ((st = sp_new_rows(&r->rotations[i].sin, r->max_rows, half, err))) return st;
    }
    return SP_OK;
}

static bool has_both(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++) {
        if (config->layers[i].mixers == SP_MIXERS_BESIDE) return true;
    }
    return false;
}

static bool has_output_gate(const struct sp_config *config)
{
    for (unsigned i = 0; i < config->n_layers; i++) {
        if (config->layers[i].output_gate || config->layers[i].head_gate) return true;
    }
    return false;
}

/* Few of them are used where few are together. */
static enum sp_status open_logits(struct sp_workspace *r, struct sp_err *err)
{
    size_t n;

    if (!sp_mul(&n, r->max_logit_rows, r->ld_logits)) {
        return sp_fail(err, SP_E_NOMEM, "out of memory: logits overflow");
    }
    return sp_new_sparse(&r->logits, &r->logits_memory, n, sizeof *r->logits, err);
}

static enum sp_status open_rows(struct sp_workspace *r, struct sp_err *err)
{
    const struct sp_config *config = &r->model->config;
    struct widths w = widest(config);
    size_t rows = r->max_rows;
    enum sp_status st;

    if ((st = open_rotations(r, err))) return st;
    if ((st = sp_new(&r->positions, rows, sizeof *r->positions, err))) return st;
    if ((st = sp_new(&r->ids, rows, sizeof *r->ids, err))) return st;
    r->ld_x = sp_matrix_ld(config->n_hidden);
    r->ld_q = sp_matrix_ld(w.q);
    r->ld_kv = sp_matrix_ld(w.kv);
    r->ld_ffn = sp_matrix_ld(w.ffn);
    r->ld_logits = sp_matrix_ld(config->n_vocab);
    if ((st = sp_new_rows(&r->x, rows, r->ld_x, err))) return st;
    if ((st = sp_new_rows(&r->y, rows, r->ld_x, err))) return st;
    if (has_both(config) && (st = sp_new_rows(&r->beside, rows, r->ld_x, err))) return st;
    if ((st = sp_new_rows(&r->q, rows, r->ld_q, err))) return st;
    if ((st = sp_new_rows(&r->k, rows, r->ld_kv, err))) return st;
    if ((st = sp_new_rows(&r->v, rows, r->ld_kv, err))) return st;
    if ((st = sp_new_rows(&r->up, rows, r->ld_ffn, err))) return st;
    if (config->plain_mlp) {
        if ((st = sp_new_rows(&r->ones, 1, r->ld_ffn, err))) return st;
        for (size_t i = 0; i < r->ld_ffn; i++)
            r->ones[i] = 1;
    }
    if ((st = open_logits(r, err))) return st;
    if ((st = sp_new(&r->best_logits, r->max_logit_rows, sizeof *r->best_logits, err))) {
        return st;
    }
    if ((st = sp_acts_init(&r->hidden, rows, config->n_hidden, err))) return st;
    if (config->layers[0].reads_pair &&
        (st = sp_acts_init(&r->pairs, rows, 2 * (size_t)config->n_hidden, err))) {
        return st;
    }
    if ((st = sp_acts_init(&r->heads, rows, w.q, err))) return st;
    if ((st = sp_acts_init(&r->ffn, rows, w.ffn, err))) return st;
    if (r->model->fc.rows && (st = sp_acts_init(&r->tapped, rows, r->model->fc.cols, err))) {
        return st;
    }
    if ((st = sp_experts_open(r, err))) return st;
    if ((st = sp_latent_open(r, err))) return st;
    if ((st = sp_delta_open(r, err))) return st;
    if ((st = sp_mamba_open(r, err))) return st;
    if ((st = sp_short_conv_open(r, err))) return st;
    if ((st = sp_per_layer_open(r, err))) return st;
    if ((st = sp_conv_open(r, err))) return st;
    if ((st = sp_new_rows(&r->gate, has_output_gate(config) ? rows : 0, r->ld_q, err))) return st;
    if ((st = sp_new(&r->ranges, rows, sizeof *r->ranges, err))) return st;
    if (w.heads == 0) return SP_OK; /* no layer attends */
    return sp_attention_scratch_new(&r->attention, sp_pool_n_threads(r->backend->pool), w.heads,
                                    w.head_dim, rows, r->n_positions, err);
}

static void close_workspace(struct sp_workspace *r)
{
    for (size_t i = 0; i < 2; i++) {
        free(r->rotations[i].cos);
        free(r->rotations[i].sin);
    }
    free(r->positions);
    free(r->ids);
    sp_attention_scratch_free(r->attention);
    free(r->ranges);
    free(r->logits_memory);
    free(r->best_logits);
    free(r->x);
    free(r->y);
    free(r->beside);
    free(r->q);
    free(r->k);
    free(r->v);
    free(r->up);
    free(r->ones);
    sp_acts_release(&r->hidden);
    sp_acts_release(&r->pairs);
    sp_acts_release(&r->heads);
    sp_acts_release(&r->ffn);
    sp_acts_release(&r->tapped);
    sp_experts_close(r);
    sp_latent_close(r);
    sp_delta_close(r);
    sp_mamba_close(r);
    sp_short_conv_close(r);
    sp_per_layer_close(r);
    sp_conv_close(r);
    free(r->gate);
    free(r);
}

enum sp_status sp_workspace_open(struct sp_workspace **out, const struct sp_model *model,
                                 const struct sp_backend *backend,
                                 const struct sp_workspace_options *options, struct sp_err *err)
{
    struct sp_workspace *r = NULL;
    enum sp_status st;

    if ((st = sp_new(&r, 1, sizeof *r, err))) return st;
    r->model = model;
    r->backend = backend;
    r->n_users = 1;
    r->max_rows = options->max_rows;
    r->max_logit_rows = options->max_logit_rows;
    r->n_positions = options->n_positions;
    if ((st = open_rows(r, err))) {
        close_workspace(r);
        return st;
    }
    *out = r;
    return SP_OK;
}

void sp_workspace_unref(struct sp_workspace *workspace)
{
    if (workspace && --workspace->n_users == 0) close_workspace(workspace);
}
