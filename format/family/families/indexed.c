/* DeepSeek-V3.2, GLM-5, A.X K2, HY 4 and dots 3: the layers of DeepSeek-V3 with an index that
 * chooses keys. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- A.X K2 ---- */

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

static void read_axk2(struct sp_config *c, const struct sp_config_text *t)
{
    c->norm_gate_rank = 16;
    sp_text_unsigned(t, "gated_norm_rank", 1, SP_CAP_WIDTH, &c->norm_gate_rank);
}

/* ---- HY 4 ---- */

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
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", sp_layout_expert_gate_up),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", NULL, 0},
    {0},
};

static void read_hy_v4(struct sp_config *c, const struct sp_config_text *t)
{
    double limit = 0;

    c->hyper =
        (struct sp_hyper_config){.n_streams = 4, .strength = 2, .eps = 1e-6, .out_eps = 1e-6};
    sp_text_unsigned(t, "hc_mult", 2, SP_MAX_STREAMS, &c->hyper.n_streams);
    sp_text_double(t, "hc_magnitude", 1e-6, 1e6, &c->hyper.strength);
    sp_text_double(t, "hc_eps", 0, 1, &c->hyper.eps);
    sp_text_double(t, "swiglu_limit", 1e-3, 1e6, &limit);
    c->hyper.out_eps = c->hyper.eps;
    c->index.norm_eps = c->norm_eps;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].output_gate = true;
        if (c->layers[i].n_experts) c->layers[i].limits[0] = limit;
    }
}

/* ---- dots 3 ---- */

static const struct sp_latent_family latent_dots3 = {
    .defaults = {SP_LATENT(512, 1024, 128, 128), .rows_paired = true, .key_norm = true},
    .index = {.top_k = 2048, .n_heads = 64, .head_dim = 128, .rows_paired = true},
    .always_interleaved = true,
    .partial_of_head = true,
};

static const struct sp_alias dots3_aliases[] = {
    {"self_attn.head_gate.weight", "self_attn.g_proj.weight", NULL, 0},
    {"self_attn.k_rope_norm.weight", "self_attn.k_rope_only_layernorm.weight", sp_layout_key_tail,
     0},
    {0},
};

/* The sizes of a layer with a window: keys of the config with their defaults, or, without "swa_",
 * members of the layer's entry in per_layer_config. */
enum { HEADS, KV_HEADS, HEAD_DIM, Q_RANK, KV_RANK, NOPE, ROPE, VALUE, N_SIZES };

static const struct {
    const char *key;
    unsigned standard;
} window_sizes[N_SIZES] = {
    {"swa_num_attention_heads", 64}, {"swa_num_key_value_heads", 64}, {"swa_head_dim", 256},
    {"swa_q_lora_rank", 1024},       {"swa_kv_lora_rank", 1024},      {"swa_qk_nope_head_dim", 192},
    {"swa_qk_rope_head_dim", 0},     {"swa_v_head_dim", 128},
};

static void read_window_sizes(unsigned sizes[N_SIZES], const struct sp_config_text *t,
                              unsigned layer)
{
    const struct sp_json *entries = sp_text_get(t, "per_layer_config"), *entry;
    char number[16];
    size_t n_read = 0;

    snprintf(number, sizeof number, "%u", layer);
    entry = sp_json_get(entries, number);
    for (size_t i = 0; i < N_SIZES; i++) {
        const char *key = window_sizes[i].key, *inner = key + strlen("swa_");
        if (entries == NULL) sizes[i] = window_sizes[i].standard;
        n_read += sp_json_has(entry, inner);
        sp_member_unsigned(t, entry, inner, 1, SP_CAP_WIDTH, &sizes[i]);
        if (entries == NULL) sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, &sizes[i]);
    }
    if (sizes[ROPE] == 0 && sizes[HEAD_DIM] > sizes[NOPE])
        sizes[ROPE] = sizes[HEAD_DIM] - sizes[NOPE];
    if ((entry != NULL) != (entries != NULL) || sp_json_len(entry) != n_read ||
        sizes[KV_HEADS] != sizes[HEADS] || sizes[HEADS] > SP_CAP_HEADS || sizes[ROPE] == 0 ||
        sizes[ROPE] % 2 != 0 || sizes[HEAD_DIM] != sizes[NOPE] + sizes[ROPE])
        SP_REFUSED(t, "%s: the sizes of layer %u are not supported for %s",
                   entries ? "per_layer_config" : "swa_*", layer, t->family->name);
}

static void set_latents(struct sp_latent_config *l, const struct sp_config *c,
                        const unsigned sizes[N_SIZES])
{
    l->q_rank = sizes[Q_RANK];
    l->kv_rank = sizes[KV_RANK];
    l->nope_dim = sizes[NOPE];
    l->rope_dim = sizes[ROPE];
    l->value_dim = sizes[VALUE];
    l->norm_eps = c->norm_eps;
    l->scale = 1 / sqrt((double)l->nope_dim + l->rope_dim);
    l->q_scale = sqrt((double)c->n_hidden / l->q_rank);
    l->kv_scale = sqrt((double)c->n_hidden / l->kv_rank);
}

static void read_dots3(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *entries = sp_text_get(t, "per_layer_config");
    const struct sp_json *rope = sp_text_get(t, "rope_parameters");
    unsigned all[N_SIZES] = {t->sizes->n_heads,  t->sizes->n_kv_heads, 256,
                             c->latent.q_rank,   c->latent.kv_rank,    c->latent.nope_dim,
                             c->latent.rope_dim, c->latent.value_dim};
    unsigned own[N_SIZES], before[N_SIZES], n_windows = 0;

    sp_text_need(t, "use_dsa");
    sp_text_need(t, "use_sliding_window");
    sp_text_unsigned(t, "head_dim", 1, SP_CAP_WIDTH, &all[HEAD_DIM]);
    set_latents(&c->latent, c, all);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        if (l->window == 0) continue;
        memcpy(own, all, sizeof own);
        read_window_sizes(own, t, i);
        if (n_windows++ && memcmp(own, before, sizeof own) != 0)
            SP_REFUSED(t, "layers with a window differ in their sizes");
        memcpy(before, own, sizeof own);
        c->other_latent = c->latent;
        set_latents(&c->other_latent, c, own);
        l->n_heads = own[HEADS];
        l->head_dim = own[KV_RANK] + own[ROPE];
        l->other_latent = l->unindexed = true;
        c->ropes[1].n_rot = own[ROPE];
    }
    if (entries && sp_json_len(entries) != n_windows)
        SP_REFUSED(t, "per_layer_config of layers without a window is not supported");
    if (c->ropes[1].kind != SP_ROPE_DEFAULT || sp_json_len(sp_text_get(t, "rope_scaling")) ||
        (sp_json_len(rope) && !sp_json_get(rope, "sliding_attention")))
        SP_REFUSED(t, "one rotation of all layers, or a scaled one, is not supported for %s",
                   t->family->name);
}

const struct sp_family sp_families_indexed[] = {
    {
        .name = "deepseek_v32",
        .architecture = "DeepseekV32ForCausalLM",
        .sizes = {129280, 7168, 18432, 61, 128, 128, 64, 163840, 0},
        SP_V3_LAYERS(.defaults = {SP_LATENT(512, 1536, 128, 128), .rows_paired = true},
                     .index = {.top_k = 2048, .n_heads = 64, .head_dim = 128},
                     .always_interleaved = true),
        SP_EXPERT_SIZES(256, 8, 2048, 3, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 8, .n_groups_used = 4, .scale = 2.5},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .prediction_layer = true,
    },
    {
        .name = "glm_moe_dsa",
        .architecture = "GlmMoeDsaForCausalLM",
        .sizes = {154880, 6144, 12288, 78, 64, 64, 64, 202752, 0},
        .norm_eps = 1e-5,
        SP_V3_LAYERS(.defaults = {SP_LATENT(512, 2048, 192, 256), .rows_paired = true},
                     .index = {.top_k = 2048, .n_heads = 32, .head_dim = 128, .rows_paired = true},
                     .always_interleaved = true, .index_shared = true),
        SP_EXPERT_SIZES(256, 8, 2048, 3, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.5},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .prediction_layer = true,
    },
    {
        .name = "axk2",
        .architecture = "AXK2ForCausalLM",
        .sizes = {163840, 2048, 5120, 48, 32, 32, 32, 131072, 0},
        SP_V3_LAYERS(.defaults = {SP_LATENT(128, 384, 64, 64), .rows_paired = true, .gated = true},
                     .index = {.top_k = 2048, .n_heads = 16, .head_dim = 128},
                     .always_interleaved = true),
        SP_EXPERT_SIZES(128, 8, 512, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .groups_zeroed = true,
                    .scale = 2.5},
        .read_own = read_axk2,
        .aliases = {axk2_aliases, sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "hy_v4",
        .architecture = "HYV4ForCausalLM",
        .sizes = {129024, 5120, 13312, 64, 64, 64, 64, 262144, 0},
        .norm_eps = 1e-5,
        SP_V3_LAYERS(.defaults = {SP_LATENT(512, 1024, 192, 256)},
                     .index = {.top_k = 2048, .n_heads = 32, .head_dim = 128, .rotates_last = true},
                     .index_shared = true),
        SP_EXPERT_SIZES(256, 8, 2048, 1, 1),
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1, .scale = 2.827},
        .sinks = true,
        .read_own = read_hy_v4,
        .own_keys = "swiglu_limit",
        .aliases = {hy_v4_aliases, sp_aliases_experts, sp_aliases_shared_experts,
                    sp_aliases_latent},
        .prediction_path = "mtp_layers.0.",
        .prediction_normed = true,
        .prediction_names = sp_aliases_next_final,
        .unread = "mtp_layers.",
    },
    {
        .name = "dots3_note_text",
        .architecture = "Dots3NoteForCausalLM",
        .sizes = {152064, 5120, 13824, 46, 128, 128, 64, 524288, 0},
        .norm_eps = 1e-5,
        .theta = 8e7,
        .local_theta = 5e4,
        .rope_dicts = {"indexed_attention"},
        .latent = &latent_dots3,
        .windows = SP_WINDOWS_LISTED,
        .layer_pattern = "ff(sssf)",
        .window = 512,
        .mlp_bias = SP_BIAS_NEVER,
        .head_gate = true,
        .expert_keys = {SP_V3_KEYS, .shared_width = "shared_experts_intermediate_size",
                        .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(256, 8, 1536, 1, 1),
        .n_shared_ffn = 1536,
        .routing = {SP_V3_ROUTING, .n_groups = 1, .n_groups_used = 1},
        .reads = {.layer_types = true, SP_V3_READS},
        .key_names =
            SP_ROWS(sp_key_name, {"swa_rope_theta", "rope_local_base_freq"},
                    {"moe_shared_expert_intermediate_size", "shared_experts_intermediate_size"},
                    {"sliding_window_size", "sliding_window"}),
        .read_own = read_dots3,
        .own_keys = "per_layer_config",
        .aliases = {dots3_aliases, sp_aliases_experts, sp_aliases_shared_experts,
                    sp_aliases_latent},
    },
    {.name = NULL},
};
