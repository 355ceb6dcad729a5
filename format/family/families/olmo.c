/* OLMo 1 to 3, OLMoE, FlexOlmo and OLMo Hybrid. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_gguf_member window_members[] = {
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {0},
};

static const struct sp_alias hybrid_aliases[] = {
    {"input_layernorm.weight", "attention_layer_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "feedforward_layer_norm.weight", NULL, 0},
    {"linear_attn.in_proj_qkv.weight", "linear_attn.q_proj.weight", sp_layout_delta_each, 0},
    {"linear_attn.conv1d.weight", "linear_attn.q_conv1d.weight", sp_layout_delta_each, 0},
    {"linear_attn.in_proj_z.weight", "linear_attn.g_proj.weight", NULL, 0},
    {"linear_attn.in_proj_b.weight", "linear_attn.b_proj.weight", NULL, 0},
    {"linear_attn.in_proj_a.weight", "linear_attn.a_proj.weight", NULL, 0},
    {"linear_attn.norm.weight", "linear_attn.o_norm.weight", NULL, 0},
    {"linear_attn.out_proj.weight", "linear_attn.o_proj.weight", NULL, 0},
    {0},
};

/* The sizes follow from those of attention. Zero stands for them. */
static const struct sp_delta_family delta_hybrid = {
    .defaults = {.kernel = 4, .norm_eps = 1e-5, .strength = 2}, .full_interval = 4};

/* Attention layers have the norms of OLMo 2, delta layers those of Llama. Without a theta there is
 * no rotary embedding. */
static void read_hybrid(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *rope = sp_text_get(t, "rope_parameters");
    bool rotated = sp_text_get(t, "rope_theta") || sp_json_get(rope, "rope_theta");
    bool negative = true;

    sp_text_bool(t, "linear_allow_neg_eigval", &negative);
    c->delta.strength = negative ? 2 : 1;
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        if (l->mixers != SP_MIXER_ATTENTION) continue;
        l->norms = SP_NORM_POST;
        if (!rotated) l->rope = -1;
    }
}

const struct sp_family sp_families_olmo[] = {
    {
        .name = "olmo",
        .architecture = "OlmoForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norm_eps_key = "",
        .norm_centered = true,
        .norm_weightless = true,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.qkv_limit = true},
        .gguf = {.archs = {{.name = "olmo"}},
                 .members = SP_ROWS(sp_gguf_member,
                                    {SP_PUT_FLOAT, "clip_qkv", "attention.clamp_kqv", NULL}),
                 .permuted = SP_GGUF_PERMUTED_MATRICES},
    },
    {
        .name = "olmo2",
        .architecture = "Olmo2ForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .mlp_bias = SP_BIAS_NEVER,
        .gguf = {.archs = {{.name = "olmo2"}}, .members = window_members},
    },
    {
        .name = "olmo3",
        .architecture = "Olmo3ForCausalLM",
        .sizes = {50304, 4096, 11008, 32, 32, 0, 0, 2048, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .theta = 5e5,
        .local_unscaled = true,
        .windows = SP_WINDOWS_PATTERN,
        .window = 4096,
        .window_pattern = 4,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "olmo2", .with = "attention.sliding_window"},
                           {.name = "olmo3"}},
                 .members = window_members},
    },
    {
        .name = "olmoe",
        .architecture = "OlmoeForCausalLM",
        .sizes = {50304, 2048, 2048, 16, 16, 0, 0, 4096, 0},
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_WHOLE,
        .mlp_bias = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(64, 8, 0, 0, 0),
        .reads = {.layer_types = true, .experts = true},
        .aliases = {sp_aliases_experts},
        .gguf = {.archs = {{.name = "olmoe"}},
                 .members =
                     SP_ROWS(sp_gguf_member, {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
                             {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
                             {SP_PUT_FLOAT, "clip_qkv", "attention.clamp_kqv", NULL},
                             {SP_PUT_WORD, "norm_topk_prob", NULL, "false"})},
    },
    {
        .name = "flex_olmo",
        .architecture = "FlexOlmoForCausalLM",
        .sizes = {100352, 4096, 11008, 32, 32, 0, 0, 4096, 0},
        .norms = SP_NORM_POST,
        .qk_norm = SP_QK_WHOLE,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(7, 5, 0, 0, 0),
        .reads = {.experts = true},
        .aliases = {sp_aliases_experts},
    },
    {
        .name = "olmo_hybrid",
        .architecture = "OlmoHybridForCausalLM",
        .sizes = {100352, 3840, 11008, 32, 30, 0, 0, 65536, 0},
        .qk_norm = SP_QK_WHOLE,
        .delta_layers = true,
        .delta = &delta_hybrid,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .read_own = read_hybrid,
        .aliases = {hybrid_aliases},
    },
    {.name = NULL},
};
