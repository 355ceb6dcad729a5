/* The canonical tensors of a model, from its config alone: tables of what a layer consists of, each
 * row with the condition under which a layer has it. */
#include "format/family.h"

#include "format/family_parts.h"
#include "format/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A dimension, by what it counts. */
enum dim {
    DIM_END,
    DIM_HIDDEN,
    DIM_INPUT, /* what q, k and v read: hidden; twice as much in a layer that reads pairs */
    DIM_VOCAB,
    DIM_Q,      /* n_heads * head_dim */
    DIM_KV,     /* n_kv_heads * head_dim */
    DIM_Q_NORM, /* weights of the queries' norm, of one head or of all, */
    DIM_K_NORM, /* ... of the keys' */
    DIM_HEADS,
    DIM_FFN,
    DIM_EXPERTS,
    DIM_FEATURES, /* what fc reads: taps * target hidden; hidden twice in a prediction head */
    DIM_SHARED,   /* intermediate size of the MLP beside the experts */
    DIM_ONE,
    DIM_CHANNELS,        /* delta layers: q, k and v of all heads */
    DIM_DELTA_VALUES,    /* ... v of all heads */
    DIM_DELTA_HEADS,     /* ... value heads */
    DIM_DELTA_VALUE,     /* ... v of one head */
    DIM_CONV_OUTER,      /* ... the convolution as it is stored: 1 and its taps, */
    DIM_CONV_INNER,      /* or the other way round */
    DIM_SHORT_CONV_IN,   /* short convolutions: what opens, what closes, what passes */
    DIM_SHORT_CONV_TAPS, /* ... taps */
    DIM_MAMBA_VALUES,    /* Mamba-2: x, z and what comes out, of all heads, */
    DIM_MAMBA_CHANNELS,  /* ... x, B and C, */
    DIM_MAMBA_HEADS,     /* ... heads, */
    DIM_MAMBA_TAPS,      /* ... taps */
    DIM_PER_LAYER,       /* per-layer embeddings: of one layer, */
    DIM_ALL_PER_LAYER,   /* of all, */
    DIM_PER_LAYER_VOCAB, /* rows of their table */
    DIM_TWO,
    DIM_CONV_TAPS,    /* DFlash2: of one convolution, */
    DIM_CONV_DYNAMIC, /* ... of both around a sublayer, for all groups */
    DIM_SELECTOR,     /* width of the selector's codebooks */
    DIM_MARKOV,       /* DSpark: width of the markov head, */
    DIM_MARKOV_SEEN,  /* ... of what its gate reads: a hidden state and an embedding, */
    DIM_MARKOV_GATES, /* ... of an rnn's three results, */
    DIM_MARKOV_JOINT, /* ... of what the rnn reads: its state as well, */
    DIM_CONFIDENCE,   /* ... of what the confidence head reads */
    DIM_TARGET,       /* width of the target's hidden states */
    DIM_CLUSTERS,
    DIM_HEAD_ROWS, /* of the output matrix */
};

typedef bool wanted_fn(const struct sp_config *c, const struct sp_layer_config *l);

struct row {
    const char *name; /* after "layers.N." in a layer */
    enum sp_role role;
    enum dim dims[3];
    wanted_fn *wanted; /* NULL: always. The layer is NULL for tensors outside the layers */
};

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

/* Keys of its own, not an earlier layer's? */
static bool has_k(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && l->kv_source == (int)(l - c->layers);
}

static bool has_v(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_k(c, l) && !l->v_from_k;
}

static bool has_k_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_k(c, l) && c->qk_norm;
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

static bool has_qkv_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->qkv_bias;
}

static bool has_o_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->o_bias;
}

static bool has_qk_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->qk_norm;
}

static bool has_sinks(const struct sp_config *c, const struct sp_layer_config *l)
{
    return is_attention(c, l) && c->attention_sinks;
}

static bool has_input_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return l->mixers != 0 && c->norms != SP_NORMS_AFTER;
}

static bool has_post_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->norms == SP_NORMS_AROUND || c->norms == SP_NORMS_AFTER;
}

static bool has_four_norms(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->norms == SP_NORMS_AROUND;
}

static bool has_ffn(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)c;
    return l->n_ffn != 0;
}

static bool has_second_norm(const struct sp_config *c, const struct sp_layer_config *l)
{
    return has_ffn(c, l) && c->norms != SP_NORMS_SHARED;
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

static bool has_norm_bias(const struct sp_config *c, const struct sp_layer_config *l)
{
    (void)l;
    return c->norm_bias;
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

static const struct row layer_rows[] = {
    {"input_layernorm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_input_norm},
    {"hidden_norm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, reads_pair},
    {"self_attn.q_proj.weight", SP_ROLE_ATTENTION, {DIM_Q, DIM_INPUT}, is_attention},
    {"self_attn.k_proj.weight", SP_ROLE_KEY_VALUE, {DIM_KV, DIM_INPUT}, has_k},
    {"self_attn.v_proj.weight", SP_ROLE_KEY_VALUE, {DIM_KV, DIM_INPUT}, has_v},
    {"self_attn.o_proj.weight", SP_ROLE_ATTENTION, {DIM_HIDDEN, DIM_Q}, is_attention},
    {"self_attn.gate_proj.weight", SP_ROLE_ATTENTION, {DIM_Q, DIM_HIDDEN}, has_output_gate},
    {"self_attn.q_proj.bias", SP_ROLE_BIAS, {DIM_Q}, has_qkv_bias},
    {"self_attn.k_proj.bias", SP_ROLE_BIAS, {DIM_KV}, has_qkv_bias},
    {"self_attn.v_proj.bias", SP_ROLE_BIAS, {DIM_KV}, has_qkv_bias},
    {"self_attn.o_proj.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_o_bias},
    {"self_attn.q_norm.weight", SP_ROLE_NORM, {DIM_Q_NORM}, has_qk_norm},
    {"self_attn.k_norm.weight", SP_ROLE_NORM, {DIM_K_NORM}, has_k_norm},
    {"self_attn.sinks", SP_ROLE_SMALL, {DIM_HEADS}, has_sinks},
    {"linear_attn.in_proj_qkv.weight", SP_ROLE_ATTENTION, {DIM_CHANNELS, DIM_HIDDEN}, is_delta},
    {"linear_attn.in_proj_z.weight", SP_ROLE_ATTENTION, {DIM_DELTA_VALUES, DIM_HIDDEN}, is_delta},
    {"linear_attn.in_proj_b.weight", SP_ROLE_GATE, {DIM_DELTA_HEADS, DIM_HIDDEN}, is_delta},
    {"linear_attn.in_proj_a.weight", SP_ROLE_GATE, {DIM_DELTA_HEADS, DIM_HIDDEN}, is_delta},
    {"linear_attn.conv1d.weight",
     SP_ROLE_SMALL,
     {DIM_CHANNELS, DIM_CONV_OUTER, DIM_CONV_INNER},
     is_delta},
    {"linear_attn.A_log", SP_ROLE_SMALL, {DIM_DELTA_HEADS}, is_delta},
    {"linear_attn.dt_bias", SP_ROLE_SMALL, {DIM_DELTA_HEADS}, is_delta},
    {"linear_attn.norm.weight", SP_ROLE_NORM, {DIM_DELTA_VALUE}, is_delta},
    {"linear_attn.out_proj.weight", SP_ROLE_ATTENTION, {DIM_HIDDEN, DIM_DELTA_VALUES}, is_delta},
    {"conv.in_proj.weight", SP_ROLE_ATTENTION, {DIM_SHORT_CONV_IN, DIM_HIDDEN}, is_short_conv},
    {"conv.conv.weight", SP_ROLE_SMALL, {DIM_HIDDEN, DIM_ONE, DIM_SHORT_CONV_TAPS}, is_short_conv},
    {"conv.out_proj.weight", SP_ROLE_ATTENTION, {DIM_HIDDEN, DIM_HIDDEN}, is_short_conv},
    {"conv.in_proj.bias", SP_ROLE_BIAS, {DIM_SHORT_CONV_IN}, has_short_conv_bias},
    {"conv.conv.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_short_conv_bias},
    {"conv.out_proj.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_short_conv_bias},
    {"mamba.in_proj_z.weight", SP_ROLE_ATTENTION, {DIM_MAMBA_VALUES, DIM_HIDDEN}, is_mamba},
    {"mamba.in_proj_xbc.weight", SP_ROLE_ATTENTION, {DIM_MAMBA_CHANNELS, DIM_HIDDEN}, is_mamba},
    {"mamba.in_proj_dt.weight", SP_ROLE_GATE, {DIM_MAMBA_HEADS, DIM_HIDDEN}, is_mamba},
    {"mamba.conv1d.weight", SP_ROLE_SMALL, {DIM_MAMBA_CHANNELS, DIM_ONE, DIM_MAMBA_TAPS}, is_mamba},
    {"mamba.A_log", SP_ROLE_SMALL, {DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.D", SP_ROLE_SMALL, {DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.dt_bias", SP_ROLE_SMALL, {DIM_MAMBA_HEADS}, is_mamba},
    {"mamba.norm.weight", SP_ROLE_NORM, {DIM_MAMBA_VALUES}, has_mamba_norm},
    {"mamba.out_proj.weight", SP_ROLE_ATTENTION, {DIM_HIDDEN, DIM_MAMBA_VALUES}, is_mamba},
    {"mamba.in_proj_z.bias", SP_ROLE_BIAS, {DIM_MAMBA_VALUES}, has_mamba_bias},
    {"mamba.in_proj_xbc.bias", SP_ROLE_BIAS, {DIM_MAMBA_CHANNELS}, has_mamba_bias},
    {"mamba.in_proj_dt.bias", SP_ROLE_BIAS, {DIM_MAMBA_HEADS}, has_mamba_bias},
    {"mamba.conv1d.bias", SP_ROLE_BIAS, {DIM_MAMBA_CHANNELS}, has_mamba_conv_bias},
    {"mamba.out_proj.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_mamba_bias},
    {"input_layernorm.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_input_norm_bias},
    {"post_attention_layernorm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_second_norm},
    {"post_attention_layernorm.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_second_norm_bias},
    {"pre_feedforward_layernorm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_four_norms},
    {"post_feedforward_layernorm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_post_norm},
    {"mlp.gate_proj.weight", SP_ROLE_MLP, {DIM_FFN, DIM_HIDDEN}, has_gate},
    {"mlp.up_proj.weight", SP_ROLE_MLP, {DIM_FFN, DIM_HIDDEN}, is_dense},
    {"mlp.down_proj.weight", SP_ROLE_MLP, {DIM_HIDDEN, DIM_FFN}, is_dense},
    {"mlp.gate_proj.bias", SP_ROLE_BIAS, {DIM_FFN}, has_gate_bias},
    {"mlp.up_proj.bias", SP_ROLE_BIAS, {DIM_FFN}, has_dense_bias},
    {"mlp.down_proj.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_dense_bias},
    {"mlp.router.weight", SP_ROLE_ROUTER, {DIM_EXPERTS, DIM_HIDDEN}, has_experts},
    {"mlp.router.bias", SP_ROLE_BIAS, {DIM_EXPERTS}, has_router_bias},
    {"mlp.router.correction", SP_ROLE_SMALL, {DIM_EXPERTS}, has_correction},
    {"mlp.experts.gate_proj.weight",
     SP_ROLE_MLP,
     {DIM_EXPERTS, DIM_FFN, DIM_HIDDEN},
     has_expert_gate},
    {"mlp.experts.up_proj.weight", SP_ROLE_MLP, {DIM_EXPERTS, DIM_FFN, DIM_HIDDEN}, has_experts},
    {"mlp.experts.down_proj.weight", SP_ROLE_MLP, {DIM_EXPERTS, DIM_HIDDEN, DIM_FFN}, has_experts},
    {"mlp.shared_expert.gate_proj.weight", SP_ROLE_MLP, {DIM_SHARED, DIM_HIDDEN}, has_gated_shared},
    {"mlp.shared_expert.up_proj.weight", SP_ROLE_MLP, {DIM_SHARED, DIM_HIDDEN}, has_shared},
    {"mlp.shared_expert.down_proj.weight", SP_ROLE_MLP, {DIM_HIDDEN, DIM_SHARED}, has_shared},
    {"mlp.shared_expert_gate.weight", SP_ROLE_GATE, {DIM_ONE, DIM_HIDDEN}, has_shared_gate},
    {"mlp.router.scale", SP_ROLE_SMALL, {DIM_HIDDEN}, has_expert_norms},
    {"mlp.router.expert_scale", SP_ROLE_SMALL, {DIM_EXPERTS}, has_expert_norms},
    {"post_feedforward_layernorm_1.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_expert_norms},
    {"pre_feedforward_layernorm_2.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_expert_norms},
    {"post_feedforward_layernorm_2.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_expert_norms},
    {"per_layer_input_gate.weight", SP_ROLE_MLP, {DIM_PER_LAYER, DIM_HIDDEN}, has_per_layer},
    {"per_layer_projection.weight", SP_ROLE_MLP, {DIM_HIDDEN, DIM_PER_LAYER}, has_per_layer},
    {"post_per_layer_input_norm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, has_per_layer},
    {"layer_scalar", SP_ROLE_SMALL, {DIM_ONE}, has_scalar},
    {"mlp.experts.gate_proj.bias", SP_ROLE_BIAS, {DIM_EXPERTS, DIM_FFN}, has_expert_bias},
    {"mlp.experts.up_proj.bias", SP_ROLE_BIAS, {DIM_EXPERTS, DIM_FFN}, has_expert_bias},
    {"mlp.experts.down_proj.bias", SP_ROLE_BIAS, {DIM_EXPERTS, DIM_HIDDEN}, has_expert_bias},
    {"attention_conv.base_kernel", SP_ROLE_SMALL, {DIM_TWO, DIM_CONV_TAPS, DIM_HIDDEN}, has_conv},
    {"attention_conv.kernel_projection.weight",
     SP_ROLE_GATE,
     {DIM_CONV_DYNAMIC, DIM_HIDDEN},
     has_conv},
    {"mlp_conv.base_kernel", SP_ROLE_SMALL, {DIM_TWO, DIM_CONV_TAPS, DIM_HIDDEN}, has_conv},
    {"mlp_conv.kernel_projection.weight", SP_ROLE_GATE, {DIM_CONV_DYNAMIC, DIM_HIDDEN}, has_conv},
};

static const struct row model_rows[] = {
    {"embed_tokens.weight", SP_ROLE_EMBEDDING, {DIM_VOCAB, DIM_HIDDEN}, has_embedding},
    {"norm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, NULL},
    {"norm.bias", SP_ROLE_BIAS, {DIM_HIDDEN}, has_norm_bias},
    {"embed_tokens_per_layer.weight",
     SP_ROLE_EMBEDDING,
     {DIM_PER_LAYER_VOCAB, DIM_ALL_PER_LAYER},
     has_per_layer},
    {"per_layer_model_projection.weight",
     SP_ROLE_MLP,
     {DIM_ALL_PER_LAYER, DIM_HIDDEN},
     has_per_layer},
    {"per_layer_projection_norm.weight", SP_ROLE_NORM, {DIM_PER_LAYER}, has_per_layer},
    {"lm_head.weight", SP_ROLE_HEAD, {DIM_HEAD_ROWS, DIM_HIDDEN}, has_head},
    {"fc.weight", SP_ROLE_FEATURE, {DIM_HIDDEN, DIM_FEATURES}, has_fc},
    {"hidden_norm.weight", SP_ROLE_NORM, {DIM_HIDDEN}, is_dflash},
    {"input_norm.weight", SP_ROLE_NORM, {DIM_FEATURES}, has_feature_norm},
    {SP_TAP_NORMS, SP_ROLE_NORM, {DIM_FEATURES}, has_tap_norms},
    {"mask_hidden", SP_ROLE_SMALL, {DIM_ONE, DIM_ONE, DIM_FEATURES}, is_peagle},
    {"d2t", SP_ROLE_INDEX, {DIM_HEAD_ROWS}, has_token_map},
    {"pre_fc_norm_embedding.weight", SP_ROLE_NORM, {DIM_HIDDEN}, is_mtp},
    {"pre_fc_norm_hidden.weight", SP_ROLE_NORM, {DIM_HIDDEN}, is_mtp},
    {"pre_projection.weight", SP_ROLE_FEATURE, {DIM_HIDDEN, DIM_FEATURES}, is_assistant},
    {"post_projection.weight", SP_ROLE_FEATURE, {DIM_TARGET, DIM_HIDDEN}, is_assistant},
    {"masked_embedding.centroids.weight", SP_ROLE_ROUTER, {DIM_CLUSTERS, DIM_HIDDEN}, has_clusters},
    {"masked_embedding.token_ordering", SP_ROLE_INDEX, {DIM_VOCAB}, has_clusters},
    {"candidate_selector.hidden_projection.weight",
     SP_ROLE_GATE,
     {DIM_SELECTOR, DIM_HIDDEN},
     is_dflash2},
    {"candidate_selector.predecessor_codebook",
     SP_ROLE_CODEBOOK,
     {DIM_VOCAB, DIM_SELECTOR},
     is_dflash2},
    {"candidate_selector.successor_codebook",
     SP_ROLE_CODEBOOK,
     {DIM_VOCAB, DIM_SELECTOR},
     is_dflash2},
    {"markov_head.markov_w1.weight", SP_ROLE_CODEBOOK, {DIM_VOCAB, DIM_MARKOV}, has_markov},
    {"markov_head.markov_w2.weight", SP_ROLE_HEAD, {DIM_HEAD_ROWS, DIM_MARKOV}, has_markov},
    {"markov_head.gate_proj.weight", SP_ROLE_GATE, {DIM_MARKOV, DIM_MARKOV_SEEN}, has_markov_gate},
    {"markov_head.gate_proj.bias", SP_ROLE_BIAS, {DIM_MARKOV}, has_markov_gate},
    {"markov_head.joint_proj.weight",
     SP_ROLE_GATE,
     {DIM_MARKOV_GATES, DIM_MARKOV_JOINT},
     has_markov_rnn},
    {"markov_head.joint_proj.bias", SP_ROLE_BIAS, {DIM_MARKOV_GATES}, has_markov_rnn},
    {"confidence_head.proj.weight", SP_ROLE_GATE, {DIM_ONE, DIM_CONFIDENCE}, has_confidence},
    {"confidence_head.proj.bias", SP_ROLE_BIAS, {DIM_ONE}, has_confidence},
};

const char *sp_role_name(enum sp_role role)
{
    static const char *const names[] = {
        [SP_ROLE_NORM] = "norm",
        [SP_ROLE_BIAS] = "bias",
        [SP_ROLE_SMALL] = "small",
        [SP_ROLE_EMBEDDING] = "embedding",
        [SP_ROLE_HEAD] = "head",
        [SP_ROLE_ATTENTION] = "attention",
        [SP_ROLE_MLP] = "mlp",
        [SP_ROLE_ROUTER] = "router",
        [SP_ROLE_FEATURE] = "feature",
        [SP_ROLE_GATE] = "gate",
        [SP_ROLE_INDEX] = "index",
        [SP_ROLE_CODEBOOK] = "codebook",
        [SP_ROLE_KEY_VALUE] = "key or value",
    };

    assert((size_t)role < sizeof names / sizeof names[0]);
    return names[role];
}

bool sp_role_is_matrix(enum sp_role role)
{
    switch (role) {
    case SP_ROLE_NORM:
    case SP_ROLE_BIAS:
    case SP_ROLE_SMALL:
    case SP_ROLE_INDEX:
        return false;
    case SP_ROLE_EMBEDDING:
    case SP_ROLE_HEAD:
    case SP_ROLE_ATTENTION:
    case SP_ROLE_KEY_VALUE:
    case SP_ROLE_MLP:
    case SP_ROLE_ROUTER:
    case SP_ROLE_GATE:
    case SP_ROLE_FEATURE:
    case SP_ROLE_CODEBOOK:
        break;
    }
    return true;
}

/* Have the norms of queries and keys weights for every head? */
static bool weighs_heads(const struct sp_config *c)
{
    return c->qk_norm == SP_QK_WHOLE || c->qk_norm == SP_QK_OWN;
}

static uint64_t dim_of(enum dim dim, const struct sp_config *c, const struct sp_layer_config *l)
{
    assert(dim != DIM_END);
    switch (dim) {
    case DIM_HIDDEN:
        return c->n_hidden;
    case DIM_INPUT:
        return (l->reads_pair ? 2 : 1) * (uint64_t)c->n_hidden;
    case DIM_VOCAB:
        return c->n_vocab;
    case DIM_HEAD_ROWS:
        return c->draft.n_head_rows ? c->draft.n_head_rows : c->n_vocab;
    case DIM_Q:
        return (uint64_t)l->n_heads * l->head_dim;
    case DIM_KV:
        return (uint64_t)l->n_kv_heads * l->head_dim;
    case DIM_Q_NORM:
        return (uint64_t)l->head_dim * (weighs_heads(c) ? l->n_heads : 1);
    case DIM_K_NORM:
        return (uint64_t)l->head_dim * (weighs_heads(c) ? l->n_kv_heads : 1);
    case DIM_HEADS:
        return l->n_heads;
    case DIM_FFN:
        return l->n_ffn;
    case DIM_EXPERTS:
        return l->n_experts;
    case DIM_FEATURES:
        if (c->draft.kind == SP_DRAFT_MTP) return 2 * (uint64_t)c->n_hidden;
        if (c->draft.kind == SP_DRAFT_ASSISTANT) return 2 * (uint64_t)c->draft.target_hidden;
        return (uint64_t)c->draft.n_taps * c->draft.target_hidden;
    case DIM_SHARED:
        return l->n_shared_ffn;
    case DIM_ONE:
        return 1;
    case DIM_CHANNELS:
        return 2 * (uint64_t)c->delta.n_key_heads * c->delta.key_dim +
               (uint64_t)c->delta.n_value_heads * c->delta.value_dim;
    case DIM_DELTA_VALUES:
        return (uint64_t)c->delta.n_value_heads * c->delta.value_dim;
    case DIM_DELTA_HEADS:
        return c->delta.n_value_heads;
    case DIM_DELTA_VALUE:
        return c->delta.value_dim;
    case DIM_CONV_OUTER:
        return c->delta.converted ? c->delta.kernel : 1;
    case DIM_CONV_INNER:
        return c->delta.converted ? 1 : c->delta.kernel;
    case DIM_SHORT_CONV_IN:
        return 3 * (uint64_t)c->n_hidden;
    case DIM_SHORT_CONV_TAPS:
        return c->short_conv.kernel;
    case DIM_MAMBA_VALUES:
        return (uint64_t)c->mamba.n_heads * c->mamba.head_dim;
    case DIM_MAMBA_CHANNELS:
        return (uint64_t)c->mamba.n_heads * c->mamba.head_dim +
               2 * (uint64_t)c->mamba.n_groups * c->mamba.state_dim;
    case DIM_MAMBA_HEADS:
        return c->mamba.n_heads;
    case DIM_MAMBA_TAPS:
        return c->mamba.kernel;
    case DIM_PER_LAYER:
        return c->n_per_layer;
    case DIM_ALL_PER_LAYER:
        return (uint64_t)c->n_layers * c->n_per_layer;
    case DIM_PER_LAYER_VOCAB:
        return c->n_per_layer_vocab;
    case DIM_TWO:
        return 2;
    case DIM_CONV_TAPS:
        return c->n_conv_taps;
    case DIM_CONV_DYNAMIC:
        return 2 * (uint64_t)c->n_conv_taps * (c->n_hidden / c->conv_group);
    case DIM_SELECTOR:
        return c->draft.selector_rank;
    case DIM_MARKOV:
        return c->draft.dspark.rank;
    case DIM_MARKOV_SEEN:
        return (uint64_t)c->n_hidden + c->draft.dspark.rank;
    case DIM_MARKOV_GATES:
        return 3 * (uint64_t)c->draft.dspark.rank;
    case DIM_MARKOV_JOINT:
        return 2 * (uint64_t)c->draft.dspark.rank + c->n_hidden;
    case DIM_CONFIDENCE:
        return (uint64_t)c->n_hidden +
               (c->draft.dspark.confidence_markov ? c->draft.dspark.rank : 0);
    case DIM_TARGET:
        return c->draft.target_hidden;
    case DIM_CLUSTERS:
        return c->draft.n_clusters;
    case DIM_END:
        break;
    }
    return 0;
}

enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs, const char *text,
                                   struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st;

    st = sp_grow(&specs->strings, &specs->cap_strings, specs->n_strings + 1, sizeof *specs->strings,
                 err);
    if (st || (st = sp_copy_text(&copy, text, strlen(text), err))) return st;
    specs->strings[specs->n_strings++] = copy;
    *out = copy;
    return SP_OK;
}

/* layer < 0: outside the layers. */
static enum sp_status add_row(struct sp_specs *specs, const struct row *row,
                              const struct sp_config *c, int layer, struct sp_err *err)
{
    const struct sp_layer_config *l = layer < 0 ? NULL : &c->layers[layer];
    struct sp_tensor_spec spec = {.role = row->role};
    char name[SP_SPEC_NAME];
    enum sp_status st;

    if (row->wanted && !row->wanted(c, l)) return SP_OK;
    if (layer < 0) {
        snprintf(name, sizeof name, "%s", row->name);
    } else {
        snprintf(name, sizeof name, "layers.%d.%s", layer, row->name);
    }
    while (spec.rank < 3 && row->dims[spec.rank] != DIM_END) {
        spec.shape[spec.rank] = dim_of(row->dims[spec.rank], c, l);
        spec.rank++;
    }
    if ((st = sp_specs_add_string(&spec.name, specs, name, err))) return st;
    st = sp_grow(&specs->specs, &specs->cap_specs, specs->n_specs + 1, sizeof *specs->specs, err);
    if (st) return st;
    specs->specs[specs->n_specs++] = spec;
    return SP_OK;
}

static int compare_specs(const void *a, const void *b)
{
    const struct sp_tensor_spec *x = a, *y = b;

    return strcmp(x->name, y->name);
}

enum sp_status sp_specs_of_config(struct sp_specs *out, const struct sp_config *config,
                                  struct sp_err *err)
{
    struct sp_specs specs = {0};
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof model_rows / sizeof model_rows[0]; i++) {
        if ((st = add_row(&specs, &model_rows[i], config, -1, err))) goto done;
    }
    for (unsigned l = 0; l < config->n_layers; l++) {
        for (size_t i = 0; i < sizeof layer_rows / sizeof layer_rows[0]; i++) {
            if ((st = add_row(&specs, &layer_rows[i], config, (int)l, err))) goto done;
        }
    }
    qsort(specs.specs, specs.n_specs, sizeof *specs.specs, compare_specs);
    *out = specs;
    memset(&specs, 0, sizeof specs);
done:
    sp_specs_release(&specs);
    return st;
}

const struct sp_tensor_spec *sp_specs_find(const struct sp_specs *specs, const char *name)
{
    struct sp_tensor_spec key = {.name = name};

    if (specs->n_specs == 0) return NULL;
    return bsearch(&key, specs->specs, specs->n_specs, sizeof key, compare_specs);
}

static void drop(struct sp_specs *specs, const char *name)
{
    const struct sp_tensor_spec *spec = sp_specs_find(specs, name);
    size_t i;

    if (spec == NULL) return;
    i = (size_t)(spec - specs->specs);
    memmove(&specs->specs[i], &specs->specs[i + 1],
            (specs->n_specs - i - 1) * sizeof *specs->specs);
    specs->n_specs--;
}

void sp_specs_share_head(struct sp_specs *specs, struct sp_config *config)
{
    config->tied = true;
    drop(specs, "lm_head.weight");
}

void sp_specs_share_embedding(struct sp_specs *specs, struct sp_config *config)
{
    config->draft.borrows_tables = true;
    drop(specs, "embed_tokens.weight");
}

void sp_specs_release(struct sp_specs *specs)
{
    for (size_t i = 0; i < specs->n_strings; i++)
        free(specs->strings[i]);
    free(specs->strings);
    free(specs->specs);
    free(specs->pieces);
    memset(specs, 0, sizeof *specs);
}
