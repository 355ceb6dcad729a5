/* Metadata to config.json, key by key. Constants of an architecture that its files do not hold
 * stand in write_own; they are those of llama.cpp's model loader and of transformers' classes. */
#include "convert/source/gguf_config.h"

#include "format/base/bytes.h"
#include "format/base/json_write.h"
#include "format/base/warnings.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 96, MAX_SIZE = 1 << 30, SHOWN_KEY = 100, MAX_FREQUENCIES = 4096 };

struct writer {
    const struct sp_gguf_model *model;
    struct sp_strbuf text;
    struct sp_err *err;
};

/* ---- values ---- */

static void full_key(char out[KEY_SIZE], const struct writer *w, const char *key)
{
    snprintf(out, KEY_SIZE, "%s.%s", w->model->arch->name, key);
}

static bool has(const struct writer *w, const char *key)
{
    char name[KEY_SIZE];

    full_key(name, w, key);
    return sp_gguf_find(w->model->file, name) != NULL;
}

static bool has_weight(const struct writer *w, const char *name)
{
    return sp_gguf_weight_find(w->model, name) != NULL;
}

/* A size that is one number, or a list of one number for each layer, all equal. */
static enum sp_status get_size(uint64_t *out, const struct writer *w, const char *key)
{
    char name[KEY_SIZE];
    const struct sp_gguf_value *v;

    full_key(name, w, key);
    v = sp_gguf_find(w->model->file, name);
    if (v == NULL || !v->is_array)
        return sp_gguf_get_u64(w->model->file, name, MAX_SIZE, out, w->err);
    if (v->type == SP_GGUF_STRING || v->type == SP_GGUF_F32 || v->type == SP_GGUF_F64 || v->n == 0)
        return sp_fail(w->err, SP_E_INPUT, "%s is not a list of integers", name);
    for (uint64_t i = 1; i < v->n; i++) {
        if (sp_gguf_integer_at(v, i) == sp_gguf_integer_at(v, 0)) continue;
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s differs between layers", name);
    }
    if (sp_gguf_integer_at(v, 0) < 0 || sp_gguf_integer_at(v, 0) > MAX_SIZE)
        return sp_fail(w->err, SP_E_INPUT, "%s is out of range", name);
    *out = (uint64_t)sp_gguf_integer_at(v, 0);
    return SP_OK;
}

static enum sp_status need_size(uint64_t *out, const struct writer *w, const char *key)
{
    if (has(w, key)) return get_size(out, w, key);
    return sp_fail(w->err, SP_E_INPUT, "%s.%s is missing", w->model->arch->name, key);
}

static enum sp_status put_integer(struct writer *w, const char *key, uint64_t value)
{
    return sp_json_put(&w->text, w->err, ",\n  \"%s\": %" PRIu64, key, value);
}

static enum sp_status put_word(struct writer *w, const char *key, const char *word)
{
    return sp_json_put(&w->text, w->err, ",\n  \"%s\": %s", key, word);
}

static enum sp_status put_bool(struct writer *w, const char *key, bool value)
{
    return put_word(w, key, value ? "true" : "false");
}

static enum sp_status put_float(struct writer *w, const char *key, double value)
{
    enum sp_status st = sp_json_put(&w->text, w->err, ",\n  \"%s\": ", key);

    return st ? st : sp_json_put_f32(&w->text, (float)value, w->err);
}

/* The integer of a key under its published name, if the key is there. */
static enum sp_status copy_size(struct writer *w, const char *key, const char *published)
{
    uint64_t value = 0;
    enum sp_status st;

    if (!has(w, key)) return SP_OK;
    st = get_size(&value, w, key);
    return st ? st : put_integer(w, published, value);
}

static enum sp_status copy_float(struct writer *w, const char *key, const char *published)
{
    char name[KEY_SIZE];
    double value = 0;
    enum sp_status st;

    if (!has(w, key)) return SP_OK;
    full_key(name, w, key);
    st = sp_gguf_get_float(w->model->file, name, &value, w->err);
    return st ? st : put_float(w, published, value);
}

/* ---- rotary embedding ---- */

/* Divisors of the frequencies, as LongRoPE and llama.cpp's own tensor have them. */
static enum sp_status put_factors(struct writer *w, const char *key, const char *tensor)
{
    enum sp_status st;
    const struct sp_gguf_tensor *t = sp_gguf_find_tensor(w->model->file, tensor);
    uint8_t bytes[4 * MAX_FREQUENCIES];

    if (t == NULL || t->type != SP_GGML_F32 || t->rank != 1 || t->shape[0] > MAX_FREQUENCIES) {
        return sp_fail(w->err, SP_E_INPUT, "tensor %s is missing or no f32 vector of at most %d",
                       tensor, MAX_FREQUENCIES);
    }
    if ((st = sp_gguf_read(w->model->file, t, 0, (size_t)t->size, bytes, w->err))) return st;
    if ((st = sp_json_put(&w->text, w->err, ", \"%s\": [", key))) return st;
    for (size_t i = 0; i < t->shape[0] && !st; i++) {
        float factor = sp_float_of_bits(sp_get32(bytes + 4 * i));
        if (!(factor > 0 && factor < 1e9f))
            return sp_fail(w->err, SP_E_INPUT, "tensor %s: element %zu is no divisor", tensor, i);
        if (i) st = sp_json_put(&w->text, w->err, ", ");
        if (!st) st = sp_json_put_f32(&w->text, factor, w->err);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* rope_freqs.weight, Llama 3's scaling: the same divisors at every length. */
static enum sp_status put_llama3(struct writer *w)
{
    enum sp_status st;

    st = sp_json_put(&w->text, w->err,
                     ",\n  \"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 1.0, "
                     "\"attention_factor\": 1.0");
    if (!st) st = put_factors(w, "short_factor", "rope_freqs.weight");
    if (!st) st = put_factors(w, "long_factor", "rope_freqs.weight");
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

static enum sp_status put_longrope(struct writer *w)
{
    char name[KEY_SIZE];
    double attention = 0;
    enum sp_status st;

    if ((st = copy_size(w, "rope.scaling.original_context_length",
                        "original_max_position_embeddings"))) {
        return st;
    }
    st = sp_json_put(&w->text, w->err, ",\n  \"rope_scaling\": {\"rope_type\": \"longrope\"");
    full_key(name, w, "rope.scaling.attn_factor");
    if (!st) st = sp_gguf_get_float(w->model->file, name, &attention, w->err);
    if (!st && attention > 0) {
        st = sp_json_put(&w->text, w->err, ", \"attention_factor\": ");
        if (!st) st = sp_json_put_f32(&w->text, (float)attention, w->err);
    }
    if (!st) st = put_factors(w, "short_factor", "rope_factors_short.weight");
    if (!st) st = put_factors(w, "long_factor", "rope_factors_long.weight");
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

/* A member of rope_scaling, if its key is there. */
static enum sp_status put_rope_member(struct writer *w, const char *key, const char *published)
{
    char name[KEY_SIZE];
    double value = 0;
    enum sp_status st;

    if (!has(w, key)) return SP_OK;
    full_key(name, w, key);
    if ((st = sp_gguf_get_float(w->model->file, name, &value, w->err))) return st;
    if ((st = sp_json_put(&w->text, w->err, ", \"%s\": ", published))) return st;
    return sp_json_put_f32(&w->text, (float)value, w->err);
}

static enum sp_status put_scaling(struct writer *w, const char *type)
{
    static const struct {
        const char *key, *published;
    } members[] = {
        {"rope.scaling.factor", "factor"},
        {"rope.scaling.original_context_length", "original_max_position_embeddings"},
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"},
    };
    bool yarn = strcmp(type, "yarn") == 0;
    enum sp_status st;

    st = sp_json_put(&w->text, w->err, ",\n  \"rope_scaling\": {\"rope_type\": \"%s\"", type);
    for (size_t i = 0; i < (yarn ? sizeof members / sizeof *members : 1) && !st; i++)
        st = put_rope_member(w, members[i].key, members[i].published);
    if (!st && strcmp(w->model->arch->name, "gpt-oss") == 0)
        st = sp_json_put(&w->text, w->err, ", \"truncate\": false");
    return st ? st : sp_json_put(&w->text, w->err, "}");
}

static enum sp_status write_rope(struct writer *w)
{
    const struct sp_gguf *file = w->model->file;
    char name[KEY_SIZE];
    const char *type = "";
    size_t len = 0;
    enum sp_status st;

    if ((st = copy_float(w, "rope.freq_base", "rope_theta"))) return st;
    full_key(name, w, "rope.scaling.type");
    if ((st = sp_gguf_get_text(file, name, &type, &len, w->err))) return st;
    if (sp_gguf_find_tensor(file, "rope_factors_long.weight")) return put_longrope(w);
    if (sp_gguf_find_tensor(file, "rope_freqs.weight")) {
        if (len == 0 || (len == 4 && memcmp(type, "none", len) == 0)) return put_llama3(w);
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s beside rope_freqs.weight is not supported",
                       name);
    }
    if (len == 0 || (len == 4 && memcmp(type, "none", len) == 0)) return SP_OK;
    if (len == 6 && memcmp(type, "linear", len) == 0) return put_scaling(w, "linear");
    if (len == 4 && memcmp(type, "yarn", len) == 0) return put_scaling(w, "yarn");
    return sp_fail(w->err, SP_E_UNSUPPORTED, "%s \"%.*s\" is not supported", name,
                   (int)(len < SHOWN_KEY ? len : SHOWN_KEY), type);
}

/* ---- families ---- */

/* The rows of a tensor of layer 0, for sizes that old files do not state. */
static uint64_t rows_of(const struct writer *w, const char *name)
{
    const struct sp_gguf_weight *weight = sp_gguf_weight_find(w->model, name);

    return weight && weight->rank >= 2 ? weight->shape[weight->rank - 2] : 0;
}

static enum sp_status write_experts(struct writer *w, const char *count)
{
    uint64_t width = rows_of(w, "model.layers.0.mlp.switch_mlp.up_proj.weight"), shared = 0;
    enum sp_status st;

    if ((st = copy_size(w, "expert_count", count))) return st;
    if ((st = copy_size(w, "expert_used_count", "num_experts_per_tok"))) return st;
    if (strcmp(count, "num_local_experts") == 0) return SP_OK;
    if ((st = get_size(&width, w, "expert_feed_forward_length"))) return st;
    if ((st = put_integer(w, "moe_intermediate_size", width))) return st;
    shared = rows_of(w, "model.layers.0.mlp.shared_expert.up_proj.weight");
    return shared ? put_integer(w, "shared_expert_intermediate_size", shared) : SP_OK;
}

/* query_pre_attn_scalar is the head's size, but in the largest model hidden size / heads. */
static enum sp_status write_gemma(struct writer *w, uint64_t largest)
{
    uint64_t scalar, layers, hidden, heads;
    enum sp_status st;

    if ((st = need_size(&scalar, w, "attention.key_length")) ||
        (st = need_size(&layers, w, "block_count")) ||
        (st = need_size(&hidden, w, "embedding_length")) ||
        (st = need_size(&heads, w, "attention.head_count"))) {
        return st;
    }
    if (layers == largest && heads) scalar = hidden / heads;
    if ((st = put_integer(w, "query_pre_attn_scalar", scalar))) return st;
    if ((st = copy_size(w, "attention.sliding_window", "sliding_window"))) return st;
    st = copy_float(w, "attn_logit_softcapping", "attn_logit_softcapping");
    return st ? st : copy_float(w, "final_logit_softcapping", "final_logit_softcapping");
}

static enum sp_status write_gemma3(struct writer *w)
{
    enum sp_status st;

    if ((st = write_gemma(w, 62))) return st;
    if (has(w, "attention.sliding_window_pattern") &&
        (st = copy_size(w, "attention.sliding_window_pattern", "sliding_window_pattern"))) {
        return st;
    }
    if (!has(w, "rope.freq_base")) st = put_word(w, "rope_theta", "1000000.0");
    if (st || has(w, "rope.freq_base_swa"))
        return st ? st : copy_float(w, "rope.freq_base_swa", "rope_local_base_freq");
    return put_word(w, "rope_local_base_freq", "10000.0");
}

static enum sp_status write_phi3(struct writer *w)
{
    uint64_t rotated = 0, hidden, heads, head;
    enum sp_status st;

    if ((st = copy_size(w, "attention.sliding_window", "sliding_window")) ||
        (st = get_size(&rotated, w, "rope.dimension_count")) ||
        (st = need_size(&hidden, w, "embedding_length")) ||
        (st = need_size(&heads, w, "attention.head_count"))) {
        return st;
    }
    head = heads ? hidden / heads : 0;
    if (rotated == 0 || rotated >= head) return SP_OK;
    return put_float(w, "partial_rotary_factor", (double)rotated / (double)head);
}

static enum sp_status write_granite(struct writer *w)
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
        st = copy_float(w, scales[i].key, scales[i].published);
    return st;
}

/* Biases that the family has only if its config says so. */
static enum sp_status write_biases(struct writer *w)
{
    enum sp_status st = SP_OK;

    if (has_weight(w, "model.layers.0.self_attn.q_proj.bias"))
        st = put_word(w, "attention_bias", "true");
    if (!st && has_weight(w, "model.layers.0.mlp.up_proj.bias"))
        st = put_word(w, "mlp_bias", "true");
    return st;
}

static enum sp_status write_own(struct writer *w)
{
    const char *name = w->model->arch->name;
    enum sp_status st;

    if (strcmp(name, "gemma2") == 0) return write_gemma(w, 46);
    if (strcmp(name, "gemma3") == 0) return write_gemma3(w);
    if (strcmp(name, "phi3") == 0) return write_phi3(w);
    if (strcmp(name, "granite") == 0) return write_granite(w);
    if (strcmp(name, "smollm3") == 0) return put_word(w, "no_rope_layer_interval", "4");
    if (strcmp(name, "llama") == 0 || strcmp(name, "gpt-oss") == 0) {
        if ((st = write_experts(w, "num_local_experts"))) return st;
        return copy_size(w, "attention.sliding_window", "sliding_window");
    }
    if (strcmp(name, "qwen2moe") == 0 || strcmp(name, "qwen3moe") == 0) {
        if ((st = write_experts(w, "num_experts"))) return st;
        return put_bool(w, "norm_topk_prob", name[4] == '3');
    }
    return SP_OK;
}

/* Mixtral and Mistral are stated as "llama". */
static void find_class(const char **type, const char **class, const struct writer *w)
{
    *type = w->model->arch->model_type;
    *class = w->model->arch->architecture;
    if (strcmp(w->model->arch->name, "llama") != 0) return;
    if (has(w, "expert_count")) {
        *type = "mixtral";
        *class = "MixtralForCausalLM";
    } else if (has(w, "attention.sliding_window")) {
        *type = "mistral";
        *class = "MistralForCausalLM";
    }
}

/* ---- all ---- */

/* The type that an export of the model states. The published Gemma scales its embedding by a factor
 * that it rounds to this type; what runs GGUF files does not round it. */
static const char *dtype_of(const struct writer *w)
{
    const struct sp_gguf_weight *t = sp_gguf_weight_find(w->model, "model.embed_tokens.weight");
    uint32_t type = t ? t->tensor->type : SP_GGML_BF16;

    if (w->model->arch->gelu) return "float32";
    return type == SP_GGML_F32 ? "float32" : type == SP_GGML_F16 ? "float16" : "bfloat16";
}

static enum sp_status write_head_size(struct writer *w)
{
    uint64_t key = 0, value;
    enum sp_status st;

    if ((st = get_size(&key, w, "attention.key_length"))) return st;
    value = key;
    if ((st = get_size(&value, w, "attention.value_length"))) return st;
    if (key != value) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.attention.key_length %" PRIu64 " and value_length %" PRIu64 " differ",
                       w->model->arch->name, key, value);
    }
    if (key == 0 && strcmp(w->model->arch->name, "llama") == 0 &&
        (st = get_size(&key, w, "rope.dimension_count"))) {
        return st;
    }
    return key ? put_integer(w, "head_dim", key) : SP_OK;
}

static enum sp_status write_sizes(struct writer *w)
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
    uint64_t value = 0;
    enum sp_status st;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if ((st = need_size(&value, w, sizes[i].key))) return st;
        if ((st = put_integer(w, sizes[i].published, value))) return st;
    }
    value = 0;
    if ((st = get_size(&value, w, "feed_forward_length"))) return st;
    if (value == 0) st = get_size(&value, w, "expert_feed_forward_length");
    if (!st) st = put_integer(w, "intermediate_size", value);
    if (!st) st = copy_size(w, "attention.head_count_kv", "num_key_value_heads");
    if (st) return st;
    if (embedding == NULL || embedding->rank != 2)
        return sp_fail(w->err, SP_E_INPUT, "tensor token_embd.weight is missing or no matrix");
    return put_integer(w, "vocab_size", embedding->shape[0]);
}

/* Names keys of the architecture that change what it computes in ways not known here. */
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
        bool known = false;
        if (strncmp(key, m->arch->name, len) != 0 || key[len] != '.') continue;
        for (size_t k = 0; k < sizeof read / sizeof *read && !known; k++)
            known = strcmp(key + len + 1, read[k]) == 0;
        if (known) continue;
        st = sp_warn(warnings, err, "%s: %.*s is not read", sp_gguf_path(m->file), SHOWN_KEY, key);
    }
    return st;
}

static enum sp_status put_ids(struct writer *w);

static enum sp_status write_config(struct writer *w)
{
    const char *type, *class;
    enum sp_status st;

    find_class(&type, &class, w);
    st = sp_json_put(&w->text, w->err,
                     "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"", class, type);
    if (st || (st = write_sizes(w)) || (st = write_head_size(w)) ||
        (st = copy_float(w, "attention.layer_norm_rms_epsilon", "rms_norm_eps")) ||
        (st = write_rope(w)) || (st = write_own(w)) || (st = write_biases(w))) {
        return st;
    }
    if (w->model->arch->gelu) st = put_word(w, "hidden_activation", "\"gelu_pytorch_tanh\"");
    if (!st) {
        st = put_word(w, "hidden_act", w->model->arch->gelu ? "\"gelu_pytorch_tanh\"" : "\"silu\"");
    }
    if (!st) st = put_bool(w, "tie_word_embeddings", w->model->tied);
    if (!st) {
        st = sp_json_put(&w->text, w->err, ",\n  \"torch_dtype\": \"%s\"", dtype_of(w));
    }
    if (!st) st = put_ids(w);
    return st ? st : sp_json_put(&w->text, w->err, "\n}\n");
}

/* ---- token ids and sampling ---- */

static enum sp_status copy_id(struct writer *w, const char *key, const char *published)
{
    uint64_t id = 0;
    enum sp_status st;

    if (sp_gguf_find(w->model->file, key) == NULL) return SP_OK;
    st = sp_gguf_get_u64(w->model->file, key, INT32_MAX, &id, w->err);
    return st ? st : put_integer(w, published, id);
}

static enum sp_status put_ids(struct writer *w)
{
    enum sp_status st = copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");

    if (!st) st = copy_id(w, "tokenizer.ggml.eos_token_id", "eos_token_id");
    return st ? st : copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
}

enum { MAX_ENDS = 16 };

static void add_end(uint64_t ends[MAX_ENDS], size_t *n, uint64_t id)
{
    for (size_t i = 0; i < *n; i++) {
        if (ends[i] == id) return;
    }
    if (*n < MAX_ENDS) ends[(*n)++] = id;
}

/* The control tokens that end an answer in the models of the table, whether the file says so or
 * not: few files state more than one. "<|end|>" also separates the parts of gpt-oss's answers. */
static enum sp_status find_named_ends(uint64_t ends[MAX_ENDS], size_t *n, const struct writer *w)
{
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>", "<|eom_id|>",
                                        "<end_of_turn>",   "<|end|>",    "<|endoftext|>",
                                        "<|end_of_text|>", "<|return|>", "<|call|>"};
    const struct sp_gguf_value *tokens, *types;
    const uint8_t *at;
    bool parted = strcmp(w->model->arch->name, "gpt-oss") == 0;
    enum sp_status st;

    st =
        sp_gguf_get_array(w->model->file, "tokenizer.ggml.tokens", SP_GGUF_STRING, &tokens, w->err);
    if (!st) {
        st = sp_gguf_get_array(w->model->file, "tokenizer.ggml.token_type", SP_GGUF_I32, &types,
                               w->err);
    }
    if (st || tokens == NULL || types == NULL || types->n != tokens->n) return st;
    at = tokens->at;
    for (uint64_t id = 0; id < tokens->n; id++) {
        size_t len;
        const char *text = sp_gguf_next_string(&at, &len);
        if (sp_gguf_integer_at(types, id) != 3) continue; /* control tokens */
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strlen(names[k]) != len || memcmp(names[k], text, len) != 0) continue;
            if (!(parted && strcmp(names[k], "<|end|>") == 0)) add_end(ends, n, id);
        }
    }
    return SP_OK;
}

static enum sp_status put_ends(struct writer *w)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    uint64_t ends[MAX_ENDS], id;
    size_t n = 0;
    enum sp_status st;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (sp_gguf_find(w->model->file, keys[i]) == NULL) continue;
        if ((st = sp_gguf_get_u64(w->model->file, keys[i], INT32_MAX, &id, w->err))) return st;
        add_end(ends, &n, id);
    }
    if ((st = find_named_ends(ends, &n, w)) || n == 0) return st;
    st = sp_json_put(&w->text, w->err, ",\n  \"eos_token_id\": [");
    for (size_t i = 0; i < n && !st; i++)
        st = sp_json_put(&w->text, w->err, "%s%" PRIu64, i ? ", " : "", ends[i]);
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* Sampling values, which newer files copy from generation_config.json. */
static enum sp_status put_sampling(struct writer *w)
{
    static const struct {
        const char *key, *published;
        bool integer;
    } keys[] = {
        {"general.sampling.temp", "temperature", false},
        {"general.sampling.top_p", "top_p", false},
        {"general.sampling.min_p", "min_p", false},
        {"general.sampling.penalty_repeat", "repetition_penalty", false},
        {"general.sampling.top_k", "top_k", true},
    };
    bool any = false;
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && !st; i++) {
        double value = 0;
        if (sp_gguf_find(w->model->file, keys[i].key) == NULL) continue;
        if (!any) st = put_bool(w, "do_sample", true);
        any = true;
        if (!st && keys[i].integer) {
            st = copy_id(w, keys[i].key, keys[i].published);
        } else if (!st) {
            st = sp_gguf_get_float(w->model->file, keys[i].key, &value, w->err);
            if (!st) st = put_float(w, keys[i].published, value);
        }
    }
    return st;
}

static enum sp_status write_generation(struct writer *w)
{
    enum sp_status st = sp_json_put(&w->text, w->err, "{\n  \"_from_model_config\": true");

    if (!st) st = copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");
    if (!st) st = put_ends(w);
    if (!st) st = copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
    if (!st) st = put_sampling(w);
    return st ? st : sp_json_put(&w->text, w->err, "\n}\n");
}

/* Hands the text over, terminated, or releases it. */
static enum sp_status finish(char **text, size_t *size, struct writer *w, enum sp_status st)
{
    if (!st) st = sp_strbuf_append(&w->text, "", 1, w->err);
    if (st) {
        sp_strbuf_release(&w->text);
        return st;
    }
    *text = w->text.at;
    *size = w->text.len - 1;
    return SP_OK;
}

enum sp_status sp_gguf_config_text(char **text, size_t *size, const struct sp_gguf_model *model,
                                   char **warnings, struct sp_err *err)
{
    struct writer w = {.model = model, .err = err};
    enum sp_status st = note_unread(model, warnings, err);

    if (!st) st = write_config(&w);
    return finish(text, size, &w, st);
}

enum sp_status sp_gguf_generation_text(char **text, size_t *size, const struct sp_gguf_model *model,
                                       struct sp_err *err)
{
    struct writer w = {.model = model, .err = err};

    return finish(text, size, &w, write_generation(&w));
}
