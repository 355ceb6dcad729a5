/* Nemotron, and Nemotron-H, whose layers are one sublayer each. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <math.h>

static const struct sp_mamba_family mamba_sublayers = {
    .heads = "mamba_num_heads",
    .head_dim = "mamba_head_dim",
    .groups = "n_groups",
    .state = "ssm_state_size",
    .kernel = "conv_kernel",
    .conv_bias = "use_conv_bias",
    .proj_bias = "use_bias",
    .activation = "mamba_hidden_act",
    .defaults = {SP_MAMBA2_SIZES, .min_step = 0.001, .max_step = INFINITY},
    .one_limit = true,
};

static const struct sp_gguf_member nemotron_h_members[] = {
    {SP_PUT_MAMBA, NULL, NULL, NULL},
    {SP_PUT_SUBLAYERS, NULL, NULL, NULL},
    {SP_PUT_NORM_TOPK, NULL, NULL, "true"},
    {SP_PUT_SIZE, "n_routed_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_SIZE, "moe_intermediate_size", "expert_feed_forward_length", NULL},
    {SP_PUT_SIZE, "moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length", NULL},
    {SP_PUT_SIZE, "n_shared_experts", "expert_shared_count", NULL},
    {SP_PUT_SIZE, "n_group", "expert_group_count", NULL},
    {SP_PUT_SIZE, "topk_group", "expert_group_used_count", NULL},
    {SP_PUT_FLOAT, "routed_scaling_factor", "expert_weights_scale", NULL},
    {SP_PUT_NOTHING, NULL, "leading_dense_block_count", NULL},
    {0},
};

static void read_nemotron_h(struct sp_config *c, const struct sp_config_text *t)
{
    sp_text_unsigned(t, "moe_latent_size", 1, t->sizes->n_hidden, &c->n_latent);
}

/* The attention and the experts of its layer are layers of a checkpoint. */
static const struct sp_alias nemotron_h_head_names[] = {
    {"fc.weight", "layers.0.eh_proj.weight", NULL, 0},
    {"pre_fc_norm_embedding.weight", "layers.0.enorm.weight", NULL, 0},
    {"pre_fc_norm_hidden.weight", "layers.0.hnorm.weight", NULL, 0},
    {"input_layernorm.weight", "layers.0.norm.weight", NULL, 0},
    {"self_attn.*", "layers.0.mixer.*", NULL, 0},
    {"post_attention_layernorm.weight", "layers.1.norm.weight", NULL, 0},
    {"mlp.router.weight", "layers.1.mixer.gate.weight", NULL, 0},
    {"mlp.router.correction", "layers.1.mixer.gate.e_score_correction_bias", NULL, 0},
    {"mlp.experts.up_proj.weight", "layers.1.mixer.experts.%u.up_proj.weight",
     sp_layout_each_expert, 0},
    {"mlp.experts.down_proj.weight", "layers.1.mixer.experts.%u.down_proj.weight",
     sp_layout_each_expert, 0},
    {"mlp.shared_expert.*", "layers.1.mixer.shared_experts.*", NULL, 0},
    {"mlp.latent_in.weight", "layers.1.mixer.fc1_latent_proj.weight", NULL, 0},
    {"mlp.latent_out.weight", "layers.1.mixer.fc2_latent_proj.weight", NULL, 0},
    {"norm.weight", "layers.1.final_layernorm.weight", NULL, 0},
    {0},
};

const struct sp_family sp_families_nemotron[] = {
    {
        .name = "nemotron",
        .architecture = "NemotronForCausalLM",
        .sizes = {256000, 6144, 24576, 32, 48, 0, 0, 4096, 0},
        SP_LAYER_NORM(1e-5, "norm_eps"),
        .norm_shifted = true,
        .partial_rotary = 0.5,
        .activation = "relu2",
        .plain_mlp = true,
        .gguf = {.archs = {{.name = "nemotron"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_ROTARY, NULL, NULL, NULL})},
    },
    {
        .name = "nemotron_h",
        .architecture = "NemotronHForCausalLM",
        .sizes = {131072, 4096, 21504, 4, 32, 8, 128, 4096, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "layer_norm_epsilon",
        .unrotated = true,
        .sublayers = "ME*-",
        .mamba = &mamba_sublayers,
        .qkv_bias = SP_BIAS_NEVER,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_REFUSED,
        .activation_key = "mlp_hidden_act",
        .activation = "relu2",
        .plain_mlp = true,
        .expert_keys = {.count = "n_routed_experts",
                        .parallel_width = "moe_shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(8, 2, 7688, 0, 0),
        .n_shared_ffn = 7688,
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1},
        .reads = {SP_V3_READS},
        .read_own = read_nemotron_h,
        .own_keys = "moe_latent_size",
        .aliases = {sp_aliases_mixer},
        .prefix = "backbone.",
        .prediction_head = true,
        .prediction_names = nemotron_h_head_names,
        .gguf = {.archs = {{.name = "nemotron_h"}, {.name = "nemotron_h_moe"}},
                 .members = nemotron_h_members,
                 .permuted = SP_GGUF_PERMUTED,
                 .sizes_per_layer = true},
    },
    {.name = NULL},
};
