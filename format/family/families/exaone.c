/* EXAONE 3, EXAONE 4 and EXAONE MoE. */
#include "format/family/families/families.h"

/* EXAONE 3 is Llama under other names. */
static const struct sp_alias exaone_aliases[] = {
    {"embed_tokens.weight", "wte.weight", NULL, 0},
    {"norm.weight", "ln_f.weight", NULL, 0},
    {"self_attn.o_proj.*", "attn.attention.out_proj.*", NULL, 0},
    {"self_attn.*", "attn.attention.*", NULL, 0},
    {"input_layernorm.weight", "ln_1.weight", NULL, 0},
    {"post_attention_layernorm.weight", "ln_2.weight", NULL, 0},
    {"mlp.gate_proj.*", "mlp.c_fc_0.*", NULL, 0},
    {"mlp.up_proj.*", "mlp.c_fc_1.*", NULL, 0},
    {"mlp.down_proj.*", "mlp.c_proj.*", NULL, 0},
    {0},
};

static const struct sp_gguf_member exaone_moe_members[] = {
    {SP_PUT_NORM_TOPK, NULL, NULL, "true"},
    {SP_PUT_WINDOW, NULL, NULL, "null"},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {SP_PUT_SIZE, "num_shared_experts", "expert_shared_count", NULL},
    {SP_PUT_SIZE, "n_group", "expert_group_count", NULL},
    {SP_PUT_SIZE, "topk_group", "expert_group_used_count", NULL},
    {SP_PUT_FLOAT, "routed_scaling_factor", "expert_weights_scale", NULL},
    {SP_PUT_MLP_TYPES, NULL, NULL, NULL},
    {SP_PUT_NOTHING, NULL, "leading_dense_block_count", NULL},
    {0},
};

#define EXAONE4_LAYERS                                                                             \
    .sizes = {102400, 4096, 16384, 32, 32, 32, 0, 2048, 0}, .norm_eps = 1e-5,                      \
    .qk_norm = SP_QK_HEADS, .full_unrotated = true, .windows = SP_WINDOWS_PATTERN, .window = 4096, \
    .window_pattern = 4, .biases = SP_BIAS_NEVER

const struct sp_family sp_families_exaone[] = {
    {
        .name = "exaone",
        .architecture = "ExaoneForCausalLM",
        .run_as = "LlamaForCausalLM",
        .sizes = {102400, 4096, 14336, 32, 32, 8, 0, 4096, 0},
        .norm_eps = 1e-5,
        .theta = 5e5,
        .key_names =
            SP_ROWS(sp_key_name, {"num_layers", "num_hidden_layers"},
                    {"layer_norm_epsilon", "rms_norm_eps"}, {"activation_function", "hidden_act"}),
        .aliases = {exaone_aliases},
        .layers = "h.",
        .prefix = "transformer.",
        .gguf = {.archs = {{.name = "exaone"}}},
    },
    {
        .name = "exaone4",
        .architecture = "Exaone4ForCausalLM",
        EXAONE4_LAYERS,
        .norms = SP_NORM_POST,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "exaone4"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_WINDOW, NULL, NULL, "null"},
                                    {SP_PUT_PATTERN, NULL, NULL, NULL})},
    },
    {
        .name = "exaone_moe",
        .architecture = "ExaoneMoeForCausalLM",
        EXAONE4_LAYERS,
        .expert_keys = {.dense = "first_k_dense_replace",
                        .types = "mlp_layer_types",
                        .shared = "num_shared_experts"},
        SP_EXPERT_SIZES(64, 8, 1024, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.5},
        .reads = {.layer_types = true, SP_V3_READS},
        .aliases = {SP_ROWS(sp_alias,
                            {"mlp.router.correction", "mlp.e_score_correction_bias", NULL, 0}),
                    sp_aliases_experts, sp_aliases_shared_experts},
        .prediction_head = true,
        .gguf = {.archs = {{.name = "exaone-moe"}}, .members = exaone_moe_members},
    },
    {.name = NULL},
};
