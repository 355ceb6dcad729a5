/* Lineages of one family with experts each, of 2026: Beam, Flint, Kolibri, Laguna, Lara, Step,
 * ZAYA1; and Aria. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <math.h>
#include <string.h>

static const struct sp_alias kolibri_aliases[] = {
    {"post_attention_layernorm.weight", "post_attn_norm.weight", NULL, 0},
    {"pre_feedforward_layernorm.weight", "post_attention_layernorm.weight", NULL, 0},
    {"post_feedforward_layernorm.weight", "post_ffn_norm.weight", NULL, 0},
    {"mlp.router.correction", "moe.router.expert_bias", NULL, 0},
    {"mlp.shared_expert.*", "mlp.shared_experts.*", NULL, 0},
    {0},
};

static const struct sp_alias laguna_aliases[] = {
    {"self_attn.head_gate.weight", "self_attn.g_proj.weight", NULL, 0},
    {"self_attn.gate_proj.weight", "self_attn.g_proj.weight", NULL, 0},
    {"mlp.router.correction", "mlp.experts.e_score_correction_bias", NULL, 0},
    {0},
};

static const struct sp_alias step_aliases[] = {
    {"self_attn.head_gate.weight", "self_attn.g_proj.weight", NULL, 0},
    {"mlp.router.weight", "moe.gate.weight", NULL, 0},
    {"mlp.router.correction", "moe.router_bias", NULL, 0},
    {"mlp.experts.*", "moe.*", NULL, 0},
    {"mlp.shared_expert.*", "share_expert.*", NULL, 0},
    {0},
};

/* in_proj: q, k, v, z, b and a of the gated delta rule. */
static enum sp_status layout_in_proj(const struct sp_alias_source *s)
{
    const struct sp_delta_config *d = &s->match->config->delta;
    const uint64_t z = (uint64_t)d->n_value_heads * d->value_dim, n = d->n_value_heads;
    const uint64_t qkv = 2 * (uint64_t)d->n_key_heads * d->key_dim + z;
    const uint64_t first[] = {0, qkv, qkv + z, qkv + z + n}, cols = s->spec->shape[1];
    const uint64_t shape[] = {qkv + z + 2 * n, cols};

    return sp_tensor_match_take(s, shape, 2, sp_rows(first[s->part], s->spec->shape[0], cols));
}

static const struct sp_alias lara_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj.weight", layout_in_proj, 0},
    {"linear_attn.in_proj_z.weight", "linear_attn.in_proj.weight", layout_in_proj, 1},
    {"linear_attn.in_proj_b.weight", "linear_attn.in_proj.weight", layout_in_proj, 2},
    {"linear_attn.in_proj_a.weight", "linear_attn.in_proj.weight", layout_in_proj, 3},
    {"linear_attn.norm.weight", "linear_attn.out_norm.weight", NULL, 0},
    {0},
};

static const struct sp_delta_family delta_lara = {
    .defaults =
        {.n_key_heads = 8, .n_value_heads = 16, .key_dim = 128, .value_dim = 128, .kernel = 4},
    .full_interval = 4,
};

/* gating: true or "per-head" gives a head one gate, anything else a gate for each number. */
static void read_gates(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *v = sp_text_get(t, "gating");
    const char *name = sp_json_to_string(v, NULL);
    bool heads = true;

    if (name)
        heads = strcmp(name, "per-head") == 0;
    else if (v && !sp_json_to_bool(v, &heads))
        SP_INVALID(t, "gating is neither a word nor true or false");
    c->gate_softplus = true;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].output_gate = !heads;
        c->layers[i].head_gate = heads;
    }
}

static void read_layer_heads(struct sp_config *c, const struct sp_config_text *t)
{
    static const char key[] = "num_attention_heads_per_layer";
    const struct sp_json *list = sp_text_get(t, key);

    for (unsigned i = 0; list && i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        uint64_t n = 0;
        if (sp_json_len(list) != c->n_layers || !sp_json_to_u64(sp_json_at(list, i), &n) ||
            n == 0 || n > SP_CAP_HEADS || n % l->n_kv_heads != 0) {
            SP_INVALID(t, "%s is not a list of %u multiples of %u", key, c->n_layers,
                       l->n_kv_heads);
        }
        l->n_heads = (unsigned)n;
    }
}

static void read_laguna(struct sp_config *c, const struct sp_config_text *t)
{
    bool weighs_input = false;

    read_gates(c, t);
    read_layer_heads(c, t);
    sp_text_double(t, "moe_router_logit_softcapping", 0, 1e6, &c->routing.logit_cap);
    sp_text_bool(t, "moe_apply_router_weight_on_input", &weighs_input);
    if (weighs_input) SP_REFUSED(t, "moe_apply_router_weight_on_input is not supported");
}

static void read_laguna_draft(struct sp_config *c, const struct sp_config_text *t)
{
    c->draft.taps_normed = c->draft.context_normed = true;
    read_gates(c, t);
}

/* The positive number for layer i in a list; 0 if there is none. */
static double number_at(const struct sp_config_text *t, const char *key, unsigned i)
{
    double v = 0;

    (void)sp_json_to_double(sp_json_at(sp_text_get(t, key), i), &v);
    return v > 0 ? v : 0;
}

/* Layers with a window have heads, a theta and a rotated part of their own, and no scaling. Clamps
 * differ from layer to layer. */
static void read_step(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *other = sp_text_get(t, "attention_other_setting");
    unsigned n_heads = t->sizes->n_heads;

    c->silu_capped = true;
    c->mtp_limit = number_at(t, "swiglu_limits_shared", c->n_layers);
    if (c->mtp_limit == 0) c->mtp_limit = -1;
    sp_member_unsigned(t, other, "num_attention_heads", 1, SP_CAP_HEADS, &n_heads);
    sp_text_unsigned(t, "num_sliding_attention_heads", 1, SP_CAP_HEADS, &n_heads);
    if (n_heads % t->sizes->n_kv_heads != 0) {
        SP_INVALID(t,
                   "%u heads of layers with a window are not a multiple of num_key_value_heads %u",
                   n_heads, t->sizes->n_kv_heads);
    }
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        double part = number_at(t, "partial_rotary_factors", i);
        l->limits[0] = number_at(t, "swiglu_limits", i);
        l->limits[1] = number_at(t, "swiglu_limits_shared", i);
        if (l->n_experts == 0) l->limits[0] = 0;
        if (part > 0 && part <= 1)
            c->ropes[l->rope].n_rot = (unsigned)(t->sizes->head_dim * part) / 2 * 2;
        if (l->window == 0) continue;
        l->n_heads = n_heads;
        if (l->rope == 1) c->ropes[1].kind = SP_ROPE_DEFAULT;
    }
}

/* ---- Beam ---- */

/* Addition k to the residual stream is out / sqrt(k) + x sqrt((k - 1) / k). */
static void read_beam(struct sp_config *c, const struct sp_config_text *t)
{
    (void)t;
    c->gate_biases = true;
    c->query_growth = (struct sp_query_growth){
        .beta = 0.1, .from = 2048, .offset = 1, .unrotated_only = true, .power = true};
    for (unsigned i = 0; i < 2 * c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i / 2];
        l->out_scales[i % 2] = 1 / sqrt(i + 2.0);
        l->keep_scales[i % 2] = sqrt((i + 1.0) / (i + 2.0));
    }
}

/* A convolution whose taps of a channel are adjacent. */
static enum sp_status layout_grouped_conv(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, rows = own[0] * own[1];
    const uint64_t shape[3] = {rows, own[1], s->match->config->cca.mix_kernel};

    return sp_tensor_match_take(s, shape, 3, sp_rows(0, rows, own[2]));
}

static const struct sp_alias zaya_aliases[] = {
    {"self_attn.q_proj.weight", "self_attn.qkv_proj.q_proj.weight", NULL, 0},
    {"self_attn.k_proj.weight", "self_attn.qkv_proj.k_proj.weight", NULL, 0},
    {"self_attn.v_proj.weight", "self_attn.qkv_proj.v_proj_current.weight", NULL, 0},
    {"self_attn.v_delayed.weight", "self_attn.qkv_proj.v_proj_delayed.weight", NULL, 0},
    {"self_attn.conv_qk_grouped.weight", "self_attn.qkv_proj.conv_qk_grouped.weight",
     layout_grouped_conv, 0},
    {"self_attn.conv_qk_*", "self_attn.qkv_proj.conv_qk_*", NULL, 0},
    {"self_attn.key_scale", "self_attn.qk_norm.temp", NULL, 0},
    {"mlp.router.weight", "mlp.gate.router_mlp.out_proj.weight", NULL, 0},
    {"mlp.router.correction", "mlp.gate.balancing_biases", NULL, 0},
    {"mlp.router.down_proj.*", "mlp.gate.down_proj.*", NULL, 0},
    {"mlp.router.state_scale", "mlp.gate.router_states_scale", NULL, 0},
    {"mlp.router.*", "mlp.gate.router_mlp.*", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", NULL, 0},
    {0},
};

static void read_zaya(struct sp_config *c, const struct sp_config_text *t)
{
    if (t->sizes->n_kv_heads * t->sizes->head_dim % 2 != 0)
        SP_INVALID(t, "head_dim %u of %u heads cannot be halved", t->sizes->head_dim,
                   t->sizes->n_kv_heads);
    c->cca = (struct sp_cca_config){2, 2};
    c->routing.n_hidden = 256;
    sp_text_unsigned(t, "cca_time0", 1, 16, &c->cca.kernel);
    sp_text_unsigned(t, "cca_time1", 2, 16, &c->cca.mix_kernel);
    sp_text_unsigned(t, "router_hidden_size", 1, t->sizes->n_hidden, &c->routing.n_hidden);
    c->qk_norm_weightless = c->affine_residuals = true;
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].mixers |= SP_MIXER_CCA;
    sp_text_bool(t, "lm_head_bias", &c->head_bias);
}

#define LAGUNA_LAYERS                                                                              \
    .sizes = {100352, 2048, 8192, 40, 48, 8, 128, 131072, 0}, .qk_norm = SP_QK_HEADS,              \
    .partial_rotary = 1, .rope_by_type = true, .windows = SP_WINDOWS_LISTED, .window = 512,        \
    .mlp_bias = SP_BIAS_NEVER, .own_keys = "gating"

const struct sp_family sp_families_sparse[] = {
    {
        .name = "flint",
        .architecture = "FlintForCausalLM",
        .sizes = {150144, 2048, 6144, 49, 32, 4, 128, 262144, 0},
        .qk_norm = SP_QK_HEADS,
        .full_unrotated = true,
        .layer_pattern = "ff(sssf)f",
        .windows = SP_WINDOWS_LISTED,
        .window = 513,
        .needs_window = true,
        .mlp_bias = SP_BIAS_NEVER,
        .sinks = true,
        .expert_keys = {.step = "decoder_sparse_step",
                        .only = "mlp_only_layers",
                        .parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(256, 6, 512, 2, 0),
        .n_shared_ffn = 1024,
        .routing = {.law = SP_ROUTE_SIGMOID, .norm = true},
        .reads = {.layer_types = true, .experts = true},
        .aliases = {SP_ROWS(sp_alias, {"self_attn.sinks", "self_attn.softmax_offset", NULL, 0}),
                    sp_aliases_experts},
    },
    {
        .name = "beam",
        .architecture = "BeamForCausalLM",
        .sizes = {151936, 5120, 20480, 52, 48, 8, 128, 8192, 0},
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .rope_by_type = true,
        .full_unrotated = true,
        .layer_pattern = "(sssssf)sssf",
        .windows = SP_WINDOWS_LISTED,
        .window = 512,
        .needs_window = true,
        .biases = SP_BIAS_REFUSED,
        .output_gate = true,
        .logit_cap = 30,
        .expert_keys = {.types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 2560, 3, 0),
        .routing = {SP_V3_ROUTING, .n_groups = 8, .n_groups_used = 4, .scale = 2.5},
        .reads = {.layer_types = true, .logit_cap = true, SP_V3_READS},
        .read_own = read_beam,
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts},
    },
    {
        .name = "kolibri1",
        .architecture = "Kolibri1ForCausalLM",
        .sizes = {128000, 2560, 512, 50, 48, 4, 128, 262144, 0},
        .ffn_key = "moe_intermediate_size",
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .full_unrotated = true,
        .layer_pattern = "(ssssf)",
        .windows = SP_WINDOWS_LISTED,
        .window = 513,
        .biases = SP_BIAS_NEVER,
        .expert_keys = {.parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(384, 6, 0, 0, 0),
        .n_shared_ffn = 512,
        .routing = {.law = SP_ROUTE_SIGMOID_CHOSEN, .corrected = true},
        .reads = {.layer_types = true, .experts = true},
        .aliases = {kolibri_aliases, sp_aliases_experts},
    },
    {
        .name = "laguna",
        .architecture = "LagunaForCausalLM",
        LAGUNA_LAYERS,
        .rope_default = "{\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":5e5,"
                        "\"partial_rotary_factor\":0.5},"
                        "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}",
        .expert_keys = {.types = "mlp_layer_types",
                        .parallel_width = "shared_expert_intermediate_size",
                        .scale = "moe_routed_scaling_factor"},
        SP_EXPERT_SIZES(256, 8, 512, 1, 0),
        .n_shared_ffn = 512,
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true},
        .router_norm_fixed = true,
        .reads = {.layer_types = true, .experts = true, .routed_scale = true},
        .read_own = read_laguna,
        .aliases = {laguna_aliases, sp_aliases_experts},
    },
    {
        .name = "laguna_dflash",
        .architecture = "DFlashLagunaForCausalLM",
        LAGUNA_LAYERS,
        .theta = 5e5,
        .reads = {.layer_types = true},
        .read_own = read_laguna_draft,
        .aliases = {SP_ROWS(sp_alias,
                            SP_ALIAS_QKV(".weight", "self_attn.qkv_proj.weight", sp_layout_qkv),
                            SP_ALIAS_QKV(".weight", NULL, NULL),
                            {"fc_norm.*", "aux_hidden_norms.*", NULL, 0}),
                    laguna_aliases},
    },
    {
        .name = "lara_mini",
        .architecture = "LaraMiniForCausalLM",
        .sizes = {151936, 1024, 512, 34, 16, 4, 128, 131072, 0},
        .ffn_key = "moe_intermediate_size",
        .qk_norm = SP_QK_HEADS,
        .full_unrotated = true,
        .layer_pattern = "(dsdfs)",
        .delta_layers = true,
        .delta = &delta_lara,
        .windows = SP_WINDOWS_LISTED,
        .window = 512,
        .needs_window = true,
        .mlp_bias = SP_BIAS_NEVER,
        .tied = true,
        .expert_keys = {.parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(128, 4, 0, 0, 0),
        .n_shared_ffn = 512,
        .routing = {.norm = true},
        .reads = {.layer_types = true, .experts = true},
        .aliases = {lara_aliases, sp_aliases_experts},
    },
    {
        .name = "step3p5",
        .architecture = "Step3p5ForCausalLM",
        .sizes = {128815, 4096, 11264, 45, 64, 8, 128, 128000, 0},
        .norm_eps = 1e-5,
        .norm_shifted = true,
        .qk_norm = SP_QK_HEADS,
        .partial_rotary = 1,
        .rope_by_type = true,
        .windows = SP_WINDOWS_LISTED,
        .mlp_bias = SP_BIAS_NEVER,
        .head_gate = true,
        .expert_keys = {.count = "n_routed_experts",
                        .types = "mlp_layer_types",
                        .list = "moe_layers_enum",
                        .parallel_width = "share_expert_dim",
                        .scale = "moe_router_scaling_factor"},
        SP_EXPERT_SIZES(288, 8, 1280, 3, 0),
        .n_shared_ffn = 1280,
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true},
        .router_norm_fixed = true,
        .reads = {.layer_types = true,
                  .query_scalar = true,
                  .layer_thetas = true,
                  .experts = true,
                  .routed_scale = true},
        /* The names of Step's own configuration. */
        .key_names =
            SP_ROWS(sp_key_name, {"num_attention_groups", "num_key_value_heads"},
                    {"moe_num_experts", "n_routed_experts"}, {"moe_top_k", "num_experts_per_tok"},
                    {"share_expert_dims", "share_expert_dim"},
                    {"max_seq_len", "max_position_embeddings"}, {"rope_theta", "layer_rope_theta"}),
        .read_own = read_step,
        /* It repeats num_sliding_attention_heads, and tensors with other heads are refused. */
        .own_keys = "per_layer_config",
        .aliases = {step_aliases},
        .prediction_layer = true,
        .prediction_windowed = true,
    },
    {
        .name = "aria_text",
        .architecture = "AriaTextForCausalLM",
        .sizes = {32000, 4096, 4096, 32, 32, 0, 0, 2048, 0},
        .expert_keys = {.count = "moe_num_experts",
                        .used = "moe_topk",
                        .shared = "moe_num_shared_experts",
                        .width = "intermediate_size"},
        SP_EXPERT_SIZES(8, 2, 0, 0, 2),
        .routing = {.law = SP_ROUTE_SOFTMAX_CHOSEN},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {SP_ROWS(sp_alias,
                            SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.fc1.weight",
                                             sp_layout_transposed_gate_up),
                            {"mlp.experts.down_proj.weight", "mlp.experts.fc2.weight",
                             sp_layout_transposed, 0}),
                    sp_aliases_shared_experts},
    },
    {
        .name = "zaya",
        .architecture = "ZayaForCausalLM",
        .sizes = {262272, 2048, 2048, 40, 8, 2, 128, 131072, 0},
        .ffn_key = "moe_intermediate_size",
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_HEADS,
        .theta = 5e6,
        .partial_rotary = 0.5,
        .local_theta = 1e4,
        .rope_by_type = true,
        .rope_dicts = {"hybrid", "hybrid_sliding"},
        .own_types = "hybrid",
        .windows = SP_WINDOWS_LISTED,
        .biases = SP_BIAS_REFUSED,
        .tied = true,
        SP_EXPERT_SIZES(16, 1, 0, 0, 0),
        .routing = {.n_zero = 1, .zero_skips = true, .corrected = true},
        .router_norm_fixed = true,
        .reads = {.layer_types = true, .experts = true},
        .read_own = read_zaya,
        .aliases = {zaya_aliases},
    },
    {.name = NULL},
};
