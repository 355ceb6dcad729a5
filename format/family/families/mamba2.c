/* Mamba-2 alone: no layer has attention or an MLP, and max_positions is not a limit of the model.
 * Zamba2: before some layers a block of attention and MLP runs that has the same weights at several
 * places. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sp_mamba_family mamba_alone = {
    .heads = "num_heads",
    .head_dim = "head_dim",
    .groups = "n_groups",
    .state = "state_size",
    .kernel = "conv_kernel",
    .conv_bias = "use_conv_bias",
    .proj_bias = "use_bias",
    .defaults = {SP_MAMBA2_SIZES, .max_step = INFINITY},
};

/* ---- Zamba2 ---- */

static const struct sp_mamba_family mamba_zamba2 = {
    .heads = "n_mamba_heads",
    .head_dim = "mamba_headdim",
    .groups = "mamba_ngroups",
    .state = "mamba_d_state",
    .kernel = "mamba_d_conv",
    .conv_bias = "use_conv_bias",
    .proj_bias = "add_bias_linear",
    .activation = "hidden_mamba_act",
    .defaults = {.n_heads = 8,
                 .n_groups = 1,
                 .state_dim = 64,
                 .kernel = 4,
                 .conv_bias = true,
                 .min_step = 0.001,
                 .max_step = INFINITY},
    .one_limit = true,
};

static void read_zamba2(struct sp_config *c, const struct sp_config_text *t)
{
    bool rotates = false, extended = false;
    unsigned n_blocks = 1, used[SP_CAP_LAYERS], n_used = 0;

    c->block_rank = 128;
    sp_text_unsigned(t, "num_mem_blocks", 1, SP_CAP_LAYERS, &n_blocks);
    sp_text_unsigned(t, "adapter_rank", 1, SP_CAP_WIDTH, &c->block_rank);
    sp_text_bool(t, "use_shared_attention_adapter", &c->block_adapts_qkv);
    sp_text_bool(t, "use_mem_rope", &rotates);
    sp_text_bool(t, "use_long_context", &extended);
    if (extended) SP_REFUSED(t, "use_long_context is not supported for %s", t->family->name);
    if (t->sizes->head_dim * t->sizes->n_heads != 2 * t->sizes->n_hidden) {
        SP_INVALID(t, "%u heads of %u dims are not twice hidden_size %u", t->sizes->n_heads,
                   t->sizes->head_dim, t->sizes->n_hidden);
    }
    c->attention_scale = sqrt(2.0 / t->sizes->head_dim);
    c->layers[0].joins = SP_JOIN_FIRST;
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        if (!(l->mixers & SP_MIXER_ATTENTION)) {
            l->n_ffn = 0;
            continue;
        }
        l->mixers |= SP_MIXER_MAMBA;
        l->reads_pair = true;
        if (!rotates) l->rope = -1;
        used[n_used++] = i;
        l->repeats = i - used[(n_used - 1) % n_blocks];
    }
}

/* The adapters of all uses of a block are stored with its first use, each under the number of its
 * use. */
static unsigned name_zamba2_layer(char *out, size_t size, const struct sp_config *config,
                                  unsigned layer, const char *canonical, bool other)
{
    const struct sp_layer_config *l = &config->layers[layer];
    unsigned use = 0;

    (void)other;
    for (unsigned i = 0; i < layer; i++)
        use += sp_layer_has_block(&config->layers[i]);
    if (!sp_layer_has_block(l) || strcmp(canonical, "block.out_proj.weight") == 0)
        snprintf(out, size, "layers.%u.", layer);
    else if (strncmp(canonical, "mamba.", 6) == 0 || strncmp(canonical, "input_", 6) == 0)
        snprintf(out, size, "layers.%u.mamba_decoder.", layer);
    else
        snprintf(out, size, "layers.%u.shared_transformer.", layer - l->repeats);
    return use;
}

#define MLP_ADAPTER "feed_forward.gate_up_proj_adapter_list.#"
#define ADAPTER(x) "self_attn.linear_" x "_adapter_list.#"

static const struct sp_alias zamba2_aliases[] = {
    {"pair_norm.weight", "input_layernorm.weight", NULL, 0},
    {"block.out_proj.weight", "linear.weight", NULL, 0},
    SP_ALIAS_GATE_UP("mlp", "feed_forward.gate_up_proj.weight", sp_layout_gate_up),
    {"block.mlp.A", MLP_ADAPTER ".0.weight", NULL, 0},
    {"block.gate.B", MLP_ADAPTER ".1.weight", sp_layout_gate_up, 0},
    {"block.up.B", MLP_ADAPTER ".1.weight", sp_layout_gate_up, 1},
    {"block.q.A", ADAPTER("q") ".0.weight", NULL, 0},
    {"block.q.B", ADAPTER("q") ".1.weight", NULL, 0},
    {"block.k.A", ADAPTER("k") ".0.weight", NULL, 0},
    {"block.k.B", ADAPTER("k") ".1.weight", NULL, 0},
    {"block.v.A", ADAPTER("v") ".0.weight", NULL, 0},
    {"block.v.B", ADAPTER("v") ".1.weight", NULL, 0},
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
        .gguf = {.archs = {{.name = "mamba2"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_MAMBA, "expand", NULL, NULL})},
    },
    {
        .name = "zamba2",
        .architecture = "Zamba2ForCausalLM",
        .sizes = {32000, 2560, 10240, 54, 32, 0, 160, 4096, 0},
        .norm_eps = 1e-5,
        .mamba = &mamba_zamba2,
        .own_types = "hybrid",
        .layer_pattern = "m(mmmmmf)mmmmfmmmfmm",
        .bias_key = "add_bias_linear",
        .biases = SP_BIAS_REFUSED,
        .activation = "gelu",
        .tied = true,
        .key_names = SP_ROWS(sp_key_name, {"layers_block_type", "layer_types"},
                             {"attention_head_dim", "head_dim"}),
        .read_own = read_zamba2,
        .aliases = {zamba2_aliases, sp_aliases_feed_forward, sp_aliases_mamba},
        .name_layer = name_zamba2_layer,
    },
    {.name = NULL},
};
