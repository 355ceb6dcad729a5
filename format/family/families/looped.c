/* Models whose layers run several times, each time with caches of their own. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <stdio.h>
#include <string.h>

/* ---- HRM-Text ---- */

/* Two stacks of layers, L and H, each of which reads the sum of both their outputs: L runs L_cycles
 * times, then H once, and all that H_cycles times. The output of H begins as the embedding, that of
 * L as z_L_init. */
static void read_hrm(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned n = t->sizes->n_layers, n_low = 3, n_high = 2;
    double spread = 0.02;
    bool prefix = true;

    sp_text_unsigned(t, "num_layers_per_stack", 1, n, &n);
    sp_text_unsigned(t, "L_cycles", 1, 64, &n_low);
    sp_text_unsigned(t, "H_cycles", 1, 64, &n_high);
    sp_text_double(t, "initializer_range", 1e-6, 1, &spread);
    sp_text_bool(t, "prefix_lm", &prefix);
    c->starts = true;
    c->embedding_scale = 1 / spread;
    sp_text_double(t, "embedding_scale", 1e-6, 1e6, &c->embedding_scale);
    c->n_layers = n;
    if (sp_config_repeat_layers(c, 0, n, 2, t->err)) return;
    for (unsigned i = n; i < 2 * n; i++)
        c->layers[i].repeats = 0;
    if (sp_config_repeat_layers(c, 0, n, n_low, t->err) ||
        sp_config_repeat_layers(c, 0, n * (n_low + 1), n_high, t->err))
        return;
    for (unsigned i = 0; i < c->n_layers; i += n) {
        unsigned run = i / n % (n_low + 1);
        c->layers[i].joins = SP_JOIN_ADD | (i ? SP_JOIN_NORM : SP_JOIN_FIRST);
        if (i && (run == 0 || run == n_low)) c->layers[i].joins |= SP_JOIN_KEEP;
    }
    if (prefix)
        SP_NOTED(t, "prefix_lm: every token attends to those before it alone, as it does in "
                    "transformers without token_type_ids");
}

static unsigned name_hrm_layer(char *out, size_t size, const struct sp_config *config,
                               unsigned layer, const char *canonical, bool other)
{
    unsigned n = 1; /* layers of a stack */

    (void)canonical;
    (void)other;
    while (config->layers[n].joins == 0)
        n++;
    snprintf(out, size, "%c_module.layers.%u.", layer < n ? 'L' : 'H', layer % n);
    return 0;
}

static const struct sp_alias hrm_aliases[] = {
    {"loop_start", "z_L_init", NULL, 0},
    {"self_attn.gate_proj.weight", "attn.gqkv_proj.weight", sp_layout_gate_qkv, 0},
    {"self_attn.q_proj.weight", "attn.gqkv_proj.weight", sp_layout_gate_qkv, 1},
    {"self_attn.k_proj.weight", "attn.gqkv_proj.weight", sp_layout_gate_qkv, 2},
    {"self_attn.v_proj.weight", "attn.gqkv_proj.weight", sp_layout_gate_qkv, 3},
    {"self_attn.o_proj.weight", "attn.o_proj.weight", NULL, 0},
    {0},
};

/* ---- Dory (nGPT, arXiv 2410.01131) ---- */

/* A config may count attention and MLP as layers of their own. */
static void read_dory(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned n_first = 8, n_last = 8, n_loop = 0, n_loops = 2, step = 1;
    const char *mode = "per_loop";

    c->unit.init = 0.0177;
    c->unit.rate = 0.05;
    sp_text_double(t, "initializer_range", 1e-6, 1, &c->unit.init);
    sp_text_double(t, "ngpt_alpha_init", 1e-6, 1, &c->unit.rate);
    sp_text_unsigned(t, "n_input_layers", 1, SP_CAP_LAYERS, &n_first);
    sp_text_unsigned(t, "n_output_layers", 0, SP_CAP_LAYERS, &n_last);
    sp_text_unsigned(t, "n_recurrent_layers", 1, SP_CAP_LAYERS, &n_loop);
    sp_text_unsigned(t, "n_recurrent_loops", 1, 64, &n_loops);
    sp_text_string(t, "recurrent_kv_cache_mode", &mode);
    if (strcmp(mode, "per_loop") != 0)
        SP_REFUSED(t, "recurrent_kv_cache_mode \"%s\" is not supported", mode);
    if (strcmp(sp_text_at(sp_text_get(t, "layer_types"), 1), "mlp") == 0) step = 2;
    c->n_layers /= step;
    n_first /= step;
    n_last /= step;
    n_loop = n_loop ? n_loop / step : c->n_layers - n_first - n_last;
    if (n_first == 0 || n_loop == 0 || n_loop > c->n_layers ||
        n_first + n_loop + n_last != c->n_layers)
        SP_INVALID(t, "%u layers are not %u, %u and %u", c->n_layers, n_first, n_loop, n_last);
    for (unsigned i = 0; i < c->n_layers; i++) {
        struct sp_layer_config *l = &c->layers[i];
        *l = c->layers[i * step];
        l->kv_source = (int)i;
        l->stream_scales[0] = l->stream_scales[1] = 1;
    }
    if (sp_text_failed(t) || sp_config_repeat_layers(c, n_first, n_loop, n_loops, t->err)) return;
    for (unsigned i = 0; i < n_loops; i++) {
        c->layers[n_first + i * n_loop].joins =
            SP_JOIN_NORM | SP_JOIN_ADD | (i ? 0 : SP_JOIN_FIRST);
    }
}

/* Published checkpoints have attention and MLP as layers of their own; transformers saves pairs. */
static unsigned name_dory_layer(char *out, size_t size, const struct sp_config *config,
                                unsigned layer, const char *canonical, bool other)
{
    bool mlp = strncmp(canonical, "mlp", 3) == 0;
    const char *part = mlp ? "mlp." : "self_attn.";
    unsigned n = layer;

    if (strstr(canonical, "_rate"))
        part = other ? "lambda_" : mlp ? "mlp_" : "attn_";
    else if (!other)
        part = "mixer.";
    for (unsigned i = 0; i < layer; i++)
        n -= config->layers[i].repeats != 0;
    snprintf(out, size, "layers.%u.%s", other ? n : 2 * n + mlp, part);
    return 0;
}

static const struct sp_alias dory_aliases[] = {
    {"embed_tokens.weight", "embeddings.weight", NULL, 0},
    {"lm_head.scale", "lm_head.logit_scale", NULL, 0},
    {"attention_rate", "alpha", NULL, 0},
    {"attention_rate", "1", NULL, 0},
    {"mlp_rate", "alpha", NULL, 0},
    {"mlp_rate", "2", NULL, 0},
    {"self_attn.q_scale", "sqk", NULL, 0},
    {"self_attn.gate_scale", "s_gate", NULL, 0},
    {"self_attn.gate_proj.weight", "g_proj.weight", NULL, 0},
    {"self_attn.*", "*", NULL, 0},
    {"mlp.gate_scale", "suv_gate", NULL, 0},
    {"mlp.up_scale", "suv_up", NULL, 0},
    {"mlp.*", "*", NULL, 0},
    {0},
};

const struct sp_family sp_families_looped[] = {
    {
        .name = "hrm_text",
        .architecture = "HrmTextForCausalLM",
        .sizes = {151808, 1536, 4096, 16, 12, 0, 128, 2048, 0},
        .norm_weightless = true,
        .biases = SP_BIAS_REFUSED,
        .output_gate = true,
        .read_own = read_hrm,
        .aliases = {hrm_aliases, sp_aliases_gate_up},
        .name_layer = name_hrm_layer,
    },
    {
        .name = "dory",
        .architecture = "DoryForCausalLM",
        .sizes = {131072, 2560, 7168, 36, 16, 4, 256, 8192, 0},
        .norm_eps_key = "",
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .norm_weightless = true,
        .inner_norms = true,
        .theta = 1e7,
        .local_theta = 1e4,
        .rope_by_type = true,
        .own_types = "mlp",
        .windows = SP_WINDOWS_PATTERN,
        .window = 1024,
        .window_pattern = 4,
        .biases = SP_BIAS_REFUSED,
        .output_gate = true,
        .reads = {.layer_types = true},
        .read_own = read_dory,
        .aliases = {dory_aliases},
        .name_layer = name_dory_layer,
        .prefix = "backbone.",
    },
    {.name = NULL},
};
