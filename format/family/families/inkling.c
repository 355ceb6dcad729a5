/* Inkling: short convolutions of keys, values and the outputs of sublayers, a bias by distance that
 * each query mixes, and shared experts that the router weighs like those that it chooses. Inkling
 * 2: the same with sinks and taps that rows make, clipped lengths instead of norms, and inputs that
 * are read from blocks of layers by attention. */
#include "format/base/affix.h"
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- config.json ---- */

/* Defaults that differ. */
struct defaults {
    unsigned window, heads, kv; /* of layers with a window */
    unsigned floor, outputs;    /* of log_scaling_n_floor, of unpadded_vocab_size; 0: none */
};

/* Layers with a window have heads of their own. They are listed by type or by number; by default
 * every sixth layer has none. */
static void read_windows(struct sp_config *c, const struct sp_config_text *t,
                         const struct defaults *d)
{
    const struct sp_json *types = sp_text_get(t, "layer_types");
    const struct sp_json *local = sp_text_get(t, "local_layer_ids");
    unsigned window = d->window, heads = d->heads, kv = d->kv, dim = 128;

    sp_text_unsigned(t, "sliding_window_size", 1, SP_CAP_POSITIONS, &window);
    sp_text_unsigned(t, "swa_num_attention_heads", 1, SP_CAP_HEADS, &heads);
    sp_text_unsigned(t, "swa_num_key_value_heads", 1, SP_CAP_HEADS, &kv);
    sp_text_unsigned(t, "swa_head_dim", 2, SP_CAP_WIDTH, &dim);
    if (heads % kv != 0) {
        SP_INVALID(t, "swa_num_attention_heads %u is not a multiple of swa_num_key_value_heads %u",
                   heads, kv);
    }
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        const char *type = sp_json_to_string(sp_json_at(types, i), NULL);
        bool listed = false;
        int64_t id;

        for (size_t k = 0; k < sp_json_len(local); k++)
            if (sp_json_to_i64(sp_json_at(local, k), &id) && id == i) listed = true;
        if (type ? strcmp(type, "hybrid_sliding") == 0 : local ? listed : (i + 1) % 6 != 0) {
            l->window = window;
            l->n_heads = heads;
            l->n_kv_heads = kv;
            l->head_dim = dim;
        }
        l->score_scale = 1.0 / l->head_dim;
    }
}

/* With dense_intermediate_size, intermediate_size is the width of an expert. Shared experts become
 * experts that every row has. */
static void read_experts(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned dense = 0;
    bool weighed = true;

    sp_text_unsigned(t, "dense_intermediate_size", 1, SP_CAP_WIDTH, &dense);
    sp_text_bool(t, "shared_expert_sink", &weighed);
    if (!weighed) SP_REFUSED(t, "shared_expert_sink false is not supported");
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        unsigned n = l->n_shared_ffn / l->n_ffn;

        if (dense) l->n_ffn = l->n_experts ? t->sizes->n_ffn : dense;
        l->n_shared_ffn = 0;
        if (l->n_experts == 0) continue;
        c->routing.n_always = n;
        l->n_experts += n;
        l->n_experts_used += n;
    }
}

/* What both have. */
static void read_common(struct sp_config *c, const struct sp_config_text *t,
                        const struct defaults *d)
{
    unsigned from = d->floor, n_outputs = d->outputs ? d->outputs : c->n_vocab;
    double growth = 0.1;

    c->normed_input = true;
    c->n_residual_taps = 4;
    c->rel_dim = 16;
    c->rel_extent = 1024;
    read_windows(c, t, d);
    sp_text_unsigned(t, "conv_kernel_size", 1, 64, &c->n_residual_taps);
    sp_text_unsigned(t, "d_rel", 1, SP_CAP_WIDTH, &c->rel_dim);
    sp_text_unsigned(t, "rel_extent", 1, SP_CAP_WIDTH, &c->rel_extent);
    sp_text_unsigned(t, "log_scaling_n_floor", 1, SP_CAP_POSITIONS, &from);
    sp_text_double(t, "log_scaling_alpha", 0, 1e3, &growth);
    sp_text_unsigned(t, "unpadded_vocab_size", 1, SP_CAP_VOCAB, &n_outputs);
    if (n_outputs < c->n_vocab) c->n_vocab = n_outputs;
    c->query_growth = (struct sp_query_growth){
        .beta = from ? growth : 0, .from = from, .offset = 1, .smooth = true};
}

static void read_inkling(struct sp_config *c, const struct sp_config_text *t)
{
    static const struct defaults defaults = {512, 64, 16, 0, 0};
    double width = 24;

    read_common(c, t, &defaults);
    read_experts(c, t);
    sp_text_double(t, "logits_mup_width_multiplier", 1e-6, 1e6, &width);
    c->logit_scale = 1 / width;
}

static void read_second(struct sp_config *c, const struct sp_config_text *t,
                        const struct defaults *d)
{
    const char *score = "sigmoid";
    unsigned n_block = 6;

    c->residual_normed = c->row_sinks = c->v_norm = c->block_attention = true;
    c->activation = SP_SWIGLU_CAPPED;
    c->qk_clip = 22.627416997969522;
    c->rel_clip = 8;
    c->softcaps[0] = 4;
    c->softcaps[1] = 25;
    read_common(c, t, d);
    sp_text_double(t, "qk_l2_clip_threshold", 1e-6, 1e6, &c->qk_clip);
    sp_text_double(t, "rel_l2_clip_threshold", 1e-6, 1e6, &c->rel_clip);
    sp_text_double(t, "mlp_gate_softcap", 1e-3, 1e6, &c->softcaps[0]);
    sp_text_double(t, "mlp_up_softcap", 1e-3, 1e6, &c->softcaps[1]);
    sp_text_unsigned(t, "n_layers_per_attn_res_block", 1, SP_CAP_LAYERS, &n_block);
    sp_text_string(t, "scoring_func", &score);
    if (strcmp(score, "sigmoid") != 0) SP_REFUSED(t, "scoring_func \"%s\" is not supported", score);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        l->score_scale = sqrt(l->score_scale);
        l->begins_block = i % n_block == 0;
        l->own_kv_inputs = l->window == 0;
    }
}

static void read_inkling2(struct sp_config *c, const struct sp_config_text *t)
{
    static const struct defaults defaults = {1024, 48, 8, 128000, 200058};

    read_second(c, t, &defaults);
}

/* Some of its blocks of layers run several times. */
static void read_looped(struct sp_config *c, const struct sp_config_text *t)
{
    static const struct defaults defaults = {1024, 24, 8, 8192, 200058};
    const struct sp_json *object = sp_text_get(t, "loop_config");
    unsigned first = 6, end = 18, n_runs = 3, rank = 64, most = SP_CAP_LAYERS;

    read_second(c, t, &defaults);
    sp_text_unsigned(t, "loop_layer_index_start", 1, most, &first);
    sp_text_unsigned(t, "loop_layer_index_end", 1, most, &end);
    sp_text_unsigned(t, "loop_num_passes", 1, 64, &n_runs);
    sp_text_unsigned(t, "loop_gate_rank", 1, SP_CAP_WIDTH, &rank);
    sp_member_unsigned(t, object, "core_start", 1, most, &first);
    sp_member_unsigned(t, object, "core_end", 1, most, &end);
    sp_member_unsigned(t, object, "num_passes", 1, 64, &n_runs);
    sp_member_unsigned(t, object, "gate_rank", 1, SP_CAP_WIDTH, &rank);
    if (first >= end || end > c->n_layers || !c->layers[first].begins_block ||
        (end < c->n_layers && !c->layers[end].begins_block)) {
        SP_INVALID(t, "layers %u to %u, which repeat, are no blocks of %u", first, end,
                   c->n_layers);
    }
    c->first_looped = first;
    c->n_looped = end - first;
    c->message_rank = rank;
    if (sp_text_failed(t) || sp_config_repeat_layers(c, first, end - first, n_runs, t->err)) return;
    for (unsigned i = 1; i < n_runs; i++)
        c->layers[first + i * c->n_looped].restarts = true;
}

static const struct sp_key_name inkling_keys[] = {
    {"conv_kernel_size", "sconv_kernel_size"},
    {"max_position_embeddings", "model_max_length"},
    {"route_scale", "routed_scaling_factor"},
    {0},
};

/* ---- tensors ---- */

/* Places experts first..first+n-1 of a stack. */
static enum sp_status place_experts(const struct sp_alias_source *s, const char *name, uint64_t n,
                                    sp_layout_fn *layout)
{
    struct sp_alias_source some = *s;
    uint64_t all = s->spec->shape[0];
    enum sp_status st;

    some.name = name;
    s->spec->shape[0] = n;
    st = layout(&some);
    s->spec->shape[0] = all;
    return st;
}

/* A stack of the experts that the router chooses, and then of the shared experts, which are in a
 * tensor of their own. Published rows of gate and up alternate; transformers saves gate and up of
 * the shared experts apart. */
static enum sp_status layout_experts(const struct sp_alias_source *s)
{
    static const struct {
        const char *end, *shared[2]; /* shared: of each part */
        sp_layout_fn *layout, *shared_layout;
    } stacks[] = {
        {"experts.gate_up_proj",
         {"shared_experts.gate_proj", "shared_experts.up_proj"},
         sp_layout_expert_gate_up,
         sp_layout_whole},
        {"experts.down_proj", {"shared_experts.down_proj"}, sp_layout_whole, sp_layout_whole},
        {"experts.w13_weight",
         {"shared_experts.shared_w13_weight", "shared_experts.shared_w13_weight"},
         sp_layout_alternating_rows,
         sp_layout_alternating_rows},
        {"experts.w2_weight",
         {"shared_experts.shared_w2_weight"},
         sp_layout_whole,
         sp_layout_whole},
    };
    uint64_t n = s->match->config->routing.n_always;
    char name[SP_SOURCE_NAME];
    size_t i = 0;
    enum sp_status st;

    while (!sp_ends_with(s->name, stacks[i].end))
        i++;
    st = place_experts(s, s->name, s->spec->shape[0] - n, stacks[i].layout);
    if (st || n == 0) return st;
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(s->name) - strlen(stacks[i].end)), s->name,
             stacks[i].shared[s->part]);
    return place_experts(s, name, n, stacks[i].shared_layout);
}

/* The names of transformers. */
static const struct sp_alias inkling_aliases[] = {
    {"embed_tokens.weight", NULL, NULL, 0},
    {"embed_norm.weight", "embed_tokens.embed_norm.weight", NULL, 0},
    {"input_layernorm.weight", NULL, NULL, 0},
    {"post_attention_layernorm.weight", NULL, NULL, 0},
    {"self_attn.*", NULL, NULL, 0},
    {"attn_sconv.conv1d.weight", NULL, NULL, 0},
    {"mlp_sconv.conv1d.weight", NULL, NULL, 0},
    {"mlp.gate_proj.weight", NULL, NULL, 0},
    {"mlp.up_proj.weight", NULL, NULL, 0},
    {"mlp.down_proj.weight", NULL, NULL, 0},
    {"mlp.router.correction", "mlp.gate.e_score_correction_bias", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", layout_experts),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", layout_experts, 0},
    {0},
};

/* The published names. */
static const struct sp_alias published_aliases[] = {
    {"embed_tokens.weight", "embed.weight", NULL, 0},
    {"embed_norm.weight", NULL, NULL, 0},
    {"input_layernorm.weight", "attn_norm.weight", NULL, 0},
    {"q_input_layernorm.weight", "q_input_norm.weight", NULL, 0},
    {"k_input_layernorm.weight", "k_input_norm.weight", NULL, 0},
    {"v_input_layernorm.weight", "v_input_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "mlp_norm.weight", NULL, 0},
    {"attention_input.*", "#", NULL, 0},
    {"mlp_input.query", "#", NULL, 0},
    {"final_input.query", "attn_res.output_query", NULL, 0},
    {"self_attn.q_proj.weight", "attn.wq_du.weight", NULL, 0},
    {"self_attn.k_proj.weight", "attn.wk_dv.weight", NULL, 0},
    {"self_attn.v_proj.weight", "attn.wv_dv.weight", NULL, 0},
    {"self_attn.r_proj.weight", "attn.wr_du.weight", NULL, 0},
    {"self_attn.o_proj.weight", "attn.wo_ud.weight", NULL, 0},
    {"self_attn.gate_proj.weight", "attn.gate_attn.weight", NULL, 0},
    {"self_attn.sink_proj.weight", "attn.attn_sink_proj.weight", NULL, 0},
    {"self_attn.q_clip.scale", "attn.q_l2_clip.scale", NULL, 0},
    {"self_attn.r_clip.scale", "attn.rel_l2_clip.scale", NULL, 0},
    {"self_attn.k_sconv.conv1d.weight", "attn.k_sconv.weight", NULL, 0},
    {"self_attn.v_sconv.conv1d.weight", "attn.v_sconv.weight", NULL, 0},
    {"self_attn.k_sconv.static_weight", "attn.k_sconv.static_w", NULL, 0},
    {"self_attn.v_sconv.static_weight", "attn.v_sconv.static_w", NULL, 0},
    {"self_attn.k_sconv.weight_proj.weight", "attn.k_sconv.weight_proj", NULL, 0},
    {"self_attn.v_sconv.weight_proj.weight", "attn.v_sconv.weight_proj", NULL, 0},
    {"self_attn.*", "attn.*", NULL, 0},
    {"attn_sconv.conv1d.weight", "attn_sconv.weight", NULL, 0},
    {"mlp_sconv.conv1d.weight", "mlp_sconv.weight", NULL, 0},
    SP_ALIAS_GATE_UP("mlp", "mlp.w13_dn.weight", sp_layout_alternating_rows),
    {"mlp.down_proj.weight", "mlp.w2_md.weight", NULL, 0},
    {"mlp.router.correction", "mlp.gate.bias", NULL, 0},
    {"mlp.router.*", "mlp.gate.*", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.w13_weight", layout_experts),
    {"mlp.experts.down_proj.weight", "mlp.experts.w2_weight", layout_experts, 0},
    {0},
};

/* The queries of all layers are numbered in a list of their own; the first layer has none for its
 * mixer. */
static unsigned name_inkling2_layer(char *out, size_t size, const struct sp_config *config,
                                    unsigned layer, const char *canonical, bool other)
{
    bool mixer = strncmp(canonical, "attention_input.", 16) == 0;

    for (unsigned i = layer; i > 0; i--)
        layer -= config->layers[i - 1].repeats != 0;
    (void)other;
    if (mixer || strcmp(canonical, "mlp_input.query") == 0)
        snprintf(out, size, "attn_res.%s_queries.", mixer ? "attn" : "mlp");
    else
        snprintf(out, size, "layers.%u.", layer);
    return mixer ? layer - 1 : layer;
}

#define INKLING2                                                                                   \
    .ffn_key = "moe_intermediate_size", .qk_norm = SP_QK_CLIP, .unrotated = true,                  \
    .own_types = "hybrid hybrid_sliding", .biases = SP_BIAS_NEVER, .output_gate = true,            \
    .logit_cap = 30, .expert_keys = {.count = "n_routed_experts", .scale = "route_scale"},         \
    .routing = {SP_V3_ROUTING, .scale = 8}, .router_norm_fixed = true,                             \
    .reads = {.experts = true, .routed_scale = true, .logit_cap = true},                           \
    .key_names = inkling_keys, .aliases = {published_aliases}, .name_layer = name_inkling2_layer,  \
    .prefix = "model.llm.", .head = "model.llm.unembed.weight", .padded_head = true

const struct sp_family sp_families_inkling[] = {
    {
        .name = "inkling_text",
        .architecture = "InklingForCausalLM",
        .sizes = {201024, 6144, 24576, 66, 64, 8, 128, 131072, 0},
        .qk_norm = SP_QK_HEADS,
        .unrotated = true,
        .own_types = "hybrid hybrid_sliding",
        .biases = SP_BIAS_NEVER,
        .expert_keys = {.count = "n_routed_experts",
                        .shared = "n_shared_experts",
                        .dense = "dense_mlp_idx",
                        .types = "mlp_layer_types",
                        .scale = "route_scale"},
        SP_EXPERT_SIZES(256, 6, 3072, 0, 2),
        .routing = {SP_V3_ROUTING, .scale = 8},
        .router_norm_fixed = true,
        .reads = {.experts = true, .routed_scale = true},
        .key_names = inkling_keys,
        .read_own = read_inkling,
        .aliases = {inkling_aliases, published_aliases},
        .padded_head = true,
        .unread = "model.mtp.",
    },
    {
        .name = "inkling2_text",
        .architecture = "Inkling2ForCausalLM",
        .sizes = {201024, 4608, 2304, 48, 48, 8, 128, 1048576, 0},
        INKLING2,
        SP_EXPERT_SIZES(384, 8, 2304, 0, 0),
        .read_own = read_inkling2,
    },
    {
        .name = "inkling2_loop_text",
        .architecture = "Inkling2LoopForCausalLM",
        .sizes = {201024, 2304, 1152, 24, 24, 8, 128, 1048576, 0},
        INKLING2,
        SP_EXPERT_SIZES(128, 8, 1152, 0, 0),
        .read_own = read_looped,
    },
    {.name = NULL},
};
