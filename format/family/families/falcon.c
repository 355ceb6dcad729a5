/* Falcon-H1: attention and Mamba-2 in parallel in every layer, and a multiplier on nearly every
 * path. Source: its configuration and modeling files in transformers 5.23.
 *
 * A path is linear up to the next activation, convolution or softmax, so a multiplier may be
 * applied anywhere before that. The multipliers of keys and of the attention input become part of
 * the score scale. The multiplier of the MLP's gate scales the input of the MLP and is divided out
 * of its output. A bias in such a path would be multiplied as well, so biases are refused; no
 * published model has them. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"

/* Reads a list of n positive numbers; out is unchanged if the key is missing. */
static void read_multipliers(double *out, size_t n, const struct sp_config_text *t, const char *key)
{
    const struct sp_json *list = sp_text_get(t, key);

    if (list == NULL) return;
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != n)
        SP_INVALID(t, "%s is not a list of %zu numbers", key, n);
    for (size_t i = 0; i < n; i++) {
        if (sp_json_to_double(sp_json_at(list, i), &out[i]) && out[i] >= 1e-6 && out[i] <= 1e6)
            continue;
        SP_INVALID(t, "%s[%zu] is not a number between 1e-06 and 1e+06", key, i);
    }
}

static void refuse_biases(const struct sp_config_text *t)
{
    static const char *const keys[] = {"attention_bias", "mlp_bias", "projectors_bias",
                                       "mamba_proj_bias"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        bool on = false;
        sp_text_bool(t, keys[i], &on);
        if (on) SP_REFUSED(t, "%s is not supported for %s", keys[i], t->family->name);
    }
}

/* If mamba_norm_before_gate is missing, the norm comes before the gate; null means false. */
static void read_norm(struct sp_mamba_config *m, const struct sp_config_text *t)
{
    static const char order[] = "mamba_norm_before_gate";
    bool normed = false, first = !sp_text_has(t, order);

    sp_text_bool(t, "mamba_rms_norm", &normed);
    sp_text_bool(t, order, &first);
    m->norm = first ? SP_MAMBA_NORM_GATED : SP_MAMBA_GATED_NORM;
    if (!normed) m->norm = SP_MAMBA_GATED;
}

static void read_own(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_mamba_config *m = &out->mamba;
    double key = 1, attention_in = 1, attention_out = 1, mamba_in = 1;
    double mlp[] = {1, 1}, mamba[] = {1, 1, 1, 1, 1};
    struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"embedding_multiplier", &out->embedding_scale},
        {"lm_head_multiplier", &out->logit_scale},
        {"key_multiplier", &key},
        {"attention_in_multiplier", &attention_in},
        {"attention_out_multiplier", &attention_out},
        {"ssm_in_multiplier", &mamba_in},
        {"ssm_out_multiplier", &out->mamba_out_scale},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sp_text_double(t, numbers[i].key, 1e-6, 1e6, numbers[i].value);
    read_multipliers(mlp, 2, t, "mlp_multipliers");
    read_multipliers(mamba, 5, t, "ssm_multipliers");
    refuse_biases(t);
    read_norm(m, t);
    out->attention_scale *= key * attention_in * attention_in;
    out->attention_out_scale = attention_in * attention_out;
    out->ffn_in_scale = mlp[0];
    out->ffn_out_scale = mlp[1] / mlp[0];
    m->z_scale = mamba_in * mamba[0];
    m->x_scale = mamba_in * mamba[1];
    m->key_scale = mamba_in * mamba[2];
    m->query_scale = mamba_in * mamba[3];
    m->step_scale = mamba_in * mamba[4];
}

static const struct sp_mamba_family mamba_parallel = {
    SP_MAMBA_HYBRID,
    .values = "mamba_d_ssm",
    .n_values = 1024,
    .parallel = true,
};

const struct sp_family sp_families_falcon[] = {
    {
        .name = "falcon_h1",
        .architecture = "FalconH1ForCausalLM",
        .sizes = {128000, 4096, 14336, 32, 32, 8, 0, 8192, 0},
        .norm_eps = 1e-5,
        .mamba = &mamba_parallel,
        .biases = SP_BIAS_NEVER,
        .read_own = read_own,
        .own_keys = "embedding_multiplier",
        .aliases = {sp_aliases_mamba, sp_aliases_feed_forward},
        /* Every multiplier is 1: the converter multiplies the weights by them. The norm comes
         * behind the gate in all published models. */
        .gguf = {.archs = {{.name = "falcon-h1"}},
                 .members = SP_ROWS(sp_gguf_member, {SP_PUT_MAMBA, NULL, NULL, NULL},
                                    {SP_PUT_HAS, "mamba_rms_norm", "ssm_norm.weight", NULL},
                                    {SP_PUT_WORD, "mamba_norm_before_gate", NULL, "false"})},
    },
    {.name = NULL},
};
