/* The sizes of a model, and what is the same in all of its layers: norms, biases, activation, caps
 * and scales. */
#include "format/config/config_readers.h"

#include <math.h>
#include <string.h>

static void read_layer_count(struct sp_sizes *s, const struct sp_config_text *t)
{
    unsigned n = s->n_layers / 2;

    if (t->family->sublayers) {
        sp_config_count_sublayers(&s->n_layers, t);
    } else if (t->family->halves) {
        sp_text_unsigned(t, "num_layers", 1, SP_CAP_LAYERS / 2, &n);
        s->n_layers = 2 * n;
    } else {
        sp_text_unsigned(t, "num_hidden_layers", 1, SP_CAP_LAYERS, &s->n_layers);
    }
}

static void read_ffn(struct sp_sizes *s, const struct sp_config_text *t)
{
    if (t->family->ffn_factor) s->n_ffn = t->family->ffn_factor * s->n_hidden;
    sp_text_unsigned(t, t->family->ffn_key, 1, SP_CAP_WIDTH, &s->n_ffn);
}

void sp_config_read_sizes(struct sp_sizes *s, const struct sp_config_text *t)
{
    static const char kv[] = "num_key_value_heads";
    const char *dim_key = t->family->latent ? "qk_rope_head_dim" : "head_dim";
    bool ropeless = t->family->latent && t->family->latent->ropeless;

    *s = t->family->sizes;
    sp_text_unsigned(t, "vocab_size", 1, SP_CAP_VOCAB, &s->n_vocab);
    sp_text_unsigned(t, "hidden_size", 1, SP_CAP_WIDTH, &s->n_hidden);
    read_ffn(s, t);
    read_layer_count(s, t);
    sp_text_unsigned(t, "num_attention_heads", 1, SP_CAP_HEADS, &s->n_heads);
    sp_text_unsigned(t, kv, 1, SP_CAP_HEADS, &s->n_kv_heads);
    sp_text_unsigned(t, dim_key, ropeless ? 0 : 2, ropeless ? 0 : SP_CAP_WIDTH, &s->head_dim);
    sp_text_unsigned(t, "max_position_embeddings", 1, SP_CAP_POSITIONS, &s->max_positions);
    if (t->family->sizes.n_ffn == 0) s->n_ffn = 0; /* a family without MLPs ignores the key */
    /* A missing key means the class default, null means one K/V head per query head. */
    if (s->n_kv_heads == 0 || (sp_text_has(t, kv) && sp_text_get(t, kv) == NULL))
        s->n_kv_heads = s->n_heads;
    if (s->n_heads % s->n_kv_heads != 0) {
        SP_INVALID(t, "num_attention_heads %u is not a multiple of num_key_value_heads %u",
                   s->n_heads, s->n_kv_heads);
    }
    if (s->head_dim == 0 && !ropeless) {
        if (s->n_hidden % s->n_heads != 0) {
            SP_INVALID(t,
                       "hidden_size %u is not a multiple of num_attention_heads %u, and "
                       "head_dim is not given",
                       s->n_hidden, s->n_heads);
        }
        s->head_dim = s->n_hidden / s->n_heads;
        if (s->head_dim < 2) {
            SP_INVALID(t,
                       "hidden_size %u and num_attention_heads %u make heads of one "
                       "dimension, expected at least 2",
                       s->n_hidden, s->n_heads);
        }
    }
    if (t->family->latent && s->head_dim % 2 != 0)
        SP_INVALID(t, "%s %u is not even", dim_key, s->head_dim);
    if (t->family->read_full_heads)
        t->family->read_full_heads(s, t);
    else
        s->full_head_dim = s->head_dim;
}

static void read_activation(struct sp_config *c, const struct sp_config_text *t)
{
    static const struct {
        const char *name;
        enum sp_activation activation;
    } names[] = {
        {"silu", SP_SILU},
        {"swish", SP_SILU},
        {"gelu_pytorch_tanh", SP_GELU_TANH},
        {"gelu_new", SP_GELU_TANH},
        {"gelu_fast", SP_GELU_TANH},
        {"gelu", SP_GELU_ERF},
        {"relu", SP_RELU},
        {"relu2", SP_RELU2},
        {"xielu", SP_XIELU},
    };
    const char *key = t->family->activation_key, *name = t->family->activation;
    bool learned = strcmp(name, "xielu") == 0;

    if (key[0] != '\0') sp_text_string(t, key, &name);
    if (t->family->gelu_is_tanh && strcmp(name, "gelu") == 0) name = "gelu_pytorch_tanh";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        c->activation = names[i].activation;
        if (c->activation == SP_XIELU && !learned) break;
        if (!t->family->clamped_swiglu) return;
        if (c->activation != SP_SILU) break;
        c->activation = SP_SWIGLU_CLAMPED;
        return;
    }
    SP_REFUSED(t, "%s \"%s\" is not supported", key, name);
}

/* Reads soft caps and scales. null disables a cap; only a missing key means the default. The
 * multipliers are those of Granite, whose logits_scaling divides the logits, and of muP, whose
 * logits_scaling multiplies them. Source: the granite and hyperclovax modeling files in
 * transformers 5.23. */
static void read_scales(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_family *f = t->family;
    const bool multipliers = f->reads.multipliers;
    double scalar = f->query_scalar != 0 ? f->query_scalar : t->sizes->head_dim, scaling = 1;
    const struct {
        bool is_read;
        const char *key;
        double least, *out;
    } numbers[] = {
        {f->reads.attention_cap, "attn_logit_softcapping", 1e-3, &c->attention_cap},
        {f->reads.logit_cap, "final_logit_softcapping", 1e-3, &c->logit_cap},
        {f->reads.query_scalar, "query_pre_attn_scalar", 1e-3, &scalar},
        {f->reads.qkv_limit, "clip_qkv", 1e-6, &c->qkv_limit},
        {f->reads.logit_scale, "logit_scale", 1e-6, &c->logit_scale},
        {multipliers, "attention_multiplier", 1e-6, &c->attention_scale},
        {multipliers, "embedding_multiplier", 1e-6, &c->embedding_scale},
        {multipliers, "residual_multiplier", 1e-6, &c->residual_scale},
        {multipliers, "logits_scaling", 1e-6, &scaling},
    };

    c->attention_cap = sp_text_has(t, "attn_logit_softcapping") ? 0 : f->attention_cap;
    c->logit_cap = sp_text_has(t, "final_logit_softcapping") ? 0 : f->logit_cap;
    c->residual_scale = c->embedding_scale = c->input_scale = c->value_scale = 1;
    c->attention_out_scale = c->mamba_out_scale = c->ffn_in_scale = c->ffn_out_scale = 1;
    c->logit_scale = f->reads.logit_scale ? f->logit_scale : 1;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!numbers[i].is_read) continue;
        sp_text_double(t, numbers[i].key, numbers[i].least, 1e6, numbers[i].out);
    }
    if (c->attention_scale == 0) c->attention_scale = multipliers && !f->mup ? 1 : 1 / sqrt(scalar);
    if (multipliers) c->logit_scale = f->mup ? scaling : 1 / scaling;
}

static double round_to_bits(double x, int n_bits)
{
    int exponent;
    double mantissa = frexp(x, &exponent);

    return ldexp(rint(ldexp(mantissa, n_bits)), exponent - n_bits);
}

/* Gemma multiplies embeddings by sqrt(n_hidden), rounded to the type that the model is loaded in.
 * That is the type that the config states, so the factor does not depend on the type in which the
 * embedding is packed. */
static void read_embedding_scale(struct sp_config *c, const struct sp_config_text *t)
{
    const char *type = "float32";
    const char *dot;
    bool rooted = false;

    sp_text_bool(t, t->family->root_key, &rooted);
    if (rooted) c->embedding_scale = sqrt(c->n_hidden);
    if (!t->family->scaled_embedding) return;
    c->embedding_scale = (double)(float)sqrt(c->n_hidden);
    if (sp_json_has(t->root, "quantization")) return; /* mlx: the table dequantizes to f32 */
    sp_text_string(t, sp_text_get(t, "dtype") ? "dtype" : "torch_dtype", &type);
    if ((dot = strrchr(type, '.')) != NULL) type = dot + 1; /* torch.bfloat16 */
    if (strcmp(type, "bfloat16") == 0)
        c->embedding_scale = round_to_bits(c->embedding_scale, 8);
    else if (strcmp(type, "float16") == 0)
        c->embedding_scale = round_to_bits(c->embedding_scale, 11);
}

static void bias_of(bool *out, enum sp_bias_rule rule, bool stated, const char *key,
                    const struct sp_config_text *t)
{
    *out = rule == SP_BIAS_ALWAYS || (rule == SP_BIAS_BY_CONFIG && stated);
    if (rule == SP_BIAS_REFUSED && stated)
        SP_REFUSED(t, "%s true is not supported for %s", key, t->family->name);
}

static void read_biases(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_family *f = t->family;
    const char *attention_key = f->bias_key ? f->bias_key : "attention_bias";
    const char *mlp_key = f->bias_key ? f->bias_key : "mlp_bias";
    bool qkv = f->attention_bias, o, mlp = f->mlp_biased || (f->bias_key && f->attention_bias);

    sp_text_bool(t, f->other_bias_keys[0], &qkv);
    sp_text_bool(t, f->other_bias_keys[1], &mlp);
    sp_text_bool(t, attention_key, &qkv);
    o = f->o_bias_key ? false : qkv;
    sp_text_bool(t, f->o_bias_key, &o);
    sp_text_bool(t, mlp_key, &mlp);
    bias_of(&c->qkv_bias, f->qkv_bias, qkv, attention_key, t);
    bias_of(&c->o_bias, f->o_bias, o, attention_key, t);
    c->gate_bias = f->gate_in_query && c->qkv_bias;
    bias_of(&c->mlp_bias, f->mlp_bias, mlp, mlp_key, t);
}

/* tie_word_embeddings of the root overrules that of text_config, except in wrappers whose class
 * default would hide the value of the text model. */
static void read_tied(struct sp_config *c, const struct sp_config_text *t)
{
    bool text_first = t->wrapper && t->wrapper->text_tie_first;
    const struct sp_json *first = text_first ? t->text : t->root;
    const struct sp_json *second = text_first ? t->root : t->text;
    const char *own = t->family->tied_key;
    const char *key = own && sp_text_get(t, own) ? own : "tie_word_embeddings";
    const struct sp_json *holder = sp_json_get(first, key) ? first : second;

    c->tied = t->family->tied;
    c->tied_stated = sp_json_get(holder, key) != NULL;
    sp_member_bool(t, holder, key, &c->tied);
}

static void read_qk_norm(struct sp_config *c, const struct sp_config_text *t)
{
    const char *key = t->family->qk_norm_key;
    bool normed = key == NULL || t->family->qk_normed;

    sp_text_bool(t, key, &normed);
    c->qk_norm = normed ? t->family->qk_norm : SP_QK_PLAIN;
}

static void read_parallel(struct sp_config *c, const struct sp_config_text *t)
{
    bool usual = t->family->norms != SP_NORM_PRE, parallel = usual;

    sp_text_bool(t, t->family->parallel_key, &parallel);
    if (parallel != usual) c->norms = parallel ? SP_NORM_PARALLEL : SP_NORM_PRE;
}

void sp_config_read_traits(struct sp_config *c, const struct sp_config_text *t)
{
    const struct sp_family *f = t->family;

    c->n_vocab = c->n_inputs = t->sizes->n_vocab;
    c->n_hidden = t->sizes->n_hidden;
    c->max_positions = t->sizes->max_positions;
    c->norm_eps = f->norm_eps;
    c->norm_shifted = f->norm_shifted;
    c->norm_centered = f->norm_centered;
    c->norm_bias = f->norm_bias;
    c->plain_mlp = f->plain_mlp;
    c->norms = f->norms;
    c->norm_weightless = f->norm_weightless;
    c->embedding_normed = f->embedding_normed;
    c->inner_norms = f->inner_norms;
    c->head_bias = f->head_bias;
    c->attention_sinks = f->sinks;
    c->shared_gate = f->shared_gate;
    sp_text_double(t, f->norm_eps_key, 1e-30, 1, &c->norm_eps);
    read_biases(c, t);
    read_qk_norm(c, t);
    read_activation(c, t);
    read_scales(c, t);
    read_embedding_scale(c, t);
    read_tied(c, t);
    read_parallel(c, t);
    c->post_norm_eps = c->norm_eps;
}

/* is_causal false makes any model of plain attention bidirectional, and its windows count on both
 * sides. Source: create_causal_mask and its kin in transformers 5.23. */
void sp_config_read_causal(struct sp_config *c, const struct sp_config_text *t)
{
    bool causal = true;

    sp_text_bool(t, "is_causal", &causal);
    if (causal || c->bidirectional) return;
    if (sp_config_is_recurrent(c) || c->latent.kv_rank)
        SP_REFUSED(t, "is_causal false is not supported for %s", t->family->name);
    c->bidirectional = true;
    for (unsigned i = 0; i < c->n_layers; i++) {
        c->layers[i].causal = false;
        if (c->layers[i].window) c->layers[i].window++;
    }
}
