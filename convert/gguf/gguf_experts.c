/* Members of config.json about experts. Constants that the files do not hold are those of
 * llama.cpp's model loader and of transformers' classes. */

#include "convert/gguf/gguf_writer.h"
#include "convert/gguf/gguf_names.h"

#include <inttypes.h>
#include <stdio.h>

/* expert_gating_func; the last one is a softmax over the chosen experts. */
enum { SOFTMAX = 1, SIGMOID = 2, SOFTMAX_WEIGHT = 3 };

/* Old files do not state widths, which are those of the first layer. */
void sp_gguf_put_experts(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t width = sp_gguf_rows_of(w, "blk.0.ffn_up_exps.weight");
    uint64_t shared = sp_gguf_rows_of(w, "blk.0.ffn_up_shexp.weight");

    (void)m;
    if (!sp_gguf_has(w, "expert_count")) return;
    sp_gguf_copy_size(w, "expert_count", "num_experts");
    sp_gguf_copy_size(w, "expert_used_count", "num_experts_per_tok");
    width = sp_gguf_size(w, "expert_feed_forward_length", width);
    sp_gguf_put_integer(w, "moe_intermediate_size", width);
    if (shared) sp_gguf_put_integer(w, "shared_expert_intermediate_size", shared);
}

static void put_norm(struct sp_gguf_writer *w, bool norm)
{
    sp_gguf_put_bool(w, "norm_topk_prob", sp_gguf_flag(w, "expert_weights_norm", norm));
}

void sp_gguf_put_norm_topk(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    if (sp_gguf_has(w, "expert_count")) put_norm(w, m->otherwise[0] == 't');
}

static bool has_experts(const struct sp_gguf_writer *w, uint64_t layer)
{
    char name[64];

    snprintf(name, sizeof name, "blk.%" PRIu64 ".ffn_gate_inp.weight", layer);
    return sp_gguf_find_tensor(w->model->file, name) != NULL;
}

/* Which layers have experts follows from the tensors. */
void sp_gguf_put_mlp_types(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    (void)m;
    sp_gguf_put_word(w, "mlp_layer_types", "[");
    for (uint64_t i = 0; i < w->model->n_layers; i++) {
        sp_json_out_print(&w->out, "%s\"%s\"", i ? ", " : "",
                          has_experts(w, i) ? "sparse" : "dense");
    }
    sp_json_out_raw(&w->out, "]");
}

void sp_gguf_put_last_moe(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t last = w->model->n_layers;

    (void)m;
    while (last > 0 && !has_experts(w, last - 1))
        last--;
    if (last > 0) sp_gguf_put_integer(w, "moe_layer_end_index", last - 1);
}

void sp_gguf_put_sigmoid(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t law = sp_gguf_size(w, "expert_gating_func", SIGMOID);

    (void)m;
    if (law == SIGMOID) return;
    sp_gguf_check(w, sp_fail(w->err, SP_E_UNSUPPORTED,
                             "%s.expert_gating_func is %" PRIu64 ", expected %d (sigmoid)",
                             w->model->arch->name, law, SIGMOID));
}

/* Layers have a window by a list. A pattern that is a number counts from another layer than
 * transformers does, and no converter writes it. */
void sp_gguf_put_selection(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
{
    uint64_t law = sp_gguf_size(w, "expert_gating_func", SIGMOID);
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *pattern;

    (void)m;
    sp_gguf_key(key, w, "attention.sliding_window_pattern");
    pattern = sp_gguf_find(w->model->file, key);
    if (pattern == NULL || !pattern->is_array)
        sp_gguf_check(w, sp_fail(w->err, SP_E_UNSUPPORTED, "%s is not a list of booleans", key));
    if (law != SIGMOID && law != SOFTMAX_WEIGHT) {
        sp_gguf_check(w, sp_fail(w->err, SP_E_UNSUPPORTED,
                                 "%s.expert_gating_func is %" PRIu64
                                 ", expected %d (sigmoid) or %d (softmax of the chosen experts)",
                                 w->model->arch->name, law, SIGMOID, SOFTMAX_WEIGHT));
    }
    sp_gguf_put_word(w, "expert_selection_fn", law == SIGMOID ? "\"sigmoid\"" : "\"softmax\"");
}

/* ---- DeepSeek ---- */

/* How experts are chosen. A file that does not state it is of a model with a softmax, or with
 * sigmoids if it has corrections of their scores. */
static void check_law(struct sp_gguf_writer *w, bool corrected)
{
    uint64_t want = corrected ? SIGMOID : SOFTMAX;
    uint64_t law = sp_gguf_size(w, "expert_gating_func", want);

    if (law == want || law == 0) return;
    sp_gguf_check(w, sp_fail(w->err, SP_E_UNSUPPORTED,
                             "%s.expert_gating_func is %" PRIu64 ", expected %" PRIu64 " (%s)",
                             w->model->arch->name, law, want,
                             corrected ? "sigmoid, as exp_probs_b corrects its scores"
                                       : "softmax, as nothing corrects its scores"));
}

void sp_gguf_put_routed(struct sp_gguf_writer *w, const struct sp_gguf_member *m)
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
    uint64_t groups;

    (void)m;
    if (!sp_gguf_has(w, "expert_count")) return;
    check_law(w, corrected);
    groups = sp_gguf_size(w, "expert_group_count", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sp_gguf_put_integer(w, sizes[i].published,
                            sp_gguf_size(w, sizes[i].key, sizes[i].otherwise));
    }
    if (!corrected)
        sp_gguf_put_word(w, "topk_method", groups > 1 ? "\"group_limited_greedy\"" : "\"greedy\"");
    put_norm(w, false);
    sp_gguf_put_float(w, "routed_scaling_factor", sp_gguf_number(w, "expert_weights_scale", 1));
}
