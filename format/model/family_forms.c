/* How a checkpoint stores each canonical tensor: under its own name, as rows of a fused matrix, one
 * expert at a time, alternating, transposed. What a family may look like is in the table of forms;
 * family_rows.c knows what each means. */
#include "format/model/family_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of several rows for one tensor the first whose source exists counts; the first of all is how it
 * is published. */
static const struct sp_form_row forms[] = {
    {SP_STORED_QKV, "self_attn.q_proj.weight", "self_attn.qkv_proj.weight", SP_FORM_QKV, 0},
    {SP_STORED_QKV, "self_attn.k_proj.weight", "self_attn.qkv_proj.weight", SP_FORM_QKV, 1},
    {SP_STORED_QKV, "self_attn.v_proj.weight", "self_attn.qkv_proj.weight", SP_FORM_QKV, 2},
    {SP_STORED_GATE_UP, "mlp.gate_proj.weight", "mlp.gate_up_proj.weight", SP_FORM_GATE_UP, 0},
    {SP_STORED_GATE_UP, "mlp.up_proj.weight", "mlp.gate_up_proj.weight", SP_FORM_GATE_UP, 1},

    {SP_STORED_PAIRED, "self_attn.q_proj.weight", "self_attn.q_proj.weight", SP_FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_proj.weight", "self_attn.k_proj.weight", SP_FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.q_proj.bias", "self_attn.q_proj.bias", SP_FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_proj.bias", "self_attn.k_proj.bias", SP_FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.q_norm.weight", "self_attn.q_norm.weight", SP_FORM_PAIRS, 0},
    {SP_STORED_PAIRED, "self_attn.k_norm.weight", "self_attn.k_norm.weight", SP_FORM_PAIRS, 0},

    {SP_STORED_GLM4, "post_attention_layernorm.weight", "post_self_attn_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_GLM4, "pre_feedforward_layernorm.weight", "post_attention_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_GLM4, "post_feedforward_layernorm.weight", "post_mlp_layernorm.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_FC, "mlp.up_proj.weight", "mlp.fc1.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_FC, "mlp.up_proj.bias", "mlp.fc1.bias", SP_FORM_WHOLE, 0},
    {SP_STORED_FC, "mlp.down_proj.weight", "mlp.fc2.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_FC, "mlp.down_proj.bias", "mlp.fc2.bias", SP_FORM_WHOLE, 0},
    {SP_STORED_PHI, "self_attn.o_proj.weight", "self_attn.dense.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_PHI, "self_attn.o_proj.bias", "self_attn.dense.bias", SP_FORM_WHOLE, 0},

    {SP_STORED_BACKWARD, "self_attn.q_proj.weight", "self_attn.q_proj.weight", SP_FORM_BACKWARD, 0},
    {SP_STORED_BACKWARD, "self_attn.k_proj.weight", "self_attn.k_proj.weight", SP_FORM_BACKWARD, 0},
    {SP_STORED_BACKWARD, "self_attn.q_proj.bias", "self_attn.q_proj.bias", SP_FORM_BACKWARD, 0},
    {SP_STORED_BACKWARD, "self_attn.k_proj.bias", "self_attn.k_proj.bias", SP_FORM_BACKWARD, 0},

    {SP_STORED_STABLELM, "self_attn.q_norm.weight", "self_attn.q_layernorm.norms.%u.weight",
     SP_FORM_HEADWISE, 0},
    {SP_STORED_STABLELM, "self_attn.k_norm.weight", "self_attn.k_layernorm.norms.%u.weight",
     SP_FORM_HEADWISE, 0},

    {SP_STORED_APERTUS, "input_layernorm.weight", "attention_layernorm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_APERTUS, "post_attention_layernorm.weight", "feedforward_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_APERTUS, "mlp.act_fn.beta", "mlp.act_fn.beta", SP_FORM_SCALAR, 0},
    {SP_STORED_APERTUS, "mlp.act_fn.eps", "mlp.act_fn.eps", SP_FORM_SCALAR, 0},

    {SP_STORED_PERI, "post_attention_layernorm.weight", "post_norm1.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_PERI, "pre_feedforward_layernorm.weight", "post_attention_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_PERI, "post_feedforward_layernorm.weight", "post_norm2.weight", SP_FORM_WHOLE, 0},

    {SP_STORED_AFMOE, "pre_feedforward_layernorm.weight", "pre_mlp_layernorm.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_AFMOE, "post_feedforward_layernorm.weight", "post_mlp_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_AFMOE, "mlp.router.weight", "mlp.router.gate.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_AFMOE, "mlp.router.correction", "mlp.expert_bias", SP_FORM_WHOLE, 0},

    {SP_STORED_SHARED_MLP, "mlp.gate_proj.weight", "shared_mlp.input_linear.weight",
     SP_FORM_GATE_UP, 0},
    {SP_STORED_SHARED_MLP, "mlp.up_proj.weight", "shared_mlp.input_linear.weight", SP_FORM_GATE_UP,
     1},
    {SP_STORED_SHARED_MLP, "mlp.down_proj.weight", "shared_mlp.output_linear.weight", SP_FORM_WHOLE,
     0},

    {SP_STORED_SHARED_MLP, "mlp.shared_expert.gate_proj.weight", "shared_mlp.input_linear.weight",
     SP_FORM_GATE_UP, 0},
    {SP_STORED_SHARED_MLP, "mlp.shared_expert.up_proj.weight", "shared_mlp.input_linear.weight",
     SP_FORM_GATE_UP, 1},
    {SP_STORED_SHARED_MLP, "mlp.shared_expert.down_proj.weight", "shared_mlp.output_linear.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_MAMBA, "mamba.in_proj_z.weight", "mamba.in_proj.weight", SP_FORM_ZXBCDT, 0},
    {SP_STORED_MAMBA, "mamba.in_proj_xbc.weight", "mamba.in_proj.weight", SP_FORM_ZXBCDT, 1},
    {SP_STORED_MAMBA, "mamba.in_proj_dt.weight", "mamba.in_proj.weight", SP_FORM_ZXBCDT, 2},
    {SP_STORED_MAMBA, "mamba.in_proj_z.bias", "mamba.in_proj.bias", SP_FORM_ZXBCDT, 0},
    {SP_STORED_MAMBA, "mamba.in_proj_xbc.bias", "mamba.in_proj.bias", SP_FORM_ZXBCDT, 1},
    {SP_STORED_MAMBA, "mamba.in_proj_dt.bias", "mamba.in_proj.bias", SP_FORM_ZXBCDT, 2},

    {SP_STORED_MIXER, "input_layernorm.weight", "norm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "post_attention_layernorm.weight", "norm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.router.weight", "mixer.gate.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.router.correction", "mixer.gate.e_score_correction_bias", SP_FORM_WHOLE,
     0},
    {SP_STORED_MIXER, "mlp.experts.up_proj.weight", "mixer.experts.%u.up_proj.weight", SP_FORM_EACH,
     0},
    {SP_STORED_MIXER, "mlp.experts.up_proj.weight", "mixer.experts.up_proj", SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.experts.down_proj.weight", "mixer.experts.%u.down_proj.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_MIXER, "mlp.experts.down_proj.weight", "mixer.experts.down_proj", SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.shared_expert.up_proj.weight", "mixer.shared_experts.up_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mlp.shared_expert.down_proj.weight", "mixer.shared_experts.down_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_MIXER, "mamba.in_proj_z.weight", "mixer.in_proj.weight", SP_FORM_ZXBCDT, 0},
    {SP_STORED_MIXER, "mamba.in_proj_xbc.weight", "mixer.in_proj.weight", SP_FORM_ZXBCDT, 1},
    {SP_STORED_MIXER, "mamba.in_proj_dt.weight", "mixer.in_proj.weight", SP_FORM_ZXBCDT, 2},
    {SP_STORED_MIXER, "mamba.in_proj_z.bias", "mixer.in_proj.bias", SP_FORM_ZXBCDT, 0},
    {SP_STORED_MIXER, "mamba.in_proj_xbc.bias", "mixer.in_proj.bias", SP_FORM_ZXBCDT, 1},
    {SP_STORED_MIXER, "mamba.in_proj_dt.bias", "mixer.in_proj.bias", SP_FORM_ZXBCDT, 2},

    {SP_STORED_FEED_FORWARD, "post_attention_layernorm.weight", "pre_ff_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.gate_proj.weight", "feed_forward.gate_proj.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_FEED_FORWARD, "mlp.up_proj.weight", "feed_forward.up_proj.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.down_proj.weight", "feed_forward.down_proj.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_FEED_FORWARD, "mlp.gate_proj.bias", "feed_forward.gate_proj.bias", SP_FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.up_proj.bias", "feed_forward.up_proj.bias", SP_FORM_WHOLE, 0},
    {SP_STORED_FEED_FORWARD, "mlp.down_proj.bias", "feed_forward.down_proj.bias", SP_FORM_WHOLE, 0},

    {SP_STORED_C_FC, "mlp.up_proj.weight", "mlp.c_fc.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.up_proj.bias", "mlp.c_fc.bias", SP_FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.down_proj.weight", "mlp.c_proj.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_C_FC, "mlp.down_proj.bias", "mlp.c_proj.bias", SP_FORM_WHOLE, 0},

    {SP_STORED_HUNYUAN, "self_attn.q_norm.weight", "self_attn.query_layernorm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_HUNYUAN, "self_attn.k_norm.weight", "self_attn.key_layernorm.weight", SP_FORM_WHOLE,
     0},

    {SP_STORED_HUNYUAN, "mlp.router.weight", "mlp.gate.wg.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_HUNYUAN, "mlp.shared_expert.gate_proj.weight", "mlp.shared_mlp.gate_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_HUNYUAN, "mlp.shared_expert.up_proj.weight", "mlp.shared_mlp.up_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_HUNYUAN, "mlp.shared_expert.down_proj.weight", "mlp.shared_mlp.down_proj.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_BLOCK, "mlp.router.weight", "block_sparse_moe.router.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_BLOCK, "mlp.experts.gate_proj.weight", "block_sparse_moe.experts.gate_up_proj",
     SP_FORM_HALVES, 0},
    {SP_STORED_BLOCK, "mlp.experts.up_proj.weight", "block_sparse_moe.experts.gate_up_proj",
     SP_FORM_HALVES, 1},
    {SP_STORED_BLOCK, "mlp.experts.down_proj.weight", "block_sparse_moe.experts.down_proj",
     SP_FORM_WHOLE, 0},

    {SP_STORED_LINEAR, "mlp.router.weight", "block_sparse_moe.router.layer.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_LINEAR, "mlp.experts.gate_proj.weight", "block_sparse_moe.input_linear.weight",
     SP_FORM_HALVES, 0},
    {SP_STORED_LINEAR, "mlp.experts.up_proj.weight", "block_sparse_moe.input_linear.weight",
     SP_FORM_HALVES, 1},
    {SP_STORED_LINEAR, "mlp.experts.down_proj.weight", "block_sparse_moe.output_linear.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_SPARSE, "mlp.router.weight", "block_sparse_moe.gate.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_SPARSE, "mlp.experts.gate_proj.weight", "block_sparse_moe.experts.%u.w1.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_SPARSE, "mlp.experts.up_proj.weight", "block_sparse_moe.experts.%u.w3.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_SPARSE, "mlp.experts.down_proj.weight", "block_sparse_moe.experts.%u.w2.weight",
     SP_FORM_EACH, 0},

    {SP_STORED_EXPERTS, "mlp.router.weight", "mlp.gate.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.%u.gate_proj.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj", SP_FORM_HALVES,
     0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj.weight",
     SP_FORM_HALVES, 0},
    {SP_STORED_EXPERTS, "mlp.experts.gate_proj.weight", "mlp.switch_mlp.gate_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.%u.up_proj.weight", SP_FORM_EACH,
     0},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj", SP_FORM_HALVES,
     1},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj.weight",
     SP_FORM_HALVES, 1},
    {SP_STORED_EXPERTS, "mlp.experts.up_proj.weight", "mlp.switch_mlp.up_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.%u.down_proj.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.experts.down_proj", SP_FORM_WHOLE, 0},
    {SP_STORED_EXPERTS, "mlp.experts.down_proj.weight", "mlp.switch_mlp.down_proj.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_GATED, "self_attn.q_proj.weight", "self_attn.q_proj.weight", SP_FORM_HEADS, 0},
    {SP_STORED_GATED, "self_attn.gate_proj.weight", "self_attn.q_proj.weight", SP_FORM_HEADS, 1},

    {SP_STORED_STATICS, "mlp.router.correction", "mlp.moe_statics.e_score_correction_bias",
     SP_FORM_ROW, 0},
    {SP_STORED_BARE, "mlp.router.correction", "mlp.e_score_correction_bias", SP_FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.router.correction", "mlp.gate.e_score_correction_bias", SP_FORM_WHOLE,
     0},
    {SP_STORED_ROUTED, "mlp.shared_expert.gate_proj.weight", "mlp.shared_experts.gate_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.shared_expert.up_proj.weight", "mlp.shared_experts.up_proj.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_ROUTED, "mlp.shared_expert.down_proj.weight", "mlp.shared_experts.down_proj.weight",
     SP_FORM_WHOLE, 0},

    {SP_STORED_GROUPED, "linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_qkvz.weight",
     SP_FORM_QKVZ, 0},
    {SP_STORED_GROUPED, "linear_attn.in_proj_z.weight", "linear_attn.in_proj_qkvz.weight",
     SP_FORM_QKVZ, 1},
    {SP_STORED_GROUPED, "linear_attn.in_proj_b.weight", "linear_attn.in_proj_ba.weight", SP_FORM_BA,
     0},
    {SP_STORED_GROUPED, "linear_attn.in_proj_a.weight", "linear_attn.in_proj_ba.weight", SP_FORM_BA,
     1},

    {SP_STORED_GROUPED, "self_attn.k_b_proj.weight", "self_attn.kv_b_proj.weight",
     SP_FORM_LATENT_KEYS, 0},
    {SP_STORED_GROUPED, "self_attn.v_b_proj.weight", "self_attn.kv_b_proj.weight",
     SP_FORM_LATENT_VALUES, 0},
    {SP_STORED_GROUPED, "self_attn.q_proj.weight", "self_attn.q_proj.weight", SP_FORM_TAILS, 0},
    {SP_STORED_GROUPED, "self_attn.q_b_proj.weight", "self_attn.q_b_proj.weight", SP_FORM_TAILS, 0},
    {SP_STORED_GROUPED, "self_attn.kv_a_proj_with_mqa.weight",
     "self_attn.kv_a_proj_with_mqa.weight", SP_FORM_TAILS, 1},
    {SP_STORED_GROUPED, "self_attn.kv_a_proj_with_mqa.bias", "self_attn.kv_a_proj_with_mqa.bias",
     SP_FORM_TAILS, 1},

    {SP_STORED_LFM2 | SP_STORED_LFM3, "input_layernorm.weight", "operator_norm.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "post_attention_layernorm.weight", "ffn_norm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.o_proj.weight", "self_attn.out_proj.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.q_norm.weight", "self_attn.q_layernorm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "self_attn.k_norm.weight", "self_attn.k_layernorm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2 | SP_STORED_LFM3, "mlp.gate_proj.weight", "feed_forward.w1.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2 | SP_STORED_LFM3, "mlp.up_proj.weight", "feed_forward.w3.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_LFM2 | SP_STORED_LFM3, "mlp.down_proj.weight", "feed_forward.w2.weight",
     SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.router.weight", "feed_forward.gate.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.router.correction", "feed_forward.expert_bias", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM2, "mlp.experts.gate_proj.weight", "feed_forward.experts.%u.w1.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_LFM2, "mlp.experts.up_proj.weight", "feed_forward.experts.%u.w3.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_LFM2, "mlp.experts.down_proj.weight", "feed_forward.experts.%u.w2.weight",
     SP_FORM_EACH, 0},
    {SP_STORED_LFM2, "mlp.experts.gate_proj.weight", "feed_forward.experts.gate_up_proj",
     SP_FORM_HALVES, 0},
    {SP_STORED_LFM2, "mlp.experts.up_proj.weight", "feed_forward.experts.gate_up_proj",
     SP_FORM_HALVES, 1},
    {SP_STORED_LFM2, "mlp.experts.down_proj.weight", "feed_forward.experts.down_proj",
     SP_FORM_WHOLE, 0},

    {SP_STORED_LFM3, "post_attention_layernorm.weight", "post_operator_norm.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_LFM3, "pre_feedforward_layernorm.weight", "ffn_norm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM3, "post_feedforward_layernorm.weight", "post_ffn_norm.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_LFM3, "self_attn.head_gate.weight", "self_attn.gate_proj.weight", SP_FORM_WHOLE, 0},

    {SP_STORED_BESIDE, "mlp.router.weight", "router.proj.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.router.scale", "router.scale", SP_FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.router.expert_scale", "router.per_expert_scale", SP_FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.experts.gate_proj.weight", "experts.gate_up_proj", SP_FORM_HALVES, 0},
    {SP_STORED_BESIDE, "mlp.experts.up_proj.weight", "experts.gate_up_proj", SP_FORM_HALVES, 1},
    {SP_STORED_BESIDE, "mlp.experts.down_proj.weight", "experts.down_proj", SP_FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.shared_expert.gate_proj.weight", "mlp.gate_proj.weight", SP_FORM_WHOLE,
     0},
    {SP_STORED_BESIDE, "mlp.shared_expert.up_proj.weight", "mlp.up_proj.weight", SP_FORM_WHOLE, 0},
    {SP_STORED_BESIDE, "mlp.shared_expert.down_proj.weight", "mlp.down_proj.weight", SP_FORM_WHOLE,
     0},

    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj",
     SP_FORM_ALTERNATE, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj",
     SP_FORM_ALTERNATE, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.weight", "mlp.experts.down_proj",
     SP_FORM_TRANSPOSED, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.weight", "mlp.experts.gate_up_proj_blocks",
     SP_FORM_ROWS, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.weight", "mlp.experts.gate_up_proj_blocks",
     SP_FORM_ROWS, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.weight", "mlp.experts.down_proj_blocks",
     SP_FORM_WHOLE, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.gate_proj.bias", "mlp.experts.gate_up_proj_bias",
     SP_FORM_BIASES, 0},
    {SP_STORED_INTERLEAVED, "mlp.experts.up_proj.bias", "mlp.experts.gate_up_proj_bias",
     SP_FORM_BIASES, 1},
    {SP_STORED_INTERLEAVED, "mlp.experts.down_proj.bias", "mlp.experts.down_proj_bias",
     SP_FORM_WHOLE, 0},
};

/* Outside the layers. */
static const struct outer_form {
    enum sp_storage storage;
    const char *canonical, *source;
} outer_forms[] = {
    {SP_STORED_LFM2 | SP_STORED_LFM3, "norm.weight", "embedding_norm.weight"},
    {SP_STORED_PHI, "norm.weight", "final_layernorm.weight"},
    {SP_STORED_PHI, "norm.bias", "final_layernorm.bias"},
    {SP_STORED_MIXER, "norm.weight", "norm_f.weight"},
    {SP_STORED_MIXER, "embed_tokens.weight", SP_MIXER_EMBEDDING},
    {SP_STORED_FEED_FORWARD, "norm.weight", "final_layernorm.weight"},
    {SP_STORED_NEXTN, "fc.weight", "eh_proj.weight"},
    {SP_STORED_NEXTN, "pre_fc_norm_embedding.weight", "enorm.weight"},
    {SP_STORED_NEXTN, "pre_fc_norm_hidden.weight", "hnorm.weight"},
    {SP_STORED_NEXTN, "norm.weight", "shared_head.norm.weight"},
};

/* Where names are made up, the first that comes into question is there. */
static bool exists(const struct sp_tensor_match *m, const char *name)
{
    return m->published || sp_tensor_match_has(m, "", name);
}

/* Is there a tensor of this form? Of experts or heads apart, the first stands for all. */
static bool form_exists(const struct sp_tensor_match *m, const struct sp_form_row *form,
                        const char *name)
{
    char first[SP_SOURCE_NAME];

    if (form->form != SP_FORM_EACH && form->form != SP_FORM_HEADWISE) return exists(m, name);
    sp_form_name_expert(first, sizeof first, name, 0);
    return exists(m, first);
}

static void name_in_layer(char *out, size_t size, const struct sp_tensor_match *m, unsigned layer,
                          const char *suffix)
{
    if (m->only_layer) {
        snprintf(out, size, "%s%s%s", m->prefix, m->only_layer, suffix);
    } else {
        snprintf(out, size, "%slayers.%u.%s", m->prefix, layer, suffix);
    }
}

/* Where sublayers have no names of their own, "mixer" stands for each. */
static bool name_mixer(char *out, size_t size, const struct sp_tensor_match *m, const char *suffix)
{
    static const char *const sublayers[] = {"mamba.", "self_attn.", "mlp."};

    for (size_t i = 0; i < 3 && (m->storage & SP_STORED_MIXER); i++) {
        size_t n = strlen(sublayers[i]);
        if (strncmp(suffix, sublayers[i], n) != 0) continue;
        snprintf(out, size, "mixer.%s", suffix + n);
        return true;
    }
    return false;
}

static enum sp_status match_layer_spec(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    static const struct sp_form_row plain = {.form = SP_FORM_WHOLE};
    const struct sp_form_row *chosen = NULL;
    unsigned layer = (unsigned)strtoul(spec->name + strlen("layers."), NULL, 10);
    const char *suffix = strchr(spec->name + strlen("layers."), '.') + 1;
    char name[SP_SOURCE_NAME], renamed[SP_SPEC_NAME];

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct sp_form_row *form = &forms[i];
        if (!(form->storage & m->storage) || strcmp(form->canonical, suffix) != 0) continue;
        name_in_layer(name, sizeof name, m, layer, form->source);
        if (chosen == NULL) chosen = form;
        if (!form_exists(m, form, name)) continue;
        chosen = form;
        break;
    }
    if (chosen == NULL) chosen = &plain;
    if (chosen == &plain && name_mixer(renamed, sizeof renamed, m, suffix)) suffix = renamed;
    if (chosen->source) suffix = chosen->source;
    name_in_layer(name, sizeof name, m, layer, suffix);
    return sp_form_add(m, spec, chosen, name, &m->config->layers[layer]);
}

/* An assistant's projections stand beside its text model. */
static bool is_beside(const struct sp_tensor_match *m, const char *name, const char *prefixed)
{
    static const char *const begins[] = {"pre_projection.", "post_projection.",
                                         "masked_embedding."};

    if (m->config->draft.kind == SP_DRAFT_NONE) return false;
    if (!m->published) return !exists(m, prefixed) && exists(m, name);
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0) return true;
    }
    return false;
}

enum sp_status sp_tensor_match_place(struct sp_tensor_match *m, struct sp_tensor_spec *spec)
{
    char name[SP_SOURCE_NAME];

    if (strcmp(spec->name, SP_TAP_NORMS) == 0) return sp_form_add_tap_norms(m, spec);
    if (strncmp(spec->name, "layers.", strlen("layers.")) == 0) return match_layer_spec(m, spec);
    if (strcmp(spec->name, "lm_head.weight") == 0 ||
        (spec->role == SP_ROLE_EMBEDDING && m->embedding_is_head)) {
        return sp_form_add_whole(m, spec, m->head_name);
    }
    if (strcmp(spec->name, "lm_head.bias") == 0) return sp_form_add_whole(m, spec, spec->name);
    for (size_t i = 0; i < sizeof outer_forms / sizeof outer_forms[0]; i++) {
        const struct outer_form *form = &outer_forms[i];
        if (!(form->storage & m->storage) || strcmp(form->canonical, spec->name) != 0) continue;
        snprintf(name, sizeof name, "%s%s", m->prefix, form->source);
        return sp_form_add_whole(m, spec, name);
    }
    snprintf(name, sizeof name, "%s%s", m->prefix, spec->name);
    if (is_beside(m, spec->name, name)) return sp_form_add_whole(m, spec, spec->name);
    if (strstr(spec->name, "_codebook") && !exists(m, name)) {
        snprintf(name, sizeof name, "%s%s.weight", m->prefix, spec->name);
    }
    return sp_form_add_whole(m, spec, name);
}
