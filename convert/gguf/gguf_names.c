/* blk.N.ffn_up.weight to model.layers.N.mlp.up_proj.weight: llama.cpp has the same name for the
 * same tensor in all families (gguf/constants.py, gguf/tensor_mapping.py), so that it stands for a
 * canonical one, and the aliases of the family say what a checkpoint calls that. */
#include "convert/gguf/gguf_model.h"

#include "format/base/affix.h"
#include "format/family/tensor_alias.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the names that all families have ---- */

static const struct sp_gguf_name layer_names[] = {
    {"attn_norm", "input_layernorm", SP_GGUF_AS_IS},
    {"attn_q", "self_attn.q_proj", SP_GGUF_AS_IS},
    {"attn_k", "self_attn.k_proj", SP_GGUF_AS_IS},
    {"attn_v", "self_attn.v_proj", SP_GGUF_AS_IS},
    {"attn_qkv", "self_attn.q_proj", SP_GGUF_AS_IS},
    {"attn_gate", "self_attn.gate_proj", SP_GGUF_AS_IS},
    {"attn_output", "self_attn.o_proj", SP_GGUF_AS_IS},
    {"attn_q_norm", "self_attn.q_norm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.k_norm", SP_GGUF_AS_IS},
    {"attn_sinks", "self_attn.sinks", SP_GGUF_BARE},
    {"attn_q_a", "self_attn.q_a_proj", SP_GGUF_AS_IS},
    {"attn_q_a_norm", "self_attn.q_a_layernorm", SP_GGUF_AS_IS},
    {"attn_q_b", "self_attn.q_b_proj", SP_GGUF_AS_IS},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", SP_GGUF_AS_IS},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm", SP_GGUF_AS_IS},
    {"attn_kv_b", "self_attn.kv_b_proj", SP_GGUF_AS_IS},
    {"attn_k_b", "self_attn.k_b_proj", SP_GGUF_AS_IS},
    {"attn_v_b", "self_attn.v_b_proj", SP_GGUF_AS_IS},
    {"ssm_in", "mamba.in_proj_z", SP_GGUF_AS_IS},
    {"ssm_conv1d", "mamba.conv1d", SP_GGUF_CONV},
    {"ssm_a", "mamba.A_log", SP_GGUF_LOG},
    {"ssm_d", "mamba.D", SP_GGUF_BARE_VECTOR},
    {"ssm_dt", "mamba.dt_bias", SP_GGUF_BARE_VECTOR},
    {"ssm_norm", "mamba.norm", SP_GGUF_VECTOR},
    {"ssm_out", "mamba.out_proj", SP_GGUF_AS_IS},
    {"shortconv.conv", "conv.conv", SP_GGUF_CONV},
    {"shortconv.in_proj", "conv.in_proj", SP_GGUF_AS_IS},
    {"shortconv.out_proj", "conv.out_proj", SP_GGUF_AS_IS},
    {"attn_output_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "post_attention_layernorm", SP_GGUF_OPTIONAL_SUFFIX},
    {"layer_output_norm", "post_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1", SP_GGUF_AS_IS},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2", SP_GGUF_AS_IS},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2", SP_GGUF_AS_IS},
    {"ffn_gate", "mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up", "mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down", "mlp.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.router", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.router.correction", SP_GGUF_BARE},
    {"ffn_gate_exps", "mlp.experts.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "mlp.experts.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "mlp.experts.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_up_exps", "mlp.experts.gate_proj", SP_GGUF_AS_IS},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", SP_GGUF_AS_IS},
    {"layer_output_scale", "layer_scalar", SP_GGUF_BARE},
    {"inp_gate", "per_layer_input_gate", SP_GGUF_AS_IS},
    {"proj", "per_layer_projection", SP_GGUF_AS_IS},
    {"post_norm", "post_per_layer_input_norm", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name model_names[] = {
    {"token_embd", "embed_tokens", SP_GGUF_AS_IS},
    {"token_embd_norm", "embed_norm", SP_GGUF_AS_IS},
    {"position_embd", "embed_positions", SP_GGUF_AS_IS},
    {"token_types", "embed_token_types", SP_GGUF_ROWS},
    {"per_layer_token_embd", "embed_tokens_per_layer", SP_GGUF_AS_IS},
    {"per_layer_model_proj", "per_layer_model_projection", SP_GGUF_AS_IS},
    {"per_layer_proj_norm", "per_layer_projection_norm", SP_GGUF_AS_IS},
    {"output_norm", "norm", SP_GGUF_AS_IS},
    {0},
};

/* Tensors outside of the text model. The number of a dense layer is that of its module in
 * sentence-transformers. */
static const struct {
    const char *ggml, *published;
} whole_names[] = {
    {"output.weight", "lm_head.weight"},
    {"dense_2.weight", "dense.0.linear.weight"},
    {"dense_3.weight", "dense.1.linear.weight"},
    {"dense.0.weight", "dense.0.linear.weight"}, /* these three in files of ollama's converter */
    {"dense.1.weight", "dense.1.linear.weight"},
    {"norm.weight", "model.norm.weight"},
};

/* Tensors that hold several canonical ones: the layout by which the family's aliases find them. */
static const struct {
    const char *ggml;
    sp_layout_fn *layout;
} fused_names[] = {
    {"attn_qkv", sp_layout_qkv},
    {"ffn_gate_up_exps", sp_layout_expert_gate_up},
};

/* Tensors of a prediction head: one that is one more layer, and one under mtp. */
static const struct {
    const char *ggml, *next_layer, *mtp;
} head_names[] = {
    {"nextn.eh_proj", "eh_proj", "fc"},
    {"nextn.enorm", "enorm", "pre_fc_norm_embedding"},
    {"nextn.hnorm", "hnorm", "pre_fc_norm_hidden"},
    {"nextn.embed_tokens", "embed_tokens", "embed_tokens"},
    {"nextn.shared_head_head", "shared_head.head", "lm_head"},
    {"nextn.shared_head_norm", "shared_head.norm", "norm"},
};

/* ---- keys ---- */

/* Files of 2023. */
static const struct sp_key_name old_keys[] = {
    {"rope.scale_linear", "rope.scaling.factor"},
    {0},
};

const char *sp_gguf_common_key(const struct sp_family *family, const char *key)
{
    const struct sp_key_name *lists[] = {old_keys, family->gguf.key_names};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct sp_key_name *name = lists[i]; name && name->other; name++)
            if (strcmp(name->other, key) == 0) return name->key;
    return key;
}

void sp_gguf_stored_key(char *out, size_t size, const struct sp_gguf *file,
                        const struct sp_family *family, const char *arch, const char *key)
{
    const struct sp_key_name *lists[] = {old_keys, family->gguf.key_names};

    snprintf(out, size, "%s.%s", arch, key);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const struct sp_key_name *name = lists[i]; name && name->other; name++) {
            if (strcmp(name->key, key) != 0 || sp_gguf_find(file, out)) continue;
            snprintf(out, size, "%s.%s", arch, name->other);
            if (sp_gguf_find(file, out)) return;
            snprintf(out, size, "%s.%s", arch, key);
        }
    }
}

/* ---- kinds of names ---- */

bool sp_gguf_is_ignored(const char *name)
{
    return sp_ends_with(name, ".input_scale") ||
           sp_is_among(name,
                       "rope_freqs.weight rope_factors_long.weight rope_factors_short.weight");
}

bool sp_gguf_is_of_encoder(const char *name)
{
    return strncmp(name, "v.", 2) == 0 || strncmp(name, "mm.", 3) == 0 ||
           strncmp(name, "a.", 2) == 0 || strncmp(name, "model.vision_tower.", 19) == 0 ||
           strncmp(name, "mtp.", 4) == 0; /* a prediction head as ollama's converter keeps it */
}

/* What follows blk.N. in the name of a tensor of layer N; NULL: not the name of one. */
static const char *name_in_layer(const char *name, unsigned long *layer)
{
    char *end;

    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return NULL;
    *layer = strtoul(name + 4, &end, 10);
    return *end == '.' && *layer <= SP_GGUF_MAX_LAYERS ? end + 1 : NULL;
}

bool sp_gguf_is_of_unread_head(const struct sp_gguf_model *m, const char *name)
{
    unsigned long layer;

    if (m->n_predicting == 0 || sp_family_predicts(&m->family)) return false;
    return name_in_layer(name, &layer) && layer >= m->n_layers;
}

bool sp_gguf_has_in_layers(const struct sp_gguf_model *m, const char *name)
{
    size_t n, len = strlen(name);
    const struct sp_gguf_tensor *tensors = sp_gguf_tensors(m->file, &n);

    for (size_t i = 0; i < n; i++) {
        unsigned long layer;
        const char *inner = name_in_layer(tensors[i].name, &layer);
        if (inner && strncmp(inner, name, len) == 0 && (inner[len] == '\0' || inner[len] == '.'))
            return true;
    }
    return false;
}

/* ---- published names ---- */

static const struct sp_gguf_name *find(const struct sp_gguf_name *list, const char *ggml,
                                       size_t len)
{
    for (; list && list->ggml; list++)
        if (sp_is_word(ggml, len, list->ggml)) return list;
    return NULL;
}

static sp_layout_fn *layout_of(const struct sp_gguf_name *name)
{
    for (size_t i = 0; i < sizeof fused_names / sizeof *fused_names; i++)
        if (strcmp(fused_names[i].ggml, name->ggml) == 0) return fused_names[i].layout;
    return NULL;
}

/* What a checkpoint calls the tensor ggml[len] with this ending, whose common name is in `common`;
 * false if the family has no such tensor. */
static bool publish(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                    const struct sp_gguf_model *m, const struct sp_gguf_name *common,
                    const char *prefix, const char *ggml, const char *ending)
{
    size_t len = (size_t)(ending - ggml);
    const struct sp_gguf_name *own = find(m->family.gguf.names, ggml, len);
    const struct sp_gguf_name *name = own ? own : find(common, ggml, len);
    bool bare = name && (name->form == SP_GGUF_BARE || name->form == SP_GGUF_BARE_VECTOR ||
                         name->form == SP_GGUF_LOG);
    char canonical[SP_GGUF_NAME_SIZE];

    if (name == NULL) return false;
    if (*ending == '\0' && name->form == SP_GGUF_OPTIONAL_SUFFIX) ending = ".weight";
    if (*ending == '\0' && !bare) return false;
    *form = name->form;
    snprintf(canonical, sizeof canonical, "%s%s", name->canonical, bare ? "" : ending);
    if (m->family.norms == SP_NORM_SANDWICH && strcmp(name->ggml, "ffn_norm") == 0)
        snprintf(canonical, sizeof canonical, "pre_feedforward_layernorm%s", ending);
    return sp_alias_stored_name(out, SP_GGUF_NAME_SIZE, prefix, &m->family, canonical,
                                own ? NULL : layout_of(name));
}

static bool publish_of_head(char out[SP_GGUF_NAME_SIZE], const struct sp_gguf_model *m,
                            unsigned long layer, const char *name, const char *ending)
{
    size_t len = (size_t)(ending - name);

    for (size_t i = 0; i < sizeof head_names / sizeof *head_names; i++) {
        if (strncmp(head_names[i].ggml, name, len) != 0 || head_names[i].ggml[len]) continue;
        if (m->family.prediction_layer)
            snprintf(out, SP_GGUF_NAME_SIZE, "model.layers.%lu.%s%s", layer,
                     head_names[i].next_layer, ending);
        else
            snprintf(out, SP_GGUF_NAME_SIZE, "mtp.%s%s", head_names[i].mtp, ending);
        return true;
    }
    return false;
}

/* The published name of a tensor of layer N. `name` is what follows blk.N. */
static bool publish_in_layer(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                             const struct sp_gguf_model *m, unsigned long layer, const char *name)
{
    const char *ending = strrchr(name, '.'); /* names of prediction heads have another dot inside */
    bool mtp = sp_family_predicts(&m->family) && !m->family.prediction_layer && !m->is_adapter;
    char prefix[40];

    if (ending == NULL || (strcmp(ending, ".weight") != 0 && strcmp(ending, ".bias") != 0))
        ending = name + strlen(name);
    if (*ending && sp_family_predicts(&m->family) && publish_of_head(out, m, layer, name, ending))
        return true;
    snprintf(prefix, sizeof prefix, "model.%s%lu.", m->family.layers ? m->family.layers : "layers.",
             layer);
    if (mtp && layer >= m->n_layers)
        snprintf(prefix, sizeof prefix, "mtp.layers.%lu.", layer - (unsigned long)m->n_layers);
    return publish(out, form, m, layer_names, prefix, name, ending);
}

bool sp_gguf_publish_name(char out[SP_GGUF_NAME_SIZE], enum sp_gguf_form *form,
                          const struct sp_gguf_model *m, const char *name)
{
    size_t stem = strlen(name) - (sp_ends_with(name, ".weight") ? strlen(".weight")
                                  : sp_ends_with(name, ".bias") ? strlen(".bias")
                                                                : 0);
    unsigned long layer;
    const char *inner;

    *form = SP_GGUF_AS_IS;
    if (publish(out, form, m, model_names, "model.", name, name + stem)) return true;
    for (size_t i = 0; i < sizeof whole_names / sizeof whole_names[0]; i++) {
        if (strcmp(name, whole_names[i].ggml) != 0) continue;
        snprintf(out, SP_GGUF_NAME_SIZE, "%s", whole_names[i].published);
        return true;
    }
    inner = name_in_layer(name, &layer);
    return inner && publish_in_layer(out, form, m, layer, inner);
}

bool sp_gguf_has_own_name(const struct sp_gguf_model *m, const char *name)
{
    const char *inner = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;

    return inner && find(m->family.gguf.names, inner + 1, strlen(inner + 1));
}
