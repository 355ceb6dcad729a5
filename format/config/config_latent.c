/* Multi-head latent attention: the sizes of its latents and heads, and the scale of its scores.
 * config_rope.c reads its rotary embedding. */
#include "format/config/config_parts.h"

#include <math.h>

/* null means that queries have no latent; a missing key means the class default. */
static enum sp_status read_query_rank(unsigned *out, const struct sp_config_text *t,
                                      struct sp_err *err)
{
    static const char key[] = "q_lora_rank";

    if (sp_text_holder(t, key) && sp_text_get(t, key) == NULL) {
        *out = 0;
        return SP_OK;
    }
    return sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, out, err);
}

/* num_key_value_heads is stated, but it must equal num_attention_heads. */
static enum sp_status check_sizes(const struct sp_latent_config *l, const struct sp_sizes *sizes,
                                  const struct sp_config_text *t, struct sp_err *err)
{
    if (l->kv_rank > SP_CAP_WIDTH - l->rope_dim || l->nope_dim > SP_CAP_WIDTH - l->rope_dim)
        return sp_fail(err, SP_E_INPUT, "heads of more than %d dims", SP_CAP_WIDTH);
    if (sizes->n_kv_heads != sizes->n_heads) {
        return sp_fail(err, SP_E_UNSUPPORTED,
                       "num_key_value_heads %u is not supported for %s, only num_attention_heads, "
                       "%u",
                       sizes->n_kv_heads, t->family->name, sizes->n_heads);
    }
    return SP_OK;
}

static enum sp_status read_interleave(bool *out, const struct sp_config_text *t, struct sp_err *err)
{
    static const char key[] = "rope_interleave";
    bool always = t->family->latent->always_interleaved;
    enum sp_status st = (always ? sp_text_bool : sp_text_flag)(t, key, out, err);

    if (st || *out || !always) return st;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s false is not supported for %s", key, t->family->name);
}

/* moe_layer_freq is read by the original code of these families but not by transformers, so only 1,
 * which has no effect, is accepted. */
static enum sp_status check_frequency(const struct sp_config_text *t, struct sp_err *err)
{
    static const char key[] = "moe_layer_freq";
    unsigned n = 1;
    enum sp_status st = sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &n, err);

    if (st || n == 1) return st;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s %u is not supported for %s", key, n, t->family->name);
}

enum sp_status sp_config_read_latent(struct sp_config *out, const struct sp_config_text *t,
                                     const struct sp_sizes *sizes, struct sp_err *err)
{
    const struct sp_latent_family *family = t->family->latent;
    struct sp_latent_config *l = &out->latent;
    enum sp_status st;

    if (family == NULL) return SP_OK;
    *l = family->defaults;
    l->rope_dim = sizes->head_dim;
    if ((st = sp_text_unsigned(t, "kv_lora_rank", 1, SP_CAP_WIDTH, &l->kv_rank, err)) ||
        (st = read_query_rank(&l->q_rank, t, err)) ||
        (st = sp_text_unsigned(t, "qk_nope_head_dim", 1, SP_CAP_WIDTH, &l->nope_dim, err)) ||
        (st = sp_text_unsigned(t, "v_head_dim", 1, SP_CAP_WIDTH, &l->value_dim, err)) ||
        (st = read_interleave(&l->rows_paired, t, err)) || (st = check_frequency(t, err)) ||
        (st = check_sizes(l, sizes, t, err)))
        return st;
    out->attention_scale = out->ropes[0].score_scale / sqrt((double)l->nope_dim + l->rope_dim);
    for (unsigned i = 0; i < out->n_layers; i++) {
        out->layers[i].n_kv_heads = 1;
        out->layers[i].head_dim = l->kv_rank + l->rope_dim;
    }
    return SP_OK;
}
