/* GLM-4: dense, with experts, and with multi-head latent attention (GLM-4.7-Flash); and Sarvam with
 * the layers of GLM-4.5. */
#include "format/family/families/families.h"

static const struct sp_alias glm4_aliases[] = {
    {"post_attention_layernorm.weight", "post_self_attn_layernorm.weight", NULL, 0},
    {"pre_feedforward_layernorm.weight", "post_attention_layernorm.weight", NULL, 0},
    {"post_feedforward_layernorm.weight", "post_mlp_layernorm.weight", NULL, 0},
    {0},
};

static const struct sp_alias sarvam_aliases[] = {
    {"embed_tokens.weight", "word_embeddings.weight", NULL, 0},
    SP_ALIAS_QKV(".*", "attention.query_key_value.*", sp_layout_qkv),
    {"self_attn.o_proj.*", "attention.dense.*", NULL, 0},
    {"self_attn.q_norm.weight", "attention.query_layernorm.weight", NULL, 0},
    {"self_attn.k_norm.weight", "attention.key_layernorm.weight", NULL, 0},
    {"mlp.router.correction", "mlp.gate.expert_bias", NULL, 0},
    {0},
};

#define GLM4_LAYERS                                                                                \
    .sizes = {151552, 4096, 13696, 40, 32, 2, 128, 131072, 0}, .norm_eps = 1.5625e-7,              \
    .partial_rotary = 0.5, .o_bias = SP_BIAS_NEVER, .mlp_bias = SP_BIAS_NEVER,                     \
    .attention_bias = true

/* The layers of GLM-4.5, apart from their sizes. */
#define GLM4_MOE_LAYERS                                                                            \
    .qk_norm = SP_QK_HEADS, .qk_norm_key = "use_qk_norm", .o_bias = SP_BIAS_NEVER,                 \
    .mlp_bias = SP_BIAS_NEVER, .expert_keys = {SP_V3_KEYS},                                        \
    .reads = {.layer_types = true, SP_V3_READS}

#define GLM4_MOE_ROUTING SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1

static const struct sp_gguf_member glm4_moe_members[] = {
    {SP_PUT_SIGMOID, NULL, NULL, NULL},
    {SP_PUT_SIZE, "n_routed_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_SIZE, "moe_intermediate_size", "expert_feed_forward_length", NULL},
    {SP_PUT_SIZE, "n_shared_experts", "expert_shared_count", NULL},
    {SP_PUT_SIZE, "n_group", "expert_group_count", NULL},
    {SP_PUT_SIZE, "topk_group", "expert_group_used_count", NULL},
    {SP_PUT_SIZE, "first_k_dense_replace", "leading_dense_block_count", "0"},
    {SP_PUT_SIZE, "num_nextn_predict_layers", "nextn_predict_layers", NULL},
    {SP_PUT_NORM_TOPK, NULL, NULL, "true"},
    {SP_PUT_FLOAT, "routed_scaling_factor", "expert_weights_scale", NULL},
    {SP_PUT_HAS, "use_qk_norm", "attn_q_norm.weight", NULL},
    {SP_PUT_ROTARY, NULL, NULL, NULL},
    {0},
};

const struct sp_family sp_families_glm[] = {
    {
        .name = "glm",
        .architecture = "GlmForCausalLM",
        GLM4_LAYERS,
        .aliases = {sp_aliases_gate_up, sp_aliases_interleaved_heads},
    },
    {
        .name = "glm4",
        .architecture = "Glm4ForCausalLM",
        GLM4_LAYERS,
        .norms = SP_NORM_SANDWICH,
        .aliases = {glm4_aliases, sp_aliases_gate_up, sp_aliases_interleaved_heads},
        .gguf = {.archs = {{.name = "glm4"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_ROTARY, NULL, NULL, NULL}),
                 .bias_key = "attention_bias"},
    },
    {
        .name = "glm4v_text",
        .architecture = "Glm4vTextModel",
        .sizes = {151552, 4096, 13696, 40, 32, 2, 0, 32768, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_SANDWICH,
        .partial_rotary = 1,
        .qkv_bias = SP_BIAS_ALWAYS,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .aliases = {glm4_aliases, sp_aliases_gate_up, sp_aliases_interleaved_heads},
    },
    {
        .name = "glm4_moe",
        .architecture = "Glm4MoeForCausalLM",
        .sizes = {151552, 4096, 10944, 46, 96, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .partial_rotary = 0.5,
        GLM4_MOE_LAYERS,
        SP_EXPERT_SIZES(128, 8, 1408, 1, 1),
        .routing = {GLM4_MOE_ROUTING},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts},
        .prediction_layer = true,
        .gguf = {.archs = {{.name = "glm4moe"}},
                 .members = glm4_moe_members,
                 .bias_key = "attention_bias"},
    },
    {
        .name = "glm4v_moe_text",
        .architecture = "Glm4vMoeTextModel",
        .sizes = {151424, 4096, 10944, 46, 96, 8, 0, 65536, 0},
        .norm_eps = 1e-5,
        .partial_rotary = 0.5,
        GLM4_MOE_LAYERS,
        .attention_bias = true,
        SP_EXPERT_SIZES(128, 8, 1408, 1, 1),
        .routing = {GLM4_MOE_ROUTING},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts},
    },
    {
        .name = "sarvam_moe",
        .architecture = "SarvamMoEForCausalLM",
        .run_as = "Glm4MoeForCausalLM",
        .sizes = {262144, 4096, 8192, 19, 64, 4, 64, 131072, 0},
        .theta = 8e6,
        .partial_rotary = 1,
        GLM4_MOE_LAYERS,
        .qk_normed = true,
        SP_EXPERT_SIZES(128, 6, 1024, 1, 1),
        .routing = {GLM4_MOE_ROUTING, .scale = 2.5},
        /* Keys of Sarvam's own configs. */
        .key_names = SP_ROWS(sp_key_name, {"num_experts", "n_routed_experts"},
                             {"num_shared_experts", "n_shared_experts"},
                             {"num_mtp_layers", "num_nextn_predict_layers"},
                             {"use_qkv_bias", "attention_bias"}),
        .aliases = {sarvam_aliases, sp_aliases_experts, sp_aliases_shared_experts},
    },
    {
        .name = "glm4_moe_lite",
        .architecture = "Glm4MoeLiteForCausalLM",
        .sizes = {154880, 2048, 10240, 47, 20, 20, 64, 202752, 0},
        .norm_eps = 1e-5,
        SP_V3_LAYERS(.defaults = {SP_LATENT(512, 768, 192, 256), .rows_paired = true}),
        SP_EXPERT_SIZES(64, 4, 1536, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 1.8},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .prediction_layer = true,
    },
    {.name = NULL},
};
