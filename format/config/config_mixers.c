/* Mixers other than plain attention: the gated delta rule, short convolutions, Mamba-2 and latent
 * attention; and layers that are one sublayer each. Source: the configuration and modeling files of
 * the families in transformers 5.23. */
#include "format/config/config_readers.h"
#include "format/base/affix.h"

#include <math.h>
#include <string.h>

enum { MAX_KERNEL = 64 }; /* taps of a convolution */

/* ---- gated delta rule, and the keys of a built-in prediction head ---- */

/* The class defaults of the families with gated delta nets, which are equal. */
static const struct sp_delta_config delta_defaults = {
    .n_key_heads = 16,
    .n_value_heads = 32,
    .key_dim = 128,
    .value_dim = 128,
    .kernel = 4,
};

static enum sp_status check_delta(const struct sp_delta_config *d, const struct sp_config_text *t)
{
    if (d->n_value_heads % d->n_key_heads != 0) {
        return SP_INVALID(t,
                          "linear_num_value_heads %u is not a multiple of linear_num_key_heads %u",
                          d->n_value_heads, d->n_key_heads);
    }
    /* With one tap, the layouts of transformers and mlx could not be told apart. */
    if (d->kernel < 2 && !d->lightning)
        return SP_REFUSED(t, "linear_conv_kernel_dim %u is not supported", d->kernel);
    return SP_OK;
}

/* Keys and values have one size. An object may overrule the keys. */
static enum sp_status read_equal_sizes(struct sp_delta_config *d, const struct sp_config_text *t)
{
    const char *key = t->family->delta->object;
    const struct sp_json *object = key ? sp_text_get(t, key) : NULL;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "linear_num_heads", 1, SP_CAP_HEADS, &d->n_value_heads)))
        return st;
    if ((st = sp_object_unsigned(object, "num_heads", 1, SP_CAP_HEADS, &d->n_value_heads, t->err)))
        return st;
    if ((st = sp_text_unsigned(t, "linear_head_dim", 1, SP_CAP_WIDTH, &d->value_dim))) return st;
    if ((st = sp_object_unsigned(object, "head_dim", 1, SP_CAP_WIDTH, &d->value_dim, t->err)))
        return st;
    if ((st = sp_object_unsigned(object, "short_conv_kernel_size", 1, MAX_KERNEL, &d->kernel,
                                 t->err)))
        return st;
    d->n_key_heads = d->n_value_heads;
    d->key_dim = d->value_dim;
    if (d->low_rank) d->low_rank = d->value_dim;
    return SP_OK;
}

enum sp_status sp_config_read_delta(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_delta_config *d = &out->delta;
    const char *type;
    enum sp_status st;

    if (sp_family_predicts(t->family)) {
        bool behind = t->family->prediction_layer;
        const char *key = behind ? "num_nextn_predict_layers" : "mtp_num_hidden_layers";
        out->n_mtp_layers = behind ? 1 : 0;
        if ((st = sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &out->n_mtp_layers))) return st;
        st = sp_text_bool(t, "mtp_use_dedicated_embeddings", &out->mtp_tables);
        if (st) return st;
        type = sp_json_to_string(sp_json_at(sp_text_get(t, "mtp_layer_types"), 0), NULL);
        if (type == NULL) /* a list of all layers may go on with those of the head */
            type =
                sp_json_to_string(sp_json_at(sp_text_get(t, "layer_types"), out->n_layers), NULL);
        out->mtp_windowed =
            type ? strcmp(type, "sliding_attention") == 0 : t->family->prediction_windowed;
    }
    if (sp_config_first_layer(out, SP_MIXER_DELTA_NET) == out->n_layers) return SP_OK;
    *d = t->family->delta ? t->family->delta->defaults : delta_defaults;
    if (d->strength == 0) d->strength = 1;
    if (d->norm_eps == 0) d->norm_eps = out->norm_eps;
    if ((st = sp_text_unsigned(t, "linear_num_key_heads", 1, SP_CAP_HEADS, &d->n_key_heads)) ||
        (st = sp_text_unsigned(t, "linear_num_value_heads", 1, SP_CAP_HEADS, &d->n_value_heads)) ||
        (st = sp_text_unsigned(t, "linear_key_head_dim", 1, SP_CAP_WIDTH, &d->key_dim)) ||
        (st = sp_text_unsigned(t, "linear_value_head_dim", 1, SP_CAP_WIDTH, &d->value_dim)) ||
        (st = sp_text_unsigned(t, "linear_conv_kernel_dim", 1, MAX_KERNEL, &d->kernel)))
        return st;
    if ((d->by_channel || d->lightning) && (st = read_equal_sizes(d, t))) return st;
    /* Sizes without a value follow from those of attention (OLMo Hybrid). */
    if (d->n_key_heads == 0) d->n_key_heads = t->sizes->n_heads;
    if (d->n_value_heads == 0) d->n_value_heads = t->sizes->n_heads;
    if (d->key_dim == 0) d->key_dim = 3 * t->sizes->n_hidden / (4 * d->n_key_heads);
    if (d->value_dim == 0) d->value_dim = 2 * d->key_dim;
    if (d->key_dim == 0) {
        return SP_INVALID(t, "linear_num_key_heads is %u, more than hidden_size allows",
                          d->n_key_heads);
    }
    if (out->activation != SP_SILU)
        return SP_REFUSED(t, "hidden_act is not silu, which delta layers need");
    return check_delta(d, t);
}

/* ---- short convolutions, and the adjusted width of MLPs in the same configs ---- */

/* The width of an MLP: two thirds of the stated number, times a factor, rounded up to a
 * multiple. */
static enum sp_status read_ffn_width(unsigned *n_ffn, const struct sp_config_text *t)
{
    bool adjusted = true;
    unsigned multiple = 256;
    double factor = 1, width;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "block_ff_dim", 1, SP_CAP_WIDTH, n_ffn))) return st;
    if ((st = sp_text_bool(t, "block_auto_adjust_ff_dim", &adjusted))) return st;
    if ((st = sp_text_unsigned(t, "block_multiple_of", 1, SP_CAP_WIDTH, &multiple))) return st;
    if ((st = sp_text_double(t, "block_ffn_dim_multiplier", 1e-3, 1e3, &factor))) return st;
    if (!adjusted) return SP_OK;
    width = floor(2 * (double)*n_ffn / 3);
    /* A missing factor is 1. A factor of null means that the width is not rounded either. */
    if (!sp_text_get(t, "block_ffn_dim_multiplier") && sp_text_has(t, "block_ffn_dim_multiplier"))
        multiple = 1;
    width = ceil(floor(factor * width) / multiple) * multiple;
    if (!(width >= 1 && width <= (double)SP_CAP_WIDTH)) {
        return SP_INVALID(t, "intermediate_size %u becomes %g, expected 1..%d", *n_ffn, width,
                          SP_CAP_WIDTH);
    }
    *n_ffn = (unsigned)width;
    return SP_OK;
}

enum sp_status sp_config_read_short_conv(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_short_conv_config *c = &out->short_conv;
    enum sp_status st;

    if (!t->family->conv_layers) return SP_OK;
    /* transformers does not read them, because its block is as if they were true. */
    if ((st = sp_text_need(t, "block_use_swiglu")) || (st = sp_text_need(t, "use_pos_enc")))
        return st;
    for (unsigned i = 0; t->family->adjusted_ffn && i < out->n_layers; i++)
        if ((st = read_ffn_width(&out->layers[i].n_ffn, t))) return st;
    if (sp_config_first_layer(out, SP_MIXER_SHORT_CONV) == out->n_layers) return SP_OK;
    c->kernel = t->family->conv_kernel;
    if ((st = sp_text_unsigned(t, "conv_L_cache", 1, MAX_KERNEL, &c->kernel))) return st;
    return sp_text_bool(t, "conv_bias", &c->bias);
}

/* ---- Mamba-2 ---- */

/* The width of all heads: that of a key if the family has one, or else expand * n_hidden. */
static enum sp_status read_width(uint64_t *width, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    unsigned expand = 2, stated = f->n_values;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "mamba_expand", 1, 64, &expand))) return st;
    *width = (uint64_t)expand * t->sizes->n_hidden;
    /* A missing key means its default, null means expand * n_hidden. */
    if (f->values == NULL || (sp_text_has(t, f->values) && !sp_text_get(t, f->values)))
        return SP_OK;
    st = sp_text_unsigned(t, f->values, 1, SP_CAP_WIDTH, &stated);
    *width = stated;
    return st;
}

/* "auto", the default of most families, is the width of all heads divided by their number. */
static enum sp_status read_head_dim(struct sp_mamba_config *m, const struct sp_config_text *t)
{
    const char *key = t->family->mamba->head_dim;
    const struct sp_json *v = sp_text_get(t, key);
    uint64_t width;
    enum sp_status st;

    if (v && sp_json_kind(v) != SP_JSON_STRING)
        return sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, &m->head_dim);
    if (v) {
        const char *word = NULL;
        if ((st = sp_text_string(t, key, &word))) return st;
        if (strcmp(word, "auto") != 0)
            return SP_INVALID(t, "%s is \"%s\", expected a number or \"auto\"", key, word);
    }
    if (v == NULL && m->head_dim) return SP_OK;
    if ((st = read_width(&width, t))) return st;
    m->head_dim = (unsigned)(width / m->n_heads);
    if (m->head_dim && width % m->n_heads == 0) return SP_OK;
    return SP_INVALID(t, "%s %u does not divide the width %llu of mamba layers",
                      t->family->mamba->heads, m->n_heads, (unsigned long long)width);
}

/* A JSON number, or {"__float__": "Infinity"}, as transformers 5 writes infinities. */
static bool read_float(double *out, const struct sp_json *v)
{
    const char *word = sp_json_to_string(sp_json_get(v, "__float__"), NULL);

    if (word == NULL) return sp_json_to_double(v, out);
    if (strcmp(word, "Infinity") != 0) return false;
    *out = INFINITY;
    return true;
}

static enum sp_status read_limits(struct sp_mamba_config *m, const struct sp_config_text *t)
{
    static const char key[] = "time_step_limit";
    const struct sp_json *list = sp_text_get(t, key);
    enum sp_status st;

    if (t->family->mamba->one_limit) {
        st = sp_text_double(t, "time_step_min", 0, 1e6, &m->min_step);
        return st ? st : sp_text_double(t, "mamba_dt_min", 0, 1e6, &m->min_step);
    }
    if (list == NULL) return SP_OK;
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != 2 ||
        !read_float(&m->min_step, sp_json_at(list, 0)) ||
        !read_float(&m->max_step, sp_json_at(list, 1)) ||
        !(m->min_step >= 0 && m->min_step <= m->max_step))
        return SP_INVALID(t, "%s is not a pair of ascending numbers", key);
    return SP_OK;
}

/* Checks the activation of the convolution and of the gate. */
static enum sp_status check_activation(const struct sp_config_text *t)
{
    const char *key = t->family->mamba->activation ? t->family->mamba->activation : "hidden_act";
    const char *name = "silu";
    enum sp_status st;

    if ((st = sp_text_string(t, key, &name))) return st;
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0) return SP_OK;
    return SP_REFUSED(t, "%s is not silu, which mamba layers need", key);
}

static enum sp_status check_mamba(const struct sp_mamba_config *m, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    uint64_t values = (uint64_t)m->n_heads * m->head_dim;
    uint64_t keys = (uint64_t)m->n_groups * m->state_dim;

    if (m->n_heads % m->n_groups != 0) {
        return SP_INVALID(t, "%s %u is not a multiple of %s %u", f->heads, m->n_heads, f->groups,
                          m->n_groups);
    }
    if (values > SP_CAP_WIDTH || keys > SP_CAP_WIDTH) {
        return SP_INVALID(t, "mamba layers of %llu values and %llu keys are too wide",
                          (unsigned long long)values, (unsigned long long)keys);
    }
    return SP_OK;
}

/* Mamba-1. "auto" is a sixteenth of the hidden state, rounded up. */
static enum sp_status read_step_rank(unsigned *out, const struct sp_config_text *t)
{
    const char *key = t->family->mamba->rank, *word = NULL;
    const struct sp_json *v = sp_text_get(t, key);
    enum sp_status st;

    *out = (t->sizes->n_hidden + 15) / 16;
    if (v == NULL || sp_json_kind(v) != SP_JSON_STRING)
        return sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, out);
    if ((st = sp_text_string(t, key, &word)) || strcmp(word, "auto") == 0) return st;
    return SP_INVALID(t, "%s is \"%s\", expected a number or \"auto\"", key, word);
}

/* The states of Mamba-1 are divided into heads for the threads. */
static enum sp_status read_mamba1(struct sp_mamba_config *m, const struct sp_config_text *t,
                                  const struct sp_config *c)
{
    const struct sp_mamba_family *f = t->family->mamba;
    unsigned expand = 2, width;
    enum sp_status st;

    if ((st = sp_text_unsigned(t, "mamba_expand", 1, 64, &expand))) return st;
    width = expand * c->n_hidden;
    m->step_eps = c->norm_eps;
    if ((st = sp_text_unsigned(t, f->values, 1, SP_CAP_WIDTH, &width))) return st;
    if ((st = sp_text_double(t, f->step_eps, 1e-30, 1, &m->step_eps))) return st;
    if ((st = read_step_rank(&m->step_rank, t))) return st;
    for (m->head_dim = 64; width % m->head_dim != 0;)
        m->head_dim /= 2;
    m->n_heads = width / m->head_dim;
    return SP_OK;
}

enum sp_status sp_config_read_mamba(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    struct sp_mamba_config *m = &out->mamba;
    enum sp_status st;

    if (f == NULL || sp_config_first_layer(out, SP_MIXER_MAMBA) == out->n_layers) return SP_OK;
    *m = f->defaults;
    m->z_scale = m->x_scale = m->key_scale = m->query_scale = m->step_scale = 1;
    if ((st = sp_text_unsigned(t, f->state, 1, SP_CAP_WIDTH, &m->state_dim))) return st;
    if ((st = sp_text_unsigned(t, f->kernel, 1, MAX_KERNEL, &m->kernel))) return st;
    if ((st = sp_text_bool(t, f->conv_bias, &m->conv_bias))) return st;
    if ((st = sp_text_bool(t, f->proj_bias, &m->proj_bias))) return st;
    if ((st = check_activation(t))) return st;
    if (f->rank) return read_mamba1(m, t, out);
    if ((st = sp_text_unsigned(t, f->heads, 1, SP_CAP_HEADS, &m->n_heads))) return st;
    if ((st = sp_text_unsigned(t, f->groups, 1, SP_CAP_HEADS, &m->n_groups))) return st;
    if ((st = read_head_dim(m, t))) return st;
    if ((st = read_limits(m, t))) return st;
    return check_mamba(m, t);
}

/* ---- latent attention (config_rope.c reads its rotary embedding) ---- */

/* null means that queries have no latent; a missing key means the class default. */
static enum sp_status read_query_rank(unsigned *out, const struct sp_config_text *t)
{
    static const char key[] = "q_lora_rank";

    if (sp_text_has(t, key) && sp_text_get(t, key) == NULL) {
        *out = 0;
        return SP_OK;
    }
    return sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, out);
}

/* num_key_value_heads is stated, but it must equal num_attention_heads. */
static enum sp_status check_sizes(const struct sp_latent_config *l, const struct sp_config_text *t)
{
    if (l->kv_rank > SP_CAP_WIDTH - l->rope_dim || l->nope_dim > SP_CAP_WIDTH - l->rope_dim)
        return SP_INVALID(t, "heads of more than %d dims", SP_CAP_WIDTH);
    if (t->sizes->n_kv_heads != t->sizes->n_heads) {
        return SP_REFUSED(
            t, "num_key_value_heads %u is not supported for %s, only num_attention_heads, %u",
            t->sizes->n_kv_heads, t->family->name, t->sizes->n_heads);
    }
    return SP_OK;
}

static enum sp_status read_interleave(bool *out, const struct sp_config_text *t)
{
    static const char key[] = "rope_interleave";

    if (t->family->latent->always_interleaved) return sp_text_need(t, key);
    return sp_text_flag(t, key, out);
}

/* moe_layer_freq is read by the original code of these families but not by transformers, so only 1,
 * which has no effect, is accepted. */
static enum sp_status check_frequency(const struct sp_config_text *t)
{
    static const char key[] = "moe_layer_freq";
    unsigned n = 1;
    enum sp_status st = sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &n);

    if (st || n == 1) return st;
    return SP_REFUSED(t, "%s %u is not supported for %s", key, n, t->family->name);
}

/* Whether layer i shares the choice of the layer before: by a list, by a pattern such as "FSSF", or
 * by a period. */
static enum sp_status read_shares_index(bool *out, const struct sp_config_text *t, unsigned i)
{
    static const char types_key[] = "indexer_types", pattern_key[] = "index_topk_pattern";
    const char *key = sp_text_get(t, types_key) ? types_key : pattern_key, *name;
    const struct sp_json *list = sp_text_get(t, key);
    unsigned period = 1, offset = 2;
    size_t len;
    enum sp_status st;

    if (list == NULL) {
        st = sp_text_unsigned(t, "index_topk_freq", 0, SP_CAP_LAYERS, &period);
        if (st) return st;
        st = sp_text_unsigned(t, "index_skip_topk_offset", 0, SP_CAP_LAYERS, &offset);
        *out = period > 1 && i + 1 > offset && (i + 1 - offset) % period != 0;
        return st;
    }
    name = sp_json_to_string(list, &len);
    if (name && i < len && (name[i] == 'F' || name[i] == 'S')) {
        *out = name[i] == 'S';
        return SP_OK;
    }
    name = sp_json_to_string(sp_json_at(list, i), &len);
    if (name && (strcmp(name, "full") == 0 || strcmp(name, "shared") == 0)) {
        *out = strcmp(name, "shared") == 0;
        return SP_OK;
    }
    return SP_INVALID(t, "%s[%u] is neither \"full\" nor \"shared\"", key, i);
}

static enum sp_status read_index(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_latent_family *family = t->family->latent;
    struct sp_index_config *c = &out->index;
    enum sp_status st;

    if (family->index.top_k == 0) return SP_OK;
    *c = family->index;
    c->norm_eps = c->norm_eps != 0 ? c->norm_eps : 1e-6;
    if ((st = sp_text_unsigned(t, "index_topk", 1, SP_CAP_POSITIONS, &c->top_k))) return st;
    if ((st = sp_text_unsigned(t, "index_n_heads", 1, SP_CAP_HEADS, &c->n_heads))) return st;
    if ((st = sp_text_unsigned(t, "index_head_dim", 1, SP_CAP_WIDTH, &c->head_dim))) return st;
    if (c->pool && (st = sp_text_unsigned(t, "index_kpool", 1, SP_CAP_POSITIONS, &c->pool)))
        return st;
    if (c->pool && c->top_k % c->pool != 0) {
        return SP_INVALID(t, "index_topk %u is not a multiple of index_kpool %u", c->top_k,
                          c->pool);
    }
    if (out->latent.q_rank == 0 && !c->normed_input)
        return SP_INVALID(t, "q_lora_rank is missing, which %s needs", t->family->name);
    if (out->latent.rope_dim > c->head_dim) {
        return SP_INVALID(t, "qk_rope_head_dim %u is more than index_head_dim %u",
                          out->latent.rope_dim, c->head_dim);
    }
    for (unsigned i = 0; family->index_shared && i < out->n_layers; i++)
        if ((st = read_shares_index(&out->layers[i].shares_index, t, i))) return st;
    if (!out->layers[0].shares_index) return SP_OK;
    return SP_INVALID(t, "the first layer has no index");
}

enum sp_status sp_config_read_latent(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_latent_family *family = t->family->latent;
    struct sp_latent_config *l = &out->latent;
    enum sp_status st;

    if (family == NULL) return SP_OK;
    *l = family->defaults;
    l->rope_dim = t->sizes->head_dim;
    if ((st = sp_text_unsigned(t, "kv_lora_rank", 1, SP_CAP_WIDTH, &l->kv_rank)) ||
        (st = read_query_rank(&l->q_rank, t)) ||
        (st = sp_text_unsigned(t, "qk_nope_head_dim", 1, SP_CAP_WIDTH, &l->nope_dim)) ||
        (st = sp_text_unsigned(t, "v_head_dim", 1, SP_CAP_WIDTH, &l->value_dim)) ||
        (st = read_interleave(&l->rows_paired, t)) || (st = check_frequency(t)) ||
        (st = check_sizes(l, t)))
        return st;
    if (l->value_dim == 0) l->value_dim = t->sizes->n_hidden / t->sizes->n_heads;
    if (l->value_dim == 0) return SP_INVALID(t, "heads of less than one dimension");
    l->scale = out->ropes[0].score_scale / sqrt((double)l->nope_dim + l->rope_dim);
    if (l->norm_eps == 0) l->norm_eps = SP_LATENT_EPS;
    for (unsigned i = 0; i < out->n_layers; i++) {
        out->layers[i].n_kv_heads = 1;
        out->layers[i].head_dim = l->kv_rank + l->rope_dim;
    }
    return read_index(out, t);
}

/* ---- layers that are one sublayer each ---- */

/* Mamba-2, attention, an MLP or experts. A list names them, or a pattern with a letter for each: M,
 * *, -, E. The number of layers follows from it as well. */
static const struct {
    enum sp_sublayer sublayer;
    char letter;
    const char *names;
} kinds[] = {
    {SP_SUBLAYER_MAMBA, 'M', "mamba linear_attention"},
    {SP_SUBLAYER_ATTENTION, '*', "attention full_attention"},
    {SP_SUBLAYER_MLP, '-', "mlp"},
    {SP_SUBLAYER_EXPERTS, 'E', "moe"},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static const char list_key[] = "layers_block_type", pattern_key[] = "hybrid_override_pattern";

/* The pattern in effect: NULL if there is a list, or else the stated one, or else the family's. */
static const char *pattern_of(const struct sp_config_text *t)
{
    const struct sp_json *pattern = sp_text_get(t, pattern_key);

    if (sp_text_get(t, list_key)) return NULL;
    return pattern ? sp_json_to_string(pattern, NULL) : t->family->sublayers;
}

static bool find_sublayer(enum sp_sublayer *out, const struct sp_config_text *t, size_t i)
{
    const char *pattern = pattern_of(t), *name = sp_text_at(sp_text_get(t, list_key), i);

    for (size_t k = 0; k < N_KINDS; k++) {
        bool is = pattern ? pattern[i] == kinds[k].letter : sp_is_among(name, kinds[k].names);
        if (!is) continue;
        *out = kinds[k].sublayer;
        return true;
    }
    return false;
}

enum sp_status sp_config_count_sublayers(unsigned *out, const struct sp_config_text *t)
{
    const char *pattern = pattern_of(t), *key = pattern ? pattern_key : list_key;
    size_t n = pattern ? strlen(pattern) : sp_json_len(sp_text_get(t, list_key));
    enum sp_sublayer ignored;
    const char *text;
    enum sp_status st;

    if (sp_text_get(t, list_key) == NULL && (st = sp_text_string(t, pattern_key, &text))) return st;
    if (n == 0 || n > SP_CAP_LAYERS)
        return SP_INVALID(t, "%s names %zu layers, expected 1..%d", key, n, SP_CAP_LAYERS);
    for (size_t i = 0; i < n; i++) {
        if (find_sublayer(&ignored, t, i)) continue;
        return SP_REFUSED(t, "%s: layer %zu is of a kind that is not supported", key, i);
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
