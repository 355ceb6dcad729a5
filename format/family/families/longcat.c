/* LongCat-Flash: layers of two attention and two MLP sublayers, and experts beside the first of
 * them whose sum is added at the end. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <math.h>
#include <stdio.h>

static const struct sp_latent_family latent_longcat = {
    .defaults = {SP_LATENT(512, 1536, 128, 128), .rows_paired = true},
    .always_interleaved = true,
};

static const struct sp_alias longcat_aliases[] = {
    {"self_attn.k_b_proj.weight", "self_attn.#.kv_b_proj.weight", sp_layout_latent_keys, 0},
    {"self_attn.v_b_proj.weight", "self_attn.#.kv_b_proj.weight", sp_layout_latent_values, 0},
    {"self_attn.q_b_proj.weight", "self_attn.#.q_b_proj.weight", sp_layout_query_tails, 0},
    {"self_attn.kv_a_proj_with_mqa.*", "self_attn.#.kv_a_proj_with_mqa.*", sp_layout_key_tail, 0},
    {"self_attn.*", "self_attn.#.*", NULL, 0},
    {"input_layernorm.weight", "input_layernorm.#.weight", NULL, 0},
    {"post_attention_layernorm.weight", "post_attention_layernorm.#.weight", NULL, 0},
    {"mlp.router.weight", "mlp.router.classifier.weight", NULL, 0},
    {"mlp.router.correction", "mlp.router.e_score_correction_bias", NULL, 0},
    {"mlp.shared_expert.*", "mlps.#.*", NULL, 0},
    SP_ALIAS_MLP("mlp", "mlps.#", NULL),
    {0},
};

static void read_longcat(struct sp_config *c, const struct sp_config_text *t)
{
    if (c->latent.q_rank == 0)
        SP_INVALID(t, "q_lora_rank is missing, which %s needs", t->family->name);
    c->latent.q_scale = sqrt((double)t->sizes->n_hidden / c->latent.q_rank);
    c->latent.kv_scale = sqrt((double)t->sizes->n_hidden / c->latent.kv_rank);
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].defers_experts = c->layers[i].n_experts != 0;
    c->routing.n_zero = 256;
    if (sp_text_has(t, "zero_expert_num") && sp_text_get(t, "zero_expert_num") == NULL)
        c->routing.n_zero = 0;
    sp_text_unsigned(t, "zero_expert_num", 0, SP_CAP_EXPERTS, &c->routing.n_zero);
}

static unsigned name_longcat_layer(char *out, size_t size, const struct sp_config *config,
                                   unsigned layer, const char *canonical, bool other)
{
    (void)config;
    (void)canonical;
    (void)other;
    snprintf(out, size, "layers.%u.", layer / 2);
    return layer % 2;
}

const struct sp_family sp_families_longcat[] = {
    {
        .name = "longcat_flash",
        .architecture = "LongcatFlashForCausalLM",
        .sizes = {131072, 6144, 12288, 56, 64, 0, 64, 131072, 0},
        .ffn_key = "ffn_hidden_size",
        .norm_eps = 1e-5,
        .theta = 1e7,
        .latent = &latent_longcat,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.count = "n_routed_experts",
                        .used = "moe_topk",
                        .width = "expert_ffn_hidden_size"},
        .expert_period = {2, 0},
        .parallel_ffn = true,
        SP_EXPERT_SIZES(512, 12, 2048, 0, 0),
        .routing = {.corrected = true, .scale = 6},
        .router_norm_fixed = true,
        .reads = {.experts = true, .routed_scale = true},
        .key_names = SP_ROWS(sp_key_name, {"intermediate_size", "ffn_hidden_size"},
                             {"moe_intermediate_size", "expert_ffn_hidden_size"},
                             {"num_experts_per_tok", "moe_topk"}),
        .read_own = read_longcat,
        .aliases = {longcat_aliases, sp_aliases_experts},
        .halves = true,
        .name_layer = name_longcat_layer,
    },
    {.name = NULL},
};
