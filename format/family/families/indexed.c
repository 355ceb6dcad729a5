/* DeepSeek-V3.2, GLM-5 and A.X K2: the layers of DeepSeek-V3 with an index that chooses keys. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <stdio.h>
#include <string.h>

static const struct sp_latent_family latent_deepseek_v32 = {
    .defaults =
        {.kv_rank = 512, .q_rank = 1536, .nope_dim = 128, .value_dim = 128, .rows_paired = true},
    .index = {.top_k = 2048, .n_heads = 64, .head_dim = 128},
    .always_interleaved = true,
};

static const struct sp_latent_family latent_glm_dsa = {
    .defaults =
        {.kv_rank = 512, .q_rank = 2048, .nope_dim = 192, .value_dim = 256, .rows_paired = true},
    .index = {.top_k = 2048, .n_heads = 32, .head_dim = 128, .rows_paired = true},
    .always_interleaved = true,
    .index_shared = true,
};

/* ---- A.X K2 ---- */

static const struct sp_latent_family latent_axk2 = {
    .defaults = {.kv_rank = 128,
                 .q_rank = 384,
                 .nope_dim = 64,
                 .value_dim = 64,
                 .rows_paired = true,
                 .gated = true},
    .index = {.top_k = 2048, .n_heads = 16, .head_dim = 128},
    .always_interleaved = true,
};

/* The rows of a head are those of its query and then those of its gate; parts 0, 1. */
static enum sp_status layout_query_gate(const struct sp_alias_source *s)
{
    const struct sp_latent_config *c = &s->match->config->latent;
    uint64_t nope = c->nope_dim, query = nope + c->rope_dim, head = query + c->value_dim;
    uint64_t cols = s->spec->shape[1], shape[] = {s->layer->n_heads * head, cols};
    enum sp_status st;
    bool found;

    if ((st = sp_tensor_match_claim(&found, s, shape, 2)) || !found) return st;
    for (uint64_t row = 0; row < shape[0]; row += head) {
        const struct sp_row_span spans[] = {
            {.first_row = row, .step = 1, .n_rows = nope, .n_cols = cols},
            {.first_row = row + nope, .step = 2, .n_rows = c->rope_dim / 2, .n_cols = cols},
            {.first_row = row + nope + 1, .step = 2, .n_rows = c->rope_dim / 2, .n_cols = cols},
            {.first_row = row + query, .step = 1, .n_rows = c->value_dim, .n_cols = cols},
        };
        for (size_t i = s->part ? 3 : 0; i < (s->part ? 4 : 3); i++)
            if ((st = sp_tensor_match_add(s, spans[i]))) return st;
    }
    return SP_OK;
}

/* The second norm of a layer without experts has no gate, and so no ".norm" in its name. */
static enum sp_status layout_second_norm(const struct sp_alias_source *s)
{
    static const char end[] = ".norm.weight";
    char name[SP_SOURCE_NAME];
    struct sp_alias_source plain = *s;

    plain.name = name;
    if (s->layer->n_experts) return sp_layout_whole(s);
    snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(s->name) - strlen(end)), s->name);
    return sp_layout_whole(&plain);
}

static const struct sp_alias axk2_aliases[] = {
    {"self_attn.q_b_proj.weight", NULL, layout_query_gate, 0},
    {"self_attn.gate_b_proj.weight", "self_attn.q_b_proj.weight", layout_query_gate, 1},
    {"input_layernorm.weight", "input_layernorm.norm.weight", NULL, 0},
    {"input_gate.down_proj.weight", "input_layernorm.W_down.weight", NULL, 0},
    {"input_gate.up_proj.weight", "input_layernorm.W_up.weight", NULL, 0},
    {"post_attention_layernorm.weight", "post_attention_layernorm.norm.weight", layout_second_norm,
     0},
    {"ffn_gate.down_proj.weight", "post_attention_layernorm.W_down.weight", NULL, 0},
    {"ffn_gate.up_proj.weight", "post_attention_layernorm.W_up.weight", NULL, 0},
    {0},
};

static enum sp_status read_axk2(struct sp_config *c, const struct sp_config_text *t,
                                const struct sp_sizes *sizes, struct sp_err *err)
{
    (void)sizes;
    c->norm_gate_rank = 16;
    return sp_text_unsigned(t, "gated_norm_rank", 1, SP_CAP_WIDTH, &c->norm_gate_rank, err);
}

/* ---- HY 4 ---- */

static const struct sp_latent_family latent_hy_v4 = {
    .defaults = {.kv_rank = 512, .q_rank = 1024, .nope_dim = 192, .value_dim = 256},
    .index = {.top_k = 2048, .n_heads = 32, .head_dim = 128, .rotates_last = true},
    .index_shared = true,
};

/* Published files may lack "hc_pre.". */
static const struct sp_alias hy_v4_aliases[] = {
    {"streams.*", "hc_head.hc_pre.*", NULL, 0},
    {"streams.*", "hc_head.*", NULL, 0},
    {"attention_streams.*", "hc_attn_layer.hc_pre.*", NULL, 0},
    {"attention_streams.*", "hc_attn_layer.*", NULL, 0},
    {"mlp_streams.*", "hc_mlp_layer.hc_pre.*", NULL, 0},
    {"mlp_streams.*", "hc_mlp_layer.*", NULL, 0},
    {"self_attn.sinks", "self_attn.learnable_sink_param", NULL, 0},
    {"self_attn.gate_proj.weight", "self_attn.linear_gate.weight", NULL, 0},
    {"mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up, 0},
    {"mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up, 1},
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", NULL, 0},
    {0},
};

static enum sp_status read_hy_v4(struct sp_config *c, const struct sp_config_text *t,
                                 const struct sp_sizes *sizes, struct sp_err *err)
{
    double limit = 0;
    enum sp_status st;

    (void)sizes;
    c->hyper =
        (struct sp_hyper_config){.n_streams = 4, .strength = 2, .eps = 1e-6, .out_eps = 1e-6};
    if ((st = sp_text_unsigned(t, "hc_mult", 2, SP_MAX_STREAMS, &c->hyper.n_streams, err)) ||
        (st = sp_text_double(t, "hc_magnitude", 1e-6, 1e6, &c->hyper.strength, err)) ||
        (st = sp_text_double(t, "hc_eps", 0, 1, &c->hyper.eps, err)) ||
        (st = sp_text_double(t, "swiglu_limit", 1e-3, 1e6, &limit, err)))
        return st;
    c->hyper.out_eps = c->hyper.eps;
    c->index.norm_eps = c->norm_eps;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].output_gate = true;
        if (c->layers[i].n_experts) c->layers[i].limits[0] = limit;
    }
    return SP_OK;
}

static const char *const hy_v4_own_keys[] = {"swiglu_limit", NULL};

const struct sp_family sp_families_indexed[] = {
    {
        .name = "deepseek_v32",
        .architecture = "DeepseekV32ForCausalLM",
        .sizes = {129280, 7168, 18432, 61, 128, 128, 64, 163840, 0},
        .latent = &latent_deepseek_v32,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 2048, 3, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 8, .n_groups_used = 4, .scale = 2.5},
        .reads = {SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .prediction_head = true,
        .prediction_layer = true,
    },
    {
        .name = "glm_moe_dsa",
        .architecture = "GlmMoeDsaForCausalLM",
        .sizes = {154880, 6144, 12288, 78, 64, 64, 64, 202752, 0},
        .norm_eps = 1e-5,
        .latent = &latent_glm_dsa,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 2048, 3, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.5},
        .reads = {SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .prediction_head = true,
        .prediction_layer = true,
    },
    {
        .name = "axk2",
        .architecture = "AXK2ForCausalLM",
        .sizes = {163840, 2048, 5120, 48, 32, 32, 32, 131072, 0},
        .latent = &latent_axk2,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(128, 8, 512, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .groups_zeroed = true,
                    .scale = 2.5},
        .reads = {SP_V3_READS},
        .read_own = read_axk2,
        .aliases = {axk2_aliases, sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "hy_v4",
        .architecture = "HYV4ForCausalLM",
        .sizes = {129024, 5120, 13312, 64, 64, 64, 64, 262144, 0},
        .norm_eps = 1e-5,
        .latent = &latent_hy_v4,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 2048, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.827},
        .sinks = true,
        .reads = {SP_V3_READS},
        .read_own = read_hy_v4,
        .own_keys = hy_v4_own_keys,
        .aliases = {hy_v4_aliases, sp_aliases_experts, sp_aliases_shared_experts,
                    sp_aliases_latent},
        .unread_layers = true,
    },
    {.name = NULL},
};
