/* The rows of the family table, one array per lineage, each in the source file of that name. Every
 * array ends with a row without a name. */
#ifndef SP_FORMAT_FAMILY_FAMILIES_FAMILIES_H
#define SP_FORMAT_FAMILY_FAMILIES_FAMILIES_H

#include "format/config/family_row.h"
#include "format/family/tensor_alias.h"

/* GGUF members of Llama and the families that share its value of general.architecture. */
extern const struct sp_gguf_member sp_gguf_members_llama[];
/* Keys that ollama's converter writes for the models of mistral3. */
extern const struct sp_key_name sp_gguf_keys_mistral3[];

/* Makes a layer use the keys of the last layer of its type that has keys of its own. */
SP_MUST_CHECK enum sp_status sp_family_share_keys(struct sp_config *c, unsigned layer,
                                                  unsigned n_own, struct sp_err *err);

/* Reads swiglu_limit and swiglu_alpha, the constant inside the gate, which the kernels have built
 * in. */
SP_MUST_CHECK enum sp_status sp_read_clamped_swiglu(struct sp_config *c,
                                                    const struct sp_config_text *t,
                                                    const struct sp_sizes *sizes,
                                                    struct sp_err *err);

/* LayerNorm with biases, as most configurations spell it. */
#define SP_LAYER_NORM                                                                              \
    .norm_eps = 1e-5, .norm_eps_key = "layer_norm_eps", .norm_centered = true, .norm_bias = true

/* The experts of DeepSeek-V3 and its descendants. */
#define SP_V3_ROUTING .law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true, .norm_eps = 1e-20
#define SP_EXPERT_SIZES(all, used, width, dense, shared)                                           \
    .n_experts = (all), .n_experts_used = (used), .n_expert_ffn = (width), .n_dense = (dense),     \
    .n_shared = (shared)
#define SP_V3_KEYS                                                                                 \
    .count = "n_routed_experts", .dense = "first_k_dense_replace", .shared = "n_shared_experts"
#define SP_V3_READS .experts = true, .expert_groups = true, .routed_scale = true

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
