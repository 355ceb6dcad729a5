/* LFM2 and LFM3: gated short convolutions between layers of attention. */
#include "format/family/families/families.h"

static const struct sp_alias lfm2_aliases[] = {
    {"norm.weight", "embedding_norm.weight", NULL, 0},
    {"input_layernorm.weight", "operator_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "ffn_norm.weight", NULL, 0},
    {"self_attn.o_proj.weight", "self_attn.out_proj.weight", NULL, 0},
    {"self_attn.q_norm.weight", "self_attn.q_layernorm.weight", NULL, 0},
    {"self_attn.k_norm.weight", "self_attn.k_layernorm.weight", NULL, 0},
    SP_ALIAS_W123("mlp", "feed_forward", NULL),
    {"mlp.router.weight", "feed_forward.gate.weight", NULL, 0},
    {"mlp.router.correction", "feed_forward.expert_bias", NULL, 0},
    SP_ALIAS_W123("mlp.experts", "feed_forward.experts.%u", sp_layout_each_expert),
    SP_ALIAS_GATE_UP("mlp.experts", "feed_forward.experts.gate_up_proj", sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "feed_forward.experts.down_proj", NULL, 0},
    SP_ALIAS_MLP("mlp.experts", "feed_forward.switch_mlp", NULL),
    {"mlp.*", "feed_forward.*", NULL, 0},
    {0},
};

static const struct sp_alias lfm3_aliases[] = {
    {"norm.weight", "embedding_norm.weight", NULL, 0},
    {"input_layernorm.weight", "operator_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "post_operator_norm.weight", NULL, 0},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight", NULL, 0},
    {"post_feedforward_layernorm.weight", "post_ffn_norm.weight", NULL, 0},
    {"self_attn.head_gate.weight", "self_attn.gate_proj.weight", NULL, 0},
    {"self_attn.head_gate.weight", "self_attn.g_proj.weight", NULL, 0},
    SP_ALIAS_W123("mlp", "feed_forward", NULL),
    {0},
};

static const struct sp_gguf_member lfm2_moe_members[] = {
    {SP_PUT_NO_WINDOW, NULL, NULL, NULL},
    {SP_PUT_SIZE, "conv_L_cache", "shortconv.l_cache", NULL},
    {SP_PUT_SIZE, "num_dense_layers", "leading_dense_block_count", NULL},
    {SP_PUT_BY_HEADS, "full_attention", NULL, "conv"},
    {SP_PUT_HAS, "conv_bias", "shortconv.conv.bias", NULL},
    {SP_PUT_WORD, "block_auto_adjust_ff_dim", NULL, "false"},
    {SP_PUT_HAS, "use_expert_bias", "exp_probs_b", NULL},
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_NOTHING, NULL, "expert_gating_func", NULL},
    {0},
};

static const struct sp_gguf_name lfm2_names[] = {
    {"token_embd_norm", "norm", SP_GGUF_AS_IS},
    {0},
};

#define LFM2_LAYERS                                                                                \
    .norm_eps = 1e-5, .norm_eps_key = "norm_eps", .qk_norm = SP_QK_HEADS, .theta = 1e6,            \
    .attention_list = "full_attn_idxs", .conv_layers = true, .conv_kernel = 3,                     \
    .biases = SP_BIAS_NEVER, .activation_key = "", .tied = true, .tied_key = "tie_embedding",      \
    .aliases = {lfm2_aliases}

const struct sp_family sp_families_lfm[] = {
    {
        .name = "lfm2",
        .architecture = "Lfm2ForCausalLM",
        .sizes = {65536, 2560, 12288, 32, 32, 8, 0, 128000, 0},
        .adjusted_ffn = true,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "lfm2"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_NO_WINDOW, NULL, NULL, NULL},
                                    {SP_PUT_SIZE, "conv_L_cache", "shortconv.l_cache", NULL},
                                    {SP_PUT_BY_HEADS, "full_attention", NULL, "conv"},
                                    {SP_PUT_HAS, "conv_bias", "shortconv.conv.bias", NULL},
                                    {SP_PUT_WORD, "block_auto_adjust_ff_dim", NULL, "false"}),
                 .names = lfm2_names,
                 .sizes_per_layer = true},
        LFM2_LAYERS,
    },
    {
        .name = "lfm2_moe",
        .architecture = "Lfm2MoeForCausalLM",
        .sizes = {65536, 2048, 7168, 32, 32, 8, 0, 128000, 0},
        .expert_keys = {.dense = "num_dense_layers", .corrected = "use_expert_bias"},
        SP_EXPERT_SIZES(32, 4, 1792, 2, 0),
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true, .norm_eps = 1e-6},
        .reads = {.layer_types = true, .experts = true, .routed_scale = true},
        .gguf = {.archs = {{.name = "lfm2moe"}},
                 .members = lfm2_moe_members,
                 .names = lfm2_names,
                 .sizes_per_layer = true},
        LFM2_LAYERS,
    },
    {
        .name = "lfm3",
        .architecture = "Lfm3ForCausalLM",
        .sizes = {128000, 2048, 7680, 24, 16, 4, 128, 128000, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "norm_eps",
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .theta = 1e6,
        .rope_by_type = true,
        .rope_default = "{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6,"
                        "\"partial_rotary_factor\":0.5},"
                        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}",
        .conv_layers = true,
        .conv_kernel = 7,
        .windows = SP_WINDOWS_LFM3_PATTERN,
        .window = 256,
        .needs_window = true,
        .mlp_bias = SP_BIAS_NEVER,
        .head_gate = true,
        .activation_key = "",
        .tied = true,
        .reads = {.layer_types = true},
        .aliases = {lfm3_aliases},
    },
    {.name = NULL},
};
