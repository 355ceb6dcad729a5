/* The tensors of a layer's mixer, attention of every kind and what replaces it, and of residual
 * streams. */
#include "runtime/model/binder.h"

#include "runtime/vector/fmath.h"
#include "runtime/vector/rng.h"

#include <math.h>

/* The decays of lightning attention: e^-s, s = 2^(-8 (h + 1) / n) (1 - layer / (layers - 1 + 1e-5)
 * + 1e-5). */
static const float *make_decays(struct sp_binder *b, unsigned layer)
{
    unsigned n = b->model->config.delta.n_value_heads;
    double factor = 1 - layer / (b->model->config.n_layers - 1 + 1e-5) + 1e-5;
    float *decays = sp_bind_room(b, n);

    for (unsigned h = 0; decays && h < n; h++)
        decays[h] = (float)sp_exp(-sp_pow(2, -8.0 * (h + 1) / n) * factor);
    return decays;
}

void sp_bind_delta(struct sp_binder *b, struct sp_delta_weights *w, unsigned i)
{
    const struct sp_delta_config *c = &b->model->config.delta;
    size_t channels =
        2 * (size_t)c->n_key_heads * c->key_dim + (size_t)c->n_value_heads * c->value_dim;

    sp_bind_matrix(b, &w->qkv, "@linear_attn.in_proj_qkv.weight", i);
    sp_bind_matrix(b, &w->z, "@linear_attn.in_proj_z.weight", i);
    sp_bind_matrix(b, &w->b, "@linear_attn.in_proj_b.weight", i);
    sp_bind_matrix(b, &w->a, "@linear_attn.in_proj_a.weight", i);
    sp_bind_matrix(b, &w->up_z, "@linear_attn.up_proj_z.weight", i);
    sp_bind_matrix(b, &w->up_a, "@linear_attn.up_proj_a.weight", i);
    sp_bind_matrix(b, &w->out, "@linear_attn.out_proj.weight", i);
    w->conv = sp_bind_taps(b, "@linear_attn.conv1d.weight", i, channels, c->kernel);
    w->a_log = sp_bind_bias(b, "@linear_attn.A_log", i);
    w->dt_bias = sp_bind_bias(b, "@linear_attn.dt_bias", i);
    w->norm = sp_bind_bias(b, "@linear_attn.norm.weight", i);
    if (c->lightning) w->decays = make_decays(b, i);
}

void sp_bind_short_conv(struct sp_binder *b, struct sp_short_conv_weights *w, unsigned i)
{
    const struct sp_config *c = &b->model->config;

    sp_bind_linear(b, &w->in, &w->in_bias, "@conv.in_proj", i);
    sp_bind_linear(b, &w->out, &w->out_bias, "@conv.out_proj", i);
    w->taps = sp_bind_taps(b, "@conv.conv.weight", i, c->n_hidden, c->short_conv.kernel);
    w->bias = sp_bind_bias(b, "@conv.conv.bias", i);
}

/* Binds the taps of one of the convolutions that add what they convolve. Where rows make taps, too,
 * the stored ones begin with that of the row itself. */
static float *bind_residual_taps(struct sp_binder *b, unsigned layer, enum sp_layer_conv which,
                                 size_t width)
{
    static const char *const names[SP_LAYER_CONVS] = {"@self_attn.k_sconv", "@self_attn.v_sconv",
                                                      "@attn_sconv", "@mlp_sconv"};
    size_t n = b->model->config.n_residual_taps;
    const float *fixed = sp_bind_bias(b, sp_join_name(names[which], ".static_weight").text, layer);
    float *taps;

    if (fixed == NULL)
        return sp_bind_taps(b, sp_join_name(names[which], ".conv1d.weight").text, layer, width, n);
    taps = sp_bind_room(b, n * width);
    for (size_t i = 0; taps && i < n; i++)
        memcpy(taps + i * width, fixed + (n - 1 - i) * width, width * sizeof *taps);
    return taps;
}

void sp_bind_residual(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    const char *name = l->config->n_experts ? "@mlp.router.global_scale" : "@mlp.global_scale";
    const float *scale = sp_bind_bias(b, name, i);
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
    sp_bind_matrix(b, &l->dynamic_taps[0], "@self_attn.k_sconv.weight_proj.weight", i);
    sp_bind_matrix(b, &l->dynamic_taps[1], "@self_attn.v_sconv.weight_proj.weight", i);
}

void sp_bind_messages(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    static const char *const names[4] = {"@controllers.attn.", "@controllers.k.", "@controllers.v.",
                                         "@controllers.mlp."};
    const struct sp_config *c = &b->model->config;
    unsigned number = i - l->config->repeats - c->first_looped;

    for (unsigned k = 0; k < 4 && c->message_rank && number < c->n_looped; k++) {
        struct sp_message_weights *w = &l->messages[k];
        sp_bind_matrix(b, &w->down, sp_join_name(names[k], "down_weight").text, i);
        sp_bind_matrix(b, &w->forget, sp_join_name(names[k], "forget_weight").text, i);
        sp_bind_matrix(b, &w->gain, sp_join_name(names[k], "gain_weight").text, i);
        w->query = b->model->message_queries[k == 1 || k == 2];
        if (w->query) w->query += (2 * number + k / 2) * (size_t)c->n_hidden;
    }
}

void sp_bind_relative(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    const float *stored = sp_bind_bias(b, "@self_attn.rel_logits_proj.proj", i);
    size_t extent = l->config->window ? l->config->window : c->rel_extent;
    size_t n = c->rel_dim * extent;
    float *profiles;

    sp_bind_matrix(b, &l->relative.mix, "@self_attn.r_proj.weight", i);
    l->relative.scales = sp_bind_bias(b, "@self_attn.r_clip.scale", i);
    if (stored == NULL || (profiles = sp_bind_room(b, n)) == NULL) return;
    for (size_t k = 0; k < n; k++)
        profiles[k] = stored[k / extent * extent + extent - 1 - k % extent];
    l->relative.profiles = profiles;
    l->relative.extent = extent;
}

/* Folds the scales of x, B and C into the taps by which they are multiplied. */
static float *bind_mamba_taps(struct sp_binder *b, const struct sp_mamba_config *c, unsigned layer)
{
    size_t values = (size_t)c->n_heads * c->head_dim, keys = (size_t)c->n_groups * c->state_dim;
    size_t channels = c->step_rank ? values : values + 2 * keys;
    float *taps = sp_bind_taps(b, "@mamba.conv1d.weight", layer, channels, c->kernel);

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
static const float *bind_rates(struct sp_binder *b, size_t n, unsigned layer)
{
    const float *stored = sp_bind_bias(b, "@mamba.A_log", layer);
    float *rates = stored ? sp_bind_room(b, n) : NULL;

    for (size_t i = 0; rates && i < n; i++)
        rates[i] = -sp_expf(stored[i]);
    return rates;
}

void sp_bind_mamba(struct sp_binder *b, struct sp_mamba_weights *w, unsigned i)
{
    const struct sp_mamba_config *c = &b->model->config.mamba;

    sp_bind_linear(b, &w->z, &w->z_bias, "@mamba.in_proj_z", i);
    sp_bind_linear(b, &w->xbc, &w->xbc_bias, "@mamba.in_proj_xbc", i);
    sp_bind_linear(b, &w->dt, &w->in_dt_bias, "@mamba.in_proj_dt", i);
    sp_bind_linear(b, &w->out, &w->out_bias, "@mamba.out_proj", i);
    w->taps = bind_mamba_taps(b, &b->model->config.mamba, i);
    w->conv_bias = sp_bind_bias(b, "@mamba.conv1d.bias", i);
    sp_bind_matrix(b, &w->x, "@mamba.x_proj.weight", i);
    sp_bind_matrix(b, &w->up, "@mamba.dt_proj.weight", i);
    w->dt_norm = sp_bind_bias(b, "@mamba.dt_layernorm.weight", i);
    w->b_norm = sp_bind_bias(b, "@mamba.b_layernorm.weight", i);
    w->c_norm = sp_bind_bias(b, "@mamba.c_layernorm.weight", i);
    if (c->step_rank)
        w->rates = bind_rates(b, (size_t)c->n_heads * c->head_dim * c->state_dim, i);
    else
        w->a_log = sp_bind_bias(b, "@mamba.A_log", i);
    w->d = sp_bind_bias(b, "@mamba.D", i);
    w->dt_bias = sp_bind_bias(b, "@mamba.dt_bias", i);
    w->norm = sp_bind_norm(b, "@mamba.norm.weight", i);
}

static void bind_ssmax(struct sp_binder *b, struct sp_ssmax_weights *w, const char *name,
                       unsigned i)
{
    w->scale = sp_bind_bias(b, sp_join_name(name, ".ssmax_scaling.s").text, i);
    w->bias = sp_bind_bias(b, sp_join_name(name, ".ssmax_scaling.b").text, i);
}

static void bind_latent(struct sp_binder *b, struct sp_latent_weights *w, unsigned i)
{
    const struct sp_config *config = &b->model->config;
    const struct sp_latent_config *c = sp_config_latent(config, &config->layers[i]);

    sp_bind_linear(b, &w->q_a, &w->q_bias, "@self_attn.q_a_proj", i);
    sp_bind_matrix(b, &w->q_b, "@self_attn.q_b_proj.weight", i);
    sp_bind_matrix(b, &w->gate_b, "@self_attn.gate_b_proj.weight", i);
    sp_bind_linear(b, &w->kv_a, &w->kv_bias, "@self_attn.kv_a_proj_with_mqa", i);
    sp_bind_matrix(b, &w->k_b, "@self_attn.k_b_proj.weight", i);
    sp_bind_matrix(b, &w->v_b, "@self_attn.v_b_proj.weight", i);
    w->q_norm = sp_bind_scaled(b, "@self_attn.q_a_layernorm.weight", i, c->q_rank, c->q_scale);
    w->kv_norm = sp_bind_scaled(b, "@self_attn.kv_a_layernorm.weight", i, c->kv_rank, c->kv_scale);
    w->key_norm = sp_bind_norm(b, "@self_attn.k_rope_norm.weight", i);
    bind_ssmax(b, &w->ssmax, "@self_attn", i);
}

static void bind_compressor(struct sp_binder *b, struct sp_compressor *w, const char *name,
                            unsigned i)
{
    sp_bind_matrix(b, &w->kv, sp_join_name(name, ".kv_proj.weight").text, i);
    sp_bind_matrix(b, &w->gate, sp_join_name(name, ".gate_proj.weight").text, i);
    w->bias = sp_bind_bias(b, sp_join_name(name, ".position_bias").text, i);
    w->norm = sp_bind_norm(b, sp_join_name(name, ".norm.weight").text, i);
}

static void bind_compressed(struct sp_binder *b, struct sp_compressed_weights *w, unsigned i)
{
    sp_bind_matrix(b, &w->q_a, "@self_attn.q_a_proj.weight", i);
    sp_bind_matrix(b, &w->q_b, "@self_attn.q_b_proj.weight", i);
    sp_bind_matrix(b, &w->kv, "@self_attn.kv_proj.weight", i);
    sp_bind_matrix(b, &w->o_a, "@self_attn.o_a_proj.weight", i);
    w->q_norm = sp_bind_norm(b, "@self_attn.q_a_layernorm.weight", i);
    w->kv_norm = sp_bind_norm(b, "@self_attn.kv_norm.weight", i);
    bind_compressor(b, &w->compressors[0], "@self_attn.compressor", i);
    bind_compressor(b, &w->compressors[1], "@self_attn.indexer.compressor", i);
}

static void bind_index(struct sp_binder *b, struct sp_index_weights *w, unsigned i)
{
    sp_bind_matrix(b, &w->q, "@self_attn.indexer.wq_b.weight", i);
    w->input_norm = sp_bind_norm(b, "@self_attn.indexer.q_input_norm.weight", i);
    w->input_norm_bias = sp_bind_bias(b, "@self_attn.indexer.q_input_norm.bias", i);
    bind_ssmax(b, &w->ssmax, "@self_attn.indexer", i);
    sp_bind_matrix(b, &w->q, "@self_attn.indexer.q_proj.weight", i);
    sp_bind_matrix(b, &w->k, "@self_attn.indexer.wk.weight", i);
    sp_bind_matrix(b, &w->weights, "@self_attn.indexer.weights_proj.weight", i);
    sp_bind_matrix(b, &w->pool_gate, "@self_attn.indexer.pool_gate.weight", i);
    w->pool_bias = sp_bind_bias(b, "@self_attn.indexer.pool_bias", i);
    w->q_norm = sp_bind_norm(b, "@self_attn.indexer.q_norm.weight", i);
    w->k_norm = sp_bind_norm(b, "@self_attn.indexer.k_norm.weight", i);
    w->k_norm_bias = sp_bind_bias(b, "@self_attn.indexer.k_norm.bias", i);
}

/* Binds a vector of heads, each of whose elements is repeated for n dims of the queries. */
static const float *bind_heads(struct sp_binder *b, const char *name, unsigned i, size_t n)
{
    const struct sp_layer_config *l = &b->model->config.layers[i];
    const float *heads = sp_bind_bias(b, name, i);
    size_t n_all = (size_t)l->n_heads * l->head_dim;
    float *repeated = heads ? sp_bind_room(b, n_all) : NULL;

    for (size_t k = 0; repeated && k < n_all; k++)
        repeated[k] = heads[k / n];
    return repeated;
}

/* The scale of a key multiplies the queries of its heads instead. */
void sp_bind_cca(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    const struct sp_layer_config *c = l->config;

    l->cca.taps = sp_bind_bias(b, "@self_attn.conv_qk_depthwise.weight", i);
    l->cca.bias = sp_bind_bias(b, "@self_attn.conv_qk_depthwise.bias", i);
    sp_bind_linear(b, &l->cca.mix, &l->cca.mix_bias, "@self_attn.conv_qk_grouped", i);
    sp_bind_matrix(b, &l->cca.delayed, "@self_attn.v_delayed.weight", i);
    l->q_scales =
        bind_heads(b, "@self_attn.key_scale", i, c->n_heads / c->n_kv_heads * (size_t)c->head_dim);
}

void sp_bind_attention(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    sp_bind_linear(b, &l->q, &l->q_bias, "@self_attn.q_proj", i);
    sp_bind_matrix(
        b, &l->output_gate,
        l->config->head_gate ? "@self_attn.head_gate.weight" : "@self_attn.gate_proj.weight", i);
    sp_bind_linear(b, &l->k, &l->k_bias, "@self_attn.k_proj", i);
    sp_bind_linear(b, &l->v, &l->v_bias, "@self_attn.v_proj", i);
    sp_bind_linear(b, &l->o, &l->o_bias, "@self_attn.o_proj", i);
    l->output_gate_bias = b->model->config.gate_biases
                              ? bind_heads(b, "@self_attn.gate_bias", i, l->config->head_dim)
                              : sp_bind_bias(b, "@self_attn.gate_proj.bias", i);
    l->hidden_norm = sp_bind_norm(b, "@hidden_norm.weight", i);
    l->q_norm = sp_bind_norm(b, "@self_attn.q_norm.weight", i);
    if (l->q_norm == NULL) l->q_norm = sp_bind_bias(b, "@self_attn.q_clip.scale", i);
    sp_bind_matrix(b, &l->sink_proj, "@self_attn.sink_proj.weight", i);
    l->k_norm = sp_bind_norm(b, "@self_attn.k_norm.weight", i);
    l->q_norm_bias = sp_bind_bias(b, "@self_attn.q_norm.bias", i);
    l->k_norm_bias = sp_bind_bias(b, "@self_attn.k_norm.bias", i);
    l->sinks = sp_bind_bias(b, "@self_attn.sinks", i);
    l->o_norm = sp_bind_norm(b, "@self_attn.inner_norm.weight", i);
    if (b->model->config.compressed.q_rank)
        bind_compressed(b, &l->compressed, i);
    else
        bind_latent(b, &l->latent, i);
    bind_index(b, &l->index, i);
}

/* ---- residual streams ---- */

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

void sp_bind_altup(struct sp_binder *b, struct sp_layer *l, unsigned i)
{
    struct sp_altup_weights *w = &l->altup;

    sp_bind_matrix(b, &w->router, "@altup.modality_router.weight", i);
    sp_bind_matrix(b, &w->left, "@laurel.linear_left.weight", i);
    sp_bind_matrix(b, &w->right, "@laurel.linear_right.weight", i);
    w->router_norm = sp_bind_norm(b, "@altup.router_norm.weight", i);
    w->laurel_norm = sp_bind_norm(b, "@laurel.post_laurel_norm.weight", i);
    w->output_scale = sp_bind_bias(b, "@altup.correct_output_scale", i);
    w->predict = sp_bind_bias(b, "@altup.prediction_coefs.weight", i);
    w->correct = sp_bind_bias(b, "@altup.correction_coefs.weight", i);
    if (l->config->sparsity > 0) w->cutoff = (float)normal_quantile(l->config->sparsity);
}

void sp_bind_ngrams(struct sp_binder *b, struct sp_ngram_weights *w, unsigned i)
{
    const struct sp_config *c = &b->model->config;
    unsigned table = c->layers[i].ngrams;
    uint64_t half = (UINT64_MAX >> 1) / c->n_vocab / 2;

    if (table == 0) return;
    sp_bind_matrix(b, &w->table, "@ple.table.weight", i);
    sp_bind_matrix(b, &w->key, "@ple.key_proj.weight", i);
    sp_bind_matrix(b, &w->value, "@ple.value_proj.weight", i);
    w->key_norm = sp_bind_norm(b, "@ple.norm_key.weight", i);
    w->query_norm = sp_bind_norm(b, "@ple.norm_query.weight", i);
    w->conv_norm = sp_bind_norm(b, "@ple.norm_conv.weight", i);
    w->taps = sp_bind_taps(b, "@ple.conv1d.weight", i, (size_t)c->hyper.n_streams * c->n_hidden,
                           c->ngrams.kernel);
    (void)sp_ngram_rows(w->rows, &c->ngrams, table);
    for (unsigned k = 0; k < c->ngrams.longest; k++)
        w->factors[k] = 2 * (sp_rng_bits(c->ngrams.seed + 10007 * (table - 1), k + 1) % half) + 1;
}
