/* config.json of families with experts. Constants that the files do not hold are those of
 * llama.cpp's model loader and of transformers' classes. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* expert_gating_func; the last one is a softmax over the chosen experts. */
enum { SIGMOID = 2, SOFTMAX_WEIGHT = 3 };

/* ---- parts that several families have ---- */

/* The rows of a tensor of layer 0, for sizes that old files do not state. */
static uint64_t rows_of(const struct sp_gguf_writer *w, const char *name)
{
    const struct sp_gguf_weight *weight = sp_gguf_weight_find(w->model, name);

    return weight && weight->rank >= 2 ? weight->shape[weight->rank - 2] : 0;
}

enum sp_status sp_gguf_put_experts(struct sp_gguf_writer *w, const char *count)
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

enum sp_status sp_gguf_put_norm_topk(struct sp_gguf_writer *w, bool norm)
{
    char key[SP_GGUF_KEY_SIZE];
    enum sp_status st;

    sp_gguf_key(key, w, "expert_weights_norm");
    st = sp_gguf_get_bool(w->model->file, key, &norm, w->err);
    return st ? st : sp_gguf_put_bool(w, "norm_topk_prob", norm);
}

static bool has_experts(const struct sp_gguf_writer *w, uint64_t layer)
{
    char name[64];

    snprintf(name, sizeof name, "model.layers.%" PRIu64 ".mlp.gate.weight", layer);
    return sp_gguf_weight_find(w->model, name) != NULL;
}

/* Which layers have experts follows from the tensors. */
static enum sp_status put_mlp_types(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_word(w, "mlp_layer_types", "[");

    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         has_experts(w, i) ? "sparse" : "dense");
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* ---- families ---- */

enum sp_status sp_gguf_put_qwen2_moe(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_experts(w, "num_experts");

    return st ? st : sp_gguf_put_word(w, "norm_topk_prob", "false");
}

enum sp_status sp_gguf_put_qwen3_moe(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_experts(w, "num_experts");

    return st ? st : sp_gguf_put_word(w, "norm_topk_prob", "true");
}

enum sp_status sp_gguf_put_olmoe(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_copy_size(w, "expert_count", "num_experts");

    if (!st) st = sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok");
    if (!st) st = sp_gguf_copy_float(w, "attention.clamp_kqv", "clip_qkv");
    return st ? st : sp_gguf_put_word(w, "norm_topk_prob", "false");
}

enum sp_status sp_gguf_put_exaone_moe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_shared_count", "num_shared_experts"},
        {"expert_group_count", "n_group"},
        {"expert_group_used_count", "topk_group"},
        {0},
    };
    enum sp_status st;

    if ((st = sp_gguf_put_norm_topk(w, true)) || (st = sp_gguf_put_exaone4(w)) ||
        (st = sp_gguf_put_experts(w, "num_experts")) || (st = sp_gguf_copy_sizes(w, sizes)) ||
        (st = sp_gguf_copy_float(w, "expert_weights_scale", "routed_scaling_factor")))
        return st;
    return put_mlp_types(w);
}

/* The last layer with experts is not in the metadata. */
enum sp_status sp_gguf_put_ernie_moe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "moe_num_experts"},
        {"expert_used_count", "moe_k"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {"expert_shared_count", "moe_num_shared_experts"},
        {"leading_dense_block_count", "moe_layer_start_index"},
        {"interleave_moe_layer_step", "moe_layer_interval"},
        {0},
    };
    uint64_t last = w->model->n_layers;
    enum sp_status st = sp_gguf_copy_sizes(w, sizes);

    while (last > 0 && !has_experts(w, last - 1))
        last--;
    return st || last == 0 ? st : sp_gguf_put_integer(w, "moe_layer_end_index", last - 1);
}

/* Embeddings are scaled in all of its models. */
enum sp_status sp_gguf_put_afmoe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_shared_count", "num_shared_experts"},
        {"leading_dense_block_count", "num_dense_layers"},
        {0},
    };
    enum sp_status st = sp_gguf_put_experts(w, "num_experts");

    if (st || (st = sp_gguf_copy_sizes(w, sizes)) || (st = sp_gguf_put_window(w)) ||
        (st = sp_gguf_put_window_pattern(w)) ||
        (st = sp_gguf_copy_float(w, "expert_weights_scale", "route_scale")))
        return st;
    return sp_gguf_put_word(w, "mup_enabled", "true");
}

enum sp_status sp_gguf_put_glm4_moe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "n_routed_experts"},
        {"expert_used_count", "num_experts_per_tok"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {"expert_shared_count", "n_shared_experts"},
        {"expert_group_count", "n_group"},
        {"expert_group_used_count", "topk_group"},
        {"leading_dense_block_count", "first_k_dense_replace"},
        {"nextn_predict_layers", "num_nextn_predict_layers"},
        {0},
    };
    uint64_t law = SIGMOID;
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    if (!st && law != SIGMOID) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "glm4moe.expert_gating_func is %" PRIu64 ", expected %d (sigmoid)", law,
                       SIGMOID);
    }
    if (!st) st = sp_gguf_copy_sizes(w, sizes);
    if (!st && !sp_gguf_has(w, "leading_dense_block_count"))
        st = sp_gguf_put_integer(w, "first_k_dense_replace", 0);
    if (!st) st = sp_gguf_put_norm_topk(w, true);
    if (!st) st = sp_gguf_copy_float(w, "expert_weights_scale", "routed_scaling_factor");
    if (!st) {
        st =
            sp_gguf_put_bool(w, "use_qk_norm", sp_gguf_has_in_layers(w, "self_attn.q_norm.weight"));
    }
    return st ? st : sp_gguf_put_partial_rotary(w);
}

enum sp_status sp_gguf_put_hunyuan_moe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "num_experts"},
        {"expert_used_count", "moe_topk"},
        {"expert_shared_count", "num_shared_expert"},
        {0},
    };

    return sp_gguf_copy_sizes(w, sizes);
}

enum sp_status sp_gguf_put_mellum(struct sp_gguf_writer *w)
{
    enum sp_status st = sp_gguf_put_experts(w, "num_experts");

    if (st || (st = sp_gguf_put_window(w)) || (st = sp_gguf_put_window_pattern(w)) ||
        (st = put_mlp_types(w)))
        return st;
    return sp_gguf_put_word(w, "norm_topk_prob", "true");
}

/* Layers at the start have no experts. A pattern that is a number counts from another layer than
 * transformers does, and no converter writes it. */
enum sp_status sp_gguf_put_cohere2_moe(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "num_experts"},
        {"expert_used_count", "num_experts_per_tok"},
        {"expert_shared_count", "num_shared_experts"},
        {"leading_dense_block_count", "first_k_dense_replace"},
        {0},
    };
    uint64_t law = SIGMOID, width = rows_of(w, "model.layers.0.mlp.up_proj.weight");
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *pattern;
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    sp_gguf_key(key, w, "attention.sliding_window_pattern");
    pattern = sp_gguf_find(w->model->file, key);
    if (!st && (pattern == NULL || !pattern->is_array))
        st = sp_fail(w->err, SP_E_UNSUPPORTED, "%s is not a list of booleans", key);
    if (!st && law != SIGMOID && law != SOFTMAX_WEIGHT) {
        st = sp_fail(w->err, SP_E_UNSUPPORTED,
                     "cohere2moe.expert_gating_func is %" PRIu64
                     ", expected %d (sigmoid) or %d (softmax of the chosen experts)",
                     law, SIGMOID, SOFTMAX_WEIGHT);
    }
    if (st || (st = sp_gguf_copy_sizes(w, sizes)) || (st = sp_gguf_put_norm_topk(w, false)) ||
        (st = sp_gguf_put_window(w)) || (st = sp_gguf_put_window_pattern(w)) ||
        (st = sp_gguf_copy_float(w, "logit_scale", "logit_scale")) ||
        (st = sp_gguf_copy_float(w, "attention.layer_norm_rms_epsilon", "rms_norm_eps")) ||
        (width && (st = sp_gguf_put_integer(w, "prefix_dense_intermediate_size", width))))
        return st;
    st = sp_gguf_put_word(w, "expert_selection_fn", law == SIGMOID ? "\"sigmoid\"" : "\"softmax\"");
    return st ? st : put_mlp_types(w);
}
