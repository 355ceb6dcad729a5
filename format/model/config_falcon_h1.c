/* Falcon-H1: attention and Mamba-2 side by side in every layer, and a multiplier on nearly every
 * path (its configuration and modeling files in transformers 5.23).
 *
 * Paths are linear up to the next activation, convolution or softmax, so that a multiplier may
 * stand anywhere in front of it: those of keys and of attention's input become part of the scores'
 * scale, that of the MLP's gate scales what the MLP reads and is taken off what it makes. Biases in
 * such a path would be multiplied, too, and are refused; no published model has them. */
#include "format/model/config_parts.h"

/* A list of n positive numbers; without it they keep their values. */
static enum sp_status read_multipliers(double *out, size_t n, const struct sp_config_text *t,
                                       const char *key, struct sp_err *err)
{
    const struct sp_json *list = sp_text_get(t, key);

    if (list == NULL) return SP_OK;
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != n) {
        return sp_fail(err, SP_E_INPUT, "%s is no list of %zu numbers", key, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (sp_json_to_double(sp_json_at(list, i), &out[i]) && out[i] >= 1e-6 && out[i] <= 1e6) {
            continue;
        }
        return sp_fail(err, SP_E_INPUT, "%s[%zu] is no number between 1e-06 and 1e+06", key, i);
    }
    return SP_OK;
}

static enum sp_status refuse_biases(const struct sp_config_text *t, struct sp_err *err)
{
    static const char *const keys[] = {"attention_bias", "mlp_bias", "projectors_bias",
                                       "mamba_proj_bias"};
    enum sp_status st;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        bool on = false;
        if ((st = sp_text_bool(t, keys[i], &on, err))) return st;
        if (!on) continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "%s is not supported for %s", keys[i],
                       t->family->name);
    }
    return SP_OK;
}

/* Missing, the norm stands before the gate; null means false. */
static enum sp_status read_norm(struct sp_mamba_config *m, const struct sp_config_text *t,
                                struct sp_err *err)
{
    static const char order[] = "mamba_norm_before_gate";
    bool normed = false, first = sp_text_holder(t, order) == NULL;
    enum sp_status st;

    if ((st = sp_text_bool(t, "mamba_rms_norm", &normed, err)) ||
        (st = sp_text_bool(t, order, &first, err))) {
        return st;
    }
    m->norm = first ? SP_MAMBA_NORM_GATED : SP_MAMBA_GATED_NORM;
    if (!normed) m->norm = SP_MAMBA_GATED;
    return SP_OK;
}

enum sp_status sp_config_read_falcon_h1(struct sp_config *out, const struct sp_config_text *t,
                                        struct sp_err *err)
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
        {"ssm_out_multiplier", &out->mamba_part},
    };
    enum sp_status st;

    if (!(t->family->reads & SP_READS_FALCON_H1)) return SP_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        st = sp_text_double(t, numbers[i].key, 1e-6, 1e6, numbers[i].value, err);
        if (st) return st;
    }
    if ((st = read_multipliers(mlp, 2, t, "mlp_multipliers", err)) ||
        (st = read_multipliers(mamba, 5, t, "ssm_multipliers", err)) ||
        (st = refuse_biases(t, err)) || (st = read_norm(m, t, err))) {
        return st;
    }
    out->attention_scale *= key * attention_in * attention_in;
    out->attention_part = attention_in * attention_out;
    out->ffn_in_scale = mlp[0];
    out->ffn_out_scale = mlp[1] / mlp[0];
    m->z_scale = mamba_in * mamba[0];
    m->x_scale = mamba_in * mamba[1];
    m->key_scale = mamba_in * mamba[2];
    m->query_scale = mamba_in * mamba[3];
    m->step_scale = mamba_in * mamba[4];
    return SP_OK;
}
