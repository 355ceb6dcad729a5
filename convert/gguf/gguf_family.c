/* What config.json has in single families. Constants of an architecture that its files do not hold
 * are those of llama.cpp's model loader and of transformers' classes. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- parts that several families have ---- */

/* 0 means that no layer has a window, as an absent key does. */
enum sp_status sp_gguf_put_window(struct sp_gguf_writer *w)
{
    uint64_t window = 0;
    enum sp_status st = sp_gguf_get_size(&window, w, "attention.sliding_window");

    return st || window == 0 ? st : sp_gguf_put_integer(w, "sliding_window", window);
}

enum sp_status sp_gguf_put_window_pattern(struct sp_gguf_writer *w)
{
    static const char key[] = "attention.sliding_window_pattern";
    char name[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    enum sp_status st;

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

static enum sp_status write_phi3(struct sp_gguf_writer *w)
{
    uint64_t rotated = 0, hidden, heads, head;
    enum sp_status st;

    if ((st = sp_gguf_put_window(w)) ||
        (st = sp_gguf_get_size(&rotated, w, "rope.dimension_count")) ||
        (st = sp_gguf_need_size(&hidden, w, "embedding_length")) ||
        (st = sp_gguf_need_size(&heads, w, "attention.head_count")))
        return st;
    head = heads ? hidden / heads : 0;
    if (rotated == 0 || rotated >= head) return SP_OK;
    return sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

/* Without a window the class has one, and rotates in some layers only. */
enum sp_status sp_gguf_put_exaone4(struct sp_gguf_writer *w)
{
    enum sp_status st;

    if (!sp_gguf_has(w, "attention.sliding_window"))
        return sp_gguf_put_word(w, "sliding_window", "null");
    st = sp_gguf_put_window(w);
    return st ? st : sp_gguf_put_window_pattern(w);
}

/* The part of a head that rotates, half of it if the file does not say. */
enum sp_status sp_gguf_put_partial_rotary(struct sp_gguf_writer *w)
{
    uint64_t head, rotated;
    enum sp_status st;

    if ((st = sp_gguf_head_size(&head, w))) return st;
    rotated = head / 2;
    if ((st = sp_gguf_get_size(&rotated, w, "rope.dimension_count"))) return st;
    if (head == 0 || rotated > head)
        return sp_fail(w->err, SP_E_INPUT, "%s.rope.dimension_count is larger than a head",
                       w->model->arch->name);
    return sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

static enum sp_status write_cohere(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_copy_float(w, "logit_scale", "logit_scale");

    if (!st) {
        st =
            sp_gguf_put_bool(w, "use_qk_norm", sp_gguf_has_in_layers(w, "self_attn.q_norm.weight"));
    }
    return st ? st : sp_gguf_put_window(w);
}

/* With a window it is OLMo 3. */
static enum sp_status write_olmo2(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_window(w);

    return st ? st : sp_gguf_put_window_pattern(w);
}

static enum sp_status write_llama(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_experts(w, "num_local_experts");

    return st ? st : sp_gguf_put_window(w);
}

static enum sp_status write_smollm3(struct sp_gguf_writer *w)
{
    return sp_gguf_put_word(w, "no_rope_layer_interval", "4");
}

enum sp_status sp_gguf_put_granite(struct sp_gguf_writer *w)
{
    static const struct {
        const char *key, *published;
    } scales[] = {
        {"attention.scale", "attention_multiplier"},
        {"embedding_scale", "embedding_multiplier"},
        {"residual_scale", "residual_multiplier"},
        {"logit_scale", "logits_scaling"},
    };
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof scales / sizeof *scales && !st; i++)
        st = sp_gguf_copy_float(w, scales[i].key, scales[i].published);
    if (!st)
        st = sp_gguf_copy_size(w, "expert_shared_feed_forward_length", "shared_intermediate_size");
    return st ? st : sp_gguf_put_experts(w, "num_local_experts");
}

/* A layer rotates by the one base or, where rope_pattern says so, not at all. */
static enum sp_status write_granite_swa(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    double theta = 1e4;
    enum sp_status st;

    sp_gguf_key(key, w, "rope.freq_base");
    if ((st = sp_gguf_put_granite(w)) || (st = sp_gguf_put_window(w)) ||
        (st = sp_gguf_put_window_pattern(w)) ||
        (st = sp_gguf_get_float(w->model->file, key, &theta, w->err)) ||
        (st = sp_gguf_put_word(w, "layer_rope_theta", "[")))
        return st;
    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        uint64_t rotates = 1;
        if ((st = sp_gguf_get_layer_size(&rotates, w, "attention.rope_pattern", i))) return st;
        if (i && (st = sp_json_put(&w->text, w->err, ", "))) return st;
        st = sp_json_put_f32(&w->text, rotates ? (float)theta : 0, w->err);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

static enum sp_status write_olmo(struct sp_gguf_writer *w)
{
    return sp_gguf_copy_float(w, "attention.clamp_kqv", "clip_qkv");
}

/* Layers without a norm in front of the MLP have attention and MLP side by side. */
static enum sp_status write_stablelm(struct sp_gguf_writer *w)
{
    bool parallel = !sp_gguf_has_in_layers(w, "post_attention_layernorm.weight");
    enum sp_status st = sp_gguf_put_bool(w, "use_parallel_residual", parallel);

    if (st) return st;
    st = sp_gguf_put_bool(w, "qk_layernorm",
                          sp_gguf_has_in_layers(w, "self_attn.q_layernorm.weight"));
    return st ? st : sp_gguf_put_partial_rotary(w);
}

/* The converter leaves the window out, which is the same in all published models. */
static enum sp_status write_starcoder2(struct sp_gguf_writer *w)
{
    if (sp_gguf_has(w, "attention.sliding_window")) return sp_gguf_put_window(w);
    return sp_gguf_put_integer(w, "sliding_window", 4096);
}

/* ---- encoders ---- */

/* The head has two layers. The first is BERT's pooler, too, which llama.cpp's converter leaves out.
 */
static enum sp_status put_labels(struct sp_gguf_writer *w)
{
    const struct sp_gguf_weight *output =
        sp_gguf_weight_find(w->model, "model.classifier.out_proj.weight");

    if (output && (sp_gguf_weight_find(w->model, "model.classifier.dense.weight") ||
                   sp_gguf_weight_find(w->model, "model.head.dense.weight")))
        return sp_gguf_put_integer(w, "num_labels", output->shape[0]);
    return sp_fail(w->err, SP_E_UNSUPPORTED,
                   "tensor %s is missing: a reranker's head has two layers, of which converters "
                   "leave out BERT's pooler; its safetensors checkpoint has both",
                   output ? "cls.weight" : "cls.output.weight");
}

static enum sp_status write_bert(struct sp_gguf_writer *w)
{
    const struct sp_gguf_weight *types =
        sp_gguf_weight_find(w->model, "model.embeddings.token_type_embeddings.weight");
    enum sp_status st = SP_OK;

    if (types) st = sp_gguf_put_integer(w, "type_vocab_size", types->shape[0]);
    return st || !sp_gguf_is_classifier(w->model) ? st : put_labels(w);
}

/* llama.cpp's head of ModernBERT reads the mean of all tokens, whatever the checkpoint says. */
static enum sp_status put_modernbert_head(struct sp_gguf_writer *w)
{
    enum sp_status st = put_labels(w);

    if (!st) {
        st = sp_gguf_put_bool(w, "classifier_bias",
                              sp_gguf_weight_find(w->model, "model.head.dense.bias") != NULL);
    }
    return st ? st : sp_gguf_put_word(w, "classifier_pooling", "\"mean\"");
}

/* The window counts the tokens on both sides. */
static enum sp_status write_modernbert(struct sp_gguf_writer *w)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    uint64_t width;
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    enum sp_status st;

    sp_gguf_key(key, w, pattern);
    v = sp_gguf_find(w->model->file, key);
    if ((st = sp_gguf_need_size(&width, w, "attention.sliding_window")) ||
        (st = sp_gguf_put_integer(w, "local_attention", width)) ||
        (st = sp_gguf_copy_float(w, "rope.freq_base", "global_rope_theta")) ||
        (st = sp_gguf_copy_float(w, "rope.freq_base_swa", "local_rope_theta")))
        return st;
    st = v && v->is_array ? sp_gguf_put_window_pattern(w)
                          : sp_gguf_copy_size(w, pattern, "global_attn_every_n_layers");
    return st || !sp_gguf_is_classifier(w->model) ? st : put_modernbert_head(w);
}

/* ---- all ---- */

/* Keys that the writer of a family reads and no other does. */
#define GLM4_MOE_KEYS                                                                              \
    "expert_gating_func", "expert_group_count", "expert_group_used_count", "expert_shared_count",  \
        "expert_weights_norm", "expert_weights_scale", "leading_dense_block_count",                \
        "nextn_predict_layers"
#define LATENT_KEYS                                                                                \
    GLM4_MOE_KEYS, "attention.key_length_mla", "attention.kv_lora_rank", "attention.q_lora_rank",  \
        "attention.value_length_mla", "rope.scaling.yarn_log_multiplier"
#define DELTA_KEYS                                                                                 \
    "attention.recurrent_layers", "full_attention_interval", "nextn_predict_layers",               \
        "rope.dimension_sections", "ssm.conv_kernel", "ssm.group_count", "ssm.inner_size",         \
        "ssm.state_size", "ssm.time_step_rank"

#define MAMBA_KEYS                                                                                 \
    "ssm.conv_kernel", "ssm.group_count", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"

enum { MAX_KEYS = 24 };

static const struct {
    const char *arch;
    enum sp_status (*write)(struct sp_gguf_writer *w);
    const char *keys[MAX_KEYS];
} families[] = {
    {"llama", write_llama, {NULL}},
    {"gpt-oss", write_llama, {NULL}},
    {"qwen2moe", sp_gguf_put_qwen2_moe, {NULL}},
    {"qwen3moe", sp_gguf_put_qwen3_moe, {NULL}},
    {"deepseek2", sp_gguf_put_latent, {LATENT_KEYS}},
    {"qwen3next", sp_gguf_put_delta, {DELTA_KEYS}},
    {"qwen35", sp_gguf_put_delta, {DELTA_KEYS}},
    {"qwen35moe", sp_gguf_put_delta, {DELTA_KEYS}},
    {"mistral3", write_llama, {"attention.temperature_scale", "rope.scaling.yarn_log_multiplier"}},
    {"afmoe",
     sp_gguf_put_afmoe,
     {"expert_gating_func", "expert_shared_count", "expert_weights_norm", "expert_weights_scale",
      "leading_dense_block_count"}},
    {"dots1", sp_gguf_put_routed_experts, {GLM4_MOE_KEYS}},
    {"exaone-moe", sp_gguf_put_exaone_moe, {GLM4_MOE_KEYS}},
    {"ernie4_5-moe",
     sp_gguf_put_ernie_moe,
     {"expert_shared_count", "interleave_moe_layer_step", "leading_dense_block_count"}},
    {"command-r", write_cohere, {NULL}},
    {"cohere2", write_cohere, {NULL}},
    {"cohere2moe",
     sp_gguf_put_cohere2_moe,
     {"expert_gating_func", "expert_shared_count", "expert_weights_norm",
      "leading_dense_block_count", "nextn_predict_layers"}},
    {"lfm2", sp_gguf_put_lfm2, {"shortconv.l_cache"}},
    {"lfm2moe",
     sp_gguf_put_lfm2,
     {"shortconv.l_cache", "expert_gating_func", "leading_dense_block_count"}},
    {"granitehybrid", sp_gguf_put_granite_hybrid, {MAMBA_KEYS}},
    {"falcon-h1", sp_gguf_put_falcon_h1, {MAMBA_KEYS}},
    {"nemotron_h", sp_gguf_put_nemotron_h, {MAMBA_KEYS}},
    {"nemotron_h_moe", sp_gguf_put_nemotron_h, {MAMBA_KEYS, GLM4_MOE_KEYS}},
    {"mamba2", sp_gguf_put_mamba2, {MAMBA_KEYS}},
    {"gemma2", sp_gguf_put_gemma2, {NULL}},
    {"gemma3", sp_gguf_put_gemma3, {NULL}},
    {"gemma-embedding",
     sp_gguf_put_gemma_embedding,
     {"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"}},
    {"bert", write_bert, {"classifier.output_labels"}},
    {"nomic-bert", write_bert, {NULL}},
    {"modern-bert", write_modernbert, {"classifier.output_labels"}},
    {"gemma4",
     sp_gguf_put_gemma4,
     {"attention.shared_kv_layers", "embedding_length_per_layer_input"}},
    {"phi3", write_phi3, {NULL}},
    {"granite", sp_gguf_put_granite, {NULL}},
    {"granitemoe", sp_gguf_put_granite, {NULL}},
    {"olmoe", sp_gguf_put_olmoe, {"attention.clamp_kqv"}},
    {"olmo2", write_olmo2, {NULL}},
    {"exaone4", sp_gguf_put_exaone4, {NULL}},
    {"glm4", sp_gguf_put_partial_rotary, {NULL}},
    {"glm4moe", sp_gguf_put_glm4_moe, {GLM4_MOE_KEYS}},
    {"smollm3", write_smollm3, {NULL}},
    {"granite_swa", write_granite_swa, {"attention.rope_pattern"}},
    {"hunyuan-moe", sp_gguf_put_hunyuan_moe, {"expert_shared_count"}},
    {"mellum", sp_gguf_put_mellum, {NULL}},
    {"nemotron", sp_gguf_put_partial_rotary, {NULL}},
    {"olmo", write_olmo, {"attention.clamp_kqv"}},
    {"stablelm", write_stablelm, {"use_parallel_residual"}},
    {"starcoder2", write_starcoder2, {NULL}},
};

enum sp_status sp_gguf_put_family(struct sp_gguf_writer *w)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].arch, w->model->arch->name) == 0) return families[i].write(w);
    return SP_OK;
}

bool sp_gguf_family_reads(const struct sp_gguf_arch *arch, const char *key)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].arch, arch->name) != 0) continue;
        for (size_t k = 0; k < MAX_KEYS && families[i].keys[k]; k++)
            if (strcmp(families[i].keys[k], key) == 0) return true;
    }
    return false;
}
