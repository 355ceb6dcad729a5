/* Defaults are those of transformers' configuration classes: nested text configs are written as the
 * difference to them, so a missing key means the class default and never a formula of other keys.
 */
#include "format/family_table.h"

#include <string.h>

static const struct sp_family families[] = {
    {
        .name = "llama",
        .architecture = "LlamaForCausalLM",
        .sizes = {32000, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_NONE,
        .ignores_layer_types = true,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .mlp_bias = SP_BIAS_BY_CONFIG,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "granite",
        .architecture = "GraniteForCausalLM",
        .sizes = {32000, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_NONE,
        .ignores_layer_types = true,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .mlp_bias = SP_BIAS_BY_CONFIG,
        .reads = SP_READS_MULTIPLIERS,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "mistral",
        .architecture = "MistralForCausalLM",
        .wrapper = "mistral3",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "ministral",
        .architecture = "MinistralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .wrapper = "mistral3",
        .sizes = {131072, 4096, 14336, 34, 32, 8, 128, 262144, 0},
        .norm_eps = 1e-5,
        .theta = 1e4,
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16,"
                        "\"original_max_position_embeddings\":16384,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"llama_4_scaling_beta\":0.1}",
        .windows = SP_WINDOWS_ALL,
        .reads = SP_READS_GROWTH,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 0, 32768, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_LATE,
        .window = 4096,
        .window_switch = true,
        .qkv_bias = SP_BIAS_ALWAYS,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 32768, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_LATE,
        .window = 4096,
        .window_switch = true,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .qk_norm = true,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "qwen3_moe",
        .architecture = "Qwen3MoeForCausalLM",
        .sizes = {151936, 2048, 6144, 24, 32, 4, 0, 32768, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .window_switch = true,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .qk_norm = true,
        .reads = SP_READS_EXPERTS,
        .n_experts = 128,
        .n_experts_used = 8,
        .n_expert_ffn = 768,
        .activation_key = "hidden_act",
        .activation = "silu",
        .storage = SP_STORED_EXPERTS,
    },
    {
        .name = "mixtral",
        .architecture = "MixtralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .reads = SP_READS_EXPERTS,
        .n_experts = 8,
        .n_experts_used = 2,
        .activation_key = "hidden_act",
        .activation = "silu",
        .router_norm = true,
        .storage = SP_STORED_SPARSE | SP_STORED_EXPERTS,
    },
    {
        .name = "qwen3_5_text",
        .architecture = "Qwen3_5ForCausalLM",
        .wrapper = "qwen3_5",
        .sizes = {248320, 4096, 12288, 32, 16, 4, 256, 32768, 0},
        .norm_eps = 1e-6,
        .partial_rotary = 0.25,
        .windows = SP_WINDOWS_NONE,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .norm_shifted = true,
        .qk_norm = true,
        .activation_key = "hidden_act",
        .activation = "silu",
        .delta_layers = true,
        .output_gate = true,
        .prediction_head = true,
        .storage = SP_STORED_GATED,
    },
    {
        .name = "qwen3_5_moe_text",
        .architecture = "Qwen3_5MoeForCausalLM",
        .wrapper = "qwen3_5_moe",
        .sizes = {248320, 2048, 512, 40, 16, 2, 256, 32768, 0},
        .norm_eps = 1e-6,
        .partial_rotary = 0.25,
        .windows = SP_WINDOWS_NONE,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .norm_shifted = true,
        .qk_norm = true,
        .reads = SP_READS_EXPERTS | SP_READS_SHARED,
        .n_experts = 256,
        .n_experts_used = 8,
        .n_expert_ffn = 512,
        .n_shared_ffn = 512,
        .activation_key = "hidden_act",
        .activation = "silu",
        .delta_layers = true,
        .output_gate = true,
        .router_norm = true,
        .prediction_head = true,
        .storage = SP_STORED_EXPERTS | SP_STORED_GATED,
    },
    {
        .name = "lfm2",
        .architecture = "Lfm2ForCausalLM",
        .sizes = {65536, 2560, 12288, 32, 32, 8, 0, 128000, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "norm_eps",
        .theta = 1e6,
        .tied = true,
        .tied_key = "tie_embedding",
        .windows = SP_WINDOWS_NONE,
        .qk_norm = true,
        .activation = "silu",
        .conv_layers = true,
        .adjusted_ffn = true,
        .storage = SP_STORED_LFM2,
    },
    {
        .name = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        .sizes = {256000, 2304, 9216, 26, 8, 4, 256, 8192, 0},
        .norm_eps = 1e-6,
        .theta = 1e4,
        .tied = true,
        .windows = SP_WINDOWS_EVEN,
        .window = 4096,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .norm_shifted = true,
        .post_norms = true,
        .scaled_embedding = true,
        .reads = SP_READS_SCORE_CAP | SP_READS_LOGIT_CAP | SP_READS_QUERY_SCALAR,
        .attention_cap = 50,
        .logit_cap = 30,
        .query_scalar = 256,
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
    },
    {
        .name = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .wrapper = "gemma3",
        .sizes = {262208, 2304, 9216, 26, 8, 4, 256, 131072, 0},
        .norm_eps = 1e-6,
        .theta = 1e6,
        .local_theta = 1e4,
        .tied = true,
        .windows = SP_WINDOWS_PATTERN,
        .window = 4096,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .norm_shifted = true,
        .post_norms = true,
        .qk_norm = true,
        .scaled_embedding = true,
        .reads = SP_READS_LOGIT_CAP | SP_READS_QUERY_SCALAR,
        .query_scalar = 256,
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
    },
    {
        .name = "gemma4_text",
        .architecture = "Gemma4ForCausalLM",
        .wrapper = "gemma4",
        .sizes = {262144, 2304, 9216, 30, 8, 4, 256, 131072, 512},
        .norm_eps = 1e-6,
        .theta = 1e6,
        .local_theta = 1e4,
        .rope_default = "{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6,"
                        "\"partial_rotary_factor\":0.25},"
                        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}",
        .tied = true,
        .windows = SP_WINDOWS_PATTERN,
        .window = 512,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .post_norms = true,
        .qk_norm = true,
        .scaled_embedding = true,
        .reads = SP_READS_LOGIT_CAP | SP_READS_GEMMA4,
        .query_scalar = 1,
        .activation_key = "hidden_activation",
        .activation = "gelu_pytorch_tanh",
        .full_heads = true,
        .storage = SP_STORED_BESIDE,
    },
    {
        .name = "smollm3",
        .architecture = "SmolLM3ForCausalLM",
        .sizes = {128256, 2048, 11008, 36, 16, 4, 0, 32768, 0},
        .norm_eps = 1e-6,
        .theta = 2e6,
        .tied = true,
        .windows = SP_WINDOWS_UNROTATED,
        .window_switch = true,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .mlp_bias = SP_BIAS_BY_CONFIG,
        .reads = SP_READS_NO_ROPE,
        .activation_key = "hidden_act",
        .activation = "silu",
    },
    {
        .name = "phi3",
        .architecture = "Phi3ForCausalLM",
        .sizes = {32064, 3072, 8192, 32, 32, 0, 0, 4096, 0},
        .norm_eps = 1e-5,
        .theta = 1e4,
        .partial_rotary = 1,
        .windows = SP_WINDOWS_ALL,
        .activation_key = "hidden_act",
        .activation = "silu",
        .longrope_only = true,
        .storage = SP_STORED_FUSED,
    },
    {
        .name = "gpt_oss",
        .architecture = "GptOssForCausalLM",
        .sizes = {201088, 2880, 2880, 36, 64, 8, 64, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 150000,
        .rope_default = "{\"rope_type\":\"yarn\",\"factor\":32,\"beta_fast\":32,\"beta_slow\":1,"
                        "\"truncate\":false,\"original_max_position_embeddings\":4096}",
        .windows = SP_WINDOWS_EVEN,
        .window = 128,
        .qkv_bias = SP_BIAS_BY_CONFIG,
        .o_bias = SP_BIAS_BY_CONFIG,
        .attention_bias = true,
        .reads = SP_READS_EXPERTS | SP_READS_SWIGLU,
        .n_experts = 128,
        .n_experts_used = 4,
        .activation_key = "hidden_act",
        .activation = "silu",
        .gpt_oss_mlp = true,
        .storage = SP_STORED_INTERLEAVED,
    },
};

static const struct sp_wrapper wrappers[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", false},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", false},
    /* Mistral3Config's own default at the root is true while its text models are untied. */
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", true},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", true},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", true},
};

enum {
    N_FAMILIES = sizeof families / sizeof families[0],
    N_WRAPPERS = sizeof wrappers / sizeof wrappers[0],
};

const struct sp_family *sp_family_at(size_t i)
{
    return i < N_FAMILIES ? &families[i] : NULL;
}

const struct sp_family *sp_family_by_type(const char *name)
{
    for (size_t i = 0; name && i < N_FAMILIES; i++) {
        if (strcmp(families[i].name, name) == 0) return &families[i];
    }
    return NULL;
}

const struct sp_family *sp_family_by_architecture(const char *name)
{
    /* An early spelling that many Llama conversions still carry. */
    if (name && strcmp(name, "LLaMAForCausalLM") == 0) name = "LlamaForCausalLM";
    for (size_t i = 0; name && i < N_FAMILIES; i++) {
        if (strcmp(families[i].architecture, name) == 0) return &families[i];
    }
    return NULL;
}

const struct sp_wrapper *sp_wrapper_by_type(const char *name)
{
    for (size_t i = 0; name && i < N_WRAPPERS; i++) {
        if (strcmp(wrappers[i].name, name) == 0) return &wrappers[i];
    }
    return NULL;
}

const struct sp_wrapper *sp_wrapper_by_architecture(const char *name)
{
    for (size_t i = 0; name && i < N_WRAPPERS; i++) {
        if (strcmp(wrappers[i].architecture, name) == 0) return &wrappers[i];
    }
    return NULL;
}
