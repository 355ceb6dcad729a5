/* MiniMax-Text-01: lightning attention between layers of attention, with experts. MiniMax-M3:
 * layers whose heads attend to blocks of keys that an index chooses. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <string.h>

static const struct sp_delta_family lightning = {
    .defaults = {.n_value_heads = 32, .value_dim = 128, .kernel = 1, .lightning = true},
    .full_interval = 2,
    .first_full = 1,
};

static const struct sp_alias minimax_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "self_attn.qkv_proj.weight", sp_layout_delta_heads, 0},
    {"linear_attn.in_proj_z.weight", "self_attn.output_gate.weight", NULL, 0},
    {"linear_attn.norm.weight", "self_attn.norm.weight", NULL, 0},
    {"linear_attn.out_proj.weight", "self_attn.out_proj.weight", NULL, 0},
    {0},
};

static void read_scale(double *out, const struct sp_config_text *t, const char *key)
{
    *out = 1;
    sp_text_double(t, key, 1e-6, 1e6, out);
}

/* A head of lightning attention is one of attention. Each sublayer multiplies its normed input,
 * which becomes the residual stream, by alpha and its output by beta. */
static void read_minimax(struct sp_config *c, const struct sp_config_text *t)
{
    double full[2], linear[2], mlp[2];

    read_scale(&full[0], t, "full_attn_alpha_factor");
    read_scale(&full[1], t, "full_attn_beta_factor");
    read_scale(&linear[0], t, "linear_attn_alpha_factor");
    read_scale(&linear[1], t, "linear_attn_beta_factor");
    read_scale(&mlp[0], t, "mlp_alpha_factor");
    read_scale(&mlp[1], t, "mlp_beta_factor");
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        bool is_linear = l->mixers & SP_MIXER_DELTA_NET;
        l->stream_scales[0] = is_linear ? linear[0] : full[0];
        l->out_scales[0] = is_linear ? linear[1] : full[1];
        l->stream_scales[1] = mlp[0];
        l->out_scales[1] = mlp[1];
    }
    if (c->delta.lightning) {
        c->delta.kernel = 1;
        c->delta.n_key_heads = c->delta.n_value_heads = t->sizes->n_heads;
        c->delta.key_dim = c->delta.value_dim = t->sizes->head_dim;
    }
}

/* ---- MiniMax-M3 ---- */

/* The names of transformers, then the published ones. */
static const struct sp_alias m3_aliases[] = {
    {"self_attn.indexer.wk.weight", "self_attn.indexer.k_proj.weight", NULL, 0},
    SP_ALIAS_GATE_UP("mlp", "mlp.gate_up_proj.weight", sp_layout_gate_up),
    {"mlp.gate_proj.weight", NULL, NULL, 0},
    {"mlp.up_proj.weight", NULL, NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.shared_expert", "mlp.shared_experts.gate_up_proj.weight",
                     sp_layout_gate_up),
    {"mlp.shared_expert.down_proj.weight", "mlp.shared_experts.down_proj.weight", NULL, 0},
    {"mlp.shared_expert.*", "block_sparse_moe.shared_experts.*", NULL, 0},
    {"self_attn.indexer.wk.weight", "self_attn.index_k_proj.weight", NULL, 0},
    {"self_attn.indexer.*", NULL, NULL, 0},
    {"self_attn.indexer.*", "self_attn.index_*", NULL, 0},
    {0},
};

static const char m3_sparse[] = "minimax_m3_sparse";

/* Sets the layers that have an index, by name or by 0 and 1. */
static bool find_indexed(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *types = sp_text_get(t, "layer_types");
    bool any = false;

    if (types == NULL) types = sp_text_get(t, "sparse_attention_freq");
    for (unsigned i = 0; i < c->n_layers; i++) {
        int64_t indexed = strcmp(sp_text_at(types, i), m3_sparse) == 0;
        (void)sp_json_to_i64(sp_json_at(types, i), &indexed);
        c->layers[i].unindexed = indexed == 0;
        any = any || indexed != 0;
    }
    return any;
}

static void read_m3(struct sp_config *c, const struct sp_config_text *t)
{
    struct sp_index_config x = {.n_heads = 4, .head_dim = 128, .block = 128, .n_local = 1};
    unsigned n_blocks = 16;

    c->activation = SP_SWIGLU_CLAMPED;
    sp_read_clamped_swiglu(c, t);
    sp_text_unsigned(t, "index_n_heads", 1, SP_CAP_HEADS, &x.n_heads);
    sp_text_unsigned(t, "index_head_dim", 1, SP_CAP_WIDTH, &x.head_dim);
    sp_text_unsigned(t, "index_block_size", 1, 65536, &x.block);
    sp_text_unsigned(t, "index_topk_blocks", 1, 65536, &n_blocks);
    sp_text_unsigned(t, "index_local_blocks", 0, 65536, &x.n_local);
    x.norm_eps = c->norm_eps;
    x.top_k = n_blocks * x.block;
    if (!find_indexed(c, t)) return;
    c->index = x;
    if (x.n_local == 0 || x.n_local > n_blocks) {
        SP_REFUSED(t, "index_local_blocks %u is not from 1 to %u, index_topk_blocks", x.n_local,
                   n_blocks);
    }
    if (t->sizes->n_kv_heads % x.n_heads != 0) {
        SP_REFUSED(t, "index_n_heads %u does not divide num_key_value_heads %u", x.n_heads,
                   t->sizes->n_kv_heads);
    }
    if (c->ropes[0].n_rot > x.head_dim || n_blocks > SP_CAP_POSITIONS / x.block)
        SP_INVALID(t,
                   "index_head_dim %u has no room for %u rotated dims, or %u blocks of %u "
                   "tokens are more than %d",
                   x.head_dim, c->ropes[0].n_rot, n_blocks, x.block, SP_CAP_POSITIONS);
}

const struct sp_family sp_families_minimax[] = {
    {
        .name = "minimax",
        .architecture = "MiniMaxForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .delta_layers = true,
        .delta = &lightning,
        .biases = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(8, 2, 0, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .read_own = read_minimax,
        .aliases = {minimax_aliases, sp_aliases_block_sparse},
    },
    {
        .name = "minimax_m3_vl_text",
        .architecture = "MiniMaxM3VLForCausalLM",
        .sizes = {200064, 6144, 12288, 60, 64, 4, 128, 524288, 0},
        .ffn_key = "dense_intermediate_size",
        .norm_shifted = true,
        .qk_norm = SP_QK_HEADS,
        .theta = 5e6,
        .partial_rotary = 1,
        .rotary_dim = true,
        .own_types = m3_sparse,
        .biases = SP_BIAS_NEVER,
        .activation_key = "",
        SP_EXPERT_SIZES(128, 4, 3072, 0, 0),
        .n_shared_ffn = 3072,
        .expert_keys = {.width = "intermediate_size",
                        .parallel_width = "shared_intermediate_size",
                        .types = "mlp_layer_types"},
        .routing = {.law = SP_ROUTE_SIGMOID, .corrected = true, .norm = true, .scale = 2},
        .router_norm_fixed = true,
        .reads = {.layer_types = true, .experts = true, .routed_scale = true},
        /* Of sparse_attention_config in published files. */
        .key_names = SP_ROWS(
            sp_key_name, {"sparse_num_index_heads", "index_n_heads"},
            {"sparse_index_dim", "index_head_dim"}, {"sparse_block_size", "index_block_size"},
            {"sparse_topk_blocks", "index_topk_blocks"},
            {"sparse_local_block", "index_local_blocks"}, {"moe_layer_freq", "mlp_layer_types"}),
        .nested = "sparse_attention_config",
        .read_own = read_m3,
        .own_keys = "swiglu_limit swiglu_alpha",
        .prediction_path = "mtp.layers.0.",
        .prediction_block = "transformer_layer.",
        .prediction_names = sp_aliases_next_final,
        .aliases = {m3_aliases, sp_aliases_shared_experts, sp_aliases_experts,
                    sp_aliases_block_sparse},
    },
    {.name = NULL},
};
