/* Metadata to config.json, key by key. Constants of an architecture that its files do not hold
 * stand in write_own; they are those of llama.cpp's model loader and of transformers' classes. */
#include "convert/gguf/gguf_config.h"
#include "convert/gguf/gguf_writer.h"

#include "format/base/warnings.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_KEY = 100, SIGMOID = 2 };

/* ---- families ---- */

/* The rows of a tensor of layer 0, for sizes that old files do not state. */
static uint64_t rows_of(const struct sp_gguf_writer *w, const char *name)
{
    const struct sp_gguf_weight *weight = sp_gguf_weight_find(w->model, name);

    return weight && weight->rank >= 2 ? weight->shape[weight->rank - 2] : 0;
}

static enum sp_status write_experts(struct sp_gguf_writer *w, const char *count)
{
    uint64_t width = rows_of(w, "model.layers.0.mlp.switch_mlp.up_proj.weight"), shared = 0;
    enum sp_status st;

    if ((st = sp_gguf_copy_size(w, "expert_count", count))) return st;
    if ((st = sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok"))) return st;
    if (strcmp(count, "num_local_experts") == 0) return SP_OK;
    if ((st = sp_gguf_get_size(&width, w, "expert_feed_forward_length"))) return st;
    if ((st = sp_gguf_put_integer(w, "moe_intermediate_size", width))) return st;
    shared = rows_of(w, "model.layers.0.mlp.shared_expert.up_proj.weight");
    return shared ? sp_gguf_put_integer(w, "shared_expert_intermediate_size", shared) : SP_OK;
}

/* 0 means that no layer has a window, as an absent key does. */
static enum sp_status write_window(struct sp_gguf_writer *w)
{
    uint64_t window = 0;
    enum sp_status st = sp_gguf_get_size(&window, w, "attention.sliding_window");

    return st || window == 0 ? st : sp_gguf_put_integer(w, "sliding_window", window);
}

/* query_pre_attn_scalar is the head's size, but in the largest model hidden size / heads. */
static enum sp_status write_gemma(struct sp_gguf_writer *w, uint64_t largest)
{
    uint64_t scalar, layers, hidden, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&scalar, w, "attention.key_length")) ||
        (st = sp_gguf_need_size(&layers, w, "block_count")) ||
        (st = sp_gguf_need_size(&hidden, w, "embedding_length")) ||
        (st = sp_gguf_need_size(&heads, w, "attention.head_count"))) {
        return st;
    }
    if (layers == largest && heads) scalar = hidden / heads;
    if ((st = sp_gguf_put_integer(w, "query_pre_attn_scalar", scalar))) return st;
    if ((st = write_window(w))) return st;
    st = sp_gguf_copy_float(w, "attn_logit_softcapping", "attn_logit_softcapping");
    return st ? st : sp_gguf_copy_float(w, "final_logit_softcapping", "final_logit_softcapping");
}

/* Which layers have a window: true or false for each, or the number of layers of which one has
 * none. */
static enum sp_status write_pattern(struct sp_gguf_writer *w)
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

static enum sp_status write_gemma3(struct sp_gguf_writer *w)
{
    enum sp_status st;

    if ((st = write_gemma(w, 62))) return st;
    if ((st = write_pattern(w))) return st;
    if (sp_gguf_has(w, "rope.freq_base_swa"))
        return sp_gguf_copy_float(w, "rope.freq_base_swa", "rope_local_base_freq");
    return sp_gguf_put_word(w, "rope_local_base_freq", "10000.0");
}

static enum sp_status write_phi3(struct sp_gguf_writer *w)
{
    uint64_t rotated = 0, hidden, heads, head;
    enum sp_status st;

    if ((st = write_window(w)) || (st = sp_gguf_get_size(&rotated, w, "rope.dimension_count")) ||
        (st = sp_gguf_need_size(&hidden, w, "embedding_length")) ||
        (st = sp_gguf_need_size(&heads, w, "attention.head_count"))) {
        return st;
    }
    head = heads ? hidden / heads : 0;
    if (rotated == 0 || rotated >= head) return SP_OK;
    return sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

static enum sp_status write_granite(struct sp_gguf_writer *w)
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
    return st ? st : write_experts(w, "num_local_experts");
}

static enum sp_status write_olmoe(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_copy_size(w, "expert_count", "num_experts");

    if (!st) st = sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok");
    if (!st) st = sp_gguf_copy_float(w, "attention.clamp_kqv", "clip_qkv");
    return st ? st : sp_gguf_put_word(w, "norm_topk_prob", "false");
}

/* Without a window the class has one, and rotates in some layers only. */
static enum sp_status write_exaone4(struct sp_gguf_writer *w)
{
    enum sp_status st;

    if (!sp_gguf_has(w, "attention.sliding_window"))
        return sp_gguf_put_word(w, "sliding_window", "null");
    st = write_window(w);
    return st ? st : write_pattern(w);
}

/* The part of a head that rotates, half of it if the file does not say. */
static enum sp_status write_partial_rotary(struct sp_gguf_writer *w)
{
    uint64_t head, rotated;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&head, w, "attention.key_length"))) return st;
    rotated = head / 2;
    if ((st = sp_gguf_get_size(&rotated, w, "rope.dimension_count"))) return st;
    if (head == 0 || rotated > head)
        return sp_fail(w->err, SP_E_INPUT, "%s.rope.dimension_count is larger than a head",
                       w->model->arch->name);
    return sp_gguf_put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

static enum sp_status write_glm4_moe(struct sp_gguf_writer *w)
{
    static const struct {
        const char *key, *published;
    } sizes[] = {
        {"expert_count", "n_routed_experts"},
        {"expert_used_count", "num_experts_per_tok"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {"expert_shared_count", "n_shared_experts"},
        {"expert_group_count", "n_group"},
        {"expert_group_used_count", "topk_group"},
        {"leading_dense_block_count", "first_k_dense_replace"},
        {"nextn_predict_layers", "num_nextn_predict_layers"},
    };
    uint64_t law = SIGMOID;
    bool norm = true;
    char key[SP_GGUF_KEY_SIZE];
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    if (!st && law != SIGMOID) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "glm4moe.expert_gating_func is %" PRIu64 ", expected %d (sigmoid)", law,
                       SIGMOID);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !st; i++)
        st = sp_gguf_copy_size(w, sizes[i].key, sizes[i].published);
    sp_gguf_key(key, w, "expert_weights_norm");
    if (!st) st = sp_gguf_get_bool(w->model->file, key, &norm, w->err);
    if (!st) st = sp_gguf_put_bool(w, "norm_topk_prob", norm);
    if (!st) st = sp_gguf_copy_float(w, "expert_weights_scale", "routed_scaling_factor");
    if (!st) {
        st = sp_gguf_put_bool(w, "use_qk_norm",
                              sp_gguf_has_weight(w, "model.layers.0.self_attn.q_norm.weight"));
    }
    return st ? st : write_partial_rotary(w);
}

/* With a window it is OLMo 3. */
static enum sp_status write_olmo2(struct sp_gguf_writer *w)
{
    enum sp_status st = write_window(w);

    return st ? st : write_pattern(w);
}

/* Biases that the family has only if its config says so, or unless it denies them. */
static enum sp_status write_biases(struct sp_gguf_writer *w)
{
    const char *name = w->model->arch->name;
    bool one_key = strcmp(name, "ernie4_5") == 0, q, o;
    enum sp_status st = SP_OK;

    q = sp_gguf_has_weight(w, "model.layers.0.self_attn.q_proj.bias");
    if (one_key) return sp_gguf_put_bool(w, "use_bias", q);
    if (q || strncmp(name, "glm4", 4) == 0 || strcmp(name, "seed_oss") == 0)
        st = sp_gguf_put_bool(w, "attention_bias", q);
    o = sp_gguf_has_weight(w, "model.layers.0.self_attn.o_proj.bias");
    if (!st && strcmp(name, "seed_oss") == 0) st = sp_gguf_put_bool(w, "attention_out_bias", o);
    if (!st && sp_gguf_has_weight(w, "model.layers.0.mlp.up_proj.bias"))
        st = sp_gguf_put_word(w, "mlp_bias", "true");
    return st;
}

static enum sp_status write_own(struct sp_gguf_writer *w)
{
    const char *name = w->model->arch->name;
    enum sp_status st;

    if (strcmp(name, "gemma2") == 0) return write_gemma(w, 46);
    if (strcmp(name, "gemma3") == 0) return write_gemma3(w);
    if (strcmp(name, "phi3") == 0) return write_phi3(w);
    if (strncmp(name, "granite", 7) == 0) return write_granite(w);
    if (strcmp(name, "olmoe") == 0) return write_olmoe(w);
    if (strcmp(name, "exaone4") == 0) return write_exaone4(w);
    if (strcmp(name, "glm4") == 0) return write_partial_rotary(w);
    if (strcmp(name, "glm4moe") == 0) return write_glm4_moe(w);
    if (strcmp(name, "olmo2") == 0) return write_olmo2(w);
    if (strcmp(name, "smollm3") == 0) return sp_gguf_put_word(w, "no_rope_layer_interval", "4");
    if (strcmp(name, "llama") == 0 || strcmp(name, "gpt-oss") == 0) {
        if ((st = write_experts(w, "num_local_experts"))) return st;
        return write_window(w);
    }
    if (strcmp(name, "qwen2moe") == 0 || strcmp(name, "qwen3moe") == 0) {
        if ((st = write_experts(w, "num_experts"))) return st;
        return sp_gguf_put_bool(w, "norm_topk_prob", name[4] == '3');
    }
    return SP_OK;
}

/* Mixtral and Mistral are stated as "llama", and OLMo 3 as "olmo2". */
static void find_class(const char **type, const char **class, const struct sp_gguf_writer *w)
{
    *type = w->model->arch->model_type;
    *class = w->model->arch->architecture;
    if (strcmp(w->model->arch->name, "olmo2") == 0 && sp_gguf_has(w, "attention.sliding_window")) {
        *type = "olmo3";
        *class = "Olmo3ForCausalLM";
    }
    if (strcmp(w->model->arch->name, "llama") != 0) return;
    if (sp_gguf_has(w, "expert_count")) {
        *type = "mixtral";
        *class = "MixtralForCausalLM";
    } else if (sp_gguf_has(w, "attention.sliding_window")) {
        *type = "mistral";
        *class = "MistralForCausalLM";
    }
}

/* ---- all ---- */

/* The type that an export of the model states. The published Gemma scales its embedding by a factor
 * that it rounds to this type; what runs GGUF files does not round it. */
static const char *dtype_of(const struct sp_gguf_writer *w)
{
    const struct sp_gguf_weight *t = sp_gguf_weight_find(w->model, "model.embed_tokens.weight");
    uint32_t type = t ? t->tensor->type : SP_GGML_BF16;

    if (w->model->arch->gelu) return "float32";
    return type == SP_GGML_F32 ? "float32" : type == SP_GGML_F16 ? "float16" : "bfloat16";
}

/* One size of heads is supported: that of keys, of values and of the part that rotates; Phi-3 and
 * GLM-4 may rotate less. */
static enum sp_status write_head_size(struct sp_gguf_writer *w)
{
    static const char *const others[] = {
        "attention.value_length",   "attention.key_length_swa", "attention.value_length_swa",
        "rope.dimension_count_swa", "rope.dimension_count",
    };
    const char *name = w->model->arch->name;
    bool phi3 = strcmp(name, "phi3") == 0, partial = phi3 || strncmp(name, "glm4", 4) == 0;
    size_t n = sizeof others / sizeof *others - partial;
    uint64_t size, hidden, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&hidden, w, "embedding_length")) ||
        (st = sp_gguf_need_size(&heads, w, "attention.head_count"))) {
        return st;
    }
    size = heads ? hidden / heads : 0;
    if ((st = sp_gguf_get_size(&size, w, "attention.key_length"))) return st;
    for (size_t i = 0; i < n; i++) {
        uint64_t other = size;
        if ((st = sp_gguf_get_size(&other, w, others[i]))) return st;
        if (other == size) continue;
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.%s is %" PRIu64 ", but heads of %" PRIu64 " need %" PRIu64, name,
                       others[i], other, size, size);
    }
    return phi3 ? SP_OK : sp_gguf_put_integer(w, "head_dim", size);
}

static enum sp_status write_sizes(struct sp_gguf_writer *w)
{
    static const struct {
        const char *key, *published;
    } sizes[] = {
        {"embedding_length", "hidden_size"},
        {"block_count", "num_hidden_layers"},
        {"attention.head_count", "num_attention_heads"},
        {"context_length", "max_position_embeddings"},
    };
    const struct sp_gguf_weight *embedding =
        sp_gguf_weight_find(w->model, "model.embed_tokens.weight");
    uint64_t value = 0, heads = 0;
    enum sp_status st;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if ((st = sp_gguf_need_size(&value, w, sizes[i].key))) return st;
        if (strcmp(sizes[i].key, "block_count") == 0) { /* prediction heads are counted, too */
            uint64_t predicting = 0;
            if ((st = sp_gguf_get_size(&predicting, w, "nextn_predict_layers"))) return st;
            value -= predicting < value ? predicting : 0;
        }
        if ((st = sp_gguf_put_integer(w, sizes[i].published, value))) return st;
    }
    value = 0;
    if ((st = sp_gguf_get_size(&value, w, "feed_forward_length"))) return st;
    if (value == 0) st = sp_gguf_get_size(&value, w, "expert_feed_forward_length");
    if (!st) st = sp_gguf_put_integer(w, "intermediate_size", value);
    if (!st) st = sp_gguf_need_size(&heads, w, "attention.head_count");
    if (!st) st = sp_gguf_get_size(&heads, w, "attention.head_count_kv");
    if (!st) st = sp_gguf_put_integer(w, "num_key_value_heads", heads);
    if (st) return st;
    if (embedding == NULL || embedding->rank != 2)
        return sp_fail(w->err, SP_E_INPUT, "tensor token_embd.weight is missing or not a matrix");
    return sp_gguf_put_integer(w, "vocab_size", embedding->shape[0]);
}

/* Keys that one architecture reads only. */
static bool is_own_key(const char *arch, const char *key)
{
    static const char *const glm4_moe[] = {
        "expert_gating_func",        "expert_group_count",   "expert_group_used_count",
        "expert_shared_count",       "expert_weights_norm",  "expert_weights_scale",
        "leading_dense_block_count", "nextn_predict_layers",
    };

    if (strcmp(arch, "olmoe") == 0) return strcmp(key, "attention.clamp_kqv") == 0;
    for (size_t i = 0; i < sizeof glm4_moe / sizeof *glm4_moe && strcmp(arch, "glm4moe") == 0;
         i++) {
        if (strcmp(key, glm4_moe[i]) == 0) return true;
    }
    return false;
}

/* Names keys of the architecture that are not read. */
static enum sp_status note_unread(const struct sp_gguf_model *m, char **warnings,
                                  struct sp_err *err)
{
    static const char *const read[] = {
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.layer_norm_rms_epsilon",
        "attention.scale",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.value_length",
        "attn_logit_softcapping",
        "block_count",
        "context_length",
        "embedding_length",
        "embedding_scale",
        "expert_count",
        "expert_feed_forward_length",
        "expert_shared_feed_forward_length",
        "expert_used_count",
        "feed_forward_length",
        "pooling_type",
        "final_logit_softcapping",
        "logit_scale",
        "residual_scale",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.freq_base_swa",
        "rope.scaling.attn_factor",
        "rope.scaling.factor",
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",
        "rope.scaling.type",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "vocab_size",
        "rope.dimension_count_swa",
        "attention.key_length_swa",
        "attention.value_length_swa",
    };
    size_t n, len = strlen(m->arch->name);
    const struct sp_gguf_value *values = sp_gguf_values(m->file, &n);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i++) {
        const char *key = values[i].key;
        bool known;
        if (strncmp(key, m->arch->name, len) != 0 || key[len] != '.') continue;
        known = is_own_key(m->arch->name, key + len + 1);
        for (size_t k = 0; k < sizeof read / sizeof *read && !known; k++)
            known = strcmp(key + len + 1, read[k]) == 0;
        if (known) continue;
        st = sp_warn(warnings, err, "%s: %.*s is ignored", sp_gguf_path(m->file), SHOWN_KEY, key);
    }
    return st;
}

static enum sp_status put_ids(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");

    if (!st) st = sp_gguf_copy_id(w, "tokenizer.ggml.eos_token_id", "eos_token_id");
    return st ? st : sp_gguf_copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
}

static const char *activation_of(const struct sp_gguf_writer *w)
{
    if (w->model->arch->gelu) return "\"gelu_pytorch_tanh\"";
    return strcmp(w->model->arch->name, "arcee") == 0 ? "\"relu2\"" : "\"silu\"";
}

static enum sp_status write_config(struct sp_gguf_writer *w)
{
    const char *type, *class;
    enum sp_status st;

    find_class(&type, &class, w);
    st = sp_json_put(&w->text, w->err,
                     "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", class, type);
    if (st || (st = write_sizes(w)) || (st = write_head_size(w)) ||
        (st = sp_gguf_copy_float(w, "attention.layer_norm_rms_epsilon", "rms_norm_eps")) ||
        (st = sp_gguf_put_rope(w)) || (st = write_own(w)) || (st = write_biases(w))) {
        return st;
    }
    if (w->model->arch->gelu) st = sp_gguf_put_word(w, "hidden_activation", activation_of(w));
    if (!st) st = sp_gguf_put_word(w, "hidden_act", activation_of(w));
    if (!st) st = sp_gguf_put_bool(w, "tie_word_embeddings", w->model->tied);
    if (!st) {
        st = sp_json_put(&w->text, w->err, ",\n  \"torch_dtype\": \"%s\"", dtype_of(w));
    }
    if (!st) st = put_ids(w);
    return st ? st : sp_json_put(&w->text, w->err, "\n}\n");
}

enum sp_status sp_gguf_config_text(char **text, size_t *size, const struct sp_gguf_model *model,
                                   char **warnings, struct sp_err *err)
{
    struct sp_gguf_writer w = {.model = model, .err = err};
    enum sp_status st = note_unread(model, warnings, err);

    if (!st) st = write_config(&w);
    return sp_gguf_finish(text, size, &w, st);
}
