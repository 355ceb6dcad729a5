/* config.json of models with multi-head latent attention, whose heads the converter states as one
 * key of the latent and its rotated part. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <string.h>

enum { SOFTMAX = 1, SIGMOID = 2 };

/* Sizes of a head; files of older converters state them under the keys of common attention. */
static enum sp_status put_heads(struct sp_gguf_writer *w)
{
    bool mla = sp_gguf_has(w, "attention.key_length_mla");
    uint64_t keys, values, rotated, queries = 0;
    enum sp_status st;

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
    if ((st = sp_gguf_put_integer(w, "qk_rope_head_dim", rotated)) ||
        (st = sp_gguf_put_integer(w, "qk_nope_head_dim", keys - rotated)) ||
        (st = sp_gguf_put_integer(w, "v_head_dim", values)) ||
        (st = sp_gguf_copy_size(w, "attention.kv_lora_rank", "kv_lora_rank")))
        return st;
    return queries ? sp_gguf_put_integer(w, "q_lora_rank", queries)
                   : sp_gguf_put_word(w, "q_lora_rank", "null");
}

/* How experts are chosen. A file that does not state it is of a model with a softmax, or with
 * sigmoids if it has corrections of their scores. */
static enum sp_status check_law(const struct sp_gguf_writer *w, bool corrected)
{
    uint64_t want = corrected ? SIGMOID : SOFTMAX, law = want;
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    if (st || law == want || law == 0) return st;
    return sp_fail(w->err, SP_E_UNSUPPORTED,
                   "%s.expert_gating_func is %" PRIu64 ", expected %" PRIu64 " (%s)",
                   w->model->arch->name, law, want,
                   corrected ? "sigmoid, as exp_probs_b corrects its scores"
                             : "softmax, as nothing corrects its scores");
}

/* A size that counts as `value` if the file does not state it. */
static enum sp_status put_size(struct sp_gguf_writer *w, const char *key, const char *published,
                               uint64_t value)
{
    enum sp_status st = sp_gguf_get_size(&value, w, key);

    return st ? st : sp_gguf_put_integer(w, published, value);
}

enum sp_status sp_gguf_put_routed_experts(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "n_routed_experts"},
        {"expert_used_count", "num_experts_per_tok"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {0},
    };
    bool corrected = sp_gguf_has_in_layers(w, "mlp.gate.e_score_correction_bias"), norm = false;
    uint64_t groups = 1;
    double scale = 1;
    char key[SP_GGUF_KEY_SIZE];
    enum sp_status st;

    if ((st = check_law(w, corrected)) || (st = sp_gguf_copy_sizes(w, sizes)) ||
        (st = put_size(w, "expert_shared_count", "n_shared_experts", 0)) ||
        (st = put_size(w, "expert_group_count", "n_group", 1)) ||
        (st = put_size(w, "expert_group_used_count", "topk_group", 1)) ||
        (st = put_size(w, "leading_dense_block_count", "first_k_dense_replace", 0)) ||
        (st = put_size(w, "nextn_predict_layers", "num_nextn_predict_layers", 0)) ||
        (st = sp_gguf_get_size(&groups, w, "expert_group_count")))
        return st;
    sp_gguf_key(key, w, "expert_weights_norm");
    if ((st = sp_gguf_get_bool(w->model->file, key, &norm, w->err))) return st;
    sp_gguf_key(key, w, "expert_weights_scale");
    if ((st = sp_gguf_get_float(w->model->file, key, &scale, w->err))) return st;
    if (!corrected) {
        st = sp_gguf_put_word(w, "topk_method",
                              groups > 1 ? "\"group_limited_greedy\"" : "\"greedy\"");
    }
    if (!st) st = sp_gguf_put_bool(w, "norm_topk_prob", norm);
    return st ? st : sp_gguf_put_float(w, "routed_scaling_factor", scale);
}

enum sp_status sp_gguf_put_latent(struct sp_gguf_writer *w)
{
    enum sp_status st = put_heads(w);

    return st || !sp_gguf_has(w, "expert_count") ? st : sp_gguf_put_routed_experts(w);
}
