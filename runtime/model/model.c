#include "runtime/model/model.h"

#include "format/family/config_packed.h"
#include "format/family/family.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"
#include "quantize/codec.h"
#include "quantize/types/float_cast.h"
#include "runtime/model/rope.h"
#include "runtime/vector/fmath.h"
#include "runtime/vector/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of binding, with the first failure, after which further steps do nothing. */
struct binder {
    const struct sp_pack *pack;
    struct sp_model *model;
    struct sp_err *err;
    enum sp_status status;
};

/* Checks that the pack has exactly the tensors that the configuration requires, and their shapes.
 */
static enum sp_status check_tensors(const struct sp_pack *pack, enum sp_part part,
                                    const struct sp_config *config, struct sp_err *err)
{
    struct sp_specs specs = {0};
    enum sp_status st;

    if ((st = sp_specs_of_config(&specs, config, err))) goto done;
    for (size_t i = 0; i < specs.n_specs; i++) {
        const struct sp_tensor_spec *want = &specs.specs[i];
        const struct sp_pack_tensor *have = sp_pack_find(pack, part, want->name);
        enum sp_layout layout = sp_role_is_matrix(want->role) ? SP_PANEL : SP_PLAIN;
        char a[SP_SHAPE_TEXT], b[SP_SHAPE_TEXT];
        if (have == NULL) {
            st = sp_fail(err, SP_E_INPUT, "%s: missing tensor \"%s\"", sp_part_name(part),
                         want->name);
            goto done;
        }
        if (have->rank == want->rank &&
            memcmp(have->shape, want->shape, want->rank * sizeof have->shape[0]) == 0 &&
            have->layout == layout)
            continue;
        st = sp_fail(err, SP_E_INPUT, "%s: tensor \"%s\" has shape %s, expected %s",
                     sp_part_name(part), want->name, sp_shape_text(a, have->shape, have->rank),
                     sp_shape_text(b, want->shape, want->rank));
        goto done;
    }
    for (size_t i = 0; i < sp_pack_n_tensors(pack); i++) {
        const struct sp_pack_tensor *t = sp_pack_tensor(pack, i);
        if (t->part != part || sp_specs_find(&specs, t->name)) continue;
        st = sp_fail(err, SP_E_INPUT, "%s: unexpected tensor \"%s\"", sp_part_name(part), t->name);
        goto done;
    }
done:
    sp_specs_release(&specs);
    return st;
}

static const struct sp_pack_tensor *find(struct binder *b, const char *format, unsigned layer)
{
    char name[128];

    if (b->status) return NULL;
    if (strncmp(format, "@", 1) == 0)
        snprintf(name, sizeof name, "layers.%u.%s",
                 sp_config_tensor_layer(&b->model->config, layer, format + 1), format + 1);
    else
        snprintf(name, sizeof name, "%s", format);
    return sp_pack_find(b->pack, b->model->part, name);
}

/* Allocates a zeroed vector of n floats, padded to whole SIMD vectors, owned by the model. */
static enum sp_status keep_vector(struct binder *b, float **out, size_t n)
{
    return sp_arena_rows(&b->model->memory, out, 1, sp_round_up(n, 16), b->err);
}

/* Binds a vector; a name that begins with '@' belongs to `layer`. Returns NULL if the tensor is
 * absent, which check_tensors has allowed. */
static const float *bind_vector(struct binder *b, const char *name, unsigned layer, bool is_norm)
{
    const struct sp_pack_tensor *t = find(b, name, layer);
    float *v = NULL;
    size_t n;

    if (t == NULL) return NULL;
    n = (size_t)sp_n_elements(t->shape, t->rank);
    if ((b->status = keep_vector(b, &v, n))) return NULL;
    sp_decode_floats(v, t->dtype, t->data, n);
    if (is_norm && b->model->config.norm_shifted)
        for (size_t i = 0; i < n; i++)
            v[i] += 1.0f;
    return v;
}

static const float *bind_scaled(struct binder *b, const char *name, unsigned layer, size_t n,
                                double scale)
{
    const float *norm = bind_vector(b, name, layer, true);
    float *v = NULL;

    if (norm == NULL || scale == 1 || scale == 0) return norm;
    if ((b->status = keep_vector(b, &v, n))) return NULL;
    for (size_t i = 0; i < n; i++)
        v[i] = norm[i] * (float)scale;
    return v;
}

/* Binds (stored * factor)^power, and its absolute value for power 0; of sp_config.unit. */
static const float *bind_scales(struct binder *b, const char *name, unsigned layer, double factor,
                                int power)
{
    const struct sp_pack_tensor *t = find(b, name, layer);
    float *v = (float *)(uintptr_t)bind_vector(b, name, layer, false);

    for (size_t i = 0; v && i < (size_t)t->shape[0]; i++) {
        float x = v[i] * (float)(factor / b->model->config.unit.init);
        v[i] = power == 2 ? x * x : power == 0 && x < 0 ? -x : x;
    }
    return v;
}

static const float *bind_norm(struct binder *b, const char *name, unsigned layer)
{
    return bind_vector(b, name, layer, true);
}

static const float *bind_bias(struct binder *b, const char *name, unsigned layer)
{
    return bind_vector(b, name, layer, false);
}

/* Sets *w to the matrix of a tensor, unless the tensor is absent. */
static void bind_matrix(struct binder *b, struct sp_matrix *w, const char *name, unsigned layer)
{
    const struct sp_pack_tensor *t = find(b, name, layer);
    struct sp_model *m = b->model;

    if (t == NULL) return;
    b->status =
        sp_grow(&m->matrices, &m->cap_matrices, m->n_matrices + 1, sizeof *m->matrices, b->err);
    if (b->status) return;
    m->matrices[m->n_matrices++] = (struct sp_bound_matrix){t, w};
    w->dtype = t->dtype;
    w->rows = (size_t)t->shape[t->rank - 2];
    w->cols = (size_t)t->shape[t->rank - 1];
    w->n_panels = (w->rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    w->panels = t->data;
    if (!sp_panel_size(&w->panel_size, w->dtype, w->cols))
        b->status = sp_fail(b->err, SP_E_BUG, "tensor \"%s\" has no panels", t->name);
}

/* The name of a tensor by its beginning and its end. */
struct tensor_name {
    char text[96];
};

static struct tensor_name join(const char *begin, const char *end)
{
    struct tensor_name name;

    snprintf(name.text, sizeof name.text, "%s%s", begin, end);
    return name;
}

/* Binds the weight and the bias of a linear layer. */
static void bind_linear(struct binder *b, struct sp_matrix *w, const float **bias, const char *name,
                        unsigned layer)
{
    bind_matrix(b, w, join(name, ".weight").text, layer);
    *bias = bind_bias(b, join(name, ".bias").text, layer);
}

/* Binds the weight of a convolution, [channels, 1, kernel], as taps [kernel][channels]. */
static float *bind_taps(struct binder *b, const char *name, unsigned layer, size_t channels,
                        size_t kernel)
{
    const float *stored = bind_bias(b, name, layer);
    float *taps = NULL;

    if (stored == NULL || (b->status = keep_vector(b, &taps, channels * kernel))) return NULL;
    for (size_t j = 0; j < channels; j++)
        for (size_t i = 0; i < kernel; i++)
            taps[i * channels + j] = stored[j * kernel + i];
    return taps;
}

/* The decays of lightning attention: e^-s, s = 2^(-8 (h + 1) / n) (1 - layer / (layers - 1 + 1e-5)
 * + 1e-5).
 */
static const float *make_decays(struct binder *b, unsigned layer)
{
    unsigned n = b->model->config.delta.n_value_heads;
    double factor = 1 - layer / (b->model->config.n_layers - 1 + 1e-5) + 1e-5;
    float *decays = NULL;

    if (b->status || (b->status = keep_vector(b, &decays, n))) return NULL;
    for (unsigned h = 0; h < n; h++)
        decays[h] = (float)sp_exp(-sp_pow(2, -8.0 * (h + 1) / n) * factor);
    return decays;
}

static void bind_delta(struct binder *b, struct sp_delta_weights *w, unsigned i)
{
    const struct sp_delta_config *c = &b->model->config.delta;
    size_t channels =
        2 * (size_t)c->n_key_heads * c->key_dim + (size_t)c->n_value_heads * c->value_dim;

    bind_matrix(b, &w->qkv, "@linear_attn.in_proj_qkv.weight", i);
    bind_matrix(b, &w->z, "@linear_attn.in_proj_z.weight", i);
    bind_matrix(b, &w->b, "@linear_attn.in_proj_b.weight", i);
    bind_matrix(b, &w->a, "@linear_attn.in_proj_a.weight", i);
    bind_matrix(b, &w->up_z, "@linear_attn.up_proj_z.weight", i);
    bind_matrix(b, &w->up_a, "@linear_attn.up_proj_a.weight", i);
    bind_matrix(b, &w->out, "@linear_attn.out_proj.weight", i);
    w->conv = bind_taps(b, "@linear_attn.conv1d.weight", i, channels, c->kernel);
    w->a_log = bind_bias(b, "@linear_attn.A_log", i);
    w->dt_bias = bind_bias(b, "@linear_attn.dt_bias", i);
    w->norm = bind_bias(b, "@linear_attn.norm.weight", i);
    if (c->lightning) w->decays = make_decays(b, i);
}

static void bind_short_conv(struct binder *b, struct sp_short_conv_weights *w, unsigned i)
{
    const struct sp_config *c = &b->model->config;

    bind_linear(b, &w->in, &w->in_bias, "@conv.in_proj", i);
    bind_linear(b, &w->out, &w->out_bias, "@conv.out_proj", i);
    w->taps = bind_taps(b, "@conv.conv.weight", i, c->n_hidden, c->short_conv.kernel);
    w->bias = bind_bias(b, "@conv.conv.bias", i);
}

/* Binds the taps of one of the convolutions that add what they convolve. Where rows make taps, too,
 * the stored ones begin with that of the row itself. */
static float *bind_residual_taps(struct binder *b, unsigned layer, enum sp_layer_conv which,
                                 size_t width)
{
    static const char *const names[SP_LAYER_CONVS] = {"@self_attn.k_sconv", "@self_attn.v_sconv",
                                                      "@attn_sconv", "@mlp_sconv"};
    size_t n = b->model->config.n_residual_taps;
    const float *fixed = bind_bias(b, join(names[which], ".static_weight").text, layer);
    float *taps = NULL;

    if (fixed == NULL)
        return bind_taps(b, join(names[which], ".conv1d.weight").text, layer, width, n);
    if ((b->status = keep_vector(b, &taps, n * width))) return NULL;
    for (size_t i = 0; i < n; i++)
        memcpy(taps + i * width, fixed + (n - 1 - i) * width, width * sizeof *taps);
    return taps;
}

static void bind_residual(struct binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    const char *name = l->config->n_experts ? "@mlp.router.global_scale" : "@mlp.global_scale";
    const float *scale = bind_bias(b, name, i);
    size_t n = c->n_residual_taps, keys = (size_t)l->config->n_kv_heads * l->config->head_dim;

    for (unsigned k = 0; n && k < SP_LAYER_CONVS; k++) {
        size_t width = k < SP_CONV_MIXER ? keys : c->n_hidden;
        float *taps = bind_residual_taps(b, i, k, width), factor = 1;
        if (taps == NULL) return;
        if (c->residual_normed)
            factor = sp_residual_factor(c, k < SP_CONV_MIXER && l->config->own_kv_inputs);
        if (k == SP_CONV_MLP && scale) factor = *scale;
        for (size_t j = 0; j < width; j++)
            taps[(n - 1) * width + j] += 1;
        for (size_t j = 0; factor != 1 && j < n * width; j++)
            taps[j] *= factor;
        l->residual_taps[k] = taps;
    }
    bind_matrix(b, &l->dynamic_taps[0], "@self_attn.k_sconv.weight_proj.weight", i);
    bind_matrix(b, &l->dynamic_taps[1], "@self_attn.v_sconv.weight_proj.weight", i);
}

static void bind_messages(struct binder *b, struct sp_layer *l, unsigned i)
{
    static const char *const names[4] = {"@controllers.attn.", "@controllers.k.", "@controllers.v.",
                                         "@controllers.mlp."};
    const struct sp_config *c = &b->model->config;
    unsigned number = i - l->config->repeats - c->first_looped;

    for (unsigned k = 0; k < 4 && c->message_rank && number < c->n_looped; k++) {
        struct sp_message_weights *w = &l->messages[k];
        bind_matrix(b, &w->down, join(names[k], "down_weight").text, i);
        bind_matrix(b, &w->forget, join(names[k], "forget_weight").text, i);
        bind_matrix(b, &w->gain, join(names[k], "gain_weight").text, i);
        w->query = b->model->message_queries[k == 1 || k == 2];
        if (w->query) w->query += (2 * number + k / 2) * (size_t)c->n_hidden;
    }
}

static void bind_relative(struct binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    const float *stored = bind_bias(b, "@self_attn.rel_logits_proj.proj", i);
    size_t extent = l->config->window ? l->config->window : c->rel_extent;
    size_t n = c->rel_dim * extent;
    float *profiles = NULL;

    bind_matrix(b, &l->relative.mix, "@self_attn.r_proj.weight", i);
    l->relative.scales = bind_bias(b, "@self_attn.r_clip.scale", i);
    if (stored == NULL || b->status || (b->status = keep_vector(b, &profiles, n))) return;
    for (size_t k = 0; k < n; k++)
        profiles[k] = stored[k / extent * extent + extent - 1 - k % extent];
    l->relative.profiles = profiles;
    l->relative.extent = extent;
}

/* Folds the scales of x, B and C into the taps by which they are multiplied. */
static float *bind_mamba_taps(struct binder *b, const struct sp_mamba_config *c, unsigned layer)
{
    size_t values = (size_t)c->n_heads * c->head_dim, keys = (size_t)c->n_groups * c->state_dim;
    size_t channels = c->step_rank ? values : values + 2 * keys;
    float *taps = bind_taps(b, "@mamba.conv1d.weight", layer, channels, c->kernel);

    for (size_t i = 0; taps && i < channels * c->kernel; i++) {
        size_t at = i % channels;
        double scale = at < values          ? c->x_scale
                       : at < values + keys ? c->key_scale
                                            : c->query_scale;
        if (scale != 1) taps[i] *= (float)scale;
    }
    return taps;
}

/* The rates of decay of Mamba-1. */
static const float *bind_rates(struct binder *b, size_t n, unsigned layer)
{
    const float *stored = bind_bias(b, "@mamba.A_log", layer);
    float *rates = NULL;

    if (stored == NULL || (b->status = keep_vector(b, &rates, n))) return NULL;
    for (size_t i = 0; i < n; i++)
        rates[i] = -sp_expf(stored[i]);
    return rates;
}

static void bind_mamba(struct binder *b, struct sp_mamba_weights *w, unsigned i)
{
    const struct sp_mamba_config *c = &b->model->config.mamba;

    bind_linear(b, &w->z, &w->z_bias, "@mamba.in_proj_z", i);
    bind_linear(b, &w->xbc, &w->xbc_bias, "@mamba.in_proj_xbc", i);
    bind_linear(b, &w->dt, &w->in_dt_bias, "@mamba.in_proj_dt", i);
    bind_linear(b, &w->out, &w->out_bias, "@mamba.out_proj", i);
    w->taps = bind_mamba_taps(b, &b->model->config.mamba, i);
    w->conv_bias = bind_bias(b, "@mamba.conv1d.bias", i);
    bind_matrix(b, &w->x, "@mamba.x_proj.weight", i);
    bind_matrix(b, &w->up, "@mamba.dt_proj.weight", i);
    w->dt_norm = bind_bias(b, "@mamba.dt_layernorm.weight", i);
    w->b_norm = bind_bias(b, "@mamba.b_layernorm.weight", i);
    w->c_norm = bind_bias(b, "@mamba.c_layernorm.weight", i);
    if (c->step_rank)
        w->rates = bind_rates(b, (size_t)c->n_heads * c->head_dim * c->state_dim, i);
    else
        w->a_log = bind_bias(b, "@mamba.A_log", i);
    w->d = bind_bias(b, "@mamba.D", i);
    w->dt_bias = bind_bias(b, "@mamba.dt_bias", i);
    w->norm = bind_norm(b, "@mamba.norm.weight", i);
}

static void bind_ssmax(struct binder *b, struct sp_ssmax_weights *w, const char *name, unsigned i)
{
    w->scale = bind_bias(b, join(name, ".ssmax_scaling.s").text, i);
    w->bias = bind_bias(b, join(name, ".ssmax_scaling.b").text, i);
}

static void bind_latent(struct binder *b, struct sp_latent_weights *w, unsigned i)
{
    const struct sp_config *config = &b->model->config;
    const struct sp_latent_config *c = sp_config_latent(config, &config->layers[i]);

    bind_linear(b, &w->q_a, &w->q_bias, "@self_attn.q_a_proj", i);
    bind_matrix(b, &w->q_b, "@self_attn.q_b_proj.weight", i);
    bind_matrix(b, &w->gate_b, "@self_attn.gate_b_proj.weight", i);
    bind_linear(b, &w->kv_a, &w->kv_bias, "@self_attn.kv_a_proj_with_mqa", i);
    bind_matrix(b, &w->k_b, "@self_attn.k_b_proj.weight", i);
    bind_matrix(b, &w->v_b, "@self_attn.v_b_proj.weight", i);
    w->q_norm = bind_scaled(b, "@self_attn.q_a_layernorm.weight", i, c->q_rank, c->q_scale);
    w->kv_norm = bind_scaled(b, "@self_attn.kv_a_layernorm.weight", i, c->kv_rank, c->kv_scale);
    w->key_norm = bind_norm(b, "@self_attn.k_rope_norm.weight", i);
    bind_ssmax(b, &w->ssmax, "@self_attn", i);
}

static void bind_compressor(struct binder *b, struct sp_compressor *w, const char *name, unsigned i)
{
    bind_matrix(b, &w->kv, join(name, ".kv_proj.weight").text, i);
    bind_matrix(b, &w->gate, join(name, ".gate_proj.weight").text, i);
    w->bias = bind_bias(b, join(name, ".position_bias").text, i);
    w->norm = bind_norm(b, join(name, ".norm.weight").text, i);
}

static void bind_compressed(struct binder *b, struct sp_compressed_weights *w, unsigned i)
{
    bind_matrix(b, &w->q_a, "@self_attn.q_a_proj.weight", i);
    bind_matrix(b, &w->q_b, "@self_attn.q_b_proj.weight", i);
    bind_matrix(b, &w->kv, "@self_attn.kv_proj.weight", i);
    bind_matrix(b, &w->o_a, "@self_attn.o_a_proj.weight", i);
    w->q_norm = bind_norm(b, "@self_attn.q_a_layernorm.weight", i);
    w->kv_norm = bind_norm(b, "@self_attn.kv_norm.weight", i);
    bind_compressor(b, &w->entries, "@self_attn.compressor", i);
    bind_compressor(b, &w->keys, "@self_attn.indexer.compressor", i);
}

static void bind_index(struct binder *b, struct sp_index_weights *w, unsigned i)
{
    bind_matrix(b, &w->q, "@self_attn.indexer.wq_b.weight", i);
    w->input_norm = bind_norm(b, "@self_attn.indexer.q_input_norm.weight", i);
    w->input_norm_bias = bind_bias(b, "@self_attn.indexer.q_input_norm.bias", i);
    bind_ssmax(b, &w->ssmax, "@self_attn.indexer", i);
    bind_matrix(b, &w->q, "@self_attn.indexer.q_proj.weight", i);
    bind_matrix(b, &w->k, "@self_attn.indexer.wk.weight", i);
    bind_matrix(b, &w->weights, "@self_attn.indexer.weights_proj.weight", i);
    bind_matrix(b, &w->pool_gate, "@self_attn.indexer.pool_gate.weight", i);
    w->pool_bias = bind_bias(b, "@self_attn.indexer.pool_bias", i);
    w->q_norm = bind_norm(b, "@self_attn.indexer.q_norm.weight", i);
    w->k_norm = bind_norm(b, "@self_attn.indexer.k_norm.weight", i);
    w->k_norm_bias = bind_bias(b, "@self_attn.indexer.k_norm.bias", i);
}

/* Binds a vector of heads, each of whose elements is repeated for n dims of the queries. */
static const float *bind_heads(struct binder *b, const char *name, unsigned i, size_t n)
{
    const struct sp_layer_config *l = &b->model->config.layers[i];
    const float *heads = bind_bias(b, name, i);
    size_t n_all = (size_t)l->n_heads * l->head_dim;
    float *repeated = NULL;

    if (heads == NULL || (b->status = keep_vector(b, &repeated, n_all))) return NULL;
    for (size_t k = 0; k < n_all; k++)
        repeated[k] = heads[k / n];
    return repeated;
}

/* The scale of a key multiplies the queries of its heads instead. */
static void bind_cca(struct binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_layer_config *c = l->config;

    l->cca.taps = bind_bias(b, "@self_attn.conv_qk_depthwise.weight", i);
    l->cca.bias = bind_bias(b, "@self_attn.conv_qk_depthwise.bias", i);
    bind_linear(b, &l->cca.mix, &l->cca.mix_bias, "@self_attn.conv_qk_grouped", i);
    bind_matrix(b, &l->cca.delayed, "@self_attn.v_delayed.weight", i);
    l->q_scales =
        bind_heads(b, "@self_attn.key_scale", i, c->n_heads / c->n_kv_heads * (size_t)c->head_dim);
}

static void bind_attention(struct binder *b, struct sp_layer *l, unsigned i)
{
    bind_linear(b, &l->q, &l->q_bias, "@self_attn.q_proj", i);
    bind_matrix(
        b, &l->output_gate,
        l->config->head_gate ? "@self_attn.head_gate.weight" : "@self_attn.gate_proj.weight", i);
    bind_linear(b, &l->k, &l->k_bias, "@self_attn.k_proj", i);
    bind_linear(b, &l->v, &l->v_bias, "@self_attn.v_proj", i);
    bind_linear(b, &l->o, &l->o_bias, "@self_attn.o_proj", i);
    l->output_gate_bias = b->model->config.gate_biases
                              ? bind_heads(b, "@self_attn.gate_bias", i, l->config->head_dim)
                              : bind_bias(b, "@self_attn.gate_proj.bias", i);
    l->hidden_norm = bind_norm(b, "@hidden_norm.weight", i);
    l->q_norm = bind_norm(b, "@self_attn.q_norm.weight", i);
    if (l->q_norm == NULL) l->q_norm = bind_bias(b, "@self_attn.q_clip.scale", i);
    bind_matrix(b, &l->sink_proj, "@self_attn.sink_proj.weight", i);
    l->k_norm = bind_norm(b, "@self_attn.k_norm.weight", i);
    l->q_norm_bias = bind_bias(b, "@self_attn.q_norm.bias", i);
    l->k_norm_bias = bind_bias(b, "@self_attn.k_norm.bias", i);
    l->sinks = bind_bias(b, "@self_attn.sinks", i);
    l->o_norm = bind_norm(b, "@self_attn.inner_norm.weight", i);
    if (b->model->config.compressed.q_rank)
        bind_compressed(b, &l->compressed, i);
    else
        bind_latent(b, &l->latent, i);
    bind_index(b, &l->index, i);
}

/* Binds the per-layer embeddings and the scalar of Gemma 4. */
static void bind_per_layer(struct binder *b, struct sp_layer *l, unsigned i)
{
    const float *scalar = bind_bias(b, "@layer_scalar", i);

    l->scalar = scalar ? scalar[0] : 1;
    bind_matrix(b, &l->per_layer_gate, "@per_layer_input_gate.weight", i);
    bind_matrix(b, &l->per_layer_out, "@per_layer_projection.weight", i);
    l->per_layer_post = bind_norm(b, "@post_per_layer_input_norm.weight", i);
}

/* The x below which a part p of the normal distribution is, by bisection of its series. */
static double normal_quantile(double p)
{
    double low = -8, high = 8;

    for (int i = 0; i < 60; i++) {
        double x = (low + high) / 2, term = x, sum = x;
        for (int k = 3; k < 300; k += 2)
            sum += term *= x * x / k;
        if (0.5 + sum * sp_exp(-x * x / 2) * 0.398942280401432678 < p)
            low = x;
        else
            high = x;
    }
    return low;
}

static void bind_altup(struct binder *b, struct sp_layer *l, unsigned i)
{
    struct sp_altup_weights *w = &l->altup;

    bind_matrix(b, &w->router, "@altup.modality_router.weight", i);
    bind_matrix(b, &w->left, "@laurel.linear_left.weight", i);
    bind_matrix(b, &w->right, "@laurel.linear_right.weight", i);
    w->router_norm = bind_norm(b, "@altup.router_norm.weight", i);
    w->laurel_norm = bind_norm(b, "@laurel.post_laurel_norm.weight", i);
    w->output_scale = bind_bias(b, "@altup.correct_output_scale", i);
    w->predict = bind_bias(b, "@altup.prediction_coefs.weight", i);
    w->correct = bind_bias(b, "@altup.correction_coefs.weight", i);
    if (l->config->sparsity > 0) w->cutoff = (float)normal_quantile(l->config->sparsity);
}

static void bind_hyper(struct binder *b, struct sp_hyper_weights *w, const char *streams,
                       const char *name, unsigned i)
{
    size_t k = b->model->config.hyper.n_streams;

    bind_matrix(b, &w->fn, join(name, "fn").text, i);
    w->base = bind_bias(b, join(name, "base").text, i);
    w->scale = bind_bias(b, join(name, "scale").text, i);
    bind_matrix(b, &w->fn, join(streams, "block_inject_weight.weight").text, i);
    bind_matrix(b, &w->gate.down, join(streams, "input_mix_weight_down.weight").text, i);
    bind_matrix(b, &w->gate.up, join(streams, "input_mix_weight_up.weight").text, i);
    w->norm = bind_scaled(b, join(streams, "hc_norm.weight").text, i, k * b->model->config.n_hidden,
                          1.0 / (double)k);
}

static void bind_ngrams(struct binder *b, struct sp_ngram_weights *w, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    unsigned table = c->layers[i].ngrams;
    uint64_t half = (UINT64_MAX >> 1) / c->n_vocab / 2;

    if (table == 0) return;
    bind_matrix(b, &w->table, "@ple.table.weight", i);
    bind_matrix(b, &w->key, "@ple.key_proj.weight", i);
    bind_matrix(b, &w->value, "@ple.value_proj.weight", i);
    w->key_norm = bind_norm(b, "@ple.norm_key.weight", i);
    w->query_norm = bind_norm(b, "@ple.norm_query.weight", i);
    w->conv_norm = bind_norm(b, "@ple.norm_conv.weight", i);
    w->taps = bind_taps(b, "@ple.conv1d.weight", i, (size_t)c->hyper.n_streams * c->n_hidden,
                        c->ngrams.kernel);
    (void)sp_ngram_rows(w->rows, &c->ngrams, table);
    for (unsigned k = 0; k < c->ngrams.longest; k++)
        w->factors[k] = 2 * (sp_rng_bits(c->ngrams.seed + 10007 * (table - 1), k + 1) % half) + 1;
}

static void bind_streams(struct binder *b, struct sp_model *m)
{
    char name[64];

    for (unsigned i = 1; i < m->config.n_streams; i++) {
        snprintf(name, sizeof name, "altup_projections.%u.weight", i - 1);
        bind_matrix(b, &m->streams_in[i], name, 0);
        snprintf(name, sizeof name, "altup_unembed_projections.%u.weight", i - 1);
        bind_matrix(b, &m->streams_out[i], name, 0);
    }
}

/* Binds the shared expert. */
static void bind_shared(struct binder *b, struct sp_layer *l, unsigned i)
{
    bind_matrix(b, &l->shared_gate, "@mlp.shared_expert.gate_proj.weight", i);
    bind_matrix(b, &l->shared_up, "@mlp.shared_expert.up_proj.weight", i);
    bind_matrix(b, &l->shared_down, "@mlp.shared_expert.down_proj.weight", i);
    bind_matrix(b, &l->shared_weight, "@mlp.shared_expert_gate.weight", i);
    l->shared_post = bind_norm(b, "@post_feedforward_layernorm_1.weight", i);
    l->experts_norm = bind_norm(b, "@pre_feedforward_layernorm_2.weight", i);
    l->experts_post = bind_norm(b, "@post_feedforward_layernorm_2.weight", i);
    l->router_scale = bind_bias(b, "@mlp.router.scale", i);
    l->expert_scale = bind_bias(b, "@mlp.router.expert_scale", i);
}

/* Binds xIELU; alpha_p and alpha_n are stored before their softplus. */
static void bind_xielu(struct binder *b, struct sp_xielu *w, unsigned i)
{
    const float *positive = bind_bias(b, "@mlp.act_fn.alpha_p", i);
    const float *negative = bind_bias(b, "@mlp.act_fn.alpha_n", i);
    const float *beta = bind_bias(b, "@mlp.act_fn.beta", i);
    const float *eps = bind_bias(b, "@mlp.act_fn.eps", i);

    if (b->status) return;
    *w = (struct sp_xielu){.positive = sp_softplusf(*positive),
                           .negative = *beta + sp_softplusf(*negative),
                           .beta = *beta,
                           .eps = *eps};
}

/* The largest number whose silu is at most `limit`, by bisection. */
static float silu_inverse(float limit)
{
    float low = 0, high = limit + 1;

    for (int i = 0; i < 60; i++) {
        float x = (low + high) / 2;
        if (sp_siluf(x) <= limit)
            low = x;
        else
            high = x;
    }
    return low;
}

static void set_limits(const struct sp_config *c, struct sp_layer *l)
{
    for (int i = 0; i < 2; i++) {
        float limit = (float)l->config->limits[i];
        l->limits[i].up = limit;
        l->limits[i].gate = c->silu_capped && limit != 0 ? silu_inverse(limit) : limit;
        if (c->activation == SP_SWIGLU_CAPPED)
            l->limits[i] = (struct sp_factor_limits){(float)c->softcaps[1], (float)c->softcaps[0]};
    }
}

/* Binds the experts of each token, which must exist and differ. */
static void bind_token_experts(struct binder *b, struct sp_layer *l, unsigned i)
{
    size_t n_used = l->config->n_experts_used, n = b->model->config.n_vocab * n_used;

    l->token_experts = bind_bias(b, "@mlp.router.token_experts", i);
    for (size_t k = 0; l->token_experts && k < n; k++) {
        float id = l->token_experts[k];
        bool good = id >= 0 && id < (float)l->config->n_experts && id == (float)(unsigned)id;
        for (size_t before = k - k % n_used; before < k; before++)
            good = good && l->token_experts[before] != id;
        if (good) continue;
        b->status =
            sp_fail(b->err, SP_E_INPUT,
                    "layers.%u.mlp.router.token_experts[%zu] is not an expert, or again one", i, k);
        return;
    }
}

static void bind_affine(struct binder *b, struct sp_affine *a, const char *name, unsigned i)
{
    a->bias = bind_bias(b, join(name, "_bias").text, i);
    a->scale = bind_bias(b, join(name, "_scale").text, i);
}

static void bind_router_mlp(struct binder *b, struct sp_router_mlp *w, unsigned i)
{
    bind_linear(b, &w->w[0], &w->bias[0], "@mlp.router.down_proj", i);
    bind_linear(b, &w->w[1], &w->bias[1], "@mlp.router.fc1", i);
    bind_linear(b, &w->w[2], &w->bias[2], "@mlp.router.fc2", i);
    w->scale = bind_bias(b, "@mlp.router.state_scale", i);
    w->norm = bind_norm(b, "@mlp.router.norm.weight", i);
}

static void bind_ffn(struct binder *b, struct sp_layer *l, unsigned i)
{
    if (l->config->n_experts) {
        bind_router_mlp(b, &l->router_mlp, i);
        bind_linear(b, &l->router, &l->router_bias, "@mlp.router", i);
        l->router_correction = bind_bias(b, "@mlp.router.correction", i);
        bind_token_experts(b, l, i);
        bind_matrix(b, &l->latent_in, "@mlp.latent_in.weight", i);
        bind_matrix(b, &l->latent_out, "@mlp.latent_out.weight", i);
        bind_linear(b, &l->gate, &l->gate_bias, "@mlp.experts.gate_proj", i);
        bind_linear(b, &l->up, &l->up_bias, "@mlp.experts.up_proj", i);
        bind_linear(b, &l->down, &l->down_bias, "@mlp.experts.down_proj", i);
        bind_shared(b, l, i);
        return;
    }
    bind_linear(b, &l->gate, &l->gate_bias, "@mlp.gate_proj", i);
    bind_linear(b, &l->up, &l->up_bias, "@mlp.up_proj", i);
    bind_linear(b, &l->down, &l->down_bias, "@mlp.down_proj", i);
    l->down_norm = bind_norm(b, "@mlp.inner_norm.weight", i);
    if (b->model->config.activation == SP_XIELU) bind_xielu(b, &l->xielu, i);
}

static void bind_convolutions(struct binder *b, struct sp_layer *l, unsigned i)
{
    l->attention_conv.base = bind_bias(b, "@attention_conv.base_kernel", i);
    bind_matrix(b, &l->attention_conv.dynamic, "@attention_conv.kernel_projection.weight", i);
    l->ffn_conv.base = bind_bias(b, "@mlp_conv.base_kernel", i);
    bind_matrix(b, &l->ffn_conv.dynamic, "@mlp_conv.kernel_projection.weight", i);
}

static void bind_unit(struct binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    double root = sqrt((double)c->n_hidden);

    if (c->unit.init == 0) return;
    l->rates[0] = bind_scales(b, "@attention_rate", i, c->unit.rate, 0);
    l->rates[1] = bind_scales(b, "@mlp_rate", i, c->unit.rate, 0);
    l->q_scales = bind_scales(b, "@self_attn.q_scale", i, sqrt((double)l->config->head_dim), 2);
    l->output_gate_scales = bind_scales(b, "@self_attn.gate_scale", i, sqrt(root), 2);
    l->gate_scales = bind_scales(b, "@mlp.gate_scale", i, root * c->unit.init, 1);
    l->up_scales = bind_scales(b, "@mlp.up_scale", i, root * c->unit.init, 1);
}

/* Binds the adapter B A of a matrix of a block. */
static void bind_adapter(struct binder *b, const struct sp_matrix *w, const char *left,
                         const char *right, unsigned layer)
{
    const struct sp_pack_tensor *l = find(b, left, layer), *r = find(b, right, layer);
    size_t rank = b->model->config.block_rank, n = w->rows * rank;
    struct sp_lora_product p = {sizeof p, left, w->rows, w->cols, rank, NULL, NULL};
    float *factors = NULL;

    if (l == NULL || r == NULL) return;
    if (!(b->status = sp_new(&factors, n + rank * w->cols, sizeof *factors, b->err))) {
        sp_decode_floats(factors, l->dtype, l->data, n);
        sp_decode_floats(factors + n, r->dtype, r->data, rank * w->cols);
        p.left = factors;
        p.right = factors + n;
        b->status = sp_lora_products_add(&b->model->adapters, w, &p, NULL, b->err);
    }
    free(factors);
    b->model->max_lora_rank = rank;
}

static void bind_block(struct binder *b, struct sp_layer *l, unsigned i)
{
    l->pair_norm = bind_norm(b, "@pair_norm.weight", i);
    bind_matrix(b, &l->block_out, "@block.out_proj.weight", i);
    bind_adapter(b, &l->gate, "@block.gate.B", "@block.mlp.A", i);
    bind_adapter(b, &l->up, "@block.up.B", "@block.mlp.A", i);
    bind_adapter(b, &l->q, "@block.q.B", "@block.q.A", i);
    bind_adapter(b, &l->k, "@block.k.B", "@block.k.A", i);
    bind_adapter(b, &l->v, "@block.v.B", "@block.v.A", i);
}

static void bind_layer(struct binder *b, struct sp_layer *l, unsigned i)
{
    enum sp_norms norms = b->model->config.layers[i].norms;
    unsigned mixers = b->model->config.layers[i].mixers;

    l->config = &b->model->config.layers[i];
    l->input_norm = bind_norm(b, "@input_layernorm.weight", i);
    l->input_norm_bias = bind_bias(b, "@input_layernorm.bias", i);
    if (l->input_norm == NULL) l->input_norm = bind_norm(b, "@q_input_layernorm.weight", i);
    l->kv_input_norms[0] = bind_norm(b, "@k_input_layernorm.weight", i);
    l->kv_input_norms[1] = bind_norm(b, "@v_input_layernorm.weight", i);
    l->queries[0] = bind_bias(
        b, l->config->own_kv_inputs ? "@attention_input.queries" : "@attention_input.query", i);
    l->queries[1] = bind_bias(b, "@mlp_input.query", i);
    if (norms == SP_NORM_PRE || norms == SP_NORM_PRE_POST || norms == SP_NORM_TWIN) {
        l->ffn_norm = bind_scaled(b, "@post_attention_layernorm.weight", i,
                                  b->model->config.n_hidden, b->model->config.ffn_in_scale);
        l->ffn_norm_bias = bind_bias(b, "@post_attention_layernorm.bias", i);
    } else {
        l->attention_post = bind_norm(b, "@post_attention_layernorm.weight", i);
        l->ffn_norm = bind_norm(b, "@pre_feedforward_layernorm.weight", i);
        l->attention_post_bias = bind_bias(b, "@post_attention_layernorm.bias", i);
        l->ffn_post_bias = bind_bias(b, "@post_feedforward_layernorm.bias", i);
    }
    l->ffn_post = bind_norm(b, "@post_feedforward_layernorm.weight", i);
    bind_matrix(b, &l->input_gate.down, "@input_gate.down_proj.weight", i);
    bind_matrix(b, &l->input_gate.up, "@input_gate.up_proj.weight", i);
    bind_matrix(b, &l->ffn_gate.down, "@ffn_gate.down_proj.weight", i);
    bind_matrix(b, &l->ffn_gate.up, "@ffn_gate.up_proj.weight", i);
    bind_ffn(b, l, i);
    set_limits(&b->model->config, l);
    bind_per_layer(b, l, i);
    if (b->model->config.n_streams) bind_altup(b, l, i);
    bind_hyper(b, &l->hyper[0], "@attention_streams.", "@attention_streams.hc_", i);
    bind_hyper(b, &l->hyper[1], "@mlp_streams.", "@mlp_streams.hc_", i);
    bind_ngrams(b, &l->ngrams, i);
    bind_convolutions(b, l, i);
    bind_affine(b, &l->affine[0][0], "@post_attention_residual_scale.hidden_states", i);
    bind_affine(b, &l->affine[0][1], "@post_attention_residual_scale.residual", i);
    bind_affine(b, &l->affine[1][0], "@post_mlp_residual_scale.hidden_states", i);
    bind_affine(b, &l->affine[1][1], "@post_mlp_residual_scale.residual", i);
    bind_residual(b, l, i);
    bind_relative(b, l, i);
    bind_messages(b, l, i);
    if (mixers & SP_MIXER_ATTENTION) bind_attention(b, l, i);
    if (mixers & SP_MIXER_CCA) bind_cca(b, l, i);
    if (mixers & SP_MIXER_DELTA_NET) bind_delta(b, &l->delta, i);
    if (mixers & SP_MIXER_SHORT_CONV) bind_short_conv(b, &l->short_conv, i);
    if (mixers & SP_MIXER_MAMBA) bind_mamba(b, &l->mamba, i);
    bind_block(b, l, i);
    bind_unit(b, l, i);
}

static void bind_dspark(struct binder *b, struct sp_dspark_weights *w)
{
    bool rnn = b->model->config.draft.dspark.markov == SP_MARKOV_RNN;

    bind_matrix(b, &w->embedding, "markov_head.markov_w1.weight", 0);
    bind_matrix(b, &w->correction, "markov_head.markov_w2.weight", 0);
    bind_linear(b, &w->gate, &w->gate_bias,
                rnn ? "markov_head.joint_proj" : "markov_head.gate_proj", 0);
    bind_linear(b, &w->confidence, &w->confidence_bias, "confidence_head.proj", 0);
}

/* Binds the table of learned positions, and adds a type of tokens to each row. A model without the
 * table has the type alone, one row. */
static const float *bind_positions(struct binder *b, size_t type)
{
    const float *positions = bind_bias(b, "embed_positions.weight", 0);
    const float *types = bind_bias(b, "embed_token_types.weight", 0);
    size_t n_hidden = b->model->config.n_hidden;
    size_t n = (size_t)b->model->config.n_positions_table * n_hidden;
    float *sum = NULL;

    if (positions == NULL && types) return types + type * n_hidden;
    if (positions == NULL || types == NULL || (b->status = keep_vector(b, &sum, n)))
        return positions;
    for (size_t i = 0; i < n; i++)
        sum[i] = positions[i] + types[type * n_hidden + i % n_hidden];
    return sum;
}

/* The table of sinusoidal positions: sines of all frequencies, then their cosines. Source:
 * XGLMSinusoidalPositionalEmbedding in transformers 5.24. */
static const float *make_positions(struct binder *b)
{
    const struct sp_config *c = &b->model->config;
    size_t n = c->n_hidden, half = n / 2;
    float *table = NULL, *steps = NULL;

    if (b->status || (b->status = keep_vector(b, &table, n * c->n_positions_table))) return NULL;
    if ((b->status = keep_vector(b, &steps, half))) return NULL;
    for (size_t i = 0; i < half; i++)
        steps[i] = sp_expf(-(float)i * (float)(sp_log(10000) / (double)(half - 1)));
    for (size_t pos = 0; pos < c->n_positions_table; pos++)
        sp_rope_row(table + pos * n + half, table + pos * n, steps, half, 1, pos);
    return table;
}

/* The slopes of ALiBi. Without a power of two of heads, the heads behind those of the next smaller
 * one have the slopes between. */
static const float *make_slopes(struct binder *b)
{
    const struct sp_config *c = &b->model->config;
    unsigned n = c->layers[0].n_heads, power = 1;
    float *slopes = NULL;

    if (c->alibi == 0 || b->status || (b->status = keep_vector(b, &slopes, n))) return NULL;
    while (2 * power <= n)
        power *= 2;
    for (unsigned h = 0; h < n; h++) {
        double step = h < power ? h + 1 : h - power + 0.5;
        slopes[h] = (float)sp_pow(2, -c->alibi * step / power);
        if (c->alibi_rounded) slopes[h] = sp_round_bf16(slopes[h]);
    }
    return slopes;
}

static void bind_pooling(struct binder *b, struct sp_model *m)
{
    char name[64];

    for (unsigned i = 0; i < m->config.pooling.n_dense; i++) {
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u", i);
        bind_linear(b, &m->dense[i], &m->dense_bias[i], name, 0);
        snprintf(name, sizeof name, SP_DENSE_PREFIX "%u.norm.weight", i);
        m->dense_norm[i] = bind_bias(b, name, 0);
    }
}

static enum sp_status bind_all(struct sp_model *m, const struct sp_pack *pack, struct sp_err *err)
{
    struct binder b = {.pack = pack, .model = m, .err = err};

    m->message_queries[0] = bind_bias(&b, "middle_cycle_cross_pass_queries", 0);
    m->message_queries[1] = bind_bias(&b, "middle_cycle_cross_pass_kv_queries", 0);
    for (unsigned i = 0; i < m->config.n_layers; i++)
        bind_layer(&b, &m->layers[i], i);
    m->final_query = bind_bias(&b, "final_input.query", 0);
    m->start = bind_bias(&b, "loop_start", 0);
    m->norm = bind_vector(&b, "norm.weight", 0, !m->config.final_unshifted);
    m->norm_bias = bind_bias(&b, "norm.bias", 0);
    m->embedding_norm = bind_norm(&b, "embed_norm.weight", 0);
    m->embedding_norm_bias = bind_bias(&b, "embed_norm.bias", 0);
    bind_affine(&b, &m->embedding_affine, "input_hidden_states", 0);
    m->positions = m->config.sinusoidal ? make_positions(&b) : bind_positions(&b, 0);
    if (m->config.pooling.pair.second_type && m->config.n_token_types > 1)
        m->second_positions = bind_positions(&b, 1);
    m->slopes = make_slopes(&b);
    m->rope_alpha = bind_bias(&b, "rope_alpha", 0);
    bind_matrix(&b, &m->embedding, "embed_tokens.weight", 0);
    bind_linear(&b, &m->head, &m->head_bias, "lm_head", 0);
    if (m->config.padded_head) {
        m->head.rows = m->config.n_vocab;
        m->head.n_panels = (m->head.rows + SP_PANEL_ROWS - 1) / SP_PANEL_ROWS;
    }
    if (m->head.rows == 0) m->head = m->embedding;
    m->head_scales = bind_scales(&b, "lm_head.scale", 0, 1, 1);
    bind_matrix(&b, &m->head_dense, "lm_head.dense.weight", 0);
    m->head_norm = bind_norm(&b, "lm_head.norm.weight", 0);
    m->head_norm_bias = bind_bias(&b, "lm_head.norm.bias", 0);
    bind_matrix(&b, &m->per_layer_embedding, "embed_tokens_per_layer.weight", 0);
    bind_matrix(&b, &m->per_layer_projection, "per_layer_model_projection.weight", 0);
    m->per_layer_norm = bind_norm(&b, "per_layer_projection_norm.weight", 0);
    bind_matrix(&b, &m->fc, "fc.weight", 0);
    m->hidden_norm = bind_norm(&b, "hidden_norm.weight", 0);
    m->feature_norm =
        bind_norm(&b, m->config.draft.taps_normed ? "fc_norm.weight" : "input_norm.weight", 0);
    m->mask_hidden = bind_bias(&b, "mask_hidden", 0);
    m->token_map = bind_bias(&b, "d2t", 0);
    m->pair_norms[0] = bind_norm(&b, "pre_fc_norm_embedding.weight", 0);
    m->pair_norms[1] = bind_norm(&b, "pre_fc_norm_hidden.weight", 0);
    if (m->fc.rows == 0) bind_matrix(&b, &m->fc, "pre_projection.weight", 0);
    bind_matrix(&b, &m->post, "post_projection.weight", 0);
    bind_matrix(&b, &m->centroids, "masked_embedding.centroids.weight", 0);
    m->token_order = bind_bias(&b, "masked_embedding.token_ordering", 0);
    bind_matrix(&b, &m->selector.hidden, "candidate_selector.hidden_projection.weight", 0);
    bind_matrix(&b, &m->selector.predecessors, "candidate_selector.predecessor_codebook", 0);
    bind_matrix(&b, &m->selector.successors, "candidate_selector.successor_codebook", 0);
    bind_dspark(&b, &m->dspark);
    bind_pooling(&b, m);
    bind_streams(&b, m);
    bind_hyper(&b, &m->hyper, "streams.", "streams.hc_head_", 0);
    return b.status;
}

enum sp_status sp_model_open(struct sp_model **out, const struct sp_pack *pack, enum sp_part part,
                             struct sp_err *err)
{
    struct sp_model *m = NULL;
    enum sp_status st;

    if ((st = sp_new(&m, 1, sizeof *m, err))) goto done;
    m->part = part;
    if ((st = sp_config_of_pack(&m->config, pack, part, err))) goto done;
    if ((st = check_tensors(pack, part, &m->config, err))) goto done;
    if ((st = sp_arena_new(&m->memory, &m->layers, m->config.n_layers, sizeof *m->layers, err)))
        goto done;
    if ((st = bind_all(m, pack, err))) goto done;
    *out = m;
    m = NULL;
done:
    sp_model_close(m);
    return st;
}

void sp_model_set_matrix(struct sp_model *model, size_t i, struct sp_matrix w)
{
    struct sp_matrix *bound = model->matrices[i].w;

    if (bound == &model->embedding && model->head.panels == bound->panels) model->head = w;
    *bound = w;
}

void sp_model_close(struct sp_model *model)
{
    if (model == NULL) return;
    sp_arena_release(&model->memory);
    free(model->matrices);
    sp_lora_products_release(&model->adapters);
    sp_config_release(&model->config);
    free(model);
}
