/* Hunyuan, dense and with experts, and HY 3. */
#include "format/family/families/families.h"

static const struct sp_alias hunyuan_aliases[] = {
    {"self_attn.q_norm.weight", "self_attn.query_layernorm.weight", NULL, 0},
    {"self_attn.k_norm.weight", "self_attn.key_layernorm.weight", NULL, 0},
    {"mlp.router.weight", "mlp.gate.wg.weight", NULL, 0},
    {"mlp.shared_expert.*", "mlp.shared_mlp.*", NULL, 0},
    {0},
};

#define HUNYUAN_LAYERS                                                                             \
    .sizes = {290943, 4096, 11008, 32, 32, 0, 0, 2048, 0}, .norm_eps = 1e-5,                       \
    .qk_norm = SP_QK_ROTATED, .rope_alpha = true, .mlp_bias = SP_BIAS_NEVER

const struct sp_family sp_families_hunyuan[] = {
    {
        .name = "hunyuan_v1_dense",
        .architecture = "HunYuanDenseV1ForCausalLM",
        HUNYUAN_LAYERS,
        .aliases = {hunyuan_aliases},
        .gguf = {.archs = {{.name = "hunyuan-dense"}}},
    },
    {
        .name = "hunyuan_v1_moe",
        .architecture = "HunYuanMoEV1ForCausalLM",
        HUNYUAN_LAYERS,
        .expert_keys = {.used = "moe_topk", .width = "intermediate_size"},
        SP_EXPERT_SIZES(1, 1, 0, 0, 0),
        .parallel_ffn = true,
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {hunyuan_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "hunyuan-moe"}},
                 .members =
                     SP_ROWS(sp_gguf_member, {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
                             {SP_PUT_SIZE, "moe_topk", "expert_used_count", NULL},
                             {SP_PUT_SIZE, "num_shared_expert", "expert_shared_count", NULL})},
    },
    {
        .name = "hy_v3",
        .architecture = "HYV3ForCausalLM",
        .sizes = {120832, 4096, 13312, 80, 64, 8, 128, 131072, 0},
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_HEADS,
        .theta = 11158840,
        .expert_keys = {.dense = "first_k_dense_replace",
                        .types = "mlp_layer_types",
                        .shared = "num_shared_experts",
                        .scale = "router_scaling_factor"},
        SP_EXPERT_SIZES(192, 8, 1536, 1, 1),
        .routing = {.law = SP_ROUTE_SIGMOID,
                    .corrected = true,
                    .norm = true,
                    .norm_eps = 1e-20,
                    .scale = 2.826},
        .router_norm_fixed = true,
        .reads = {.experts = true, .routed_scale = true},
        .aliases = {SP_ROWS(sp_alias, {"mlp.router.weight", "mlp.router.gate.weight", NULL, 0},
                            {"mlp.router.correction", "mlp.expert_bias", NULL, 0},
                            {"mlp.shared_expert.*", "mlp.shared_mlp.*", NULL, 0}),
                    sp_aliases_experts},
        .prediction_layer = true,
        .prediction_normed = true,
        .prediction_names = sp_aliases_next_final,
    },
    {.name = NULL},
};
