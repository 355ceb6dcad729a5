/* Gemma 3n: AltUp's streams, LAuReL, sparse gates and per-layer embeddings. Source: its
 * configuration and modeling files in transformers 5.24. */
#include "format/config/config_text.h"
#include "format/family/families/families.h"
#include "format/family/family_parts.h"

#include <stdlib.h>
#include <string.h>

/* A number of layer i, of a list or of all layers. */
static void read_item(double *out, const struct sp_config_text *t, const char *key, unsigned i,
                      double min, double max)
{
    const struct sp_json *v = sp_text_get(t, key);

    if (v == NULL) return;
    if (sp_json_kind(v) == SP_JSON_ARRAY) v = sp_json_at(v, i);
    if (!sp_json_to_double(v, out) || !(*out >= min && *out <= max))
        SP_INVALID(t, "%s: layer %u has no number from %g to %g", key, i, min, max);
}

static void read_layer(struct sp_config *c, const struct sp_config_text *t, unsigned i)
{
    struct sp_layer_config *l = &c->layers[i];
    double width = l->n_ffn;

    l->sparsity = i < 10 && c->n_layers > 10 ? 0.95 : 0;
    read_item(&l->sparsity, t, "activation_sparsity_pattern", i, 0, 0.999);
    read_item(&width, t, "intermediate_size", i, 1, SP_CAP_WIDTH);
    if (!sp_text_failed(t)) l->n_ffn = (unsigned)width;
}

static void read_gemma3n(struct sp_config *c, const struct sp_config_text *t)
{
    unsigned active = 0, n_shared = 15;
    bool scaled = true;

    c->v_norm = true;
    c->n_per_layer = 256;
    c->n_per_layer_vocab = 262144;
    c->n_streams = 4;
    c->laurel_rank = 64;
    sp_text_unsigned(t, "hidden_size_per_layer_input", 1, SP_CAP_WIDTH, &c->n_per_layer);
    sp_text_unsigned(t, "vocab_size_per_layer_input", 1, SP_CAP_VOCAB, &c->n_per_layer_vocab);
    sp_text_unsigned(t, "altup_num_inputs", 2, SP_MAX_STREAMS, &c->n_streams);
    sp_text_unsigned(t, "altup_active_idx", 0, SP_MAX_STREAMS, &active);
    sp_text_bool(t, "altup_correct_scale", &scaled);
    sp_text_unsigned(t, "laurel_rank", 1, SP_CAP_WIDTH, &c->laurel_rank);
    sp_text_unsigned(t, "num_kv_shared_layers", 0, c->n_layers - 1, &n_shared);
    for (unsigned i = 0; i < c->n_layers; i++) {
        read_layer(c, t, i);
        if (i >= c->n_layers - n_shared) sp_family_share_keys(c, i, c->n_layers - n_shared, t);
    }
    if (active || !scaled || c->activation != SP_GELU_TANH)
        SP_REFUSED(t, "another altup_active_idx than 0, altup_correct_scale false and other "
                      "activations than gelu_pytorch_tanh are not supported");
}

/* GGUF files have the matrices of all streams in one tensor. */
static enum sp_status layout_stream(const struct sp_alias_source *s)
{
    const uint64_t n = s->spec->shape[0], shape[] = {s->match->config->n_streams - 1, n, n};
    const uint64_t stream = strtoul(strchr(s->spec->name, '.') + 1, NULL, 10);

    return sp_tensor_match_take(s, shape, 3, sp_rows(stream * n, n, n));
}

static const struct sp_alias gemma3n_aliases[] = {
    {"altup_projections.*", NULL, NULL, 0},
    {"altup_projections.*", "altup_projections.weight", layout_stream, 0},
    {"altup_unembed_projections.*", NULL, NULL, 0},
    {"altup_unembed_projections.*", "altup_unembed_projections.weight", layout_stream, 0},
    {0},
};

static const struct sp_gguf_member gguf_members[] = {
    {SP_PUT_SIZE, "hidden_size_per_layer_input", "embedding_length_per_layer_input", NULL},
    {SP_PUT_WINDOW, NULL, NULL, NULL},
    {SP_PUT_PATTERN, NULL, NULL, NULL},
    {SP_PUT_FLOAT, "rope_local_base_freq", "rope.freq_base_swa", "10000.0"},
    {SP_PUT_FLOAT, "final_logit_softcapping", "final_logit_softcapping", NULL},
    {SP_PUT_ROWS, "vocab_size_per_layer_input", "per_layer_token_embd.weight", NULL},
    {SP_PUT_ROWS, "laurel_rank", "blk.0.laurel_l.weight", NULL},
    {SP_PUT_SIZE, "num_kv_shared_layers", "attention.shared_kv_layers", NULL},
    {SP_PUT_SIZE, "altup_num_inputs", "altup.num_inputs", NULL},
    {SP_PUT_SIZE, "altup_active_idx", "altup.active_idx", NULL},
    {SP_PUT_SPARSITY, "activation_sparsity_pattern", "activation_sparsity_scale", NULL},
    {0},
};

static const struct sp_gguf_name gguf_names[] = {
    {"altup_proj", "altup_projections", SP_GGUF_AS_IS},
    {"altup_unembd_proj", "altup_unembed_projections", SP_GGUF_AS_IS},
    {"altup_correct_coef", "altup.correction_coefs", SP_GGUF_AS_IS},
    {"altup_correct_scale", "altup.correct_output_scale", SP_GGUF_BARE},
    {"altup_predict_coef", "altup.prediction_coefs", SP_GGUF_AS_IS},
    {"altup_router", "altup.modality_router", SP_GGUF_AS_IS},
    {"altup_router_norm", "altup.router_norm", SP_GGUF_AS_IS},
    {"laurel_l", "laurel.linear_left", SP_GGUF_AS_IS},
    {"laurel_r", "laurel.linear_right", SP_GGUF_AS_IS},
    {"laurel_post_norm", "laurel.post_laurel_norm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_family sp_families_gemma3n[] = {
    {
        .name = "gemma3n_text",
        .architecture = "Gemma3nForCausalLM",
        .sizes = {262400, 2048, 16384, 35, 8, 2, 256, 32768, 0},
        .ffn_key = "",
        .norms = SP_NORM_SANDWICH,
        .qk_norm = SP_QK_HEADS,
        .theta = 1e6,
        .local_theta = 1e4,
        .windows = SP_WINDOWS_PATTERN,
        .window = 512,
        .window_pattern = 5,
        SP_GEMMA_LAYERS(1),
        .logit_cap = 30,
        .reads = {.layer_types = true, .logit_cap = true},
        .read_own = read_gemma3n,
        .own_keys = "num_kv_shared_layers hidden_size_per_layer_input",
        .aliases = {gemma3n_aliases},
        .gguf = {.archs = {{.name = "gemma3n"}},
                 .members = gguf_members,
                 .names = gguf_names,
                 .sizes_per_layer = true},
    },
    {.name = NULL},
};
