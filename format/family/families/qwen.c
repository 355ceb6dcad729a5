/* Qwen2 and Qwen3, also inside Qwen-VL, Qwen3-Next, Qwen3.5 and Qwen4. The last three mix gated
 * delta-rule layers with attention whose output is gated. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <string.h>

static const struct sp_alias gated_query_aliases[] = {
    {"self_attn.q_proj.weight", NULL, sp_layout_query_gate, 0},
    {"self_attn.gate_proj.weight", "self_attn.q_proj.weight", sp_layout_query_gate, 1},
    {"self_attn.q_proj.bias", NULL, sp_layout_query_gate, 0},
    {"self_attn.gate_proj.bias", "self_attn.q_proj.bias", sp_layout_query_gate, 1},
    {0},
};

/* GGUF files have the parts of in_proj_qkvz on their own. */
static const struct sp_alias grouped_delta_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_qkvz.weight", sp_layout_delta_qkv, 0},
    {"linear_attn.in_proj_qkv.weight", NULL, NULL, 0},
    {"linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkvz.weight", sp_layout_delta_z, 0},
    {"linear_attn.in_proj_z.weight", NULL, NULL, 0},
    {"linear_attn.in_proj_b.weight", "linear_attn.in_proj_ba.weight", sp_layout_delta_ba, 0},
    {"linear_attn.in_proj_a.weight", "linear_attn.in_proj_ba.weight", sp_layout_delta_ba, 1},
    {0},
};

static const struct sp_gguf_member delta_members[] = {
    {SP_PUT_DELTA, NULL, NULL, NULL},
    {SP_PUT_ROTARY, NULL, NULL, NULL},
    {SP_PUT_EXPERTS, NULL, NULL, NULL},
    {0},
};

/* attn_qkv and attn_gate are of the gated delta rule. */
static const struct sp_gguf_name delta_names[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv", SP_GGUF_AS_IS},
    {"attn_gate", "linear_attn.in_proj_z", SP_GGUF_AS_IS},
    {"ssm_ba", "linear_attn.in_proj_ba", SP_GGUF_AS_IS},
    {"ssm_beta", "linear_attn.in_proj_b", SP_GGUF_AS_IS},
    {"ssm_alpha", "linear_attn.in_proj_a", SP_GGUF_AS_IS},
    {"ssm_conv1d", "linear_attn.conv1d", SP_GGUF_CONV},
    {"ssm_a", "linear_attn.A_log", SP_GGUF_LOG},
    {"ssm_dt", "linear_attn.dt_bias", SP_GGUF_BARE},
    {"ssm_norm", "linear_attn.norm", SP_GGUF_AS_IS},
    {"ssm_out", "linear_attn.out_proj", SP_GGUF_AS_IS},
    {0},
};

/* ---- Qwen4: streams, an index, and tables of n-grams ---- */

/* The rows of the queries and then of the key; parts 0, 1. */
static enum sp_status layout_index(const struct sp_alias_source *s)
{
    const struct sp_index_config *c = &s->match->config->index;
    const uint64_t *own = s->spec->shape, queries = (uint64_t)c->n_heads * c->head_dim;
    const uint64_t shape[] = {queries + c->head_dim, own[1]};

    return sp_tensor_match_take(s, shape, 2, sp_rows(s->part ? queries : 0, own[0], own[1]));
}

/* Numbered tensors of equal parts of the rows; the last one may have fewer. */
static enum sp_status layout_shards(const struct sp_alias_source *s)
{
    uint64_t n_rows = s->spec->shape[0], n = s->match->config->ngrams.n_shards, most;
    uint64_t shape[] = {0, s->spec->shape[1]};
    struct sp_alias_source one = *s;
    char name[SP_SOURCE_NAME];
    enum sp_status st = SP_OK;

    one.name = name;
    most = (n_rows + n - 1) / n;
    for (unsigned i = 0; st == SP_OK && i * most < n_rows; i++) {
        shape[0] = n_rows - i * most < most ? n_rows - i * most : most;
        sp_layout_numbered_name(name, sizeof name, s->name, i);
        st = sp_tensor_match_take(&one, shape, 2, sp_rows(0, shape[0], shape[1]));
    }
    return st;
}

static const struct sp_alias qwen4_aliases[] = {
    {"streams.*", "hyper_connection_mixer.*", NULL, 0},
    {"attention_streams.*", "attn_hyper_connection.*", NULL, 0},
    {"mlp_streams.*", "mlp_hyper_connection.*", NULL, 0},
    {"self_attn.indexer.q_proj.weight", "self_attn.indexer.index_qk_proj.weight", layout_index, 0},
    {"self_attn.indexer.wk.weight", "self_attn.indexer.index_qk_proj.weight", layout_index, 1},
    {"self_attn.indexer.q_norm.weight", "self_attn.indexer.q_layernorm.weight", NULL, 0},
    {"self_attn.indexer.k_norm.weight", "self_attn.indexer.k_layernorm.weight", NULL, 0},
    {"ple.table.weight", "ple.ple_embedding.ngram_embedding.shard_%u.weight", layout_shards, 0},
    {0},
};

/* Without any of its keys there is no index. */
static void read_qwen4_index(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_index_config x = {.mean = true, .norm_eps = c->norm_eps};
    unsigned n_keys = 0;

    sp_text_unsigned(t, "indexer_n_heads", 1, SP_CAP_HEADS, &x.n_heads);
    sp_text_unsigned(t, "indexer_kv_heads", 1, 1, &n_keys);
    sp_text_unsigned(t, "indexer_head_dim", c->ropes[0].n_rot, 512, &x.head_dim);
    sp_text_unsigned(t, "indexer_budget", 1, SP_CAP_POSITIONS, &x.top_k);
    sp_text_unsigned(t, "indexer_compress_ratio", 1, 65536, &x.pool);
    if (x.n_heads && n_keys && x.head_dim && x.pool && x.top_k && x.top_k % x.pool == 0) {
        if (sp_config_first_layer(c, SP_MIXER_ATTENTION) < c->n_layers) c->index = x;
        return;
    }
    if (x.n_heads || n_keys || x.head_dim || x.pool || x.top_k)
        SP_INVALID(t,
                   "one of indexer_n_heads, indexer_kv_heads, indexer_head_dim, indexer_budget and "
                   "indexer_compress_ratio is missing, or the fourth no multiple of the last");
}

/* Numbers the layers that have a table of n-grams, which are listed from 1. */
static void find_tables(struct sp_config *c, const struct sp_json *list,
                        const struct sp_config_text *t)
{
    int64_t before = 0, v;

    for (unsigned i = 0; i < sp_json_len(list); i++, before = v) {
        if (i == SP_MAX_NGRAM_TABLES || !sp_json_to_i64(sp_json_at(list, i), &v) || v <= before ||
            v > c->n_layers || !(c->layers[v - 1].mixers & SP_MIXER_DELTA_NET)) {
            SP_REFUSED(t, "ple_layer_ids[%u] is not the next of up to %d linear_attention layers",
                       i, SP_MAX_NGRAM_TABLES);
            return;
        }
        c->layers[v - 1].ngrams = i + 1;
    }
}

static void read_ngrams(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_ngram_config n = {
        .longest = 3, .kernel = 4, .least_rows = 20000000, .multiple = 128, .n_shards = 512};
    const struct sp_json *list = sp_text_get(t, "ple_layer_ids"), *end;
    unsigned n_heads = 8, width = c->n_hidden;
    int64_t seed = 1234, separator = -1;

    find_tables(c, list, t);
    sp_text_unsigned(t, "ngram_size", 2, SP_MAX_NGRAM, &n.longest);
    sp_text_unsigned(t, "heads_per_ngram", 1, SP_MAX_NGRAM_PARTS, &n_heads);
    sp_text_unsigned(t, "ple_embed_dim", 1, SP_CAP_WIDTH, &width);
    sp_text_unsigned(t, "ple_conv_kernel_size", 2, 64, &n.kernel);
    sp_text_unsigned(t, "ngram_vocab_size_base", 1, 1 << 28, &n.least_rows);
    sp_text_unsigned(t, "make_ngram_vocab_size_divisible_by", 1, 1 << 20, &n.multiple);
    sp_text_unsigned(t, "split_ngram_parts", 1, 65536, &n.n_shards);
    sp_text_i64(t, "seed", INT64_MIN, INT64_MAX, &seed);
    if (sp_json_len(list) == 0) return;
    end = sp_text_get(t, "eos_token_id");
    if (sp_json_kind(end) == SP_JSON_ARRAY) end = sp_json_at(end, 0);
    if (!sp_json_to_i64(end, &separator) || separator < 0 || separator >= c->n_vocab)
        SP_INVALID(t, "eos_token_id is not a token, which ple_layer_ids needs");
    n.n_parts = (n.longest - 1) * n_heads;
    n.dim = width / n.n_parts;
    n.separator = (unsigned)separator;
    n.seed = (uint64_t)seed;
    c->ngrams = n;
    if (n.n_parts > SP_MAX_NGRAM_PARTS || n.n_parts * n.dim != width)
        SP_REFUSED(t,
                   "(ngram_size - 1) heads_per_ngram, %u, is above %d or does not divide "
                   "ple_embed_dim %u",
                   n.n_parts, SP_MAX_NGRAM_PARTS, width);
}

static void read_qwen4(struct sp_config *c, const struct sp_config_text *t)
{
    const char *gate = "silu";

    c->draft.unnormed = true;
    c->hyper = (struct sp_hyper_config){.n_streams = 4, .strength = 2, .rank = 320};
    sp_text_unsigned(t, "hc_count", 2, SP_MAX_STREAMS, &c->hyper.n_streams);
    sp_text_unsigned(t, "hc_lowrank", 1, SP_CAP_WIDTH, &c->hyper.rank);
    sp_text_string(t, "output_gate_type", &gate);
    read_qwen4_index(c, t);
    read_ngrams(c, t);
    c->delta.sigmoid_gate = strcmp(gate, "sigmoid") == 0;
    if (!c->delta.sigmoid_gate && strcmp(gate, "silu") != 0)
        SP_REFUSED(t, "output_gate_type \"%s\" is not supported", gate);
}

/* The text models of Qwen2-VL and Qwen2.5-VL. */
#define QWEN2_VL                                                                                   \
    .sizes = {152064, 8192, 29568, 80, 64, 8, 0, 32768, 0}, .norm_eps = 1e-5, .theta = 1e6,        \
    .windows = SP_WINDOWS_FROM_LAYER, .window = 4096, .window_layers = 80, .window_switch = true,  \
    .qkv_bias = SP_BIAS_ALWAYS, .o_bias = SP_BIAS_NEVER, .mlp_bias = SP_BIAS_NEVER,                \
    .reads = {.layer_types = true}

#define QWEN_DELTA_LAYERS                                                                          \
    .qk_norm = SP_QK_HEADS, .norm_shifted = true, .delta_layers = true, .mlp_bias = SP_BIAS_NEVER, \
    .output_gate = true, .gate_in_query = true
#define QWEN3_NEXT_LAYERS QWEN_DELTA_LAYERS, .partial_rotary = 0.25, .prediction_head = true
#define DELTA_GGUF .members = delta_members, .names = delta_names, .sizes_per_layer = true

#define QWEN3_NEXT_EXPERTS                                                                         \
    .n_shared_ffn = 512, .shared_gate = true, .routing = {.norm = true},                           \
    .reads = {.layer_types = true, .experts = true}
#define QWEN2_WINDOWS                                                                              \
    .windows = SP_WINDOWS_FROM_LAYER, .window = 4096, .window_layers = 28, .window_switch = true

const struct sp_family sp_families_qwen[] = {
    {.name = "qwen2_vl_text", .architecture = "Qwen2VLTextModel", QWEN2_VL},
    {.name = "qwen2_5_vl_text", .architecture = "Qwen2_5_VLTextModel", QWEN2_VL},
    {
        .name = "qwen3_vl_text",
        .architecture = "Qwen3VLTextModel",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 128000, 0},
        .qk_norm = SP_QK_HEADS,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
    },
    {
        .name = "qwen3_vl_moe_text",
        .architecture = "Qwen3VLMoeTextModel",
        .sizes = {151936, 2048, 5632, 24, 16, 16, 0, 128000, 0},
        .qk_norm = SP_QK_HEADS,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
        .tied = true,
        .expert_keys = {.step = "decoder_sparse_step", .only = "mlp_only_layers"},
        SP_EXPERT_SIZES(60, 4, 1408, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {SP_ROWS(sp_alias,
                            SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj",
                                             sp_layout_transposed_gate_up),
                            {"mlp.experts.down_proj.weight", "mlp.experts.down_proj",
                             sp_layout_transposed, 0}),
                    sp_aliases_experts},
    },
    {
        .name = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 0, 32768, 0},
        QWEN2_WINDOWS,
        .qkv_bias = SP_BIAS_ALWAYS,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "qwen2"}}},
    },
    {
        .name = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 32768, 0},
        .qk_norm = SP_QK_HEADS,
        QWEN2_WINDOWS,
        .mlp_bias = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .gguf = {.archs = {{.name = "qwen3"}}},
    },
    {
        .name = "qwen2_moe",
        .architecture = "Qwen2MoeForCausalLM",
        .sizes = {151936, 2048, 5632, 24, 16, 16, 0, 32768, 0},
        .windows = SP_WINDOWS_BEFORE_LAYER,
        .window = 4096,
        .window_layers = 28,
        .window_switch = true,
        .o_bias = SP_BIAS_NEVER,
        .mlp_bias = SP_BIAS_NEVER,
        .bias_key = "qkv_bias",
        .attention_bias = true,
        .expert_keys = {.step = "decoder_sparse_step",
                        .only = "mlp_only_layers",
                        .parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(60, 4, 1408, 0, 0),
        .n_shared_ffn = 5632,
        .shared_gate = true,
        .reads = {.layer_types = true, .experts = true},
        .aliases = {sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen2moe"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_EXPERTS, NULL, NULL, NULL},
                                    {SP_PUT_WORD, "norm_topk_prob", NULL, "false"})},
    },
    {
        .name = "qwen3_moe",
        .architecture = "Qwen3MoeForCausalLM",
        .sizes = {151936, 2048, 6144, 24, 32, 4, 0, 32768, 0},
        .qk_norm = SP_QK_HEADS,
        .windows = SP_WINDOWS_ALL,
        .window = 4096,
        .window_switch = true,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.step = "decoder_sparse_step", .only = "mlp_only_layers"},
        SP_EXPERT_SIZES(128, 8, 768, 0, 0),
        .reads = {.experts = true},
        .aliases = {sp_aliases_experts},
        .prediction_head = true,
        .gguf = {.archs = {{.name = "qwen3moe"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_EXPERTS, NULL, NULL, NULL},
                                    {SP_PUT_WORD, "norm_topk_prob", NULL, "true"})},
    },
    {
        .name = "qwen3_next",
        .architecture = "Qwen3NextForCausalLM",
        .sizes = {151936, 2048, 5632, 48, 16, 2, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .expert_keys = {.step = "decoder_sparse_step",
                        .only = "mlp_only_layers",
                        .parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(512, 10, 512, 0, 0),
        QWEN3_NEXT_EXPERTS,
        .aliases = {gated_query_aliases, grouped_delta_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen3next"}}, DELTA_GGUF},
    },
    {
        .name = "qwen3_5_text",
        .architecture = "Qwen3_5ForCausalLM",
        .sizes = {248320, 4096, 12288, 32, 16, 4, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .theta_required = true,
        .reads = {.layer_types = true},
        .aliases = {gated_query_aliases},
        .gguf = {.archs = {{.name = "qwen35"}}, DELTA_GGUF, .v_heads_tiled = true},
    },
    {
        .name = "qwen3_5_moe_text",
        .architecture = "Qwen3_5MoeForCausalLM",
        .sizes = {248320, 2048, 512, 40, 16, 2, 256, 32768, 0},
        QWEN3_NEXT_LAYERS,
        .theta_required = true,
        .expert_keys = {.parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(256, 8, 512, 0, 0),
        QWEN3_NEXT_EXPERTS,
        .router_norm_fixed = true,
        .aliases = {gated_query_aliases, sp_aliases_experts},
        .gguf = {.archs = {{.name = "qwen35moe"}}, DELTA_GGUF, .v_heads_tiled = true},
    },
    {
        .name = "qwen4_exp_text",
        .architecture = "Qwen4ExpForCausalLM",
        .sizes = {248320, 2048, 512, 40, 16, 2, 256, 32768, 0},
        QWEN_DELTA_LAYERS,
        .partial_rotary = 1,
        .own_types = "indexed_attention",
        .expert_keys = {.parallel_width = "shared_expert_intermediate_size"},
        SP_EXPERT_SIZES(512, 10, 512, 0, 0),
        QWEN3_NEXT_EXPERTS,
        .read_own = read_qwen4,
        .aliases = {qwen4_aliases, gated_query_aliases, sp_aliases_experts},
    },
    {.name = NULL},
};
