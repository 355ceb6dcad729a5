/* OLMo 1 to 3, OLMoE and FlexOlmo. */
#include "format/family/families/families.h"

static const struct sp_gguf_member olmo_members[] = {
    {SP_PUT_FLOAT, "clip_qkv", "attention.clamp_kqv", NULL},
    {0},
};

static const struct sp_gguf_member window_members[] = {
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {0},
};

static const struct sp_gguf_member olmoe_members[] = {
    {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_FLOAT, "clip_qkv", "attention.clamp_kqv", NULL},
    {SP_PUT_WORD, "norm_topk_prob", NULL, "false"},
    {0},
};

const struct sp_family sp_families_olmo[] = {
    {
        .name = "olmo",
        .architecture = "OlmoForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "",
        .norm_centered = true,
        .norm_weightless = true,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.qkv_limit = true},
        .gguf = {.archs = {{.name = "olmo"}},
                 .members = olmo_members,
                 .permuted = SP_GGUF_PERMUTED_MATRICES},
    },
    {
        .name = "olmo2",
        .architecture = "Olmo2ForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .mlp_bias = SP_BIAS_NEVER,
        .gguf = {.archs = {{.name = "olmo2"}}, .members = window_members},
    },
    {
        .name = "olmo3",
        .architecture = "Olmo3ForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .theta = 5e5,
        .local_unscaled = true,
        .windows = SP_WINDOWS_PATTERN,
        .window = 4096,
        .window_pattern = 4,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "olmo2", .with = "attention.sliding_window"},
                           {.name = "olmo3"}},
                 .members = window_members},
    },
    {
        .name = "olmoe",
        .architecture = "OlmoeForCausalLM",
        .sizes = {50304, 2048, 2048, 16, 16, 0, 0, 4096, 0},
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_WHOLE,
        .mlp_bias = SP_BIAS_NEVER,
        .n_experts = 64,
        .n_experts_used = 8,
        .reads = {.layer_types = true, .experts = true},
        .aliases = {sp_aliases_experts},
        .gguf = {.archs = {{.name = "olmoe"}}, .members = olmoe_members},
    },
    {
        .name = "flex_olmo",
        .architecture = "FlexOlmoForCausalLM",
        .sizes = {100352, 4096, 11008, 32, 32, 0, 0, 4096, 0},
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
        .n_experts = 7,
        .n_experts_used = 5,
        .reads = {.experts = true},
        .aliases = {sp_aliases_experts},
    },
    {.name = NULL},
};
