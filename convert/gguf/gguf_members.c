/* The rules by which members of config.json are made of metadata and tensors. Constants that the
 * files do not hold are those of llama.cpp's model loader and of transformers' classes. */

#include "convert/gguf/gguf_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one key, one member ---- */

static void put_value(struct sp_gguf_writer *w)
{
    const struct sp_gguf_member *m = w->member;
    uint64_t rows;

    switch (m->rule) {
    case SP_PUT_FLAG:
        sp_gguf_put_bool(w, m->published, sp_gguf_flag(w, m->key, m->otherwise[0] == 't'));
        break;
    case SP_PUT_UNLESS:
        sp_gguf_put_bool(w, m->published,
                         sp_gguf_size(w, m->key, 0) != strtoul(m->otherwise, NULL, 10));
        break;
    case SP_PUT_HAS:
    case SP_PUT_LACKS:
        sp_gguf_put_bool(w, m->published,
                         sp_gguf_has_in_layers(w->model, m->key) == (m->rule == SP_PUT_HAS));
        break;
    case SP_PUT_ROWS:
        rows = sp_gguf_rows_of(w, m->key);
        if (rows) sp_gguf_put_integer(w, m->published, rows);
        break;
    default: /* a size, a float, a word */
        if (m->otherwise && (m->rule == SP_PUT_WORD || !sp_gguf_has(w, m->key)))
            sp_gguf_put_word(w, m->published, m->otherwise);
        if (m->rule == SP_PUT_SIZE) sp_gguf_copy_size(w, m->key, m->published);
        if (m->rule == SP_PUT_FLOAT) sp_gguf_copy_float(w, m->key, m->published);
    }
}

/* Rounded to four digits, as configs state them; minus infinity stands for none. */
static void put_sparsity(struct sp_gguf_writer *w)
{
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v = NULL;

    sp_gguf_key(name, w, w->member->key);
    (void)!sp_gguf_get_array(w->model->file, name, SP_GGUF_F32, &v, &w->err);
    if (w->err.status || v == NULL) return;
    sp_gguf_put_word(w, w->member->published, "[");
    for (uint64_t i = 0; i < v->n; i++) {
        double part = erfc(-sp_gguf_number_at(v, i) / sqrt(2)) / 2;
        sp_json_out_print(&w->out, "%s%.4f", i ? ", " : "", part);
    }
    sp_json_out_raw(&w->out, "]");
}

/* ---- attention ---- */

static void put_window(struct sp_gguf_writer *w)
{
    uint64_t window = sp_gguf_size(w, "attention.sliding_window", 0);

    if (!sp_gguf_has(w, "attention.sliding_window") && w->member->otherwise)
        sp_gguf_put_word(w, "sliding_window", w->member->otherwise);
    if (window) sp_gguf_put_integer(w, "sliding_window", window);
}

static void put_no_window(struct sp_gguf_writer *w)
{
    if (sp_gguf_has(w, "attention.sliding_window"))
        sp_fail(&w->err, SP_E_UNSUPPORTED, "%s.attention.sliding_window is not supported",
                w->model->arch->name);
}

/* True or false for each layer, or the number of layers of which one has no window. */
static void put_pattern(struct sp_gguf_writer *w)
{
    static const char key[] = "attention.sliding_window_pattern";
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;

    sp_gguf_key(name, w, key);
    v = sp_gguf_find(w->model->file, name);
    if (v == NULL || !v->is_array) {
        sp_gguf_copy_size(w, key,
                          w->member->rule == SP_PUT_MODERNBERT ? "global_attn_every_n_layers"
                                                               : "sliding_window_pattern");
        return;
    }
    if (v->type == SP_GGUF_STRING || v->type == SP_GGUF_F32 || v->type == SP_GGUF_F64) {
        sp_fail(&w->err, SP_E_INPUT, "%s is not a list of booleans", name);
        return;
    }
    sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < v->n; i++) {
        sp_json_out_print(&w->out, "%s\"%s\"", i ? ", " : "",
                          sp_gguf_integer_at(v, i) ? "sliding_attention" : "full_attention");
    }
    sp_json_out_raw(&w->out, "]");
}

/* Half of a head rotates if the file does not say or, with a default of 1, the whole, of which the
 * class needs no word. */
static void put_rotary(struct sp_gguf_writer *w)
{
    uint64_t head = sp_gguf_head_size(w);
    uint64_t rotated =
        sp_gguf_size(w, "rope.dimension_count", w->member->otherwise ? head : head / 2);

    if (w->member->otherwise && (rotated == 0 || rotated >= head)) return;
    if (head == 0 || rotated > head) {
        sp_fail(&w->err, SP_E_INPUT, "%s.rope.dimension_count is larger than a head",
                w->model->arch->name);
    }
    sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

/* A file that does not state whether attention rotates is of a model in which it does. */
static void put_rotates(struct sp_gguf_writer *w)
{
    bool rotates = sp_gguf_flag(w, "rope.scaling.finetuned", true);

    sp_gguf_put_word(w, "position_embedding_type", rotates ? "\"rope\"" : "null");
}

/* A layer rotates by the one base or, where rope_pattern says so, not at all. */
static void put_thetas(struct sp_gguf_writer *w)
{
    double theta = sp_gguf_number(w, "rope.freq_base", 1e4);

    sp_gguf_put_word(w, "layer_rope_theta", "[");
    for (uint64_t i = 0; i < w->model->n_layers && !w->err.status; i++) {
        sp_json_out_raw(&w->out, i ? ", " : "");
        sp_json_out_f32(&w->out,
                        sp_gguf_layer_size(w, "attention.rope_pattern", i, 1) ? (float)theta : 0);
    }
    sp_json_out_raw(&w->out, "]");
}

/* ---- Gemma 2 and 3 ---- */

/* query_pre_attn_scalar is the head's size, but in the largest model hidden size / heads. */
static void put_scalar(struct sp_gguf_writer *w)
{
    uint64_t scalar = sp_gguf_need_size(w, "attention.key_length");
    uint64_t layers = sp_gguf_need_size(w, "block_count");
    uint64_t hidden = sp_gguf_need_size(w, "embedding_length");
    uint64_t heads = sp_gguf_need_size(w, "attention.head_count");

    if (layers == strtoul(w->member->otherwise, NULL, 10) && heads) scalar = hidden / heads;
    sp_gguf_put_integer(w, w->member->published, scalar);
}

static void put_embeds(struct sp_gguf_writer *w)
{
    if (w->model->arch->embeds) sp_gguf_put_bool(w, "use_bidirectional_attention", true);
}

/* ---- encoders ---- */

/* The head has two layers. The first is BERT's pooler, which llama.cpp's converter leaves out. */
static void put_labels(struct sp_gguf_writer *w)
{
    uint64_t labels = sp_gguf_rows_of(w, "cls.output.weight");

    sp_gguf_put_integer(w, "num_labels", labels);
    if (labels && sp_gguf_find_tensor(w->model->file, "cls.weight")) return;
    sp_fail(&w->err, SP_E_UNSUPPORTED,
            "tensor %s is missing: a reranker's head has two layers, of which converters leave out "
            "BERT's pooler; its safetensors checkpoint has both",
            labels ? "cls.weight" : "cls.output.weight");
}

static void put_bert(struct sp_gguf_writer *w)
{
    uint64_t types = sp_gguf_rows_of(w, "token_types.weight");

    if (types) sp_gguf_put_integer(w, "type_vocab_size", types);
    if (sp_gguf_is_classifier(w->model)) put_labels(w);
}

/* The window counts the tokens on both sides. llama.cpp's head reads the mean of all tokens,
 * whatever the checkpoint says. */
static void put_modernbert(struct sp_gguf_writer *w)
{
    sp_gguf_put_integer(w, "local_attention", sp_gguf_need_size(w, "attention.sliding_window"));
    sp_gguf_copy_float(w, "rope.freq_base", "global_rope_theta");
    sp_gguf_copy_float(w, "rope.freq_base_swa", "local_rope_theta");
    put_pattern(w);
    if (!sp_gguf_is_classifier(w->model)) return;
    put_labels(w);
    sp_gguf_put_bool(w, "classifier_bias", sp_gguf_find_tensor(w->model->file, "cls.bias") != NULL);
    sp_gguf_put_word(w, "classifier_pooling", "\"mean\"");
}

/* ---- experts ---- */

/* expert_gating_func; the last one is a softmax over the chosen experts. */
enum { SOFTMAX = 1, SIGMOID = 2, SOFTMAX_WEIGHT = 3 };

/* Old files do not state widths, which are those of the first layer. */
static void put_experts(struct sp_gguf_writer *w)
{
    uint64_t width = sp_gguf_rows_of(w, "blk.0.ffn_up_exps.weight");
    uint64_t shared = sp_gguf_rows_of(w, "blk.0.ffn_up_shexp.weight");

    if (!sp_gguf_has(w, "expert_count")) return;
    sp_gguf_copy_size(w, "expert_count", "num_experts");
    sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok");
    width = sp_gguf_size(w, "expert_feed_forward_length", width);
    sp_gguf_put_integer(w, "moe_intermediate_size", width);
    if (shared) sp_gguf_put_integer(w, "shared_expert_intermediate_size", shared);
}

static void put_norm(struct sp_gguf_writer *w, bool norm)
{
    sp_gguf_put_bool(w, "norm_topk_prob", sp_gguf_flag(w, "expert_weights_norm", norm));
}

static void put_norm_topk(struct sp_gguf_writer *w)
{
    if (sp_gguf_has(w, "expert_count")) put_norm(w, w->member->otherwise[0] == 't');
}

static bool has_experts(const struct sp_gguf_writer *w, uint64_t layer)
{
    return sp_gguf_layer_has(w, layer, "ffn_gate_inp");
}

/* Which layers have experts follows from the tensors. */
static void put_mlp_types(struct sp_gguf_writer *w)
{
    sp_gguf_put_word(w, "mlp_layer_types", "[");
    for (uint64_t i = 0; i < w->model->n_layers; i++) {
        sp_json_out_print(&w->out, "%s\"%s\"", i ? ", " : "",
                          has_experts(w, i) ? "sparse" : "dense");
    }
    sp_json_out_raw(&w->out, "]");
}

static void put_last_moe(struct sp_gguf_writer *w)
{
    uint64_t last = w->model->n_layers;

    while (last > 0 && !has_experts(w, last - 1))
        last--;
    if (last > 0) sp_gguf_put_integer(w, "moe_layer_end_index", last - 1);
}

static void put_sigmoid(struct sp_gguf_writer *w)
{
    uint64_t law = sp_gguf_size(w, "expert_gating_func", SIGMOID);

    if (law == SIGMOID) return;
    sp_fail(&w->err, SP_E_UNSUPPORTED,
            "%s.expert_gating_func is %" PRIu64 ", expected %d (sigmoid)", w->model->arch->name,
            law, SIGMOID);
}

/* Layers have a window by a list. A pattern that is a number counts from another layer than
 * transformers does, and no converter writes it. */
static void put_selection(struct sp_gguf_writer *w)
{
    uint64_t law = sp_gguf_size(w, "expert_gating_func", SIGMOID);
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *pattern;

    sp_gguf_key(key, w, "attention.sliding_window_pattern");
    pattern = sp_gguf_find(w->model->file, key);
    if (pattern == NULL || !pattern->is_array)
        sp_fail(&w->err, SP_E_UNSUPPORTED, "%s is not a list of booleans", key);
    if (law != SIGMOID && law != SOFTMAX_WEIGHT) {
        sp_fail(&w->err, SP_E_UNSUPPORTED,
                "%s.expert_gating_func is %" PRIu64
                ", expected %d (sigmoid) or %d (softmax of the chosen experts)",
                w->model->arch->name, law, SIGMOID, SOFTMAX_WEIGHT);
    }
    sp_gguf_put_word(w, "expert_selection_fn", law == SIGMOID ? "\"sigmoid\"" : "\"softmax\"");
}

/* ---- DeepSeek ---- */

/* How experts are chosen. A file that does not state it is of a model with a softmax, or with
 * sigmoids if it has corrections of their scores. */
static void check_law(struct sp_gguf_writer *w, bool corrected)
{
    uint64_t want = corrected ? SIGMOID : SOFTMAX;
    uint64_t law = sp_gguf_size(w, "expert_gating_func", want);

    if (law == want || law == 0) return;
    sp_fail(&w->err, SP_E_UNSUPPORTED,
            "%s.expert_gating_func is %" PRIu64 ", expected %" PRIu64 " (%s)", w->model->arch->name,
            law, want,
            corrected ? "sigmoid, as exp_probs_b corrects its scores"
                      : "softmax, as nothing corrects its scores");
}

static void put_routed(struct sp_gguf_writer *w)
{
    static const struct {
        const char *key, *published;
        uint64_t otherwise; /* the size that a missing key stands for */
    } sizes[] = {
        {"expert_count", "n_routed_experts", 0},
        {"expert_used_count", "num_experts_per_tok", 0},
        {"expert_feed_forward_length", "moe_intermediate_size", 0},
        {"expert_shared_count", "n_shared_experts", 0},
        {"expert_group_count", "n_group", 1},
        {"expert_group_used_count", "topk_group", 1},
        {"leading_dense_block_count", "first_k_dense_replace", 0},
        {"nextn_predict_layers", "num_nextn_predict_layers", 0},
    };
    bool corrected = sp_gguf_has_in_layers(w->model, "exp_probs_b");
    uint64_t groups;

    if (!sp_gguf_has(w, "expert_count")) return;
    check_law(w, corrected);
    groups = sp_gguf_size(w, "expert_group_count", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sp_gguf_put_integer(w, sizes[i].published,
                            sp_gguf_size(w, sizes[i].key, sizes[i].otherwise));
    }
    if (!corrected)
        sp_gguf_put_word(w, "topk_method", groups > 1 ? "\"group_limited_greedy\"" : "\"greedy\"");
    put_norm(w, false);
    sp_gguf_put_float(w, "routed_scaling_factor", sp_gguf_number(w, "expert_weights_scale", 1));
}

/* ---- all ---- */

enum { MAX_KEYS = 8 };

/* The keys are those that no member of a row names and that are not common to all families. */
static const struct {
    sp_gguf_put_fn *put;
    const char *keys[MAX_KEYS];
} rules[SP_PUT_N] = {
    [SP_PUT_NOTHING] = {NULL, {NULL}},
    [SP_PUT_SIZE] = {put_value, {NULL}},
    [SP_PUT_FLOAT] = {put_value, {NULL}},
    [SP_PUT_WORD] = {put_value, {NULL}},
    [SP_PUT_FLAG] = {put_value, {NULL}},
    [SP_PUT_UNLESS] = {put_value, {NULL}},
    [SP_PUT_SPARSITY] = {put_sparsity, {NULL}},
    [SP_PUT_HAS] = {put_value, {NULL}},
    [SP_PUT_LACKS] = {put_value, {NULL}},
    [SP_PUT_ROWS] = {put_value, {NULL}},
    [SP_PUT_WINDOW] = {put_window, {NULL}},
    [SP_PUT_PATTERN] = {put_pattern, {NULL}},
    [SP_PUT_ROTARY] = {put_rotary, {NULL}},
    [SP_PUT_NORM_TOPK] = {put_norm_topk,
                          {"expert_gating_func", "expert_weights_norm", "nextn_predict_layers"}},
    [SP_PUT_EXPERTS] = {put_experts, {NULL}},
    [SP_PUT_ROUTED] = {put_routed,
                       {"expert_gating_func", "expert_group_count", "expert_group_used_count",
                        "expert_shared_count", "expert_weights_norm", "expert_weights_scale",
                        "leading_dense_block_count", "nextn_predict_layers"}},
    [SP_PUT_SIGMOID] = {put_sigmoid, {NULL}},
    [SP_PUT_SELECTION] = {put_selection, {NULL}},
    [SP_PUT_MLP_TYPES] = {put_mlp_types, {NULL}},
    [SP_PUT_LAST_MOE] = {put_last_moe, {NULL}},
    [SP_PUT_LATENT] = {sp_gguf_put_latent,
                       {"attention.key_length_mla", "attention.kv_lora_rank",
                        "attention.q_lora_rank", "attention.value_length_mla"}},
    [SP_PUT_DELTA] = {sp_gguf_put_delta,
                      {"attention.recurrent_layers", "full_attention_interval",
                       "nextn_predict_layers", "rope.dimension_sections"}},
    [SP_PUT_MAMBA] = {sp_gguf_put_mamba, {NULL}},
    [SP_PUT_BY_HEADS] = {sp_gguf_put_by_heads, {NULL}},
    [SP_PUT_SUBLAYERS] = {sp_gguf_put_sublayers, {NULL}},
    [SP_PUT_ROTATES] = {put_rotates, {NULL}},
    [SP_PUT_THETAS] = {put_thetas, {"attention.rope_pattern"}},
    [SP_PUT_NO_WINDOW] = {put_no_window, {NULL}},
    [SP_PUT_SCALAR] = {put_scalar, {NULL}},
    [SP_PUT_EMBEDS] = {put_embeds,
                       {"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in",
                        "dense_3_feat_out"}},
    [SP_PUT_GEMMA4] = {sp_gguf_put_gemma4, {"attention.shared_kv_layers"}},
    [SP_PUT_BERT] = {put_bert, {"classifier.output_labels"}},
    [SP_PUT_MODERNBERT] = {put_modernbert, {"classifier.output_labels"}},
};

void sp_gguf_put_members(struct sp_gguf_writer *w)
{
    w->member = w->model->family.gguf.members;
    for (; w->member && w->member->rule; w->member++)
        if (rules[w->member->rule].put) rules[w->member->rule].put(w);
}

bool sp_gguf_members_read(const struct sp_gguf_model *model, const char *key)
{
    const struct sp_gguf_member *m = model->family.gguf.members;

    for (; m && m->rule; m++) {
        if (m->key && strcmp(m->key, key) == 0) return true;
        if ((m->rule == SP_PUT_DELTA || m->rule == SP_PUT_MAMBA) && strncmp(key, "ssm.", 4) == 0)
            return true;
        for (size_t k = 0; k < MAX_KEYS && rules[m->rule].keys[k]; k++)
            if (strcmp(rules[m->rule].keys[k], key) == 0) return true;
    }
    return false;
}
