#include "runtime/model/binder.h"

#include "format/family/config_packed.h"
#include "format/family/family.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "quantize/types/float_cast.h"
#include "runtime/model/cache_types.h"
#include "runtime/model/rope.h"
#include "runtime/vector/fmath.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks that the pack has exactly the tensors, and shapes, that the configuration requires. */
static enum sp_status check_tensors(const struct sp_pack *pack, enum sp_part part,
                                    const struct sp_config *config, struct sp_err *err)
{
    struct sp_specs specs = {0};
    enum sp_status st;

    if ((st = sp_specs_of_config(&specs, config, err))) goto done;
    for (size_t i = 0; i < specs.n_specs; i++) {
        const struct sp_tensor_spec *want = &specs.specs[i];
        const struct sp_pack_tensor *have = sp_pack_find(pack, part, want->name);
        enum sp_layout layout = sp_role_is_matrix(want->role) ? SP_PANEL : SP_PLAIN;
        char a[SP_SHAPE_TEXT], b[SP_SHAPE_TEXT];
        if (have == NULL) {
            st = sp_fail(err, SP_E_INPUT, "%s: missing tensor \"%s\"", sp_part_name(part),
                         want->name);
            goto done;
        }
        if (have->rank == want->rank &&
            memcmp(have->shape, want->shape, want->rank * sizeof have->shape[0]) == 0 &&
            have->layout == layout)
            continue;
        st = sp_fail(err, SP_E_INPUT, "%s: tensor \"%s\" has shape %s, expected %s",
                     sp_part_name(part), want->name, sp_shape_text(a, have->shape, have->rank),
                     sp_shape_text(b, want->shape, want->rank));
        goto done;
    }
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->part != part || sp_specs_find(&specs, t->name)) continue;
        st = sp_fail(err, SP_E_INPUT, "%s: unexpected tensor \"%s\"", sp_part_name(part), t->name);
        goto done;
    }
done:
    sp_specs_release(&specs);
    return st;
}

/* Binds the per-layer embeddings and the scalar of Gemma 4. */
static void bind_per_layer(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    const float *scalar = sp_bind_bias(b, "@layer_scalar", i);

    l->scalar = scalar ? scalar[0] : 1;
    sp_bind_matrix(b, &l->per_layer_gate, "@per_layer_input_gate.weight", i);
    sp_bind_matrix(b, &l->per_layer_out, "@per_layer_projection.weight", i);
    l->per_layer_post = sp_bind_norm(b, "@post_per_layer_input_norm.weight", i);
}

static void bind_hyper(struct sp_binder *b, struct sp_hyper_weights *w, const char *streams,
                       const char *name, unsigned i)
{
    size_t k = b->model->config.hyper.n_streams;

    sp_bind_matrix(b, &w->fn, sp_join_name(name, "fn").text, i);
    w->base = sp_bind_bias(b, sp_join_name(name, "base").text, i);
    w->scale = sp_bind_bias(b, sp_join_name(name, "scale").text, i);
    sp_bind_matrix(b, &w->fn, sp_join_name(streams, "block_inject_weight.weight").text, i);
    sp_bind_matrix(b, &w->gate.down, sp_join_name(streams, "input_mix_weight_down.weight").text, i);
    sp_bind_matrix(b, &w->gate.up, sp_join_name(streams, "input_mix_weight_up.weight").text, i);
    w->norm = sp_bind_scaled(b, sp_join_name(streams, "hc_norm.weight").text, i,
                             k * b->model->config.n_hidden, 1.0 / (double)k);
}

static void bind_streams(struct sp_binder *b, struct sp_model *m)
{
    char name[64];

    for (unsigned i = 1; i < m->config.n_streams; i++) {
        snprintf(name, sizeof name, "altup_projections.%u.weight", i - 1);
        sp_bind_matrix(b, &m->streams_in[i], name, 0);
        snprintf(name, sizeof name, "altup_unembed_projections.%u.weight", i - 1);
        sp_bind_matrix(b, &m->streams_out[i], name, 0);
    }
}

/* Binds the shared expert. */
static void bind_shared(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    sp_bind_matrix(b, &l->shared_gate, "@mlp.shared_expert.gate_proj.weight", i);
    sp_bind_matrix(b, &l->shared_up, "@mlp.shared_expert.up_proj.weight", i);
    sp_bind_matrix(b, &l->shared_down, "@mlp.shared_expert.down_proj.weight", i);
    sp_bind_matrix(b, &l->shared_weight, "@mlp.shared_expert_gate.weight", i);
    l->shared_post = sp_bind_norm(b, "@post_feedforward_layernorm_1.weight", i);
    l->experts_norm = sp_bind_norm(b, "@pre_feedforward_layernorm_2.weight", i);
    l->experts_post = sp_bind_norm(b, "@post_feedforward_layernorm_2.weight", i);
    l->router_scale = sp_bind_bias(b, "@mlp.router.scale", i);
    l->expert_scale = sp_bind_bias(b, "@mlp.router.expert_scale", i);
}

/* Binds xIELU; alpha_p and alpha_n are stored before their softplus. */
static void bind_xielu(struct sp_binder *b, struct sp_xielu *w, unsigned i)
{
    const float *positive = sp_bind_bias(b, "@mlp.act_fn.alpha_p", i);
    const float *negative = sp_bind_bias(b, "@mlp.act_fn.alpha_n", i);
    const float *beta = sp_bind_bias(b, "@mlp.act_fn.beta", i);
    const float *eps = sp_bind_bias(b, "@mlp.act_fn.eps", i);

    if (b->status) return;
    *w = (struct sp_xielu){.positive = sp_softplusf(*positive),
                           .negative = *beta + sp_softplusf(*negative),
                           .beta = *beta,
                           .eps = *eps};
}

/* The largest number whose silu is at most `limit`, by bisection. */
static float silu_inverse(float limit)
{
    float low = 0, high = limit + 1;

    for (int i = 0; i < 60; i++) {
        float x = (low + high) / 2;
        if (sp_siluf(x) <= limit)
            low = x;
        else
            high = x;
    }
    return low;
}

static void set_limits(const struct sp_config *c, struct sp_layer *l)
{
    for (int i = 0; i < 2; i++) {
        float limit = (float)l->config->limits[i];
        l->limits[i].up = limit;
        l->limits[i].gate = c->silu_capped && limit != 0 ? silu_inverse(limit) : limit;
        if (c->activation == SP_SWIGLU_CAPPED)
            l->limits[i] = (struct sp_factor_limits){(float)c->softcaps[1], (float)c->softcaps[0]};
    }
}

/* Binds the experts of each token, which must exist and differ. */
static void bind_token_experts(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    size_t n_used = l->config->n_experts_used, n = b->model->config.n_vocab * n_used;

    l->token_experts = sp_bind_bias(b, "@mlp.router.token_experts", i);
    for (size_t k = 0; l->token_experts && k < n; k++) {
        float id = l->token_experts[k];
        bool good = id >= 0 && id < (float)l->config->n_experts && id == (float)(unsigned)id;
        for (size_t before = k - k % n_used; before < k; before++)
            good = good && l->token_experts[before] != id;
        if (good) continue;
        b->status =
            sp_fail(b->err, SP_E_INPUT,
                    "layers.%u.mlp.router.token_experts[%zu] is not an expert, or again one", i, k);
        return;
    }
}

static void bind_affine(struct sp_binder *b, struct sp_affine *a, const char *name, unsigned i)
{
    a->bias = sp_bind_bias(b, sp_join_name(name, "_bias").text, i);
    a->scale = sp_bind_bias(b, sp_join_name(name, "_scale").text, i);
}

static void bind_router_mlp(struct sp_binder *b, struct sp_router_mlp *w, unsigned i)
{
    sp_bind_linear(b, &w->w[0], &w->bias[0], "@mlp.router.down_proj", i);
    sp_bind_linear(b, &w->w[1], &w->bias[1], "@mlp.router.fc1", i);
    sp_bind_linear(b, &w->w[2], &w->bias[2], "@mlp.router.fc2", i);
    w->scale = sp_bind_bias(b, "@mlp.router.state_scale", i);
    w->norm = sp_bind_norm(b, "@mlp.router.norm.weight", i);
}

static void bind_ffn(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    if (l->config->n_experts) {
        bind_router_mlp(b, &l->router_mlp, i);
        sp_bind_linear(b, &l->router, &l->router_bias, "@mlp.router", i);
        l->router_correction = sp_bind_bias(b, "@mlp.router.correction", i);
        bind_token_experts(b, l, i);
        sp_bind_matrix(b, &l->latent_in, "@mlp.latent_in.weight", i);
        sp_bind_matrix(b, &l->latent_out, "@mlp.latent_out.weight", i);
        sp_bind_linear(b, &l->gate, &l->gate_bias, "@mlp.experts.gate_proj", i);
        sp_bind_linear(b, &l->up, &l->up_bias, "@mlp.experts.up_proj", i);
        sp_bind_linear(b, &l->down, &l->down_bias, "@mlp.experts.down_proj", i);
        bind_shared(b, l, i);
        return;
    }
    sp_bind_linear(b, &l->gate, &l->gate_bias, "@mlp.gate_proj", i);
    sp_bind_linear(b, &l->up, &l->up_bias, "@mlp.up_proj", i);
    sp_bind_linear(b, &l->down, &l->down_bias, "@mlp.down_proj", i);
    l->down_norm = sp_bind_norm(b, "@mlp.inner_norm.weight", i);
    if (b->model->config.activation == SP_XIELU) bind_xielu(b, &l->xielu, i);
}

static void bind_convolutions(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    l->attention_conv.base = sp_bind_bias(b, "@attention_conv.base_kernel", i);
    sp_bind_matrix(b, &l->attention_conv.dynamic, "@attention_conv.kernel_projection.weight", i);
    l->ffn_conv.base = sp_bind_bias(b, "@mlp_conv.base_kernel", i);
    sp_bind_matrix(b, &l->ffn_conv.dynamic, "@mlp_conv.kernel_projection.weight", i);
}

static void bind_unit(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    double root = sqrt((double)c->n_hidden);

    if (c->unit.init == 0) return;
    l->rates[0] = sp_bind_scales(b, "@attention_rate", i, c->unit.rate, 0);
    l->rates[1] = sp_bind_scales(b, "@mlp_rate", i, c->unit.rate, 0);
    l->q_scales = sp_bind_scales(b, "@self_attn.q_scale", i, sqrt((double)l->config->head_dim), 2);
    l->output_gate_scales = sp_bind_scales(b, "@self_attn.gate_scale", i, sqrt(root), 2);
    l->gate_scales = sp_bind_scales(b, "@mlp.gate_scale", i, root * c->unit.init, 1);
    l->up_scales = sp_bind_scales(b, "@mlp.up_scale", i, root * c->unit.init, 1);
}

/* Binds the adapter B A of a matrix of a block. */
static void bind_adapter(struct sp_binder *b, const struct sp_matrix *w, const char *left,
                         const char *right, unsigned layer)
{
    const struct sp_pack_tensor *l = sp_bind_find(b, left, layer),
                                *r = sp_bind_find(b, right, layer);
    size_t rank = b->model->config.block_rank, n = w->rows * rank;
    struct sp_lora_product p = {sizeof p, left, w->rows, w->cols, rank, NULL, NULL};
    float *factors = NULL;

    if (l == NULL || r == NULL) return;
    if (!(b->status = sp_new(&factors, n + rank * w->cols, sizeof *factors, b->err))) {
        sp_decode_floats(factors, l->dtype, l->data, n);
        sp_decode_floats(factors + n, r->dtype, r->data, rank * w->cols);
        p.left = factors;
        p.right = factors + n;
        b->status = sp_lora_products_add(&b->model->adapters, w, &p, NULL, b->err);
    }
    free(factors);
    b->model->max_lora_rank = rank;
}

static void bind_block(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    l->pair_norm = sp_bind_norm(b, "@pair_norm.weight", i);
    sp_bind_matrix(b, &l->block_out, "@block.out_proj.weight", i);
    bind_adapter(b, &l->gate, "@block.gate.B", "@block.mlp.A", i);
    bind_adapter(b, &l->up, "@block.up.B", "@block.mlp.A", i);
    bind_adapter(b, &l->q, "@block.q.B", "@block.q.A", i);
    bind_adapter(b, &l->k, "@block.k.B", "@block.k.A", i);
    bind_adapter(b, &l->v, "@block.v.B", "@block.v.A", i);
}

static void bind_layer(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    enum sp_norms norms = b->model->config.layers[i].norms;
    unsigned mixers = b->model->config.layers[i].mixers;

    l->config = &b->model->config.layers[i];
    l->input_norm = sp_bind_norm(b, "@input_layernorm.weight", i);
    l->input_norm_bias = sp_bind_bias(b, "@input_layernorm.bias", i);
    if (l->input_norm == NULL) l->input_norm = sp_bind_norm(b, "@q_input_layernorm.weight", i);
    l->kv_input_norms[0] = sp_bind_norm(b, "@k_input_layernorm.weight", i);
    l->kv_input_norms[1] = sp_bind_norm(b, "@v_input_layernorm.weight", i);
    l->queries[0] = sp_bind_bias(
        b, l->config->own_kv_inputs ? "@attention_input.queries" : "@attention_input.query", i);
    l->queries[1] = sp_bind_bias(b, "@mlp_input.query", i);
    if (norms == SP_NORM_PRE || norms == SP_NORM_PRE_POST || norms == SP_NORM_TWIN) {
        l->ffn_norm = sp_bind_scaled(b, "@post_attention_layernorm.weight", i,
                                     b->model->config.n_hidden, b->model->config.ffn_in_scale);
        l->ffn_norm_bias = sp_bind_bias(b, "@post_attention_layernorm.bias", i);
    } else {
        l->attention_post = sp_bind_norm(b, "@post_attention_layernorm.weight", i);
        l->ffn_norm = sp_bind_norm(b, "@pre_feedforward_layernorm.weight", i);
        l->attention_post_bias = sp_bind_bias(b, "@post_attention_layernorm.bias", i);
        l->ffn_post_bias = sp_bind_bias(b, "@post_feedforward_layernorm.bias", i);
    }
    l->ffn_post = sp_bind_norm(b, "@post_feedforward_layernorm.weight", i);
    sp_bind_matrix(b, &l->input_gate.down, "@input_gate.down_proj.weight", i);
    sp_bind_matrix(b, &l->input_gate.up, "@input_gate.up_proj.weight", i);
    sp_bind_matrix(b, &l->ffn_gate.down, "@ffn_gate.down_proj.weight", i);
    sp_bind_matrix(b, &l->ffn_gate.up, "@ffn_gate.up_proj.weight", i);
    bind_ffn(b, l, i);
    set_limits(&b->model->config, l);
    bind_per_layer(b, l, i);
    if (b->model->config.n_streams) sp_bind_altup(b, l, i);
    bind_hyper(b, &l->hyper[0], "@attention_streams.", "@attention_streams.hc_", i);
    bind_hyper(b, &l->hyper[1], "@mlp_streams.", "@mlp_streams.hc_", i);
    sp_bind_ngrams(b, &l->ngrams, i);
    bind_convolutions(b, l, i);
    bind_affine(b, &l->affine[0][0], "@post_attention_residual_scale.hidden_states", i);
    bind_affine(b, &l->affine[0][1], "@post_attention_residual_scale.residual", i);
    bind_affine(b, &l->affine[1][0], "@post_mlp_residual_scale.hidden_states", i);
    bind_affine(b, &l->affine[1][1], "@post_mlp_residual_scale.residual", i);
    sp_bind_residual(b, l, i);
    sp_bind_relative(b, l, i);
    sp_bind_messages(b, l, i);
    if (mixers & SP_MIXER_ATTENTION) sp_bind_attention(b, l, i);
    if (mixers & SP_MIXER_CCA) sp_bind_cca(b, l, i);
    if (mixers & SP_MIXER_DELTA_NET) sp_bind_delta(b, &l->delta, i);
    if (mixers & SP_MIXER_SHORT_CONV) sp_bind_short_conv(b, &l->short_conv, i);
    if (mixers & SP_MIXER_MAMBA) sp_bind_mamba(b, &l->mamba, i);
    bind_block(b, l, i);
    bind_unit(b, l, i);
}

static void bind_dspark(struct sp_binder *b, struct sp_dspark_weights *w)
{
    bool rnn = b->model->config.draft.dspark.markov == SP_MARKOV_RNN;

    sp_bind_matrix(b, &w->embedding, "markov_head.markov_w1.weight", 0);
    sp_bind_matrix(b, &w->correction, "markov_head.markov_w2.weight", 0);
    sp_bind_linear(b, &w->gate, &w->gate_bias,
                   rnn ? "markov_head.joint_proj" : "markov_head.gate_proj", 0);
    sp_bind_linear(b, &w->confidence, &w->confidence_bias, "confidence_head.proj", 0);
}

/* Binds the table of learned positions, and adds a type of tokens to each row. A model without the
 * table has the type alone, one row. */
static const float *bind_positions(struct sp_binder *b, size_t type)
{
    const float *positions = sp_bind_bias(b, "embed_positions.weight", 0);
    const float *types = sp_bind_bias(b, "embed_token_types.weight", 0);
    size_t n_hidden = b->model->config.n_hidden;
    size_t n = (size_t)b->model->config.n_positions_table * n_hidden;
    float *sum;

    if (positions == NULL && types) return types + type * n_hidden;
    if (positions == NULL || types == NULL) return positions;
    sum = sp_bind_room(b, n);
    for (size_t i = 0; sum && i < n; i++)
        sum[i] = positions[i] + types[type * n_hidden + i % n_hidden];
    return sum;
}

/* The table of sinusoidal positions: sines of all frequencies, then their cosines. Source:
 * XGLMSinusoidalPositionalEmbedding in transformers 5.24. */
static const float *make_positions(struct sp_binder *b)
{
    const struct sp_config *c = &b->model->config;
    size_t n = c->n_hidden, half = n / 2;
    float *table = sp_bind_room(b, n * c->n_positions_table), *steps = sp_bind_room(b, half);

    if (steps == NULL) return NULL;
    for (size_t i = 0; i < half; i++)
        steps[i] = sp_expf(-(float)i * (float)(sp_log(10000) / (double)(half - 1)));
    for (size_t pos = 0; pos < c->n_positions_table; pos++)
        sp_rope_row(table + pos * n + half, table + pos * n, steps, half, 1, pos);
    return table;
}

/* The slopes of ALiBi. Without a power of two of heads, the heads behind those of the next smaller
 * one have the slopes between. */
static const float *make_slopes(struct sp_binder *b)
{
    const struct sp_config *c = &b->model->config;
    unsigned n = c->layers[0].n_heads, power = 1;
    float *slopes;

    if (c->alibi == 0 || (slopes = sp_bind_room(b, n)) == NULL) return NULL;
    while (2 * power <= n)
        power *= 2;
    for (unsigned h = 0; h < n; h++) {
        double step = h < power ? h + 1 : h - power + 0.5;
        slopes[h] = (float)sp_pow(2, -c->alibi * step / power);
        if (c->alibi_rounded) slopes[h] = sp_round_bf16(slopes[h]);
    }
    return slopes;
}

static void bind_pooling(struct sp_binder *b, struct sp_model *m)
{
    char name[64];

    for (unsigned i = 0; i < m->config.pooling.n_dense; i++) {
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u", i);
        sp_bind_linear(b, &m->dense[i], &m->dense_bias[i], name, 0);
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.norm.weight", i);
        m->dense_norm[i] = sp_bind_bias(b, name, 0);
    }
}

static enum sp_status bind_all(struct sp_model *m, const struct sp_pack *pack, struct sp_err *err)
{
    struct sp_binder b = {.pack = pack, .model = m, .err = err};

    m->message_queries[0] = sp_bind_bias(&b, "middle_cycle_cross_pass_queries", 0);
    m->message_queries[1] = sp_bind_bias(&b, "middle_cycle_cross_pass_kv_queries", 0);
    for (unsigned i = 0; i < m->config.n_layers; i++)
        bind_layer(&b, &m->layers[i], i);
    m->final_query = sp_bind_bias(&b, "final_input.query", 0);
    m->start = sp_bind_bias(&b, "loop_start", 0);
    m->norm = sp_bind_vector(&b, "norm.weight", 0, !m->config.final_unshifted);
    m->norm_bias = sp_bind_bias(&b, "norm.bias", 0);
    m->embedding_norm = sp_bind_norm(&b, "embed_norm.weight", 0);
    m->embedding_norm_bias = sp_bind_bias(&b, "embed_norm.bias", 0);
    bind_affine(&b, &m->embedding_affine, "input_hidden_states", 0);
    m->positions = m->config.sinusoidal ? make_positions(&b) : bind_positions(&b, 0);
    if (m->config.pooling.pair.second_type && m->config.n_token_types > 1)
        m->second_positions = bind_positions(&b, 1);
    m->slopes = make_slopes(&b);
    m->rope_alpha = sp_bind_bias(&b, "rope_alpha", 0);
    sp_bind_matrix(&b, &m->embedding, "embed_tokens.weight", 0);
    sp_bind_linear(&b, &m->head, &m->head_bias, "lm_head", 0);
    if (m->config.padded_head) {
        m->head.rows = m->config.n_vocab;
        m->head.n_panels = (m->head.rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    }
    if (m->head.rows == 0) m->head = m->embedding;
    m->head_scales = sp_bind_scales(&b, "lm_head.scale", 0, 1, 1);
    sp_bind_matrix(&b, &m->head_dense, "lm_head.dense.weight", 0);
    m->head_norm = sp_bind_norm(&b, "lm_head.norm.weight", 0);
    m->head_norm_bias = sp_bind_bias(&b, "lm_head.norm.bias", 0);
    sp_bind_matrix(&b, &m->per_layer_embedding, "embed_tokens_per_layer.weight", 0);
    sp_bind_matrix(&b, &m->per_layer_projection, "per_layer_model_projection.weight", 0);
    m->per_layer_norm = sp_bind_norm(&b, "per_layer_projection_norm.weight", 0);
    sp_bind_matrix(&b, &m->fc, "fc.weight", 0);
    m->hidden_norm = sp_bind_norm(&b, "hidden_norm.weight", 0);
    m->feature_norm =
        sp_bind_norm(&b, m->config.draft.taps_normed ? "fc_norm.weight" : "input_norm.weight", 0);
    m->mask_hidden = sp_bind_bias(&b, "mask_hidden", 0);
    m->token_map = sp_bind_bias(&b, "d2t", 0);
    m->pair_norms[0] = sp_bind_norm(&b, "pre_fc_norm_embedding.weight", 0);
    m->pair_norms[1] = sp_bind_norm(&b, "pre_fc_norm_hidden.weight", 0);
    if (m->fc.rows == 0) sp_bind_matrix(&b, &m->fc, "pre_projection.weight", 0);
    sp_bind_matrix(&b, &m->post, "post_projection.weight", 0);
    sp_bind_matrix(&b, &m->centroids, "masked_embedding.centroids.weight", 0);
    m->token_order = sp_bind_bias(&b, "masked_embedding.token_ordering", 0);
    sp_bind_matrix(&b, &m->selector.hidden, "candidate_selector.hidden_projection.weight", 0);
    sp_bind_matrix(&b, &m->selector.predecessors, "candidate_selector.predecessor_codebook", 0);
    sp_bind_matrix(&b, &m->selector.successors, "candidate_selector.successor_codebook", 0);
    bind_dspark(&b, &m->dspark);
    bind_pooling(&b, m);
    bind_streams(&b, m);
    bind_hyper(&b, &m->hyper, "streams.", "streams.hc_head_", 0);
    return b.status;
}

enum sp_status sp_model_open(struct sp_model **out, const struct sp_pack *pack, enum sp_part part,
                             struct sp_err *err)
{
    struct sp_model *m = NULL;
    enum sp_status st;

    if ((st = sp_new(&m, 1, sizeof *m, err))) goto done;
    m->part = part;
    if ((st = sp_config_of_pack(&m->config, pack, part, err))) goto done;
    if ((st = check_tensors(pack, part, &m->config, err))) goto done;
    m->layers = sp_arena_new(&m->memory, m->config.n_layers, sizeof *m->layers);
    if ((st = sp_arena_check(&m->memory, err))) goto done;
    if ((st = bind_all(m, pack, err))) goto done;
    if ((st = sp_cache_types_read(m, pack, err))) goto done;
    *out = m;
    m = NULL;
done:
    sp_model_close(m);
    return st;
}

void sp_model_set_matrix(struct sp_model *model, size_t i, struct sp_matrix w)
{
    struct sp_matrix *bound = model->matrices[i].w;

    if (bound == &model->embedding && model->head.panels == bound->panels) model->head = w;
    *bound = w;
}

void sp_model_close(struct sp_model *model)
{
    if (model == NULL) return;
    sp_arena_release(&model->memory);
    free(model->matrices);
    sp_lora_products_release(&model->adapters);
    sp_config_release(&model->config);
    free(model);
}
