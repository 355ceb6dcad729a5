/* Members of config.json about layers: the gated delta rule, Mamba-2, latent attention, and Gemma
 * 4, whose layers with and without a window have heads of different size. */

#include "convert/gguf/gguf_writer.h"

#include <inttypes.h>

enum { DEFAULT_INTERVAL = 4 };

/* ---- gated delta rule ---- */

/* layer_types, by a list of booleans, in ollama's files by the layers without heads, or, in older
 * ones, by the number of layers of which the last one has attention. */
static void put_layer_types(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v = NULL, *heads;
    uint64_t interval, n = w->model->n_layers;
    bool counts;

    sp_gguf_key(key, w, "attention.head_count_kv");
    heads = sp_gguf_find(w->model->file, key);
    sp_gguf_key(key, w, "attention.recurrent_layers");
    (void)!sp_gguf_get_array(w->model->file, key, SP_GGUF_BOOL, &v, &w->err);
    if (w->err.status) return;
    counts = v == NULL && heads && heads->is_array;
    if (counts) v = heads;
    interval = sp_gguf_size(w, "full_attention_interval", DEFAULT_INTERVAL);
    if (v ? v->n < n : interval == 0) {
        sp_fail(&w->err, SP_E_INPUT, "%s does not state the type of all %" PRIu64 " layers", key,
                n);
        return;
    }
    sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < n; i++) {
        bool full = v ? (sp_gguf_integer_at(v, i) == 0) != counts : (i + 1) % interval == 0;
        sp_json_out_print(&w->out, "%s\"%s\"", i ? ", " : "",
                          full ? "full_attention" : "linear_attention");
    }
    sp_json_out_raw(&w->out, "]");
}

void sp_gguf_put_delta(struct sp_gguf_writer *w)
{
    uint64_t inner = sp_gguf_need_size(w, "ssm.inner_size");
    uint64_t heads = sp_gguf_need_size(w, "ssm.time_step_rank");

    if (heads == 0 || inner % heads) {
        sp_fail(&w->err, SP_E_INPUT,
                "%s.ssm.inner_size %" PRIu64 " is not divided into %" PRIu64 " heads",
                w->model->arch->name, inner, heads);
        return;
    }
    sp_gguf_put_integer(w, "linear_value_head_dim", inner / heads);
    sp_gguf_copy_size(w, "ssm.conv_kernel", "linear_conv_kernel_dim");
    sp_gguf_copy_size(w, "ssm.state_size", "linear_key_head_dim");
    sp_gguf_copy_size(w, "ssm.group_count", "linear_num_key_heads");
    sp_gguf_put_integer(w, "linear_num_value_heads", heads);
    put_layer_types(w);
}

/* ---- Mamba-2 ---- */

void sp_gguf_put_mamba(struct sp_gguf_writer *w)
{
    const struct sp_mamba_family *keys = w->model->family.mamba;
    const char *expand = w->member->published;
    uint64_t inner = sp_gguf_need_size(w, "ssm.inner_size");
    uint64_t heads = sp_gguf_need_size(w, "ssm.time_step_rank");
    uint64_t hidden = sp_gguf_need_size(w, "embedding_length");

    if ((heads == 0 || inner % heads) && !keys->rank) heads = 0; /* Mamba-1 has a rank instead */
    if (heads == 0 || (expand && (hidden == 0 || inner % hidden))) {
        sp_fail(&w->err, SP_E_UNSUPPORTED,
                "%s.ssm.inner_size %" PRIu64 " does not fit %" PRIu64
                " heads and an embedding_length of %" PRIu64,
                w->model->arch->name, inner, heads, hidden);
        return;
    }
    if (keys->rank) {
        sp_gguf_put_integer(w, keys->rank, heads);
    } else {
        sp_gguf_put_integer(w, keys->heads, heads);
        sp_gguf_put_integer(w, keys->head_dim, inner / heads);
        sp_gguf_copy_size(w, "ssm.group_count", keys->groups);
    }
    sp_gguf_copy_size(w, "ssm.state_size", keys->state);
    sp_gguf_copy_size(w, "ssm.conv_kernel", keys->kernel);
    if (keys->values) sp_gguf_put_integer(w, keys->values, inner);
    if (expand) sp_gguf_put_integer(w, expand, inner / hidden);
    sp_gguf_put_bool(w, keys->conv_bias, sp_gguf_has_in_layers(w->model, "ssm_conv1d.bias"));
    sp_gguf_put_bool(w, keys->proj_bias, sp_gguf_has_in_layers(w->model, "ssm_in.bias"));
}

/* Layers without K/V heads are of the other type. */
void sp_gguf_put_by_heads(struct sp_gguf_writer *w)
{
    sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < w->model->n_layers && !w->err.status; i++) {
        uint64_t heads = sp_gguf_layer_size(w, "attention.head_count_kv", i, 0);
        sp_json_out_print(&w->out, "%s\"%s\"", i ? ", " : "",
                          heads ? w->member->published : w->member->otherwise);
    }
    sp_json_out_raw(&w->out, "]");
}

/* The kind of each layer by the tensors that it has. */
void sp_gguf_put_sublayers(struct sp_gguf_writer *w)
{
    static const char *const tensors[] = {"ssm_in", "attn_q", "ffn_gate_inp", "ffn_up"};
    static const char letters[] = "M*E-";

    sp_gguf_put_word(w, "hybrid_override_pattern", "\"");
    for (uint64_t i = 0; i < w->model->n_layers; i++) {
        size_t kind = 0;
        while (letters[kind] && !sp_gguf_layer_has(w, i, tensors[kind]))
            kind++;
        if (letters[kind] == '\0') {
            sp_fail(&w->err, SP_E_INPUT,
                    "layer %" PRIu64 " has neither ssm_in nor attn_q, ffn_gate_inp or ffn_up", i);
            return;
        }
        sp_json_out_print(&w->out, "%c", letters[kind]);
    }
    sp_json_out_raw(&w->out, "\"");
}

/* ---- latent attention ---- */

/* The converter states a head as one key of the latent and its rotated part. Files of older
 * converters state its sizes under the keys of common attention. */
void sp_gguf_put_latent(struct sp_gguf_writer *w)
{
    bool mla = sp_gguf_has(w, "attention.key_length_mla");
    uint64_t keys = sp_gguf_need_size(w, mla ? "attention.key_length_mla" : "attention.key_length");
    uint64_t values =
        sp_gguf_need_size(w, mla ? "attention.value_length_mla" : "attention.value_length");
    uint64_t rotated = sp_gguf_need_size(w, "rope.dimension_count");
    uint64_t queries = sp_gguf_size(w, "attention.q_lora_rank", 0);

    if (rotated >= keys) {
        sp_fail(&w->err, SP_E_INPUT,
                "%s.rope.dimension_count is %" PRIu64 ", but a head has %" PRIu64 " dims",
                w->model->arch->name, rotated, keys);
    }
    sp_gguf_put_integer(w, "qk_rope_head_dim", rotated);
    sp_gguf_put_integer(w, "qk_nope_head_dim", keys - rotated);
    sp_gguf_put_integer(w, "v_head_dim", values);
    sp_gguf_copy_size(w, "attention.kv_lora_rank", "kv_lora_rank");
    if (queries)
        sp_gguf_put_integer(w, "q_lora_rank", queries);
    else
        sp_gguf_put_word(w, "q_lora_rank", "null");
}

/* ---- Gemma 4 ---- */

/* Layer i of the list of booleans that states which layers have a window. */
static bool is_full(struct sp_gguf_writer *w, uint64_t i)
{
    return sp_gguf_layer_size(w, "attention.sliding_window_pattern", i, 0) == 0;
}

/* Full layers have a size and a number of K/V heads of their own. */
static void put_full_heads(struct sp_gguf_writer *w)
{
    uint64_t size = sp_gguf_need_size(w, "attention.key_length"), kv;
    const char *separator = "";

    sp_gguf_put_word(w, "per_layer_config", "{");
    for (uint64_t i = 0; i < w->model->n_layers && !w->err.status; i++) {
        if (!is_full(w, i)) continue;
        kv = sp_gguf_layer_size(w, "attention.head_count_kv", i,
                                sp_gguf_need_size(w, "attention.head_count"));
        sp_json_out_print(&w->out,
                          "%s\"%" PRIu64 "\": {\"head_dim\": %" PRIu64
                          ", \"num_key_value_heads\": %" PRIu64 "}",
                          separator, i, size, kv);
        separator = ", ";
    }
    sp_json_out_raw(&w->out, "}");
}

/* Values are made from keys if a full layer has keys without values. */
static void put_value_source(struct sp_gguf_writer *w)
{
    bool from_keys = false;

    for (uint64_t i = 0; i < w->model->n_layers && !from_keys; i++)
        from_keys = is_full(w, i) && sp_gguf_layer_has(w, i, "attn_k") &&
                    !sp_gguf_layer_has(w, i, "attn_v");
    sp_gguf_put_bool(w, "attention_k_eq_v", from_keys);
}

/* The MLPs of layers that use the keys of earlier ones may be twice as wide. */
static void put_shared_layers(struct sp_gguf_writer *w)
{
    uint64_t n = w->model->n_layers;
    uint64_t shared = sp_gguf_size(w, "attention.shared_kv_layers", 0);
    uint64_t first = sp_gguf_layer_size(w, "feed_forward_length", 0, 0);
    uint64_t last = sp_gguf_layer_size(w, "feed_forward_length", n ? n - 1 : 0, 0);

    sp_gguf_put_integer(w, "num_kv_shared_layers", shared);
    sp_gguf_put_bool(w, "use_double_wide_mlp", shared && last != first);
}

void sp_gguf_put_gemma4(struct sp_gguf_writer *w)
{
    bool moe = sp_gguf_has_in_layers(w->model, "ffn_gate_inp.weight");

    put_full_heads(w);
    put_value_source(w);
    put_shared_layers(w);
    sp_gguf_put_bool(w, "enable_moe_block", moe);
    if (!moe) return;
    sp_gguf_copy_size(w, "expert_count", "num_experts");
    sp_gguf_copy_size(w, "expert_used_count", "top_k_experts");
    sp_gguf_copy_size(w, "expert_feed_forward_length", "moe_intermediate_size");
}
