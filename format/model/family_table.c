/* The families, and how they are found. Defaults are those of transformers' configuration classes:
 * nested text configs are written as the difference to them, so a missing key means the class
 * default and never a formula of other keys. */
#include "format/model/family_table.h"

#include <string.h>

static const struct sp_wrapper wrappers[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", false},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", false},
    /* Mistral3Config's own default at the root is true while its text models are untied. */
    {"mistral3", "Mistral3ForConditionalGeneration", "mistral", true},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", true},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", true},
};

enum { N_WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

const struct sp_family *sp_family_at(size_t i)
{
    static const struct sp_family *const tables[] = {sp_families_dense, sp_families_centered,
                                                     sp_families_experts, sp_families_hybrid,
                                                     sp_families_latent};

    for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++) {
        for (const struct sp_family *f = tables[k]; f->name; f++) {
            if (i-- == 0) return f;
        }
    }
    return NULL;
}

const struct sp_family *sp_family_by_type(const char *name)
{
    const struct sp_family *f = NULL;

    for (size_t i = 0; name && (f = sp_family_at(i)) != NULL; i++) {
        if (strcmp(f->name, name) == 0) break;
    }
    return f;
}

const struct sp_family *sp_family_by_architecture(const char *name)
{
    const struct sp_family *f = NULL;

    /* An early spelling that many Llama conversions still carry. */
    if (name && strcmp(name, "LLaMAForCausalLM") == 0) name = "LlamaForCausalLM";
    for (size_t i = 0; name && (f = sp_family_at(i)) != NULL; i++) {
        if (strcmp(f->architecture, name) == 0) break;
    }
    return f;
}

const struct sp_wrapper *sp_wrapper_by_type(const char *name)
{
    for (size_t i = 0; name && i < N_WRAPPERS; i++) {
        if (strcmp(wrappers[i].name, name) == 0) return &wrappers[i];
    }
    return NULL;
}

const struct sp_wrapper *sp_wrapper_by_architecture(const char *name)
{
    for (size_t i = 0; name && i < N_WRAPPERS; i++) {
        if (strcmp(wrappers[i].architecture, name) == 0) return &wrappers[i];
    }
    return NULL;
}
