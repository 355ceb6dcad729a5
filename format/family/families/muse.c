/* Muse Glimmer, and its assistant, which is a DFlash draft. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

/* Every fourth layer, counted from the last, has no window and no rotary embedding by default. */
static void read_glimmer(struct sp_config *c, const struct sp_config_text *t)
{
    bool listed = sp_text_get(t, "layer_types"), rotated = sp_text_get(t, "layer_rope_theta");
    double scale = 3.87;

    c->logit_scale = 0.19611613513818404;
    c->post_norm_eps = 1e-8;
    c->qk_norm_weightless = c->final_unshifted = true;
    sp_text_double(t, "qk_scale_factor", 1e-6, 1e6, &scale);
    sp_text_double(t, "output_multiplier", 1e-6, 1e6, &c->logit_scale);
    sp_text_double(t, "post_norm_eps", 1e-30, 1, &c->post_norm_eps);
    c->attention_scale *= scale;
    for (unsigned i = 0; i < c->n_layers; i++) {
        bool full = (c->n_layers - 1 - i) % 4 == 0;
        if (full && !listed) c->layers[i].window = 0;
        if (full && !rotated) c->layers[i].rope = -1;
    }
}

/* The assistant's rows see the whole block, and a window counts the tokens on either side. It reads
 * embeddings before their norm. */
static void read_assistant(struct sp_config *c, const struct sp_config_text *t)
{
    (void)t;
    c->draft.raw_embeddings = true;
    c->draft.block_size = 16;
    c->draft.mask_token = 201818;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].causal = false;
        if (c->layers[i].window) c->layers[i].window++;
    }
}

const struct sp_family sp_families_muse[] = {
    {
        .name = "muse_glimmer_text",
        .architecture = "MuseGlimmerForCausalLM",
        .sizes = {202048, 6656, 19968, 52, 32, 2, 128, 131072, 0},
        .norm_eps = 1e-5,
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .norm_shifted = true,
        .embedding_normed = true,
        .windows = SP_WINDOWS_ALL,
        .window = 2048,
        .mlp_bias = SP_BIAS_NEVER,
        .output_gate = true,
        .logit_cap = 20,
        .activation_key = "hidden_activation",
        .reads = {.layer_types = true, .logit_cap = true, .layer_thetas = true},
        .read_own = read_glimmer,
    },
    {
        .name = "muse_glimmer_assistant",
        .architecture = "MuseGlimmerAssistantModel",
        .sizes = {202048, 6656, 19968, 5, 32, 8, 128, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 5e5,
        .qk_norm = SP_QK_HEADS,
        .windows = SP_WINDOWS_ALL,
        .window = 2048,
        .biases = SP_BIAS_NEVER,
        .reads = {.layer_types = true},
        .read_own = read_assistant,
        .aliases = {SP_ROWS(sp_alias, {"fc.weight", "encoder.fc.weight", NULL, 0},
                            {"hidden_norm.weight", "encoder.output_norm_enc.weight", NULL, 0})},
    },
    {.name = NULL},
};
