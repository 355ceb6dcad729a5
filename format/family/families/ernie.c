/* ERNIE 4.5, dense and with experts. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

/* moe_norm_min is a lower limit of the sum that weights are divided by. The largest of n experts
 * has a weight of at least 1 / n, so a small limit never takes effect; another is refused. */
static void read_moe_norm_min(struct sp_config *c, const struct sp_config_text *t)
{
    double least = 1e-12;

    sp_text_double(t, "moe_norm_min", 0, 1, &least);
    for (unsigned i = 0; i < c->n_layers; i++)
        if (c->layers[i].n_experts * least >= 0.5)
            SP_REFUSED(t, "moe_norm_min %g is not supported", least);
}

const struct sp_family sp_families_ernie[] = {
    {
        .name = "ernie4_5",
        .architecture = "Ernie4_5ForCausalLM",
        .sizes = {103424, 1024, 3072, 18, 16, 2, 128, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 5e5,
        .bias_key = "use_bias",
        .tied = true,
        .aliases = {sp_aliases_interleaved_heads},
        .gguf = {.archs = {{.name = "ernie4_5"}}, .bias_key = "use_bias"},
    },
    {
        .name = "ernie4_5_moe",
        .architecture = "Ernie4_5_MoeForCausalLM",
        .sizes = {103424, 2560, 12288, 28, 20, 4, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_REFUSED,
        .bias_key = "use_bias",
        .tied = true,
        .expert_keys = {.count = "moe_num_experts",
                        .used = "moe_k",
                        .step = "moe_layer_interval",
                        .dense = "moe_layer_start_index",
                        .last = "moe_layer_end_index",
                        .shared = "moe_num_shared_experts"},
        SP_EXPERT_SIZES(64, 6, 1536, 1, 2),
        .routing = {.corrected = true, .norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .read_own = read_moe_norm_min,
        .aliases = {SP_ROWS(sp_alias,
                            {"mlp.router.correction", "mlp.moe_statics.e_score_correction_bias",
                             sp_layout_one_row, 0},
                            {"mlp.router.correction",
                             "mlp.gate.moe_statics.e_score_correction_bias", sp_layout_one_row, 0}),
                    sp_aliases_interleaved_heads, sp_aliases_experts, sp_aliases_shared_experts},
        .prediction_path = "mtp_",
        .prediction_block = "block.0.",
        .prediction_names = SP_ROWS(sp_alias, {"fc.weight", "linear_proj.0.weight", NULL, 0},
                                    {"pre_fc_norm_embedding.weight", "emb_norm.0.weight", NULL, 0},
                                    {"pre_fc_norm_hidden.weight", "hidden_norm.0.weight", NULL, 0}),
        .prediction_unnormed = true,
        /* The last layer with experts is not in the metadata. */
        .gguf = {.archs = {{.name = "ernie4_5-moe"}},
                 .members = SP_ROWS(
                     sp_gguf_member, {SP_PUT_SIZE, "moe_num_experts", "expert_count", NULL},
                     {SP_PUT_SIZE, "moe_k", "expert_used_count", NULL},
                     {SP_PUT_SIZE, "moe_intermediate_size", "expert_feed_forward_length", NULL},
                     {SP_PUT_SIZE, "moe_num_shared_experts", "expert_shared_count", NULL},
                     {SP_PUT_SIZE, "moe_layer_start_index", "leading_dense_block_count", NULL},
                     {SP_PUT_SIZE, "moe_layer_interval", "interleave_moe_layer_step", NULL},
                     {SP_PUT_LAST_MOE, NULL, NULL, NULL}),
                 /* Stored with one row, as checkpoints have it. */
                 .names = SP_ROWS(
                     sp_gguf_name,
                     {"exp_probs_b", "mlp.moe_statics.e_score_correction_bias", SP_GGUF_BARE}),
                 .bias_key = "use_bias"},
    },
    {.name = NULL},
};
