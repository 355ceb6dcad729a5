/* blk.N.ffn_up.weight to model.layers.N.mlp.up_proj.weight, by the tables of gguf_arch.c. */
#include "convert/gguf/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

bool sp_gguf_is_ignored(const char *name)
{
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                        "rope_factors_short.weight"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return ends_with(name, ".input_scale");
}

bool sp_gguf_is_of_encoder(const char *name)
{
    return strncmp(name, "v.", 2) == 0 || strncmp(name, "mm.", 3) == 0 ||
           strncmp(name, "a.", 2) == 0;
}

bool sp_gguf_is_of_unread_head(const struct sp_gguf_model *m, const char *name)
{
    if (m->n_predicting == 0 || m->arch->mtp || m->arch->next_layer) return false;
    return strncmp(name, "blk.", 4) == 0 && name[4] >= '0' && name[4] <= '9' &&
           strtoul(name + 4, NULL, 10) >= m->n_layers;
}

/* The published name of a tensor of layer N, and how it is stored; false if models of the
 * architecture have no such tensor. `name` is what follows blk.N. */
static bool publish_in_layer(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                             const struct sp_gguf_model *m, unsigned long layer, const char *name)
{
    const char *ending = strrchr(name, '.'); /* names of prediction heads have another dot inside */
    const struct sp_gguf_name *found;
    char prefix[40];

    if (ending == NULL || (strcmp(ending, ".weight") != 0 && strcmp(ending, ".bias") != 0))
        ending = name + strlen(name);
    found = sp_gguf_arch_name(m->arch, name, (size_t)(ending - name));
    if (found == NULL) return false;
    *form = found->form;
    if (found->form == SP_GGUF_BARE || found->form == SP_GGUF_BARE_VECTOR ||
        found->form == SP_GGUF_LOG)
        ending = "";
    else if (*ending == '\0' && found->form == SP_GGUF_UNENDED)
        ending = ".weight";
    else if (*ending == '\0')
        return false;
    snprintf(prefix, sizeof prefix, "model.%s%lu.", m->arch->layers ? m->arch->layers : "layers.",
             layer);
    if (m->arch->mtp && !m->is_adapter && layer >= m->n_layers) {
        bool outside = strncmp(name, "nextn.", 6) == 0;
        snprintf(prefix, sizeof prefix, outside ? "mtp." : "mtp.layers.%lu.",
                 layer - (unsigned long)m->n_layers);
    }
    snprintf(out, SP_GGUF_NAME_SIZE, "%s%s%s", prefix, found->published, ending);
    return true;
}

bool sp_gguf_publish_name(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                          const struct sp_gguf_model *m, const char *name)
{
    static const struct {
        const char *ggml, *published;
    } globals[] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"output_norm.bias", "model.norm.bias"},
        {"output.weight", "lm_head.weight"},
        {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
        {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
        {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"},
        {"dense_2.weight",
         "dense.0.linear.weight"}, /* the module's number in sentence-transformers */
        {"dense_3.weight", "dense.1.linear.weight"},
    };
    size_t stem = strlen(name) - (ends_with(name, ".weight") ? strlen(".weight")
                                  : ends_with(name, ".bias") ? strlen(".bias")
                                                             : 0);
    const struct sp_gguf_name *own = sp_gguf_arch_name(m->arch, name, stem);
    char *end;
    unsigned long layer;

    *form = SP_GGUF_AS_IS;
    if (own && name[stem]) {
        snprintf(out, SP_GGUF_NAME_SIZE, "model.%s%s", own->published, name + stem);
        *form = own->form;
        return true;
    }
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (strcmp(name, globals[i].ggml) != 0) continue;
        snprintf(out, SP_GGUF_NAME_SIZE, "%s", globals[i].published);
        return true;
    }
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return false;
    layer = strtoul(name + 4, &end, 10);
    if (*end != '.' || layer > SP_GGUF_MAX_LAYERS) return false;
    return publish_in_layer(out, form, m, layer, end + 1);
}

bool sp_gguf_has_own_name(const struct sp_gguf_model *m, const char *name)
{
    const char *inner = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;

    return inner && sp_gguf_arch_name(m->arch, inner + 1, strlen(inner + 1));
}
