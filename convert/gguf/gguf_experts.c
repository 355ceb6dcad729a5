/* Members of config.json about experts. Constants that the files do not hold are those of
 * llama.cpp's model loader and of transformers' classes. */
#include "convert/gguf/gguf_experts.h"

#include "convert/gguf/gguf_names.h"

#include <inttypes.h>
#include <stdio.h>

/* expert_gating_func; the last one is a softmax over the chosen experts. */
enum { SOFTMAX = 1, SIGMOID = 2, SOFTMAX_WEIGHT = 3 };

/* Old files do not state widths, which are those of the first layer. */
enum sp_status sp_gguf_put_experts(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t width = sp_gguf_rows_of(w, "blk.0.ffn_up_exps.weight");
    uint64_t shared = sp_gguf_rows_of(w, "blk.0.ffn_up_shexp.weight");
    enum sp_status st;

    (void)m;
    if (!sp_gguf_has(w, "expert_count")) return SP_OK;
    if ((st = sp_gguf_copy_size(w, "expert_count", "num_experts"))) return st;
    if ((st = sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok"))) return st;
    if ((st = sp_gguf_get_size(&width, w, "expert_feed_forward_length"))) return st;
    if ((st = sp_gguf_put_integer(w, "moe_intermediate_size", width))) return st;
    return shared ? sp_gguf_put_integer(w, "shared_expert_intermediate_size", shared) : SP_OK;
}

static enum sp_status put_norm(struct sp_gguf_writer *w, bool norm)
{
    enum sp_status st = sp_gguf_read_bool(&norm, w, "expert_weights_norm");

    return st ? st : sp_gguf_put_bool(w, "norm_topk_prob", norm);
}

enum sp_status sp_gguf_put_norm_topk(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    if (!sp_gguf_has(w, "expert_count")) return SP_OK;
    return put_norm(w, m->otherwise[0] == 't');
}

static bool has_experts(const struct sp_gguf_writer *w, uint64_t layer)
{
    char name[64];

    snprintf(name, sizeof name, "blk.%" PRIu64 ".ffn_gate_inp.weight", layer);
    return sp_gguf_find_tensor(w->model->file, name) != NULL;
}

/* Which layers have experts follows from the tensors. */
enum sp_status sp_gguf_put_mlp_types(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    enum sp_status st = sp_gguf_put_word(w, "mlp_layer_types", "[");

    (void)m;
    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         has_experts(w, i) ? "sparse" : "dense");
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

enum sp_status sp_gguf_put_last_moe(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t last = w->model->n_layers;

    (void)m;
    while (last > 0 && !has_experts(w, last - 1))
        last--;
    return last == 0 ? SP_OK : sp_gguf_put_integer(w, "moe_layer_end_index", last - 1);
}

enum sp_status sp_gguf_put_sigmoid(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t law = SIGMOID;
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    (void)m;
    if (st || law == SIGMOID) return st;
    return sp_fail(w->err, SP_E_UNSUPPORTED,
                   "%s.expert_gating_func is %" PRIu64 ", expected %d (sigmoid)",
                   w->model->arch->name, law, SIGMOID);
}

/* Layers have a window by a list. A pattern that is a number counts from another layer than
 * transformers does, and no converter writes it. */
enum sp_status sp_gguf_put_selection(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t law = SIGMOID;
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *pattern;
    enum sp_status st = sp_gguf_get_size(&law, w, "expert_gating_func");

    (void)m;
    sp_gguf_key(key, w, "attention.sliding_window_pattern");
    pattern = sp_gguf_find(w->model->file, key);
    if (!st && (pattern == NULL || !pattern->is_array))
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s is not a list of booleans", key);
    if (!st && law != SIGMOID && law != SOFTMAX_WEIGHT) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.expert_gating_func is %" PRIu64
                       ", expected %d (sigmoid) or %d (softmax of the chosen experts)",
                       w->model->arch->name, law, SIGMOID, SOFTMAX_WEIGHT);
    }
    if (st) return st;
    return sp_gguf_put_word(w, "expert_selection_fn",
                            law == SIGMOID ? "\"sigmoid\"" : "\"softmax\"");
}

/* ---- DeepSeek ---- */

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

enum sp_status sp_gguf_put_routed(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    static const struct {
        const char *key, *published;
        uint64_t otherwise; /* the size that a missing key stands for */
    } sizes[] = {
        {"expert_count", "n_routed_experts", 0},
        {"expert_used_count", "num_experts_per_tok", 0},
        {"expert_feed_forward_length", "moe_intermediate_size", 0},
        {"expert_shared_count", "n_shared_experts", 0},
        {"expert_group_count", "n_group", 1},
        {"expert_group_used_count", "topk_group", 1},
        {"leading_dense_block_count", "first_k_dense_replace", 0},
        {"nextn_predict_layers", "num_nextn_predict_layers", 0},
    };
    bool corrected = sp_gguf_has_in_layers(w->model, "exp_probs_b");
    uint64_t groups = 1;
    double scale = 1;
    enum sp_status st;

    (void)m;
    if (!sp_gguf_has(w, "expert_count")) return SP_OK;
    if ((st = check_law(w, corrected))) return st;
    if ((st = sp_gguf_get_size(&groups, w, "expert_group_count"))) return st;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t size = sizes[i].otherwise;
        if ((st = sp_gguf_get_size(&size, w, sizes[i].key))) return st;
        if ((st = sp_gguf_put_integer(w, sizes[i].published, size))) return st;
    }
    if ((st = sp_gguf_read_float(&scale, w, "expert_weights_scale"))) return st;
    if (!corrected) {
        st = sp_gguf_put_word(w, "topk_method",
                              groups > 1 ? "\"group_limited_greedy\"" : "\"greedy\"");
    }
    if (!st) st = put_norm(w, false);
    return st ? st : sp_gguf_put_float(w, "routed_scaling_factor", scale);
}
