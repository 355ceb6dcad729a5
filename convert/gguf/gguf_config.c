/* Metadata to config.json, key by key: what all families have. The rest is in gguf_members.c. */
#include "convert/gguf/gguf_config.h"

#include "convert/gguf/gguf_members.h"
#include "convert/gguf/gguf_names.h"
#include "convert/gguf/gguf_tokens.h"
#include "format/base/affix.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_KEY = 100 };

/* Whether some layer has a tensor of this published name. A class with another name for it has no
 * key for it either. */
static bool has_weight(const struct sp_gguf_writer *w, const char *name)
{
    static const char begin[] = "model.layers.";

    for (size_t i = 0; i < w->model->n; i++) {
        const char *found = w->model->weights[i].name;
        if (strncmp(found, begin, sizeof begin - 1) != 0) continue;
        found = strchr(found + sizeof begin - 1, '.');
        if (found && strcmp(found + 1, name) == 0) return true;
    }
    return false;
}

/* Biases that the family has only if its config says so, or unless it denies them. */
static enum sp_status write_biases(struct sp_gguf_writer *w)
{
    const struct sp_family *f = &w->model->family;
    const char *key = f->gguf.bias_key;
    bool q =
        has_weight(w, f->latent ? "self_attn.kv_a_proj_with_mqa.bias" : "self_attn.q_proj.bias");
    bool up = has_weight(w, "mlp.up_proj.bias");
    enum sp_status st = SP_OK;

    if (q || key) st = sp_gguf_put_bool(w, key ? key : "attention_bias", q);
    if (!st && f->o_bias_key)
        st =
            sp_gguf_put_bool(w, f->o_bias_key, sp_gguf_has_in_layers(w->model, "attn_output.bias"));
    if (!st && (up || f->mlp_biased)) st = sp_gguf_put_bool(w, "mlp_bias", up);
    return st;
}

/* The class of a classification head has that name in place of "Model". */
static enum sp_status write_class(struct sp_gguf_writer *w)
{
    const struct sp_family *f = &w->model->family;
    const char *class = w->model->arch->class ? w->model->arch->class : f->architecture;
    bool classifies = sp_gguf_is_classifier(w->model);

    return sp_json_put(&w->text, w->err,
                       "{\n  \"architectures\": [\"%.*s%s\"],\n  \"model_type\": \"%s\"",
                       (int)(strlen(class) - (classifies ? strlen("Model") : 0)), class,
                       classifies ? "ForSequenceClassification" : "", f->name);
}

/* The type that an export of the model states. The published Gemma scales its embedding by a factor
 * that it rounds to this type; what runs GGUF files does not round it. */
static const char *dtype_of(const struct sp_gguf_writer *w)
{
    const struct sp_gguf_weight *t = sp_gguf_embedding(w->model);
    uint32_t type = t ? t->tensor->type : SP_GGML_BF16;

    if (w->model->family.scaled_embedding) return "float32";
    return type == SP_GGML_F32 ? "float32" : type == SP_GGML_F16 ? "float16" : "bfloat16";
}

/* One size of heads is supported: that of keys, of values and, in most architectures, of the part
 * that rotates. */
static enum sp_status write_head_size(struct sp_gguf_writer *w)
{
    static const char *const others[] = {
        "attention.value_length",   "attention.key_length_swa", "attention.value_length_swa",
        "rope.dimension_count_swa", "rope.dimension_count",
    };
    const struct sp_family *f = &w->model->family;
    bool partial = f->partial_rotary != 0 || f->unrotated;
    size_t n = sizeof others / sizeof *others - partial;
    uint64_t size;
    enum sp_status st;

    if (f->read_full_heads || f->latent || f->sizes.n_ffn == 0)
        return SP_OK; /* several sizes, which are members of the family's own, or none */
    if ((st = sp_gguf_head_size(&size, w))) return st;
    for (size_t i = 0; i < n; i++) {
        uint64_t other = size;
        if ((st = sp_gguf_get_size(&other, w, others[i]))) return st;
        if (other == size) continue;
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.%s is %" PRIu64 ", but heads of %" PRIu64 " need %" PRIu64,
                       w->model->arch->name, others[i], other, size, size);
    }
    return f->gguf.head_dim_implied ? SP_OK : sp_gguf_put_integer(w, "head_dim", size);
}

/* In some families intermediate_size is the width of an expert. */
static enum sp_status write_ffn_and_heads(struct sp_gguf_writer *w)
{
    const char *width = w->model->family.expert_keys.width;
    uint64_t value = 0, heads = 0;
    enum sp_status st = sp_gguf_get_size(&value, w, "feed_forward_length");

    if (!st && (value == 0 || (width && strcmp(width, "intermediate_size") == 0)))
        st = sp_gguf_get_size(&value, w, "expert_feed_forward_length");
    if (!st) st = sp_gguf_put_integer(w, "intermediate_size", value);
    if (!st) st = sp_gguf_need_size(&heads, w, "attention.head_count");
    if (!st && !w->model->family.latent)
        st = sp_gguf_get_size(&heads, w, "attention.head_count_kv");
    return st ? st : sp_gguf_put_integer(w, "num_key_value_heads", heads);
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
    const struct sp_gguf_weight *embedding = sp_gguf_embedding(w->model);
    const struct sp_gguf_tensor *positions =
        sp_gguf_find_tensor(w->model->file, "position_embd.weight");
    bool attends = w->model->family.sizes.n_ffn != 0;
    uint64_t value = 0;
    enum sp_status st;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!attends && strcmp(sizes[i].key, "attention.head_count") == 0) continue;
        if ((st = sp_gguf_need_size(&value, w, sizes[i].key))) return st;
        if (strcmp(sizes[i].key, "block_count") == 0) value = w->model->n_layers;
        if (positions && strcmp(sizes[i].key, "context_length") == 0) value = positions->shape[0];
        if ((st = sp_gguf_put_integer(w, sizes[i].published, value))) return st;
    }
    if (attends && (st = write_ffn_and_heads(w))) return st;
    if (embedding == NULL || embedding->rank != 2)
        return sp_fail(w->err, SP_E_INPUT, "tensor token_embd.weight is missing or not a matrix");
    return sp_gguf_put_integer(w, "vocab_size", embedding->shape[0]);
}

/* Names keys of the architecture that are not read. */
static enum sp_status note_unread(const struct sp_gguf_model *m, char **warnings,
                                  struct sp_err *err)
{
    static const char *const read[] = {
        "attention.causal",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.layer_norm_epsilon",
        "attention.layer_norm_rms_epsilon",
        "attention.scale",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.value_length",
        "attn_logit_softcapping",
        "block_count",
        "classifier.pooling_type",
        "context_length",
        "embedding_length",
        "embedding_scale",
        "expert_count",
        "expert_feed_forward_length",
        "expert_shared_feed_forward_length",
        "expert_used_count",
        "feed_forward_length",
        "hidden_activation",
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
        "rope.scaling.yarn_log_multiplier",
        "vocab_size",
        "rope.dimension_count_swa",
        "attention.key_length_swa",
        "attention.value_length_swa",
    };
    size_t n, len = strlen(m->arch->name);
    const struct sp_gguf_value *values = sp_gguf_values(m->file, &n);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i++) {
        const char *key = values[i].key, *common;
        if (strncmp(key, m->arch->name, len) != 0 || key[len] != '.') continue;
        common = sp_gguf_common_key(&m->family, key + len + 1);
        if (sp_is_one_of(common, read, sizeof read / sizeof *read) ||
            sp_gguf_members_read(m, common))
            continue;
        st = sp_warn(warnings, err, "%s: %.*s is ignored", sp_gguf_path(m->file), SHOWN_KEY, key);
    }
    return st ? st : sp_gguf_note_token_ids(m->file, warnings, err);
}

static enum sp_status put_ids(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");

    if (!st) st = sp_gguf_copy_id(w, "tokenizer.ggml.eos_token_id", "eos_token_id");
    return st ? st : sp_gguf_copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
}

static enum sp_status put_text(struct sp_gguf_writer *w, const char *key, const char *text,
                               size_t len)
{
    enum sp_status st = sp_json_put(&w->text, w->err, ",\n  \"%s\": ", key);

    return st ? st : sp_json_put_string(&w->text, text, len, w->err);
}

/* Few files state it. Gemma and encoders have it under a name of their own, too; Nemotron-H has it
 * only there, and the class default serves. */
static enum sp_status put_activation(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    bool other = strcmp(w->model->family.activation_key, "mlp_hidden_act") == 0;
    const char *name = other ? "silu" : w->model->family.activation;
    bool gelu = strncmp(name, "gelu", 4) == 0;
    size_t len = strlen(name);
    enum sp_status st;

    sp_gguf_key(key, w, "hidden_activation");
    if ((st = sp_gguf_get_text(w->model->file, key, &name, &len, w->err))) return st;
    if (sp_utf8_valid(name, len) != len)
        return sp_fail(w->err, SP_E_INPUT, "%s is not UTF-8 text", key);
    if (gelu) st = put_text(w, "hidden_activation", name, len);
    return st ? st : put_text(w, "hidden_act", name, len);
}

/* Whether every token of a decoder sees all tokens. */
static enum sp_status put_direction(struct sp_gguf_writer *w)
{
    bool causal = true;
    enum sp_status st = sp_gguf_read_bool(&causal, w, "attention.causal");

    if (st || w->model->family.prefix[0] == '\0' || causal) return st;
    return sp_gguf_put_bool(w, "is_causal", false);
}

/* Nemotron-H may state it as that of another kind of norm. */
static enum sp_status write_norm_epsilon(struct sp_gguf_writer *w)
{
    static const char key[] = "attention.layer_norm_rms_epsilon";
    const char *own = w->model->family.norm_eps_key, *published = *own ? own : "rms_norm_eps";

    if (sp_gguf_has(w, key)) return sp_gguf_copy_float(w, key, published);
    return sp_gguf_copy_float(w, "attention.layer_norm_epsilon", published);
}

static enum sp_status write_config(struct sp_gguf_writer *w)
{
    enum sp_status st;

    if ((st = write_class(w)) || (st = write_sizes(w)) || (st = write_head_size(w)) ||
        (st = write_norm_epsilon(w)) || (st = sp_gguf_put_rope(w)) ||
        (st = sp_gguf_put_members(w)) || (st = write_biases(w)))
        return st;
    if (!(st = put_activation(w))) st = put_direction(w);
    if (!st) st = sp_gguf_put_bool(w, "tie_word_embeddings", w->model->tied);
    if (!st) st = sp_json_put(&w->text, w->err, ",\n  \"torch_dtype\": \"%s\"", dtype_of(w));
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
