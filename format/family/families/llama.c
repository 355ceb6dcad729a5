/* Llama, and models that have its block under other names. */
#include "format/family/families/families.h"

/* Experts as Mixtral has them, and a window. */
const struct sp_gguf_member sp_gguf_members_llama[] = {
    {SP_PUT_SIZE, "num_local_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {0},
};

const struct sp_family sp_families_llama[] = {
    {
        .name = "llama",
        .architecture = "LlamaForCausalLM",
        .old_architecture = "LLaMAForCausalLM",
        .gguf = {.archs = {{.name = "llama"},
                           {.name = "mistral3", .without = "attention.temperature_scale"}},
                 .members = sp_gguf_members_llama,
                 .key_names = sp_gguf_keys_mistral3,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "internlm3",
        .architecture = "InternLM3ForCausalLM",
        .run_as = "LlamaForCausalLM",
        .sizes = {128512, 4096, 10240, 48, 32, 2, 128, 32768, 0},
        .norm_eps = 1e-5,
        .other_bias_keys = {"qkv_bias", "bias"},
    },
    {
        .name = "iquestcoder",
        .architecture = "IQuestCoderForCausalLM",
        .run_as = "LlamaForCausalLM",
        .sizes = {76800, 5120, 27648, 80, 40, 8, 128, 131072, 0},
        .norm_eps = 1e-5,
        .window_switch = true,
    },
    {
        .name = "cwm",
        .architecture = "CwmForCausalLM",
        .sizes = {128256, 6144, 21504, 64, 48, 8, 128, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .rope_default = "{\"rope_type\":\"llama3\",\"rope_theta\":1e6,\"factor\":16,"
                        "\"low_freq_factor\":1,\"high_freq_factor\":4,"
                        "\"original_max_position_embeddings\":8192}",
        .windows = SP_WINDOWS_SKIP_FIRST_OF_4,
        .window = 8192,
        .needs_window = true,
        .qkv_bias = SP_BIAS_NEVER,
        .o_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
    },
    {.name = NULL},
};
