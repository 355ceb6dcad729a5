/* Mistral, Ministral, Mixtral and Mistral Small 4. */
#include "format/family/families/families.h"

static const struct sp_latent_family latent_mistral4 = {.defaults = {.kv_rank = 256,
                                                                     .q_rank = 1024,
                                                                     .nope_dim = 64,
                                                                     .value_dim = 128,
                                                                     .rows_paired = true},
                                                        .partial_of_head = true};

static const struct sp_gguf_member ministral3_members[] = {
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_NOTHING, NULL, "attention.temperature_scale", NULL},
    {0},
};

const struct sp_key_name sp_gguf_keys_mistral3[] = {
    {"rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast"},
    {"rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow"},
    {"rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
    {"rope.scaling_beta", "attention.temperature_scale"},
    {0},
};

const struct sp_family sp_families_mistral[] = {
    {
        .name = "mistral",
        .architecture = "MistralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .biases = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "llama",
                            .with = "attention.sliding_window",
                            .without = "expert_count"}},
                 .members = sp_gguf_members_llama,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "ministral",
        .architecture = "MinistralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .biases = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
    },
    {
        .name = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .sizes = {131072, 4096, 14336, 34, 32, 8, 128, 262144, 0},
        .norm_eps = 1e-5,
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16,"
                        "\"original_max_position_embeddings\":16384,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"llama_4_scaling_beta\":0.1}",
        .windows = SP_WINDOWS_ALL,
        .biases = SP_BIAS_NEVER,
        .reads = {.query_growth = true},
        .gguf = {.archs = {{.name = "mistral3"}},
                 .members = ministral3_members,
                 .key_names = sp_gguf_keys_mistral3,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "mistral4",
        .architecture = "Mistral4ForCausalLM",
        .sizes = {131072, 4096, 12288, 36, 32, 32, 64, 1048576, 0},
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":128,"
                        "\"original_max_position_embeddings\":8192,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"llama_4_scaling_beta\":0.1}",
        .latent = &latent_mistral4,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS},
        SP_EXPERT_SIZES(128, 4, 2048, 0, 1),
        .routing = {.n_groups = 1, .n_groups_used = 1, .norm = true, .norm_eps = 1e-20},
        .reads = {.query_growth = true, SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "mixtral",
        .architecture = "MixtralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .biases = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(8, 2, 0, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {sp_aliases_block_sparse, sp_aliases_experts},
        .gguf = {.archs = {{.name = "llama", .with = "expert_count"}},
                 .members = sp_gguf_members_llama,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {.name = NULL},
};
