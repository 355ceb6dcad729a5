/* Mamba-2 alone: no layer has attention or an MLP. max_positions is not a limit of the model. */
#include "format/family/families/families.h"

#include <math.h>

static const struct sp_mamba_family mamba_alone = {
    .heads = "num_heads",
    .head_dim = "head_dim",
    .groups = "n_groups",
    .state = "state_size",
    .kernel = "conv_kernel",
    .conv_bias = "use_conv_bias",
    .proj_bias = "use_bias",
    .defaults = {.n_heads = 128,
                 .head_dim = 64,
                 .n_groups = 8,
                 .state_dim = 128,
                 .kernel = 4,
                 .conv_bias = true,
                 .max_step = INFINITY},
};

static const struct sp_gguf_member gguf_members[] = {
    {SP_PUT_MAMBA, "expand", NULL, NULL},
    {0},
};

const struct sp_family sp_families_mamba2[] = {
    {
        .name = "mamba2",
        .architecture = "Mamba2ForCausalLM",
        .sizes = {32768, 4096, 0, 64, 1, 1, 64, 1 << 20, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "layer_norm_epsilon",
        .mamba = &mamba_alone,
        .biases = SP_BIAS_NEVER,
        .aliases = {sp_aliases_mixer},
        .prefix = "backbone.",
        .gguf = {.archs = {{.name = "mamba2"}}, .members = gguf_members},
    },
    {.name = NULL},
};
