/* A list of canonical tensors. family_tensors.c makes it of a config. */
#include "format/family/family.h"

#include "format/base/affix.h"
#include "format/base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *sp_role_name(enum sp_role role)
{
    static const char *const names[] = {
        [SP_ROLE_NORM] = "norm",
        [SP_ROLE_BIAS] = "bias",
        [SP_ROLE_SMALL] = "small",
        [SP_ROLE_EMBEDDING] = "embedding",
        [SP_ROLE_HEAD] = "head",
        [SP_ROLE_ATTENTION] = "attention",
        [SP_ROLE_MLP] = "mlp",
        [SP_ROLE_ROUTER] = "router",
        [SP_ROLE_FEATURE] = "feature",
        [SP_ROLE_GATE] = "gate",
        [SP_ROLE_INDEX] = "index",
        [SP_ROLE_CODEBOOK] = "codebook",
        [SP_ROLE_KEY_VALUE] = "key or value",
    };

    assert((size_t)role < sizeof names / sizeof names[0]);
    return names[role];
}

bool sp_role_is_matrix(enum sp_role role)
{
    switch (role) {
    case SP_ROLE_NORM:
    case SP_ROLE_BIAS:
    case SP_ROLE_SMALL:
    case SP_ROLE_INDEX:
        return false;
    case SP_ROLE_EMBEDDING:
    case SP_ROLE_HEAD:
    case SP_ROLE_ATTENTION:
    case SP_ROLE_KEY_VALUE:
    case SP_ROLE_MLP:
    case SP_ROLE_ROUTER:
    case SP_ROLE_GATE:
    case SP_ROLE_FEATURE:
    case SP_ROLE_CODEBOOK:
        break;
    }
    return true;
}

enum sp_status sp_specs_add_string(const char **out, struct sp_specs *specs, const char *text,
                                   struct sp_err *err)
{
    char *copy = NULL;
    enum sp_status st = sp_grow(&specs->strings, &specs->cap_strings, specs->n_strings + 1,
                                sizeof *specs->strings, err);

    if (st || (st = sp_copy_text(&copy, text, strlen(text), err))) return st;
    specs->strings[specs->n_strings++] = copy;
    *out = copy;
    return SP_OK;
}

void sp_specs_sort(struct sp_specs *specs)
{
    if (specs->n_specs) qsort(specs->specs, specs->n_specs, sizeof *specs->specs, sp_compare_names);
}

const struct sp_tensor_spec *sp_specs_find(const struct sp_specs *specs, const char *name)
{
    if (specs->n_specs == 0) return NULL;
    return bsearch(&name, specs->specs, specs->n_specs, sizeof *specs->specs, sp_compare_names);
}

static void drop(struct sp_specs *specs, const char *name)
{
    const struct sp_tensor_spec *spec = sp_specs_find(specs, name);
    size_t i;

    if (spec == NULL) return;
    i = (size_t)(spec - specs->specs);
    memmove(&specs->specs[i], &specs->specs[i + 1],
            (specs->n_specs - i - 1) * sizeof *specs->specs);
    specs->n_specs--;
}

void sp_specs_share_head(struct sp_specs *specs, struct sp_config *config)
{
    config->tied = true;
    drop(specs, "lm_head.weight");
}

enum sp_status sp_specs_untie_head(struct sp_specs *specs, struct sp_config *config,
                                   struct sp_err *err)
{
    const struct sp_tensor_spec *embedding = sp_specs_find(specs, "embed_tokens.weight");
    struct sp_tensor_spec head;
    enum sp_status st;

    if (embedding == NULL) return sp_fail(err, SP_E_BUG, "a model without an embedding");
    head = *embedding;
    head.role = SP_ROLE_HEAD;
    head.first_span = specs->n_spans;
    if ((st = sp_specs_add_string(&head.name, specs, "lm_head.weight", err))) return st;
    st = sp_grow(&specs->spans, &specs->cap_spans, specs->n_spans + head.n_spans,
                 sizeof *specs->spans, err);
    if (st) return st;
    memcpy(&specs->spans[head.first_span], &specs->spans[embedding->first_span],
           head.n_spans * sizeof *specs->spans);
    st = sp_grow(&specs->specs, &specs->cap_specs, specs->n_specs + 1, sizeof *specs->specs, err);
    if (st) return st;
    specs->n_spans += head.n_spans;
    specs->specs[specs->n_specs++] = head;
    sp_specs_sort(specs);
    config->tied = false;
    return SP_OK;
}

void sp_specs_share_embedding(struct sp_specs *specs, struct sp_config *config)
{
    config->draft.borrows_tables = true;
    drop(specs, "embed_tokens.weight");
}

void sp_specs_release(struct sp_specs *specs)
{
    for (size_t i = 0; i < specs->n_strings; i++)
        free(specs->strings[i]);
    free(specs->strings);
    free(specs->specs);
    free(specs->spans);
    memset(specs, 0, sizeof *specs);
}
