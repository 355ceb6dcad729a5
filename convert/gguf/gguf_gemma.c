/* config.json of Gemma: 1 to 3, and 4, whose layers with and without a window have heads of
 * different size. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Gemma 2 and 3 ---- */

/* query_pre_attn_scalar is the head's size, but in the largest model hidden size / heads. */
static enum sp_status write_gemma(struct sp_gguf_writer *w, uint64_t largest)
{
    uint64_t scalar, layers, hidden, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&scalar, w, "attention.key_length")) ||
        (st = sp_gguf_need_size(&layers, w, "block_count")) ||
        (st = sp_gguf_need_size(&hidden, w, "embedding_length")) ||
        (st = sp_gguf_need_size(&heads, w, "attention.head_count")))
        return st;
    if (layers == largest && heads) scalar = hidden / heads;
    if ((st = sp_gguf_put_integer(w, "query_pre_attn_scalar", scalar))) return st;
    if ((st = sp_gguf_put_window(w))) return st;
    st = sp_gguf_copy_float(w, "attn_logit_softcapping", "attn_logit_softcapping");
    return st ? st : sp_gguf_copy_float(w, "final_logit_softcapping", "final_logit_softcapping");
}

enum sp_status sp_gguf_put_gemma2(struct sp_gguf_writer *w)
{
    return write_gemma(w, 46);
}

enum sp_status sp_gguf_put_gemma3(struct sp_gguf_writer *w)
{
    enum sp_status st;

    if ((st = write_gemma(w, 62))) return st;
    if ((st = sp_gguf_put_window_pattern(w))) return st;
    if (sp_gguf_has(w, "rope.freq_base_swa"))
        return sp_gguf_copy_float(w, "rope.freq_base_swa", "rope_local_base_freq");
    return sp_gguf_put_word(w, "rope_local_base_freq", "10000.0");
}

enum sp_status sp_gguf_put_gemma_embedding(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_gemma3(w);

    return st ? st : sp_gguf_put_bool(w, "use_bidirectional_attention", true);
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

    if ((st = sp_gguf_need_size(&size, w, "attention.key_length")) ||
        (st = sp_gguf_put_word(w, "per_layer_config", "{")))
        return st;
    for (uint64_t i = 0; i < w->model->n_layers; i++) {
        if ((st = is_full(&full, w, i))) return st;
        if (!full) continue;
        if ((st = sp_gguf_need_size(&kv, w, "attention.head_count")) ||
            (st = sp_gguf_get_layer_size(&kv, w, "attention.head_count_kv", i)) ||
            (st = sp_json_put(&w->text, w->err,
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

    snprintf(name, sizeof name, "model.layers.%" PRIu64 ".self_attn.%c_proj.weight", layer, kind);
    return sp_gguf_weight_find(w->model, name) != NULL;
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

    if ((st = sp_gguf_get_size(&shared, w, "attention.shared_kv_layers")) ||
        (st = sp_gguf_put_integer(w, "num_kv_shared_layers", shared)) ||
        (st = sp_gguf_get_layer_size(&first, w, "feed_forward_length", 0)) ||
        (st = sp_gguf_get_layer_size(&last, w, "feed_forward_length",
                                     w->model->n_layers ? w->model->n_layers - 1 : 0)))
        return st;
    return sp_gguf_put_bool(w, "use_double_wide_mlp", shared && last != first);
}

static enum sp_status put_experts(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "num_experts"},
        {"expert_used_count", "top_k_experts"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {0},
    };
    bool moe = sp_gguf_has_in_layers(w, "router.proj.weight");
    enum sp_status st = sp_gguf_put_bool(w, "enable_moe_block", moe);

    return st || !moe ? st : sp_gguf_copy_sizes(w, sizes);
}

enum sp_status sp_gguf_put_gemma4(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"attention.key_length_swa", "head_dim"},
        {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
        {0},
    };
    const struct sp_gguf_weight *table =
        sp_gguf_weight_find(w->model, "model.embed_tokens_per_layer.weight");
    enum sp_status st;

    if ((st = sp_gguf_copy_sizes(w, sizes)) || (st = sp_gguf_put_window(w)) ||
        (st = sp_gguf_put_window_pattern(w)) || (st = put_full_heads(w)) ||
        (st = put_value_source(w)) || (st = put_shared_layers(w)) || (st = put_experts(w)) ||
        (st = sp_gguf_copy_float(w, "final_logit_softcapping", "final_logit_softcapping")))
        return st;
    return table ? sp_gguf_put_integer(w, "vocab_size_per_layer_input", table->shape[0]) : SP_OK;
}
