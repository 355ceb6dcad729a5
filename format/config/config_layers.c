/* The properties that differ from layer to layer: mixer, window, rotary embedding and experts. */
#include "format/base/affix.h"
#include "format/config/config_readers.h"
#include "format/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The rules that determine the properties of a layer. Lists are borrowed; without a list (NULL) the
 * rule of the family applies. */
struct layer_rules {
    const struct sp_config_text *t;
    const struct sp_family *f;
    const struct sp_json *layer_types, *mlp_types, *no_rope, *mlp_only, *full_attention;
    const struct sp_json *sparse; /* numbers of layers with experts; NULL: the next rules */
    const char *sparse_text;      /* the same as text, "3,4,5"; or NULL */
    const struct sp_json *delta;  /* numbers, from 1, of delta layers; NULL: the next rule */
    /* From first_full on, every full_interval-th layer is attention, the others are delta. */
    unsigned full_interval, first_full;
    struct sp_period attention_period, expert_period; /* period 0: there is no such rule */
    unsigned window;                                  /* 0: none */
    bool switched_off; /* there is a window, but use_sliding_window is false */
    unsigned max_window_layers, pattern, no_rope_interval;
    unsigned n_experts, n_experts_used, n_expert_ffn, n_shared_ffn, sparse_step;
    bool unrotated;       /* no layer has rotary embedding */
    unsigned n_dense;     /* layers below this have no experts */
    unsigned last_sparse; /* layers above this have no experts */
};

/* A list of min to max elements; NULL: the key is missing. */
static const struct sp_json *read_list(const struct sp_config_text *t, const char *key, size_t min,
                                       size_t max)
{
    const struct sp_json *list = sp_text_get(t, key);
    size_t len = sp_json_len(list);

    if (list && sp_json_kind(list) != SP_JSON_ARRAY)
        SP_INVALID(t, "%s%s is not a list", t->what, key);
    if (list && (len < min || len > max))
        SP_INVALID(t, "%s%s length %zu != %zu", t->what, key, len, min);
    return list;
}

static void check_integers(const struct sp_config_text *t, const struct sp_json *list,
                           const char *key)
{
    int64_t v;

    for (size_t i = 0; i < sp_json_len(list); i++)
        if (!sp_json_to_i64(sp_json_at(list, i), &v))
            SP_INVALID(t, "%s[%zu] is not an integer", key, i);
}

static const struct sp_json *read_integers(const struct sp_config_text *t, const char *key,
                                           size_t min)
{
    const struct sp_json *list = read_list(t, key, min, SP_CAP_LAYERS);

    check_integers(t, list, key);
    return list;
}

/* Which layers are delta layers if no layer_types list names them. */
static void read_delta_layers(struct layer_rules *r)
{
    const struct sp_delta_family *f = r->f->delta;
    const struct sp_json *object = f && f->object ? sp_text_get(r->t, f->object) : NULL;

    r->full_interval = f ? f->full_interval : 4;
    sp_text_unsigned(r->t, "full_attention_interval", 1, SP_CAP_LAYERS, &r->full_interval);
    r->first_full = (f && f->first_full ? f->first_full : r->full_interval) - 1;
    if (sp_json_get(object, "full_attn_layers")) r->delta = sp_json_get(object, "kda_layers");
    check_integers(r->t, r->delta, "kda_layers");
}

static bool has_type(const struct sp_json *layer_types, size_t i, const char *wanted)
{
    return strcmp(sp_text_at(layer_types, i), wanted) == 0;
}

static bool is_sliding_type(const struct sp_json *layer_types, size_t i)
{
    return has_type(layer_types, i, "sliding_attention") ||
           has_type(layer_types, i, "hybrid_sliding");
}

static bool is_mamba_type(const struct sp_json *layer_types, size_t i)
{
    return has_type(layer_types, i, "mamba") || has_type(layer_types, i, "linear_attention");
}

static void check_layer_types(const struct layer_rules *r)
{
    bool any = false;

    for (size_t i = 0; i < sp_json_len(r->layer_types); i++) {
        const char *type = sp_text_at(r->layer_types, i);
        if (sp_json_kind(sp_json_at(r->layer_types, i)) != SP_JSON_STRING)
            SP_INVALID(r->t, "%slayer_types[%zu] is not a string", r->t->what, i);
        if (is_sliding_type(r->layer_types, i))
            any = true;
        else if (strcmp(type, "full_attention") != 0 &&
                 !(r->f->rotation_stated && strcmp(type, "attention") == 0) &&
                 !(r->f->delta_layers && strcmp(type, "linear_attention") == 0) &&
                 !(r->f->latent && r->f->latent->index.top_k &&
                   strcmp(type, "indexed_attention") == 0) &&
                 !(r->f->own_types && sp_is_among(type, r->f->own_types)) &&
                 !(r->f->conv_layers && strcmp(type, "conv") == 0) &&
                 !(r->f->reads.chunks && strcmp(type, "chunked_attention") == 0) &&
                 !(r->f->mamba && is_mamba_type(r->layer_types, i)))
            SP_REFUSED(r->t, "%slayer_types[%zu] \"%s\" is not supported", r->t->what, i, type);
    }
    if (any && r->window == 0 && r->f->reads.layer_types) {
        SP_INVALID(r->t, "%ssliding_attention layers require sliding_window%s", r->t->what,
                   r->switched_off ? ", which use_sliding_window turns off" : "");
    }
}

/* The window in effect. null, 0 and use_sliding_window false all mean that no layer has one. */
static void read_window(struct layer_rules *r)
{
    static const char key[] = "sliding_window";
    const struct sp_config_text *t = r->t;
    int64_t window = sp_text_has(t, key) ? 0 : t->family->window;
    /* A draft that lists sliding layers needs no use_sliding_window. */
    bool on = !t->family->window_switch || (t->draft && r->layer_types);

    if (t->family->window_switch) sp_text_bool(t, "use_sliding_window", &on);
    sp_text_i64(t, key, INT32_MIN, INT32_MAX, &window);
    if (t->family->windows == SP_WINDOWS_NONE && t->family->window_switch && on)
        SP_REFUSED(r->t, "use_sliding_window is not supported for %s", t->family->name);
    if (window <= 0 && sp_text_get(t, key))
        SP_NOTED(t, "sliding_window %lld means no window", (long long)window);
    if (t->family->windows == SP_WINDOWS_NONE && window > 0)
        SP_NOTED(t, "sliding_window has no effect in family %s", t->family->name);
    if (window <= 0 && t->family->needs_window)
        SP_INVALID(r->t, "sliding_window is missing, which %s needs", t->family->name);
    if (window <= 0 || t->family->windows == SP_WINDOWS_NONE) return;
    r->switched_off = !on;
    r->window = on ? (unsigned)window : 0;
}

/* n shared experts are one dense MLP of n times their width. */
static void read_shared(struct layer_rules *r, const char *key)
{
    const char *width = r->f->expert_keys.shared_width;
    unsigned n = r->f->n_shared, n_ffn = width ? r->n_shared_ffn : r->n_expert_ffn;

    sp_text_unsigned(r->t, key, 0, SP_CAP_EXPERTS, &n);
    sp_text_unsigned(r->t, width, 1, SP_CAP_WIDTH, &n_ffn);
    if (n && n_ffn > SP_CAP_WIDTH / n)
        SP_INVALID(r->t, "%s %u of %u are wider than %d", key, n, n_ffn, SP_CAP_WIDTH);
    r->n_shared_ffn = n * n_ffn;
}

/* The name of a key: that of the family, or else the one of two common names that the config
 * has. */
static const char *key_name(const struct sp_config_text *t, const char *own, const char *first,
                            const char *second)
{
    if (own) return own;
    return sp_text_get(t, second) && !sp_text_get(t, first) ? second : first;
}

/* A list that states for each layer whether its MLP is "dense" or "sparse", or 0 or 1. */
static void read_mlp_types(struct layer_rules *r, const char *key)
{
    unsigned n = r->t->sizes->n_layers;

    r->mlp_types = read_list(r->t, key, n, n);
    for (size_t i = 0; i < sp_json_len(r->mlp_types); i++) {
        int64_t sparse;
        if (has_type(r->mlp_types, i, "dense") || has_type(r->mlp_types, i, "sparse")) continue;
        if (sp_json_to_i64(sp_json_at(r->mlp_types, i), &sparse) && sparse >> 1 == 0) continue;
        SP_REFUSED(r->t, "%s[%zu] is neither \"dense\" nor \"sparse\"", key, i);
    }
}

/* Reads which layers have experts. */
static void read_sparse_layers(struct layer_rules *r)
{
    const struct sp_config_text *t = r->t;
    const struct sp_expert_keys *keys = &t->family->expert_keys;
    int64_t last = -1;

    r->n_dense = t->family->n_dense;
    r->last_sparse = SP_CAP_LAYERS;
    sp_text_unsigned(t, keys->step, 1, SP_CAP_LAYERS, &r->sparse_step);
    sp_text_unsigned(t, keys->dense, 0, SP_CAP_LAYERS, &r->n_dense);
    sp_text_i64(t, keys->last, -1, SP_CAP_LAYERS, &last);
    if (last >= 0) r->last_sparse = (unsigned)last;
    if (keys->types) read_mlp_types(r, keys->types);
    r->sparse_text = sp_json_to_string(sp_text_get(t, keys->list), NULL);
    if (r->sparse_text == NULL) r->sparse = read_integers(t, keys->list, 0);
    if (sp_text_get(t, keys->only)) r->n_dense = 0;
    r->mlp_only = read_integers(t, keys->only, 0);
}

static void read_experts(struct layer_rules *r)
{
    const struct sp_config_text *t = r->t;
    const struct sp_family *f = t->family;
    const struct sp_expert_keys *keys = &f->expert_keys;
    const char *count = key_name(t, keys->count, "num_experts", "num_local_experts");
    const char *used = key_name(t, keys->used, "num_experts_per_tok", "experts_per_token");
    const char *width = keys->width ? keys->width : "moe_intermediate_size";

    if (!f->reads.experts) return;
    r->n_experts = f->n_experts;
    r->n_experts_used = f->n_experts_used;
    r->n_expert_ffn = f->n_expert_ffn ? f->n_expert_ffn : r->t->sizes->n_ffn;
    r->n_shared_ffn = f->n_shared_ffn;
    r->sparse_step = 1;
    r->last_sparse = SP_CAP_LAYERS;
    sp_text_uniform(t, count, f->clamped_swiglu ? 1 : 0, SP_CAP_EXPERTS, &r->n_experts);
    sp_text_uniform(t, used, r->n_experts ? 1 : 0, SP_CAP_EXPERTS, &r->n_experts_used);
    if (r->n_experts == 1 && f->expert_period.period) r->n_experts = 0; /* a dense Jamba */
    if (r->n_experts && r->n_experts_used == 0)
        SP_INVALID(r->t, "%s is missing, which %s needs", used, f->name);
    if (r->n_experts && r->n_experts_used > r->n_experts)
        SP_INVALID(r->t, "%s %u is more than %s %u", used, r->n_experts_used, count, r->n_experts);
    if (f->clamped_swiglu) return;
    sp_text_unsigned(t, width, 1, SP_CAP_WIDTH, &r->n_expert_ffn);
    read_sparse_layers(r);
    if (f->parallel_ffn) r->n_shared_ffn = r->t->sizes->n_ffn;
    sp_text_unsigned(t, keys->parallel_width, 0, SP_CAP_WIDTH, &r->n_shared_ffn);
    if (keys->shared && !keys->parallel_width) read_shared(r, keys->shared);
}

static void read_rotation(struct layer_rules *r)
{
    static const char key[] = "position_embedding_type";
    const char *type = "nope"; /* the default */

    r->unrotated = r->f->unrotated;
    if (!r->f->rotation_stated) return;
    sp_text_string(r->t, key, &type);
    r->unrotated = strcmp(type, "rope") != 0;
    if (r->unrotated && strcmp(type, "nope") != 0)
        SP_REFUSED(r->t, "%s \"%s\" is not supported", key, type);
}

static void read_period(struct sp_period *out, const struct sp_config_text *t, const char *period,
                        const char *offset)
{
    if (out->period == 0) return;
    sp_text_unsigned(t, period, 1, SP_CAP_LAYERS, &out->period);
    sp_text_unsigned(t, offset, 0, SP_CAP_LAYERS, &out->offset);
    if (out->offset >= out->period)
        SP_INVALID(t, "%s %u is not below %s %u", offset, out->offset, period, out->period);
}

static void read_rules(struct layer_rules *r)
{
    const struct sp_config_text *t = r->t;
    unsigned n = r->t->sizes->n_layers, n_next = 0;

    r->max_window_layers = t->family->window_layers;
    r->pattern = t->family->window_pattern;
    r->no_rope_interval = 4;
    sp_text_unsigned(t, "num_nextn_predict_layers", 0, SP_CAP_LAYERS, &n_next);
    r->layer_types = read_list(t, "layer_types", n, n + n_next);
    read_window(r);
    check_layer_types(r);
    read_rotation(r);
    read_experts(r);
    if (t->family->windows == SP_WINDOWS_FROM_LAYER ||
        t->family->windows == SP_WINDOWS_BEFORE_LAYER)
        sp_text_unsigned(t, "max_window_layers", 0, SP_CAP_LAYERS, &r->max_window_layers);
    /* A layer_types list overrules the pattern, which EXAONE 4 writes as a text, "LLLG". */
    if (t->family->windows == SP_WINDOWS_PATTERN && r->layer_types == NULL) {
        const char *key = t->family->pattern_key                     ? t->family->pattern_key
                          : sp_text_get(t, "sliding_window_pattern") ? "sliding_window_pattern"
                                                                     : "_sliding_window_pattern";
        sp_text_unsigned(t, key, 1, SP_CAP_LAYERS, &r->pattern);
    }
    if (t->family->delta_layers) read_delta_layers(r);
    r->attention_period = t->family->attention_period;
    r->expert_period = t->family->expert_period;
    read_period(&r->attention_period, t, "attn_layer_period", "attn_layer_offset");
    read_period(&r->expert_period, t, "expert_layer_period", "expert_layer_offset");
    r->full_attention = read_integers(t, t->family->attention_list, 0);
    if (!t->family->reads.no_rope_layers) return;
    sp_text_unsigned(t, "no_rope_layer_interval", 1, SP_CAP_LAYERS, &r->no_rope_interval);
    if (!t->family->reads.chunks || sp_json_len(sp_text_get(t, "no_rope_layers")))
        r->no_rope = read_integers(t, "no_rope_layers", n);
}

/* In no_rope_layers, 1 marks a layer that has rotary embedding, contrary to the name. */
static bool rotates(const struct layer_rules *r, unsigned i)
{
    int64_t v = 1;

    if (r->unrotated) return false;
    if (!r->f->reads.no_rope_layers) return true;
    if (r->no_rope == NULL) return (i + 1) % r->no_rope_interval != 0;
    (void)sp_json_to_i64(sp_json_at(r->no_rope, i), &v);
    return v != 0;
}

/* The letter of layer i in the family's pattern. */
static char default_type(const struct layer_rules *r, unsigned i)
{
    const char *pattern = r->f->layer_pattern;
    const char *open = strchr(pattern, '('), *close = strchr(pattern, ')');
    unsigned n_first = (unsigned)(open - pattern), n_last = (unsigned)strlen(close + 1);
    unsigned n = r->t->sizes->n_layers;

    if (i + n_last >= n) return close[1 + i + n_last - n];
    return i < n_first ? pattern[i] : open[1 + (i - n_first) % (unsigned)(close - open - 1)];
}

static bool has_window(const struct layer_rules *r, unsigned i)
{
    if (r->layer_types && r->f->reads.layer_types) return is_sliding_type(r->layer_types, i);
    if (r->window == 0) return false;
    if (r->f->layer_pattern) return default_type(r, i) == 's';
    switch (r->f->windows) {
    case SP_WINDOWS_NONE:
    case SP_WINDOWS_LISTED:
        return false;
    case SP_WINDOWS_ALL:
        return true;
    case SP_WINDOWS_FROM_LAYER:
        return i >= r->max_window_layers;
    case SP_WINDOWS_EVEN:
        return i % 2 == 0;
    case SP_WINDOWS_BEFORE_LAYER:
        return i % 2 == 0 && i < r->max_window_layers;
    case SP_WINDOWS_PATTERN:
        return (i + 1) % r->pattern != 0;
    case SP_WINDOWS_LFM3_PATTERN:
        return i % 4 == 0;
    case SP_WINDOWS_SKIP_FIRST_OF_4:
        return i % 4 != 0;
    case SP_WINDOWS_NOPE_LAYERS:
        return !rotates(r, i);
    }
    return false;
}

static bool contains(const struct sp_json *integers, unsigned i)
{
    int64_t v;

    for (size_t k = 0; k < sp_json_len(integers); k++)
        if (sp_json_to_i64(sp_json_at(integers, k), &v) && v == i) return true;
    return false;
}

/* True if a number is in a text of numbers between commas. */
static bool text_contains(const char *text, unsigned i)
{
    char *end;

    for (; *text; text = *end ? end + 1 : end)
        if (strtoul(text, &end, 10) == i && end != text) return true;
    return false;
}

static bool has_experts(const struct layer_rules *r, unsigned i)
{
    if (r->f->sublayers && sp_config_sublayer(r->t, i) != SP_SUBLAYER_EXPERTS) return false;
    if (r->expert_period.period && r->mlp_types == NULL &&
        i % r->expert_period.period != r->expert_period.offset)
        return false;
    if (r->n_experts && r->mlp_types) {
        int64_t sparse = has_type(r->mlp_types, i, "sparse");
        (void)sp_json_to_i64(sp_json_at(r->mlp_types, i), &sparse);
        return sparse != 0;
    }
    if (r->n_experts && r->sparse) return contains(r->sparse, i);
    if (r->n_experts && r->sparse_text) return text_contains(r->sparse_text, i);
    if (r->n_experts == 0 || i < r->n_dense || i > r->last_sparse) return false;
    return (i + 1) % r->sparse_step == 0 && !contains(r->mlp_only, i);
}

static bool is_delta(const struct layer_rules *r, unsigned i)
{
    if (!r->f->delta_layers) return false;
    if (r->layer_types) return has_type(r->layer_types, i, "linear_attention");
    if (r->delta) return contains(r->delta, i + 1);
    if (r->f->layer_pattern) return default_type(r, i) == 'd';
    return i < r->first_full || (i - r->first_full) % r->full_interval != 0;
}

static bool is_conv(const struct layer_rules *r, unsigned i)
{
    if (!r->f->conv_layers) return false;
    if (r->layer_types) return has_type(r->layer_types, i, "conv");
    if (r->f->windows == SP_WINDOWS_LFM3_PATTERN) return i == 0 || i % 2 != 0;
    return r->full_attention && !contains(r->full_attention, i);
}

static bool is_mamba(const struct layer_rules *r, unsigned i)
{
    if (r->f->mamba == NULL || r->f->mamba->parallel) return false;
    if (r->f->layer_pattern && r->layer_types == NULL) return default_type(r, i) == 'm';
    if (r->attention_period.period && r->layer_types == NULL)
        return i % r->attention_period.period != r->attention_period.offset;
    return r->layer_types ? is_mamba_type(r->layer_types, i) : !contains(r->full_attention, i);
}

/* The rope of a layer by its theta in layer_rope_theta, which has been checked. */
static int listed_rope(const struct layer_rules *r, const struct sp_config *c, unsigned i)
{
    const struct sp_json *list = sp_text_get(r->t, SP_THETAS_KEY);
    double theta = c->ropes[0].theta;

    if (list) (void)sp_json_to_double(sp_json_at(list, i), &theta);
    if (theta == 0) return -1;
    return theta == c->ropes[0].theta ? 0 : 1;
}

static void fill_attention(struct sp_layer_config *l, const struct layer_rules *r,
                           const struct sp_config *c, unsigned i)
{
    bool sliding = has_window(r, i);

    l->mixers = SP_MIXER_ATTENTION;
    l->n_heads = r->t->sizes->n_heads;
    l->n_kv_heads = r->t->sizes->n_kv_heads;
    l->head_dim = r->t->sizes->head_dim;
    l->window = sliding ? r->window : 0;
    l->rope = sliding && c->n_ropes == 2 ? 1 : 0;
    if (!rotates(r, i) || (r->f->full_unrotated && r->window && !sliding)) l->rope = -1;
    if (sp_text_get(r->t, SP_THETAS_KEY) && r->f->reads.layer_thetas)
        l->rope = listed_rope(r, c, i);
    l->output_gate = r->f->output_gate;
    l->head_gate = r->f->head_gate;
}

/* Fills a layer that is one sublayer: a mixer without an MLP, or an MLP without a mixer. */
static void fill_sublayer(struct sp_layer_config *l, const struct layer_rules *r,
                          const struct sp_config *c, unsigned i)
{
    switch (sp_config_sublayer(r->t, i)) {
    case SP_SUBLAYER_MAMBA:
        l->mixers = SP_MIXER_MAMBA;
        break;
    case SP_SUBLAYER_ATTENTION:
        fill_attention(l, r, c, i);
        break;
    case SP_SUBLAYER_MLP:
    case SP_SUBLAYER_EXPERTS:
        l->n_ffn = r->t->sizes->n_ffn;
        break;
    }
}

static void fill_layer(struct sp_layer_config *l, const struct layer_rules *r,
                       const struct sp_config *c, unsigned i)
{
    l->norms = c->norms;
    l->n_ffn = r->f->sublayers ? 0 : r->t->sizes->n_ffn;
    l->rope = -1;
    if (r->f->sublayers) {
        fill_sublayer(l, r, c, i);
    } else if (is_delta(r, i)) {
        l->mixers = SP_MIXER_DELTA_NET;
    } else if (is_conv(r, i)) {
        l->mixers = SP_MIXER_SHORT_CONV;
    } else if (is_mamba(r, i)) {
        l->mixers = SP_MIXER_MAMBA;
    } else {
        fill_attention(l, r, c, i);
        if (r->f->mamba && r->f->mamba->parallel) l->mixers |= SP_MIXER_MAMBA;
    }
    l->kv_source = (int)i;
    l->causal = true;
    l->out_scales[0] = l->out_scales[1] = l->keep_scales[0] = l->keep_scales[1] = 1;
    if (!has_experts(r, i)) return;
    if (r->f->sparse_post_norm) l->norms = SP_NORM_PRE_POST;
    l->n_ffn = r->n_expert_ffn;
    l->n_experts = r->n_experts;
    l->n_experts_used = r->n_experts_used;
    l->n_shared_ffn = r->n_shared_ffn;
}

void sp_config_read_layers(struct sp_config *out, const struct sp_config_text *t)
{
    struct layer_rules r = {.t = t, .f = t->family};

    read_rules(&r);
    if (sp_text_failed(t) || sp_new(&out->layers, t->sizes->n_layers, sizeof *out->layers, t->err))
        return;
    out->n_layers = t->sizes->n_layers;
    for (unsigned i = 0; i < t->sizes->n_layers; i++)
        fill_layer(&out->layers[i], &r, out, i);
}
