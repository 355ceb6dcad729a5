/* Names as in gguf/constants.py and gguf/tensor_mapping.py of llama.cpp; what is done to rows and
 * norms, as in its converter. */
#include "convert/gguf/gguf_arch.h"

#include <string.h>

/* ---- names ---- */

#define SHARED_EXPERTS                                                                             \
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj", SP_GGUF_AS_IS},                             \
        {"ffn_up_shexp", "mlp.shared_experts.up_proj", SP_GGUF_AS_IS},                             \
    {                                                                                              \
        "ffn_down_shexp", "mlp.shared_experts.down_proj", SP_GGUF_AS_IS                            \
    }

static const struct sp_gguf_name usual[] = {
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
static const struct sp_gguf_name sandwich[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_feedforward_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_feedforward_layernorm", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name phi3[] = {
    {"ffn_up", "mlp.gate_up_proj", SP_GGUF_AS_IS},
    {0},
};

/* ffn_up is gate and up; both sublayers have a norm on each side. */
static const struct sp_gguf_name glm4[] = {
    {"ffn_up", "mlp.gate_up_proj", SP_GGUF_AS_IS},
    {"post_attention_norm", "post_self_attn_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_mlp_layernorm", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name glm4_moe[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", SP_GGUF_BARE},
    SHARED_EXPERTS,
    {0},
};

static const struct sp_gguf_name granite_moe[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name seed_oss[] = {
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name gpt_oss[] = {
    {"attn_sinks", "self_attn.sinks", SP_GGUF_BARE},
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.router", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "mlp.experts.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "mlp.experts.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "mlp.experts.down_proj", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name deepseek2[] = {
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
static const struct sp_gguf_name delta[] = {
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

static const struct sp_gguf_name gemma4[] = {
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

static const struct sp_gguf_name dots1[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

static const struct sp_gguf_name afmoe[] = {
    SHARED_EXPERTS,
    {"attn_gate", "self_attn.gate_proj", SP_GGUF_AS_IS},
    {"post_attention_norm", "post_attention_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_mlp_layernorm", SP_GGUF_AS_IS},
    {"post_ffw_norm", "post_mlp_layernorm", SP_GGUF_AS_IS},
    {"ffn_gate_inp", "mlp.router.gate", SP_GGUF_AS_IS},
    {"exp_probs_b", "mlp.expert_bias", SP_GGUF_BARE},
    {0},
};

static const struct sp_gguf_name exaone_moe[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

static const struct sp_gguf_name ernie_moe[] = {
    SHARED_EXPERTS,
    {"exp_probs_b", "mlp.moe_statics.e_score_correction_bias", SP_GGUF_BARE},
    {0},
};

static const struct sp_gguf_name hunyuan[] = {
    {"attn_q_norm", "self_attn.query_layernorm", SP_GGUF_AS_IS},
    {"attn_k_norm", "self_attn.key_layernorm", SP_GGUF_AS_IS},
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

static const struct sp_gguf_name lfm2[] = {
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

static const struct sp_gguf_name granite_hybrid[] = {
    MAMBA("mamba"),
    {"ffn_gate_inp", "block_sparse_moe.router.layer", SP_GGUF_AS_IS},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj", SP_GGUF_AS_IS},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name falcon_h1[] = {
    MAMBA("mamba"),
    {"output_norm", "final_layernorm", SP_GGUF_AS_IS},
    {"ffn_norm", "pre_ff_layernorm", SP_GGUF_UNENDED},
    {"ffn_gate", "feed_forward.gate_proj", SP_GGUF_AS_IS},
    {"ffn_up", "feed_forward.up_proj", SP_GGUF_AS_IS},
    {"ffn_down", "feed_forward.down_proj", SP_GGUF_AS_IS},
    {0},
};

/* Every layer is one sublayer with a norm in front. */
static const struct sp_gguf_name mixer[] = {
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

static const struct sp_gguf_name bert[] = {
    {"token_embd", "embeddings.word_embeddings", SP_GGUF_AS_IS},
    {"position_embd", "embeddings.position_embeddings", SP_GGUF_AS_IS},
    {"token_types", "embeddings.token_type_embeddings", SP_GGUF_ROWS},
    {"token_embd_norm", "embeddings.LayerNorm", SP_GGUF_AS_IS},
    {"attn_q", "attention.self.query", SP_GGUF_AS_IS},
    {"attn_k", "attention.self.key", SP_GGUF_AS_IS},
    {"attn_v", "attention.self.value", SP_GGUF_AS_IS},
    {"attn_output", "attention.output.dense", SP_GGUF_AS_IS},
    {"attn_output_norm", "attention.output.LayerNorm", SP_GGUF_AS_IS},
    {"ffn_up", "intermediate.dense", SP_GGUF_AS_IS},
    {"ffn_down", "output.dense", SP_GGUF_AS_IS},
    {"layer_output_norm", "output.LayerNorm", SP_GGUF_AS_IS},
    {0},
};

static const struct sp_gguf_name modernbert[] = {
    {"token_embd", "embeddings.tok_embeddings", SP_GGUF_AS_IS},
    {"token_embd_norm", "embeddings.norm", SP_GGUF_AS_IS},
    {"output_norm", "final_norm", SP_GGUF_AS_IS},
    {"attn_norm", "attn_norm", SP_GGUF_AS_IS},
    {"attn_qkv", "attn.Wqkv", SP_GGUF_AS_IS},
    {"attn_output", "attn.Wo", SP_GGUF_AS_IS},
    {"ffn_norm", "mlp_norm", SP_GGUF_AS_IS},
    {"ffn_up", "mlp.Wi", SP_GGUF_AS_IS},
    {"ffn_down", "mlp.Wo", SP_GGUF_AS_IS},
    {0},
};

/* ---- architectures ---- */

static const struct sp_gguf_arch archs[] = {
    {.name = "llama", .model_type = "llama", .architecture = "LlamaForCausalLM", .turned = true},
    {.name = "qwen2", .model_type = "qwen2", .architecture = "Qwen2ForCausalLM"},
    {.name = "qwen2moe", .model_type = "qwen2_moe", .architecture = "Qwen2MoeForCausalLM"},
    {.name = "qwen3", .model_type = "qwen3", .architecture = "Qwen3ForCausalLM"},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .architecture = "Qwen3MoeForCausalLM"},
    {.name = "gemma",
     .model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .norm_plus = true,
     .gelu = true},
    {.name = "gemma2",
     .model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .names = sandwich,
     .norm_plus = true,
     .gelu = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .names = sandwich,
     .norm_plus = true,
     .gelu = true},
    {.name = "gemma-embedding",
     .model_type = "gemma3_text",
     .architecture = "Gemma3TextModel",
     .names = sandwich,
     .norm_plus = true,
     .gelu = true},
    {.name = "gemma4",
     .model_type = "gemma4_text",
     .architecture = "Gemma4ForCausalLM",
     .names = gemma4,
     .gelu = true,
     .by_layer = true},
    {.name = "phi3",
     .model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .names = phi3,
     .partial = true},
    {.name = "smollm3",
     .model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .turned = true},
    {.name = "granite",
     .model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .turned = true,
     .by_layer = true},
    {.name = "olmo2", .model_type = "olmo2", .architecture = "Olmo2ForCausalLM", .names = sandwich},
    {.name = "olmoe", .model_type = "olmoe", .architecture = "OlmoeForCausalLM"},
    {.name = "ernie4_5", .model_type = "ernie4_5", .architecture = "Ernie4_5ForCausalLM"},
    {.name = "exaone4",
     .model_type = "exaone4",
     .architecture = "Exaone4ForCausalLM",
     .names = sandwich},
    {.name = "arcee", .model_type = "arcee", .architecture = "ArceeForCausalLM", .turned = true},
    {.name = "glm4",
     .model_type = "glm4",
     .architecture = "Glm4ForCausalLM",
     .names = glm4,
     .partial = true},
    {.name = "glm4moe",
     .model_type = "glm4_moe",
     .architecture = "Glm4MoeForCausalLM",
     .names = glm4_moe,
     .partial = true,
     .next_layer = true},
    {.name = "granitemoe",
     .model_type = "granitemoe",
     .architecture = "GraniteMoeForCausalLM",
     .names = granite_moe,
     .turned = true,
     .by_layer = true},
    {.name = "seed_oss",
     .model_type = "seed_oss",
     .architecture = "SeedOssForCausalLM",
     .names = seed_oss},
    {.name = "gpt-oss",
     .model_type = "gpt_oss",
     .architecture = "GptOssForCausalLM",
     .names = gpt_oss},
    {.name = "deepseek2",
     .model_type = "deepseek_v2",
     .architecture = "DeepseekV2ForCausalLM",
     .names = deepseek2,
     .latent = true,
     .next_layer = true},
    {.name = "afmoe", .model_type = "afmoe", .architecture = "AfmoeForCausalLM", .names = afmoe},
    {.name = "dots1", .model_type = "dots1", .architecture = "Dots1ForCausalLM", .names = dots1},
    {.name = "exaone-moe",
     .model_type = "exaone_moe",
     .architecture = "ExaoneMoeForCausalLM",
     .names = exaone_moe},
    {.name = "ernie4_5-moe",
     .model_type = "ernie4_5_moe",
     .architecture = "Ernie4_5_MoeForCausalLM",
     .names = ernie_moe},
    {.name = "hunyuan-dense",
     .model_type = "hunyuan_v1_dense",
     .architecture = "HunYuanDenseV1ForCausalLM",
     .names = hunyuan},
    {.name = "command-r",
     .model_type = "cohere",
     .architecture = "CohereForCausalLM",
     .norm_key = "layer_norm_eps"},
    {.name = "cohere2",
     .model_type = "cohere2",
     .architecture = "Cohere2ForCausalLM",
     .norm_key = "layer_norm_eps"},
    {.name = "mistral3",
     .model_type = "ministral3",
     .architecture = "Ministral3ForCausalLM",
     .turned = true},
    {.name = "lfm2",
     .model_type = "lfm2",
     .architecture = "Lfm2ForCausalLM",
     .names = lfm2,
     .norm_key = "norm_eps",
     .by_layer = true},
    {.name = "lfm2moe",
     .model_type = "lfm2_moe",
     .architecture = "Lfm2MoeForCausalLM",
     .names = lfm2,
     .norm_key = "norm_eps",
     .by_layer = true},
    {.name = "granitehybrid",
     .model_type = "granitemoehybrid",
     .architecture = "GraniteMoeHybridForCausalLM",
     .names = granite_hybrid,
     .turned = true,
     .by_layer = true},
    {.name = "falcon-h1",
     .model_type = "falcon_h1",
     .architecture = "FalconH1ForCausalLM",
     .names = falcon_h1},
    {.name = "nemotron_h",
     .model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .names = mixer,
     .norm_key = "layer_norm_epsilon",
     .turned = true,
     .partial = true,
     .by_layer = true},
    {.name = "nemotron_h_moe",
     .model_type = "nemotron_h",
     .architecture = "NemotronHForCausalLM",
     .names = mixer,
     .norm_key = "layer_norm_epsilon",
     .turned = true,
     .partial = true,
     .by_layer = true},
    {.name = "mamba2",
     .model_type = "mamba2",
     .architecture = "Mamba2ForCausalLM",
     .names = mixer,
     .norm_key = "layer_norm_epsilon",
     .pure_mamba = true},
    {.name = "qwen3next",
     .model_type = "qwen3_next",
     .architecture = "Qwen3NextForCausalLM",
     .names = delta,
     .norm_plus = true,
     .partial = true,
     .mtp = true},
    {.name = "qwen35",
     .model_type = "qwen3_5_text",
     .architecture = "Qwen3_5ForCausalLM",
     .names = delta,
     .norm_plus = true,
     .partial = true,
     .tiled_values = true,
     .mtp = true},
    {.name = "qwen35moe",
     .model_type = "qwen3_5_moe_text",
     .architecture = "Qwen3_5MoeForCausalLM",
     .names = delta,
     .norm_plus = true,
     .partial = true,
     .tiled_values = true,
     .mtp = true},
    /* BERT, and RoBERTa and XLM-RoBERTa, whose tables of positions are cut off in front */
    {.name = "bert",
     .model_type = "bert",
     .architecture = "BertModel",
     .names = bert,
     .norm_key = "layer_norm_eps",
     .layers = "encoder.layer.",
     .exact_gelu = true,
     .encoder = true},
    {.name = "modern-bert",
     .model_type = "modernbert",
     .architecture = "ModernBertModel",
     .names = modernbert,
     .norm_key = "norm_eps",
     .exact_gelu = true,
     .encoder = true},
    {.name = "eurobert",
     .model_type = "eurobert",
     .architecture = "EuroBertModel",
     .encoder = true},
};

const struct sp_gguf_arch *sp_gguf_arch_find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        if (strlen(archs[i].name) == len && memcmp(archs[i].name, name, len) == 0) return &archs[i];
    }
    return NULL;
}

/* The name of a family stands in front of "For": Gemma3ForCausalLM, Gemma3ForConditionalGeneration.
 */
static bool is_family(const char *class, const char *family, size_t len)
{
    return strncmp(class, family, len) == 0 && strncmp(class + len, "For", 3) == 0;
}

bool sp_gguf_arch_has_class(const struct sp_gguf_arch *arch, const char *name)
{
    const char *end = strstr(arch->architecture, "For");

    if (end == NULL) return strcmp(name, arch->architecture) == 0;
    if (is_family(name, arch->architecture, (size_t)(end - arch->architecture))) return true;
    if (strcmp(arch->name, "olmo2") == 0) return is_family(name, "Olmo3", 5);
    return strcmp(arch->name, "llama") == 0 &&
           (is_family(name, "Mistral", 7) || is_family(name, "Mixtral", 7));
}

static const struct sp_gguf_name *find(const struct sp_gguf_name *list, const char *ggml,
                                       size_t len)
{
    for (; list && list->ggml; list++) {
        if (strlen(list->ggml) == len && memcmp(list->ggml, ggml, len) == 0) return list;
    }
    return NULL;
}

const struct sp_gguf_name *sp_gguf_arch_name(const struct sp_gguf_arch *arch, const char *ggml,
                                             size_t len)
{
    const struct sp_gguf_name *own = find(arch->names, ggml, len);

    return own ? own : find(usual, ggml, len);
}
