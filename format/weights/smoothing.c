#include "format/weights/smoothing.h"

#include "format/base/affix.h"
#include "format/base/mem.h"
#include "format/pack_contents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LETTER = 'a'; /* of -SP_MAX_EXPONENT */

enum sp_status sp_smoothing_add(struct sp_smoothing *smoothing, const char *name,
                                const int8_t *exponents, size_t n, struct sp_err *err)
{
    struct sp_smoothed_norm added = {.n = n};
    enum sp_status st;

    st = sp_grow(&smoothing->norms, &smoothing->cap, smoothing->n + 1, sizeof *smoothing->norms,
                 err);
    if (st || (st = sp_new(&added.exponents, n, 1, err))) return st;
    if ((st = sp_copy_text(&added.name, name, strlen(name), err))) {
        free(added.exponents);
        return st;
    }
    memcpy(added.exponents, exponents, n);
    smoothing->norms[smoothing->n++] = added;
    return SP_OK;
}

void sp_smoothing_release(struct sp_smoothing *smoothing)
{
    for (size_t i = 0; i < smoothing->n; i++) {
        free(smoothing->norms[i].name);
        free(smoothing->norms[i].exponents);
    }
    free(smoothing->norms);
    *smoothing = (struct sp_smoothing){0};
}

const struct sp_smoothed_norm *sp_smoothing_find(const struct sp_smoothing *smoothing,
                                                 const char *name)
{
    for (size_t i = 0; i < smoothing->n; i++)
        if (strcmp(smoothing->norms[i].name, name) == 0) return &smoothing->norms[i];
    return NULL;
}

/* ---- text ---- */

/* Turns letters into exponents in place; false if one is no exponent's. */
static bool read_letters(int8_t *exponents, const char *letters, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int e = letters[i] - FIRST_LETTER - SP_MAX_EXPONENT;
        if (e < -SP_MAX_EXPONENT || e > SP_MAX_EXPONENT) return false;
        exponents[i] = (int8_t)e;
    }
    return true;
}

bool sp_smoothing_is_norm(const char *name)
{
    static const char ending[] = "norm.weight";
    size_t n = strlen(name), n_ending = sizeof ending - 1;

    return n < SP_NORM_NAME && n > n_ending && strcmp(name + n - n_ending, ending) == 0;
}

static enum sp_status read_norm(struct sp_smoothing *out, const char *name,
                                const struct sp_json *value, struct sp_err *err)
{
    enum sp_status st;
    size_t n = 0;
    const char *letters = sp_json_to_string(value, &n);
    int8_t *exponents = NULL;

    if (letters && !sp_smoothing_is_norm(name)) letters = NULL;
    if ((st = sp_new(&exponents, n, 1, err))) return st;
    if (letters && read_letters(exponents, letters, n)) {
        st = sp_smoothing_add(out, name, exponents, n, err);
    } else {
        st = sp_fail(
            err, SP_E_INPUT,
            "smoothing of %.96s: expected a norm, and a text of the letters a to o, one per column",
            name);
    }
    free(exponents);
    return st;
}

enum sp_status sp_smoothing_read(struct sp_smoothing *out, const struct sp_json *object,
                                 struct sp_err *err)
{
    struct sp_smoothing made = {0};
    struct sp_json_iter it = {0};
    enum sp_status st = SP_OK;

    *out = (struct sp_smoothing){0};
    if (object == NULL) return SP_OK;
    if (sp_json_kind(object) != SP_JSON_OBJECT)
        return sp_fail(err, SP_E_INPUT, "smoothing is not an object");
    while (!st && sp_json_next(object, &it))
        st = read_norm(&made, it.key, it.value, err);
    if (st) {
        sp_smoothing_release(&made);
        return st;
    }
    *out = made;
    return SP_OK;
}

enum sp_status sp_smoothing_of_pack(struct sp_smoothing *out, const struct sp_pack *pack,
                                    struct sp_err *err)
{
    struct sp_json *object = NULL;
    struct sp_text text;
    enum sp_status st;

    *out = (struct sp_smoothing){0};
    st = sp_pack_read_section(pack, SP_PART_TARGET, SP_SECTION_SMOOTHING, &text, err);
    if (st || text.at == NULL) return st;
    st = sp_json_parse_within(&object, text.at, text.size, SP_JSON_STRICT, SP_JSON_SETTINGS, err);
    if (!st) st = sp_smoothing_read(out, object, err);
    if (st) {
        sp_context(err, "%s: section %s", sp_pack_path(pack),
                   sp_section_name(SP_SECTION_SMOOTHING));
    }
    sp_json_free(object);
    free(text.at);
    return st;
}

void sp_smoothing_print(struct sp_json_out *out, const struct sp_smoothing *smoothing)
{
    for (size_t i = 0; i < smoothing->n; i++) {
        const struct sp_smoothed_norm *norm = &smoothing->norms[i];
        sp_json_out_raw(out, i ? "," : "{");
        sp_json_out_quoted(out, norm->name, strlen(norm->name));
        sp_json_out_raw(out, ":\"");
        for (size_t k = 0; k < norm->n; k++)
            sp_json_out_print(out, "%c", FIRST_LETTER + SP_MAX_EXPONENT + norm->exponents[k]);
        sp_json_out_raw(out, "\"");
    }
    sp_json_out_raw(out, smoothing->n ? "}" : "{}");
}

/* ---- what reads a norm ---- */

static const char mixer_inputs[] =
    "self_attn.q_proj.weight self_attn.k_proj.weight self_attn.v_proj.weight "
    "self_attn.v_delayed.weight "
    "self_attn.q_a_proj.weight self_attn.kv_a_proj_with_mqa.weight self_attn.gate_proj.weight "
    "self_attn.head_gate.weight self_attn.indexer.wk.weight input_gate.down_proj.weight "
    "self_attn.indexer.weights_proj.weight self_attn.indexer.pool_gate.weight "
    "self_attn.indexer.q_proj.weight self_attn.kv_proj.weight self_attn.r_proj.weight "
    "self_attn.sink_proj.weight "
    "self_attn.compressor.kv_proj.weight self_attn.compressor.gate_proj.weight "
    "self_attn.indexer.compressor.kv_proj.weight self_attn.indexer.compressor.gate_proj.weight "
    "linear_attn.in_proj_qkv.weight "
    "linear_attn.in_proj_z.weight linear_attn.in_proj_b.weight linear_attn.in_proj_a.weight "
    "conv.in_proj.weight mamba.in_proj_z.weight mamba.in_proj_xbc.weight mamba.in_proj_dt.weight";

static const char mlp_inputs[] =
    "mlp.gate_proj.weight mlp.up_proj.weight mlp.router.weight mlp.experts.gate_proj.weight "
    "mlp.experts.up_proj.weight mlp.shared_expert.gate_proj.weight "
    "mlp.shared_expert.up_proj.weight mlp.shared_expert_gate.weight ffn_gate.down_proj.weight";

/* The norm before the mixers or the MLP of a layer; NULL: none whose output is only multiplied by
 * matrices. */
static const char *norm_of(const struct sp_config *config, const struct sp_layer_config *layer,
                           const char *matrix)
{
    bool is_first = layer == config->layers;

    if (layer->stream_scales[0] != 0 || config->n_streams || sp_layer_has_block(layer) ||
        layer->own_kv_inputs || config->hyper.rank)
        return NULL; /* others read the norm, or there is none */
    if (sp_is_among(matrix, mixer_inputs)) {
        if (layer->norms == SP_NORM_POST || layer->norms == SP_NORM_RESIDUAL) return NULL;
        if (layer->reads_pair || (config->first_unnormed && is_first)) return NULL;
        if (config->index.normed_input && !layer->shares_index) return NULL; /* which norms it */
        return "input_layernorm";
    }
    if (!sp_is_among(matrix, mlp_inputs) || layer->n_ffn == 0) return NULL;
    if (layer->n_experts && (config->routing.n_zero || config->n_latent))
        return NULL; /* some choices return the norm, or experts do not read it */
    switch (layer->norms) {
    case SP_NORM_PRE:
    case SP_NORM_PRE_POST:
    case SP_NORM_TWIN:
        return "post_attention_layernorm";
    case SP_NORM_SANDWICH: /* with norms of experts, router and experts read other rows */
        return config->expert_norms ? NULL : "pre_feedforward_layernorm";
    case SP_NORM_PARALLEL:
        return "input_layernorm";
    default:
        return NULL;
    }
}

bool sp_smoothing_norm_of(char out[SP_NORM_NAME], const struct sp_config *config,
                          const char *matrix)
{
    static const char prefix[] = "layers.";
    const char *norm;
    char *end = NULL;
    unsigned long layer;

    if (config->norm_weightless || config->draft.kind != SP_DRAFT_NONE) return false;
    if (strncmp(matrix, prefix, sizeof prefix - 1) != 0) return false;
    layer = strtoul(matrix + sizeof prefix - 1, &end, 10);
    if (layer >= config->n_layers || *end != '.') return false;
    norm = norm_of(config, &config->layers[layer], end + 1);
    if (norm == NULL) return false;
    snprintf(out, SP_NORM_NAME, "layers.%lu.%s.weight", layer, norm);
    return true;
}

bool sp_smoothing_scales(const char *norm, const struct sp_config *config, const char *tensor)
{
    size_t stem = strlen(norm) - strlen("weight");
    char read[SP_NORM_NAME];

    if (sp_smoothing_norm_of(read, config, tensor)) return strcmp(read, norm) == 0;
    return strncmp(tensor, norm, stem) == 0 &&
           (strcmp(tensor + stem, "weight") == 0 || strcmp(tensor + stem, "bias") == 0);
}

const struct sp_smoothed_norm *sp_smoothing_of(const struct sp_smoothing *smoothing,
                                               const struct sp_config *config, const char *tensor)
{
    for (size_t i = 0; i < smoothing->n; i++)
        if (sp_smoothing_scales(smoothing->norms[i].name, config, tensor))
            return &smoothing->norms[i];
    return NULL;
}

/* ---- scaling ---- */

void sp_smoothing_apply(float *x, size_t n, enum sp_role role, const struct sp_config *config,
                        const int8_t *exponents, size_t cols, bool back)
{
    bool is_vector = role == SP_ROLE_NORM || role == SP_ROLE_BIAS;
    float shift = role == SP_ROLE_NORM && config->norm_shifted ? 1 : 0;
    int sign = is_vector != back ? -1 : 1;

    for (float *row = x; row < x + n; row += cols)
        for (size_t k = 0; k < cols; k++)
            row[k] = (row[k] + shift) * sp_power_of_two(sign * exponents[k]) - shift;
}
