/* Mistral, Ministral, Mixtral, Mistral Small 4 and Mistral Large 4. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_latent_family latent_mistral4 = {
    .defaults = {SP_LATENT(256, 1024, 64, 128), .rows_paired = true},
    .partial_of_head = true,
};

const struct sp_key_name sp_gguf_keys_mistral3[] = {
    {"rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast"},
    {"rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow"},
    {"rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"},
    {"rope.scaling_beta", "attention.temperature_scale"},
    {0},
};

/* ---- Mistral Large 4 ---- */

static const struct sp_latent_family latent_large4 = {
    .defaults = {SP_LATENT(512, 0, 64, 128), .rows_paired = true},
    .index =
        {.top_k = 2048, .n_heads = 32, .head_dim = 128, .rows_paired = true, .normed_input = true},
    .always_interleaved = true,
    .partial_of_head = true,
    .index_shared = true,
};

static const struct sp_alias large4_aliases[] = {
    {"embed_tokens.weight", "tok_embeddings.weight", NULL, 0},
    {"rope_alpha", "lerope.alpha", NULL, 0},
    {"input_layernorm.weight", "attention_norm.weight", NULL, 0},
    {"post_attention_layernorm.weight", "ffn_norm.weight", NULL, 0},
    {"self_attn.q_proj.weight", "attention.wq.weight", sp_layout_query_tails, 0},
    {"self_attn.kv_a_proj_with_mqa.*", "attention.wkv_a_with_mqa.*", sp_layout_key_tail, 0},
    {"self_attn.kv_a_layernorm.weight", "attention.kv_a_norm.weight", NULL, 0},
    {"self_attn.k_b_proj.weight", "attention.wkv_b.weight", sp_layout_latent_keys, 0},
    {"self_attn.v_b_proj.weight", "attention.wkv_b.weight", sp_layout_latent_values, 0},
    {"self_attn.o_proj.*", "attention.wo.*", NULL, 0},
    {"self_attn.indexer.wq_b.weight", "attention.indexer.wq_b.weight", sp_layout_index_heads, 0},
    {"self_attn.indexer.wk.weight", "attention.indexer.wk.weight", sp_layout_index_heads, 0},
    {"self_attn.indexer.k_norm.*", "attention.indexer.k_norm.*", sp_layout_index_heads, 0},
    {"self_attn.*", "attention.*", NULL, 0},
    {"mlp.router.weight", "gate.weight", NULL, 0},
    SP_ALIAS_W123("mlp.experts", "experts.%u", sp_layout_each_expert),
    SP_ALIAS_W123("mlp.shared_expert", "shared_experts", NULL),
    SP_ALIAS_W123("mlp", "feed_forward", NULL),
    {0},
};

/* kv_source_layers. Of the layers that rotate, and of the others, transformers uses the latents of
 * the last one before that a later layer names, so no other may be named. */
static void read_sources(struct sp_config *c, const struct sp_config_text *t)
{
    static const char key[] = "kv_source_layers";
    const struct sp_json *list = sp_text_get(t, key);
    int last[2] = {-1, -1};

    if (list && sp_json_len(list) != c->n_layers)
        SP_INVALID(t, "%s has %zu values, expected %u", key, sp_json_len(list), c->n_layers);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        int64_t source = i;
        bool later = false;
        if (list && !sp_json_to_i64(sp_json_at(list, i), &source)) source = -1;
        for (unsigned k = i + 1; list && k < c->n_layers && !later; k++) {
            int64_t other;
            later = sp_json_to_i64(sp_json_at(list, k), &other) && other == i;
        }
        if (source == i && later) last[l->rope < 0] = (int)i;
        l->kv_source = (int)source;
        if (source != i && (source < 0 || source != last[l->rope < 0]))
            SP_REFUSED(t, "%s[%u] is not the last layer of its kind that others name", key, i);
    }
}

/* Layers without a rotation have as many dims that do not rotate. */
static void read_large4(struct sp_config *c, const struct sp_config_text *t)
{
    c->ssmax = c->learned_rope = true;
    c->latent.q_rank = 0; /* the class does not read q_lora_rank */
    c->latent.norm_eps = c->norm_eps;
    c->other_latent = c->latent;
    c->other_latent.nope_dim += c->latent.rope_dim;
    c->other_latent.rope_dim = 0;
    for (unsigned i = 0; i < c->n_layers; i++) {
        if (c->layers[i].rope >= 0) continue;
        c->layers[i].other_latent = true;
        c->layers[i].head_dim = c->latent.kv_rank;
    }
    read_sources(c, t);
}

#define MISTRAL_LAYERS                                                                             \
    .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0}, .windows = SP_WINDOWS_ALL,             \
    .window = 4096, .biases = SP_BIAS_NEVER, .reads = {.layer_types = true}

const struct sp_family sp_families_mistral[] = {
    {
        .name = "mistral",
        .architecture = "MistralForCausalLM",
        MISTRAL_LAYERS,
        .gguf = {.archs = {{.name = "llama",
                            .with = "attention.sliding_window",
                            .without = "expert_count"}},
                 .members = sp_gguf_members_llama,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "ministral",
        .architecture = "MinistralForCausalLM",
        MISTRAL_LAYERS,
    },
    {
        .name = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .sizes = {131072, 4096, 14336, 34, 32, 8, 128, 262144, 0},
        .norm_eps = 1e-5,
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e6,\"factor\":16,"
                        "\"original_max_position_embeddings\":16384,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"llama_4_scaling_beta\":0.1}",
        .windows = SP_WINDOWS_ALL,
        .biases = SP_BIAS_NEVER,
        .reads = {.query_growth = true},
        .gguf = {.archs = {{.name = "mistral3"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_WINDOW, NULL, NULL, NULL},
                                    {SP_PUT_NOTHING, NULL, "attention.temperature_scale", NULL}),
                 .key_names = sp_gguf_keys_mistral3,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {
        .name = "mistral4",
        .architecture = "Mistral4ForCausalLM",
        .sizes = {131072, 4096, 12288, 36, 32, 32, 64, 1048576, 0},
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":128,"
                        "\"original_max_position_embeddings\":8192,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"llama_4_scaling_beta\":0.1}",
        .latent = &latent_mistral4,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS},
        SP_EXPERT_SIZES(128, 4, 2048, 0, 1),
        .routing = {.n_groups = 1, .n_groups_used = 1, .norm = true, .norm_eps = 1e-20},
        .reads = {.query_growth = true, SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "mistral_large4_text",
        .architecture = "MistralLarge4TextModel",
        .sizes = {204800, 6144, 24576, 72, 64, 64, 64, 1048576, 0},
        .norm_eps = 1e-5,
        .rope_default = "{\"rope_type\":\"yarn\",\"rope_theta\":1e4,\"factor\":2048,"
                        "\"original_max_position_embeddings\":512,\"beta_fast\":32,"
                        "\"beta_slow\":1,\"attention_factor\":1}",
        .latent = &latent_large4,
        .mlp_bias = SP_BIAS_NEVER,
        .logit_cap = 30,
        .expert_keys = {SP_V3_KEYS, .types = "mlp_layer_types"},
        SP_EXPERT_SIZES(128, 4, 6144, 1, 1),
        .routing = {.n_groups = 1, .n_groups_used = 1, .norm = true, .norm_eps = 1e-20},
        .router_norm_fixed = true,
        .reads = {.logit_cap = true, .no_rope_layers = true, SP_V3_READS},
        .read_own = read_large4,
        .aliases = {large4_aliases},
        .prefix = "",
        .head = "output.weight",
        .unread = "mtp_dspark.",
    },
    {
        .name = "mixtral",
        .architecture = "MixtralForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .biases = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(8, 2, 0, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .aliases = {sp_aliases_block_sparse, sp_aliases_experts},
        .gguf = {.archs = {{.name = "llama", .with = "expert_count"}},
                 .members = sp_gguf_members_llama,
                 .permuted = SP_GGUF_PERMUTED},
    },
    {.name = NULL},
};
