/* The rows of the family table, one array per lineage, each in the source file of that name. Every
 * array ends with a row without a name. */
#ifndef SP_FORMAT_FAMILY_FAMILIES_FAMILIES_H
#define SP_FORMAT_FAMILY_FAMILIES_FAMILIES_H

#include "format/config/family_row.h"
#include "format/family/tensor_alias.h"

#include <math.h>

/* GGUF members of Llama and the families that share its value of general.architecture. */
extern const struct sp_gguf_member sp_gguf_members_llama[];
/* Keys that ollama's converter writes for the models of mistral3. */
extern const struct sp_key_name sp_gguf_keys_mistral3[];

/* Makes a layer use the keys of the last layer of its type that has keys of its own. */
void sp_family_share_keys(struct sp_config *c, unsigned layer, unsigned n_own,
                          const struct sp_config_text *t);

/* Reads swiglu_limit and swiglu_alpha, the constant inside the gate, which the kernels have built
 * in. */
sp_read_fn sp_read_clamped_swiglu;

/* A list of few rows where it is used. */
#define SP_ROWS(type, ...)                                                                         \
    (const struct type[])                                                                          \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* LayerNorm with biases; `key` is that of its epsilon. */
#define SP_LAYER_NORM(eps, key)                                                                    \
    .norm_eps = (eps), .norm_eps_key = (key), .norm_centered = true, .norm_bias = true

/* The sizes of latent attention; q 0: queries have no latent. */
#define SP_LATENT(kv, q, nope, value)                                                              \
    .kv_rank = (kv), .q_rank = (q), .nope_dim = (nope), .value_dim = (value)

/* The sizes of Mamba-2 and of Nemotron-H, and the keys and defaults of Granite 4 and Falcon-H1. */
#define SP_MAMBA2_SIZES                                                                            \
    .n_heads = 128, .head_dim = 64, .n_groups = 8, .state_dim = 128, .kernel = 4, .conv_bias = true
#define SP_MAMBA_HYBRID                                                                            \
    .heads = "mamba_n_heads", .head_dim = "mamba_d_head", .groups = "mamba_n_groups",              \
    .state = "mamba_d_state", .kernel = "mamba_d_conv", .conv_bias = "mamba_conv_bias",            \
    .proj_bias = "mamba_proj_bias",                                                                \
    .defaults = {.n_heads = 128,                                                                   \
                 .n_groups = 1,                                                                    \
                 .state_dim = 256,                                                                 \
                 .kernel = 4,                                                                      \
                 .conv_bias = true,                                                                \
                 .max_step = INFINITY}

/* What Gemma 2 and its descendants have in common. */
#define SP_GEMMA_LAYERS(scalar)                                                                    \
    .mlp_bias = SP_BIAS_NEVER, .query_scalar = (scalar), .activation_key = "hidden_activation",    \
    .activation = "gelu_pytorch_tanh", .tied = true, .scaled_embedding = true

/* The experts of DeepSeek-V3 and its descendants. */
#define SP_V3_ROUTING .law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true, .norm_eps = 1e-20
#define SP_EXPERT_SIZES(all, used, width, dense, shared)                                           \
    .n_experts = (all), .n_experts_used = (used), .n_expert_ffn = (width), .n_dense = (dense),     \
    .n_shared = (shared)
#define SP_V3_KEYS                                                                                 \
    .count = "n_routed_experts", .dense = "first_k_dense_replace", .shared = "n_shared_experts"
#define SP_V3_READS .experts = true, .expert_groups = true, .routed_scale = true
#define SP_V3_LAYERS(...)                                                                          \
    .latent = &(const struct sp_latent_family){__VA_ARGS__}, .mlp_bias = SP_BIAS_NEVER,            \
    .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"}, .reads = {SP_V3_READS}

extern const struct sp_family sp_families_cohere[], sp_families_deepseek[], sp_families_encoders[],
    sp_families_ernie[], sp_families_exaone[], sp_families_falcon[], sp_families_gemma[],
    sp_families_gemma4[], sp_families_glm[], sp_families_gpt_oss[], sp_families_granite[],
    sp_families_hunyuan[], sp_families_indexed[], sp_families_kimi[], sp_families_lfm[],
    sp_families_llama[], sp_families_longcat[], sp_families_mamba1[], sp_families_mamba2[],
    sp_families_minimax[], sp_families_mistral[], sp_families_nemotron[], sp_families_olmo[],
    sp_families_phi[], sp_families_qwen[], sp_families_small[], sp_families_muse[],
    sp_families_sparse[], sp_families_llama4[], sp_families_gpt[], sp_families_gemma3n[],
    sp_families_mimo[], sp_families_looped[], sp_families_deepseek_v4[], sp_families_inkling[];

#endif
