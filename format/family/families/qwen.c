/* Qwen2 and Qwen3, also inside Qwen-VL, Qwen3-Next and Qwen3.5. The last two mix gated delta-rule
 * layers with attention whose output is gated. */
#include "format/family/families/families.h"

static const struct sp_alias gated_query_aliases[] = {
    {"self_attn.q_proj.weight", NULL, sp_layout_query_gate, 0},
    {"self_attn.gate_proj.weight", "self_attn.q_proj.weight", sp_layout_query_gate, 1},
    {"self_attn.q_proj.bias", NULL, sp_layout_query_gate, 0},
    {"self_attn.gate_proj.bias", "self_attn.q_proj.bias", sp_layout_query_gate, 1},
    {0},
};

/* GGUF files have the parts of in_proj_qkvz on their own. */
static const struct sp_alias grouped_delta_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_qkvz.weight", sp_layout_delta_qkv, 0},
    {"linear_attn.in_proj_qkv.weight", NULL, NULL, 0},
    {"linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkvz.weight", sp_layout_delta_z, 0},
    {"linear_attn.in_proj_z.weight", NULL, NULL, 0},
    {"linear_attn.in_proj_b.weight", "linear_attn.in_proj_ba.weight", sp_layout_delta_ba, 0},
    {"linear_attn.in_proj_a.weight", "linear_attn.in_proj_ba.weight", sp_layout_delta_ba, 1},
    {0},
};

static const struct sp_gguf_member qwen2_moe_members[] = {
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_WORD, "norm_topk_prob", NULL, "false"},
    {0},
};

static const struct sp_gguf_member qwen3_moe_members[] = {
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_WORD, "norm_topk_prob", NULL, "true"},
    {0},
};

static const struct sp_gguf_member delta_members[] = {
    {SP_PUT_DELTA, NULL, NULL, NULL},
    {SP_PUT_ROTARY, NULL, NULL, NULL},
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {0},
};

/* attn_qkv and attn_gate are of the gated delta rule. */
static const struct sp_gguf_name delta_names[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv", SP_GGUF_AS_IS},
    {"attn_gate", "linear_attn.in_proj_z", SP_GGUF_AS_IS},
    {"ssm_ba", "linear_attn.in_proj_ba", SP_GGUF_AS_IS},
    {"ssm_beta", "linear_attn.in_proj_b", SP_GGUF_AS_IS},
    {"ssm_alpha", "linear_attn.in_proj_a", SP_GGUF_AS_IS},
    {"ssm_conv1d", "linear_attn.conv1d", SP_GGUF_CONV},
    {"ssm_a", "linear_attn.A_log", SP_GGUF_LOG},
    {"ssm_dt", "linear_attn.dt_bias", SP_GGUF_BARE},
    {"ssm_norm", "linear_attn.norm", SP_GGUF_AS_IS},
    {"ssm_out", "linear_attn.out_proj", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_alias qwen3_vl_aliases[] = {
    {"mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj", sp_layout_transposed_gate_up, 0},
    {"mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj", sp_layout_transposed_gate_up, 1},
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", sp_layout_transposed, 0},
    {0},
};

/* The text models of Qwen2-VL and Qwen2.5-VL. */
#define QWEN2_VL                                                                                   \
    .sizes = {152064, 8192, 29568, 80, 64, 8, 0, 32768, 0}, .norm_eps = 1e-5, .theta = 1e6,        \
    .windows = SP_WINDOWS_FROM_LAYER, .window = 4096, .window_layers = 80, .window_switch = true,  \
    .qkv_bias = SP_BIAS_ALWAYS, .o_bias = SP_BIAS_NEVER, .mlp_bias = SP_BIAS_NEVER,                \
    .reads = {.layer_types = true}

#define QWEN3_NEXT_LAYERS                                                                          \
    .qk_norm = SP_QK_HEADS, .norm_shifted = true, .partial_rotary = 0.25, .delta_layers = true,    \
    .mlp_bias = SP_BIAS_NEVER, .output_gate = true, .gate_in_query = true, .prediction_head = true
#define DELTA_GGUF .members = delta_members, .names = delta_names, .sizes_per_layer = true

const struct sp_family sp_families_qwen[] = {
    {.name = "qwen2_vl_text", .architecture = "Qwen2VLTextModel", QWEN2_VL},
    {.name = "qwen2_5_vl_text", .architecture = "Qwen2_5_VLTextModel", QWEN2_VL},
    {
        .name = "qwen3_vl_text",
        .architecture = "Qwen3VLTextModel",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 128000, 0},
        .qk_norm = SP_QK_HEADS,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
    },
    {
        .name = "qwen3_vl_moe_text",
        .architecture = "Qwen3VLMoeTextModel",
        .sizes = {151936, 2048, 5632, 24, 16, 16, 0, 128000, 0},
        .qk_norm = SP_QK_HEADS,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
        .tied = true,
        .expert_keys = {.step = "decoder_sparse_step", .only = "mlp_only_layers"},
        SP_EXPERT_SIZES(60, 4, 1408, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {qwen3_vl_aliases, sp_aliases_experts},
    },
    {
        .name = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 0, 32768, 0},
        .windows = SP_WINDOWS_FROM_LAYER,
        .window = 4096,
        .window_layers = 28,
        .window_switch = true,
        .qkv_bias = SP_BIAS_ALWAYS,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "qwen2"}}},
    },
    {
        .name = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 32768, 0},
        .qk_norm = SP_QK_HEADS,
        .windows = SP_WINDOWS_FROM_LAYER,
        .window = 4096,
        .window_layers = 28,
        .window_switch = true,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "qwen3"}}},
    },
    {
        .name = "qwen2_moe",
        .architecture = "Qwen2MoeForCausalLM",
        .sizes = {151936, 2048, 5632, 24, 16, 16, 0, 32768, 0},
        .windows = SP_WINDOWS_BEFORE_LAYER,
        .window = 4096,
        .window_layers = 28,
        .window_switch = true,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .bias_key = "qkv_bias",
        .attention_bias = true,
        .expert_keys = {.step = "decoder_sparse_step",
                        .only = "mlp_only_layers",
                        .parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(60, 4, 1408, 0, 0),
        .n_shared_ffn = 5632,
        .shared_gate = true,
        .reads = {.layer_types = true, .experts = true},
        .aliases = {sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen2moe"}}, .members = qwen2_moe_members},
    },
    {
        .name = "qwen3_moe",
        .architecture = "Qwen3MoeForCausalLM",
        .sizes = {151936, 2048, 6144, 24, 32, 4, 0, 32768, 0},
        .qk_norm = SP_QK_HEADS,
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .window_switch = true,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.step = "decoder_sparse_step", .only = "mlp_only_layers"},
        SP_EXPERT_SIZES(128, 8, 768, 0, 0),
        .reads = {.experts = true},
        .aliases = {sp_aliases_experts},
        .prediction_head = true,
        .gguf = {.archs = {{.name = "qwen3moe"}}, .members = qwen3_moe_members},
    },
    {
        .name = "qwen3_next",
        .architecture = "Qwen3NextForCausalLM",
        .sizes = {151936, 2048, 5632, 48, 16, 2, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .expert_keys = {.step = "decoder_sparse_step",
                        .only = "mlp_only_layers",
                        .parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(512, 10, 512, 0, 0),
        .n_shared_ffn = 512,
        .shared_gate = true,
        .routing = {.norm = true},
        .reads = {.layer_types = true, .experts = true},
        .aliases = {gated_query_aliases, grouped_delta_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen3next"}}, DELTA_GGUF},
    },
    {
        .name = "qwen3_5_text",
        .architecture = "Qwen3_5ForCausalLM",
        .sizes = {248320, 4096, 12288, 32, 16, 4, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .theta_required = true,
        .reads = {.layer_types = true},
        .aliases = {gated_query_aliases},
        .gguf = {.archs = {{.name = "qwen35"}}, DELTA_GGUF, .v_heads_tiled = true},
    },
    {
        .name = "qwen3_5_moe_text",
        .architecture = "Qwen3_5MoeForCausalLM",
        .sizes = {248320, 2048, 512, 40, 16, 2, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .theta_required = true,
        .expert_keys = {.parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(256, 8, 512, 0, 0),
        .n_shared_ffn = 512,
        .shared_gate = true,
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.layer_types = true, .experts = true},
        .aliases = {gated_query_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen35moe"}}, DELTA_GGUF, .v_heads_tiled = true},
    },
    {.name = NULL},
};
