/* MiniMax-Text-01: lightning attention between layers of attention, with experts. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

static const struct sp_delta_family lightning = {
    .defaults = {.n_value_heads = 32, .value_dim = 128, .kernel = 1, .lightning = true},
    .full_interval = 2,
    .first_full = 1,
};

static const struct sp_alias minimax_aliases[] = {
    {"linear_attn.in_proj_qkv.weight", "self_attn.qkv_proj.weight", sp_layout_delta_heads, 0},
    {"linear_attn.in_proj_z.weight", "self_attn.output_gate.weight", NULL, 0},
    {"linear_attn.norm.weight", "self_attn.norm.weight", NULL, 0},
    {"linear_attn.out_proj.weight", "self_attn.out_proj.weight", NULL, 0},
    {0},
};

static enum sp_status read_scale(double *out, const struct sp_config_text *t, const char *key,
                                 struct sp_err *err)
{
    *out = 1;
    return sp_text_double(t, key, 1e-6, 1e6, out, err);
}

/* A head of lightning attention is one of attention. Each sublayer multiplies its normed input,
 * which becomes the residual stream, by alpha and its output by beta. */
static enum sp_status read_minimax(struct sp_config *c, const struct sp_config_text *t,
                                   const struct sp_sizes *sizes, struct sp_err *err)
{
    double full[2], linear[2], mlp[2];
    enum sp_status st;

    if ((st = read_scale(&full[0], t, "full_attn_alpha_factor", err))) return st;
    if ((st = read_scale(&full[1], t, "full_attn_beta_factor", err))) return st;
    if ((st = read_scale(&linear[0], t, "linear_attn_alpha_factor", err))) return st;
    if ((st = read_scale(&linear[1], t, "linear_attn_beta_factor", err))) return st;
    if ((st = read_scale(&mlp[0], t, "mlp_alpha_factor", err))) return st;
    if ((st = read_scale(&mlp[1], t, "mlp_beta_factor", err))) return st;
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        bool is_linear = l->mixers & SP_MIXER_DELTA_NET;
        l->stream_scales[0] = is_linear ? linear[0] : full[0];
        l->out_scales[0] = is_linear ? linear[1] : full[1];
        l->stream_scales[1] = mlp[0];
        l->out_scales[1] = mlp[1];
    }
    if (c->delta.lightning) {
        c->delta.kernel = 1;
        c->delta.n_key_heads = c->delta.n_value_heads = sizes->n_heads;
        c->delta.key_dim = c->delta.value_dim = sizes->head_dim;
    }
    return SP_OK;
}

const struct sp_family sp_families_minimax[] = {
    {
        .name = "minimax",
        .architecture = "MiniMaxForCausalLM",
        .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 131072, 0},
        .norm_eps = 1e-5,
        .theta = 1e6,
        .windows = SP_WINDOWS_ALL,
        .delta_layers = true,
        .delta = &lightning,
        .biases = SP_BIAS_NEVER,
        SP_EXPERT_SIZES(8, 2, 0, 0, 0),
        .routing = {.norm = true},
        .router_norm_fixed = true,
        .reads = {.experts = true},
        .read_own = read_minimax,
        .aliases = {minimax_aliases, sp_aliases_block_sparse},
    },
    {.name = NULL},
};
