/* The canonical tensors of a model, from its config alone: one row per tensor, with the condition
 * under which a layer or a model has it and with its dimensions. */
#include "format/family/family.h"

#include "format/family/family_parts.h"
#include "format/base/mem.h"

#include <stdio.h>
#include <string.h>

struct row {
    const char *name; /* behind the prefix of the rows; "%u" outside of layers is list.number */
    enum sp_role role;
    int wanted;        /* false, true, or WITH_BIAS */
    uint64_t shape[3]; /* 0 after the last dimension */
};

/* Beside this ".weight" there is a ".bias", which has its shape without the columns. */
enum { WITH_BIAS = 2 };

static int with(bool wanted, bool bias)
{
    return wanted && bias ? WITH_BIAS : wanted;
}

/* The tensors being listed. */
struct list {
    struct sp_specs *specs;
    const struct sp_config *config;
    int layer; /* of the rows that are added; -1: they are outside of the layers */
    unsigned number;
    struct sp_err *err;
};

/* Adds a tensor; `own` is its name, in a layer that behind "layers.N.". */
static enum sp_status add_one(struct list *list, const char *own, enum sp_role role,
                              const uint64_t shape[3])
{
    struct sp_specs *specs = list->specs;
    unsigned layer = (unsigned)list->layer;
    struct sp_tensor_spec spec = {.role = role};
    char name[SP_SPEC_NAME];
    enum sp_status st;

    if (list->layer >= 0 && sp_config_tensor_layer(list->config, layer, own) != layer) return SP_OK;
    if (list->layer >= 0)
        snprintf(name, sizeof name, "layers.%u.%s", layer, own);
    else if (strstr(own, "%u"))
        sp_layout_numbered_name(name, sizeof name, own, list->number);
    else
        snprintf(name, sizeof name, "%s", own);
    for (; spec.rank < 3 && shape[spec.rank]; spec.rank++)
        spec.shape[spec.rank] = shape[spec.rank];
    if ((st = sp_specs_add_string(&spec.name, specs, name, list->err))) return st;
    st = sp_grow(&specs->specs, &specs->cap_specs, specs->n_specs + 1, sizeof spec, list->err);
    if (!st) specs->specs[specs->n_specs++] = spec;
    return st;
}

/* Adds the wanted tensors. */
static enum sp_status add(struct list *list, const char *prefix, const struct row *rows, size_t n)
{
    enum sp_status st = SP_OK;

    for (const struct row *row = rows; row < rows + n && !st; row++) {
        const uint64_t *shape = row->shape, of_bias[3] = {shape[0], shape[2] ? shape[1] : 0};
        char own[SP_SPEC_NAME];
        int len = snprintf(own, sizeof own, "%s%s", prefix, row->name);
        if (row->wanted) st = add_one(list, own, row->role, shape);
        if (row->wanted != WITH_BIAS || st) continue;
        memcpy(own + len - strlen("weight"), "bias", sizeof "bias");
        st = add_one(list, own, SP_ROLE_BIAS, of_bias);
    }
    return st;
}

#define ADD(prefix, rows) add(list, prefix, rows, sizeof(rows) / sizeof *(rows))

/* Adds tensors of layer i. */
typedef enum sp_status add_fn(struct list *list, const struct sp_config *c, unsigned i);

/* ---- layers ---- */

static enum sp_status add_norms(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_layer_config *l = &c->layers[i];
    const uint64_t hidden = c->n_hidden;
    bool weights = !c->norm_weightless && !c->hyper.rank, bias = c->norm_bias;
    bool own = l->own_kv_inputs, blocks = c->block_attention;
    bool input = l->mixers != 0 && weights && !own && !(c->first_unnormed && i == 0) &&
                 l->norms != SP_NORM_POST && l->norms != SP_NORM_RESIDUAL;
    bool second = l->n_ffn != 0 && weights && l->norms != SP_NORM_PARALLEL;
    bool four = weights && l->norms == SP_NORM_SANDWICH;
    bool post = four || l->norms == SP_NORM_PRE_POST || l->norms == SP_NORM_POST ||
                l->norms == SP_NORM_RESIDUAL;
    bool expert_norms = l->n_experts != 0 && c->expert_norms;
    const uint64_t rank = c->norm_gate_rank;
    bool block = sp_layer_has_block(l), unit = c->unit.init != 0;
    bool input_gate = input && rank, ffn_gate = l->n_experts != 0 && rank;
    bool affine = c->affine_residuals;
    const struct row rows[] = {
        {"input_layernorm.weight", SP_ROLE_NORM, with(input, bias), {hidden}},
        {"hidden_norm.weight", SP_ROLE_NORM, l->reads_pair && !block, {hidden}},
        {"pair_norm.weight", SP_ROLE_NORM, block, {2 * hidden}},
        {"post_attention_layernorm.weight", SP_ROLE_NORM, with(second, bias), {hidden}},
        {"pre_feedforward_layernorm.weight", SP_ROLE_NORM, four, {hidden}},
        {"post_feedforward_layernorm.weight", SP_ROLE_NORM, with(post, bias), {hidden}},
        {"post_feedforward_layernorm_1.weight", SP_ROLE_NORM, expert_norms, {hidden}},
        {"pre_feedforward_layernorm_2.weight", SP_ROLE_NORM, expert_norms, {hidden}},
        {"post_feedforward_layernorm_2.weight", SP_ROLE_NORM, expert_norms, {hidden}},
        {"input_gate.down_proj.weight", SP_ROLE_ATTENTION, input_gate, {rank, hidden}},
        {"input_gate.up_proj.weight", SP_ROLE_ATTENTION, input_gate, {hidden, rank}},
        {"ffn_gate.down_proj.weight", SP_ROLE_MLP, ffn_gate, {rank, hidden}},
        {"ffn_gate.up_proj.weight", SP_ROLE_MLP, ffn_gate, {hidden, rank}},
        {"layer_scalar", SP_ROLE_SMALL, c->layer_scalars, {1}},
        {"q_input_layernorm.weight", SP_ROLE_NORM, own, {hidden}},
        {"k_input_layernorm.weight", SP_ROLE_NORM, own, {hidden}},
        {"v_input_layernorm.weight", SP_ROLE_NORM, own, {hidden}},
        {"attention_input.query", SP_ROLE_SMALL, blocks && i && !own, {hidden}},
        {"attention_input.queries", SP_ROLE_SMALL, blocks && i && own, {3, hidden}},
        {"mlp_input.query", SP_ROLE_SMALL, blocks, {hidden}},
        {"attention_rate", SP_ROLE_SMALL, unit, {hidden}},
        {"mlp_rate", SP_ROLE_SMALL, unit, {hidden}},
        {"post_attention_residual_scale.hidden_states_scale", SP_ROLE_SMALL, affine, {hidden}},
        {"post_attention_residual_scale.hidden_states_bias", SP_ROLE_SMALL, affine, {hidden}},
        {"post_attention_residual_scale.residual_scale", SP_ROLE_SMALL, affine, {hidden}},
        {"post_attention_residual_scale.residual_bias", SP_ROLE_SMALL, affine, {hidden}},
        {"post_mlp_residual_scale.hidden_states_scale", SP_ROLE_SMALL, affine, {hidden}},
        {"post_mlp_residual_scale.hidden_states_bias", SP_ROLE_SMALL, affine, {hidden}},
        {"post_mlp_residual_scale.residual_scale", SP_ROLE_SMALL, affine, {hidden}},
        {"post_mlp_residual_scale.residual_bias", SP_ROLE_SMALL, affine, {hidden}},
    };

    return ADD("", rows);
}

static enum sp_status add_attention(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_layer_config *l = &c->layers[i];
    const struct sp_latent_config *a = sp_config_latent(c, l);
    const uint64_t hidden = c->n_hidden, input = l->reads_pair ? 2 * hidden : hidden;
    const uint64_t heads = l->n_heads, q_rank = a->q_rank, kv_rank = a->kv_rank;
    const uint64_t q_input = a->gated ? 2 * q_rank : q_rank;
    const uint64_t kv_a = kv_rank + a->rope_dim, kv = (uint64_t)l->n_kv_heads * l->head_dim;
    const uint64_t value = sp_config_value_dim(c, l), values = l->n_kv_heads * value;
    const uint64_t q = heads * (kv_rank ? (uint64_t)a->nope_dim + a->rope_dim : l->head_dim);
    const uint64_t o = heads * (kv_rank ? a->value_dim : value);
    bool own = c->qk_norm == SP_QK_WHOLE || c->qk_norm == SP_QK_OWN; /* weights for every head */
    bool shared = c->qk_norm == SP_QK_SHARED;
    bool attention = (l->mixers & SP_MIXER_ATTENTION) && !c->compressed.q_rank;
    bool latent = attention && kv_rank;
    bool q_latent = latent && q_rank, a_bias = c->qkv_bias, bias = !latent && c->qkv_bias;
    bool k = attention && !latent && l->kv_source == (int)i; /* the layer has keys of its own */
    bool clip = attention && c->qk_norm == SP_QK_CLIP, dynamic = l->own_kv_inputs;
    bool norm = attention && c->qk_norm && !clip && !c->norm_weightless && !c->qk_norm_weightless;
    bool gate = attention && l->output_gate;
    bool index = attention && c->index.top_k && !l->shares_index && !l->unindexed;
    bool inner = attention && c->inner_norms && !c->norm_weightless;
    bool unit = attention && c->unit.init != 0;
    bool cca = l->mixers & SP_MIXER_CCA;
    const uint64_t n_mixed = heads + l->n_kv_heads, mixed = q + kv;
    bool sinks = attention && c->attention_sinks && (l->window || !c->window_sinks);
    bool pool = index && c->index.pool && !c->index.mean;
    bool queries = index && (c->index.block || c->index.mean); /* of the layer's input */
    bool sum = index && !queries; /* weighted, of the scores of heads */
    bool stored = latent && l->kv_source == (int)i, ssmax = latent && c->ssmax;
    bool normed = index && c->index.normed_input;
    const uint64_t n_index = c->index.n_heads, index_dim = c->index.head_dim;
    const uint64_t index_in = normed ? hidden : q_rank;
    const uint64_t extent = l->window ? l->window : c->rel_extent, taps = c->n_residual_taps;
    bool relative = attention && c->rel_dim, fixed = attention && taps && !dynamic;
    const uint64_t kv_taps = l->n_kv_heads * taps, gates = kv_rank ? o : q;
    const uint64_t v = cca ? values / 2 : values, n_key = n_index * index_dim;
    const uint64_t mix_taps = (uint64_t)l->head_dim * c->cca.mix_kernel;
    bool own_v = k && !l->v_from_k, r_clip = relative && c->rel_clip != 0;
    const struct row rows[] = {
        {"q_proj.weight", SP_ROLE_ATTENTION, with(attention && !q_rank, bias), {q, input}},
        {"k_proj.weight", SP_ROLE_KEY_VALUE, with(k, bias), {kv, input}},
        {"v_proj.weight", SP_ROLE_KEY_VALUE, with(own_v, bias), {v, input}},
        {"v_delayed.weight", SP_ROLE_KEY_VALUE, cca, {v, input}},
        {"q_a_proj.weight", SP_ROLE_ATTENTION, with(q_latent, a_bias), {q_rank, hidden}},
        {"q_a_layernorm.weight", SP_ROLE_NORM, q_latent, {q_rank}},
        {"q_b_proj.weight", SP_ROLE_ATTENTION, q_latent, {q, q_input}},
        {"gate_b_proj.weight", SP_ROLE_ATTENTION, latent && a->gated, {o, q_input}},
        {"kv_a_proj_with_mqa.weight", SP_ROLE_KEY_VALUE, with(stored, a_bias), {kv_a, hidden}},
        {"kv_a_layernorm.weight", SP_ROLE_NORM, stored, {kv_rank}},
        {"k_rope_norm.weight", SP_ROLE_NORM, stored && a->key_norm, {a->rope_dim}},
        {"k_b_proj.weight", SP_ROLE_ATTENTION, latent, {heads, kv_rank, a->nope_dim}},
        {"v_b_proj.weight", SP_ROLE_ATTENTION, latent, {heads, a->value_dim, kv_rank}},
        {"indexer.wq_b.weight", SP_ROLE_ATTENTION, sum, {n_key, index_in}},
        {"indexer.q_input_norm.weight", SP_ROLE_NORM, with(normed, true), {hidden}},
        {"indexer.ssmax_scaling.s", SP_ROLE_SMALL, index && ssmax, {n_index}},
        {"indexer.ssmax_scaling.b", SP_ROLE_SMALL, index && ssmax, {n_index}},
        {"ssmax_scaling.s", SP_ROLE_SMALL, ssmax, {heads}},
        {"ssmax_scaling.b", SP_ROLE_SMALL, ssmax, {heads}},
        {"indexer.q_proj.weight", SP_ROLE_ATTENTION, queries, {n_key, hidden}},
        {"indexer.wk.weight", SP_ROLE_KEY_VALUE, index, {index_dim, hidden}},
        {"indexer.k_norm.weight", SP_ROLE_NORM, with(index, sum), {index_dim}},
        {"indexer.q_norm.weight", SP_ROLE_NORM, queries, {index_dim}},
        {"indexer.weights_proj.weight", SP_ROLE_GATE, sum, {n_index, hidden}},
        {"indexer.pool_gate.weight", SP_ROLE_KEY_VALUE, pool, {index_dim, hidden}},
        {"indexer.pool_bias", SP_ROLE_SMALL, pool, {c->index.pool, index_dim}},
        {"o_proj.weight", SP_ROLE_ATTENTION, with(attention, c->o_bias), {hidden, o}},
        {"gate_proj.weight", SP_ROLE_ATTENTION, with(gate, c->gate_bias), {gates, hidden}},
        {"head_gate.weight", SP_ROLE_GATE, attention && l->head_gate, {heads, hidden}},
        {"gate_bias", SP_ROLE_BIAS, gate && c->gate_biases, {heads}},
        {"q_norm.weight", SP_ROLE_NORM, with(norm, shared), {l->head_dim * (own ? heads : 1)}},
        {"k_norm.weight", SP_ROLE_NORM, with(norm && k, shared), {own ? kv : l->head_dim}},
        {"sinks", SP_ROLE_SMALL, sinks, {heads}},
        {"inner_norm.weight", SP_ROLE_NORM, inner, {o}},
        {"q_scale", SP_ROLE_SMALL, unit, {q}},
        {"gate_scale", SP_ROLE_SMALL, unit, {q}},
        {"conv_qk_depthwise.weight", SP_ROLE_SMALL, cca, {mixed, 1, c->cca.kernel}},
        {"conv_qk_depthwise.bias", SP_ROLE_BIAS, cca, {mixed}},
        {"conv_qk_grouped.weight", SP_ROLE_ATTENTION, cca, {n_mixed, l->head_dim, mix_taps}},
        {"conv_qk_grouped.bias", SP_ROLE_BIAS, cca, {mixed}},
        {"key_scale", SP_ROLE_SMALL, cca, {l->n_kv_heads}},
        {"r_proj.weight", SP_ROLE_ATTENTION, relative, {heads * c->rel_dim, hidden}},
        {"rel_logits_proj.proj", SP_ROLE_SMALL, relative, {c->rel_dim, extent}},
        {"k_sconv.conv1d.weight", SP_ROLE_SMALL, fixed, {kv, 1, taps}},
        {"v_sconv.conv1d.weight", SP_ROLE_SMALL, fixed, {values, 1, taps}},
        {"k_sconv.static_weight", SP_ROLE_SMALL, dynamic, {taps, kv}},
        {"v_sconv.static_weight", SP_ROLE_SMALL, dynamic, {taps, values}},
        {"k_sconv.weight_proj.weight", SP_ROLE_GATE, dynamic, {kv_taps, hidden}},
        {"v_sconv.weight_proj.weight", SP_ROLE_GATE, dynamic, {kv_taps, hidden}},
        {"q_clip.scale", SP_ROLE_SMALL, clip, {heads, l->head_dim}},
        {"r_clip.scale", SP_ROLE_SMALL, r_clip, {heads, c->rel_dim}},
        {"sink_proj.weight", SP_ROLE_GATE, attention && c->row_sinks, {heads, hidden}},
    };

    return ADD("self_attn.", rows);
}

static enum sp_status add_compressed(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_layer_config *l = &c->layers[i];
    const uint64_t hidden = c->n_hidden, rank = c->compressed.q_rank, rate = l->rate;
    const uint64_t heads = (uint64_t)l->n_heads * l->head_dim, groups = c->compressed.n_groups;
    const uint64_t low = c->compressed.out_rank, parts = l->overlaps ? 2 : 1;
    const uint64_t dim = l->head_dim, width = parts * dim, key = c->index.head_dim;
    const uint64_t n_index = c->index.n_heads, pair = 2 * key;
    const uint64_t part = rank ? heads / groups : 0;
    bool all = rank != 0, entries = all && rate, index = entries && l->overlaps;
    const struct row rows[] = {
        {"q_a_proj.weight", SP_ROLE_ATTENTION, all, {rank, hidden}},
        {"q_a_layernorm.weight", SP_ROLE_NORM, all, {rank}},
        {"q_b_proj.weight", SP_ROLE_ATTENTION, all, {heads, rank}},
        {"kv_proj.weight", SP_ROLE_KEY_VALUE, all, {dim, hidden}},
        {"kv_norm.weight", SP_ROLE_NORM, all, {dim}},
        {"o_a_proj.weight", SP_ROLE_ATTENTION, all, {groups, low, part}},
        {"o_proj.weight", SP_ROLE_ATTENTION, all, {hidden, groups * low}},
        {"sinks", SP_ROLE_SMALL, all, {l->n_heads}},
        {"compressor.kv_proj.weight", SP_ROLE_KEY_VALUE, entries, {width, hidden}},
        {"compressor.gate_proj.weight", SP_ROLE_KEY_VALUE, entries, {width, hidden}},
        {"compressor.position_bias", SP_ROLE_SMALL, entries, {rate, width}},
        {"compressor.norm.weight", SP_ROLE_NORM, entries, {dim}},
        {"indexer.wq_b.weight", SP_ROLE_ATTENTION, index, {n_index * key, rank}},
        {"indexer.weights_proj.weight", SP_ROLE_GATE, index, {n_index, hidden}},
        {"indexer.compressor.kv_proj.weight", SP_ROLE_KEY_VALUE, index, {pair, hidden}},
        {"indexer.compressor.gate_proj.weight", SP_ROLE_KEY_VALUE, index, {pair, hidden}},
        {"indexer.compressor.position_bias", SP_ROLE_SMALL, index, {rate, pair}},
        {"indexer.compressor.norm.weight", SP_ROLE_NORM, index, {key}},
    };

    return ADD("self_attn.", rows);
}

/* The mixers with a recurrent state. */
static enum sp_status add_recurrent(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_delta_config *d = &c->delta;
    const struct sp_mamba_config *m = &c->mamba;
    const unsigned mixers = c->layers[i].mixers, taps = c->short_conv.kernel;
    const uint64_t hidden = c->n_hidden, heads = d->n_value_heads, values = heads * d->value_dim;
    const uint64_t channels = 2 * (uint64_t)d->n_key_heads * d->key_dim + values;
    const uint64_t decays = d->by_channel ? heads * d->key_dim : heads, low = d->low_rank;
    const enum sp_role decay_role = d->by_channel ? SP_ROLE_ATTENTION : SP_ROLE_GATE;
    const uint64_t outer = d->converted ? d->kernel : 1, inner = d->converted ? 1 : d->kernel;
    const uint64_t x = (uint64_t)m->n_heads * m->head_dim;
    const uint64_t rank = m->step_rank, state = m->state_dim;
    const uint64_t xbc = rank ? x : x + 2 * m->n_groups * state;
    bool delta = mixers & SP_MIXER_DELTA_NET, mamba = mixers & SP_MIXER_MAMBA;
    bool rule = delta && !d->lightning;
    bool conv = mixers & SP_MIXER_SHORT_CONV, conv_bias = c->short_conv.bias;
    bool bias = m->proj_bias, mamba1 = mamba && rank, mamba2 = mamba && !rank;
    bool steps = mamba1 && m->step_weights;
    const struct row rows[] = {
        {"linear_attn.in_proj_qkv.weight", SP_ROLE_ATTENTION, delta, {channels, hidden}},
        {"linear_attn.in_proj_z.weight", SP_ROLE_ATTENTION, delta, {low ? low : values, hidden}},
        {"linear_attn.in_proj_b.weight", SP_ROLE_GATE, rule, {heads, hidden}},
        {"linear_attn.in_proj_a.weight", decay_role, rule, {low ? low : decays, hidden}},
        {"linear_attn.up_proj_z.weight", SP_ROLE_ATTENTION, delta && low, {values, low}},
        {"linear_attn.up_proj_a.weight", SP_ROLE_ATTENTION, delta && low, {decays, low}},
        {"linear_attn.conv1d.weight", SP_ROLE_SMALL, rule, {channels, outer, inner}},
        {"linear_attn.A_log", SP_ROLE_SMALL, rule, {heads}},
        {"linear_attn.dt_bias", SP_ROLE_SMALL, rule, {decays}},
        {"linear_attn.norm.weight", SP_ROLE_NORM, delta, {d->lightning ? values : d->value_dim}},
        {"linear_attn.out_proj.weight", SP_ROLE_ATTENTION, delta, {hidden, values}},
        {"conv.in_proj.weight", SP_ROLE_ATTENTION, with(conv, conv_bias), {3 * hidden, hidden}},
        {"conv.conv.weight", SP_ROLE_SMALL, conv, {hidden, 1, taps}},
        {"conv.conv.bias", SP_ROLE_BIAS, conv && conv_bias, {hidden}},
        {"conv.out_proj.weight", SP_ROLE_ATTENTION, with(conv, conv_bias), {hidden, hidden}},
        {"mamba.in_proj_z.weight", SP_ROLE_ATTENTION, with(mamba, bias), {x, hidden}},
        {"mamba.in_proj_xbc.weight", SP_ROLE_ATTENTION, with(mamba, bias), {xbc, hidden}},
        {"mamba.in_proj_dt.weight", SP_ROLE_GATE, with(mamba2, bias), {m->n_heads, hidden}},
        {"mamba.x_proj.weight", SP_ROLE_GATE, mamba1, {rank + 2 * state, x}},
        {"mamba.dt_proj.weight", SP_ROLE_GATE, mamba1, {x, rank}},
        {"mamba.dt_layernorm.weight", SP_ROLE_NORM, steps, {rank}},
        {"mamba.b_layernorm.weight", SP_ROLE_NORM, steps, {state}},
        {"mamba.c_layernorm.weight", SP_ROLE_NORM, steps, {state}},
        {"mamba.conv1d.weight", SP_ROLE_SMALL, mamba, {xbc, 1, m->kernel}},
        {"mamba.conv1d.bias", SP_ROLE_BIAS, mamba && m->conv_bias, {xbc}},
        {"mamba.A_log", SP_ROLE_SMALL, mamba, {rank ? x : m->n_heads, rank ? state : 0}},
        {"mamba.D", SP_ROLE_SMALL, mamba, {rank ? x : m->n_heads}},
        {"mamba.dt_bias", SP_ROLE_SMALL, mamba, {rank ? x : m->n_heads}},
        {"mamba.norm.weight", SP_ROLE_NORM, mamba2 && m->norm != SP_MAMBA_GATED, {x}},
        {"mamba.out_proj.weight", SP_ROLE_ATTENTION, with(mamba, bias), {hidden, x}},
    };

    return ADD("", rows);
}

static enum sp_status add_mlp(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_layer_config *l = &c->layers[i];
    const uint64_t hidden = c->n_hidden, ffn = l->n_ffn, n = l->n_experts, wide = l->n_shared_ffn;
    const uint64_t choices = n + c->routing.n_zero, width = c->n_latent ? c->n_latent : hidden;
    bool experts = n != 0, dense = ffn && !experts, gate = !c->plain_mlp, bias = c->mlp_bias;
    bool inner = dense && c->inner_norms && !c->norm_weightless;
    bool unit = dense && c->unit.init != 0;
    bool corrected = experts && c->routing.corrected && !l->hashes;
    bool scaled = ffn && c->n_residual_taps && !c->residual_normed;
    bool xielu = ffn && c->activation == SP_XIELU, normed = experts && c->expert_norms;
    const uint64_t r = c->routing.n_hidden;
    bool router_mlp = experts && r, hashes = experts && l->hashes, biased = c->routing.biased;
    const struct row rows[] = {
        {"gate_proj.weight", SP_ROLE_MLP, with(dense && gate, bias), {ffn, hidden}},
        {"up_proj.weight", SP_ROLE_MLP, with(dense, bias), {ffn, hidden}},
        {"down_proj.weight", SP_ROLE_MLP, with(dense, bias), {hidden, ffn}},
        {"inner_norm.weight", SP_ROLE_NORM, inner, {ffn}},
        {"gate_scale", SP_ROLE_SMALL, unit, {ffn}},
        {"up_scale", SP_ROLE_SMALL, unit, {ffn}},
        {"act_fn.alpha_p", SP_ROLE_SMALL, xielu, {1}},
        {"act_fn.alpha_n", SP_ROLE_SMALL, xielu, {1}},
        {"act_fn.beta", SP_ROLE_SMALL, xielu, {1}},
        {"act_fn.eps", SP_ROLE_SMALL, xielu, {1}},
        {"router.weight", SP_ROLE_ROUTER, with(experts, biased), {choices, r ? r : hidden}},
        {"router.correction", SP_ROLE_SMALL, corrected, {choices - c->routing.n_always}},
        {"router.global_scale", SP_ROLE_SMALL, experts && scaled, {1}},
        {"global_scale", SP_ROLE_SMALL, dense && scaled, {1}},
        {"router.token_experts", SP_ROLE_INDEX, hashes, {c->n_vocab, l->n_experts_used}},
        {"router.scale", SP_ROLE_SMALL, normed, {hidden}},
        {"router.expert_scale", SP_ROLE_SMALL, normed, {n}},
        {"router.down_proj.weight", SP_ROLE_ROUTER, with(router_mlp, true), {r, hidden}},
        {"router.state_scale", SP_ROLE_SMALL, router_mlp && i, {r}},
        {"router.norm.weight", SP_ROLE_NORM, router_mlp, {r}},
        {"router.fc1.weight", SP_ROLE_ROUTER, with(router_mlp, true), {r, r}},
        {"router.fc2.weight", SP_ROLE_ROUTER, with(router_mlp, true), {r, r}},
        {"latent_in.weight", SP_ROLE_MLP, experts && c->n_latent, {width, hidden}},
        {"latent_out.weight", SP_ROLE_MLP, experts && c->n_latent, {hidden, width}},
        {"experts.gate_proj.weight", SP_ROLE_MLP, with(experts && gate, bias), {n, ffn, width}},
        {"experts.up_proj.weight", SP_ROLE_MLP, with(experts, bias), {n, ffn, width}},
        {"experts.down_proj.weight", SP_ROLE_MLP, with(experts, bias), {n, width, ffn}},
        {"shared_expert.gate_proj.weight", SP_ROLE_MLP, wide && gate, {wide, hidden}},
        {"shared_expert.up_proj.weight", SP_ROLE_MLP, wide != 0, {wide, hidden}},
        {"shared_expert.down_proj.weight", SP_ROLE_MLP, wide != 0, {hidden, wide}},
        {"shared_expert_gate.weight", SP_ROLE_GATE, wide && c->shared_gate, {1, hidden}},
    };

    return ADD("mlp.", rows);
}

/* Per-layer embeddings, streams, tables of n-grams, and convolutions around sublayers. */
static enum sp_status add_extras(struct list *list, const struct sp_config *c, unsigned i)
{
    const uint64_t hidden = c->n_hidden, width = c->n_per_layer, taps = c->n_conv_taps;
    const uint64_t dynamic = taps ? 2 * taps * (hidden / c->conv_group) : 0;
    const uint64_t n = c->n_streams, n_taps = c->n_residual_taps;
    const uint64_t k = c->hyper.n_streams, mix = c->hyper.n_balance ? k * k : 0;
    const uint64_t rank = c->hyper.rank, all = k * hidden, dim = c->ngrams.dim;
    bool per_layer = width != 0, conv = taps != 0, altup = n != 0, hyper = k && !rank;
    bool gated = rank != 0, ngrams = c->layers[i].ngrams != 0;
    bool convolved = n_taps && c->layers[i].mixers & SP_MIXER_ATTENTION && !c->compressed.q_rank;
    const uint64_t grams = c->ngrams.n_parts * dim;
    const uint64_t table = ngrams ? sp_ngram_rows(NULL, &c->ngrams, c->layers[i].ngrams) : 0;
    const struct row rows[] = {
        {"per_layer_input_gate.weight", SP_ROLE_MLP, per_layer, {width, hidden}},
        {"per_layer_projection.weight", SP_ROLE_MLP, per_layer, {hidden, width}},
        {"post_per_layer_input_norm.weight", SP_ROLE_NORM, per_layer, {hidden}},
        {"altup.correct_output_scale", SP_ROLE_SMALL, altup, {hidden}},
        {"altup.correction_coefs.weight", SP_ROLE_SMALL, altup, {n, n}},
        {"altup.prediction_coefs.weight", SP_ROLE_SMALL, altup, {n * n, n}},
        {"altup.modality_router.weight", SP_ROLE_GATE, altup, {n, hidden}},
        {"altup.router_norm.weight", SP_ROLE_NORM, altup, {hidden}},
        {"laurel.linear_left.weight", SP_ROLE_ATTENTION, altup, {c->laurel_rank, hidden}},
        {"laurel.linear_right.weight", SP_ROLE_ATTENTION, altup, {hidden, c->laurel_rank}},
        {"laurel.post_laurel_norm.weight", SP_ROLE_NORM, altup, {hidden}},
        {"attention_streams.hc_fn", SP_ROLE_GATE, hyper, {2 * k + mix, k * hidden}},
        {"attention_streams.hc_base", SP_ROLE_SMALL, hyper, {2 * k + mix}},
        {"attention_streams.hc_scale", SP_ROLE_SMALL, hyper, {mix ? 3 : 2}},
        {"mlp_streams.hc_fn", SP_ROLE_GATE, hyper, {2 * k + mix, k * hidden}},
        {"mlp_streams.hc_base", SP_ROLE_SMALL, hyper, {2 * k + mix}},
        {"mlp_streams.hc_scale", SP_ROLE_SMALL, hyper, {mix ? 3 : 2}},
        {"attention_streams.hc_norm.weight", SP_ROLE_NORM, gated, {all}},
        {"attention_streams.input_mix_weight_down.weight", SP_ROLE_ATTENTION, gated, {rank, all}},
        {"attention_streams.input_mix_weight_up.weight", SP_ROLE_ATTENTION, gated, {all, rank}},
        {"attention_streams.block_inject_weight.weight", SP_ROLE_GATE, gated, {k, all}},
        {"mlp_streams.hc_norm.weight", SP_ROLE_NORM, gated, {all}},
        {"mlp_streams.input_mix_weight_down.weight", SP_ROLE_MLP, gated, {rank, all}},
        {"mlp_streams.input_mix_weight_up.weight", SP_ROLE_MLP, gated, {all, rank}},
        {"mlp_streams.block_inject_weight.weight", SP_ROLE_GATE, gated, {k, all}},
        {"ple.table.weight", SP_ROLE_EMBEDDING, ngrams, {table, dim}},
        {"ple.key_proj.weight", SP_ROLE_MLP, ngrams, {all, grams}},
        {"ple.value_proj.weight", SP_ROLE_MLP, ngrams, {hidden, grams}},
        {"ple.norm_key.weight", SP_ROLE_NORM, ngrams, {all}},
        {"ple.norm_query.weight", SP_ROLE_NORM, ngrams, {all}},
        {"ple.norm_conv.weight", SP_ROLE_NORM, ngrams, {all}},
        {"ple.conv1d.weight", SP_ROLE_SMALL, ngrams, {all, 1, c->ngrams.kernel}},
        {"attn_sconv.conv1d.weight", SP_ROLE_SMALL, convolved, {hidden, 1, n_taps}},
        {"mlp_sconv.conv1d.weight", SP_ROLE_SMALL, convolved, {hidden, 1, n_taps}},
        {"attention_conv.base_kernel", SP_ROLE_SMALL, conv, {2, taps, hidden}},
        {"attention_conv.kernel_projection.weight", SP_ROLE_GATE, conv, {dynamic, hidden}},
        {"mlp_conv.base_kernel", SP_ROLE_SMALL, conv, {2, taps, hidden}},
        {"mlp_conv.kernel_projection.weight", SP_ROLE_GATE, conv, {dynamic, hidden}},
    };

    return ADD("", rows);
}

/* The gates of messages (runtime/model/block_attention.c). */
static enum sp_status add_messages(struct list *list, const struct sp_config *c, unsigned i)
{
    const uint64_t rank = c->message_rank, hidden = c->n_hidden, both = 2 * hidden;
    bool looped = rank && i - c->first_looped < c->n_looped;
    const struct row rows[] = {
        {"down_weight", SP_ROLE_GATE, looped, {rank, both}},
        {"forget_weight", SP_ROLE_GATE, looped, {hidden, rank}},
        {"gain_weight", SP_ROLE_GATE, looped, {hidden, rank}},
    };
    static const char *const of[] = {"controllers.attn.", "controllers.k.", "controllers.v.",
                                     "controllers.mlp."};
    enum sp_status st = SP_OK;

    for (size_t n = 0; n < sizeof of / sizeof *of && !st; n++)
        st = ADD(of[n], rows);
    return st;
}

/* What a layer does not share of its block (sp_layer_has_block). */
static enum sp_status add_block(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_layer_config *l = &c->layers[i];
    const uint64_t hidden = c->n_hidden, r = c->block_rank, ffn = l->n_ffn;
    const uint64_t q = (uint64_t)l->n_heads * l->head_dim,
                   kv = (uint64_t)l->n_kv_heads * l->head_dim;
    bool block = sp_layer_has_block(l), mlp = block && r, qkv = mlp && c->block_adapts_qkv;
    const struct row rows[] = {
        {"block.out_proj.weight", SP_ROLE_MLP, block, {hidden, hidden}},
        {"block.mlp.A", SP_ROLE_SMALL, mlp, {r, hidden}},
        {"block.gate.B", SP_ROLE_SMALL, mlp, {ffn, r}},
        {"block.up.B", SP_ROLE_SMALL, mlp, {ffn, r}},
        {"block.q.A", SP_ROLE_SMALL, qkv, {r, 2 * hidden}},
        {"block.q.B", SP_ROLE_SMALL, qkv, {q, r}},
        {"block.k.A", SP_ROLE_SMALL, qkv, {r, 2 * hidden}},
        {"block.k.B", SP_ROLE_SMALL, qkv, {kv, r}},
        {"block.v.A", SP_ROLE_SMALL, qkv, {r, 2 * hidden}},
        {"block.v.B", SP_ROLE_SMALL, qkv, {kv, r}},
    };

    return ADD("", rows);
}

/* ---- outside of the layers ---- */

static enum sp_status add_tables(struct list *list, const struct sp_config *c)
{
    const struct sp_draft_config *d = &c->draft;
    const uint64_t hidden = c->n_hidden, width = c->n_per_layer, all = c->n_layers * width;
    const uint64_t own_rows = c->padded_head ? c->n_inputs : c->n_vocab;
    const uint64_t head_rows = d->n_head_rows ? d->n_head_rows : own_rows;
    const uint64_t entries = c->n_per_layer_vocab;
    bool embedding = !d->borrows_tables, per_layer = width != 0;
    bool norm = !c->norm_weightless && c->norms != SP_NORM_RESIDUAL && !d->unnormed;
    bool head = d->owns_head || (embedding && !c->tied);
    const uint64_t rank = c->hyper.rank, k = c->hyper.mean || rank ? 0 : c->hyper.n_streams;
    const uint64_t streams = c->hyper.n_streams * hidden;
    const uint64_t looped = c->message_rank ? 2 * (uint64_t)c->n_looped : 0;
    const uint64_t positions = c->sinusoidal ? 0 : c->n_positions_table, types = c->n_token_types;
    bool affine = c->affine_residuals;
    const struct row rows[] = {
        {"embed_tokens.weight", SP_ROLE_EMBEDDING, embedding, {c->n_inputs, hidden}},
        {"embed_positions.weight", SP_ROLE_SMALL, positions != 0, {positions, hidden}},
        {"embed_token_types.weight", SP_ROLE_SMALL, types != 0, {types, hidden}},
        {"embed_norm.weight", SP_ROLE_NORM, with(c->normed_input, c->norm_bias), {hidden}},
        {"input_hidden_states_scale", SP_ROLE_SMALL, affine, {hidden}},
        {"input_hidden_states_bias", SP_ROLE_SMALL, affine, {hidden}},
        {"middle_cycle_cross_pass_queries", SP_ROLE_SMALL, looped != 0, {looped, hidden}},
        {"middle_cycle_cross_pass_kv_queries", SP_ROLE_SMALL, looped != 0, {looped, hidden}},
        {"final_input.query", SP_ROLE_SMALL, c->block_attention, {hidden}},
        {"loop_start", SP_ROLE_SMALL, c->starts, {hidden}},
        {"rope_alpha", SP_ROLE_SMALL, c->learned_rope, {c->ropes[0].n_rot / 2}},
        {"norm.weight", SP_ROLE_NORM, with(norm, c->norm_bias), {hidden}},
        {"embed_tokens_per_layer.weight", SP_ROLE_EMBEDDING, per_layer, {entries, all}},
        {"per_layer_model_projection.weight", SP_ROLE_MLP, per_layer, {all, hidden}},
        {"per_layer_projection_norm.weight", SP_ROLE_NORM, per_layer, {width}},
        {"lm_head.weight", SP_ROLE_HEAD, head, {head_rows, hidden}},
        {"lm_head.bias", SP_ROLE_BIAS, c->head_bias, {head_rows}},
        {"lm_head.scale", SP_ROLE_SMALL, c->unit.init != 0, {head_rows}},
        {"lm_head.dense.weight", SP_ROLE_MLP, c->head_dense, {hidden, hidden}},
        {"lm_head.norm.weight", SP_ROLE_NORM, with(c->head_dense, c->norm_bias), {hidden}},
        {"streams.hc_head_fn", SP_ROLE_GATE, k != 0, {k, k * hidden}},
        {"streams.hc_head_base", SP_ROLE_SMALL, k != 0, {k}},
        {"streams.hc_head_scale", SP_ROLE_SMALL, k != 0, {1}},
        {"streams.hc_norm.weight", SP_ROLE_NORM, rank != 0, {streams}},
        {"streams.input_mix_weight_down.weight", SP_ROLE_MLP, rank != 0, {rank, streams}},
        {"streams.input_mix_weight_up.weight", SP_ROLE_MLP, rank != 0, {streams, rank}},
        {"d2t", SP_ROLE_INDEX, d->maps_tokens, {head_rows}},
    };

    return ADD("", rows);
}

static enum sp_status add_draft(struct list *list, const struct sp_config *c)
{
    const struct sp_draft_config *d = &c->draft;
    const struct sp_dspark_config *s = &d->dspark;
    const uint64_t hidden = c->n_hidden, target = d->target_hidden, rank = s->rank;
    const uint64_t vocab = c->n_vocab, head_rows = d->n_head_rows ? d->n_head_rows : vocab;
    const uint64_t selector = d->selector_rank, clusters = d->n_clusters;
    const uint64_t seen = hidden + (s->confidence_markov ? rank : 0);
    bool mtp = d->kind == SP_DRAFT_MTP, assistant = d->kind == SP_DRAFT_ASSISTANT;
    bool dflash2 = d->kind == SP_DRAFT_DFLASH2, peagle = d->kind == SP_DRAFT_PEAGLE;
    bool dflash = dflash2 || d->kind == SP_DRAFT_DFLASH || d->kind == SP_DRAFT_DSPARK;
    bool fc = dflash || mtp || sp_draft_is_eagle(d->kind);
    bool gated = rank && s->markov == SP_MARKOV_GATED, rnn = rank && s->markov == SP_MARKOV_RNN;
    const uint64_t features = mtp ? 2 * hidden : (assistant ? 2 : d->n_taps) * target;
    const uint64_t joint = 2 * rank + hidden;
    const struct row rows[] = {
        {"fc.weight", SP_ROLE_FEATURE, fc, {hidden, features}},
        {"hidden_norm.weight", SP_ROLE_NORM, dflash, {hidden}},
        {"input_norm.weight", SP_ROLE_NORM, d->features_normed, {features}},
        {SP_TAP_NORMS, SP_ROLE_NORM, d->taps_normed, {features}},
        {"mask_hidden", SP_ROLE_SMALL, peagle, {1, 1, features}},
        {"pre_fc_norm_embedding.weight", SP_ROLE_NORM, mtp, {hidden}},
        {"pre_fc_norm_hidden.weight", SP_ROLE_NORM, mtp, {hidden}},
        {"pre_projection.weight", SP_ROLE_FEATURE, assistant, {hidden, features}},
        {"post_projection.weight", SP_ROLE_FEATURE, assistant, {target, hidden}},
        {"masked_embedding.centroids.weight", SP_ROLE_ROUTER, clusters != 0, {clusters, hidden}},
        {"masked_embedding.token_ordering", SP_ROLE_INDEX, clusters != 0, {vocab}},
        {"candidate_selector.hidden_projection.weight", SP_ROLE_GATE, dflash2, {selector, hidden}},
        {"candidate_selector.predecessor_codebook", SP_ROLE_CODEBOOK, dflash2, {vocab, selector}},
        {"candidate_selector.successor_codebook", SP_ROLE_CODEBOOK, dflash2, {vocab, selector}},
        {"markov_head.markov_w1.weight", SP_ROLE_CODEBOOK, rank != 0, {vocab, rank}},
        {"markov_head.markov_w2.weight", SP_ROLE_HEAD, rank != 0, {head_rows, rank}},
        {"markov_head.gate_proj.weight", SP_ROLE_GATE, with(gated, true), {rank, hidden + rank}},
        {"markov_head.joint_proj.weight", SP_ROLE_GATE, with(rnn, true), {3 * rank, joint}},
        {"confidence_head.proj.weight", SP_ROLE_GATE, with(s->confidence, true), {1, seen}},
    };

    return ADD("", rows);
}

/* The matrices that make stream i of AltUp, and those that it ends in. */
static enum sp_status add_stream(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct row rows[] = {
        {"altup_projections.%u.weight", SP_ROLE_MLP, true, {c->n_hidden, c->n_hidden}},
        {"altup_unembed_projections.%u.weight", SP_ROLE_MLP, true, {c->n_hidden, c->n_hidden}},
    };

    list->number = i;
    return ADD("", rows);
}

/* A dense layer of the pooling. Every embedding passes through it, as all inputs of a draft pass
 * through its feature projection. */
static enum sp_status add_dense(struct list *list, const struct sp_config *c, unsigned i)
{
    const struct sp_dense_config *d = &c->pooling.dense[i];
    const struct row rows[] = {
        {SP_DENSE_PREFIX "%u.weight", SP_ROLE_FEATURE, with(true, d->bias), {d->n_out, d->n_in}},
        {SP_DENSE_PREFIX "%u.norm.weight", SP_ROLE_NORM, d->norm, {d->n_out}},
    };

    list->number = i;
    return ADD("", rows);
}

enum sp_status sp_specs_of_config(struct sp_specs *out, const struct sp_config *config,
                                  struct sp_err *err)
{
    static add_fn *const of_layer[] = {add_norms, add_attention, add_compressed, add_recurrent,
                                       add_mlp,   add_extras,    add_block,      add_messages};
    const unsigned n = sizeof of_layer / sizeof *of_layer, streams = config->n_streams;
    struct sp_specs specs = {0};
    struct list list = {.specs = &specs, .config = config, .layer = -1, .err = err};
    enum sp_status st;

    if ((st = add_tables(&list, config)) || (st = add_draft(&list, config))) goto done;
    for (unsigned i = 0; i < config->pooling.n_dense; i++)
        if ((st = add_dense(&list, config, i))) goto done;
    for (unsigned i = 0; i + 1 < streams; i++)
        if ((st = add_stream(&list, config, i))) goto done;
    for (unsigned i = 0; i < config->n_layers * n; i++) {
        list.layer = (int)(i / n);
        if ((st = of_layer[i % n](&list, config, i / n))) goto done;
    }
    sp_specs_sort(&specs);
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    return st;
}
