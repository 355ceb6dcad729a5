/* Phi-1 to Phi-2, Phi-3, Phi-3.5-MoE, Phi-4 and Phi-4 multimodal without its towers. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_alias phi3_aliases[] = {
    SP_ALIAS_QKV(".weight", "self_attn.qkv_proj.weight", sp_layout_qkv),
    {0},
};

/* Experts near the best one share its weight. */
static void read_phimoe(struct sp_config *c, const struct sp_config_text *t)
{
    double noise = 0.01;

    sp_text_bool(t, "lm_head_bias", &c->head_bias);
    sp_text_double(t, "router_jitter_noise", 0, 1e6, &noise);
    c->routing.jitter = 2 * noise;
}

#define PHI3_LAYERS                                                                                \
    .norm_eps = 1e-5, .partial_rotary = 1, .longrope_only = true, .original_positions = 4096,      \
    .windows = SP_WINDOWS_ALL, .biases = SP_BIAS_NEVER,                                            \
    .aliases = {phi3_aliases, sp_aliases_gate_up}

const struct sp_family sp_families_phi[] = {
    {
        .name = "phi",
        .architecture = "PhiForCausalLM",
        .sizes = {51200, 2048, 8192, 24, 32, 0, 0, 2048, 0},
        SP_LAYER_NORM(1e-5, "layer_norm_eps"),
        .norms = SP_NORM_PARALLEL,
        .partial_rotary = 0.5,
        .biases = SP_BIAS_ALWAYS,
        .activation = "gelu_new",
        .plain_mlp = true,
        .head_bias = true,
        .aliases = {SP_ROWS(sp_alias, {"norm.*", "final_layernorm.*", NULL, 0},
                            {"self_attn.o_proj.*", "self_attn.dense.*", NULL, 0}),
                    sp_aliases_fc},
    },
    {
        .name = "phi3",
        .architecture = "Phi3ForCausalLM",
        .sizes = {32064, 3072, 8192, 32, 32, 0, 0, 4096, 0},
        PHI3_LAYERS,
        .gguf = {.archs = {{.name = "phi3"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_WINDOW, NULL, NULL, NULL},
                                    {SP_PUT_ROTARY, NULL, NULL, "1"}),
                 .head_dim_implied = true},
    },
    {
        .name = "phi4_multimodal",
        .architecture = "Phi4MultimodalForCausalLM",
        .old_architecture = "Phi4MMForCausalLM",
        .sizes = {200064, 3072, 8192, 32, 32, 8, 0, 131072, 0},
        PHI3_LAYERS,
        .unread = "embed_tokens_extend.",
    },
    {
        .name = "phimoe",
        .architecture = "PhimoeForCausalLM",
        .sizes = {32064, 4096, 6400, 32, 32, 8, 0, 131072, 0},
        SP_LAYER_NORM(1e-5, NULL),
        .theta = 1e6,
        .rope_mscales = true,
        .windows = SP_WINDOWS_ALL,
        .mlp_bias = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(16, 2, 0, 0, 0),
        .routing = {.law = SP_ROUTE_NEAR},
        .router_norm_fixed = true,
        .expert_keys = {.width = "intermediate_size"},
        .reads = {.experts = true},
        .read_own = read_phimoe,
        .aliases = {sp_aliases_block_sparse},
    },
    {.name = NULL},
};
