#include "format/family/family_tensors.h"

#include "format/family/family_parts.h"

static bool is_attention(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return (l->mixers & SP_MIXER_ATTENTION) != 0;
}

static bool is_delta(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return (l->mixers & SP_MIXER_DELTA_NET) != 0;
}

static bool is_short_conv(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return (l->mixers & SP_MIXER_SHORT_CONV) != 0;
}

static bool has_short_conv_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_short_conv(c, l) && c->short_conv.bias;
}

static bool is_mamba(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return (l->mixers & SP_MIXER_MAMBA) != 0;
}

static bool has_mamba_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_mamba(c, l) && c->mamba.proj_bias;
}

static bool has_mamba_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_mamba(c, l) && c->mamba.norm != SP_MAMBA_GATED;
}

static bool has_mamba_conv_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_mamba(c, l) && c->mamba.conv_bias;
}

static bool is_latent(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->latent.kv_rank != 0;
}

static bool has_latent_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_latent(c, l) && c->qkv_bias;
}

/* True if the queries are projected from a latent. */
static bool has_q_latent(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_latent(c, l) && c->latent.q_rank != 0;
}

static bool has_q_latent_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_q_latent(c, l) && c->qkv_bias;
}

static bool has_q(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->latent.q_rank == 0;
}

/* True if the layer has keys of its own instead of those of an earlier layer. */
static bool has_k(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && !is_latent(c, l) && l->kv_source == (int)(l - c->layers);
}

static bool has_v(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_k(c, l) && !l->v_from_k;
}

static bool has_k_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_k(c, l) && c->qk_norm && !c->norm_weightless;
}

static bool has_expert_norms(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->n_experts != 0 && c->expert_norms;
}

static bool has_scalar(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->layer_scalars;
}

static bool has_per_layer(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->n_per_layer != 0;
}

static bool has_output_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && l->output_gate;
}

static bool has_head_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && l->head_gate;
}

static bool has_qkv_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && !is_latent(c, l) && c->qkv_bias;
}

static bool has_output_gate_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_output_gate(c, l) && c->gate_bias;
}

static bool has_o_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->o_bias;
}

static bool has_qk_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->qk_norm && !c->norm_weightless;
}

static bool has_sinks(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->attention_sinks;
}

static bool has_input_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    if (c->normed_input && l == c->layers) return false;
    if (c->norms == SP_NORM_POST || c->norms == SP_NORM_RESIDUAL) return false;
    return l->mixers != 0 && !c->norm_weightless;
}

static bool has_post_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->norms == SP_NORM_SANDWICH || c->norms == SP_NORM_POST || c->norms == SP_NORM_RESIDUAL;
}

static bool has_post_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_post_norm(c, l) && c->norm_bias;
}

static bool has_four_norms(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->norms == SP_NORM_SANDWICH;
}

static bool has_ffn(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return l->n_ffn != 0;
}

static bool has_second_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_ffn(c, l) && c->norms != SP_NORM_PARALLEL && !c->norm_weightless;
}

static bool is_dense(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_ffn(c, l) && l->n_experts == 0;
}

static bool has_shared(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return l->n_shared_ffn != 0;
}

static bool has_expert_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->n_experts != 0 && !c->plain_mlp;
}

static bool has_gated_shared(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_shared(c, l) && !c->plain_mlp;
}

static bool has_shared_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_shared(c, l) && c->shared_gate;
}

static bool has_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_dense(c, l) && !c->plain_mlp;
}

static bool has_dense_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_dense(c, l) && c->mlp_bias;
}

static bool has_gate_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_gate(c, l) && c->mlp_bias;
}

static bool has_input_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_input_norm(c, l) && c->norm_bias;
}

static bool has_second_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_second_norm(c, l) && c->norm_bias;
}

static bool has_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return !c->norm_weightless && c->norms != SP_NORM_RESIDUAL;
}

static bool has_embedding_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->normed_input;
}

static bool has_embedding_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->normed_input && c->norm_bias;
}

static bool has_positions(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->n_positions_table != 0;
}

static bool has_token_types(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->n_token_types != 0;
}

static bool has_head_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->head_bias;
}

static bool has_xielu(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_ffn(c, l) && c->activation == SP_XIELU;
}

static bool has_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_norm(c, l) && c->norm_bias;
}

static bool has_experts(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return l->n_experts != 0;
}

static bool has_router_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->n_experts != 0 && c->routing.biased;
}

static bool has_correction(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->n_experts != 0 && c->routing.corrected;
}

static bool has_expert_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->n_experts != 0 && c->mlp_bias;
}

static bool has_embedding(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return !c->draft.borrows_tables;
}

static bool is_eagle(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return sp_draft_is_eagle(c->draft.kind);
}

static bool is_peagle(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.kind == SP_DRAFT_PEAGLE;
}

static bool reads_pair(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return l->reads_pair;
}

static bool has_head(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.owns_head || (!c->draft.borrows_tables && !c->tied);
}

static bool has_token_map(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.maps_tokens;
}

static bool has_feature_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.features_normed;
}

static bool has_tap_norms(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.taps_normed;
}

static bool is_dflash(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.kind == SP_DRAFT_DFLASH || c->draft.kind == SP_DRAFT_DFLASH2 ||
           c->draft.kind == SP_DRAFT_DSPARK;
}

static bool has_conv(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->n_conv_taps != 0;
}

static bool is_dflash2(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.kind == SP_DRAFT_DFLASH2;
}

static bool has_markov(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.dspark.rank != 0;
}

static bool has_markov_gate(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_markov(c, l) && c->draft.dspark.markov == SP_MARKOV_GATED;
}

static bool has_markov_rnn(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_markov(c, l) && c->draft.dspark.markov == SP_MARKOV_RNN;
}

static bool has_confidence(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.dspark.confidence;
}

static bool is_assistant(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.kind == SP_DRAFT_ASSISTANT;
}

static bool has_clusters(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.n_clusters != 0;
}

static bool is_mtp(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->draft.kind == SP_DRAFT_MTP;
}

static bool has_fc(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_dflash(c, l) || is_mtp(c, l) || is_eagle(c, l);
}

const struct sp_tensor_row sp_layer_tensors[] = {
    {"input_layernorm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_input_norm},
    {"hidden_norm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, reads_pair},
    {"self_attn.q_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_Q, SP_DIM_INPUT}, has_q},
    {"self_attn.k_proj.weight", SP_ROLE_KEY_VALUE, {SP_DIM_KV, SP_DIM_INPUT}, has_k},
    {"self_attn.v_proj.weight", SP_ROLE_KEY_VALUE, {SP_DIM_KV, SP_DIM_INPUT}, has_v},
    {"self_attn.q_a_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_Q_RANK, SP_DIM_HIDDEN}, has_q_latent},
    {"self_attn.q_a_proj.bias", SP_ROLE_BIAS, {SP_DIM_Q_RANK}, has_q_latent_bias},
    {"self_attn.q_a_layernorm.weight", SP_ROLE_NORM, {SP_DIM_Q_RANK}, has_q_latent},
    {"self_attn.q_b_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_Q, SP_DIM_Q_RANK}, has_q_latent},
    {"self_attn.kv_a_proj_with_mqa.weight",
     SP_ROLE_KEY_VALUE,
     {SP_DIM_KV_A, SP_DIM_HIDDEN},
     is_latent},
    {"self_attn.kv_a_proj_with_mqa.bias", SP_ROLE_BIAS, {SP_DIM_KV_A}, has_latent_bias},
    {"self_attn.kv_a_layernorm.weight", SP_ROLE_NORM, {SP_DIM_KV_RANK}, is_latent},
    {"self_attn.k_b_proj.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_HEADS, SP_DIM_KV_RANK, SP_DIM_NOPE},
     is_latent},
    {"self_attn.v_b_proj.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_HEADS, SP_DIM_VALUE, SP_DIM_KV_RANK},
     is_latent},
    {"self_attn.o_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_HIDDEN, SP_DIM_O}, is_attention},
    {"self_attn.gate_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_Q, SP_DIM_HIDDEN}, has_output_gate},
    {"self_attn.head_gate.weight", SP_ROLE_GATE, {SP_DIM_HEADS, SP_DIM_HIDDEN}, has_head_gate},
    {"self_attn.q_proj.bias", SP_ROLE_BIAS, {SP_DIM_Q}, has_qkv_bias},
    {"self_attn.gate_proj.bias", SP_ROLE_BIAS, {SP_DIM_Q}, has_output_gate_bias},
    {"self_attn.k_proj.bias", SP_ROLE_BIAS, {SP_DIM_KV}, has_qkv_bias},
    {"self_attn.v_proj.bias", SP_ROLE_BIAS, {SP_DIM_KV}, has_qkv_bias},
    {"self_attn.o_proj.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_o_bias},
    {"self_attn.q_norm.weight", SP_ROLE_NORM, {SP_DIM_Q_NORM}, has_qk_norm},
    {"self_attn.k_norm.weight", SP_ROLE_NORM, {SP_DIM_K_NORM}, has_k_norm},
    {"self_attn.sinks", SP_ROLE_SMALL, {SP_DIM_HEADS}, has_sinks},
    {"linear_attn.in_proj_qkv.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_CHANNELS, SP_DIM_HIDDEN},
     is_delta},
    {"linear_attn.in_proj_z.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_DELTA_VALUES, SP_DIM_HIDDEN},
     is_delta},
    {"linear_attn.in_proj_b.weight", SP_ROLE_GATE, {SP_DIM_DELTA_HEADS, SP_DIM_HIDDEN}, is_delta},
    {"linear_attn.in_proj_a.weight", SP_ROLE_GATE, {SP_DIM_DELTA_HEADS, SP_DIM_HIDDEN}, is_delta},
    {"linear_attn.conv1d.weight",
     SP_ROLE_SMALL,
     {SP_DIM_CHANNELS, SP_DIM_CONV_OUTER, SP_DIM_CONV_INNER},
     is_delta},
    {"linear_attn.A_log", SP_ROLE_SMALL, {SP_DIM_DELTA_HEADS}, is_delta},
    {"linear_attn.dt_bias", SP_ROLE_SMALL, {SP_DIM_DELTA_HEADS}, is_delta},
    {"linear_attn.norm.weight", SP_ROLE_NORM, {SP_DIM_DELTA_VALUE}, is_delta},
    {"linear_attn.out_proj.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_HIDDEN, SP_DIM_DELTA_VALUES},
     is_delta},
    {"conv.in_proj.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_SHORT_CONV_IN, SP_DIM_HIDDEN},
     is_short_conv},
    {"conv.conv.weight",
     SP_ROLE_SMALL,
     {SP_DIM_HIDDEN, SP_DIM_ONE, SP_DIM_SHORT_CONV_TAPS},
     is_short_conv},
    {"conv.out_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_HIDDEN, SP_DIM_HIDDEN}, is_short_conv},
    {"conv.in_proj.bias", SP_ROLE_BIAS, {SP_DIM_SHORT_CONV_IN}, has_short_conv_bias},
    {"conv.conv.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_short_conv_bias},
    {"conv.out_proj.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_short_conv_bias},
    {"mamba.in_proj_z.weight", SP_ROLE_ATTENTION, {SP_DIM_MAMBA_VALUES, SP_DIM_HIDDEN}, is_mamba},
    {"mamba.in_proj_xbc.weight",
     SP_ROLE_ATTENTION,
     {SP_DIM_MAMBA_CHANNELS, SP_DIM_HIDDEN},
     is_mamba},
    {"mamba.in_proj_dt.weight", SP_ROLE_GATE, {SP_DIM_MAMBA_HEADS, SP_DIM_HIDDEN}, is_mamba},
    {"mamba.conv1d.weight",
     SP_ROLE_SMALL,
     {SP_DIM_MAMBA_CHANNELS, SP_DIM_ONE, SP_DIM_MAMBA_TAPS},
     is_mamba},
    {"mamba.A_log", SP_ROLE_SMALL, {SP_DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.D", SP_ROLE_SMALL, {SP_DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.dt_bias", SP_ROLE_SMALL, {SP_DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.norm.weight", SP_ROLE_NORM, {SP_DIM_MAMBA_VALUES}, has_mamba_norm},
    {"mamba.out_proj.weight", SP_ROLE_ATTENTION, {SP_DIM_HIDDEN, SP_DIM_MAMBA_VALUES}, is_mamba},
    {"mamba.in_proj_z.bias", SP_ROLE_BIAS, {SP_DIM_MAMBA_VALUES}, has_mamba_bias},
    {"mamba.in_proj_xbc.bias", SP_ROLE_BIAS, {SP_DIM_MAMBA_CHANNELS}, has_mamba_bias},
    {"mamba.in_proj_dt.bias", SP_ROLE_BIAS, {SP_DIM_MAMBA_HEADS}, has_mamba_bias},
    {"mamba.conv1d.bias", SP_ROLE_BIAS, {SP_DIM_MAMBA_CHANNELS}, has_mamba_conv_bias},
    {"mamba.out_proj.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_mamba_bias},
    {"input_layernorm.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_input_norm_bias},
    {"post_attention_layernorm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_second_norm},
    {"post_attention_layernorm.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_second_norm_bias},
    {"pre_feedforward_layernorm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_four_norms},
    {"post_feedforward_layernorm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_post_norm},
    {"post_feedforward_layernorm.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_post_norm_bias},
    {"mlp.gate_proj.weight", SP_ROLE_MLP, {SP_DIM_FFN, SP_DIM_HIDDEN}, has_gate},
    {"mlp.up_proj.weight", SP_ROLE_MLP, {SP_DIM_FFN, SP_DIM_HIDDEN}, is_dense},
    {"mlp.down_proj.weight", SP_ROLE_MLP, {SP_DIM_HIDDEN, SP_DIM_FFN}, is_dense},
    {"mlp.gate_proj.bias", SP_ROLE_BIAS, {SP_DIM_FFN}, has_gate_bias},
    {"mlp.up_proj.bias", SP_ROLE_BIAS, {SP_DIM_FFN}, has_dense_bias},
    {"mlp.down_proj.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_dense_bias},
    {"mlp.act_fn.alpha_p", SP_ROLE_SMALL, {SP_DIM_ONE}, has_xielu},
    {"mlp.act_fn.alpha_n", SP_ROLE_SMALL, {SP_DIM_ONE}, has_xielu},
    {"mlp.act_fn.beta", SP_ROLE_SMALL, {SP_DIM_ONE}, has_xielu},
    {"mlp.act_fn.eps", SP_ROLE_SMALL, {SP_DIM_ONE}, has_xielu},
    {"mlp.router.weight", SP_ROLE_ROUTER, {SP_DIM_EXPERTS, SP_DIM_HIDDEN}, has_experts},
    {"mlp.router.bias", SP_ROLE_BIAS, {SP_DIM_EXPERTS}, has_router_bias},
    {"mlp.router.correction", SP_ROLE_SMALL, {SP_DIM_EXPERTS}, has_correction},
    {"mlp.experts.gate_proj.weight",
     SP_ROLE_MLP,
     {SP_DIM_EXPERTS, SP_DIM_FFN, SP_DIM_HIDDEN},
     has_expert_gate},
    {"mlp.experts.up_proj.weight",
     SP_ROLE_MLP,
     {SP_DIM_EXPERTS, SP_DIM_FFN, SP_DIM_HIDDEN},
     has_experts},
    {"mlp.experts.down_proj.weight",
     SP_ROLE_MLP,
     {SP_DIM_EXPERTS, SP_DIM_HIDDEN, SP_DIM_FFN},
     has_experts},
    {"mlp.shared_expert.gate_proj.weight",
     SP_ROLE_MLP,
     {SP_DIM_SHARED, SP_DIM_HIDDEN},
     has_gated_shared},
    {"mlp.shared_expert.up_proj.weight", SP_ROLE_MLP, {SP_DIM_SHARED, SP_DIM_HIDDEN}, has_shared},
    {"mlp.shared_expert.down_proj.weight", SP_ROLE_MLP, {SP_DIM_HIDDEN, SP_DIM_SHARED}, has_shared},
    {"mlp.shared_expert_gate.weight", SP_ROLE_GATE, {SP_DIM_ONE, SP_DIM_HIDDEN}, has_shared_gate},
    {"mlp.router.scale", SP_ROLE_SMALL, {SP_DIM_HIDDEN}, has_expert_norms},
    {"mlp.router.expert_scale", SP_ROLE_SMALL, {SP_DIM_EXPERTS}, has_expert_norms},
    {"post_feedforward_layernorm_1.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_expert_norms},
    {"pre_feedforward_layernorm_2.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_expert_norms},
    {"post_feedforward_layernorm_2.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_expert_norms},
    {"per_layer_input_gate.weight", SP_ROLE_MLP, {SP_DIM_PER_LAYER, SP_DIM_HIDDEN}, has_per_layer},
    {"per_layer_projection.weight", SP_ROLE_MLP, {SP_DIM_HIDDEN, SP_DIM_PER_LAYER}, has_per_layer},
    {"post_per_layer_input_norm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_per_layer},
    {"layer_scalar", SP_ROLE_SMALL, {SP_DIM_ONE}, has_scalar},
    {"mlp.experts.gate_proj.bias", SP_ROLE_BIAS, {SP_DIM_EXPERTS, SP_DIM_FFN}, has_expert_bias},
    {"mlp.experts.up_proj.bias", SP_ROLE_BIAS, {SP_DIM_EXPERTS, SP_DIM_FFN}, has_expert_bias},
    {"mlp.experts.down_proj.bias", SP_ROLE_BIAS, {SP_DIM_EXPERTS, SP_DIM_HIDDEN}, has_expert_bias},
    {"attention_conv.base_kernel",
     SP_ROLE_SMALL,
     {SP_DIM_TWO, SP_DIM_CONV_TAPS, SP_DIM_HIDDEN},
     has_conv},
    {"attention_conv.kernel_projection.weight",
     SP_ROLE_GATE,
     {SP_DIM_CONV_DYNAMIC, SP_DIM_HIDDEN},
     has_conv},
    {"mlp_conv.base_kernel",
     SP_ROLE_SMALL,
     {SP_DIM_TWO, SP_DIM_CONV_TAPS, SP_DIM_HIDDEN},
     has_conv},
    {"mlp_conv.kernel_projection.weight",
     SP_ROLE_GATE,
     {SP_DIM_CONV_DYNAMIC, SP_DIM_HIDDEN},
     has_conv},
    {.name = NULL},
};

const struct sp_tensor_row sp_model_tensors[] = {
    {"embed_tokens.weight", SP_ROLE_EMBEDDING, {SP_DIM_VOCAB, SP_DIM_HIDDEN}, has_embedding},
    {"embed_positions.weight", SP_ROLE_SMALL, {SP_DIM_POSITIONS, SP_DIM_HIDDEN}, has_positions},
    {"embed_token_types.weight",
     SP_ROLE_SMALL,
     {SP_DIM_TOKEN_TYPES, SP_DIM_HIDDEN},
     has_token_types},
    {"embed_norm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_embedding_norm},
    {"embed_norm.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_embedding_norm_bias},
    {"norm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, has_norm},
    {"norm.bias", SP_ROLE_BIAS, {SP_DIM_HIDDEN}, has_norm_bias},
    {"embed_tokens_per_layer.weight",
     SP_ROLE_EMBEDDING,
     {SP_DIM_PER_LAYER_VOCAB, SP_DIM_ALL_PER_LAYER},
     has_per_layer},
    {"per_layer_model_projection.weight",
     SP_ROLE_MLP,
     {SP_DIM_ALL_PER_LAYER, SP_DIM_HIDDEN},
     has_per_layer},
    {"per_layer_projection_norm.weight", SP_ROLE_NORM, {SP_DIM_PER_LAYER}, has_per_layer},
    {"lm_head.weight", SP_ROLE_HEAD, {SP_DIM_HEAD_ROWS, SP_DIM_HIDDEN}, has_head},
    {"lm_head.bias", SP_ROLE_BIAS, {SP_DIM_HEAD_ROWS}, has_head_bias},
    {"fc.weight", SP_ROLE_FEATURE, {SP_DIM_HIDDEN, SP_DIM_FEATURES}, has_fc},
    {"hidden_norm.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, is_dflash},
    {"input_norm.weight", SP_ROLE_NORM, {SP_DIM_FEATURES}, has_feature_norm},
    {SP_TAP_NORMS, SP_ROLE_NORM, {SP_DIM_FEATURES}, has_tap_norms},
    {"mask_hidden", SP_ROLE_SMALL, {SP_DIM_ONE, SP_DIM_ONE, SP_DIM_FEATURES}, is_peagle},
    {"d2t", SP_ROLE_INDEX, {SP_DIM_HEAD_ROWS}, has_token_map},
    {"pre_fc_norm_embedding.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, is_mtp},
    {"pre_fc_norm_hidden.weight", SP_ROLE_NORM, {SP_DIM_HIDDEN}, is_mtp},
    {"pre_projection.weight", SP_ROLE_FEATURE, {SP_DIM_HIDDEN, SP_DIM_FEATURES}, is_assistant},
    {"post_projection.weight", SP_ROLE_FEATURE, {SP_DIM_TARGET, SP_DIM_HIDDEN}, is_assistant},
    {"masked_embedding.centroids.weight",
     SP_ROLE_ROUTER,
     {SP_DIM_CLUSTERS, SP_DIM_HIDDEN},
     has_clusters},
    {"masked_embedding.token_ordering", SP_ROLE_INDEX, {SP_DIM_VOCAB}, has_clusters},
    {"candidate_selector.hidden_projection.weight",
     SP_ROLE_GATE,
     {SP_DIM_SELECTOR, SP_DIM_HIDDEN},
     is_dflash2},
    {"candidate_selector.predecessor_codebook",
     SP_ROLE_CODEBOOK,
     {SP_DIM_VOCAB, SP_DIM_SELECTOR},
     is_dflash2},
    {"candidate_selector.successor_codebook",
     SP_ROLE_CODEBOOK,
     {SP_DIM_VOCAB, SP_DIM_SELECTOR},
     is_dflash2},
    {"markov_head.markov_w1.weight", SP_ROLE_CODEBOOK, {SP_DIM_VOCAB, SP_DIM_MARKOV}, has_markov},
    {"markov_head.markov_w2.weight", SP_ROLE_HEAD, {SP_DIM_HEAD_ROWS, SP_DIM_MARKOV}, has_markov},
    {"markov_head.gate_proj.weight",
     SP_ROLE_GATE,
     {SP_DIM_MARKOV, SP_DIM_MARKOV_SEEN},
     has_markov_gate},
    {"markov_head.gate_proj.bias", SP_ROLE_BIAS, {SP_DIM_MARKOV}, has_markov_gate},
    {"markov_head.joint_proj.weight",
     SP_ROLE_GATE,
     {SP_DIM_MARKOV_GATES, SP_DIM_MARKOV_JOINT},
     has_markov_rnn},
    {"markov_head.joint_proj.bias", SP_ROLE_BIAS, {SP_DIM_MARKOV_GATES}, has_markov_rnn},
    {"confidence_head.proj.weight", SP_ROLE_GATE, {SP_DIM_ONE, SP_DIM_CONFIDENCE}, has_confidence},
    {"confidence_head.proj.bias", SP_ROLE_BIAS, {SP_DIM_ONE}, has_confidence},
    {.name = NULL},
};
