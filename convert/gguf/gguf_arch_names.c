/* Names as in gguf/constants.py and gguf/tensor_mapping.py of llama.cpp: one list a family, of what
 * differs from the usual names. */
#include "convert/gguf/gguf_arch_names.h"

#include <stddef.h>

#define SHARED_EXPERTS                                                                             \
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj", SP_GGUF_AS_IS},                             \
        {"ffn_up_shexp", "mlp.shared_experts.up_proj", SP_GGUF_AS_IS},                             \
    {                                                                                              \
        "ffn_down_shexp", "mlp.shared_experts.down_proj", SP_GGUF_AS_IS                            \
    }

const struct sp_gguf_name sp_gguf_names_usual[] = {
    {"attn_norm", "input_layernorm", SP_GGUF_AS_IS},
    {"attn_q", "self_attn.q_proj", SP_GGUF_AS_IS},
    {"attn_k", "self_attn.k_proj", SP_GGUF_AS_IS},
    {"attn_v", "self_attn.v_proj", SP_GGUF_AS_IS},
    {"attn_qkv", "self_attn.qkv_proj", SP_GGUF_AS_IS},
    {"attn_output", "self_attn.o_proj", SP_GGUF_AS_IS},
    {"attn_q_norm", "self_attn.q_norm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.k_norm", SP_GGUF_AS_IS},
    {"ffn_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate", "mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up", "mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down", "mlp.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.gate", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_up_exps", "mlp.experts.gate_up_proj", SP_GGUF_AS_IS},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", SP_GGUF_AS_IS},
    /* a prediction head that is one more layer */
    {"nextn.eh_proj", "eh_proj", SP_GGUF_AS_IS},
    {"nextn.enorm", "enorm", SP_GGUF_AS_IS},
    {"nextn.hnorm", "hnorm", SP_GGUF_AS_IS},
    {"nextn.embed_tokens", "embed_tokens", SP_GGUF_AS_IS},
    {"nextn.shared_head_head", "shared_head.head", SP_GGUF_AS_IS},
    {"nextn.shared_head_norm", "shared_head.norm", SP_GGUF_AS_IS},
    {0},
};

/* Norms on both sides of attention and MLP. */
const struct sp_gguf_name sp_gguf_names_sandwich[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_feedforward_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_phi3[] = {
    {"ffn_up", "mlp.gate_up_proj", SP_GGUF_AS_IS},
    {0},
};

/* ffn_up is gate and up; both sublayers have a norm on each side. */
const struct sp_gguf_name sp_gguf_names_glm4[] = {
    {"ffn_up", "mlp.gate_up_proj", SP_GGUF_AS_IS},
    {"post_attention_norm", "post_self_attn_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_mlp_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_glm4_moe[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", SP_GGUF_BARE},
    SHARED_EXPERTS,
    {0},
};

const struct sp_gguf_name sp_gguf_names_granite_moe[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_seed_oss[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_gpt_oss[] = {
    {"attn_sinks", "self_attn.sinks", SP_GGUF_BARE},
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.router", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "mlp.experts.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "mlp.experts.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "mlp.experts.down_proj", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_deepseek2[] = {
    {"attn_q_a", "self_attn.q_a_proj", SP_GGUF_AS_IS},
    {"attn_q_a_norm", "self_attn.q_a_layernorm", SP_GGUF_AS_IS},
    {"attn_q_b", "self_attn.q_b_proj", SP_GGUF_AS_IS},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", SP_GGUF_AS_IS},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm", SP_GGUF_AS_IS},
    {"attn_kv_b", "self_attn.kv_b_proj", SP_GGUF_AS_IS},
    {"attn_k_b", "self_attn.embed_q", SP_GGUF_AS_IS},
    {"attn_v_b", "self_attn.unembed_out", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", SP_GGUF_BARE},
    SHARED_EXPERTS,
    {0},
};

/* attn_qkv and attn_gate are of the gated delta rule. Tensors nextn.* of the prediction head are
 * outside of its layer. */
const struct sp_gguf_name sp_gguf_names_delta[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"attn_qkv", "linear_attn.in_proj_qkv", SP_GGUF_AS_IS},
    {"attn_gate", "linear_attn.in_proj_z", SP_GGUF_AS_IS},
    {"ssm_ba", "linear_attn.in_proj_ba", SP_GGUF_AS_IS},
    {"ssm_beta", "linear_attn.in_proj_b", SP_GGUF_AS_IS},
    {"ssm_alpha", "linear_attn.in_proj_a", SP_GGUF_AS_IS},
    {"ssm_conv1d", "linear_attn.conv1d", SP_GGUF_CONV},
    {"ssm_a", "linear_attn.A_log", SP_GGUF_LOG},
    {"ssm_dt", "linear_attn.dt_bias", SP_GGUF_BARE},
    {"ssm_norm", "linear_attn.norm", SP_GGUF_AS_IS},
    {"ssm_out", "linear_attn.out_proj", SP_GGUF_AS_IS},
    {"nextn.eh_proj", "fc", SP_GGUF_AS_IS},
    {"nextn.enorm", "pre_fc_norm_embedding", SP_GGUF_AS_IS},
    {"nextn.hnorm", "pre_fc_norm_hidden", SP_GGUF_AS_IS},
    {"nextn.embed_tokens", "embed_tokens", SP_GGUF_AS_IS},
    {"nextn.shared_head_head", "lm_head", SP_GGUF_AS_IS},
    {"nextn.shared_head_norm", "norm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_gemma4[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1", SP_GGUF_AS_IS},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2", SP_GGUF_AS_IS},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "router.proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp.scale", "router.scale", SP_GGUF_BARE},
    {"ffn_down_exps.scale", "router.per_expert_scale", SP_GGUF_BARE},
    {"ffn_gate_exps", "mlp.experts.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "mlp.experts.up_proj", SP_GGUF_AS_IS},
    {"ffn_gate_up_exps", "experts.gate_up_proj", SP_GGUF_BARE},
    {"ffn_down_exps", "experts.down_proj", SP_GGUF_BARE},
    {"layer_output_scale", "layer_scalar", SP_GGUF_BARE},
    {"inp_gate", "per_layer_input_gate", SP_GGUF_AS_IS},
    {"proj", "per_layer_projection", SP_GGUF_AS_IS},
    {"post_norm", "post_per_layer_input_norm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_dots1[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

const struct sp_gguf_name sp_gguf_names_afmoe[] = {
    SHARED_EXPERTS,
    {"attn_gate", "self_attn.gate_proj", SP_GGUF_AS_IS},
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_mlp_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_mlp_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.router.gate", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.expert_bias", SP_GGUF_BARE},
    {0},
};

const struct sp_gguf_name sp_gguf_names_exaone_moe[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

const struct sp_gguf_name sp_gguf_names_ernie_moe[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.moe_statics.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

const struct sp_gguf_name sp_gguf_names_hunyuan[] = {
    {"attn_q_norm", "self_attn.query_layernorm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.key_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_hunyuan_moe[] = {
    {"attn_q_norm", "self_attn.query_layernorm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.key_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.gate.wg", SP_GGUF_AS_IS},
    {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_shexp", "mlp.shared_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_shexp", "mlp.shared_mlp.down_proj", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_apertus[] = {
    {"attn_norm", "attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "feedforward_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_values_xielu[] = {
    {"xielu.alpha_n", "mlp.act_fn.alpha_n", SP_GGUF_BARE},
    {"xielu.alpha_p", "mlp.act_fn.alpha_p", SP_GGUF_BARE},
    {"xielu.beta", "mlp.act_fn.beta", SP_GGUF_SCALAR},
    {"xielu.eps", "mlp.act_fn.eps", SP_GGUF_SCALAR},
    {0},
};

/* Gate and up of experts and of the shared MLP are one matrix. */
const struct sp_gguf_name sp_gguf_names_granite_swa[] = {
    {"attn_sinks", "self_attn.sinks", SP_GGUF_BARE},
    {"ffn_gate_inp", "block_sparse_moe.router", SP_GGUF_AS_IS},
    {"ffn_gate_up_exps", "block_sparse_moe.experts.gate_up_proj", SP_GGUF_BARE},
    {"ffn_down_exps", "block_sparse_moe.experts.down_proj", SP_GGUF_BARE},
    {"ffn_up_shexp", "shared_mlp.input_linear", SP_GGUF_AS_IS},
    {"ffn_down_shexp", "shared_mlp.output_linear", SP_GGUF_AS_IS},
    {0},
};

/* A norm of each head: one vector of all heads. */
const struct sp_gguf_name sp_gguf_names_stablelm[] = {
    {"attn_q_norm", "self_attn.q_layernorm", SP_GGUF_VECTOR},
    {"attn_k_norm", "self_attn.k_layernorm", SP_GGUF_VECTOR},
    {0},
};

const struct sp_gguf_name sp_gguf_names_starcoder2[] = {
    {"ffn_up", "mlp.c_fc", SP_GGUF_AS_IS},
    {"ffn_down", "mlp.c_proj", SP_GGUF_AS_IS},
    {0},
};

#define MAMBA(mixer)                                                                               \
    {"ssm_in", mixer ".in_proj", SP_GGUF_AS_IS}, {"ssm_conv1d", mixer ".conv1d", SP_GGUF_CONV},    \
        {"ssm_a", mixer ".A_log", SP_GGUF_LOG}, {"ssm_d", mixer ".D", SP_GGUF_BARE_VECTOR},        \
        {"ssm_dt", mixer ".dt_bias", SP_GGUF_BARE_VECTOR},                                         \
        {"ssm_norm", mixer ".norm", SP_GGUF_VECTOR},                                               \
    {                                                                                              \
        "ssm_out", mixer ".out_proj", SP_GGUF_AS_IS                                                \
    }

const struct sp_gguf_name sp_gguf_names_lfm2[] = {
    {"token_embd_norm", "embedding_norm", SP_GGUF_AS_IS},
    {"attn_norm", "operator_norm", SP_GGUF_AS_IS},
    {"ffn_norm", "ffn_norm", SP_GGUF_AS_IS},
    {"attn_output", "self_attn.out_proj", SP_GGUF_AS_IS},
    {"attn_q_norm", "self_attn.q_layernorm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.k_layernorm", SP_GGUF_AS_IS},
    {"shortconv.conv", "conv.conv", SP_GGUF_CONV},
    {"shortconv.in_proj", "conv.in_proj", SP_GGUF_AS_IS},
    {"shortconv.out_proj", "conv.out_proj", SP_GGUF_AS_IS},
    {"ffn_gate", "feed_forward.w1", SP_GGUF_AS_IS},
    {"ffn_up", "feed_forward.w3", SP_GGUF_AS_IS},
    {"ffn_down", "feed_forward.w2", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "feed_forward.gate", SP_GGUF_AS_IS},
    {"exp_probs_b", "feed_forward.expert_bias", SP_GGUF_BARE},
    {"ffn_gate_exps", "feed_forward.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "feed_forward.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "feed_forward.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_up_exps", "feed_forward.experts.gate_up_proj", SP_GGUF_BARE},
    {0},
};

const struct sp_gguf_name sp_gguf_names_granite_hybrid[] = {
    MAMBA("mamba"),
    {"ffn_gate_inp", "block_sparse_moe.router.layer", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_falcon_h1[] = {
    MAMBA("mamba"),
    {"output_norm", "final_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_ff_layernorm", SP_GGUF_UNENDED},
    {"ffn_gate", "feed_forward.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up", "feed_forward.up_proj", SP_GGUF_AS_IS},
    {"ffn_down", "feed_forward.down_proj", SP_GGUF_AS_IS},
    {0},
};

/* Every layer is one sublayer with a norm in front. */
const struct sp_gguf_name sp_gguf_names_mixer[] = {
    MAMBA("mixer"),
    {"output_norm", "norm_f", SP_GGUF_AS_IS},
    {"attn_norm", "norm", SP_GGUF_AS_IS},
    {"attn_q", "mixer.q_proj", SP_GGUF_AS_IS},
    {"attn_k", "mixer.k_proj", SP_GGUF_AS_IS},
    {"attn_v", "mixer.v_proj", SP_GGUF_AS_IS},
    {"attn_output", "mixer.o_proj", SP_GGUF_AS_IS},
    {"ffn_up", "mixer.up_proj", SP_GGUF_AS_IS},
    {"ffn_down", "mixer.down_proj", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mixer.gate", SP_GGUF_AS_IS},
    {"exp_probs_b", "mixer.gate.e_score_correction_bias", SP_GGUF_BARE},
    {"ffn_up_exps", "mixer.experts.up_proj", SP_GGUF_BARE},
    {"ffn_down_exps", "mixer.experts.down_proj", SP_GGUF_BARE},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj", SP_GGUF_AS_IS},
    {0},
};

/* ---- encoders ---- */

const struct sp_gguf_name sp_gguf_names_bert[] = {
    {"token_embd", "embeddings.word_embeddings", SP_GGUF_AS_IS},
    {"position_embd", "embeddings.position_embeddings", SP_GGUF_AS_IS},
    {"token_types", "embeddings.token_type_embeddings", SP_GGUF_ROWS},
    {"token_embd_norm", "embeddings.LayerNorm", SP_GGUF_AS_IS},
    {"attn_q", "attention.self.query", SP_GGUF_AS_IS},
    {"attn_k", "attention.self.key", SP_GGUF_AS_IS},
    {"attn_v", "attention.self.value", SP_GGUF_AS_IS},
    {"attn_qkv", "attention.self.qkv", SP_GGUF_AS_IS},
    {"attn_output", "attention.output.dense", SP_GGUF_AS_IS},
    {"attn_output_norm", "attention.output.LayerNorm", SP_GGUF_AS_IS},
    {"ffn_up", "intermediate.dense", SP_GGUF_AS_IS},
    {"ffn_down", "output.dense", SP_GGUF_AS_IS},
    {"layer_output_norm", "output.LayerNorm", SP_GGUF_AS_IS},
    {"cls", "classifier.dense", SP_GGUF_AS_IS}, /* a reranker's head, as XLM-RoBERTa has it */
    {"cls.output", "classifier.out_proj", SP_GGUF_ROWS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_nomic_bert[] = {
    {"token_embd", "embeddings.word_embeddings", SP_GGUF_AS_IS},
    {"token_types", "embeddings.token_type_embeddings", SP_GGUF_ROWS},
    {"token_embd_norm", "embeddings.LayerNorm", SP_GGUF_AS_IS},
    {"attn_qkv", "attn.Wqkv", SP_GGUF_AS_IS},
    {"attn_output_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"layer_output_norm", "post_mlp_layernorm", SP_GGUF_AS_IS},
    {0},
};

const struct sp_gguf_name sp_gguf_names_modernbert[] = {
    {"token_embd", "embeddings.tok_embeddings", SP_GGUF_AS_IS},
    {"token_embd_norm", "embeddings.norm", SP_GGUF_AS_IS},
    {"output_norm", "final_norm", SP_GGUF_AS_IS},
    {"attn_norm", "attn_norm", SP_GGUF_AS_IS},
    {"attn_qkv", "attn.Wqkv", SP_GGUF_AS_IS},
    {"attn_output", "attn.Wo", SP_GGUF_AS_IS},
    {"ffn_norm", "mlp_norm", SP_GGUF_AS_IS},
    {"ffn_up", "mlp.Wi", SP_GGUF_AS_IS},
    {"ffn_down", "mlp.Wo", SP_GGUF_AS_IS},
    {"cls", "head.dense", SP_GGUF_AS_IS}, /* a reranker's head */
    {"cls.norm", "head.norm", SP_GGUF_AS_IS},
    {"cls.output", "classifier.out_proj", SP_GGUF_ROWS},
    {0},
};
