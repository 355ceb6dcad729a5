/* Kimi Linear and Ling 3.0: Kimi delta attention between layers of latent attention. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

/* ---- Kimi Linear ---- */

static const struct sp_delta_family delta_kimi = {
    .defaults =
        {.n_value_heads = 32, .value_dim = 128, .kernel = 4, .by_channel = true, .low_rank = 128},
    .full_interval = 4,
    .first_full = 5,
    .object = "linear_attn_config",
};

/* [1, 1, heads, 1] */
static enum sp_status layout_rates(const struct sp_alias_source *s)
{
    const uint64_t n = s->spec->shape[0], shape[] = {1, 1, n, 1};

    return sp_tensor_match_take(s, shape, 4, sp_rows(0, n, 1));
}

static const struct sp_alias kimi_delta_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "self_attn.q_proj.weight", sp_layout_delta_each, 0},
    {"linear_attn.conv1d.weight", "self_attn.q_conv1d.weight", sp_layout_delta_each, 0},
    {"linear_attn.in_proj_b.weight", "self_attn.b_proj.weight", NULL, 0},
    {"linear_attn.in_proj_a.weight", "self_attn.f_a_proj.weight", NULL, 0},
    {"linear_attn.up_proj_a.weight", "self_attn.f_b_proj.weight", NULL, 0},
    {"linear_attn.in_proj_z.weight", "self_attn.g_a_proj.weight", NULL, 0},
    {"linear_attn.up_proj_z.weight", "self_attn.g_b_proj.weight", NULL, 0},
    {"linear_attn.A_log", "self_attn.A_log", layout_rates, 0},
    {"linear_attn.dt_bias", "self_attn.dt_bias", NULL, 0},
    {"linear_attn.norm.weight", "self_attn.o_norm.weight", NULL, 0},
    {"linear_attn.out_proj.weight", "self_attn.o_proj.weight", NULL, 0},
    {0},
};

/* Published files have mlp.* in layers without experts. */
static const struct sp_alias kimi_expert_aliases[] = {
    {"mlp.router.weight", "block_sparse_moe.gate.weight", NULL, 0},
    {"mlp.router.correction", "block_sparse_moe.gate.e_score_correction_bias", NULL, 0},
    SP_ALIAS_W123("mlp.experts", "block_sparse_moe.experts.%u", sp_layout_each_expert),
    {"mlp.shared_expert.*", "block_sparse_moe.shared_experts.*", NULL, 0},
    {"mlp.*", "block_sparse_moe.*", NULL, 0},
    {"mlp.*", NULL, NULL, 0},
    {0},
};

static void read_kimi(struct sp_config *c, const struct sp_config_text *t)
{
    (void)c;
    sp_text_need(t, "mla_use_nope");
}

/* ---- Ling 3.0 ---- */

static const struct sp_delta_family delta_bailing = {
    .defaults = {.n_value_heads = 32, .value_dim = 128, .kernel = 4, .by_channel = true},
    .full_interval = 6,
};

static const struct sp_latent_family latent_bailing = {
    .defaults = {SP_LATENT(512, 0, 128, 128), .rows_paired = true},
    .always_interleaved = true,
};

static const struct sp_alias bailing_aliases[] = {
    {"embed_tokens.weight", "word_embeddings.weight", NULL, 0},
    {"linear_attn.in_proj_qkv.weight", "attention.q_proj.weight", sp_layout_delta_each, 0},
    {"linear_attn.conv1d.weight", "attention.q_conv1d.weight", sp_layout_delta_each, 0},
    {"linear_attn.in_proj_b.weight", "attention.b_proj.weight", NULL, 0},
    {"linear_attn.in_proj_a.weight", "attention.f_proj.weight", NULL, 0},
    {"linear_attn.in_proj_z.weight", "attention.g_proj.weight", NULL, 0},
    {"linear_attn.A_log", "attention.A_log", NULL, 0},
    {"linear_attn.dt_bias", "attention.dt_bias", NULL, 0},
    {"linear_attn.norm.weight", "attention.o_norm.weight", NULL, 0},
    {"linear_attn.out_proj.weight", "attention.dense.weight", NULL, 0},
    {"self_attn.head_gate.weight", "attention.g_proj.weight", NULL, 0},
    {"self_attn.o_proj.*", "attention.dense.*", NULL, 0},
    {"self_attn.k_b_proj.weight", "attention.kv_b_proj.weight", sp_layout_latent_keys, 0},
    {"self_attn.v_b_proj.weight", "attention.kv_b_proj.weight", sp_layout_latent_values, 0},
    {"self_attn.q_proj.weight", "attention.q_proj.weight", sp_layout_query_tails, 0},
    {"self_attn.q_b_proj.weight", "attention.q_b_proj.weight", sp_layout_query_tails, 0},
    {"self_attn.kv_a_proj_with_mqa.*", "attention.kv_a_proj_with_mqa.*", sp_layout_key_tail, 0},
    {"self_attn.*", "attention.*", NULL, 0},
    {"mlp.router.correction", "mlp.gate.expert_bias", NULL, 0},
    {0},
};

static const struct sp_key_name bailing_keys[] = {
    {"model_max_length", "max_position_embeddings"},
    {"moe_renormalize", "norm_topk_prob"},
    {"score_function", "scoring_func"},
    {"num_expert_group", "n_group"},
    {"num_experts_per_token", "num_experts_per_tok"},
    {"num_shared_experts", "n_shared_experts"},
    {"num_attention_heads", "linear_num_heads"},
    {"head_dim", "linear_head_dim"},
    {"short_conv_kernel_size", "linear_conv_kernel_dim"},
    {"layer_group_size", "full_attention_interval"},
    {0},
};

static void read_bailing(struct sp_config *c, const struct sp_config_text *t)
{
    bool safe = true;
    double floor = -5;

    sp_text_bool(t, "kda_safe_gate", &safe);
    sp_text_double(t, "kda_lower_bound", -1e3, -1e-6, &floor);
    c->delta.decay_floor = safe ? floor : 0;
}

/* ---- GLM-5.3: its layers with hyper-connections, and an index over pools of tokens ---- */

static const struct sp_delta_family delta_glm5 = {
    .defaults =
        {.n_value_heads = 64, .value_dim = 128, .kernel = 4, .by_channel = true, .low_rank = 128},
    .full_interval = 4,
    .object = "linear_attn_config",
};

static const struct sp_latent_family latent_glm5 = {
    .defaults = {SP_LATENT(512, 1536, 256, 256)},
    .index = {.top_k = 2048, .n_heads = 32, .head_dim = 128, .pool = 16},
    .index_shared = true,
    .ropeless = true,
};

static const struct sp_alias glm5_aliases[] = {
    {"attention_streams.hc_*", "hc_attn_*", NULL, 0},
    {"mlp_streams.hc_*", "hc_ffn_*", NULL, 0},
    {"linear_attn.A_log", "self_attn.A_log", NULL, 0},
    {"self_attn.indexer.pool_gate.weight", "self_attn.indexer.index_kpool_compress_gate", NULL, 0},
    {"self_attn.indexer.pool_bias", "self_attn.indexer.index_kpool_compress_ape", NULL, 0},
    {0},
};

static void read_glm5(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *object = sp_text_get(t, "linear_attn_config");
    double limit = 10, floor = -5;

    c->hyper = (struct sp_hyper_config){
        .n_streams = 4, .strength = 2, .eps = 1e-6, .n_balance = 20, .mean = true};
    sp_text_unsigned(t, "hc_mult", 2, SP_MAX_STREAMS, &c->hyper.n_streams);
    sp_text_unsigned(t, "hc_sinkhorn_iters", 1, 1000, &c->hyper.n_balance);
    sp_text_double(t, "hc_eps", 0, 1, &c->hyper.eps);
    sp_text_double(t, "swiglu_limit", 1e-3, 1e6, &limit);
    sp_text_double(t, "linear_lower_bound", -1e3, -1e-6, &floor);
    sp_member_double(t, object, "gate_lower_bound", -1e3, -1e-6, &floor);
    sp_text_need(t, "index_kpool_always_select_tail");
    c->delta.decay_floor = floor;
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].limits[0] = c->layers[i].limits[1] = limit;
}

const struct sp_family sp_families_kimi[] = {
    {
        .name = "kimi_linear",
        .architecture = "KimiLinearForCausalLM",
        .sizes = {163840, 2304, 9216, 27, 32, 32, 64, 1048576, 0},
        .norm_eps = 1e-5,
        .unrotated = true,
        .delta_layers = true,
        .delta = &delta_kimi,
        .latent = &(const struct sp_latent_family){.defaults = {SP_LATENT(512, 0, 128, 128)}},
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.dense = "first_k_dense_replace",
                        .types = "mlp_layer_types",
                        .shared = "n_shared_experts"},
        SP_EXPERT_SIZES(256, 8, 1024, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.446},
        .reads = {.layer_types = true, SP_V3_READS},
        /* The keys of DeepSeek-V3 under other names. */
        .key_names = SP_ROWS(
            sp_key_name, {"model_max_length", "max_position_embeddings"},
            {"moe_renormalize", "norm_topk_prob"}, {"moe_router_activation_func", "scoring_func"},
            {"num_expert_group", "n_group"}, {"num_experts_per_token", "num_experts_per_tok"},
            {"num_shared_experts", "n_shared_experts"}),
        .read_own = read_kimi,
        .aliases = {kimi_delta_aliases, kimi_expert_aliases, sp_aliases_latent},
    },
    {
        .name = "bailing_hybrid",
        .architecture = "BailingHybridForCausalLM",
        .sizes = {157184, 2560, 6144, 42, 32, 32, 64, 262144, 0},
        .theta = 6e6,
        .delta_layers = true,
        .delta = &delta_bailing,
        .latent = &latent_bailing,
        .mlp_bias = SP_BIAS_NEVER,
        .head_gate = true,
        .expert_keys = {.dense = "first_k_dense_replace",
                        .types = "mlp_layer_types",
                        .shared = "n_shared_experts"},
        SP_EXPERT_SIZES(512, 8, 768, 2, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 8, .n_groups_used = 4, .scale = 2.5},
        .reads = {.layer_types = true, SP_V3_READS},
        .key_names = bailing_keys,
        .read_own = read_bailing,
        .aliases = {bailing_aliases, sp_aliases_experts, sp_aliases_shared_experts},
        .prediction_layer = true,
        .prediction_normed = true,
        .prediction_names = sp_aliases_next_final,
    },
    {
        .name = "glm5_next_text",
        .architecture = "Glm5NextTextModel",
        .sizes = {154880, 4096, 12288, 45, 64, 64, 0, 1048576, 0},
        .norm_eps = 1e-5,
        .unrotated = true,
        .delta_layers = true,
        .delta = &delta_glm5,
        .latent = &latent_glm5,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(288, 8, 2048, 3, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.5},
        .reads = {.layer_types = true, SP_V3_READS},
        .read_own = read_glm5,
        .own_keys = "swiglu_limit",
        .aliases = {glm5_aliases, kimi_delta_aliases, sp_aliases_experts, sp_aliases_shared_experts,
                    sp_aliases_latent},
        .prediction_layer = true,
        .prediction_normed = true,
    },
    {.name = NULL},
};
