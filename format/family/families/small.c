/* Lineages of one family each. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_alias apertus_aliases[] = {
    {"input_layernorm.weight", "attention_layernorm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "feedforward_layernorm.weight", NULL, 0},
    {"mlp.act_fn.beta", NULL, sp_layout_scalar, 0},
    {"mlp.act_fn.eps", NULL, sp_layout_scalar, 0},
    {0},
};

/* The tokens of images and audio have no logits. */
static enum sp_status read_outputs(struct sp_config *c, const struct sp_config_text *t)
{
    return sp_text_unsigned(t, "output_vocab_size", 1, t->sizes->n_vocab, &c->n_vocab);
}

#define APERTUS_ROPE                                                                               \
    "{\"rope_type\":\"llama3\",\"rope_theta\":12e6,\"factor\":8,\"low_freq_factor\":1,"            \
    "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}"
#define APERTUS_LAYERS                                                                             \
    .norm_eps = 1e-5, .qk_norm = SP_QK_HEADS, .theta = 12e6, .rope_default = APERTUS_ROPE,         \
    .mlp_bias = SP_BIAS_NEVER, .activation = "xielu", .plain_mlp = true

/* One norm of each head, or those of all heads as one vector, as GGUF files have them. */
static const struct sp_alias stablelm_aliases[] = {
    {"self_attn.q_norm.weight", "self_attn.q_layernorm.norms.%u.weight", sp_layout_each_head, 0},
    {"self_attn.k_norm.weight", "self_attn.k_layernorm.norms.%u.weight", sp_layout_each_head, 0},
    {"self_attn.q_norm.weight", "self_attn.q_layernorm.weight", NULL, 0},
    {"self_attn.k_norm.weight", "self_attn.k_layernorm.weight", NULL, 0},
    {0},
};

static const struct sp_alias afmoe_aliases[] = {
    {"pre_feedforward_layernorm.weight", "pre_mlp_layernorm.weight", NULL, 0},
    {"post_feedforward_layernorm.weight", "post_mlp_layernorm.weight", NULL, 0},
    {"mlp.router.weight", "mlp.router.gate.weight", NULL, 0},
    {"mlp.router.correction", "mlp.expert_bias", NULL, 0},
    {0},
};

/* Layers without a norm in front of the MLP have attention and MLP side by side. */
static const struct sp_gguf_member stablelm_members[] = {
    {SP_PUT_LACKS, "use_parallel_residual", "ffn_norm.weight", NULL},
    {SP_PUT_HAS, "qk_layernorm", "attn_q_norm.weight", NULL},
    {SP_PUT_ROTARY, NULL, NULL, NULL},
    {SP_PUT_NOTHING, NULL, "use_parallel_residual", NULL},
    {0},
};

static const struct sp_gguf_member minimax_m2_members[] = {
    {SP_PUT_SIGMOID, NULL, NULL, NULL},
    {SP_PUT_SIZE, "num_local_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_SIZE, "intermediate_size", "expert_feed_forward_length", NULL},
    {SP_PUT_SIZE, "rotary_dim", "rope.dimension_count", NULL},
    {0},
};

static const struct sp_gguf_member mellum_members[] = {
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_MLP_TYPES, NULL, NULL, NULL},
    {SP_PUT_WORD, "norm_topk_prob", NULL, "true"},
    {0},
};

/* Embeddings are scaled in all of its models. */
static const struct sp_gguf_member afmoe_members[] = {
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_SIZE, "num_shared_experts", "expert_shared_count", NULL},
    {SP_PUT_SIZE, "num_dense_layers", "leading_dense_block_count", NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_FLOAT, "route_scale", "expert_weights_scale", NULL},
    {SP_PUT_WORD, "mup_enabled", NULL, "true"},
    {SP_PUT_NOTHING, NULL, "expert_gating_func", NULL},
    {SP_PUT_NOTHING, NULL, "expert_weights_norm", NULL},
    {0},
};

const struct sp_family sp_families_small[] = {
    {
        .name = "helium",
        .architecture = "HeliumForCausalLM",
        .sizes = {48000, 2560, 7040, 24, 20, 20, 128, 4096, 0},
        .norm_eps = 1e-8,
        .theta = 1e5,
        .o_bias = SP_BIAS_NEVER,
        .aliases = {sp_aliases_interleaved_heads},
    },
    {
        .name = "seed_oss",
        .architecture = "SeedOssForCausalLM",
        .sizes = {155136, 4096, 27648, 64, 80, 8, 128, 524288, 0},
        .o_bias_key = "attention_out_bias",
        .attention_bias = true,
        .gguf = {.archs = {{.name = "seed_oss"}}, .bias_key = "attention_bias"},
    },
    {
        .name = "smollm3",
        .architecture = "SmolLM3ForCausalLM",
        .sizes = {128256, 2048, 11008, 36, 16, 4, 0, 32768, 0},
        .theta = 2e6,
        .windows = SP_WINDOWS_NOPE_LAYERS,
        .window_switch = true,
        .tied = true,
        .reads = {.layer_types = true, .no_rope_layers = true},
        .gguf = {.archs = {{.name = "smollm3"}},
                 /* No converter states where this class rotates. */
                 .members =
                     SP_ROWS(sp_gguf_member, {SP_PUT_WORD, "no_rope_layer_interval", NULL, "4"}),
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "bitnet",
        .architecture = "BitNetForCausalLM",
        .sizes = {128256, 2560, 6912, 30, 20, 5, 0, 2048, 0},
        .norm_eps = 1e-5,
        .inner_norms = true,
        .theta = 5e5,
        .activation = "relu2",
        .mlp_bias = SP_BIAS_NEVER,
        .aliases = {SP_ROWS(
            sp_alias, {"self_attn.inner_norm.weight", "self_attn.attn_sub_norm.weight", NULL, 0},
            {"mlp.inner_norm.weight", "mlp.ffn_sub_norm.weight", NULL, 0})},
    },
    {
        .name = "arcee",
        .architecture = "ArceeForCausalLM",
        .sizes = {32000, 2560, 18432, 32, 32, 0, 0, 4096, 0},
        .norm_eps = 1e-5,
        .activation = "relu2",
        .plain_mlp = true,
        .gguf = {.archs = {{.name = "arcee"}}, .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "hyperclovax",
        .architecture = "HyperCLOVAXForCausalLM",
        .norms = SP_NORM_SANDWICH,
        .mup = true,
        .reads = {.multipliers = true},
        .aliases = {SP_ROWS(
            sp_alias, {"post_attention_layernorm.weight", "post_norm1.weight", NULL, 0},
            {"pre_feedforward_layernorm.weight", "post_attention_layernorm.weight", NULL, 0},
            {"post_feedforward_layernorm.weight", "post_norm2.weight", NULL, 0})},
    },
    {
        .name = "apertus",
        .architecture = "ApertusForCausalLM",
        .sizes = {131072, 4096, 14336, 32, 32, 0, 0, 65536, 0},
        APERTUS_LAYERS,
        .aliases = {apertus_aliases},
        .gguf = {.archs = {{.name = "apertus"}}},
    },
    {
        .name = "apertus1p5_text",
        .architecture = "Apertus1p5TextForCausalLM",
        .sizes = {266752, 4096, 14336, 32, 32, 0, 0, 65536, 0},
        APERTUS_LAYERS,
        .read_own = read_outputs,
        .aliases = {apertus_aliases},
    },
    {
        .name = "nanochat",
        .architecture = "NanoChatForCausalLM",
        .sizes = {50304, 768, 8192, 12, 6, 0, 0, 2048, 0},
        .qk_norm = SP_QK_ROTATED,
        .norm_weightless = true,
        .embedding_normed = true,
        .mlp_bias = SP_BIAS_NEVER,
        .logit_cap = 15,
        .activation = "relu2",
        .plain_mlp = true,
        .reads = {.logit_cap = true},
        .aliases = {SP_ROWS(sp_alias, {"self_attn.q_proj.*", NULL, sp_layout_swapped_halves, 0},
                            {"self_attn.k_proj.*", NULL, sp_layout_swapped_halves, 0}),
                    sp_aliases_fc},
    },
    {
        .name = "starcoder2",
        .architecture = "Starcoder2ForCausalLM",
        .sizes = {49152, 3072, 12288, 30, 24, 2, 0, 4096, 0},
        SP_LAYER_NORM(1e-5, "norm_epsilon"),
        .windows = SP_WINDOWS_ALL,
        .bias_key = "use_bias",
        .attention_bias = true,
        .activation = "gelu_pytorch_tanh",
        .plain_mlp = true,
        .tied = true,
        .aliases = {SP_ROWS(sp_alias, {"mlp.up_proj.*", "mlp.c_fc.*", NULL, 0},
                            {"mlp.down_proj.*", "mlp.c_proj.*", NULL, 0})},
        .gguf =
            {.archs = {{.name = "starcoder2"}},
             /* The converter leaves the window out, which is the same in all published models. */
             .members = SP_ROWS(sp_gguf_member, {SP_PUT_WINDOW, NULL, NULL, "4096"}),
             .bias_key = "use_bias"},
    },
    {
        .name = "jais2",
        .architecture = "Jais2ForCausalLM",
        .sizes = {150272, 3328, 26624, 32, 26, 0, 0, 8192, 0},
        SP_LAYER_NORM(1e-5, "layer_norm_eps"),
        .attention_bias = true,
        .mlp_biased = true,
        .activation = "relu2",
        .plain_mlp = true,
        .gguf = {.archs = {{.name = "jais2"}}, .bias_key = "attention_bias"},
    },
    {
        .name = "stablelm",
        .architecture = "StableLmForCausalLM",
        .sizes = {50304, 2560, 6912, 32, 32, 32, 0, 4096, 0},
        SP_LAYER_NORM(1e-5, "layer_norm_eps"),
        .qk_norm = SP_QK_OWN,
        .qk_norm_key = "qk_layernorm",
        .partial_rotary = 0.25,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .bias_key = "use_qkv_bias",
        .parallel_key = "use_parallel_residual",
        .aliases = {stablelm_aliases},
        .gguf = {.archs = {{.name = "stablelm"}},
                 .members = stablelm_members,
                 /* A norm of each head: one vector of all heads. */
                 .names = SP_ROWS(sp_gguf_name, {"attn_q_norm", "self_attn.q_norm", SP_GGUF_VECTOR},
                                  {"attn_k_norm", "self_attn.k_norm", SP_GGUF_VECTOR}),
                 .bias_key = "use_qkv_bias"},
    },
    {
        .name = "minimax_m2",
        .architecture = "MiniMaxM2ForCausalLM",
        .sizes = {200064, 3072, 1536, 62, 48, 8, 128, 196608, 0},
        .qk_norm = SP_QK_WHOLE,
        .theta = 5e6,
        .partial_rotary = 1,
        .rotary_dim = true,
        .biases = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(256, 8, 0, 0, 0),
        .expert_keys = {.width = "intermediate_size"},
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {sp_aliases_block_sparse, sp_aliases_experts},
        .gguf = {.archs = {{.name = "minimax-m2"}}, .members = minimax_m2_members},
    },
    {
        .name = "solar_open",
        .architecture = "SolarOpenForCausalLM",
        .sizes = {196608, 4096, 10240, 48, 64, 8, 128, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.count = "n_routed_experts", .shared = "n_shared_experts"},
        SP_EXPERT_SIZES(128, 8, 1280, 0, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1},
        .reads = {SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts},
    },
    {
        .name = "dots1",
        .architecture = "Dots1ForCausalLM",
        .sizes = {152064, 4608, 10944, 62, 32, 32, 0, 2048, 0},
        .qk_norm = SP_QK_HEADS,
        .windows = SP_WINDOWS_FROM_LAYER,
        .window = 4096,
        .window_layers = 62,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS},
        .n_expert_ffn = 1408,
        .routing = {.law = SP_ROUTE_SIGMOID,
                    .corrected = true,
                    .n_groups = 1,
                    .n_groups_used = 1,
                    .norm_eps = 1e-20},
        .reads = {.layer_types = true, SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts},
        .gguf = {.archs = {{.name = "dots1"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_ROUTED, NULL, NULL, NULL})},
    },
    {
        .name = "mellum",
        .architecture = "MellumForCausalLM",
        .sizes = {98304, 2304, 7168, 28, 32, 4, 128, 131072, 0},
        .qk_norm = SP_QK_HEADS,
        .theta = 5e5,
        .rope_by_type = true,
        .rope_default = "{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":5e5},"
                        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}",
        .windows = SP_WINDOWS_LISTED,
        .window = 1024,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.types = "mlp_layer_types"},
        SP_EXPERT_SIZES(64, 8, 896, 0, 0),
        .routing = {.norm = true},
        .reads = {.layer_types = true, .experts = true},
        .aliases = {sp_aliases_experts},
        .prediction_head = true,
        .prediction_windowed = true,
        .gguf = {.archs = {{.name = "mellum"}}, .members = mellum_members},
    },
    {
        .name = "afmoe",
        .architecture = "AfmoeForCausalLM",
        .sizes = {200192, 2048, 6144, 32, 16, 0, 128, 16384, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .full_unrotated = true,
        .windows = SP_WINDOWS_PATTERN,
        .window = 1024,
        .window_pattern = 4,
        .pattern_key = "global_attn_every_n_layers",
        .needs_window = true,
        .mlp_bias = SP_BIAS_NEVER,
        .output_gate = true,
        .root_key = "mup_enabled",
        .expert_keys = {.dense = "num_dense_layers",
                        .shared = "num_shared_experts",
                        .scale = "route_scale"},
        SP_EXPERT_SIZES(64, 6, 1408, 1, 2),
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true, .norm_eps = 1e-20},
        .router_norm_fixed = true,
        .reads = {.layer_types = true, .experts = true, .routed_scale = true},
        .aliases = {afmoe_aliases, sp_aliases_experts, sp_aliases_shared_experts},
        .gguf = {.archs = {{.name = "afmoe"}}, .members = afmoe_members},
    },
    {.name = NULL},
};
