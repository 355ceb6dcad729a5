/* Keys that change what a model computes and that its family does not read.
 *
 * Unknown keys of config.json are ignored, because most of them concern training. The keys in this
 * table are known to change the result, so a value with an effect is refused by name. The table
 * also catches variants of the Llama block (MiniCPM, ...) that are published as Llama. */
#include "format/config/config_readers.h"
#include "format/base/affix.h"
#include "format/base/warnings.h"
#include "format/config/prequantized.h"

#include <stddef.h>
#include <string.h>

/* The values of a key that have no effect; null and {} never have one. */
enum neutral {
    NEUTRAL_NULL,   /* no other value */
    NEUTRAL_FALSE,  /* false, 0 */
    NEUTRAL_TRUE,   /* true */
    NEUTRAL_ONE,    /* 1 */
    NEUTRAL_NORMS,  /* whether the family norms q and k */
    NEUTRAL_SHARED, /* whether attention and MLP run in parallel */
    NEUTRAL_GATE,   /* whether the family gates the attention output */
};

/* Families with this flag read the key, so that it is not refused. */
#define READ_BY(flag) (offsetof(struct sp_family_reads, flag) / sizeof(bool) + 1)

static const struct {
    const char *key;
    enum neutral neutral;
    size_t read_by; /* number of a flag in struct sp_family_reads, from 1; 0: none */
} keys[] = {
    {"attn_logit_softcapping", NEUTRAL_FALSE, READ_BY(attention_cap)},
    {"final_logit_softcapping", NEUTRAL_FALSE, READ_BY(logit_cap)},
    {"query_pre_attn_scalar", NEUTRAL_NULL, READ_BY(query_scalar)},
    {"num_experts", NEUTRAL_FALSE, READ_BY(experts)},
    {"num_local_experts", NEUTRAL_FALSE, READ_BY(experts)},
    {"n_routed_experts", NEUTRAL_FALSE, READ_BY(expert_groups)},
    {"n_shared_experts", NEUTRAL_FALSE, READ_BY(expert_groups)},
    {"moe_num_experts", NEUTRAL_FALSE, 0},
    {"moe_num_shared_experts", NEUTRAL_FALSE, 0},
    {"routed_scaling_factor", NEUTRAL_ONE, READ_BY(routed_scale)},
    {"shared_expert_intermediate_size", NEUTRAL_FALSE, 0},
    {"no_rope_layers", NEUTRAL_NULL, READ_BY(no_rope_layers)},
    {"swiglu_limit", NEUTRAL_FALSE, 0},
    {"swiglu_alpha", NEUTRAL_FALSE, 0},
    {"use_bidirectional_attention", NEUTRAL_FALSE, READ_BY(bidirectional)},
    {"is_encoder_decoder", NEUTRAL_FALSE, 0},
    {"attention_chunk_size", NEUTRAL_NULL, READ_BY(chunks)},
    {"rope_interleaved", NEUTRAL_FALSE, 0},
    {"is_neox_style", NEUTRAL_TRUE, 0},
    {"rope_is_neox_style", NEUTRAL_TRUE, 0},
    {"alibi", NEUTRAL_FALSE, 0},
    {"parallel_attn", NEUTRAL_FALSE, 0},
    {"use_parallel_residual", NEUTRAL_FALSE, 0},
    {"use_parallel_block", NEUTRAL_SHARED, 0},
    {"use_gated_activation", NEUTRAL_TRUE, 0},
    {"use_qk_norm", NEUTRAL_NORMS, 0},
    {"qk_layernorm", NEUTRAL_NORMS, 0},
    {"use_cla", NEUTRAL_FALSE, 0},
    {"use_post_norm", NEUTRAL_TRUE, 0},
    {"use_sandwich_norm", NEUTRAL_TRUE, 0},
    {"use_attention_gate", NEUTRAL_TRUE, 0},
    {"clip_qkv", NEUTRAL_NULL, READ_BY(qkv_limit)},
    {"attention_multiplier", NEUTRAL_NULL, READ_BY(multipliers)},
    {"embedding_multiplier", NEUTRAL_ONE, READ_BY(multipliers)},
    {"residual_multiplier", NEUTRAL_ONE, READ_BY(multipliers)},
    {"logits_scaling", NEUTRAL_ONE, READ_BY(multipliers)},
    {"logit_scale", NEUTRAL_ONE, READ_BY(logit_scale)},
    {"scale_emb", NEUTRAL_ONE, 0},
    {"scale_depth", NEUTRAL_NULL, 0},
    {"kv_lora_rank", NEUTRAL_NULL, 0},
    {"attn_output_gate", NEUTRAL_GATE, 0},
    {"gating", NEUTRAL_FALSE, 0},
    {"attention_sink_bias", NEUTRAL_FALSE, 0},
    {"attention_value_scale", NEUTRAL_ONE, 0},
    {"moe_latent_size", NEUTRAL_NULL, 0},
    {"num_kv_shared_layers", NEUTRAL_FALSE, 0},
    {"hidden_size_per_layer_input", NEUTRAL_FALSE, 0},
    {"per_layer_config", NEUTRAL_NULL, 0},
};

static bool is_neutral(const struct sp_json *v, enum neutral neutral, const struct sp_family *f)
{
    double d;
    bool b;

    if (v == NULL || (sp_json_kind(v) == SP_JSON_OBJECT && sp_json_len(v) == 0)) return true;
    if (neutral == NEUTRAL_NORMS) neutral = f->qk_norm ? NEUTRAL_TRUE : NEUTRAL_FALSE;
    if (neutral == NEUTRAL_SHARED)
        neutral = f->norms == SP_NORM_PARALLEL ? NEUTRAL_TRUE : NEUTRAL_FALSE;
    if (neutral == NEUTRAL_GATE) neutral = f->output_gate ? NEUTRAL_TRUE : NEUTRAL_FALSE;
    if (sp_json_to_bool(v, &b))
        return (neutral == NEUTRAL_FALSE && !b) || (neutral == NEUTRAL_TRUE && b);
    if (!sp_json_to_double(v, &d)) return false;
    return (neutral == NEUTRAL_FALSE && d == 0) || (neutral == NEUTRAL_ONE && d == 1);
}

/* True for a key that a draft of this kind reads. The last two are for block drafts only. */
static bool is_of_draft(const struct sp_config_text *t, const char *key)
{
    static const char *const read[] = {"final_logit_softcapping", "is_neox_style",
                                       "rope_is_neox_style"};
    bool block =
        t->draft == SP_DRAFT_DFLASH || t->draft == SP_DRAFT_DFLASH2 || t->draft == SP_DRAFT_DSPARK;
    size_t n = block ? 3 : 1;

    return t->draft && sp_is_one_of(key, read, n);
}

static bool is_own(const char *family_key, const char *key)
{
    return family_key && strcmp(family_key, key) == 0;
}

/* True if the family reads keys[i]: by a flag, by its own reader, or as the name of one of its
 * keys. */
static bool is_of_family(const struct sp_family *f, size_t i)
{
    const char *key = keys[i].key;

    if (keys[i].read_by && ((const bool *)&f->reads)[keys[i].read_by - 1]) return true;
    for (size_t k = 0; f->own_keys && f->own_keys[k]; k++)
        if (strcmp(f->own_keys[k], key) == 0) return true;
    return is_own(f->qk_norm_key, key) || is_own(f->parallel_key, key) ||
           is_own(f->expert_keys.count, key) || is_own(f->expert_keys.shared, key) ||
           is_own(f->expert_keys.parallel_width, key) ||
           is_own(f->latent ? "kv_lora_rank" : NULL, key);
}

enum sp_status sp_config_refuse(const struct sp_config_text *t, struct sp_err *err)
{
    struct sp_prequantized ignored;
    enum sp_status st;

    if ((st = sp_prequantized_parse(&ignored, t->root, err))) return st;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct sp_json *v = sp_text_get(t, keys[i].key);
        if (is_of_draft(t, keys[i].key) || is_of_family(t->family, i)) continue;
        if (is_neutral(v, keys[i].neutral, t->family)) continue;
        if (t->draft) {
            return sp_fail(err, SP_E_UNSUPPORTED, "%.*s: unsupported option %s",
                           (int)strlen(t->what) - 1, t->what, keys[i].key);
        }
        return sp_fail(err, SP_E_UNSUPPORTED, "%s is not supported for %s", keys[i].key,
                       t->family->name);
    }
    if (t->draft == SP_DRAFT_NONE && sp_text_get(t, "auto_map")) {
        return sp_warn(t->warnings, err,
                       "auto_map: custom code is not run, the model is taken as %s",
                       t->family->name);
    }
    return SP_OK;
}
