/* Hunyuan, dense and with experts. */
#include "format/family/families/families.h"

static const struct sp_alias hunyuan_aliases[] = {
    {"self_attn.q_norm.weight", "self_attn.query_layernorm.weight", NULL, 0},
    {"self_attn.k_norm.weight", "self_attn.key_layernorm.weight", NULL, 0},
    {"mlp.router.weight", "mlp.gate.wg.weight", NULL, 0},
    {"mlp.shared_expert.*", "mlp.shared_mlp.*", NULL, 0},
    {0},
};

static const struct sp_gguf_member moe_members[] = {
    {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "moe_topk", "expert_used_count", NULL},
    {SP_PUT_SIZE, "num_shared_expert", "expert_shared_count", NULL},
    {0},
};

const struct sp_family sp_families_hunyuan[] = {
    {
        .name = "hunyuan_v1_dense",
        .architecture = "HunYuanDenseV1ForCausalLM",
        .sizes = {.n_vocab = 290943,
                  .n_hidden = 4096,
                  .n_ffn = 11008,
                  .n_layers = 32,
                  .n_heads = 32,
                  .max_positions = 2048},
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_ROTATED,
        .rope_alpha = true,
        .mlp_bias = SP_BIAS_NEVER,
        .aliases = {hunyuan_aliases},
        .gguf = {.archs = {{.name = "hunyuan-dense"}}},
    },
    {
        .name = "hunyuan_v1_moe",
        .architecture = "HunYuanMoEV1ForCausalLM",
        .sizes = {.n_vocab = 290943,
                  .n_hidden = 4096,
                  .n_ffn = 11008,
                  .n_layers = 32,
                  .n_heads = 32,
                  .max_positions = 2048},
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_ROTATED,
        .rope_alpha = true,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.used = "moe_topk", .width = "intermediate_size"},
        .n_experts = 1,
        .n_experts_used = 1,
        .parallel_ffn = true,
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {hunyuan_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "hunyuan-moe"}}, .members = moe_members},
    },
    {.name = NULL},
};
