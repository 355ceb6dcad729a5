/* The attention sublayer: what a layer's attention job (runtime/backend/attention_job.h)
 * multiplies, norms, rotates and reads, then output gates and the output product. */
#include "runtime/model/sublayers.h"

#include "runtime/model/key_index.h"
#include "runtime/vector/fmath.h"

#include <float.h>

static struct sp_attention_heads heads_of(const struct sp_workspace *ws, const struct sp_layer *l,
                                          size_t n)
{
    const struct sp_config *c = &ws->model->config;
    struct sp_attention_heads a = {
        .vector = ws->backend->vector,
        .norm = c->qk_norm,
        .q_norm = l->q_norm,
        .k_norm = l->k_norm,
        .q_norm_bias = l->q_norm_bias,
        .k_norm_bias = l->k_norm_bias,
        .q_scales = l->q_scales,
        .unit = c->unit.init != 0,
        .clip = (float)c->qk_clip,
        .eps = c->cca.kernel ? FLT_MIN : (float)c->norm_eps, /* CCA: lengths, which are exact */
        .limit = (float)c->qkv_limit,
        .v_from_k = l->config->v_from_k,
        .v_norm = c->v_norm,
        .head_dim = l->config->head_dim,
        .value_dim = sp_config_value_dim(c, l->config),
        .v_scale = (float)c->value_scale,
        .growth = c->query_growth,
        .positions = ws->positions,
        .n = n,
        .q = ws->q,
        .k = ws->k,
        .v = ws->v,
        .ld_q = ws->ld_q,
        .ld_kv = ws->ld_kv,
    };

    if (c->query_growth.smooth && l->config->window) a.growth.beta = 0;
    if (l->config->rope < 0) {
        if (a.norm == SP_QK_ROTATED) a.norm = SP_QK_PLAIN;
        return a;
    }
    if (c->query_growth.unrotated_only) a.growth.beta = 0;
    a.n_rot = c->ropes[l->config->rope].n_rot;
    a.cos = ws->rotations[l->config->rope].cos;
    a.sin = ws->rotations[l->config->rope].sin;
    return a;
}

/* The job of n rows, without products. */
static struct sp_attention_job job_of(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    double scale = l->config->score_scale;

    for (size_t i = 0; i < ws->n_seqs; i++) {
        const struct sp_batch_seq *seq = &ws->seqs[i];
        ws->attention_seqs[i] =
            (struct sp_attention_seq){seq->decoder->keys[layer], seq->pos, seq->n};
    }
    return (struct sp_attention_job){
        .backend = ws->backend,
        .acts = l->config->reads_pair ? &ws->pairs : &ws->hidden,
        .heads = heads_of(ws, l, n),
        .n_heads = l->config->n_heads,
        .n_kv_heads = l->config->n_kv_heads,
        .stores = l->k.rows != 0,
        .seqs = ws->attention_seqs,
        .n_seqs = ws->n_seqs,
        .attention = {.scale = (float)(scale != 0 ? scale : ws->model->config.attention_scale),
                      .cap = (float)ws->model->config.attention_cap,
                      .sinks = ws->sinks ? ws->sinks : l->sinks,
                      .ld_sinks = ws->ld_sinks,
                      .relative = {ws->mix, ws->ld_mix, ws->model->config.rel_dim,
                                   l->relative.extent, l->relative.profiles},
                      .slopes = ws->model->slopes,
                      .slopes_rounded = ws->model->config.alibi_rounded},
        .out = &ws->heads,
        .scratch = ws->attention,
    };
}

void sp_self_attention_store_keys(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    const struct sp_product kv[] = {
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
    };
    struct sp_attention_job job = job_of(ws, layer, n);

    job.products = kv;
    job.n_products = 2;
    job.acts = &ws->hidden;
    job.stores = true;
    sp_backend_attend(&job);
}

/* A window counts the row itself, or is a chunk of positions; with window_before it counts only
 * keys before the sequence's rows. A layer that is not causal (block drafts) also attends to later
 * rows of the pass. A layer that reads the target's keys does not attend to its own position, which
 * the target has not processed yet. */
void sp_self_attention_find_ranges(struct sp_key_range *ranges, const struct sp_layer_config *l,
                                   const struct sp_batch_seq *seq)
{
    size_t n = seq->n, pos = seq->pos;

    for (size_t t = 0; t < n; t++) {
        size_t p = pos + t;
        struct sp_key_range *r = &ranges[t];
        r->last = l->causal ? p + 1 : pos + n;
        if (l->kv_source < 0) r->last = p;
        r->first = 0;
        if (l->window == 0) continue;
        if (l->window_before) {
            if (pos > l->window) r->first = pos - l->window;
            continue;
        }
        if (l->chunked)
            r->first = p - p % l->window;
        else if (p + 1 > l->window)
            r->first = p + 1 - l->window;
        if (r->last > p + l->window) r->last = p + l->window;
    }
}

struct gate_job {
    struct sp_workspace *ws;
    const struct sp_layer_config *l;
    size_t dim; /* of the output of a head */
};

/* Multiplies the attention output by the sigmoid of its gate (Qwen3.5), or its softplus; or each
 * head by its own (LFM3). */
static void gate_row(void *context, size_t t)
{
    const struct gate_job *job = context;
    const struct sp_workspace *ws = job->ws;
    const struct sp_vector *vector = ws->backend->vector;
    const float *gate = ws->gate + t * ws->ld_q;
    float *row = ws->heads.x + t * ws->heads.ld;
    bool softplus = ws->model->config.gate_softplus;

    for (size_t h = 0; job->l->head_gate && h < job->l->n_heads; h++)
        vector->scale(row + h * job->dim, softplus ? sp_softplusf(gate[h]) : sp_sigmoidf(gate[h]),
                      job->dim);
    if (job->l->head_gate) return;
    for (size_t i = 0; softplus && i < ws->heads.cols; i++)
        row[i] *= sp_softplusf(gate[i]);
    if (!softplus) vector->sigmoid_mul(row, gate, ws->heads.cols);
}

void sp_output_gate_run(struct sp_workspace *ws, const struct sp_layer_config *l, size_t dim,
                        size_t n)
{
    sp_backend_rows(ws->backend, n, gate_row, &(struct gate_job){ws, l, dim});
}

/* True if k and v of a layer read inputs of their own. */
static bool splits_inputs(const struct sp_layer *l)
{
    return l->config->own_kv_inputs || (l->messages[0].query && l->config->repeats);
}

/* Sets the products that the layer has: q, k and v, output gate. Returns their number. */
static size_t list_products(const struct sp_workspace *ws, const struct sp_layer *l,
                            struct sp_product needed[SP_MAX_PRODUCTS])
{
    const struct sp_product all[] = {
        {.w = &l->q, .bias = l->q_bias, .y = ws->q, .ldy = ws->ld_q},
        {.w = &l->k, .bias = l->k_bias, .y = ws->k, .ldy = ws->ld_kv},
        {.w = &l->v, .bias = l->v_bias, .y = ws->v, .ldy = ws->ld_kv},
        {.w = &l->output_gate,
         .bias = l->output_gate_bias,
         .scales = l->output_gate_scales,
         .y = ws->gate,
         .ldy = ws->ld_q},
        {.w = &l->relative.mix, .y = ws->mix, .ldy = ws->ld_mix},
        {.w = &l->sink_proj, .y = ws->sinks, .ldy = ws->ld_sinks},
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].w->rows && !(splits_inputs(l) && (all[i].y == ws->k || all[i].y == ws->v)))
            needed[n++] = all[i];
    return n;
}

void sp_self_attention_row(struct sp_workspace *ws, unsigned layer, size_t t,
                           const struct sp_kv *kv, size_t n)
{
    const struct sp_key_range range = {0, n};
    const struct sp_attention a = {
        .kv = kv,
        .n_heads = ws->model->layers[layer].config->n_heads,
        .scale = (float)ws->model->config.attention_scale,
        .cap = (float)ws->model->config.attention_cap,
        .sinks = ws->model->layers[layer].sinks,
        .q = ws->q + t * ws->ld_q,
        .ldq = ws->ld_q,
        .out = ws->heads.x + t * ws->heads.ld,
        .ld_out = ws->heads.ld,
        .n_rows = 1,
        .ranges = &range,
    };

    sp_attend(&a, ws->backend->vector, ws->backend->pool, ws->attention);
}

/* Runs a layer's attention. Rows that see more keys than the index chooses attend to none yet. */
static void attend(struct sp_workspace *ws, unsigned layer, size_t n, struct sp_attention_job *job)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    size_t t = 0, most = l->index.k.rows ? ws->key_index->n_chosen : SIZE_MAX;

    if (l->cca.taps) {
        sp_backend_multiply(ws->backend, job->products, job->n_products, job->acts, n);
        sp_cca_run(ws, layer, n);
        job->n_products = 0;
    }
    for (size_t i = 0; i < n; i++)
        if (ws->positions[i] >= most) ws->ranges[i].last = ws->ranges[i].first;
    sp_backend_attend(job);
    if (l->index.k.rows == 0) return;
    sp_key_index_choose(ws, layer, NULL, n);
    for (size_t i = 0; i < ws->n_seqs; i++)
        for (size_t end = t + ws->seqs[i].n; t < end; t++)
            if (ws->positions[t] >= most)
                sp_self_attention_row(ws, layer, t, &ws->gathered,
                                      sp_key_index_gather(ws, job->seqs[i].kv, t));
}

/* Scales what the queries of row t mix, shortens it, and lets it grow as queries do. */
static void prepare_mix(const struct sp_workspace *ws, const struct sp_layer *l,
                        const struct sp_query_growth *growth, size_t t)
{
    const struct sp_vector *vector = ws->backend->vector;
    float *mix = ws->mix + t * ws->ld_mix;
    size_t dim = ws->model->config.rel_dim, n = l->relative.mix.rows;

    if (l->relative.scales) vector->mul(mix, l->relative.scales, n);
    for (size_t i = 0; l->relative.scales && i < n; i += dim)
        sp_shorten(mix + i, (float)ws->model->config.rel_clip, dim);
    if (growth->beta != 0) vector->scale(mix, sp_query_factor(growth, ws->positions[t]), n);
}

/* Makes q, k and v before their norms, k and v with their convolutions, and what queries mix. */
static void make_convolved(struct sp_workspace *ws, unsigned layer, struct sp_attention_job *job)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    float *const rows[2] = {ws->k, ws->v};
    size_t n = job->heads.n;

    sp_backend_multiply(ws->backend, job->products, job->n_products, job->acts, n);
    job->n_products = 0;
    for (unsigned i = 0; i < 2; i++) {
        const struct sp_product own[] = {
            {.w = i ? &l->v : &l->k, .y = rows[i], .ldy = ws->ld_kv},
            {.w = &l->dynamic_taps[i], .y = ws->dynamic, .ldy = ws->ld_dynamic},
        };
        if (splits_inputs(l))
            sp_backend_multiply(ws->backend, own, own[1].w->rows ? 2 : 1, &ws->kv_inputs[i], n);
        sp_residual_conv_run(ws, layer, SP_CONV_KEYS + i, rows[i], ws->ld_kv, n);
    }
    for (size_t t = 0; t < n; t++)
        prepare_mix(ws, l, &job->heads.growth, t);
}

void sp_self_attention_run(struct sp_workspace *ws, unsigned layer, size_t n)
{
    const struct sp_layer *l = &ws->model->layers[layer];
    struct sp_product products[SP_MAX_PRODUCTS];
    struct sp_attention_job job = job_of(ws, layer, n);

    for (size_t i = 0, first = 0; i < ws->n_seqs; first += ws->seqs[i++].n)
        sp_self_attention_find_ranges(ws->ranges + first, l->config, &ws->seqs[i]);
    job.products = products;
    job.n_products = list_products(ws, l, products);
    job.ranges = ws->ranges;
    if (l->residual_taps[SP_CONV_KEYS]) make_convolved(ws, layer, &job);
    sp_backend_prepare(ws->backend, &ws->heads, &l->o);
    if (l->output_gate.rows || ws->model->config.inner_norms || l->index.k.rows)
        ws->heads.coded = false;
    attend(ws, layer, n, &job);
    if (l->output_gate.rows) sp_output_gate_run(ws, l->config, l->config->head_dim, n);
    sp_inner_norm_run(ws, &ws->heads, l->o_norm, l->o.cols, n);
    sp_backend_product(ws->backend, ws->y, ws->ld_x, &l->o, l->o_bias, &ws->heads, n);
    ws->heads.coded = false;
}
