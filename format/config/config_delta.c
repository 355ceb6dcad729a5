/* Gated delta-rule layers (linear_attention in Qwen3.5): the sizes of their heads and convolution,
 * and the keys of a built-in prediction head. */
#include "format/config/config_parts.h"

/* The class defaults of transformers, which are equal in all families with such layers. */
static const struct sp_delta_config defaults = {
    .n_key_heads = 16,
    .n_value_heads = 32,
    .key_dim = 128,
    .value_dim = 128,
    .kernel = 4,
};

enum { MAX_KERNEL = 64 };

static enum sp_status check(const struct sp_delta_config *d, struct sp_err *err)
{
    if (d->n_value_heads % d->n_key_heads != 0) {
        return sp_fail(err, SP_E_INPUT,
                       "linear_num_value_heads %u is not a multiple of linear_num_key_heads %u",
                       d->n_value_heads, d->n_key_heads);
    }
    /* With one tap, the layouts of transformers and mlx could not be told apart. */
    if (d->kernel < 2) {
        return sp_fail(err, SP_E_UNSUPPORTED, "linear_conv_kernel_dim %u is not supported",
                       d->kernel);
    }
    return SP_OK;
}

enum sp_status sp_config_read_delta(struct sp_config *out, const struct sp_config_text *t,
                                    struct sp_err *err)
{
    struct sp_delta_config *d = &out->delta;
    enum sp_status st;

    if (t->family->prediction_head) {
        bool behind = t->family->prediction_layer;
        const char *key = behind ? "num_nextn_predict_layers" : "mtp_num_hidden_layers";
        out->n_mtp_layers = behind ? 1 : 0;
        if ((st = sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &out->n_mtp_layers, err))) return st;
        st = sp_text_bool(t, "mtp_use_dedicated_embeddings", &out->mtp_tables, err);
        if (st) return st;
    }
    if (sp_config_first_layer(out, SP_MIXER_DELTA_NET) == out->n_layers) return SP_OK;
    *d = defaults;
    if ((st = sp_text_unsigned(t, "linear_num_key_heads", 1, SP_CAP_HEADS, &d->n_key_heads, err)) ||
        (st = sp_text_unsigned(t, "linear_num_value_heads", 1, SP_CAP_HEADS, &d->n_value_heads,
                               err)) ||
        (st = sp_text_unsigned(t, "linear_key_head_dim", 1, SP_CAP_WIDTH, &d->key_dim, err)) ||
        (st = sp_text_unsigned(t, "linear_value_head_dim", 1, SP_CAP_WIDTH, &d->value_dim, err)) ||
        (st = sp_text_unsigned(t, "linear_conv_kernel_dim", 1, MAX_KERNEL, &d->kernel, err)))
        return st;
    if (out->activation != SP_SILU)
        return sp_fail(err, SP_E_UNSUPPORTED, "hidden_act is not silu, which delta layers need");
    return check(d, err);
}
