/* Llama 4: most layers rotate and attend within chunks, the others see all keys. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <string.h>

static const struct sp_alias llama4_aliases[] = {
    SP_ALIAS_GATE_UP("mlp.experts", "feed_forward.experts.gate_up_proj",
                     sp_layout_transposed_gate_up),
    {"mlp.experts.down_proj.weight", "feed_forward.experts.down_proj", sp_layout_transposed, 0},
    {"mlp.*", "feed_forward.*", NULL, 0},
    {0},
};

/* Queries of layers without rotation grow with their position. Old files state a number. */
static void read_growth(struct sp_query_growth *g, const struct sp_config_text *t)
{
    const struct sp_json *v = sp_text_get(t, "attn_temperature_tuning");
    unsigned from = 8192;
    double tuned = 1;
    bool on = true;

    if (v && !sp_json_to_bool(v, &on) && sp_json_to_double(v, &tuned)) on = tuned != 0;
    *g = (struct sp_query_growth){.beta = on ? 0.1 : 0, .offset = 1, .unrotated_only = true};
    if (on) sp_text_double(t, "attn_scale", 0, 1e3, &g->beta);
    sp_text_unsigned(t, "floor_scale", 1, SP_CAP_POSITIONS, &from);
    g->from = from;
}

static void read_llama4(struct sp_config *c, const struct sp_config_text *t)
{
    static const char key[] = "attention_chunk_size";
    const struct sp_json *list = sp_text_get(t, "layer_types");
    unsigned chunk = sp_text_has(t, key) ? 0 : 8192;

    c->qk_norm_weightless = true;
    sp_text_unsigned(t, key, 1, SP_CAP_POSITIONS, &chunk);
    for (unsigned i = 0; i < c->n_layers; i++) {
        const char *type = sp_json_to_string(sp_json_at(list, i), NULL);
        struct sp_layer_config *l = &c->layers[i];
        l->chunked = chunk && (type ? strcmp(type, "chunked_attention") == 0 : l->rope >= 0);
        if (l->chunked) l->window = chunk;
    }
    read_growth(&c->query_growth, t);
}

const struct sp_family sp_families_llama4[] = {
    {
        .name = "llama4_text",
        .architecture = "Llama4ForCausalLM",
        .sizes = {202048, 5120, 16384, 48, 40, 8, 128, 131072, 0},
        .ffn_key = "intermediate_size_mlp",
        .norm_eps = 1e-5,
        .qk_norm = SP_QK_ROTATED,
        .qk_norm_key = "use_qk_norm",
        .qk_normed = true,
        .theta = 5e5,
        .mlp_bias = SP_BIAS_NEVER,
        .expert_keys = {.step = "interleave_moe_layer_step",
                        .list = "moe_layers",
                        .width = "intermediate_size",
                        .parallel_width = "intermediate_size"},
        SP_EXPERT_SIZES(16, 1, 8192, 0, 0),
        .n_shared_ffn = 8192,
        .routing = {.law = SP_ROUTE_SIGMOID_CHOSEN, .weighs_input = true},
        .router_norm_fixed = true,
        .reads = {.no_rope_layers = true, .chunks = true, .experts = true},
        .read_own = read_llama4,
        .aliases = {llama4_aliases, sp_aliases_interleaved_heads},
        /* Files do not state use_qk_norm, which of the published models only the one with 128
         * experts does not have. */
        .gguf = {.archs = {{.name = "llama4"}},
                 .members = SP_ROWS(
                     sp_gguf_member,
                     {SP_PUT_SIZE, "intermediate_size_mlp", "feed_forward_length", NULL},
                     {SP_PUT_SIZE, "num_local_experts", "expert_count", NULL},
                     {SP_PUT_SIZE, "num_experts_per_tok", "expert_used_count", NULL},
                     {SP_PUT_SIZE, "interleave_moe_layer_step", "interleave_moe_layer_step", NULL},
                     {SP_PUT_UNLESS, "use_qk_norm", "expert_count", "128"})},
    },
    {.name = NULL},
};
