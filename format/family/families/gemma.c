/* Gemma 1 to 3 and VaultGemma. Gemma 4 is in gemma4.c. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

/* EmbeddingGemma's tokens see those after them, and its window counts both sides. */
static void read_bidirectional(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_json *stated = sp_text_get(t, "use_bidirectional_attention");

    if (stated && !sp_json_to_bool(stated, &c->bidirectional)) {
        SP_REFUSED(t, "use_bidirectional_attention is not supported for gemma3_text unless "
                      "it is true or false");
    }
    for (unsigned i = 0; c->bidirectional && i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        l->causal = false;
        if (l->window) l->window = l->window / 2 + 1;
    }
}

#define GEMMA2_LAYERS                                                                              \
    .sizes = {256000, 2304, 9216, 26, 8, 4, 256, 8192, 0}, .norm_shifted = true,                   \
    .windows = SP_WINDOWS_EVEN, .window = 4096, SP_GEMMA_LAYERS(256), .attention_cap = 50,         \
    .logit_cap = 30,                                                                               \
    .reads = {.layer_types = true, .attention_cap = true, .logit_cap = true, .query_scalar = true}

const struct sp_family sp_families_gemma[] = {
    {
        .name = "gemma",
        .architecture = "GemmaForCausalLM",
        .sizes = {256000, 3072, 24576, 28, 16, 16, 256, 8192, 0},
        .norm_shifted = true,
        .mlp_bias = SP_BIAS_NEVER,
        .activation = "gelu_pytorch_tanh",
        .gelu_is_tanh = true,
        .tied = true,
        .scaled_embedding = true,
        .gguf = {.archs = {{.name = "gemma"}}},
    },
    {
        .name = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        GEMMA2_LAYERS,
        .norms = SP_NORM_SANDWICH,
        .gguf = {.archs = {{.name = "gemma2"}},
                 .members = SP_ROWS(
                     sp_gguf_member, {SP_PUT_SCALAR, "query_pre_attn_scalar", NULL, "46"},
                     {SP_PUT_WINDOW, NULL, NULL, NULL},
                     {SP_PUT_FLOAT, "attn_logit_softcapping", "attn_logit_softcapping", NULL},
                     {SP_PUT_FLOAT, "final_logit_softcapping", "final_logit_softcapping", NULL})},
    },
    {
        .name = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .old_architecture = "Gemma3TextModel",
        .sizes = {262208, 2304, 9216, 26, 8, 4, 256, 131072, 0},
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .norm_shifted = true,
        .theta = 1e6,
        .local_theta = 1e4,
        .windows = SP_WINDOWS_PATTERN,
        .window = 4096,
        .window_pattern = 6,
        SP_GEMMA_LAYERS(256),
        .reads =
            {.layer_types = true, .logit_cap = true, .query_scalar = true, .bidirectional = true},
        .read_own = read_bidirectional,
        .gguf = {.archs = {{.name = "gemma3",
                            .theta = "1000000.0",
                            .long_scaling = "{\"rope_type\": \"linear\", \"factor\": 8.0}"},
                           {.name = "gemma-embedding", .class = "Gemma3TextModel", .embeds = true},
                           {.name = "gemma3",
                            .with = "dense.0.weight",
                            .class = "Gemma3TextModel",
                            .theta = "1000000.0",
                            .embeds = true}},
                 .members = SP_ROWS(
                     sp_gguf_member, {SP_PUT_SCALAR, "query_pre_attn_scalar", NULL, "62"},
                     {SP_PUT_WINDOW, NULL, NULL, NULL},
                     {SP_PUT_FLOAT, "attn_logit_softcapping", "attn_logit_softcapping", NULL},
                     {SP_PUT_FLOAT, "final_logit_softcapping", "final_logit_softcapping", NULL},
                     {SP_PUT_PATTERN, NULL, NULL, NULL},
                     {SP_PUT_FLOAT, "rope_local_base_freq", "rope.freq_base_swa", "10000.0"},
                     {SP_PUT_EMBEDS, NULL, NULL, NULL}),
                 .key_names = SP_ROWS(sp_key_name, {"rope.global.freq_base", "rope.freq_base"},
                                      {"rope.local.freq_base", "rope.freq_base_swa"})},
    },
    {
        .name = "vaultgemma",
        .architecture = "VaultGemmaForCausalLM",
        GEMMA2_LAYERS,
        .aliases = {SP_ROWS(sp_alias, {"post_attention_layernorm.weight",
                                       "pre_feedforward_layernorm.weight", NULL, 0})},
    },
    {.name = NULL},
};
