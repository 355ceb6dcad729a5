/* Models whose layers run several times, each time with caches of their own. */
#include "format/base/warnings.h"
#include "format/config/config_text.h"
#include "format/family/families/families.h"

#include <stdio.h>

/* ---- HRM-Text ---- */

/* Two stacks of layers, L and H, each of which reads the sum of both their outputs: L runs L_cycles
 * times, then H once, and all that H_cycles times. The output of H begins as the embedding, that of
 * L as z_L_init. */
static enum sp_status read_hrm(struct sp_config *c, const struct sp_config_text *t,
                               const struct sp_sizes *sizes, struct sp_err *err)
{
    unsigned n = sizes->n_layers, n_low = 3, n_high = 2;
    double spread = 0.02;
    bool prefix = true;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "num_layers_per_stack", 1, n, &n, err)) ||
        (st = sp_text_unsigned(t, "L_cycles", 1, 64, &n_low, err)) ||
        (st = sp_text_unsigned(t, "H_cycles", 1, 64, &n_high, err)) ||
        (st = sp_text_double(t, "initializer_range", 1e-6, 1, &spread, err)) ||
        (st = sp_text_bool(t, "prefix_lm", &prefix, err)))
        return st;
    c->starts = true;
    c->embedding_scale = 1 / spread;
    if ((st = sp_text_double(t, "embedding_scale", 1e-6, 1e6, &c->embedding_scale, err))) return st;
    c->n_layers = n;
    if ((st = sp_config_repeat_layers(c, 0, n, 2, err))) return st;
    for (unsigned i = n; i < 2 * n; i++)
        c->layers[i].repeats = 0;
    if ((st = sp_config_repeat_layers(c, 0, n, n_low, err)) ||
        (st = sp_config_repeat_layers(c, 0, n * (n_low + 1), n_high, err)))
        return st;
    for (unsigned i = 0; i < c->n_layers; i += n) {
        unsigned run = i / n % (n_low + 1);
        c->layers[i].joins = SP_JOIN_ADD | (i ? SP_JOIN_NORM : SP_JOIN_FIRST);
        if (i && (run == 0 || run == n_low)) c->layers[i].joins |= SP_JOIN_KEEP;
    }
    if (!prefix) return SP_OK;
    return sp_warn(t->warnings, err,
                   "prefix_lm: every token attends to those before it alone, as it does in "
                   "transformers without token_type_ids");
}

static unsigned name_hrm_layer(char *out, size_t size, const struct sp_config *config,
                               unsigned layer, const char *canonical)
{
    unsigned n = 1; /* layers of a stack */

    (void)canonical;
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
    {.name = NULL},
};
