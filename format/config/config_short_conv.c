/* Gated short convolutions between layers of attention, and the adjusted width of an MLP in the
 * same configs (LFM2). Source: its configuration and modeling files in transformers 5.23. */
#include "format/config/config_parts.h"

#include <math.h>

enum { MAX_KERNEL = 64 };

/* The width of an MLP: two thirds of the stated number, times a factor, rounded up to a
 * multiple. */
static enum sp_status read_width(unsigned *n_ffn, const struct sp_config_text *t,
                                 struct sp_err *err)
{
    bool adjusted = true;
    unsigned multiple = 256;
    double factor = 1, width;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "block_ff_dim", 1, SP_CAP_WIDTH, n_ffn, err)) ||
        (st = sp_text_bool(t, "block_auto_adjust_ff_dim", &adjusted, err)) ||
        (st = sp_text_unsigned(t, "block_multiple_of", 1, SP_CAP_WIDTH, &multiple, err)) ||
        (st = sp_text_double(t, "block_ffn_dim_multiplier", 1e-3, 1e3, &factor, err)))
        return st;
    if (!adjusted) return SP_OK;
    width = floor(2 * (double)*n_ffn / 3);
    /* A missing factor is 1. A factor of null means that the width is not rounded either. */
    if (!sp_text_get(t, "block_ffn_dim_multiplier") &&
        sp_text_holder(t, "block_ffn_dim_multiplier"))
        multiple = 1;
    width = ceil(floor(factor * width) / multiple) * multiple;
    if (!(width >= 1 && width <= (double)SP_CAP_WIDTH)) {
        return sp_fail(err, SP_E_INPUT, "intermediate_size %u becomes %g, expected 1..%d", *n_ffn,
                       width, SP_CAP_WIDTH);
    }
    *n_ffn = (unsigned)width;
    return SP_OK;
}

/* Checks keys that transformers does not read, because its block is as if they were true. */
static enum sp_status check_block(const struct sp_config_text *t, struct sp_err *err)
{
    static const char *const keys[] = {"block_use_swiglu", "use_pos_enc"};
    enum sp_status st;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        bool on = true;
        if ((st = sp_text_bool(t, keys[i], &on, err))) return st;
        if (on) continue;
        return sp_fail(err, SP_E_UNSUPPORTED, "%s false is not supported for %s", keys[i],
                       t->family->name);
    }
    return SP_OK;
}

enum sp_status sp_config_read_short_conv(struct sp_config *out, const struct sp_config_text *t,
                                         struct sp_err *err)
{
    struct sp_short_conv_config *c = &out->short_conv;
    enum sp_status st;

    if (!t->family->conv_layers) return SP_OK;
    if ((st = check_block(t, err))) return st;
    for (unsigned i = 0; t->family->adjusted_ffn && i < out->n_layers; i++)
        if ((st = read_width(&out->layers[i].n_ffn, t, err))) return st;
    if (sp_config_first_layer(out, SP_MIXER_SHORT_CONV) == out->n_layers) return SP_OK;
    c->kernel = t->family->conv_kernel;
    if ((st = sp_text_unsigned(t, "conv_L_cache", 1, MAX_KERNEL, &c->kernel, err))) return st;
    return sp_text_bool(t, "conv_bias", &c->bias, err);
}
