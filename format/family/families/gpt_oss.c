/* gpt-oss: experts with a clamped SwiGLU and biases, attention with sinks. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

void sp_read_clamped_swiglu(struct sp_config *c, const struct sp_config_text *t)
{
    double alpha = 1.702, limit = 7;

    sp_text_double(t, "swiglu_limit", 1e-3, 1e6, &limit);
    sp_text_double(t, "swiglu_alpha", 0, 1e6, &alpha);
    if (alpha != 1.702) SP_REFUSED(t, "swiglu_alpha %g is not supported, only 1.702", alpha);
    for (unsigned i = 0; i < c->n_layers; i++)
        c->layers[i].limits[0] = c->layers[i].limits[1] = limit;
}

/* Plain checkpoints interleave the columns of gate and up; MXFP4 ones (*_blocks), the rows. GGUF
 * files have the canonical tensors. */
static const struct sp_alias expert_aliases[] = {
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj", sp_layout_alternating_cols),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj", sp_layout_transposed, 0},
    SP_ALIAS_GATE_UP("mlp.experts", "mlp.experts.gate_up_proj_blocks", sp_layout_alternating_rows),
    {"mlp.experts.down_proj.weight", "mlp.experts.down_proj_blocks", NULL, 0},
    {"mlp.experts.gate_proj.bias", "mlp.experts.gate_up_proj_bias", sp_layout_alternating_biases,
     0},
    {"mlp.experts.up_proj.bias", "mlp.experts.gate_up_proj_bias", sp_layout_alternating_biases, 1},
    {"mlp.experts.down_proj.bias", "mlp.experts.down_proj_bias", NULL, 0},
    {"mlp.experts.*", NULL, NULL, 0},
    {0},
};

const struct sp_family sp_families_gpt_oss[] = {
    {
        .name = "gpt_oss",
        .architecture = "GptOssForCausalLM",
        .sizes = {201088, 2880, 2880, 36, 64, 8, 64, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 150000,
        .rope_default = "{\"rope_type\":\"yarn\",\"factor\":32,\"beta_fast\":32,\"beta_slow\":1,"
                        "\"truncate\":false,\"original_max_position_embeddings\":4096}",
        .windows = SP_WINDOWS_EVEN,
        .window = 128,
        .mlp_bias = SP_BIAS_ALWAYS,
        .attention_bias = true,
        .sinks = true,
        SP_EXPERT_SIZES(128, 4, 0, 0, 0),
        .clamped_swiglu = true,
        .routing = {.law = SP_ROUTE_SOFTMAX_CHOSEN, .biased = true},
        .reads = {.layer_types = true, .experts = true},
        .read_own = sp_read_clamped_swiglu,
        .own_keys = "swiglu_limit swiglu_alpha",
        .aliases = {expert_aliases},
        .gguf = {.archs = {{.name = "gpt-oss", .scaling = "yarn"},
                           {.name = "gptoss", .scaling = "yarn"}},
                 .members = sp_gguf_members_llama,
                 .names = SP_ROWS(sp_gguf_name, {"attn_out", "self_attn.o_proj", SP_GGUF_AS_IS}),
                 .yarn_untruncated = true,
                 .end_separates = true},
    },
    {.name = NULL},
};
