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

static void check_delta(const struct sp_delta_config *d, const struct sp_config_text *t)
{
    if (d->n_value_heads % d->n_key_heads != 0) {
        SP_INVALID(t, "linear_num_value_heads %u is not a multiple of linear_num_key_heads %u",
                   d->n_value_heads, d->n_key_heads);
    }
    /* With one tap, the layouts of transformers and mlx could not be told apart. */
    if (d->kernel < 2 && !d->lightning)
        SP_REFUSED(t, "linear_conv_kernel_dim %u is not supported", d->kernel);
}

/* Keys and values have one size. An object may overrule the keys. */
static void read_equal_sizes(struct sp_delta_config *d, const struct sp_config_text *t)
{
    const char *key = t->family->delta->object;
    const struct sp_json *object = key ? sp_text_get(t, key) : NULL;

    sp_text_unsigned(t, "linear_num_heads", 1, SP_CAP_HEADS, &d->n_value_heads);
    sp_member_unsigned(t, object, "num_heads", 1, SP_CAP_HEADS, &d->n_value_heads);
    sp_text_unsigned(t, "linear_head_dim", 1, SP_CAP_WIDTH, &d->value_dim);
    sp_member_unsigned(t, object, "head_dim", 1, SP_CAP_WIDTH, &d->value_dim);
    sp_member_unsigned(t, object, "short_conv_kernel_size", 1, MAX_KERNEL, &d->kernel);
    d->n_key_heads = d->n_value_heads;
    d->key_dim = d->value_dim;
    if (d->low_rank) d->low_rank = d->value_dim;
}

void sp_config_read_delta(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_delta_config *d = &out->delta;
    const char *type;

    if (sp_family_predicts(t->family)) {
        bool behind = t->family->prediction_layer;
        const char *key = behind ? "num_nextn_predict_layers" : "mtp_num_hidden_layers";
        out->n_mtp_layers = behind ? 1 : 0;
        sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &out->n_mtp_layers);
        sp_text_bool(t, "mtp_use_dedicated_embeddings", &out->mtp_tables);
        type = sp_json_to_string(sp_json_at(sp_text_get(t, "mtp_layer_types"), 0), NULL);
        if (type == NULL) /* a list of all layers may go on with those of the head */
            type =
                sp_json_to_string(sp_json_at(sp_text_get(t, "layer_types"), out->n_layers), NULL);
        out->mtp_windowed =
            type ? strcmp(type, "sliding_attention") == 0 : t->family->prediction_windowed;
    }
    if (sp_config_first_layer(out, SP_MIXER_DELTA_NET) == out->n_layers) return;
    *d = t->family->delta ? t->family->delta->defaults : delta_defaults;
    if (d->strength == 0) d->strength = 1;
    if (d->norm_eps == 0) d->norm_eps = out->norm_eps;
    sp_text_unsigned(t, "linear_num_key_heads", 1, SP_CAP_HEADS, &d->n_key_heads);
    sp_text_unsigned(t, "linear_num_value_heads", 1, SP_CAP_HEADS, &d->n_value_heads);
    sp_text_unsigned(t, "linear_key_head_dim", 1, SP_CAP_WIDTH, &d->key_dim);
    sp_text_unsigned(t, "linear_value_head_dim", 1, SP_CAP_WIDTH, &d->value_dim);
    sp_text_unsigned(t, "linear_conv_kernel_dim", 1, MAX_KERNEL, &d->kernel);
    if (d->by_channel || d->lightning) read_equal_sizes(d, t);
    /* Sizes without a value follow from those of attention (OLMo Hybrid). */
    if (d->n_key_heads == 0) d->n_key_heads = t->sizes->n_heads;
    if (d->n_value_heads == 0) d->n_value_heads = t->sizes->n_heads;
    if (d->key_dim == 0) d->key_dim = 3 * t->sizes->n_hidden / (4 * d->n_key_heads);
    if (d->value_dim == 0) d->value_dim = 2 * d->key_dim;
    if (d->key_dim == 0)
        SP_INVALID(t, "linear_num_key_heads is %u, more than hidden_size allows", d->n_key_heads);
    if (out->activation != SP_SILU)
        SP_REFUSED(t, "hidden_act is not silu, which delta layers need");
    check_delta(d, t);
}

/* ---- short convolutions, and the adjusted width of MLPs in the same configs ---- */

/* The width of an MLP: two thirds of the stated number, times a factor, rounded up to a
 * multiple. */
static void read_ffn_width(unsigned *n_ffn, const struct sp_config_text *t)
{
    bool adjusted = true;
    unsigned multiple = 256;
    double factor = 1, width;

    sp_text_unsigned(t, "block_ff_dim", 1, SP_CAP_WIDTH, n_ffn);
    sp_text_bool(t, "block_auto_adjust_ff_dim", &adjusted);
    sp_text_unsigned(t, "block_multiple_of", 1, SP_CAP_WIDTH, &multiple);
    sp_text_double(t, "block_ffn_dim_multiplier", 1e-3, 1e3, &factor);
    if (!adjusted) return;
    width = floor(2 * (double)*n_ffn / 3);
    /* A missing factor is 1. A factor of null means that the width is not rounded either. */
    if (!sp_text_get(t, "block_ffn_dim_multiplier") && sp_text_has(t, "block_ffn_dim_multiplier"))
        multiple = 1;
    width = ceil(floor(factor * width) / multiple) * multiple;
    if (!(width >= 1 && width <= (double)SP_CAP_WIDTH)) {
        SP_INVALID(t, "intermediate_size %u becomes %g, expected 1..%d", *n_ffn, width,
                   SP_CAP_WIDTH);
    }
    *n_ffn = (unsigned)width;
}

void sp_config_read_short_conv(struct sp_config *out, const struct sp_config_text *t)
{
    struct sp_short_conv_config *c = &out->short_conv;

    if (!t->family->conv_layers) return;
    /* transformers does not read them, because its block is as if they were true. */
    sp_text_need(t, "block_use_swiglu");
    sp_text_need(t, "use_pos_enc");
    for (unsigned i = 0; t->family->adjusted_ffn && i < out->n_layers; i++)
        read_ffn_width(&out->layers[i].n_ffn, t);
    if (sp_config_first_layer(out, SP_MIXER_SHORT_CONV) == out->n_layers) return;
    c->kernel = t->family->conv_kernel;
    sp_text_unsigned(t, "conv_L_cache", 1, MAX_KERNEL, &c->kernel);
    sp_text_bool(t, "conv_bias", &c->bias);
}

/* ---- Mamba-2 ---- */

/* The width of all heads: that of a key if the family has one, or else expand * n_hidden. */
static void read_width(uint64_t *width, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    unsigned expand = 2, stated = f->n_values;

    sp_text_unsigned(t, "mamba_expand", 1, 64, &expand);
    *width = (uint64_t)expand * t->sizes->n_hidden;
    /* A missing key means its default, null means expand * n_hidden. */
    if (f->values == NULL || (sp_text_has(t, f->values) && !sp_text_get(t, f->values))) return;
    sp_text_unsigned(t, f->values, 1, SP_CAP_WIDTH, &stated);
    *width = stated;
}

/* Reads a number; true: the key is "auto" instead, or missing. */
static bool read_or_auto(unsigned *out, const struct sp_config_text *t, const char *key)
{
    const struct sp_json *v = sp_text_get(t, key);
    const char *word = "auto";

    if (v && sp_json_kind(v) != SP_JSON_STRING) {
        sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, out);
        return false;
    }
    sp_text_string(t, key, &word);
    if (strcmp(word, "auto") != 0)
        SP_INVALID(t, "%s is \"%s\", expected a number or \"auto\"", key, word);
    return true;
}

/* "auto", the default of most families, is the width of all heads divided by their number. */
static void read_head_dim(struct sp_mamba_config *m, const struct sp_config_text *t)
{
    const char *key = t->family->mamba->head_dim;
    const struct sp_json *v = sp_text_get(t, key);
    uint64_t width;

    if (!read_or_auto(&m->head_dim, t, key) || (v == NULL && m->head_dim)) return;
    read_width(&width, t);
    m->head_dim = (unsigned)(width / m->n_heads);
    if (m->head_dim == 0 || width % m->n_heads != 0)
        SP_INVALID(t, "%s %u does not divide the width %llu of mamba layers",
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

static void read_limits(struct sp_mamba_config *m, const struct sp_config_text *t)
{
    static const char key[] = "time_step_limit";
    const struct sp_json *list = sp_text_get(t, key);

    if (t->family->mamba->one_limit) {
        sp_text_double(t, "time_step_min", 0, 1e6, &m->min_step);
        sp_text_double(t, "mamba_dt_min", 0, 1e6, &m->min_step);
    } else if (list && (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) != 2 ||
                        !read_float(&m->min_step, sp_json_at(list, 0)) ||
                        !read_float(&m->max_step, sp_json_at(list, 1)) ||
                        !(m->min_step >= 0 && m->min_step <= m->max_step))) {
        SP_INVALID(t, "%s is not a pair of ascending numbers", key);
    }
}

/* Checks the activation of the convolution and of the gate. */
static void check_activation(const struct sp_config_text *t)
{
    const char *key = t->family->mamba->activation ? t->family->mamba->activation : "hidden_act";
    const char *name = "silu";

    sp_text_string(t, key, &name);
    if (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
        SP_REFUSED(t, "%s is not silu, which mamba layers need", key);
}

static void check_mamba(const struct sp_mamba_config *m, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    uint64_t values = (uint64_t)m->n_heads * m->head_dim;
    uint64_t keys = (uint64_t)m->n_groups * m->state_dim;

    if (m->n_heads % m->n_groups != 0) {
        SP_INVALID(t, "%s %u is not a multiple of %s %u", f->heads, m->n_heads, f->groups,
                   m->n_groups);
    }
    if (values > SP_CAP_WIDTH || keys > SP_CAP_WIDTH) {
        SP_INVALID(t, "mamba layers of %llu values and %llu keys are too wide",
                   (unsigned long long)values, (unsigned long long)keys);
    }
}

/* Mamba-1: the states are divided into heads for the threads. */
static void read_mamba1(struct sp_mamba_config *m, const struct sp_config_text *t,
                        const struct sp_config *c)
{
    const struct sp_mamba_family *f = t->family->mamba;
    unsigned expand = 2, width;

    sp_text_unsigned(t, "mamba_expand", 1, 64, &expand);
    width = expand * c->n_hidden;
    m->step_eps = c->norm_eps;
    sp_text_unsigned(t, f->values, 1, SP_CAP_WIDTH, &width);
    sp_text_double(t, f->step_eps, 1e-30, 1, &m->step_eps);
    m->step_rank = (c->n_hidden + 15) / 16; /* a sixteenth of the hidden state: "auto" */
    (void)read_or_auto(&m->step_rank, t, f->rank);
    for (m->head_dim = 64; width % m->head_dim != 0;)
        m->head_dim /= 2;
    m->n_heads = width / m->head_dim;
}

void sp_config_read_mamba(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_mamba_family *f = t->family->mamba;
    struct sp_mamba_config *m = &out->mamba;

    if (f == NULL || sp_config_first_layer(out, SP_MIXER_MAMBA) == out->n_layers) return;
    *m = f->defaults;
    m->z_scale = m->x_scale = m->key_scale = m->query_scale = m->step_scale = 1;
    sp_text_unsigned(t, f->state, 1, SP_CAP_WIDTH, &m->state_dim);
    sp_text_unsigned(t, f->kernel, 1, MAX_KERNEL, &m->kernel);
    sp_text_bool(t, f->conv_bias, &m->conv_bias);
    sp_text_bool(t, f->proj_bias, &m->proj_bias);
    check_activation(t);
    if (f->rank) {
        read_mamba1(m, t, out);
        return;
    }
    sp_text_unsigned(t, f->heads, 1, SP_CAP_HEADS, &m->n_heads);
    sp_text_unsigned(t, f->groups, 1, SP_CAP_HEADS, &m->n_groups);
    read_head_dim(m, t);
    read_limits(m, t);
    check_mamba(m, t);
}

/* ---- latent attention (config_rope.c reads its rotary embedding) ---- */

/* null means that queries have no latent; a missing key means the class default. */
static void read_query_rank(unsigned *out, const struct sp_config_text *t)
{
    static const char key[] = "q_lora_rank";

    if (sp_text_has(t, key) && sp_text_get(t, key) == NULL) *out = 0;
    sp_text_unsigned(t, key, 1, SP_CAP_WIDTH, out);
}

/* num_key_value_heads is stated, but it must equal num_attention_heads. */
static void check_sizes(const struct sp_latent_config *l, const struct sp_config_text *t)
{
    if (l->kv_rank > SP_CAP_WIDTH - l->rope_dim || l->nope_dim > SP_CAP_WIDTH - l->rope_dim)
        SP_INVALID(t, "heads of more than %d dims", SP_CAP_WIDTH);
    if (t->sizes->n_kv_heads != t->sizes->n_heads) {
        SP_REFUSED(t,
                   "num_key_value_heads %u is not supported for %s, only num_attention_heads, %u",
                   t->sizes->n_kv_heads, t->family->name, t->sizes->n_heads);
    }
}

static void read_interleave(bool *out, const struct sp_config_text *t)
{
    static const char key[] = "rope_interleave";

    if (t->family->latent->always_interleaved)
        sp_text_need(t, key);
    else
        sp_text_flag(t, key, out);
}

/* moe_layer_freq is read by the original code of these families but not by transformers, so only 1,
 * which has no effect, is accepted. */
static void check_frequency(const struct sp_config_text *t)
{
    static const char key[] = "moe_layer_freq";
    unsigned n = 1;

    sp_text_unsigned(t, key, 0, SP_CAP_LAYERS, &n);
    if (n != 1) SP_REFUSED(t, "%s %u is not supported for %s", key, n, t->family->name);
}

/* Whether layer i shares the choice of the layer before: by a list, by a pattern such as "FSSF", or
 * by a period. */
static void read_shares_index(bool *out, const struct sp_config_text *t, unsigned i)
{
    static const char types_key[] = "indexer_types", pattern_key[] = "index_topk_pattern";
    const char *key = sp_text_get(t, types_key) ? types_key : pattern_key, *letters;
    const struct sp_json *list = sp_text_get(t, key);
    const char *name = sp_text_at(list, i);
    unsigned period = 1, offset = 2;
    char letter;
    size_t len;

    if (list == NULL) {
        sp_text_unsigned(t, "index_topk_freq", 0, SP_CAP_LAYERS, &period);
        sp_text_unsigned(t, "index_skip_topk_offset", 0, SP_CAP_LAYERS, &offset);
        *out = period > 1 && i + 1 > offset && (i + 1 - offset) % period != 0;
        return;
    }
    letters = sp_json_to_string(list, &len);
    letter = letters && i < len ? letters[i] : '\0';
    *out = letter == 'S' || strcmp(name, "shared") == 0;
    if (!*out && letter != 'F' && strcmp(name, "full") != 0)
        SP_INVALID(t, "%s[%u] is neither \"full\" nor \"shared\"", key, i);
}

static void read_index(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_latent_family *family = t->family->latent;
    struct sp_index_config *c = &out->index;

    if (family->index.top_k == 0) return;
    *c = family->index;
    c->norm_eps = c->norm_eps != 0 ? c->norm_eps : 1e-6;
    sp_text_unsigned(t, "index_topk", 1, SP_CAP_POSITIONS, &c->top_k);
    sp_text_unsigned(t, "index_n_heads", 1, SP_CAP_HEADS, &c->n_heads);
    sp_text_unsigned(t, "index_head_dim", 1, SP_CAP_WIDTH, &c->head_dim);
    if (c->pool) sp_text_unsigned(t, "index_kpool", 1, SP_CAP_POSITIONS, &c->pool);
    if (c->pool && c->top_k % c->pool != 0)
        SP_INVALID(t, "index_topk %u is not a multiple of index_kpool %u", c->top_k, c->pool);
    if (out->latent.q_rank == 0 && !c->normed_input)
        SP_INVALID(t, "q_lora_rank is missing, which %s needs", t->family->name);
    if (out->latent.rope_dim > c->head_dim) {
        SP_INVALID(t, "qk_rope_head_dim %u is more than index_head_dim %u", out->latent.rope_dim,
                   c->head_dim);
    }
    for (unsigned i = 0; family->index_shared && i < out->n_layers; i++)
        read_shares_index(&out->layers[i].shares_index, t, i);
    if (out->layers[0].shares_index) SP_INVALID(t, "the first layer has no index");
}

void sp_config_read_latent(struct sp_config *out, const struct sp_config_text *t)
{
    const struct sp_latent_family *family = t->family->latent;
    struct sp_latent_config *l = &out->latent;

    if (family == NULL) return;
    *l = family->defaults;
    l->rope_dim = t->sizes->head_dim;
    sp_text_unsigned(t, "kv_lora_rank", 1, SP_CAP_WIDTH, &l->kv_rank);
    read_query_rank(&l->q_rank, t);
    sp_text_unsigned(t, "qk_nope_head_dim", 1, SP_CAP_WIDTH, &l->nope_dim);
    sp_text_unsigned(t, "v_head_dim", 1, SP_CAP_WIDTH, &l->value_dim);
    read_interleave(&l->rows_paired, t);
    check_frequency(t);
    check_sizes(l, t);
    if (l->value_dim == 0) l->value_dim = t->sizes->n_hidden / t->sizes->n_heads;
    if (l->value_dim == 0) SP_INVALID(t, "heads of less than one dimension");
    l->scale = out->ropes[0].score_scale / sqrt((double)l->nope_dim + l->rope_dim);
    if (l->norm_eps == 0) l->norm_eps = SP_LATENT_EPS;
    for (unsigned i = 0; i < out->n_layers; i++) {
        out->layers[i].n_kv_heads = 1;
        out->layers[i].head_dim = l->kv_rank + l->rope_dim;
    }
    read_index(out, t);
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

void sp_config_count_sublayers(unsigned *out, const struct sp_config_text *t)
{
    const char *pattern = pattern_of(t), *key = pattern ? pattern_key : list_key;
    size_t n = pattern ? strlen(pattern) : sp_json_len(sp_text_get(t, list_key));
    enum sp_sublayer ignored;
    const char *text;

    if (sp_text_get(t, list_key) == NULL) sp_text_string(t, pattern_key, &text);
    if (n == 0 || n > SP_CAP_LAYERS)
        SP_INVALID(t, "%s names %zu layers, expected 1..%d", key, n, SP_CAP_LAYERS);
    for (size_t i = 0; i < n && !sp_text_failed(t); i++)
        if (!find_sublayer(&ignored, t, i))
            SP_REFUSED(t, "%s: layer %zu is of a kind that is not supported", key, i);
    *out = (unsigned)n;
}

enum sp_sublayer sp_config_sublayer(const struct sp_config_text *t, unsigned i)
{
    enum sp_sublayer sublayer = SP_SUBLAYER_MLP;

    (void)find_sublayer(&sublayer, t, i);
    return sublayer;
}
