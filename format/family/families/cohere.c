/* Cohere's Command R, Command R7B and Command A+. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <string.h>

static void read_combination(struct sp_routing *r, const struct sp_config_text *t)
{
    static const char key[] = "shared_expert_combination_strategy";
    const char *name = "average";

    sp_text_string(t, key, &name);
    if (strcmp(name, "sum") == 0) return;
    if (strcmp(name, "average") != 0) SP_REFUSED(t, "%s \"%s\" is not supported", key, name);
    r->scale = 0.5;
    r->shared_half = true;
}

static void read_selection(struct sp_routing *r, const struct sp_config_text *t)
{
    static const char key[] = "expert_selection_fn";
    const char *name = "softmax";

    sp_text_string(t, key, &name);
    if (strcmp(name, "sigmoid") == 0) {
        r->law = SP_ROUTE_SIGMOID_CHOSEN;
        return;
    }
    r->norm = false; /* norm_topk_prob counts for sigmoids alone */
    if (strcmp(name, "softmax") != 0) SP_REFUSED(t, "%s \"%s\" is not supported", key, name);
}

/* Norms are LayerNorm, or RMSNorm if the config has its epsilon. */
static void read_norm(struct sp_config *c, const struct sp_config_text *t)
{
    double eps = 0;

    sp_text_double(t, "rms_norm_eps", 1e-30, 1, &eps);
    if (eps == 0) return;
    c->norm_centered = false;
    c->norm_eps = eps;
}

/* The layers without experts at the start have a width of their own, a window pattern of their own,
 * and rotary embedding even without a window if that pattern is 1. */
static void read_dense_layers(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned n_ffn = t->sizes->n_ffn, pattern = 1, rest = t->family->window_pattern, n_dense = 0;
    unsigned window = t->family->window;
    bool listed = sp_text_get(t, "layer_types") != NULL;

    sp_text_unsigned(t, "prefix_dense_intermediate_size", 1, SP_CAP_WIDTH, &n_ffn);
    sp_text_unsigned(t, "prefix_dense_sliding_window_pattern", 1, SP_CAP_LAYERS, &pattern);
    sp_text_unsigned(t, "sliding_window_pattern", 1, SP_CAP_LAYERS, &rest);
    sp_text_unsigned(t, "first_k_dense_replace", 0, SP_CAP_LAYERS, &n_dense);
    sp_member_unsigned(t, t->text, "sliding_window", 1, INT32_MAX, &window);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        if (!listed) {
            unsigned k = i < n_dense ? i + 1 : i + 1 - n_dense;
            l->window = k % (i < n_dense ? pattern : rest) ? window : 0;
            l->rope = l->window ? 0 : -1;
        }
        if (l->n_experts) continue;
        l->n_ffn = n_ffn;
        if (pattern == 1) l->rope = 0;
    }
}

static void read_moe(struct sp_config *c, const struct sp_config_text *t)
{
    bool shared = false;

    read_selection(&c->routing, t);
    read_norm(c, t);
    read_dense_layers(c, t);
    for (unsigned i = 0; i < c->n_layers; i++)
        shared = shared || c->layers[i].n_shared_ffn;
    if (shared) read_combination(&c->routing, t);
}

/* A type of layers whose rope_parameters are null does not rotate. Without pooling, which only
 * embedding models state, the model generates. */
static void read_compass(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *ropes = sp_text_get(t, "rope_parameters");

    for (unsigned i = 0; i < c->n_layers; i++) {
        const char *type = c->layers[i].window ? "sliding_attention" : "full_attention";
        if (sp_json_has(ropes, type) && sp_json_get(ropes, type) == NULL) c->layers[i].rope = -1;
    }
    if (sp_text_get(t, "pooling"))
        SP_REFUSED(t, "pooling is not supported for %s", t->family->name);
}

static const struct sp_gguf_member gguf_members[] = {
    {SP_PUT_FLOAT, "logit_scale", "logit_scale", NULL},
    {SP_PUT_HAS, "use_qk_norm", "attn_q_norm.weight", NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {0},
};

/* Layers at the start have no experts, but a width of their own. */
static const struct sp_gguf_member moe_members[] = {
    {SP_PUT_SIZE, "num_experts", "expert_count", NULL},
    {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
    {SP_PUT_SIZE, "num_shared_experts", "expert_shared_count", NULL},
    {SP_PUT_SIZE, "first_k_dense_replace", "leading_dense_block_count", NULL},
    {SP_PUT_NORM_TOPK, NULL, NULL, "false"},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_FLOAT, "logit_scale", "logit_scale", NULL},
    {SP_PUT_FLOAT, "rms_norm_eps", "attention.layer_norm_rms_epsilon", NULL},
    {SP_PUT_ROWS, "prefix_dense_intermediate_size", "blk.0.ffn_up.weight", NULL},
    {SP_PUT_SELECTION, NULL, NULL, NULL},
    {SP_PUT_MLP_TYPES, NULL, NULL, NULL},
    {0},
};

#define COHERE_LAYERS                                                                              \
    .norm_eps = 1e-5, .norm_eps_key = "layer_norm_eps", .norms = SP_NORM_PARALLEL,                 \
    .norm_centered = true, .mlp_bias = SP_BIAS_NEVER, .tied = true

#define COHERE2_WINDOWS                                                                            \
    .full_unrotated = true, .windows = SP_WINDOWS_PATTERN, .window = 4096, .window_pattern = 4,    \
    .needs_window = true, .logit_scale = 0.0625

const struct sp_family sp_families_cohere[] = {
    {
        .name = "cohere",
        .architecture = "CohereForCausalLM",
        .sizes = {256000, 8192, 22528, 40, 64, 0, 0, 8192, 0},
        COHERE_LAYERS,
        .qk_norm = SP_QK_OWN,
        .qk_norm_key = "use_qk_norm",
        .theta = 5e5,
        .logit_scale = 0.0625,
        .reads = {.logit_scale = true},
        .aliases = {sp_aliases_interleaved_heads},
        .gguf = {.archs = {{.name = "command-r"}}, .members = gguf_members},
    },
    {
        .name = "cohere2",
        .architecture = "Cohere2ForCausalLM",
        .sizes = {256000, 8192, 22528, 40, 64, 0, 0, 8192, 0},
        COHERE_LAYERS,
        COHERE2_WINDOWS,
        .reads = {.layer_types = true, .logit_scale = true},
        .aliases = {sp_aliases_interleaved_heads},
        .gguf = {.archs = {{.name = "cohere2"}}, .members = gguf_members},
    },
    {
        .name = "cohere_compass_text",
        .architecture = "CohereCompassForCausalLM",
        .sizes = {256000, 8192, 22528, 40, 64, 0, 0, 8192, 0},
        COHERE_LAYERS,
        .rope_by_type = true,
        .windows = SP_WINDOWS_LISTED,
        .window = 4096,
        .logit_scale = 1,
        .reads = {.layer_types = true, .logit_scale = true},
        .read_own = read_compass,
    },
    {
        .name = "cohere2_moe",
        .architecture = "Cohere2MoeForCausalLM",
        .sizes = {256000, 8192, 22528, 40, 64, 0, 128, 8192, 0},
        COHERE_LAYERS,
        COHERE2_WINDOWS,
        .expert_keys = {.dense = "first_k_dense_replace",
                        .types = "mlp_layer_types",
                        .shared = "num_shared_experts",
                        .width = "intermediate_size"},
        SP_EXPERT_SIZES(8, 2, 0, 0, 0),
        .routing = {.law = SP_ROUTE_SOFTMAX_CHOSEN, .norm = true},
        .reads = {.layer_types = true, .logit_scale = true, .experts = true},
        .read_own = read_moe,
        .aliases = {sp_aliases_interleaved_heads, sp_aliases_experts, sp_aliases_shared_experts},
        .gguf = {.archs = {{.name = "cohere2moe"}}, .members = moe_members},
    },
    {.name = NULL},
};
