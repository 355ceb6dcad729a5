/* Layers that are one sublayer each (Nemotron-H): Mamba-2, attention, an MLP or experts. A list
 * names them, or a pattern with a letter for each: M, *, -, E. The number of layers follows from it
 * as well. */
#include "format/config/config_parts.h"

#include <string.h>

static const struct {
    enum sp_sublayer sublayer;
    char letter;
    const char *names[2];
} kinds[] = {
    {SP_SUBLAYER_MAMBA, 'M', {"mamba", "linear_attention"}},
    {SP_SUBLAYER_ATTENTION, '*', {"attention", "full_attention"}},
    {SP_SUBLAYER_MLP, '-', {"mlp", "mlp"}},
    {SP_SUBLAYER_EXPERTS, 'E', {"moe", "moe"}},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const char list_key[] = "layers_block_type", pattern_key[] = "hybrid_override_pattern";

/* The pattern in effect: NULL if there is a list, or else the stated one, or else the family's. */
static const char *pattern_of(const struct sp_config_text *t)
{
    const struct sp_json *pattern = sp_text_get(t, pattern_key);
    size_t len;

    if (sp_text_get(t, list_key)) return NULL;
    return pattern ? sp_json_to_string(pattern, &len) : t->family->sublayers;
}

static bool find_sublayer(enum sp_sublayer *out, const struct sp_config_text *t, size_t i)
{
    const char *pattern = pattern_of(t), *name = NULL;
    size_t len;

    if (pattern == NULL) name = sp_json_to_string(sp_json_at(sp_text_get(t, list_key), i), &len);
    for (size_t k = 0; k < N_KINDS; k++) {
        bool is = pattern ? pattern[i] == kinds[k].letter
                          : name && (strcmp(name, kinds[k].names[0]) == 0 ||
                                     strcmp(name, kinds[k].names[1]) == 0);
        if (!is) continue;
        *out = kinds[k].sublayer;
        return true;
    }
    return false;
}

enum sp_status sp_config_count_sublayers(unsigned *out, const struct sp_config_text *t,
                                         struct sp_err *err)
{
    const char *pattern = pattern_of(t), *key = pattern ? pattern_key : list_key;
    size_t n = pattern ? strlen(pattern) : sp_json_len(sp_text_get(t, list_key));
    enum sp_sublayer ignored;
    const char *text;
    enum sp_status st;

    if (sp_text_get(t, list_key) == NULL && (st = sp_text_string(t, pattern_key, &text, err)))
        return st;
    if (n == 0 || n > SP_CAP_LAYERS) {
        return sp_fail(err, SP_E_INPUT, "%s names %zu layers, expected 1..%d", key, n,
                       SP_CAP_LAYERS);
    }
    for (size_t i = 0; i < n; i++) {
        if (find_sublayer(&ignored, t, i)) continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "%s: layer %zu is of a kind that is not supported",
                       key, i);
    }
    *out = (unsigned)n;
    return SP_OK;
}

enum sp_sublayer sp_config_sublayer(const struct sp_config_text *t, unsigned i)
{
    enum sp_sublayer sublayer = SP_SUBLAYER_MLP;

    (void)find_sublayer(&sublayer, t, i);
    return sublayer;
}
