/* Mamba-1: alone (Mamba, Falcon Mamba), and with attention and experts (Jamba). */
#include "format/family/families/families.h"

/* A missing intermediate_size is expand * hidden_size. */
#define MAMBA1_KEYS                                                                                \
    .rank = "time_step_rank", .values = "intermediate_size", .state = "state_size",                \
    .kernel = "conv_kernel", .conv_bias = "use_conv_bias", .proj_bias = "use_bias"

static const struct sp_mamba_family mamba1 = {
    MAMBA1_KEYS, .defaults = {.n_groups = 1, .state_dim = 16, .kernel = 4, .conv_bias = true}};

static const struct sp_mamba_family falcon_mamba = {
    MAMBA1_KEYS, .step_eps = "mixer_rms_eps",
    .defaults = {
        .n_groups = 1, .state_dim = 16, .kernel = 4, .conv_bias = true, .step_norms = true}};

static const struct sp_mamba_family jamba = {.rank = "mamba_dt_rank",
                                             .state = "mamba_d_state",
                                             .kernel = "mamba_d_conv",
                                             .conv_bias = "mamba_conv_bias",
                                             .proj_bias = "mamba_proj_bias",
                                             .defaults = {.n_groups = 1,
                                                          .state_dim = 16,
                                                          .kernel = 4,
                                                          .conv_bias = true,
                                                          .step_norms = true,
                                                          .step_weights = true}};

static const struct sp_alias mamba1_aliases[] = {
    {"mamba.in_proj_xbc.*", "mixer.in_proj.*", sp_layout_gate_up, 0},
    {"mamba.in_proj_z.*", "mixer.in_proj.*", sp_layout_gate_up, 1},
    {"mamba.x_proj.weight", "mixer.x_proj.weight", NULL, 0},
    {"mamba.dt_proj.weight", "mixer.dt_proj.weight", NULL, 0},
    {"mamba.dt_bias", "mixer.dt_proj.bias", NULL, 0},
    {0},
};

static const struct sp_alias jamba_aliases[] = {
    {"mamba.in_proj_xbc.*", "mamba.in_proj.*", sp_layout_gate_up, 0},
    {"mamba.in_proj_z.*", "mamba.in_proj.*", sp_layout_gate_up, 1},
    {"mamba.dt_bias", "mamba.dt_proj.bias", NULL, 0},
    SP_ALIAS_MLP("mlp.experts", "feed_forward.experts.%u", sp_layout_each_expert),
    {0},
};

#define MAMBA1_LAYERS                                                                              \
    .sizes = {50280, 768, 0, 32, 1, 1, 64, 1 << 20, 0}, .norm_eps = 1e-5,                          \
    .norm_eps_key = "layer_norm_epsilon", .biases = SP_BIAS_NEVER, .tied = true,                   \
    .key_names = SP_ROWS(sp_key_name, {"expand", "mamba_expand"}),                                 \
    .aliases = {mamba1_aliases, sp_aliases_mixer}, .prefix = "backbone."

const struct sp_family sp_families_mamba1[] = {
    {
        .name = "mamba",
        .architecture = "MambaForCausalLM",
        MAMBA1_LAYERS,
        .mamba = &mamba1,
    },
    {
        .name = "falcon_mamba",
        .architecture = "FalconMambaForCausalLM",
        MAMBA1_LAYERS,
        .mamba = &falcon_mamba,
    },
    {
        .name = "jamba",
        .architecture = "JambaForCausalLM",
        .sizes = {65536, 4096, 14336, 32, 32, 8, 0, 262144, 0},
        .unrotated = true,
        .attention_period = {8, 4},
        .expert_period = {2, 1},
        .mamba = &jamba,
        .biases = SP_BIAS_NEVER,
        .expert_keys = {.types = "mlp_layer_types"},
        SP_EXPERT_SIZES(16, 2, 0, 0, 0),
        .reads = {.experts = true},
        .aliases = {jamba_aliases, sp_aliases_feed_forward},
        .gguf = {.archs = {{.name = "jamba"}},
                 .members =
                     SP_ROWS(sp_gguf_member, {SP_PUT_MAMBA, "mamba_expand", NULL, NULL},
                             {SP_PUT_BY_HEADS, "full_attention", NULL, "mamba"},
                             {SP_PUT_MLP_TYPES, NULL, NULL, NULL},
                             {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
                             {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL}),
                 .names = SP_ROWS(sp_gguf_name, {"ssm_x", "mamba.x_proj", SP_GGUF_AS_IS},
                                  {"ssm_dt", "mamba.dt_proj", SP_GGUF_AS_IS},
                                  {"ssm_dt_norm", "mamba.dt_layernorm", SP_GGUF_AS_IS},
                                  {"ssm_b_norm", "mamba.b_layernorm", SP_GGUF_AS_IS},
                                  {"ssm_c_norm", "mamba.c_layernorm", SP_GGUF_AS_IS}),
                 .sizes_per_layer = true},
    },
    {.name = NULL},
};
