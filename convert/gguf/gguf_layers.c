/* Members of config.json about layers: the gated delta rule, Mamba-2, latent attention, and Gemma
 * 4, whose layers with and without a window have heads of different size. */
#include "convert/gguf/gguf_layers.h"

#include "convert/gguf/gguf_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_INTERVAL = 4 };

/* ---- gated delta rule ---- */

/* layer_types, by a list of booleans or, in older files, by the number of layers of which the last
 * one has attention. */
static enum sp_status put_layer_types(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    uint64_t interval = DEFAULT_INTERVAL, n = w->model->n_layers;
    enum sp_status st;

    sp_gguf_key(key, w, "attention.recurrent_layers");
    if ((st = sp_gguf_get_array(w->model->file, key, SP_GGUF_BOOL, &v, w->err))) return st;
    if ((st = sp_gguf_get_size(&interval, w, "full_attention_interval"))) return st;
    if (v ? v->n < n : interval == 0) {
        return sp_fail(w->err, SP_E_INPUT, "%s does not state the type of all %" PRIu64 " layers",
                       key, n);
    }
    st = sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < n && !st; i++) {
        bool full = v ? sp_gguf_integer_at(v, i) == 0 : (i + 1) % interval == 0;
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         full ? "full_attention" : "linear_attention");
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

enum sp_status sp_gguf_put_delta(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t inner, heads;
    enum sp_status st;

    (void)m;
    if ((st = sp_gguf_need_size(&inner, w, "ssm.inner_size"))) return st;
    if ((st = sp_gguf_need_size(&heads, w, "ssm.time_step_rank"))) return st;
    if (heads == 0 || inner % heads) {
        return sp_fail(w->err, SP_E_INPUT,
                       "%s.ssm.inner_size %" PRIu64 " is not divided into %" PRIu64 " heads",
                       w->model->arch->name, inner, heads);
    }
    if ((st = sp_gguf_put_integer(w, "linear_value_head_dim", inner / heads))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.conv_kernel", "linear_conv_kernel_dim"))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.state_size", "linear_key_head_dim"))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.group_count", "linear_num_key_heads"))) return st;
    if ((st = sp_gguf_put_integer(w, "linear_num_value_heads", heads))) return st;
    return put_layer_types(w);
}

/* ---- Mamba-2 ---- */

enum sp_status sp_gguf_put_mamba(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    const struct sp_mamba_family *keys = w->model->family.mamba;
    const char *expand = m->published;
    uint64_t inner, heads, hidden;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&inner, w, "ssm.inner_size"))) return st;
    if ((st = sp_gguf_need_size(&heads, w, "ssm.time_step_rank"))) return st;
    if ((st = sp_gguf_need_size(&hidden, w, "embedding_length"))) return st;
    if (heads == 0 || inner % heads || (expand && (hidden == 0 || inner % hidden))) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.ssm.inner_size %" PRIu64 " does not fit %" PRIu64
                       " heads and an embedding_length of %" PRIu64,
                       w->model->arch->name, inner, heads, hidden);
    }
    if ((st = sp_gguf_put_integer(w, keys->heads, heads))) return st;
    if ((st = sp_gguf_put_integer(w, keys->head_dim, inner / heads))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.group_count", keys->groups))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.state_size", keys->state))) return st;
    if ((st = sp_gguf_copy_size(w, "ssm.conv_kernel", keys->kernel))) return st;
    if (keys->values && (st = sp_gguf_put_integer(w, keys->values, inner))) return st;
    if (expand && (st = sp_gguf_put_integer(w, expand, inner / hidden))) return st;
    st = sp_gguf_put_bool(w, keys->conv_bias, sp_gguf_has_in_layers(w->model, "ssm_conv1d.bias"));
    return st ? st
              : sp_gguf_put_bool(w, keys->proj_bias,
                                 sp_gguf_has_in_layers(w->model, "ssm_in.bias"));
}

/* Layers without K/V heads are of the other type. */
enum sp_status sp_gguf_put_by_heads(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    enum sp_status st = sp_gguf_put_word(w, "layer_types", "[");

    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        uint64_t heads = 0;
        if ((st = sp_gguf_get_layer_size(&heads, w, "attention.head_count_kv", i))) return st;
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         heads ? m->published : m->otherwise);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* The kind of each layer by the tensors that it has. */
enum sp_status sp_gguf_put_sublayers(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    static const struct {
        const char *tensor;
        char letter;
    } kinds[] = {
        {"ssm_in", 'M'},
        {"attn_q", '*'},
        {"ffn_gate_inp", 'E'},
        {"ffn_up", '-'},
    };
    enum sp_status st = sp_gguf_put_word(w, "hybrid_override_pattern", "\"");

    (void)m;
    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        size_t kind = 0;
        char name[80];

        for (; kind < sizeof kinds / sizeof *kinds; kind++) {
            snprintf(name, sizeof name, "blk.%" PRIu64 ".%s.weight", i, kinds[kind].tensor);
            if (sp_gguf_find_tensor(w->model->file, name)) break;
        }
        if (kind == sizeof kinds / sizeof *kinds) {
            return sp_fail(
                w->err, SP_E_INPUT,
                "layer %" PRIu64 " has neither ssm_in nor attn_q, ffn_gate_inp or ffn_up", i);
        }
        st = sp_json_put(&w->text, w->err, "%c", kinds[kind].letter);
    }
    return st ? st : sp_json_put(&w->text, w->err, "\"");
}

/* ---- latent attention ---- */

/* The converter states a head as one key of the latent and its rotated part. Files of older
 * converters state its sizes under the keys of common attention. */
enum sp_status sp_gguf_put_latent(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    bool mla = sp_gguf_has(w, "attention.key_length_mla");
    uint64_t keys, values, rotated, queries = 0;
    enum sp_status st;

    (void)m;
    if ((st = sp_gguf_need_size(&keys, w,
                                mla ? "attention.key_length_mla" : "attention.key_length")) ||
        (st = sp_gguf_need_size(&values, w,
                                mla ? "attention.value_length_mla" : "attention.value_length")) ||
        (st = sp_gguf_need_size(&rotated, w, "rope.dimension_count")) ||
        (st = sp_gguf_get_size(&queries, w, "attention.q_lora_rank")))
        return st;
    if (rotated >= keys) {
        return sp_fail(w->err, SP_E_INPUT,
                       "%s.rope.dimension_count is %" PRIu64 ", but a head has %" PRIu64 " dims",
                       w->model->arch->name, rotated, keys);
    }
    if ((st = sp_gguf_put_integer(w, "qk_rope_head_dim", rotated))) return st;
    if ((st = sp_gguf_put_integer(w, "qk_nope_head_dim", keys - rotated))) return st;
    if ((st = sp_gguf_put_integer(w, "v_head_dim", values))) return st;
    if ((st = sp_gguf_copy_size(w, "attention.kv_lora_rank", "kv_lora_rank"))) return st;
    return queries ? sp_gguf_put_integer(w, "q_lora_rank", queries)
                   : sp_gguf_put_word(w, "q_lora_rank", "null");
}

/* ---- Gemma 4 ---- */

/* Layer i of the list of booleans that states which layers have a window. */
static enum sp_status is_full(bool *out, const struct sp_gguf_writer *w, uint64_t i)
{
    uint64_t windowed = 0;
    enum sp_status st = sp_gguf_get_layer_size(&windowed, w, "attention.sliding_window_pattern", i);

    *out = windowed == 0;
    return st;
}

/* Full layers have a size and a number of K/V heads of their own. */
static enum sp_status put_full_heads(struct sp_gguf_writer *w)
{
    const char *separator = "";
    uint64_t size, kv;
    bool full;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&size, w, "attention.key_length"))) return st;
    if ((st = sp_gguf_put_word(w, "per_layer_config", "{"))) return st;
    for (uint64_t i = 0; i < w->model->n_layers; i++) {
        if ((st = is_full(&full, w, i))) return st;
        if (!full) continue;
        if ((st = sp_gguf_need_size(&kv, w, "attention.head_count"))) return st;
        if ((st = sp_gguf_get_layer_size(&kv, w, "attention.head_count_kv", i))) return st;
        if ((st = sp_json_put(&w->text, w->err,
                              "%s\"%" PRIu64 "\": {\"head_dim\": %" PRIu64
                              ", \"num_key_value_heads\": %" PRIu64 "}",
                              separator, i, size, kv)))
            return st;
        separator = ", ";
    }
    return sp_json_put(&w->text, w->err, "}");
}

static bool has_projection(const struct sp_gguf_writer *w, uint64_t layer, char kind)
{
    char name[80];

    snprintf(name, sizeof name, "blk.%" PRIu64 ".attn_%c.weight", layer, kind);
    return sp_gguf_find_tensor(w->model->file, name) != NULL;
}

/* Values are made from keys if a full layer has keys without values. */
static enum sp_status put_value_source(struct sp_gguf_writer *w)
{
    bool from_keys = false, full;
    enum sp_status st;

    for (uint64_t i = 0; i < w->model->n_layers && !from_keys; i++) {
        if ((st = is_full(&full, w, i))) return st;
        from_keys = full && has_projection(w, i, 'k') && !has_projection(w, i, 'v');
    }
    return sp_gguf_put_bool(w, "attention_k_eq_v", from_keys);
}

/* The MLPs of layers that use the keys of earlier ones may be twice as wide. */
static enum sp_status put_shared_layers(struct sp_gguf_writer *w)
{
    uint64_t shared = 0, first = 0, last = 0;
    enum sp_status st;

    if ((st = sp_gguf_get_size(&shared, w, "attention.shared_kv_layers"))) return st;
    if ((st = sp_gguf_put_integer(w, "num_kv_shared_layers", shared))) return st;
    if ((st = sp_gguf_get_layer_size(&first, w, "feed_forward_length", 0))) return st;
    if ((st = sp_gguf_get_layer_size(&last, w, "feed_forward_length",
                                     w->model->n_layers ? w->model->n_layers - 1 : 0)))
        return st;
    return sp_gguf_put_bool(w, "use_double_wide_mlp", shared && last != first);
}

enum sp_status sp_gguf_put_gemma4(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    bool moe = sp_gguf_has_in_layers(w->model, "ffn_gate_inp.weight");
    enum sp_status st;

    (void)m;
    if ((st = put_full_heads(w)) || (st = put_value_source(w)) || (st = put_shared_layers(w)) ||
        (st = sp_gguf_put_bool(w, "enable_moe_block", moe)) || !moe)
        return st;
    if ((st = sp_gguf_copy_size(w, "expert_count", "num_experts"))) return st;
    if ((st = sp_gguf_copy_size(w, "expert_used_count", "top_k_experts"))) return st;
    return sp_gguf_copy_size(w, "expert_feed_forward_length", "moe_intermediate_size");
}
