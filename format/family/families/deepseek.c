/* DeepSeek-V2 and V3, and families with the layers or the attention of V3. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <math.h>

static const struct sp_latent_family latent_v2 = {
    .defaults = {SP_LATENT(512, 1536, 128, 128), .rows_paired = true},
    .always_interleaved = true,
};

static const struct sp_latent_family latent_v3 = {
    .defaults = {SP_LATENT(512, 1536, 128, 128), .rows_paired = true},
};

static const struct sp_gguf_member gguf_members[] = {
    {SP_PUT_LATENT, NULL, NULL, NULL},
    {SP_PUT_ROUTED, NULL, NULL, NULL},
    {0},
};

/* Without a value, a scale has no effect. */
static void read_minicpm3(struct sp_config *c, const struct sp_config_text *t)
{
    double depth = sp_text_has(t, "scale_depth") ? sqrt(t->sizes->n_layers) : 1.4;
    double base = sp_text_has(t, "dim_model_base") ? t->sizes->n_hidden : 256;

    c->embedding_scale = 12;
    sp_text_double(t, "scale_emb", 1e-6, 1e6, &c->embedding_scale);
    sp_text_double(t, "scale_depth", 1e-6, 1e6, &depth);
    sp_text_double(t, "dim_model_base", 1, 1e6, &base);
    c->residual_scale = depth / sqrt(t->sizes->n_layers);
    c->logit_scale = base / t->sizes->n_hidden;
}

/* The layers of DeepSeek-V3, apart from their sizes. */
#define V3_LAYERS                                                                                  \
    .latent = &latent_v3, .mlp_bias = SP_BIAS_NEVER,                                               \
    .expert_keys = {.count = "n_routed_experts",                                                   \
                    .dense = "first_k_dense_replace",                                              \
                    .shared = "n_shared_experts"},                                                 \
    .reads = {SP_V3_READS}

#define V3                                                                                         \
    .sizes = {129280, 7168, 18432, 61, 128, 128, 64, 4096, 0}, V3_LAYERS,                          \
    SP_EXPERT_SIZES(256, 8, 2048, 3, 1),                                                           \
    .routing = {SP_V3_ROUTING, .scale = 2.5, .n_groups = 8, .n_groups_used = 4},                   \
    .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent}

const struct sp_family sp_families_deepseek[] = {
    {
        .name = "deepseek_v2",
        .architecture = "DeepseekV2ForCausalLM",
        .sizes = {102400, 4096, 11008, 32, 32, 0, 64, 2048, 0},
        .latent = &latent_v2,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {SP_V3_KEYS},
        SP_EXPERT_SIZES(64, 0, 1407, 0, 2),
        .router_norm_fixed = true,
        .reads = {SP_V3_READS},
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
        .gguf = {.archs = {{.name = "deepseek2"}}, .members = gguf_members},
    },
    {
        .name = "deepseek_v3",
        .architecture = "DeepseekV3ForCausalLM",
        V3,
        .prediction_layer = true,
        .gguf = {.archs = {{.name = "deepseek2", .with = "exp_probs_b"}}, .members = gguf_members},
    },
    {
        .name = "kimi_k2",
        .architecture = "DeepseekV3ForCausalLM",
        .run_as = "DeepseekV3ForCausalLM",
        V3,
    },
    {
        .name = "sarvam_mla",
        .architecture = "SarvamMLAForCausalLM",
        .run_as = "DeepseekV3ForCausalLM",
        .sizes = {262144, 4096, 16384, 32, 64, 0, 64, 4096, 0},
        V3_LAYERS,
        SP_EXPERT_SIZES(128, 8, 2048, 1, 1),
        .routing = {SP_V3_ROUTING, .scale = 2.5, .n_groups = 1, .n_groups_used = 1},
        /* Keys of sarvam's own configs. */
        .key_names = SP_ROWS(sp_key_name, {"num_experts", "n_routed_experts"},
                             {"num_shared_experts", "n_shared_experts"},
                             {"num_mtp_layers", "num_nextn_predict_layers"}),
        .aliases = {sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "axk1",
        .architecture = "AXK1ForCausalLM",
        .sizes = {163840, 7168, 18432, 61, 64, 64, 64, 32768, 0},
        .sparse_post_norm = true,
        V3_LAYERS,
        SP_EXPERT_SIZES(192, 8, 2048, 1, 1),
        .routing = {SP_V3_ROUTING, .scale = 2.5, .n_groups = 8, .n_groups_used = 4},
        .aliases = {SP_ROWS(sp_alias, {"post_feedforward_layernorm.weight",
                                       "post_mlp_layernorm.weight", NULL, 0}),
                    sp_aliases_experts, sp_aliases_shared_experts, sp_aliases_latent},
    },
    {
        .name = "minicpm3",
        .architecture = "MiniCPM3ForCausalLM",
        .sizes = {73448, 2560, 6400, 62, 40, 40, 32, 32768, 0},
        .norm_eps = 1e-5,
        /* Values have n_hidden / n_heads dims. */
        .latent = &(const struct sp_latent_family){.defaults = {SP_LATENT(256, 768, 64, 0)}},
        .tied = true,
        .read_own = read_minicpm3,
        .own_keys = "scale_emb scale_depth",
        .aliases = {sp_aliases_latent},
    },
    {
        .name = "youtu",
        .architecture = "YoutuForCausalLM",
        .sizes = {128256, 2048, 6144, 32, 16, 16, 64, 131072, 0},
        .latent = &latent_v3,
        .mlp_bias = SP_BIAS_NEVER,
        .tied = true,
        .aliases = {sp_aliases_latent},
        .gguf = {.archs = {{.name = "deepseek2", .without = "expert_count"}},
                 .members = gguf_members},
    },
    {.name = NULL},
};
