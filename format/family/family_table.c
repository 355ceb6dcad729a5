/* The families, and how they are found. The defaults in the rows are those of transformers'
 * configuration classes: transformers writes a nested text config as the difference to its class,
 * so a missing key means the class default and never a formula of other keys. */
#include "format/family/family_table.h"

#include <string.h>

static const struct sp_sizes llama_sizes = {
    .n_vocab = 32000,
    .n_hidden = 4096,
    .n_ffn = 11008,
    .n_layers = 32,
    .n_heads = 32,
    .max_positions = 2048,
};

void sp_family_resolve(struct sp_family *out, const struct sp_family *row)
{
    *out = *row;
    if (out->sizes.n_vocab == 0) out->sizes = llama_sizes;
    if (out->ffn_key == NULL) out->ffn_key = "intermediate_size";
    if (out->norm_eps == 0) out->norm_eps = 1e-6;
    if (out->norm_eps_key == NULL) out->norm_eps_key = "rms_norm_eps";
    if (out->theta == 0 && !out->theta_required) out->theta = 1e4;
    if (out->activation == NULL) out->activation = "silu";
    if (out->activation_key == NULL) out->activation_key = "hidden_act";
    if (out->qkv_bias == SP_BIAS_BY_CONFIG) out->qkv_bias = out->biases;
    if (out->o_bias == SP_BIAS_BY_CONFIG) out->o_bias = out->biases;
    if (out->mlp_bias == SP_BIAS_BY_CONFIG) out->mlp_bias = out->biases;
    if (out->routing.scale == 0) out->routing.scale = 1;
    if (out->prefix == NULL) out->prefix = "model.";
}

const struct sp_family *sp_family_at(size_t i)
{
    for (size_t k = 0; sp_lineages[k]; k++) {
        for (const struct sp_family *f = sp_lineages[k]; f->name; f++)
            if (i-- == 0) return f;
    }
    return NULL;
}

const struct sp_family *sp_family_by_type(const char *name)
{
    const struct sp_family *f = NULL;

    for (size_t i = 0; name && (f = sp_family_at(i)) != NULL; i++)
        if (strcmp(f->name, name) == 0) break;
    return f;
}

/* True if `name` is the class of the model without its output matrix, such as "Qwen3Model" of
 * "Qwen3ForCausalLM". */
static bool is_base_of(const char *architecture, const char *name)
{
    static const char whole[] = "ForCausalLM", base[] = "Model";
    size_t n = strlen(architecture), k = strlen(name);

    return n > strlen(whole) && k > strlen(base) && n - strlen(whole) == k - strlen(base) &&
           strcmp(architecture + n - strlen(whole), whole) == 0 &&
           strcmp(name + k - strlen(base), base) == 0 &&
           strncmp(architecture, name, k - strlen(base)) == 0;
}

const struct sp_family *sp_family_by_architecture(const char *name)
{
    const struct sp_family *f = NULL;

    for (size_t i = 0; name && (f = sp_family_at(i)) != NULL; i++) {
        if (strcmp(f->architecture, name) == 0 || is_base_of(f->architecture, name)) break;
        if (f->old_architecture && strcmp(f->old_architecture, name) == 0) break;
    }
    return f;
}

const struct sp_wrapper *sp_wrapper_by_type(const char *name)
{
    for (const struct sp_wrapper *w = sp_wrappers; name && w->name; w++)
        if (strcmp(w->name, name) == 0) return w;
    return NULL;
}

const struct sp_wrapper *sp_wrapper_by_architecture(const char *name)
{
    for (const struct sp_wrapper *w = sp_wrappers; name && w->name; w++)
        if (strcmp(w->architecture, name) == 0) return w;
    return NULL;
}
