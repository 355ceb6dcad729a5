/* Gemma 4. Its config states layer by layer what other families have in common for all layers:
 * heads of another size on full layers, values made from keys, layers that read an earlier layer's
 * keys, per-layer embeddings, and experts in parallel to the dense MLP. Source: Gemma4TextConfig
 * and the gemma4 modeling file in transformers. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <stdio.h>
#include <string.h>

struct gemma4_keys {
    unsigned n_full_kv_heads; /* K/V heads of full layers; 0: as in sliding layers */
    bool k_is_v;
    unsigned n_shared; /* number of layers at the end that use the keys of earlier layers */
    bool double_wide;
    bool moe;
    unsigned n_experts, n_experts_used, n_expert_ffn;
};

/* transformers 5 writes the sizes of single layers, {"5": {"head_dim": 512, "num_key_value_heads":
 * 2}, ...}, instead of those of all full layers. */
static const char per_layer_key[] = "per_layer_config";

static const struct sp_json *layer_entry(const struct sp_json *layers, unsigned i)
{
    char key[16];

    snprintf(key, sizeof key, "%u", i);
    return sp_json_get(layers, key);
}

static void check_entry(const struct sp_config_text *t, const struct sp_json *entry, unsigned i)
{
    if (sp_json_kind(entry) != SP_JSON_OBJECT)
        SP_INVALID(t, "%s: layer %u is not an object", per_layer_key, i);
    for (struct sp_json_iter it = {0}; sp_json_next(entry, &it);) {
        if (strcmp(it.key, "head_dim") == 0 || strcmp(it.key, "num_key_value_heads") == 0) continue;
        SP_REFUSED(t, "%s: %s of layer %u is not supported", per_layer_key, it.key, i);
    }
}

static void read_full_heads(struct sp_sizes *sizes, const struct sp_config_text *t)
{
    const struct sp_json *layers = sp_text_get(t, per_layer_key);
    size_t n_seen = 0;

    if (layers == NULL) {
        sp_text_unsigned(t, "global_head_dim", 2, SP_CAP_WIDTH, &sizes->full_head_dim);
        return;
    }
    sizes->full_head_dim = sizes->head_dim;
    for (unsigned i = 0; i < sizes->n_layers; i++) {
        const struct sp_json *entry = layer_entry(layers, i);
        if (entry == NULL) continue;
        n_seen++;
        check_entry(t, entry, i);
        sp_member_unsigned(t, entry, "head_dim", 2, SP_CAP_WIDTH, &sizes->full_head_dim);
    }
    if (sp_json_kind(layers) != SP_JSON_OBJECT || sp_json_len(layers) != n_seen)
        SP_INVALID(t, "%s names something other than layers 0 to %u", per_layer_key,
                   sizes->n_layers - 1);
}

static void read_experts(struct gemma4_keys *k, const struct sp_config_text *t)
{
    sp_text_bool(t, "enable_moe_block", &k->moe);
    if (!k->moe) return;
    sp_text_unsigned(t, "num_experts", 1, SP_CAP_EXPERTS, &k->n_experts);
    sp_text_unsigned(t, "top_k_experts", 1, SP_CAP_EXPERTS, &k->n_experts_used);
    sp_text_unsigned(t, "moe_intermediate_size", 1, SP_CAP_WIDTH, &k->n_expert_ffn);
    if (k->n_experts == 0 || k->n_experts_used == 0 || k->n_expert_ffn == 0) {
        SP_INVALID(t,
                   "enable_moe_block needs num_experts, top_k_experts and moe_intermediate_size");
    }
    if (k->n_experts_used > k->n_experts)
        SP_INVALID(t, "top_k_experts %u is more than num_experts %u", k->n_experts_used,
                   k->n_experts);
}

static void read_keys(struct gemma4_keys *k, struct sp_config *c, const struct sp_config_text *t)
{
    const char *direction = "vision";
    unsigned max_shared = t->draft ? c->n_layers : c->n_layers - 1;

    sp_text_unsigned(t, "num_global_key_value_heads", 1, SP_CAP_HEADS, &k->n_full_kv_heads);
    sp_text_bool(t, "attention_k_eq_v", &k->k_is_v);
    sp_text_unsigned(t, "num_kv_shared_layers", 0, max_shared, &k->n_shared);
    sp_text_bool(t, "use_double_wide_mlp", &k->double_wide);
    sp_text_string(t, "use_bidirectional_attention", &direction);
    if (strcmp(direction, "vision") != 0)
        SP_REFUSED(t, "use_bidirectional_attention \"%s\" is not supported", direction);
}

static void read_per_layer(struct sp_config *c, const struct sp_config_text *t)
{
    c->n_per_layer = t->draft ? 0 : 256;
    c->n_per_layer_vocab = t->draft ? c->n_vocab : 262144;
    sp_text_unsigned(t, "hidden_size_per_layer_input", 0, SP_CAP_WIDTH, &c->n_per_layer);
    sp_text_unsigned(t, "vocab_size_per_layer_input", 0, SP_CAP_VOCAB, &c->n_per_layer_vocab);
    if (c->n_per_layer && c->n_per_layer_vocab < c->n_vocab)
        SP_INVALID(t, "vocab_size_per_layer_input %u is below vocab_size %u", c->n_per_layer_vocab,
                   c->n_vocab);
}

/* All layers of an assistant use the keys of its target. Other features are not supported. */
static void check_assistant(const struct gemma4_keys *k, const struct sp_config *c,
                            const struct sp_config_text *t)
{
    const char *feature = k->moe           ? "enable_moe_block"
                          : k->double_wide ? "use_double_wide_mlp"
                          : c->n_per_layer ? "hidden_size_per_layer_input"
                          : k->n_shared != 0 && k->n_shared != c->n_layers ? "num_kv_shared_layers"
                                                                           : NULL;

    if (feature) SP_REFUSED(t, "assistant: unsupported text_config feature %s", feature);
}

/* Layers of one type have the same rotary embedding, so their heads must have one size. */
static void read_heads(struct sp_layer_config *l, unsigned i, const struct sp_config_text *t,
                       const struct gemma4_keys *k)
{
    const struct sp_json *layers = sp_text_get(t, per_layer_key), *entry = layer_entry(layers, i);
    unsigned of_type = l->window ? t->sizes->head_dim : t->sizes->full_head_dim;

    l->v_from_k = l->window == 0 && k->k_is_v;
    if (layers == NULL) {
        l->head_dim = of_type;
        if (l->v_from_k && k->n_full_kv_heads) l->n_kv_heads = k->n_full_kv_heads;
        return;
    }
    sp_member_unsigned(t, entry, "head_dim", 2, SP_CAP_WIDTH, &l->head_dim);
    sp_member_unsigned(t, entry, "num_key_value_heads", 1, SP_CAP_HEADS, &l->n_kv_heads);
    if (l->head_dim != of_type)
        SP_REFUSED(t,
                   "%s: head_dim %u of layer %u is not supported beside %u in layers of its type",
                   per_layer_key, l->head_dim, i, of_type);
}

void sp_family_share_keys(struct sp_config *c, unsigned layer, unsigned n_own,
                          const struct sp_config_text *t)
{
    struct sp_layer_config *l = &c->layers[layer];

    for (unsigned j = n_own; j-- > 0;) {
        if ((c->layers[j].window == 0) != (l->window == 0)) continue;
        l->kv_source = (int)j;
        return;
    }
    SP_INVALID(t, "layer %u shares keys, but no earlier layer of its type has any", layer);
}

static void read_with(struct sp_config *out, struct gemma4_keys k, const struct sp_config_text *t)
{
    unsigned n_own;

    read_keys(&k, out, t);
    if (t->draft) check_assistant(&k, out, t);
    out->v_norm = out->layer_scalars = true;
    out->routing.norm = out->expert_norms = k.moe;
    n_own = out->n_layers - k.n_shared;
    out->layers[out->n_layers - 1].window = 0; /* always a full layer */
    out->layers[out->n_layers - 1].rope = 0;
    for (unsigned i = 0; i < out->n_layers; i++) {
        struct sp_layer_config *l = &out->layers[i];
        read_heads(l, i, t, &k);
        if (l->n_heads % l->n_kv_heads != 0) {
            SP_INVALID(t,
                       "num_attention_heads %u is not a multiple of the %u key and value "
                       "heads of layer %u",
                       l->n_heads, l->n_kv_heads, i);
        }
        if (k.moe) {
            l->n_shared_ffn = l->n_ffn;
            l->n_ffn = k.n_expert_ffn;
            l->n_experts = k.n_experts;
            l->n_experts_used = k.n_experts_used;
        }
        if (t->draft) l->kv_source = -1;
        if (t->draft || i < n_own) continue;
        if (k.double_wide) *(k.moe ? &l->n_shared_ffn : &l->n_ffn) *= 2; /* the dense MLP */
        sp_family_share_keys(out, i, n_own, t);
    }
}

/* Without per-layer embeddings and experts, which the class does not have. */
static void read_unified(struct sp_config *out, const struct sp_config_text *t)
{
    read_with(out, (struct gemma4_keys){0}, t);
}

static void read_own(struct sp_config *out, const struct sp_config_text *t)
{
    struct gemma4_keys k = {0};

    read_per_layer(out, t);
    read_experts(&k, t);
    read_with(out, k, t);
}

/* mlp.* is the dense MLP; the experts and the router are outside of it. */
static const struct sp_alias expert_aliases[] = {
    {"mlp.router.weight", "router.proj.weight", NULL, 0},
    {"mlp.router.scale", "router.scale", NULL, 0},
    {"mlp.router.expert_scale", "router.per_expert_scale", NULL, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "experts.gate_up_proj", sp_layout_expert_gate_up),
    {"mlp.experts.gate_proj.weight", NULL, NULL, 0},
    {"mlp.experts.up_proj.weight", NULL, NULL, 0},
    {"mlp.experts.down_proj.weight", "experts.down_proj", NULL, 0},
    {"mlp.shared_expert.*", "mlp.*", NULL, 0},
    {0},
};

static const struct sp_gguf_name gguf_names[] = {
    {"ffn_gate_inp.scale", "mlp.router.scale", SP_GGUF_BARE},
    {"ffn_down_exps.scale", "mlp.router.expert_scale", SP_GGUF_BARE},
    {"ffn_gate_inp.per_expert_scale", "mlp.router.expert_scale", SP_GGUF_BARE}, /* ollama's */
    {0},
};

#define GEMMA4_SIZES(positions) .sizes = {262144, 2304, 9216, 30, 8, 4, 256, (positions), 512}

#define GEMMA4_LAYERS                                                                              \
    .read_full_heads = read_full_heads, .norms = SP_NORM_SANDWICH, .qk_norm = SP_QK_HEADS,         \
    .theta = 1e6, .local_theta = 1e4,                                                              \
    .rope_default = "{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6,"      \
                    "\"partial_rotary_factor\":0.25},"                                             \
                    "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}",       \
    .windows = SP_WINDOWS_PATTERN, .window_pattern = 6, SP_GEMMA_LAYERS(1),                        \
    .reads = {.layer_types = true, .logit_cap = true},                                             \
    .own_keys = "num_experts use_bidirectional_attention num_kv_shared_layers "                    \
                "hidden_size_per_layer_input per_layer_config",                                    \
    .assistants = true

const struct sp_family sp_families_gemma4[] = {
    {
        .name = "gemma4_text",
        .architecture = "Gemma4ForCausalLM",
        GEMMA4_SIZES(131072),
        GEMMA4_LAYERS,
        .window = 512,
        .read_own = read_own,
        .aliases = {expert_aliases},
        .gguf = {.archs = {{.name = "gemma4"}},
                 .members = SP_ROWS(
                     sp_gguf_member, {SP_PUT_SIZE, "head_dim", "attention.key_length_swa", NULL},
                     {SP_PUT_SIZE, "hidden_size_per_layer_input",
                      "embedding_length_per_layer_input", NULL},
                     {SP_PUT_WINDOW, NULL, NULL, NULL}, {SP_PUT_PATTERN, NULL, NULL, NULL},
                     {SP_PUT_GEMMA4, NULL, NULL, NULL},
                     {SP_PUT_FLOAT, "final_logit_softcapping", "final_logit_softcapping", NULL},
                     {SP_PUT_ROWS, "vocab_size_per_layer_input", "per_layer_token_embd.weight",
                      NULL}),
                 .names = gguf_names,
                 .sizes_per_layer = true,
                 .user_tokens_end = true},
    },
    {
        .name = "gemma4_unified_text",
        .architecture = "Gemma4UnifiedForCausalLM",
        GEMMA4_SIZES(262144),
        GEMMA4_LAYERS,
        .window = 1024,
        .read_own = read_unified,
    },
    {.name = NULL},
};
