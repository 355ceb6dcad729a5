/* Metadata to config.json, key by key: what all families have. The rest is in gguf_members.c. */

#include "convert/gguf/gguf_writer.h"
#include "format/tokenizer/gguf_tokens.h"
#include "format/base/affix.h"
#include "format/base/unicode.h"
#include "format/base/warnings.h"
#include "format/ggml_type.h"

#include <inttypes.h>
#include <string.h>

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
static void write_biases(struct sp_gguf_writer *w)
{
    const struct sp_family *f = &w->model->family;
    const char *key = f->gguf.bias_key;
    bool q =
        has_weight(w, f->latent ? "self_attn.kv_a_proj_with_mqa.bias" : "self_attn.q_proj.bias");
    bool up = has_weight(w, "mlp.up_proj.bias");

    if (q || key) sp_gguf_put_bool(w, key ? key : "attention_bias", q);
    if (f->o_bias_key)
        sp_gguf_put_bool(w, f->o_bias_key, sp_gguf_has_in_layers(w->model, "attn_output.bias"));
    if (up || f->mlp_biased) sp_gguf_put_bool(w, "mlp_bias", up);
}

/* The class of a classification head has that name in place of "Model". */
static void write_class(struct sp_gguf_writer *w)
{
    const struct sp_family *f = &w->model->family;
    const char *class = w->model->arch->class ? w->model->arch->class : f->architecture;
    bool classifies = sp_gguf_is_classifier(w->model);

    sp_json_out_print(&w->out, "{\n  \"architectures\": [\"%.*s%s\"],\n  \"model_type\": \"%s\"",
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
static void write_head_size(struct sp_gguf_writer *w)
{
    static const char *const others[] = {
        "attention.value_length",   "attention.key_length_swa", "attention.value_length_swa",
        "rope.dimension_count_swa", "rope.dimension_count",
    };
    const struct sp_family *f = &w->model->family;
    bool partial = f->partial_rotary != 0 || f->unrotated;
    size_t n = sizeof others / sizeof *others - partial;
    uint64_t size;

    if (f->read_full_heads || f->latent || f->sizes.n_ffn == 0)
        return; /* several sizes, which are members of the family's own, or none */
    size = sp_gguf_head_size(w);
    for (size_t i = 0; i < n; i++) {
        uint64_t other = sp_gguf_size(w, others[i], size);
        if (other == size) continue;
        sp_fail(&w->err, SP_E_UNSUPPORTED,
                "%s.%s is %" PRIu64 ", but heads of %" PRIu64 " need %" PRIu64,
                w->model->arch->name, others[i], other, size, size);
    }
    if (!f->gguf.head_dim_implied) sp_gguf_put_integer(w, "head_dim", size);
}

/* In some families intermediate_size is the width of an expert. */
static void write_ffn_and_heads(struct sp_gguf_writer *w)
{
    const char *width = w->model->family.expert_keys.width;
    uint64_t value = sp_gguf_size(w, "feed_forward_length", 0), heads;
    uint64_t gate = sp_gguf_rows_of(w, "blk.0.ffn_gate.weight");

    if (value == 0 || (width && strcmp(width, "intermediate_size") == 0))
        value = sp_gguf_size(w, "expert_feed_forward_length", value);
    if (w->model->family.adjusted_ffn && gate)
        value = gate; /* ollama's files state it unadjusted */
    sp_gguf_put_integer(w, "intermediate_size", value);
    heads = sp_gguf_need_size(w, "attention.head_count");
    if (!w->model->family.latent) heads = sp_gguf_size(w, "attention.head_count_kv", heads);
    sp_gguf_put_integer(w, "num_key_value_heads", heads);
}

static void write_sizes(struct sp_gguf_writer *w)
{
    const struct sp_gguf_weight *embedding = sp_gguf_embedding(w->model);
    const struct sp_gguf_tensor *positions =
        sp_gguf_find_tensor(w->model->file, "position_embd.weight");
    bool attends = w->model->family.sizes.n_ffn != 0;
    uint64_t context;

    sp_gguf_put_integer(w, "hidden_size", sp_gguf_need_size(w, "embedding_length"));
    sp_gguf_need_size(w, "block_count");
    sp_gguf_put_integer(w, "num_hidden_layers", w->model->n_layers);
    if (attends)
        sp_gguf_put_integer(w, "num_attention_heads", sp_gguf_need_size(w, "attention.head_count"));
    context = sp_gguf_need_size(w, "context_length");
    sp_gguf_put_integer(w, "max_position_embeddings", positions ? positions->shape[0] : context);
    if (attends) write_ffn_and_heads(w);
    if (embedding && embedding->rank == 2)
        sp_gguf_put_integer(w, "vocab_size", embedding->shape[0]);
    else
        sp_fail(&w->err, SP_E_INPUT, "tensor token_embd.weight is missing or not a matrix");
}

/* Refuses a key that changes what llama.cpp computes, unless its value has no effect. */
static enum sp_status refuse_unread(const struct sp_gguf_model *m, const char *key,
                                    const char *common, struct sp_err *err)
{
    static const struct {
        const char *key;
        double neutral;
    } keys[] = {
        {"attention.clamp_kqv", 0},
        {"attention.max_alibi_bias", 0},
        {"rope.scaling.yarn_ext_factor", 1},
        {"rope.scaling.yarn_attn_factor", 1},
    };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double value = keys[i].neutral;
        enum sp_status st;
        if (strcmp(common, keys[i].key) != 0) continue;
        if ((st = sp_gguf_get_float(m->file, key, &value, err))) return st;
        if (value < keys[i].neutral || value > keys[i].neutral)
            return sp_fail(err, SP_E_UNSUPPORTED, "%s %g is not supported", key, value);
    }
    return SP_OK;
}

/* Names keys of the architecture that are not read. */
static enum sp_status note_unread(const struct sp_gguf_model *m, char **warnings,
                                  struct sp_err *err)
{
    static const char read[] =
        "attention.causal attention.head_count attention.head_count_kv attention.key_length "
        "attention.layer_norm_epsilon attention.layer_norm_rms_epsilon attention.scale "
        "attention.sliding_window attention.sliding_window_pattern attention.value_length "
        "attn_logit_softcapping block_count classifier.pooling_type context_length "
        "embedding_length embedding_scale expert_count expert_feed_forward_length "
        "expert_shared_feed_forward_length expert_used_count feed_forward_length "
        "hidden_activation pooling_type final_logit_softcapping logit_scale residual_scale "
        "rope.dimension_count rope.freq_base rope.freq_base_swa rope.scaling.attn_factor "
        "rope.scaling.factor rope.scaling.finetuned rope.scaling.original_context_length "
        "rope.scaling.type rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow "
        "rope.scaling.yarn_log_multiplier vocab_size rope.dimension_count_swa "
        "attention.key_length_swa attention.value_length_swa";
    size_t n, len = strlen(m->arch->name);
    const struct sp_gguf_value *values = sp_gguf_values(m->file, &n);
    enum sp_status st = SP_OK;

    for (size_t i = 0; i < n && !st; i++) {
        const char *key = values[i].key, *common;
        if (strncmp(key, m->arch->name, len) != 0 || key[len] != '.') continue;
        common = sp_gguf_common_key(&m->family, key + len + 1);
        if (sp_is_among(common, read) || sp_gguf_members_read(m, common)) continue;
        if ((st = refuse_unread(m, key, common, err))) return st;
        st = sp_warn(warnings, err, "%s: %.*s is ignored", sp_gguf_path(m->file), SP_GGUF_SHOWN,
                     key);
    }
    return st ? st : sp_gguf_note_tokens(m->file, warnings, err);
}

static void put_text(struct sp_gguf_writer *w, const char *key, const char *text, size_t len)
{
    sp_gguf_put_word(w, key, "");
    sp_json_out_quoted(&w->out, text, len);
}

/* Few files state it. Gemma and encoders have it under a name of their own, too; Nemotron-H has it
 * only there, and the class default serves. */
static void put_activation(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    bool other = strcmp(w->model->family.activation_key, "mlp_hidden_act") == 0;
    const char *name = other ? "silu" : w->model->family.activation;
    bool gelu = strncmp(name, "gelu", 4) == 0;
    size_t len = strlen(name);

    sp_gguf_key(key, w, "hidden_activation");
    (void)!sp_gguf_get_text(w->model->file, key, &name, &len, &w->err);
    if (sp_utf8_valid(name, len) != len) sp_fail(&w->err, SP_E_INPUT, "%s is not UTF-8 text", key);
    if (gelu) put_text(w, "hidden_activation", name, len);
    put_text(w, "hidden_act", name, len);
}

/* Nemotron-H may state it as that of another kind of norm. */
static void write_norm_epsilon(struct sp_gguf_writer *w)
{
    const char *key = "attention.layer_norm_rms_epsilon", *own = w->model->family.norm_eps_key;

    if (!sp_gguf_has(w, key)) key = "attention.layer_norm_epsilon";
    sp_gguf_copy_float(w, key, *own ? own : "rms_norm_eps");
}

static void write_config(struct sp_gguf_writer *w)
{
    write_class(w);
    write_sizes(w);
    write_head_size(w);
    write_norm_epsilon(w);
    sp_gguf_put_rope(w);
    sp_gguf_put_members(w);
    write_biases(w);
    put_activation(w);
    /* Whether every token of a decoder sees all tokens. */
    if (!sp_gguf_flag(w, "attention.causal", true) && w->model->family.prefix[0])
        sp_gguf_put_bool(w, "is_causal", false);
    sp_gguf_put_bool(w, "tie_word_embeddings", w->model->tied);
    sp_json_out_print(&w->out, ",\n  \"torch_dtype\": \"%s\"", dtype_of(w));
    sp_gguf_copy_id(w, "tokenizer.ggml.bos_token_id", "bos_token_id");
    sp_gguf_copy_id(w, "tokenizer.ggml.eos_token_id", "eos_token_id");
    sp_gguf_copy_id(w, "tokenizer.ggml.padding_token_id", "pad_token_id");
    sp_json_out_raw(&w->out, "\n}\n");
}

enum sp_status sp_gguf_config_text(struct sp_text *text, const struct sp_gguf_model *model,
                                   char **warnings, struct sp_err *err)
{
    struct sp_gguf_writer w = {.model = model};
    enum sp_status st = note_unread(model, warnings, err);

    if (st) return st;
    write_config(&w);
    return sp_gguf_finish(text, &w, err);
}
