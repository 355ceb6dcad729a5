/* Mamba-2 layers: the sizes of their heads, groups and convolution, and the limits of dt. */
#include "format/config/config_parts.h"

#include <math.h>
#include <string.h>

enum { MAX_KERNEL = 64 };

/* The width of all heads: that of a key if the family has one, or else expand * n_hidden. */
static enum sp_status read_width(uint64_t *width, const struct sp_config_text *t, unsigned n_hidden,
                                 struct sp_err *err)
{
    const struct sp_mamba_family *f = t->family->mamba;
    unsigned expand = 2, stated = f->n_values;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "mamba_expand", 1, 64, &expand, err))) return st;
    *width = (uint64_t)expand * n_hidden;
    /* A missing key means its default, null means expand * n_hidden. */
    if (f->values == NULL || (sp_text_holder(t, f->values) && !sp_text_get(t, f->values)))
        return SP_OK;
    st = sp_text_unsigned(t, f->values, 1, SP_CAP_WIDTH, &stated, err);
    *width = stated;
    return st;
}

/* "auto", the default of most families, is the width of all heads divided by their number. */
static enum sp_status read_head_dim(struct sp_mamba_config *m, const struct sp_config_text *t,
                                    unsigned n_hidden, struct sp_err *err)
{
    const char *key = t->family->mamba->head_dim;
    const struct sp_json *v = sp_text_get(t, key);
    uint64_t width;
    enum sp_status st;

    if (v && sp_json_kind(v) != SP_JSON_STRING)
        return sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, &m->head_dim, err);
    if (v) {
        const char *word = NULL;
        if ((st = sp_text_string(t, key, &word, err))) return st;
        if (strcmp(word, "auto") != 0) {
            return sp_fail(err, SP_E_INPUT, "%s is \"%s\", expected a number or \"auto\"", key,
                           word);
        }
    }
    if (v == NULL && m->head_dim) return SP_OK;
    if ((st = read_width(&width, t, n_hidden, err))) return st;
    m->head_dim = (unsigned)(width / m->n_heads);
    if (m->head_dim && width % m->n_heads == 0) return SP_OK;
    return sp_fail(err, SP_E_INPUT, "%s %u does not divide the width %llu of mamba layers",
                   t->family->mamba->heads, m->n_heads, (unsigned long long)width);
}

/* A JSON number, or {"__float__": "Infinity"}, as transformers 5 writes infinities. */
static bool read_float(double *out, const struct sp_json *v)
{
    size_t len;
    const char *word = sp_json_to_string(sp_json_get(v, "__float__"), &len);

    if (word == NULL) return sp_json_to_double(v, out);
    if (strcmp(word, "Infinity") != 0) return false;
    *out = INFINITY;
    return true;
}

static enum sp_status read_limits(struct sp_mamba_config *m, const struct sp_config_text *t,
                                  struct sp_err *err)
{
    static const char key[] = "time_step_limit";
    const struct sp_json *list = sp_text_get(t, key);
    enum sp_status st;

    if (t->family->mamba->one_limit) {
        st = sp_text_double(t, "time_step_min", 0, 1e6, &m->min_step, err);
        return st ? st : sp_text_double(t, "mamba_dt_min", 0, 1e6, &m->min_step, err);
    }
    if (list == NULL) return SP_OK;
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != 2 ||
        !read_float(&m->min_step, sp_json_at(list, 0)) ||
        !read_float(&m->max_step, sp_json_at(list, 1)) ||
        !(m->min_step >= 0 && m->min_step <= m->max_step))
        return sp_fail(err, SP_E_INPUT, "%s is not a pair of ascending numbers", key);
    return SP_OK;
}

/* Checks the activation of the convolution and of the gate. */
static enum sp_status check_activation(const struct sp_config_text *t, struct sp_err *err)
{
    const char *key = t->family->mamba->activation ? t->family->mamba->activation : "hidden_act";
    const char *name = "silu";
    enum sp_status st;

    if ((st = sp_text_string(t, key, &name, err))) return st;
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0) return SP_OK;
    return sp_fail(err, SP_E_UNSUPPORTED, "%s is not silu, which mamba layers need", key);
}

static enum sp_status check(const struct sp_mamba_config *m, const struct sp_mamba_family *f,
                            struct sp_err *err)
{
    uint64_t values = (uint64_t)m->n_heads * m->head_dim;
    uint64_t keys = (uint64_t)m->n_groups * m->state_dim;

    if (m->n_heads % m->n_groups != 0) {
        return sp_fail(err, SP_E_INPUT, "%s %u is not a multiple of %s %u", f->heads, m->n_heads,
                       f->groups, m->n_groups);
    }
    if (values > SP_CAP_WIDTH || keys > SP_CAP_WIDTH) {
        return sp_fail(err, SP_E_INPUT, "mamba layers of %llu values and %llu keys are too wide",
                       (unsigned long long)values, (unsigned long long)keys);
    }
    return SP_OK;
}

enum sp_status sp_config_read_mamba(struct sp_config *out, const struct sp_config_text *t,
                                    struct sp_err *err)
{
    const struct sp_mamba_family *f = t->family->mamba;
    struct sp_mamba_config *m = &out->mamba;
    enum sp_status st;

    if (f == NULL || sp_config_first_layer(out, SP_MIXER_MAMBA) == out->n_layers) return SP_OK;
    *m = f->defaults;
    m->z_scale = m->x_scale = m->key_scale = m->query_scale = m->step_scale = 1;
    if ((st = sp_text_unsigned(t, f->heads, 1, SP_CAP_HEADS, &m->n_heads, err)) ||
        (st = sp_text_unsigned(t, f->groups, 1, SP_CAP_HEADS, &m->n_groups, err)) ||
        (st = sp_text_unsigned(t, f->state, 1, SP_CAP_WIDTH, &m->state_dim, err)) ||
        (st = sp_text_unsigned(t, f->kernel, 1, MAX_KERNEL, &m->kernel, err)) ||
        (st = sp_text_bool(t, f->conv_bias, &m->conv_bias, err)) ||
        (st = sp_text_bool(t, f->proj_bias, &m->proj_bias, err)) ||
        (st = read_head_dim(m, t, out->n_hidden, err)) || (st = read_limits(m, t, err)))
        return st;
    if ((st = check_activation(t, err))) return st;
    return check(m, f, err);
}
