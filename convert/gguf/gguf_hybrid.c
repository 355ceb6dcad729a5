/* config.json of models whose layers are recurrent in part. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_INTERVAL = 4, SHOWN_KEY = 100 };

/* ---- gated delta rule ---- */

/* layer_types, by a list of booleans or, in older files, by the number of layers of which the last
 * one has attention. */
static enum sp_status put_layer_types(struct sp_gguf_writer *w, const char *recurrent)
{
    char key[SP_GGUF_KEY_SIZE];
    const struct sp_gguf_value *v;
    uint64_t interval = DEFAULT_INTERVAL, n = w->model->n_layers;
    enum sp_status st;

    sp_gguf_key(key, w, "attention.recurrent_layers");
    if ((st = sp_gguf_get_array(w->model->file, key, SP_GGUF_BOOL, &v, w->err)) ||
        (st = sp_gguf_get_size(&interval, w, "full_attention_interval")))
        return st;
    if (v ? v->n < n : interval == 0) {
        return sp_fail(w->err, SP_E_INPUT, "%s does not state the type of all %" PRIu64 " layers",
                       key, n);
    }
    st = sp_gguf_put_word(w, "layer_types", "[");
    for (uint64_t i = 0; i < n && !st; i++) {
        bool full = v ? sp_gguf_integer_at(v, i) == 0 : (i + 1) % interval == 0;
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "",
                         full ? "full_attention" : recurrent);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

enum sp_status sp_gguf_put_delta(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"ssm.conv_kernel", "linear_conv_kernel_dim"},
        {"ssm.state_size", "linear_key_head_dim"},
        {"ssm.group_count", "linear_num_key_heads"},
        {"ssm.time_step_rank", "linear_num_value_heads"},
        {0},
    };
    uint64_t inner, heads;
    enum sp_status st;

    if ((st = sp_gguf_need_size(&inner, w, "ssm.inner_size")) ||
        (st = sp_gguf_need_size(&heads, w, "ssm.time_step_rank")))
        return st;
    if (heads == 0 || inner % heads) {
        return sp_fail(w->err, SP_E_INPUT,
                       "%s.ssm.inner_size %" PRIu64 " is not divided into %" PRIu64 " heads",
                       w->model->arch->name, inner, heads);
    }
    if ((st = sp_gguf_put_integer(w, "linear_value_head_dim", inner / heads)) ||
        (st = sp_gguf_copy_sizes(w, sizes)) || (st = put_layer_types(w, "linear_attention")) ||
        (st = sp_gguf_put_partial_rotary(w)))
        return st;
    return sp_gguf_has(w, "expert_count") ? sp_gguf_put_experts(w, "num_experts") : SP_OK;
}

/* ---- Mamba-2 ---- */

/* Published names of its sizes. */
struct mamba_names {
    const char *heads, *head_dim, *groups, *state, *kernel, *conv_bias, *proj_bias;
    const char *inner;  /* width of all heads; NULL: not stated */
    const char *expand; /* width of all heads / hidden_size; NULL: not stated */
    const char *mixer;  /* beginning of its tensors in a layer */
};

static enum sp_status put_mamba(struct sp_gguf_writer *w, const struct mamba_names *names)
{
    const struct sp_gguf_pair sizes[] = {
        {"ssm.group_count", names->groups},
        {"ssm.state_size", names->state},
        {"ssm.conv_kernel", names->kernel},
        {0},
    };
    uint64_t inner, heads, hidden;
    char conv[40], proj[40];
    enum sp_status st;

    if ((st = sp_gguf_need_size(&inner, w, "ssm.inner_size")) ||
        (st = sp_gguf_need_size(&heads, w, "ssm.time_step_rank")) ||
        (st = sp_gguf_need_size(&hidden, w, "embedding_length")))
        return st;
    if (heads == 0 || inner % heads || (names->expand && (hidden == 0 || inner % hidden))) {
        return sp_fail(w->err, SP_E_UNSUPPORTED,
                       "%s.ssm.inner_size %" PRIu64 " does not fit %" PRIu64
                       " heads and an embedding_length of %" PRIu64,
                       w->model->arch->name, inner, heads, hidden);
    }
    if ((st = sp_gguf_put_integer(w, names->heads, heads)) ||
        (st = sp_gguf_put_integer(w, names->head_dim, inner / heads)) ||
        (st = sp_gguf_copy_sizes(w, sizes)) ||
        (names->inner && (st = sp_gguf_put_integer(w, names->inner, inner))) ||
        (names->expand && (st = sp_gguf_put_integer(w, names->expand, inner / hidden))))
        return st;
    snprintf(conv, sizeof conv, "%s.conv1d.bias", names->mixer);
    snprintf(proj, sizeof proj, "%s.in_proj.bias", names->mixer);
    st = sp_gguf_put_bool(w, names->conv_bias, sp_gguf_has_in_layers(w, conv));
    return st ? st : sp_gguf_put_bool(w, names->proj_bias, sp_gguf_has_in_layers(w, proj));
}

static const struct mamba_names hybrid_names = {
    .heads = "mamba_n_heads",
    .head_dim = "mamba_d_head",
    .groups = "mamba_n_groups",
    .state = "mamba_d_state",
    .kernel = "mamba_d_conv",
    .conv_bias = "mamba_conv_bias",
    .proj_bias = "mamba_proj_bias",
    .expand = "mamba_expand",
    .mixer = "mamba",
};

/* layer_types: layers without K/V heads are `other`. */
static enum sp_status put_types_by_heads(struct sp_gguf_writer *w, const char *attention,
                                         const char *other)
{
    enum sp_status st = sp_gguf_put_word(w, "layer_types", "[");

    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        uint64_t heads = 0;
        if ((st = sp_gguf_get_layer_size(&heads, w, "attention.head_count_kv", i))) return st;
        st = sp_json_put(&w->text, w->err, "%s\"%s\"", i ? ", " : "", heads ? attention : other);
    }
    return st ? st : sp_json_put(&w->text, w->err, "]");
}

/* A file that does not state whether attention rotates is of a model in which it does. */
enum sp_status sp_gguf_put_granite_hybrid(struct sp_gguf_writer *w)
{
    char key[SP_GGUF_KEY_SIZE];
    bool rotates = true;
    enum sp_status st;

    sp_gguf_key(key, w, "rope.scaling.finetuned");
    if ((st = sp_gguf_get_bool(w->model->file, key, &rotates, w->err)) ||
        (st = sp_gguf_put_word(w, "position_embedding_type", rotates ? "\"rope\"" : "null")) ||
        (st = put_types_by_heads(w, "attention", "mamba")) || (st = put_mamba(w, &hybrid_names)) ||
        (st = sp_gguf_put_granite(w)))
        return st;
    return sp_gguf_has(w, "expert_count") ? SP_OK : sp_gguf_put_integer(w, "num_local_experts", 0);
}

/* Every multiplier is 1: the converter multiplies the weights by them. The norm comes behind the
 * gate in all published models. */
enum sp_status sp_gguf_put_falcon_h1(struct sp_gguf_writer *w)
{
    struct mamba_names names = hybrid_names;
    enum sp_status st;

    names.inner = "mamba_d_ssm";
    names.expand = NULL;
    if ((st = put_mamba(w, &names)) ||
        (st = sp_gguf_put_bool(w, "mamba_rms_norm", sp_gguf_has_in_layers(w, "mamba.norm.weight"))))
        return st;
    return sp_gguf_put_word(w, "mamba_norm_before_gate", "false");
}

/* The kind of each layer by the tensors that it has. */
static enum sp_status put_pattern(struct sp_gguf_writer *w)
{
    static const struct {
        const char *tensor;
        char letter;
    } kinds[] = {
        {"in_proj.weight", 'M'},
        {"q_proj.weight", '*'},
        {"gate.weight", 'E'},
        {"up_proj.weight", '-'},
    };
    enum sp_status st = sp_gguf_put_word(w, "hybrid_override_pattern", "\"");

    for (uint64_t i = 0; i < w->model->n_layers && !st; i++) {
        size_t kind = 0;
        char name[80];

        for (; kind < sizeof kinds / sizeof *kinds; kind++) {
            snprintf(name, sizeof name, "model.layers.%" PRIu64 ".mixer.%s", i, kinds[kind].tensor);
            if (sp_gguf_weight_find(w->model, name)) break;
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

enum sp_status sp_gguf_put_nemotron_h(struct sp_gguf_writer *w)
{
    static const struct mamba_names names = {
        .heads = "mamba_num_heads",
        .head_dim = "mamba_head_dim",
        .groups = "n_groups",
        .state = "ssm_state_size",
        .kernel = "conv_kernel",
        .conv_bias = "use_conv_bias",
        .proj_bias = "use_bias",
        .mixer = "mixer",
    };
    static const struct sp_gguf_pair sizes[] = {
        {"expert_count", "n_routed_experts"},
        {"expert_used_count", "num_experts_per_tok"},
        {"expert_feed_forward_length", "moe_intermediate_size"},
        {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"},
        {"expert_shared_count", "n_shared_experts"},
        {"expert_group_count", "n_group"},
        {"expert_group_used_count", "topk_group"},
        {0},
    };
    enum sp_status st;

    if ((st = put_mamba(w, &names)) || (st = put_pattern(w))) return st;
    if (!sp_gguf_has(w, "expert_count")) return SP_OK;
    if ((st = sp_gguf_put_norm_topk(w, true)) || (st = sp_gguf_copy_sizes(w, sizes))) return st;
    return sp_gguf_copy_float(w, "expert_weights_scale", "routed_scaling_factor");
}

enum sp_status sp_gguf_put_mamba2(struct sp_gguf_writer *w)
{
    static const struct mamba_names names = {
        .heads = "num_heads",
        .head_dim = "head_dim",
        .groups = "n_groups",
        .state = "state_size",
        .kernel = "conv_kernel",
        .conv_bias = "use_conv_bias",
        .proj_bias = "use_bias",
        .expand = "expand",
        .mixer = "mixer",
    };

    return put_mamba(w, &names);
}

/* ---- short convolutions ---- */

enum sp_status sp_gguf_put_lfm2(struct sp_gguf_writer *w)
{
    static const struct sp_gguf_pair sizes[] = {
        {"shortconv.l_cache", "conv_L_cache"},
        {"leading_dense_block_count", "num_dense_layers"},
        {0},
    };
    enum sp_status st;

    if (sp_gguf_has(w, "attention.sliding_window")) {
        return sp_fail(w->err, SP_E_UNSUPPORTED, "%s.attention.sliding_window is not supported",
                       w->model->arch->name);
    }
    if ((st = sp_gguf_copy_sizes(w, sizes)) ||
        (st = put_types_by_heads(w, "full_attention", "conv")) ||
        (st = sp_gguf_put_bool(w, "conv_bias", sp_gguf_has_in_layers(w, "conv.conv.bias"))) ||
        (st = sp_gguf_put_word(w, "block_auto_adjust_ff_dim", "false")))
        return st;
    if (!sp_gguf_has(w, "expert_count")) return SP_OK;
    st = sp_gguf_put_bool(w, "use_expert_bias",
                          sp_gguf_has_in_layers(w, "feed_forward.expert_bias"));
    return st ? st : sp_gguf_put_experts(w, "num_experts");
}
