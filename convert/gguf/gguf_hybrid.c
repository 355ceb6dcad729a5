/* config.json of models whose layers are recurrent in part. */
#include "convert/gguf/gguf_family.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_INTERVAL = 4, SHOWN_KEY = 100 };

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
        (st = sp_gguf_get_size(&interval, w, "full_attention_interval"))) {
        return st;
    }
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
        (st = sp_gguf_need_size(&heads, w, "ssm.time_step_rank"))) {
        return st;
    }
    if (heads == 0 || inner % heads) {
        return sp_fail(w->err, SP_E_INPUT,
                       "%s.ssm.inner_size %" PRIu64 " is not divided into %" PRIu64 " heads",
                       w->model->arch->name, inner, heads);
    }
    if ((st = sp_gguf_put_integer(w, "linear_value_head_dim", inner / heads)) ||
        (st = sp_gguf_copy_sizes(w, sizes)) || (st = put_layer_types(w, "linear_attention")) ||
        (st = sp_gguf_put_partial_rotary(w))) {
        return st;
    }
    return sp_gguf_has(w, "expert_count") ? sp_gguf_put_experts(w, "num_experts") : SP_OK;
}
