/* Keys that change what a model computes and that its family does not read.
 *
 * The keys of the first table are known to change the result, so a value with an effect is refused
 * by name. The table also catches variants of the Llama block (MiniCPM, ...) that are published as
 * Llama. The keys of the second table have no effect; any other key that no reader asks for is
 * named in a note. */
#include "format/config/config_readers.h"
#include "format/base/affix.h"
#include "format/config/prequantized.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
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
    bool block =
        t->draft == SP_DRAFT_DFLASH || t->draft == SP_DRAFT_DFLASH2 || t->draft == SP_DRAFT_DSPARK;

    return t->draft && (sp_is_among(key, "final_logit_softcapping") ||
                        (block && sp_is_among(key, "is_neox_style rope_is_neox_style")));
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
    if (f->own_keys && sp_is_among(key, f->own_keys)) return true;
    return is_own(f->qk_norm_key, key) || is_own(f->parallel_key, key) ||
           is_own(f->expert_keys.count, key) || is_own(f->expert_keys.shared, key) ||
           is_own(f->expert_keys.parallel_width, key) ||
           is_own(f->latent ? "kv_lora_rank" : NULL, key);
}

void sp_config_refuse(const struct sp_config_text *t)
{
    struct sp_prequantized ignored;

    if (sp_prequantized_parse(&ignored, t->root, t->err)) return;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct sp_json *v = sp_text_get(t, keys[i].key);
        if (is_of_draft(t, keys[i].key) || is_of_family(t->family, i)) continue;
        if (is_neutral(v, keys[i].neutral, t->family)) continue;
        if (t->draft) {
            SP_REFUSED(t, "%.*s: unsupported option %s", (int)strlen(t->what) - 1, t->what,
                       keys[i].key);
        }
        SP_REFUSED(t, "%s is not supported for %s", keys[i].key, t->family->name);
    }
    if (t->draft == SP_DRAFT_NONE && sp_text_get(t, "auto_map"))
        SP_NOTED(t, "auto_map: custom code is not run, the model is taken as %s", t->family->name);
}

/* Words by what they are for; a star stands for any text. tests/lint.sh compares them with
 * testdata/config/keys_without_effect.txt, which says what each does. */
static const char without_effect[] =
    /* training */
    "*_dropout *_dropout_prob *_pdrop *_noise *_coef *_coefficient *init* "
    "L_bp_cycles altup_coef_clip dropout embedding_fraction layerdrop mtp_* time_step_* "
    "linear_a_log_* linear_dt_* aux_loss_alpha embed_requires_grad finetuning_task "
    "gradient_checkpointing id2label label2id moe_use_aux_free pretraining_tp problem_type "
    "rescale_prenorm_residual seq_aux sparse_pred* "
    /* generation, and what the tokenizer's files state */
    "*_token_id *_token_index bad_words_ids decoder_bias do_sample early_stopping "
    "length_penalty max_length min_length num_beam* num_return_sequences output_* prefix "
    "pruned_heads remove_invalid_values repetition_penalty return_dict* task_specific_params "
    "temperature tokenizer_class top_k top_p typical_p "
    /* sizes and layers that other keys or the tensors state, and second names */
    "*sliding_window_pattern block_size centroid_intermediate_top_k classifier_* expand "
    "global_attn_every_n_layers group_norm_size head_dim hidden_act hidden_activation mamba_* "
    "moe_intermediate_size n_group num_centroids num_labels num_nextn_predict_layers "
    "original_max_position_embeddings q_head_dim qk_head_dim qk_norm_type rms_norm_eps "
    "scoring_func tie_word_embeddings top_k_experts topk_group use_routing_bias mlp_bias "
    "num_shared_expert block_auto_adjust_ff_dim num_hidden_layers num_target_layers "
    "attention_layers expansion_ratio learned_pos_emb norm_type summary_* attention_hidden_size "
    "hybrid_layer_ids kv_channels num_query_groups number_of_conv_states rms_norm_eps_moe_gate "
    "chain_hidden_post_norm "
    /* other modalities */
    "audio_* embd_layer image_* img_processor mm_tokens_per_image multimodal_projector_bias "
    "out_hidden_size projection_* projector_* spatial_merge_size video_* vision_* "
    /* how other programs load, compute or store a model */
    "*attn_implementation *_fusion *_name_or_path *softmax_in_fp32 reorder_and_upcast_attn "
    "skip_bias_add* slow_but_exact add_cross_attention architectures auto_map "
    "cache_implementation chunk_size* dtype enable_moe_fp32_combine ep_size *flash_attn* "
    "for_llm_compressor is_decoder is_encoder_decoder is_llama_config linear_silu model_max_length "
    "n_ctx "
    "moe_shared_expert_overlap num_logits_to_keep quantization_config residual_in_fp32 "
    "seq_length speculators_* tie_encoder_decoder torch_dtype torchscript transformers* "
    "unsloth_* use_associative_scan use_bfloat16 use_cache use_mamba* use_mem_eff_path ";

bool sp_config_names(const char *words, const char *key)
{
    char pattern[64];
    size_t n;

    for (const char *at = words; *at; at += n + 1) {
        n = strcspn(at, " ");
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
        if (fnmatch(pattern, key, 0) == 0) return true;
    }
    return false;
}

static void note_unread(void *context, const char *key, const struct sp_json *value)
{
    const struct sp_config_text *t = context;

    if (!is_neutral(value, NEUTRAL_NULL, NULL) && !sp_config_names(without_effect, key))
        SP_NOTED(t, "config.json: %.100s is not known and has no effect", key);
}

void sp_config_note_unread(struct sp_json *config, struct sp_config_text *t)
{
    sp_json_drop_unmarked(config, note_unread, t);
}
