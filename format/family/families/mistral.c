/* Mistral, Ministral and Mixtral. */
#include "format/family/families/families.h"

/* Mistral3Config's own default of tie_word_embeddings is true, while its text models are untied. */
static const struct sp_wrapper wrapper_mistral3 = {
    .name = "mistral3",
    .architecture = "Mistral3ForConditionalGeneration",
    .text_type = "mistral",
    .text_tie_first = true,
};

static const struct sp_alias mixtral_aliases[] = {
    {"mlp.router.weight", "block_sparse_moe.gate.weight", NULL, 0},
    {"mlp.experts.gate_proj.weight", "block_sparse_moe.experts.%u.w1.weight", sp_layout_each_expert,
     0},
    {"mlp.experts.up_proj.weight", "block_sparse_moe.experts.%u.w3.weight", sp_layout_each_expert,
     0},
    {"mlp.experts.down_proj.weight", "block_sparse_moe.experts.%u.w2.weight", sp_layout_each_expert,
     0},
    {"mlp.experts.gate_proj.weight", "block_sparse_moe.switch_mlp.gate_proj.weight", NULL, 0},
    {"mlp.experts.up_proj.weight", "block_sparse_moe.switch_mlp.up_proj.weight", NULL, 0},
    {"mlp.experts.down_proj.weight", "block_sparse_moe.switch_mlp.down_proj.weight", NULL, 0},
    {0},
};

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
        .wrapper = &wrapper_mistral3,
        .sizes = {.n_vocab = 32000,
                  .n_hidden = 4096,
                  .n_ffn = 14336,
                  .n_layers = 32,
                  .n_heads = 32,
                  .n_kv_heads = 8,
                  .max_positions = 131072},
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
        .sizes = {.n_vocab = 32000,
                  .n_hidden = 4096,
                  .n_ffn = 14336,
                  .n_layers = 32,
                  .n_heads = 32,
                  .n_kv_heads = 8,
                  .max_positions = 131072},
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .biases = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
    },
    {
        .name = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .wrapper = &wrapper_mistral3,
        .sizes = {.n_vocab = 131072,
                  .n_hidden = 4096,
                  .n_ffn = 14336,
                  .n_layers = 34,
                  .n_heads = 32,
                  .n_kv_heads = 8,
                  .head_dim = 128,
                  .max_positions = 262144},
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
        .name = "mixtral",
        .architecture = "MixtralForCausalLM",
        .sizes = {.n_vocab = 32000,
                  .n_hidden = 4096,
                  .n_ffn = 14336,
                  .n_layers = 32,
                  .n_heads = 32,
                  .n_kv_heads = 8,
                  .max_positions = 131072},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .biases = SP_BIAS_NEVER,
        .n_experts = 8,
        .n_experts_used = 2,
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {mixtral_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "llama", .with = "expert_count"}},
                 .members = sp_gguf_members_llama,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {.name = NULL},
};
