/* Rotary embedding: the keys of all published formats -> struct sp_rope.
 *
 * transformers 4 writes rope_theta and rope_scaling, transformers 5 one dict rope_parameters, or
 * one dict per layer type. A value in the dict overrules a key outside of it, and both overrule the
 * class default. Formulas: YaRN (arXiv 2309.00071) for `yarn`, LongRoPE (arXiv 2402.13753) for
 * `longrope`, both as implemented in transformers. */
#include "format/config/config_readers.h"
#include "format/base/affix.h"
#include "format/base/mem.h"

#include <math.h>
#include <string.h>

/* Keys of a rope dict that are read below or that have no effect. */
static const char known_keys[] =
    "rope_type type rope_theta factor low_freq_factor high_freq_factor "
    "original_max_position_embeddings beta_fast beta_slow truncate attention_factor mscale "
    "mscale_all_dim short_factor long_factor partial_rotary_factor llama_4_scaling_beta "
    "max_position_embeddings mrope_section mrope_interleaved finetuned";

/* One rope dict, which may be NULL, and the values outside of it that it depends on. */
struct rope_source {
    const struct sp_config_text *t;
    const struct sp_json *dict;
    double theta; /* used if the dict has no rope_theta */
    unsigned head_dim, max_positions;
};

/* ln x for x > 0 by the atanh series. Unlike libm's log it gives the same bits on every machine. */
static double natural_log(double x)
{
    static const double ln2 = 0.693147180559945309417;
    int exponent;
    double m = frexp(x, &exponent), sum = 0, s, square, power;

    if (m < 0.70710678118654752440) {
        m *= 2;
        exponent--;
    }
    s = (m - 1) / (m + 1); /* |s| < 0.172: 13 terms reach the last bit */
    square = s * s;
    power = s;
    for (int k = 1; k <= 25; k += 2) {
        sum += power / k;
        power *= square;
    }
    return 2 * sum + exponent * ln2;
}

static void read_type(enum sp_rope_kind *out, const struct rope_source *s)
{
    static const struct {
        const char *name;
        enum sp_rope_kind kind;
    } types[] = {
        {"default", SP_ROPE_DEFAULT}, {"mrope", SP_ROPE_DEFAULT}, /* equal for text */
        {"linear", SP_ROPE_LINEAR},   {"llama3", SP_ROPE_LLAMA3},
        {"yarn", SP_ROPE_YARN},       {"longrope", SP_ROPE_LONGROPE},
        {"su", SP_ROPE_LONGROPE},     {"proportional", SP_ROPE_PROPORTIONAL},
        {"dynamic", SP_ROPE_DYNAMIC}, {"deepseek_yarn", SP_ROPE_YARN},
    };
    bool longrope_only = s->t->family->longrope_only;
    const char *name = NULL;

    sp_member_string(s->t, s->dict, "rope_type", &name);
    if (name == NULL) sp_member_string(s->t, s->dict, "type", &name);
    if (name == NULL) name = "default";
    if (s->t->family->rope_alpha && strcmp(name, "dynamic") == 0 && sp_json_get(s->dict, "alpha")) {
        *out = SP_ROPE_NTK_ALPHA;
        return;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        *out = types[i].kind;
        if (*out == SP_ROPE_PROPORTIONAL && !s->t->family->read_full_heads &&
            !s->t->family->rope_by_type)
            break;
        if (!longrope_only) return;
        if (*out == SP_ROPE_YARN) *out = SP_ROPE_LONGROPE;
        if (*out == SP_ROPE_DEFAULT || *out == SP_ROPE_LONGROPE) return;
    }
    SP_REFUSED(s->t, "rope type \"%s\" is not supported%s%s", name, longrope_only ? " for " : "",
               longrope_only ? s->t->family->name : "");
}

static void check_keys(const struct rope_source *s)
{
    for (struct sp_json_iter it = {0}; sp_json_next(s->dict, &it);) {
        if (it.value == NULL || sp_is_among(it.key, known_keys)) continue;
        if (s->t->family->rope_alpha && strcmp(it.key, "alpha") == 0) continue;
        if (s->t->family->rope_mscales && sp_ends_with(it.key, "_mscale")) continue;
        SP_REFUSED(s->t, "rope key \"%s\" is not supported", it.key);
    }
}

/* A number of the dict. */
static void number(const struct rope_source *s, const char *key, double min, double max,
                   double *out)
{
    sp_member_double(s->t, s->dict, key, min, max, out);
}

/* A key that this type requires. */
static void need(const struct rope_source *s, const char *type, const char *key, double min,
                 double *out)
{
    if (sp_json_get(s->dict, key) == NULL) SP_INVALID(s->t, "rope type \"%s\" needs %s", type, key);
    number(s, key, min, 1e9, out);
}

/* original_max_position_embeddings: outside of the dict (Phi-3), or else in it, or else the context
 * length. Returns whether it is stated. */
static bool read_original(double *out, const struct rope_source *s)
{
    static const char key[] = "original_max_position_embeddings";
    unsigned class_default = s->t->family->original_positions;
    bool outside = sp_text_get(s->t, key) != NULL || class_default;

    *out = class_default ? class_default : s->max_positions;
    if (outside)
        sp_text_double(s->t, key, 1, 1e9, out);
    else
        number(s, key, 1, 1e9, out);
    return outside || sp_json_get(s->dict, key) != NULL;
}

static void read_llama3(struct sp_rope *r, const struct rope_source *s)
{
    need(s, "llama3", "factor", 1, &r->factor);
    need(s, "llama3", "low_freq_factor", 1e-6, &r->low_freq_factor);
    need(s, "llama3", "high_freq_factor", 1e-6, &r->high_freq_factor);
    if (!read_original(&r->original_positions, s))
        SP_INVALID(s->t, "rope type \"llama3\" needs original_max_position_embeddings");
    if (r->high_freq_factor <= r->low_freq_factor) {
        SP_INVALID(s->t, "high_freq_factor %g is not above low_freq_factor %g", r->high_freq_factor,
                   r->low_freq_factor);
    }
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * natural_log(factor) + 1;
}

/* The default of `factor` is the context length divided by the original one. */
static void read_factor(struct sp_rope *r, const struct rope_source *s)
{
    read_original(&r->original_positions, s);
    r->factor = s->max_positions / r->original_positions;
    number(s, "factor", 1e-6, 1e9, &r->factor);
}

static void read_yarn(struct sp_rope *r, const struct rope_source *s)
{
    double mscale = 0, mscale_all = 0;

    r->truncate = true;
    read_factor(r, s);
    number(s, "beta_fast", 0, 1e6, &r->beta_fast);
    number(s, "beta_slow", 0, 1e6, &r->beta_slow);
    sp_member_bool(s->t, s->dict, "truncate", &r->truncate);
    number(s, "mscale", 0, 1e6, &mscale);
    number(s, "mscale_all_dim", 0, 1e6, &mscale_all);
    if (r->beta_fast == 0) r->beta_fast = 32;
    if (r->beta_slow == 0) r->beta_slow = 1;
    if (mscale != 0 && mscale_all != 0)
        r->amplitude = yarn_mscale(r->factor, mscale) / yarn_mscale(r->factor, mscale_all);
    else
        r->amplitude = yarn_mscale(r->factor, 1);
    number(s, "attention_factor", 1e-6, 1e6, &r->amplitude);
}

static void read_factors(float **out, const struct rope_source *s, const char *key, unsigned len)
{
    const struct sp_json *list = sp_json_get(s->dict, key);

    if (list == NULL) SP_INVALID(s->t, "rope type \"longrope\" needs %s", key);
    if (sp_json_kind(list) != SP_JSON_ARRAY) SP_INVALID(s->t, "%s is not a list", key);
    if (sp_json_len(list) != len)
        SP_INVALID(s->t, "%s has %zu values, expected %u", key, sp_json_len(list), len);
    if (sp_text_failed(s->t) || sp_new(out, len, sizeof **out, s->t->err)) return;
    for (unsigned i = 0; i < len; i++) {
        double v;
        if (sp_json_to_double(sp_json_at(list, i), &v) && v >= 1e-6 && v <= 1e9)
            (*out)[i] = (float)v;
        else
            SP_INVALID(s->t, "%s[%u] is not a positive number", key, i);
    }
}

/* One amplitude within the original context, and one beyond it. */
static void read_mscales(struct sp_rope *r, const struct rope_source *s)
{
    double beyond = 0;

    need(s, "longrope", "short_mscale", 1e-6, &r->amplitude);
    need(s, "longrope", "long_mscale", 1e-6, &beyond);
    if (beyond != r->amplitude)
        SP_REFUSED(s->t, "short_mscale %g and long_mscale %g differ", r->amplitude, beyond);
}

static void read_longrope(struct sp_rope *r, const struct rope_source *s)
{
    read_factors(&r->short_factors, s, "short_factor", r->n_rot / 2);
    read_factors(&r->long_factors, s, "long_factor", r->n_rot / 2);
    read_factor(r, s);
    if (r->factor > 1) {
        if (r->original_positions < 2) {
            SP_INVALID(s->t, "original_max_position_embeddings is %g, expected 2 or more",
                       r->original_positions);
        }
        r->amplitude = sqrt(1 + natural_log(r->factor) / natural_log(r->original_positions));
    }
    if (s->t->family->rope_mscales)
        read_mscales(r, s);
    else
        number(s, "attention_factor", 1e-6, 1e6, &r->amplitude);
}

static void read_scaling(struct sp_rope *r, const struct rope_source *s)
{
    switch (r->kind) {
    case SP_ROPE_LINEAR:
        need(s, "linear", "factor", 1e-6, &r->factor);
        break;
    case SP_ROPE_DYNAMIC:
        r->original_positions = s->max_positions;
        need(s, "dynamic", "factor", 1, &r->factor);
        break;
    case SP_ROPE_LLAMA3:
        read_llama3(r, s);
        break;
    case SP_ROPE_YARN:
        read_yarn(r, s);
        break;
    case SP_ROPE_LONGROPE:
        read_longrope(r, s);
        break;
    case SP_ROPE_NTK_ALPHA: /* the key `factor` has no effect */
        if (r->n_rot == 2) SP_INVALID(s->t, "alpha needs a head_dim above 2");
        number(s, "alpha", 1e-6, 1e9, &r->factor);
        break;
    case SP_ROPE_PROPORTIONAL:
        number(s, "factor", 1e-6, 1e9, &r->factor);
        break;
    case SP_ROPE_DEFAULT:
        break;
    }
}

/* mrope_section divides the frequencies between time, height and width. The three positions of text
 * are equal, so the division has no effect, interleaved or not. */
static void check_sections(const struct sp_rope *r, const struct rope_source *s)
{
    const struct sp_json *list = sp_json_get(s->dict, "mrope_section");
    int64_t n, sum = 0;

    for (size_t i = 0; i < sp_json_len(list); i++, sum += n) {
        if (sp_json_to_i64(sp_json_at(list, i), &n) && n >= 0 && n <= SP_CAP_WIDTH) continue;
        SP_INVALID(s->t, "mrope_section[%zu] is not a number of frequencies", i);
        return;
    }
    if (list && sp_json_kind(list) != SP_JSON_ARRAY)
        SP_INVALID(s->t, "mrope_section is not a list");
    if (list && sum != r->n_rot / 2 && sp_json_len(list) <= 8)
        SP_INVALID(s->t, "mrope_section has %lld frequencies, expected %u", (long long)sum,
                   r->n_rot / 2);
}

/* True if no layer rotates; the dict then has no effect. */
static bool is_unused(const struct rope_source *s)
{
    const struct sp_json *how = sp_text_get(s->t, "position_embedding_type");
    const char *type = sp_json_to_string(how, NULL);

    if (!s->t->family->rotation_stated) return s->t->family->unrotated;
    return type == NULL || strcmp(type, "rope") != 0;
}

static void read_rope(struct sp_rope *r, const struct rope_source *s)
{
    static const char partial_key[] = "partial_rotary_factor";
    const struct sp_family *family = s->t->family;
    double partial;

    r->factor = r->amplitude = r->score_scale = 1;
    r->theta = s->theta;
    read_type(&r->kind, s);
    check_keys(s);
    number(s, "rope_theta", 2, 1e15, &r->theta);
    if (r->theta == 0) SP_INVALID(s->t, "rope_theta is missing, which %s needs", family->name);
    if (family->latent && family->latent->partial_of_head) {
        r->n_rot = s->head_dim;
        read_scaling(r, s);
        return;
    }
    partial =
        family->partial_rotary != 0 && r->kind != SP_ROPE_PROPORTIONAL ? family->partial_rotary : 1;
    if (family->rotary_dim) {
        double n = partial * s->head_dim;
        sp_text_double(s->t, "rotary_dim", 2, s->head_dim, &n);
        partial = n / s->head_dim;
    }
    if (!family->partial_inside) sp_text_double(s->t, partial_key, 0, 1, &partial);
    number(s, partial_key, 0, 1, &partial);
    r->n_rot = (unsigned)(s->head_dim * partial);
    if (r->kind == SP_ROPE_PROPORTIONAL) { /* the pairs span the whole head; only some rotate */
        r->n_rotated = (unsigned)(partial * s->head_dim / 2);
        r->n_rot = s->head_dim;
    } else if (r->n_rot != s->head_dim && family->partial_rotary == 0) {
        SP_REFUSED(s->t, "%s %g is not supported for %s", partial_key, partial, family->name);
    }
    if ((s->head_dim == 0 || s->head_dim % 2 != 0) && is_unused(s)) {
        r->n_rot = s->head_dim / 2 * 2;
        return;
    }
    if (r->n_rot % 2 != 0 && r->n_rot == s->head_dim)
        SP_INVALID(s->t, "head_dim %u is not even, and all dimensions rotate", s->head_dim);
    if (r->n_rot == 0 || r->n_rot % 2 != 0) {
        SP_INVALID(s->t, "%s %g of head_dim %u rotates %u dimensions, expected an even number",
                   partial_key, partial, s->head_dim, r->n_rot);
    }
    check_sections(r, s);
    read_scaling(r, s);
}

/* The name of rotation i in rope_parameters that have one dict per layer type. */
static const char *name_of_dict(const struct sp_config_text *t, int i)
{
    static const char *const common[] = {"full_attention", "sliding_attention"};

    return t->family->rope_dicts[i] ? t->family->rope_dicts[i] : common[i];
}

/* True for {"full_attention": {...}, "sliding_attention": {...}}, or the family's names. A
 * rope_type beside them has no effect. */
static bool is_nested(const struct sp_config_text *t, const struct sp_json *dict)
{
    bool nested = false;

    for (struct sp_json_iter it = {0}; dict && sp_json_next(dict, &it);)
        if (strcmp(it.key, name_of_dict(t, 0)) == 0 || strcmp(it.key, name_of_dict(t, 1)) == 0)
            nested = true;
        else if (strcmp(it.key, "rope_type") != 0)
            return false;
    return nested;
}

/* *dict = the rope dict in effect, *other = the other one, which may have rope_theta. An empty
 * rope_scaling has no effect, but empty rope_parameters replace those of the class. */
static void find_dicts(const struct sp_json **dict, const struct sp_json **other,
                       const struct sp_config_text *t)
{
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    const struct sp_json *found[2];

    for (int i = 0; i < 2; i++) {
        found[i] = sp_text_get(t, keys[i]);
        if (found[i] && sp_json_kind(found[i]) != SP_JSON_OBJECT)
            SP_INVALID(t, "%s is not an object", keys[i]);
    }
    *dict = sp_json_len(found[0]) ? found[0] : found[1];
    *other = *dict == found[0] ? found[1] : found[0];
}

/* The theta outside of the dict in effect: of the config, of the other dict, or of the class. */
static void read_outer_theta(double *out, const struct sp_config_text *t,
                             const struct sp_json *other)
{
    *out = t->family->theta;
    if (sp_text_get(t, "rope_theta") && sp_json_kind(sp_text_get(t, "rope_theta")) != SP_JSON_ARRAY)
        sp_text_double(t, "rope_theta", 2, 1e15, out);
    else if (!is_nested(t, other))
        sp_member_double(t, other, "rope_theta", 2, 1e15, out);
}

/* llama_4_scaling_beta: queries are scaled by a factor that grows with their position (Ministral
 * 3). */
static void read_growth(struct sp_config *c, const struct rope_source *s)
{
    static const char key[] = "llama_4_scaling_beta";

    number(s, key, 0, 1e3, &c->query_growth.beta);
    if (c->query_growth.beta == 0) return;
    if (!s->t->family->reads.query_growth)
        SP_REFUSED(s->t, "%s is not supported for %s", key, s->t->family->name);
    read_original(&c->query_growth.from, s);
}

/* True if layer types may have different rotary embeddings. */
static bool differs_by_layer_type(const struct sp_config_text *t)
{
    return t->draft != SP_DRAFT_NONE || t->family->rope_by_type || t->family->local_theta != 0 ||
           t->family->local_unscaled;
}

/* mscale_all_dim scales the scores over all dims, while `amplitude` scales those over rotated dims
 * only. Source: yarn_apply_mscale in transformers' DeepSeek files, which applies it for every rope
 * type. */
static void read_score_scale(struct sp_rope *r, const struct rope_source *s)
{
    double mscale = 0;

    if (s->t->family->latent == NULL || s->t->family->unrotated || r->kind == SP_ROPE_DEFAULT)
        return;
    number(s, "mscale_all_dim", 0, 1e6, &mscale);
    if (mscale == 0) return;
    r->score_scale = yarn_mscale(r->factor, mscale) * yarn_mscale(r->factor, mscale);
}

static void read_both(struct sp_config *c, struct rope_source *s, unsigned sliding_head_dim,
                      const struct sp_json *other)
{
    const struct sp_json *dict = s->dict;
    bool nested = is_nested(s->t, dict);
    double local_theta = s->t->family->local_theta;

    if (nested && !differs_by_layer_type(s->t))
        SP_REFUSED(s->t, "rotation by layer type is not supported for %s", s->t->family->name);
    read_outer_theta(&s->theta, s->t, other);
    if (nested && s->t->speculators && sp_json_get(dict, "sliding_attention")) {
        s->dict = sp_json_get(dict, "sliding_attention"); /* speculators: of all layers */
        nested = false;
    } else if (nested) {
        s->dict = sp_json_get(dict, name_of_dict(s->t, 0));
    }
    c->n_ropes = 1;
    read_rope(&c->ropes[0], s);
    read_growth(c, s);
    read_score_scale(&c->ropes[0], s);
    if (!nested && local_theta == 0 && !s->t->family->local_unscaled) return;
    /* Sliding layers are not scaled unless a nested dict states it. */
    s->dict = nested ? sp_json_get(dict, name_of_dict(s->t, 1)) : NULL;
    s->head_dim = sliding_head_dim;
    if (s->t->family->local_unscaled && !nested) s->theta = c->ropes[0].theta;
    if (local_theta != 0) {
        s->theta = local_theta;
        sp_text_double(s->t, "rope_local_base_freq", 2, 1e15, &s->theta);
    }
    c->n_ropes = 2;
    read_rope(&c->ropes[1], s);
}

/* layer_rope_theta: the theta of each layer; 0: the layer does not rotate (Granite SWA). */
static void read_thetas(struct sp_config *c, const struct rope_source *s, unsigned n_layers)
{
    const struct sp_json *list = sp_text_get(s->t, SP_THETAS_KEY);
    unsigned n = 0;

    if (list == NULL) return;
    if (sp_json_kind(list) != SP_JSON_ARRAY || sp_json_len(list) < n_layers ||
        (sp_json_len(list) > n_layers && !s->t->family->prediction_layer)) {
        SP_INVALID(s->t, "%s has %zu values, expected %u", SP_THETAS_KEY, sp_json_len(list),
                   n_layers);
    }
    for (unsigned i = 0; i < n_layers && !sp_text_failed(s->t); i++) {
        double theta = -1;
        if (!sp_json_to_double(sp_json_at(list, i), &theta) ||
            (theta != 0 && !(theta >= 2 && theta <= 1e15)))
            SP_INVALID(s->t, "%s[%u] is neither 0 nor a theta", SP_THETAS_KEY, i);
        if (theta == 0 || (n > 0 && c->ropes[0].theta == theta) ||
            (n > 1 && c->ropes[1].theta == theta))
            continue;
        if (n == 2) {
            SP_REFUSED(s->t, "more than two values in %s are not supported", SP_THETAS_KEY);
            return;
        }
        if (n == 1) read_rope(&c->ropes[1], s);
        c->ropes[n++].theta = theta;
    }
    if (n == 2) c->n_ropes = 2;
}

void sp_config_read_ropes(struct sp_config *out, const struct sp_config_text *t)
{
    struct rope_source s = {
        .t = t, .head_dim = t->sizes->full_head_dim, .max_positions = out->max_positions};
    const char *standard = t->family->rope_default;
    const struct sp_json *other = NULL;
    struct sp_json *made = NULL;

    find_dicts(&s.dict, &other, t);
    if (s.dict == NULL && standard &&
        !sp_json_parse(&made, standard, strlen(standard), SP_JSON_LENIENT, t->err))
        s.dict = made;
    read_both(out, &s, t->sizes->head_dim, other);
    if (t->family->reads.layer_thetas) read_thetas(out, &s, t->sizes->n_layers);
    sp_json_free(made);
}
