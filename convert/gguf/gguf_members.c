/* The rules by which members of config.json are made of metadata and tensors. Constants that the
 * files do not hold are those of llama.cpp's model loader and of transformers' classes. */
#include "convert/gguf/gguf_members.h"

#include "convert/gguf/gguf_experts.h"
#include "convert/gguf/gguf_layers.h"
#include "convert/gguf/gguf_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- one key, one member ---- */

static enum sp_status put_nothing(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    (void)w;
    (void)m;
    return SP_OK;
}

static enum sp_status put_default(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    return m->otherwise ? sp_gguf_put_word(w, m->published, m->otherwise) : SP_OK;
}

static enum sp_status put_size(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    if (!sp_gguf_has(w, m->key)) return put_default(w, m);
    return sp_gguf_copy_size(w, m->key, m->published);
}

static enum sp_status put_float(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    if (!sp_gguf_has(w, m->key)) return put_default(w, m);
    return sp_gguf_copy_float(w, m->key, m->published);
}

static enum sp_status put_has(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    bool has = sp_gguf_has_in_layers(w->model, m->key);

    return sp_gguf_put_bool(w, m->published, has == (m->rule == SP_PUT_HAS));
}

static enum sp_status put_rows(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t rows = sp_gguf_rows_of(w, m->key);

    return rows ? sp_gguf_put_integer(w, m->published, rows) : SP_OK;
}

/* ---- attention ---- */

static enum sp_status put_window(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    static const char key[] = "attention.sliding_window", published[] = "sliding_window";
    uint64_t window = 0;
    enum sp_status st;

    if (!sp_gguf_has(w, key) && m->otherwise) return sp_gguf_put_word(w, published, m->otherwise);
    st = sp_gguf_get_size(&window, w, key);
    return st || window == 0 ? st : sp_gguf_put_integer(w, published, window);
}

static enum sp_status put_no_window(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    (void)m;
    if (!sp_gguf_has(w, "attention.sliding_window")) return SP_OK;
    return sp_fail(w->err, SP_E_UNSUPPORTED, "%s.attention.sliding_window is not supported",
                   w->model->arch->name);
}

/* True or false for each layer, or the number of layers of which one has no window. */
static enum sp_status put_pattern(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    static const char key[] = "attention.sliding_window_pattern";
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    enum sp_status st;

    (void)m;
    sp_gguf_key(name, w, key);
    v = sp_gguf_find(w->model->file, name);
    if (v == NULL || !v->is_array) return sp_gguf_copy_size(w, key, "sliding_window_pattern");
    if (v->type == SP_GGUF_STRING || v->type == SP_GGUF_F32 || v->type == SP_GGUF_F64)
        return sp_fail(w->err, SP_E_INPUT, "%s is not a list of booleans", name);
    st = sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < v->n && !st; i++) {
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         sp_gguf_integer_at(v, i) ? "sliding_attention" : "full_attention");
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* Half of a head rotates if the file does not say or, with a default of 1, the whole, of which the
 * class needs no word. */
static enum sp_status put_rotary(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t head, rotated;
    enum sp_status st;

    if ((st = sp_gguf_head_size(&head, w))) return st;
    rotated = m->otherwise ? head : head / 2;
    if ((st = sp_gguf_get_size(&rotated, w, "rope.dimension_count"))) return st;
    if (m->otherwise && (rotated == 0 || rotated >= head)) return SP_OK;
    if (head == 0 || rotated > head)
        return sp_fail(w->err, SP_E_INPUT, "%s.rope.dimension_count is larger than a head",
                       w->model->arch->name);
    return sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

/* A file that does not state whether attention rotates is of a model in which it does. */
static enum sp_status put_rotates(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    bool rotates = true;
    enum sp_status st;

    (void)m;
    if ((st = sp_gguf_read_bool(&rotates, w, "rope.scaling.finetuned"))) return st;
    return sp_gguf_put_word(w, "position_embedding_type", rotates ? "\"rope\"" : "null");
}

/* A layer rotates by the one base or, where rope_pattern says so, not at all. */
static enum sp_status put_thetas(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    double theta = 1e4;
    enum sp_status st;

    (void)m;
    if ((st = sp_gguf_read_float(&theta, w, "rope.freq_base"))) return st;
    if ((st = sp_gguf_put_word(w, "layer_rope_theta", "["))) return st;
    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        uint64_t rotates = 1;
        if ((st = sp_gguf_get_layer_size(&rotates, w, "attention.rope_pattern", i))) return st;
        if (i && (st = sp_json_put(&w->text, w->err, ", "))) return st;
        st = sp_json_put_f32(&w->text, rotates ? (float)theta : 0, w->err);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* ---- Gemma 2 and 3 ---- */

/* query_pre_attn_scalar is the head's size, but in the largest model hidden size / heads. */
static enum sp_status put_scalar(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t scalar, layers, hidden, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&scalar, w, "attention.key_length"))) return st;
    if ((st = sp_gguf_need_size(&layers, w, "block_count"))) return st;
    if ((st = sp_gguf_need_size(&hidden, w, "embedding_length"))) return st;
    if ((st = sp_gguf_need_size(&heads, w, "attention.head_count"))) return st;
    if (layers == strtoul(m->otherwise, NULL, 10) && heads) scalar = hidden / heads;
    return sp_gguf_put_integer(w, m->published, scalar);
}

static enum sp_status put_embeds(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    (void)m;
    return w->model->arch->embeds ? sp_gguf_put_bool(w, "use_bidirectional_attention", true)
                                  : SP_OK;
}

/* ---- encoders ---- */

/* The head has two layers. The first is BERT's pooler, too, which llama.cpp's converter leaves out.
 */
static enum sp_status put_labels(struct sp_gguf_writer *w)
{
    uint64_t labels = sp_gguf_rows_of(w, "cls.output.weight");

    if (labels && sp_gguf_find_tensor(w->model->file, "cls.weight"))
        return sp_gguf_put_integer(w, "num_labels", labels);
    return sp_fail(w->err, SP_E_UNSUPPORTED,
                   "tensor %s is missing: a reranker's head has two layers, of which converters "
                   "leave out BERT's pooler; its safetensors checkpoint has both",
                   labels ? "cls.weight" : "cls.output.weight");
}

static enum sp_status put_bert(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t types = sp_gguf_rows_of(w, "token_types.weight");
    enum sp_status st = SP_OK;

    (void)m;
    if (types) st = sp_gguf_put_integer(w, "type_vocab_size", types);
    return st || !sp_gguf_is_classifier(w->model) ? st : put_labels(w);
}

/* llama.cpp's head of ModernBERT reads the mean of all tokens, whatever the checkpoint says. */
static enum sp_status put_modernbert_head(struct sp_gguf_writer *w)
{
    enum sp_status st = put_labels(w);

    if (!st) {
        st = sp_gguf_put_bool(w, "classifier_bias",
                              sp_gguf_find_tensor(w->model->file, "cls.bias") != NULL);
    }
    return st ? st : sp_gguf_put_word(w, "classifier_pooling", "\"mean\"");
}

/* The window counts the tokens on both sides. */
static enum sp_status put_modernbert(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    uint64_t width;
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    enum sp_status st;

    sp_gguf_key(key, w, pattern);
    v = sp_gguf_find(w->model->file, key);
    if ((st = sp_gguf_need_size(&width, w, "attention.sliding_window"))) return st;
    if ((st = sp_gguf_put_integer(w, "local_attention", width))) return st;
    if ((st = sp_gguf_copy_float(w, "rope.freq_base", "global_rope_theta"))) return st;
    if ((st = sp_gguf_copy_float(w, "rope.freq_base_swa", "local_rope_theta"))) return st;
    st = v && v->is_array ? put_pattern(w, m)
                          : sp_gguf_copy_size(w, pattern, "global_attn_every_n_layers");
    return st || !sp_gguf_is_classifier(w->model) ? st : put_modernbert_head(w);
}

/* ---- all ---- */

enum { MAX_KEYS = 8 };

/* The keys are those that no member of a row names and that are not common to all families. */
static const struct {
    sp_gguf_put_fn *put;
    const char *keys[MAX_KEYS];
} rules[SP_PUT_N] = {
    [SP_PUT_NOTHING] = {put_nothing, {NULL}},
    [SP_PUT_SIZE] = {put_size, {NULL}},
    [SP_PUT_FLOAT] = {put_float, {NULL}},
    [SP_PUT_WORD] = {put_default, {NULL}},
    [SP_PUT_HAS] = {put_has, {NULL}},
    [SP_PUT_LACKS] = {put_has, {NULL}},
    [SP_PUT_ROWS] = {put_rows, {NULL}},
    [SP_PUT_WINDOW] = {put_window, {NULL}},
    [SP_PUT_PATTERN] = {put_pattern, {NULL}},
    [SP_PUT_ROTARY] = {put_rotary, {NULL}},
    [SP_PUT_NORM_TOPK] = {sp_gguf_put_norm_topk,
                          {"expert_gating_func", "expert_weights_norm", "nextn_predict_layers"}},
    [SP_PUT_EXPERTS] = {sp_gguf_put_experts, {NULL}},
    [SP_PUT_ROUTED] = {sp_gguf_put_routed,
                       {"expert_gating_func", "expert_group_count", "expert_group_used_count",
                        "expert_shared_count", "expert_weights_norm", "expert_weights_scale",
                        "leading_dense_block_count", "nextn_predict_layers"}},
    [SP_PUT_SIGMOID] = {sp_gguf_put_sigmoid, {NULL}},
    [SP_PUT_SELECTION] = {sp_gguf_put_selection, {NULL}},
    [SP_PUT_MLP_TYPES] = {sp_gguf_put_mlp_types, {NULL}},
    [SP_PUT_LAST_MOE] = {sp_gguf_put_last_moe, {NULL}},
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

enum sp_status sp_gguf_put_members(struct sp_gguf_writer *w)
{
    const struct sp_gguf_member *m = w->model->family.gguf.members;
    enum sp_status st = SP_OK;

    for (; m && m->rule && !st; m++)
        st = rules[m->rule].put(w, m);
    return st;
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
