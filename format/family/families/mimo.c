/* MiMo-V2-Flash: values that are narrower than keys; layers with a window have twice the K/V heads,
 * and sinks. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_alias mimo_head_names[] = {
    {"post_attention_layernorm.weight", "pre_mlp_layernorm.weight", NULL, 0},
    {"fc.weight", "eh_proj.weight", NULL, 0},
    {"pre_fc_norm_embedding.weight", "enorm.weight", NULL, 0},
    {"pre_fc_norm_hidden.weight", "hnorm.weight", NULL, 0},
    {"norm.weight", "final_layernorm.weight", NULL, 0},
    {0},
};

/* sliding_window_size does not count the row itself. */
static void read_mimo(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned value_dim = 128, before = 0;

    c->value_scale = 0.707;
    c->window_sinks = true;
    sp_text_unsigned(t, "v_head_dim", 1, SP_CAP_WIDTH, &value_dim);
    sp_text_unsigned(t, "sliding_window_size", 1, SP_CAP_POSITIONS, &before);
    sp_text_double(t, "attention_value_scale", 1e-6, 1e6, &c->value_scale);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        if (value_dim > l->head_dim)
            SP_REFUSED(t, "v_head_dim %u is larger than head_dim %u", value_dim, l->head_dim);
        l->value_dim = value_dim == l->head_dim ? 0 : value_dim;
        if (l->window == 0) continue;
        l->n_kv_heads = 2 * t->sizes->n_kv_heads;
        if (before) l->window = before + 1;
        if (l->n_heads % l->n_kv_heads != 0)
            SP_INVALID(t, "num_attention_heads %u is not a multiple of %u", l->n_heads,
                       l->n_kv_heads);
    }
}

const struct sp_family sp_families_mimo[] = {
    {
        .name = "mimo_v2_flash",
        .architecture = "MiMoV2FlashForCausalLM",
        .sizes = {152576, 4096, 16384, 48, 64, 4, 192, 131072, 0},
        .norm_eps = 1e-5,
        .partial_rotary = 1,
        .rope_by_type = true,
        .rope_default = "{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":5e6,"
                        "\"partial_rotary_factor\":0.334},\"sliding_attention\":{\"rope_type\":"
                        "\"default\",\"rope_theta\":1e4,\"partial_rotary_factor\":0.334}}",
        .windows = SP_WINDOWS_LISTED,
        .layer_pattern = "fssssf(sssssf)",
        .window = 129,
        .mlp_bias = SP_BIAS_NEVER,
        .sinks = true,
        .expert_keys = {.count = "n_routed_experts", .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 2048, 1, 0),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1},
        .reads = {.layer_types = true, SP_V3_READS},
        .read_own = read_mimo,
        .own_keys = "attention_value_scale",
        .prediction_normed = true,
        .prediction_path = "mtp.layers.0.",
        .prediction_names = mimo_head_names,
        .prediction_windowed = true,
        .aliases = {SP_ROWS(sp_alias,
                            {"self_attn.sinks", "self_attn.attention_sink_bias", NULL, 0}),
                    sp_aliases_experts, sp_aliases_shared_experts},
    },
    {.name = NULL},
};
