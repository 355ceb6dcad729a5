/* DeepSeek-V4: compressed attention, hyper-connections, and experts that a table of tokens chooses
 * in the first layers. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <string.h>

/* The matrices of the groups are one matrix. */
static enum sp_status layout_groups(const struct sp_alias_source *s)
{
    const uint64_t *own = s->spec->shape, shape[] = {own[0] * own[1], own[2]};

    return sp_tensor_match_take(s, shape, 2, sp_rows(0, shape[0], shape[1]));
}

static const struct sp_alias aliases[] = {
    {"embed_tokens.weight", "embed.weight", NULL, 0},
    {"streams.hc_head_*", "hc_head_*", NULL, 0},
    {"attention_streams.hc_*", "hc_attn_*", NULL, 0},
    {"mlp_streams.hc_*", "hc_ffn_*", NULL, 0},
    {"input_layernorm.weight", "attn_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "ffn_norm.weight", NULL, 0},
    {"self_attn.q_a_proj.weight", "attn.wq_a.weight", NULL, 0},
    {"self_attn.q_a_layernorm.weight", "attn.q_norm.weight", NULL, 0},
    {"self_attn.q_b_proj.weight", "attn.wq_b.weight", NULL, 0},
    {"self_attn.kv_proj.weight", "attn.wkv.weight", NULL, 0},
    {"self_attn.kv_norm.weight", "attn.norm.weight", NULL, 0},
    {"self_attn.o_a_proj.weight", "attn.wo_a.weight", layout_groups, 0},
    {"self_attn.o_proj.weight", "attn.wo_b.weight", NULL, 0},
    {"self_attn.sinks", "attn.attn_sink", NULL, 0},
    {"self_attn.compressor.kv_proj.weight", "attn.compressor.wkv.weight", NULL, 0},
    {"self_attn.compressor.gate_proj.weight", "attn.compressor.wgate.weight", NULL, 0},
    {"self_attn.compressor.position_bias", "attn.compressor.ape", NULL, 0},
    {"self_attn.compressor.norm.weight", "attn.compressor.norm.weight", NULL, 0},
    {"self_attn.indexer.compressor.kv_proj.weight", "attn.indexer.compressor.wkv.weight", NULL, 0},
    {"self_attn.indexer.compressor.gate_proj.weight", "attn.indexer.compressor.wgate.weight", NULL,
     0},
    {"self_attn.indexer.compressor.position_bias", "attn.indexer.compressor.ape", NULL, 0},
    {"self_attn.indexer.*", "attn.indexer.*", NULL, 0},
    {"mlp.router.weight", "ffn.gate.weight", NULL, 0},
    {"mlp.router.correction", "ffn.gate.bias", NULL, 0},
    {"mlp.router.token_experts", "ffn.gate.tid2eid", NULL, 0},
    SP_ALIAS_W123("mlp.experts", "ffn.experts.%u", sp_layout_each_expert),
    SP_ALIAS_W123("mlp.shared_expert", "ffn.shared_experts", NULL),
    {0},
};

static const char csa[] = "compressed_sparse_attention", hca[] = "heavily_compressed_attention";

/* A layer's kind by its name: 0, 4 or 128, or -1. */
static int64_t ratio_of(const char *type)
{
    if (strcmp(type, csa) == 0) return 4;
    if (strcmp(type, hca) == 0) return 128;
    return strcmp(type, "sliding_attention") == 0 ? 0 : -1;
}

/* Layers: by name, or by the published rates 0, 4 and 128, which stand for the kinds; by default
 * two layers with large blocks, then both kinds in turn. rates: of small, overlapping and large
 * blocks. */
static void read_layer(struct sp_layer_config *l, const struct sp_config_text *t, unsigned i,
                       const unsigned rates[2])
{
    const struct sp_json *types = sp_text_get(t, "layer_types"), *mlps;
    const struct sp_json *ratios = sp_text_get(t, "compress_ratios");
    unsigned n_hashed = 3;
    int64_t ratio = i >= 2 && i % 2 ? 4 : 128;

    sp_text_unsigned(t, "num_hash_layers", 0, SP_CAP_LAYERS, &n_hashed);
    if (types)
        ratio = ratio_of(sp_text_at(types, i));
    else if (ratios && !sp_json_to_i64(sp_json_at(ratios, i), &ratio))
        ratio = -1;
    if (ratio != 0 && ratio != 4 && ratio != 128) {
        SP_REFUSED(t, "%s[%u] is not %s", types ? "layer_types" : "compress_ratios", i,
                   types ? "a kind of DeepSeek-V4's layers" : "0, 4 or 128");
    }
    l->overlaps = ratio == 4;
    l->unindexed = !l->overlaps;
    l->rate = ratio == 0 ? 0 : rates[ratio == 128];
    l->rope = ratio == 0 ? 1 : 0;
    mlps = sp_text_get(t, "mlp_layer_types");
    l->hashes = mlps ? strcmp(sp_text_at(mlps, i), "hash_moe") == 0 : i < n_hashed;
    if (mlps && !l->hashes && strcmp(sp_text_at(mlps, i), "moe") != 0)
        SP_REFUSED(t, "mlp_layer_types[%u] is neither \"moe\" nor \"hash_moe\"", i);
}

static void read_rates(unsigned rates[2], const struct sp_config_text *t)
{
    const struct sp_json *stated = sp_text_get(t, "compress_rates");

    rates[0] = 4;
    rates[1] = 128;
    sp_member_unsigned(t, stated, csa, 1, 65536, &rates[0]);
    sp_member_unsigned(t, stated, hca, 1, 65536, &rates[1]);
    sp_text_unsigned(t, "compress_rate_csa", 1, 65536, &rates[0]);
    sp_text_unsigned(t, "compress_rate_hca", 1, 65536, &rates[1]);
}

/* The layers with compression have the scaled rotation and a theta of their own, which stand in a
 * dict of their own, or are these by default. */
static void read_ropes(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *scaling = sp_text_get(t, "rope_scaling");

    if (sp_json_len(scaling) == 0) scaling = sp_text_get(t, "rope_parameters");
    if (c->ropes[0].n_rot > c->index.head_dim) {
        SP_INVALID(t, "%u rotated dims are more than index_head_dim %u", c->ropes[0].n_rot,
                   c->index.head_dim);
    }
    if (sp_json_get(scaling, "compress")) return;
    c->ropes[0].theta = 160000;
    if (sp_json_get(scaling, "attention_factor") == NULL) c->ropes[0].amplitude = 1;
    sp_text_double(t, "compress_rope_theta", 2, 1e15, &c->ropes[0].theta);
}

static void check_sizes(const struct sp_config *c, const struct sp_config_text *t,
                        const char *scoring)
{
    if (strcmp(scoring, "sqrtsoftplus") != 0)
        SP_REFUSED(t, "scoring_func \"%s\" is not supported", scoring);
    if (t->sizes->n_kv_heads != 1)
        SP_REFUSED(t, "num_key_value_heads %u is not 1", t->sizes->n_kv_heads);
    if (t->sizes->n_heads % c->compressed.n_groups != 0)
        SP_INVALID(t, "o_groups %u does not divide num_attention_heads %u", c->compressed.n_groups,
                   t->sizes->n_heads);
}

static void read_v4(struct sp_config *c, const struct sp_config_text *t)
{
    const char *scoring = "sqrtsoftplus";
    unsigned rates[2], window = 128;
    double limit = 10;

    c->index = (struct sp_index_config){.top_k = 512, .n_heads = 64, .head_dim = 128};
    c->compressed = (struct sp_compressed_config){.q_rank = 1024, .n_groups = 8, .out_rank = 1024};
    c->hyper =
        (struct sp_hyper_config){.n_streams = 4, .strength = 2, .eps = 1e-6, .n_balance = 20};
    c->attention_sinks = true;
    sp_text_unsigned(t, "index_topk", 1, SP_CAP_POSITIONS, &c->index.top_k);
    sp_text_unsigned(t, "index_n_heads", 1, SP_CAP_HEADS, &c->index.n_heads);
    sp_text_unsigned(t, "index_head_dim", 2, 512, &c->index.head_dim);
    sp_text_unsigned(t, "q_lora_rank", 1, SP_CAP_WIDTH, &c->compressed.q_rank);
    sp_text_unsigned(t, "o_groups", 1, SP_CAP_HEADS, &c->compressed.n_groups);
    sp_text_unsigned(t, "o_lora_rank", 1, SP_CAP_WIDTH, &c->compressed.out_rank);
    sp_text_unsigned(t, "hc_mult", 2, SP_MAX_STREAMS, &c->hyper.n_streams);
    sp_text_unsigned(t, "hc_sinkhorn_iters", 1, 1000, &c->hyper.n_balance);
    sp_text_double(t, "hc_eps", 0, 1, &c->hyper.eps);
    sp_text_double(t, "swiglu_limit", 1e-3, 1e6, &limit);
    sp_text_string(t, "scoring_func", &scoring);
    sp_text_unsigned(t, "sliding_window", 1, SP_CAP_POSITIONS, &window);
    read_rates(rates, t);
    read_ropes(c, t);
    check_sizes(c, t, scoring);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        l->window = window;
        l->limits[0] = l->limits[1] = limit;
        read_layer(l, t, i, rates);
    }
}

const struct sp_family sp_families_deepseek_v4[] = {
    {
        .name = "deepseek_v4",
        .architecture = "DeepseekV4ForCausalLM",
        .sizes = {129280, 4096, 2048, 43, 64, 1, 512, 1048576, 0},
        .partial_rotary = 0.125,
        .rotary_dim = true,
        .local_unscaled = true,
        .rope_dicts = {"compress", "main"},
        .windows = SP_WINDOWS_ALL,
        .own_types = "compressed_sparse_attention heavily_compressed_attention",
        .biases = SP_BIAS_NEVER,
        .sinks = true,
        SP_EXPERT_SIZES(256, 6, 2048, 0, 1),
        .expert_keys = {.count = "n_routed_experts", .shared = "n_shared_experts"},
        .routing = {.law = SP_ROUTE_SQRT_SOFTPLUS,
                    .corrected = true,
                    .norm = true,
                    .norm_eps = 1e-20,
                    .scale = 1.5},
        .router_norm_fixed = true,
        .reads = {.experts = true, .routed_scale = true},
        .key_names = SP_ROWS(sp_key_name, {"qk_rope_head_dim", "rotary_dim"}),
        .read_own = read_v4,
        .own_keys = "swiglu_limit q_lora_rank",
        .aliases = {aliases},
        .prefix = "",
        .head = "head.weight",
        .unread = "mtp.",
    },
    {.name = NULL},
};
