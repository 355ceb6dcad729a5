#!/usr/bin/env python3
"""Make the golden models of testdata/families: python3 families.py FOLDER [NAME...]

A tiny random checkpoint of each family (or of the named ones), as transformers writes it, with the results
of transformers in float32 and eager attention (SDPA: in its other one): NAME/config.json and model.safetensors;
golden.json (prompts; greedy, the ids that follow each, end of sequence ignored); logits_K.npy,
float32 [tokens, vocabulary] of prompt K in one pass.

Where the checkpoint holds a prediction head (HEADS), which transformers does not run: the head's
tensors, Modelfile, golden_draft.json (ids, the last one the anchor; greedy) and draft_logits_K.npy,
the chain of its own greedy steps. The layer is transformers', the wiring that of the vLLM project's
published model file. The same in lfm2/dspark, of a block draft in a folder of its own.

Weights are drawn so that whatever a family has shows in the logits: no norm is neutral, no bias
zero. They are rounded to bfloat16, and stored as such. Fixed seeds. Made with torch 2.13 and
transformers 5.x as golden.json states."""
import copy
import json
import os
import shutil
import sys
import zlib

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3
from transformers.models.deepseek_v32 import modeling_deepseek_v32
from transformers.models.ernie4_5_moe import modeling_ernie4_5_moe
from transformers.models.exaone_moe import modeling_exaone_moe
from transformers.models.glm4_moe import modeling_glm4_moe
from transformers.models.glm4_moe_lite import modeling_glm4_moe_lite
from transformers.models.hy_v3 import modeling_hy_v3
from transformers.models.mellum import modeling_mellum
from transformers.models.mimo_v2_flash import modeling_mimo_v2_flash
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_moe import modeling_qwen3_moe
from transformers.models.qwen3_next import modeling_qwen3_next

# transformers runs a prompt in chunks, which loses some digits, and single tokens step by step.
for module in (modeling_qwen3_next, modeling_qwen3_5):
    module.torch_chunk_gated_delta_rule = (
        lambda *args, module=module, **kwargs: module.torch_recurrent_gated_delta_rule(*args, **kwargs))

N_VOCAB = 128
N_GREEDY = 16
# Prompts longer than any window below, shorter than one, and one with the prefix of another.
PROMPTS = [[7, 99, 3, 58, 121, 76, 20, 33, 91, 110, 2, 45, 45, 17, 64, 80, 5, 28, 101, 9],
           [5, 40, 12],
           [7, 99, 3, 58, 121, 76, 20, 1]]

# Members of every config unless overridden.
COMMON = {"vocab_size": N_VOCAB, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
          "tie_word_embeddings": False}

# By folder: the class of the model, and further members of its config; None drops a common member.
FAMILIES = {
    "granite": ("GraniteForCausalLM", {
        "attention_multiplier": 0.09, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
        "logits_scaling": 1.7, "attention_bias": True, "mlp_bias": True, "intermediate_size": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "ernie4_5": ("Ernie4_5ForCausalLM", {
        "intermediate_size": 64, "head_dim": 16, "use_bias": True, "tie_word_embeddings": True}),
    "seed_oss": ("SeedOssForCausalLM", {"intermediate_size": 64, "head_dim": 16}),
    "seed_oss_biases": ("SeedOssForCausalLM", {
        "intermediate_size": 64, "head_dim": 16, "num_hidden_layers": 2, "attention_bias": False,
        "attention_out_bias": True, "mlp_bias": True}),
    "cohere": ("CohereForCausalLM", {
        "intermediate_size": 64, "attention_bias": True, "logit_scale": 0.3,
        "tie_word_embeddings": True}),
    "cohere_qk_norm": ("CohereForCausalLM", {
        "intermediate_size": 64, "num_hidden_layers": 2, "use_qk_norm": True,
        "tie_word_embeddings": True}),
    "cohere2": ("Cohere2ForCausalLM", {
        "intermediate_size": 64, "num_hidden_layers": 5, "sliding_window": 6, "logit_scale": 0.25,
        "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", {
        "intermediate_size": 64, "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0,
                            "factor": 1.0}}),
    "starcoder2": ("Starcoder2ForCausalLM", {
        "intermediate_size": 64, "sliding_window": 6, "residual_dropout": 0.0,
        "tie_word_embeddings": True}),
    "granite4": ("GraniteMoeHybridForCausalLM", {
        "shared_intermediate_size": 64, "layer_types": ["full_attention"] * 3,
        "num_local_experts": 0, "num_experts_per_tok": 0, "position_embedding_type": "rope",
        "attention_multiplier": 0.09, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
        "logits_scaling": 1.7, "tie_word_embeddings": True, "mamba_n_heads": 4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "granite4_nope": ("GraniteMoeHybridForCausalLM", {
        "shared_intermediate_size": 64, "num_hidden_layers": 2, "attention_bias": True,
        "layer_types": ["full_attention"] * 2, "num_local_experts": 0, "num_experts_per_tok": 0,
        "mamba_n_heads": 4}),
    "glm": ("GlmForCausalLM", {"intermediate_size": 64, "head_dim": 16}),
    "glm4": ("Glm4ForCausalLM", {"intermediate_size": 64, "head_dim": 16}),
    "helium": ("HeliumForCausalLM", {
        "intermediate_size": 64, "head_dim": 8, "attention_bias": True, "mlp_bias": False}),
    "olmo2": ("Olmo2ForCausalLM", {
        "intermediate_size": 64, "attention_bias": True, "rope_theta": 5e5}),
    "olmo3": ("Olmo3ForCausalLM", {
        "intermediate_size": 64, "num_hidden_layers": 4, "sliding_window": 6,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "original_max_position_embeddings": 64}}),
    "exaone4": ("Exaone4ForCausalLM", {
        "intermediate_size": 64, "num_hidden_layers": 4, "sliding_window": 6,
        "sliding_window_pattern": 4,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e6, "factor": 16.0,
                            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 64}}),
    "exaone4_full": ("Exaone4ForCausalLM", {
        "intermediate_size": 64, "num_hidden_layers": 2, "sliding_window": None,
        "sliding_window_pattern": None, "layer_types": ["full_attention"] * 2,
        "tie_word_embeddings": True}),
    # An activation of its own, in per-layer embeddings too; saved with a per_layer_config. Roots of
    # the widths are whole: they are rounded to the type that a model is loaded in.
    "gemma4_silu": ("Gemma4ForCausalLM", {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
        "head_dim": 8, "global_head_dim": 16, "sliding_window": 6, "hidden_activation": "silu",
        "attention_k_eq_v": True, "num_global_key_value_heads": 1, "hidden_size": 64,
        "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": N_VOCAB,
        "tie_word_embeddings": True}),
    # Everything at once: experts, values from keys, and a layer that uses the keys of another one.
    "hunyuan_unscaled": ("HunYuanDenseV1ForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 11158840.0}}),
    "ministral3_small": ("Ministral3ForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "sliding_window": None,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 32.0,
                            "beta_slow": 1.0, "original_max_position_embeddings": 8, "mscale": 1.0,
                            "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5}}),
    "gemma4_shared": ("Gemma4ForCausalLM", {
        "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "head_dim": 8, "global_head_dim": 16, "sliding_window": 6, "num_kv_shared_layers": 1,
        "use_double_wide_mlp": True, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
        "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16,
        "hidden_size": 16, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": N_VOCAB,
        "final_logit_softcapping": 30.0, "tie_word_embeddings": True}),
    "mixtral": ("MixtralForCausalLM", {
        "num_local_experts": 5, "num_experts_per_tok": 2}),
}


# Variants of the same block, each with the distinguishing features of its family.
FAMILIES.update({
    # The root of the width is whole, as it is rounded to the type that a model is loaded in.
    "gemma": ("GemmaForCausalLM", {
        "hidden_size": 64, "head_dim": 8, "hidden_act": "gelu", "num_hidden_layers": 2,
        "attention_bias": True, "tie_word_embeddings": True}),
    "arcee": ("ArceeForCausalLM", {
        "intermediate_size": 64, "head_dim": 16, "mlp_bias": True, "num_hidden_layers": 2,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                            "original_max_position_embeddings": 64, "mscale": 1.0}}),
    "nemotron": ("NemotronForCausalLM", {
        "intermediate_size": 64, "head_dim": 16, "num_hidden_layers": 2, "norm_eps": 1e-3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e3,
                            "partial_rotary_factor": 0.25}}),
    "nemotron_bias": ("NemotronForCausalLM", {
        "num_hidden_layers": 2, "attention_bias": True, "mlp_bias": True}),
    "jais2": ("Jais2ForCausalLM", {
        "num_hidden_layers": 2, "layer_norm_eps": 1e-3, "num_key_value_heads": None}),
    "cwm": ("CwmForCausalLM", {
        "num_hidden_layers": 5, "head_dim": 16, "sliding_window": 6, "mlp_bias": True}),
    "internlm3": ("LlamaForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "qkv_bias": True, "bias": True,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 5e4, "factor": 6.0}}),
    "iquestcoder": ("LlamaForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "attention_bias": True}),
    "hyperclovax": ("HyperCLOVAXForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "embedding_multiplier": 3.0,
        "residual_multiplier": 0.4, "logits_scaling": 0.6, "attention_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "hyperclovax_multiplied": ("HyperCLOVAXForCausalLM", {
        "num_hidden_layers": 2, "attention_multiplier": 0.09, "mlp_bias": True,
        "tie_word_embeddings": True}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", {
        "num_hidden_layers": 3, "num_experts": 5, "num_experts_per_tok": 2, "mlp_only_layers": [1],
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
        "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}),
    "qwen2_moe_plain": ("Qwen2MoeForCausalLM", {
        "num_hidden_layers": 2, "num_experts": 5, "num_experts_per_tok": 3, "norm_topk_prob": True,
        "decoder_sparse_step": 2, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16, "qkv_bias": False}),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", {
        "num_hidden_layers": 2, "num_local_experts": 5, "num_experts_per_tok": 2,
        "intermediate_size": 24, "shared_intermediate_size": 40, "embedding_multiplier": 1.5,
        "attention_multiplier": 0.6, "residual_multiplier": 0.4, "logits_scaling": 1.25}),
    "granitemoeshared_none": ("GraniteMoeSharedForCausalLM", {
        "num_hidden_layers": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "intermediate_size": 24, "attention_bias": True, "tie_word_embeddings": True}),
    "dots1": ("Dots1ForCausalLM", {
        "first_k_dense_replace": 1, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_group": 3,
        "topk_group": 2, "n_shared_experts": 2, "moe_intermediate_size": 16, "head_dim": 16,
        "routed_scaling_factor": 2.5, "norm_topk_prob": True, "sliding_window": 6,
        "max_window_layers": 1, "attention_bias": True}),
    "solar_open": ("SolarOpenForCausalLM", {
        "num_hidden_layers": 2, "n_routed_experts": 5, "num_experts_per_tok": 2, "head_dim": 16,
        "moe_intermediate_size": 16, "routed_scaling_factor": 1.5, "attention_bias": True,
        "intermediate_size": None}),
    "exaone_moe": ("ExaoneMoeForCausalLM", {
        "num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse", "dense", "sparse"],
        "num_experts": 6, "num_experts_per_tok": 3, "n_group": 3, "topk_group": 2,
        "num_shared_experts": 2, "moe_intermediate_size": 16, "sliding_window": 6,
        "sliding_window_pattern": 4}),
    "mellum": ("MellumForCausalLM", {
        "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention",
                                                "sliding_attention"],
        "mlp_layer_types": ["sparse", "dense", "sparse"], "num_experts": 5,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "sliding_window": 6, "head_dim": 16,
        "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0,
                               "original_max_position_embeddings": 64},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}}),
    # As GGUF files have them: experts in all layers, one rope theta, scaling that is part of the theta.
    "mellum_sparse": ("MellumForCausalLM", {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
        "mlp_layer_types": ["sparse", "sparse"], "num_experts": 5, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "sliding_window": 6, "head_dim": 16,
        "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0,
                               "original_max_position_embeddings": 64},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}}),
    "granite_swa_nope": ("GraniteSWAForCausalLM", {
        "num_hidden_layers": 3, "sliding_window": 6, "embedding_multiplier": 3.0,
        "attention_multiplier": 0.3, "residual_multiplier": 0.4, "logits_scaling": 1.7,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "layer_rope_theta": [0, 1e4, 1e4]}),
    "hunyuan_moe_unscaled": ("HunYuanMoEV1ForCausalLM", {
        "num_hidden_layers": 2, "num_experts": 5, "moe_topk": [2, 2], "intermediate_size": 24,
        "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 11158840.0}}),
    "hunyuan_moe": ("HunYuanMoEV1ForCausalLM", {
        "num_hidden_layers": 2, "num_experts": 5, "moe_topk": [2, 2], "intermediate_size": 24,
        "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0,
                            "factor": 1.0}}),
    "afmoe": ("AfmoeForCausalLM", {
        "num_hidden_layers": 5, "num_experts": 5, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "num_shared_experts": 2, "head_dim": 16, "route_scale": 1.7,
        "sliding_window": 6, "mup_enabled": True, "num_dense_layers": 3}),
    "afmoe_plain": ("AfmoeForCausalLM", {
        "num_hidden_layers": 2, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "num_shared_experts": 1, "head_dim": 16,
        "sliding_window": 6, "global_attn_every_n_layers": 2, "attention_bias": True}),
})
FAMILIES.update({
    "apertus": ("ApertusForCausalLM", {
        "num_hidden_layers": 2, "attention_bias": True, "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e5, "factor": 8.0,
                            "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 64}}),
    "olmo": ("OlmoForCausalLM", {
        "num_hidden_layers": 2, "clip_qkv": 0.8, "attention_bias": True}),
    "olmo_unclipped": ("OlmoForCausalLM", {
        "num_hidden_layers": 2, "tie_word_embeddings": True}),
    "granite_swa": ("GraniteSWAForCausalLM", {
        "num_hidden_layers": 5, "sliding_window": 6, "embedding_multiplier": 3.0,
        "attention_multiplier": 0.3, "residual_multiplier": 0.4, "logits_scaling": 1.7,
        "layer_rope_theta": [0, 1e3, 5e5, 1e3, 5e5]}),
    "granitemoe_swa": ("GraniteMoeSWAForCausalLM", {
        "num_hidden_layers": 3, "sliding_window": 6, "num_local_experts": 5,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "num_experts_per_tok": 2, "intermediate_size": 24, "shared_intermediate_size": 16,
        "attention_multiplier": 0.3}),
    "nanochat": ("NanoChatForCausalLM", {
        "num_hidden_layers": 2, "final_logit_softcapping": 4.0, "attention_bias": True}),
    "lfm3": ("Lfm3ForCausalLM", {
        "num_hidden_layers": 5, "head_dim": 16, "conv_L_cache": 5, "sliding_window": 6,
        "attention_bias": True, "norm_eps": 1e-4,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e4,
                               "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e2}}}),
    "phi": ("PhiForCausalLM", {
        "num_hidden_layers": 2, "layer_norm_eps": 1e-3}),
    "stablelm": ("StableLmForCausalLM", {
        "num_hidden_layers": 2, "use_qkv_bias": True, "hidden_size": 64}),
    "stablelm_parallel": ("StableLmForCausalLM", {
        "num_hidden_layers": 2, "qk_layernorm": True, "use_parallel_residual": True,
        "hidden_size": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                               "partial_rotary_factor": 0.5}}),
})
FAMILIES.update({
    # A dense layer that rotates without a window; sigmoids of the chosen experts; LayerNorm.
    "cohere2_moe": ("Cohere2MoeForCausalLM", {
        "num_hidden_layers": 5, "head_dim": 16, "sliding_window": 6, "sliding_window_pattern": 3,
        "first_k_dense_replace": 1, "prefix_dense_intermediate_size": 64, "intermediate_size": 24,
        "num_experts": 5, "num_experts_per_tok": 2, "num_shared_experts": 2, "logit_scale": 0.5,
        "expert_selection_fn": "sigmoid", "attention_bias": False, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}),
    # Dense layers with a window of their own pattern; softmax; RMSNorm; shared experts added.
    "cohere2_moe_sum": ("Cohere2MoeForCausalLM", {
        "num_hidden_layers": 3, "head_dim": 16, "sliding_window": 6, "attention_bias": True,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "mlp_layer_types": ["dense", "dense", "sparse"], "prefix_dense_sliding_window_pattern": 2,
        "num_experts": 4, "num_experts_per_tok": 3, "num_shared_experts": 1, "rms_norm_eps": 1e-4,
        "shared_expert_combination_strategy": "sum", "intermediate_size": 24}),
})
# Models with configuration classes of their own.
CONFIGS = {"internlm3": "InternLM3Config", "iquestcoder": "IQuestCoderConfig"}


def qwen3_next(**settings):
    """Delta layers and attention; more values than keys; experts beside a dense MLP."""
    return {"num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention",
                                                    "linear_attention"],
            "head_dim": 16, "linear_num_key_heads": 3, "linear_num_value_heads": 6,
            "linear_key_head_dim": 8, "linear_value_head_dim": 4, "linear_conv_kernel_dim": 3,
            "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 24, **settings}


def glm4_moe(**settings):
    """A dense layer followed by experts in groups, some of which cannot be chosen."""
    return {"first_k_dense_replace": 1, "n_routed_experts": 6, "num_experts_per_tok": 3,
            "n_group": 3, "topk_group": 2, "n_shared_experts": 2, "moe_intermediate_size": 16,
            "routed_scaling_factor": 2.5, **settings}


def latent(**settings):
    """Set head sizes that all differ from each other and from other sizes of the config."""
    return {"num_key_value_heads": 4, "q_lora_rank": 20, "kv_lora_rank": 24,
            "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14, **settings}


def yarn(**settings):
    """Set yarn so that mscale_all_dim scales the scores and both factors scale the rotated dims."""
    return {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0,
                                "original_max_position_embeddings": 32, "beta_fast": 32,
                                "beta_slow": 1, **settings}}


def deepseek_v2(**settings):
    return {"first_k_dense_replace": 1, "n_routed_experts": 6, "num_experts_per_tok": 3,
            "n_shared_experts": 2, "moe_intermediate_size": 16, "routed_scaling_factor": 2.5,
            **settings}


def lfm2(**settings):
    """Layers of both kinds in both orders; w1 is 2/3 as wide as stated."""
    return {"num_hidden_layers": 5, "full_attn_idxs": [1, 3], "block_multiple_of": 8,
            "intermediate_size": 72, "norm_eps": 1e-4, **settings}


def granite4(**settings):
    """Mamba-2 layers around one of attention; keys and norms in two groups."""
    return {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention",
                                                    "linear_attention", "linear_attention"],
            "shared_intermediate_size": 40, "mamba_n_heads": 6, "mamba_d_head": 16,
            "mamba_expand": 3, "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 3,
            "attention_multiplier": 0.09, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
            "logits_scaling": 1.7, **settings}


def falcon_h1(**settings):
    """Attention and Mamba-2 side by side; no multiplier is neutral."""
    return {"num_hidden_layers": 3, "head_dim": 16, "mamba_d_ssm": 48, "mamba_n_heads": 6,
            "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 3,
            "embedding_multiplier": 2.5, "lm_head_multiplier": 0.6, "key_multiplier": 0.4,
            "attention_in_multiplier": 0.8, "attention_out_multiplier": 0.7,
            "ssm_in_multiplier": 1.3, "ssm_out_multiplier": 0.6, "mlp_multipliers": [0.7, 0.4],
            "ssm_multipliers": [0.6, 1.2, 0.8, 0.7, 0.5], **settings}


def mamba2(**settings):
    """Neither attention nor MLPs."""
    return {"num_hidden_layers": 4, "num_heads": 4, "head_dim": 16, "expand": 2, "n_groups": 2,
            "state_size": 12, "intermediate_size": None, "num_attention_heads": None,
            "num_key_value_heads": None, "max_position_embeddings": None, **settings}


def nemotron_h(**settings):
    """Layers of one sublayer each."""
    return {"num_hidden_layers": None, "head_dim": 16, "mamba_num_heads": 6, "mamba_head_dim": 8,
            "n_groups": 2, "ssm_state_size": 12, "conv_kernel": 3, "layer_norm_epsilon": 1e-4,
            **settings}


FAMILIES.update({
    "granite4_h": ("GraniteMoeHybridForCausalLM", granite4(
        num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True)),
    "granite4_h_moe": ("GraniteMoeHybridForCausalLM", granite4(
        num_local_experts=5, num_experts_per_tok=2, intermediate_size=24, mamba_conv_bias=False,
        mamba_proj_bias=True, mamba_n_groups=1, mamba_d_conv=4, time_step_limit=[0.3, 0.9],
        mamba_chunk_size=8, num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"])),
    "falcon_h1": ("FalconH1ForCausalLM", falcon_h1(
        mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=True)),
    "falcon_h1_plain": ("FalconH1ForCausalLM", falcon_h1(num_hidden_layers=2)),
    "falcon_h1_head": ("FalconH1ForCausalLM", falcon_h1(
        num_hidden_layers=2, mamba_rms_norm=True, mamba_norm_before_gate=False)),
    "falcon_h1_normed": ("FalconH1ForCausalLM", falcon_h1(
        num_hidden_layers=2, mamba_rms_norm=True, mamba_norm_before_gate=True,
        mamba_n_groups=1)),
    "mamba2": ("Mamba2ForCausalLM", mamba2()),
    "mamba2_bias": ("Mamba2ForCausalLM", mamba2(
        num_hidden_layers=2, use_bias=True, use_conv_bias=False, n_groups=1,
        layer_norm_epsilon=1e-3, tie_word_embeddings=True)),
    "nemotron_h": ("NemotronHForCausalLM", nemotron_h(
        layers_block_type=["linear_attention", "mlp", "full_attention", "mlp",
                           "linear_attention"], use_bias=True)),
    "nemotron_h_moe": ("NemotronHForCausalLM", nemotron_h(
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
        n_routed_experts=6, num_experts_per_tok=3, n_group=3, topk_group=2,
        moe_intermediate_size=16, moe_shared_expert_intermediate_size=24,
        routed_scaling_factor=2.5, time_step_min=0.4)),
    "nemotron_h_latent": ("NemotronHForCausalLM", nemotron_h(
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"],
        n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, moe_latent_size=20,
        moe_shared_expert_intermediate_size=28, routed_scaling_factor=2.5)),
    "nemotron_h_even": ("NemotronHForCausalLM", nemotron_h(
        layers_block_type=["linear_attention", "moe", "full_attention"], mamba_num_heads=8,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        moe_shared_expert_intermediate_size=24, routed_scaling_factor=2.5)),
    "bamba": ("BambaForCausalLM", {
        "num_hidden_layers": 3, "attn_layer_indices": [1], "head_dim": 16, "mamba_n_heads": 6,
        "mamba_d_head": 16, "mamba_expand": 3, "mamba_n_groups": 2, "mamba_d_state": 8,
        "attention_bias": True, "mlp_bias": True}),
    "qwen3_next": ("Qwen3NextForCausalLM", qwen3_next()),
    "qwen3_next_linear": ("Qwen3NextForCausalLM", qwen3_next(
        num_hidden_layers=2, layer_types=["linear_attention"] * 2)),
    "qwen3_next_sparse": ("Qwen3NextForCausalLM", qwen3_next(
        norm_topk_prob=False, mlp_only_layers=[1])),
    "qwen3_next_biases": ("Qwen3NextForCausalLM", qwen3_next(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], attention_bias=True)),
    "qwen3_5_experts": ("Qwen3_5MoeForCausalLM", qwen3_next(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])),
    "qwen3_5_bias": ("Qwen3_5ForCausalLM", {k: v for k, v in qwen3_next(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], attention_bias=True).items()
        if "expert" not in k and "moe" not in k}),
    "lfm2_moe": ("Lfm2MoeForCausalLM", {
        "num_hidden_layers": 4, "layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24, "routed_scaling_factor": 1.7, "conv_L_cache": 3}),
    "lfm2_moe_plain": ("Lfm2MoeForCausalLM", {
        "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"],
        "num_dense_layers": 0, "num_experts": 5, "num_experts_per_tok": 2, "norm_topk_prob": False,
        "moe_intermediate_size": 24, "use_expert_bias": False, "tie_word_embeddings": True}),
    "olmoe": ("OlmoeForCausalLM", {
        "num_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24}),
    "granitemoe": ("GraniteMoeForCausalLM", {
        "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24,
        "embedding_multiplier": 1.5, "attention_multiplier": 0.6, "residual_multiplier": 0.4,
        "logits_scaling": 1.25, "attention_bias": True}),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", {
        "num_hidden_layers": 4, "moe_num_experts": 5, "moe_k": 2, "moe_num_shared_experts": 2,
        "moe_intermediate_size": 16, "moe_layer_start_index": 1, "moe_layer_end_index": 2,
        "use_bias": False}),
    "glm4_moe": ("Glm4MoeForCausalLM", glm4_moe(
        attention_bias=True, use_qk_norm=True, head_dim=16)),
    "glm4_moe_plain": ("Glm4MoeForCausalLM", glm4_moe(
        n_group=1, topk_group=1, n_shared_experts=1, num_hidden_layers=2, norm_topk_prob=False)),
    # Blocks of 32 in every product.
    "glm4_moe_lite": ("Glm4MoeLiteForCausalLM", glm4_moe(
        **latent(attention_bias=True, mlp_layer_types=["sparse", "dense", "sparse"],
                 num_attention_heads=2, num_key_value_heads=2, q_lora_rank=32, kv_lora_rank=64,
                 qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32, rms_norm_eps=1e-3))),
    "glm4_moe_lite_plain": ("Glm4MoeLiteForCausalLM", glm4_moe(
        **latent(n_group=1, topk_group=1, n_shared_experts=1, num_hidden_layers=2,
                 norm_topk_prob=False, q_lora_rank=None, rope_interleave=False))),
    "hy_v3": ("HYV3ForCausalLM", {
        "head_dim": 16, "moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2,
        "num_shared_experts": 1, "router_scaling_factor": 1.5, "num_nextn_predict_layers": 1,
        "first_k_dense_replace": 1}),
    "deepseek_v32_head": ("DeepseekV32ForCausalLM", {
        "num_key_value_heads": 4, "kv_lora_rank": 20, "q_lora_rank": 28, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
        "v_head_dim": 16, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "moe_intermediate_size": 12, "index_topk": 8, "index_head_dim": 12, "index_n_heads": 8, "n_group": 3,
        "topk_group": 2, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", glm4_moe(
        **latent(**yarn(mscale=0.7, mscale_all_dim=1.3)))),
    "deepseek_v2": ("DeepseekV2ForCausalLM", deepseek_v2(
        **latent(topk_method="group_limited_greedy", n_group=3, topk_group=2,
                 attention_bias=True, **yarn(mscale=0.707, mscale_all_dim=0.707)))),
    "deepseek_v2_lite": ("DeepseekV2ForCausalLM", deepseek_v2(
        **latent(q_lora_rank=None, num_hidden_layers=2, n_group=1, topk_group=1,
                 **yarn(mscale_all_dim=0.9)))),
    "youtu": ("YoutuForCausalLM", latent(
        num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True, num_hidden_layers=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1.6e6})),
    "qwen3_moe_head": ("Qwen3MoeForCausalLM", {
        "num_hidden_layers": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "mlp_only_layers": [0]}),
    "exaone_moe_head": ("ExaoneMoeForCausalLM", {
        "num_hidden_layers": 2, "mlp_layer_types": ["dense", "sparse"], "num_experts": 4,
        "layer_types": ["sliding_attention", "full_attention"], "num_experts_per_tok": 2, "n_group": 1,
        "topk_group": 1, "num_shared_experts": 1, "moe_intermediate_size": 16, "sliding_window": 6}),
    "mellum_head": ("MellumForCausalLM", {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
        "mlp_layer_types": ["sparse", "sparse"], "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "sliding_window": 6, "head_dim": 16, "num_nextn_predict_layers": 1,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e4},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}}),
    "mimo_head": ("MiMoV2FlashForCausalLM", {
        "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 6,
        "mlp_layer_types": ["dense", "sparse"], "num_key_value_heads": 1, "head_dim": 24, "v_head_dim": 16,
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.334},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3, "partial_rotary_factor": 0.334}}}),
    "ernie_head": ("Ernie4_5_MoeForCausalLM", {
        "num_hidden_layers": 2, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1,
        "moe_intermediate_size": 16, "moe_layer_start_index": 1, "moe_layer_end_index": 1, "use_bias": False}),
    "falcon_rw": ("FalconForCausalLM", {
        "num_attention_heads": 16, "num_kv_heads": 16, "num_hidden_layers": 2, "alibi": True, "bias": True,
        "parallel_attn": False, "multi_query": False, "new_decoder_architecture": False,
        "num_key_value_heads": None, "intermediate_size": None}),
    "lfm2": ("Lfm2ForCausalLM", lfm2(tie_word_embeddings=True)),
    "lfm2_bias": ("Lfm2ForCausalLM", lfm2(
        conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, intermediate_size=48)),
})


# Falcon's eager attention adds ALiBi twice, once with the mask.
SDPA = {"falcon_rw"}


def draw(name, p, generator):
    """Draw the values of one parameter by its shape and name."""
    noise = torch.randn(p.shape, generator=generator)
    if name.endswith("A_log"):
        return (1 + 3 * torch.rand(p.shape, generator=generator)).log()
    if "norm" in name:
        return p.data + 0.3 * noise if p.data.abs().sum() else 0.3 * noise
    if "bias" in name or p.dim() < 2:
        return 0.3 * noise
    if "embed" in name:
        return noise
    if "conv" in name and p.dim() == 3 and p.shape[1] == 1:
        return noise / p.shape[-1] ** 0.5
    # The scores of the router differ, and the outputs of the experts are large enough to matter.
    return 1.5 * noise / p.shape[-1] ** 0.5


def make_model(name, seed):
    kind, settings = FAMILIES[name]
    values = {**COMMON, **settings}
    model_class = getattr(transformers, kind)
    config_class = getattr(transformers, CONFIGS.get(name, model_class.config_class.__name__))
    config = config_class(**{k: v for k, v in values.items() if v is not None or
                                         k not in COMMON})
    config._attn_implementation = "sdpa" if name in SDPA else "eager"
    torch.manual_seed(seed)
    model = model_class(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(draw(name, p, generator).bfloat16().float())
        for name, b in model.named_buffers(): # constants of xIELU too are stored
            if name.endswith(("act_fn.beta", "act_fn.eps")):
                b.copy_(b.bfloat16().float())
        for name, b in model.named_buffers():
            if name.endswith("bias") and b.is_floating_point(): # a correction of the router
                b.copy_((0.1 * torch.randn(b.shape, generator=generator)).bfloat16().float())
    return model


def run(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model, ids):
    ids = list(ids)
    for _ in range(N_GREEDY):
        ids.append(int(run(model, ids)[-1].argmax()))
    return ids[-N_GREEDY:]


def expert_names(name, value):
    """Rename a layer's fused experts to the names of published checkpoints."""
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        return [(name, value)]
    base = name.rsplit(".", 1)[0]
    parts = [("gate_proj", value[:, :value.shape[1] // 2]), ("up_proj", value[:, value.shape[1] // 2:])]
    if name.endswith("down_proj"):
        parts = [("down_proj", value)]
    return [("%s.%d.%s.weight" % (base, e, part), rows[e].contiguous())
            for part, rows in parts for e in range(rows.shape[0])]


class Qwen3NextHead(torch.nn.Module):
    """One layer of full attention on pairs of a token and the final state of the token before."""

    def __init__(self, config):
        super().__init__()
        published = modeling_qwen3_next
        width = config.hidden_size
        self.fc = torch.nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (
            published.Qwen3NextRMSNorm(width, eps=config.rms_norm_eps) for _ in range(3))
        self.layers = torch.nn.ModuleList([published.Qwen3NextDecoderLayer(
            config, config.layer_types.index("full_attention"))])

    def tensors(self):
        for name, value in self.state_dict().items():
            for part in expert_names("mtp." + name, value):
                yield part

    def forward(self, body, ids, hidden):
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(body.embed_tokens(ids)),
                               self.pre_fc_norm_hidden(hidden)], -1))
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        x = self.norm(self.layers[0](
            x, position_embeddings=body.rotary_emb(x, torch.arange(n)[None]), attention_mask=mask))
        return x, x


class Glm4MoeHead(torch.nn.Module):
    """A layer with experts after the last one. It feeds back the state before its norm. (vLLM
    hides the token of the very first pair; here it is seen.)"""
    norm_class = modeling_glm4_moe.Glm4MoeRMSNorm
    layer_class = modeling_glm4_moe.Glm4MoeDecoderLayer

    def __init__(self, config):
        super().__init__()
        width, last = config.hidden_size, config.num_hidden_layers - 1
        self.prefix = "model.layers.%d." % config.num_hidden_layers
        self.eh_proj = torch.nn.Linear(2 * width, width, bias=False)
        self.enorm, self.hnorm, self.norm = (
            self.norm_class(width, config.rms_norm_eps) for _ in range(3))
        self.layer = self.layer_class(config, last)

    def tensors(self):
        for name, value in self.state_dict().items():
            name = name.removeprefix("layer.")
            name = "shared_head.norm.weight" if name == "norm.weight" else name
            for part in expert_names(self.prefix + name, value):
                yield part
        for name, table in (("embed_tokens", self.tables[0]), ("shared_head.head", self.tables[1])):
            yield self.prefix + name + ".weight", table

    def forward(self, body, ids, hidden):
        x = self.eh_proj(torch.cat([self.enorm(body.embed_tokens(ids)), self.hnorm(hidden)], -1))
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
        x = self.layer(x, position_embeddings=body.rotary_emb(x, torch.arange(n)[None]),
                       attention_mask=mask)
        return x, self.norm(x)


class Glm4MoeLiteHead(Glm4MoeHead):
    norm_class = modeling_glm4_moe_lite.Glm4MoeLiteRMSNorm
    layer_class = modeling_glm4_moe_lite.Glm4MoeLiteDecoderLayer


class DeepseekV3Head(Glm4MoeHead):
    norm_class = modeling_deepseek_v3.DeepseekV3RMSNorm
    layer_class = modeling_deepseek_v3.DeepseekV3DecoderLayer


class DeepseekV32Head(Glm4MoeHead):
    """The layer has an index of its own."""
    norm_class = modeling_deepseek_v32.DeepseekV32RMSNorm
    layer_class = modeling_deepseek_v32.DeepseekV32DecoderLayer


class HYV3Head(Glm4MoeHead):
    """It feeds back its normed output."""
    norm_class = modeling_hy_v3.HYV3RMSNorm
    layer_class = modeling_hy_v3.HYV3DecoderLayer

    def tensors(self):
        names = {"mlp.gate.weight": "mlp.router.gate.weight", "mlp.e_score_correction_bias": "mlp.expert_bias",
                 "mlp.gate.e_score_correction_bias": "mlp.expert_bias", "norm.weight": "final_layernorm.weight"}
        for name, value in self.state_dict().items():
            name = name.removeprefix("layer.")
            name = names.get(name, name.replace("shared_experts", "shared_mlp"))
            for part in expert_names(self.prefix + name, value):
                yield part

    def forward(self, body, ids, hidden):
        out = super().forward(body, ids, hidden)[1]
        return out, out


class OneLayerHead(Glm4MoeHead):
    """A layer of a stated kind, in a model whose layers are of several kinds. It feeds back its normed output."""
    attention, mlp, block = "full_attention", "dense", "layers.0."
    names = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "norm": "norm"}
    path = "mtp."

    def __init__(self, config):
        config = copy.deepcopy(config)
        config.layer_types, config.mlp_layer_types, config.num_hidden_layers = [self.attention], [self.mlp], 1
        config.moe_layer_start_index = 1
        super().__init__(config)
        self.window = config.sliding_window if self.attention == "sliding_attention" else None
        self.by_type = "sliding_attention" in (config.rope_parameters or {})

    def tensors(self):
        for name, value in self.state_dict().items():
            first, rest = name.split(".", 1)
            name = self.block + rest if first == "layer" else "%s.%s" % (self.names.get(first), rest)
            if name.startswith("None"):
                continue
            for part in expert_names(self.path + name, value):
                yield part

    def forward(self, body, ids, hidden):
        x = self.eh_proj(torch.cat([self.enorm(body.embed_tokens(ids)), self.hnorm(hidden)], -1))
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)
        if self.window:
            mask += torch.full((n, n), float("-inf")).tril(-self.window)
        positions = (torch.arange(n)[None], self.attention) if self.by_type else (torch.arange(n)[None],)
        x = self.layer(x, position_embeddings=body.rotary_emb(x, *positions), attention_mask=mask[None, None])
        out = self.norm(x)
        return out, out


class ExaoneMoeHead(OneLayerHead):
    norm_class = modeling_exaone_moe.ExaoneMoeRMSNorm
    layer_class = modeling_exaone_moe.ExaoneMoeDecoderLayer


class MellumHead(OneLayerHead):
    norm_class = modeling_mellum.MellumRMSNorm
    layer_class = modeling_mellum.MellumDecoderLayer
    attention, mlp = "sliding_attention", "sparse"


class MiMoHead(OneLayerHead):
    norm_class = modeling_mimo_v2_flash.MiMoV2FlashRMSNorm
    layer_class = modeling_mimo_v2_flash.MiMoV2FlashDecoderLayer
    attention, block, path = "sliding_attention", "", "model.mtp.layers.0."
    names = {"eh_proj": "eh_proj", "enorm": "enorm", "hnorm": "hnorm", "norm": "final_layernorm"}

    def tensors(self):
        for name, value in super().tensors():
            yield name.replace("post_attention_layernorm", "pre_mlp_layernorm").replace(
                "self_attn.sinks", "self_attn.attention_sink_bias"), value


class ErnieHead(OneLayerHead):
    """Its layer's output goes to the output matrix without a norm."""
    norm_class = modeling_ernie4_5_moe.Ernie4_5_MoeRMSNorm
    layer_class = modeling_ernie4_5_moe.Ernie4_5_MoeDecoderLayer
    block, path = "mtp_block.0.", "model."
    names = {"eh_proj": "mtp_linear_proj.0", "enorm": "mtp_emb_norm.0", "hnorm": "mtp_hidden_norm.0"}

    def __init__(self, config):
        super().__init__(config)
        self.norm = torch.nn.Identity()


class Qwen3MoeHead(OneLayerHead):
    norm_class = modeling_qwen3_moe.Qwen3MoeRMSNorm
    layer_class = modeling_qwen3_moe.Qwen3MoeDecoderLayer
    mlp = "sparse"


HEADS = {"qwen3_moe_head": Qwen3MoeHead, "exaone_moe_head": ExaoneMoeHead, "mellum_head": MellumHead, "mimo_head": MiMoHead, "ernie_head": ErnieHead,
         "deepseek_v32_head": DeepseekV32Head, "hy_v3": HYV3Head, "qwen3_next": Qwen3NextHead, "glm4_moe": Glm4MoeHead, "glm4_moe_lite": Glm4MoeLiteHead,
         "deepseek_v3": DeepseekV3Head}
N_STEPS = 3


class PairedAttention(torch.nn.Module):
    """Attention of a block to its context and to itself; neighbouring dims rotate together."""

    def __init__(self, config):
        super().__init__()
        self.n, self.n_kv, self.dim = (config[k] for k in (
            "num_attention_heads", "num_key_value_heads", "head_dim"))
        self.theta = config["rope_theta"]
        h, eps = config["hidden_size"], config["rms_norm_eps"]
        self.q_proj, self.k_proj, self.v_proj = (
            torch.nn.Linear(h, n * self.dim, bias=False) for n in (self.n, self.n_kv, self.n_kv))
        self.o_proj = torch.nn.Linear(self.n * self.dim, h, bias=False)
        self.q_norm, self.k_norm = (modeling_qwen3.Qwen3RMSNorm(self.dim, eps) for _ in range(2))

    def rotate(self, x, first):
        angle = (torch.arange(first, first + x.shape[0])[:, None].double() *
                 self.theta ** (-torch.arange(0, self.dim, 2) / self.dim)[None])
        turned = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(turned * torch.polar(torch.ones_like(angle), angle)[:, None]
                                  ).flatten(-2).float()

    def keys(self, x, first):
        k, v = (p(x).unflatten(-1, (self.n_kv, self.dim)) for p in (self.k_proj, self.v_proj))
        return self.rotate(self.k_norm(k), first), v

    def forward(self, context, x):
        n = context.shape[0]
        q = self.rotate(self.q_norm(self.q_proj(x).unflatten(-1, (self.n, self.dim))), n)
        (ck, cv), (bk, bv) = self.keys(context, 0), self.keys(x, n)
        k, v = torch.cat([ck, bk]), torch.cat([cv, bv])
        k, v = (a.repeat_interleave(self.n // self.n_kv, 1) for a in (k, v))
        weights = (torch.einsum("qhd,khd->hqk", q, k) * self.dim ** -0.5).softmax(-1)
        return self.o_proj(torch.einsum("hqk,khd->qhd", weights, v).flatten(1))


class PairedLayer(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            modeling_qwen3.Qwen3RMSNorm(config["hidden_size"], config["rms_norm_eps"])
            for _ in range(2))
        self.self_attn = PairedAttention(config)
        self.mlp = modeling_qwen3.Qwen3MLP(transformers.Qwen3Config(
            hidden_size=config["hidden_size"], intermediate_size=config["intermediate_size"]))

    def forward(self, context, x):
        x = x + self.self_attn(context, self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class MarkovHead(torch.nn.Module):
    def __init__(self, n_vocab, rank):
        super().__init__()
        self.markov_w1 = torch.nn.Embedding(n_vocab, rank)
        self.markov_w2 = torch.nn.Linear(rank, n_vocab, bias=False)

    def forward(self, token):
        return self.markov_w2(self.markov_w1(torch.tensor(token)))


class Lfm2DSpark(torch.nn.Module):
    """A DSpark draft as Liquid AI releases them: the wiring of vLLM's published model file."""
    CONFIG = {
        "architectures": ["Lfm2DSparkDraftModel"], "model_type": "qwen3", "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 40, "hidden_act": "silu", "rms_norm_eps": 1e-5, "vocab_size": N_VOCAB,
        "rope_theta": 100.0, "max_position_embeddings": 256, "block_size": 4,
        "layer_types": ["full_attention"] * 2, "markov_rank": 8, "markov_head_type": "vanilla",
        "rope_is_neox_style": False, "enable_confidence_head": True,
        "dflash_config": {"mask_token_id": 125, "target_layer_ids": [0, 2, 3],
                          "num_target_layers": 5}}

    def __init__(self):
        super().__init__()
        c = self.CONFIG
        h, self.taps = c["hidden_size"], c["dflash_config"]["target_layer_ids"]
        self.fc = torch.nn.Linear(len(self.taps) * h, h, bias=False)
        self.hidden_norm, self.norm = (
            modeling_qwen3.Qwen3RMSNorm(h, c["rms_norm_eps"]) for _ in range(2))
        self.layers = torch.nn.ModuleList(PairedLayer(c) for _ in range(c["num_hidden_layers"]))
        self.markov_head = MarkovHead(c["vocab_size"], c["markov_rank"])
        self.confidence_head = torch.nn.ModuleDict(
            {"proj": torch.nn.Linear(h + c["markov_rank"], 1)})

    def propose(self, model, ids):
        """Return the rows of the block after ids[-1], which the target has not processed, and the best id of each."""
        made = {}
        hooks = [model.model.layers[i].register_forward_hook(
            lambda _, args, out, i=i: made.__setitem__(i, out[0])) for i in self.taps]
        model.model(torch.tensor([ids[:-1]]), use_cache=False)
        for hook in hooks:
            hook.remove()
        context = self.hidden_norm(self.fc(torch.cat([made[i] for i in self.taps], -1)))
        c = self.CONFIG
        block = [ids[-1]] + [c["dflash_config"]["mask_token_id"]] * (c["block_size"] - 1)
        x = model.model.embed_tokens(torch.tensor(block))
        for layer in self.layers:
            x = layer(context, x)
        rows, draft_ids = model.lm_head(self.norm(x)), [ids[-1]]
        corrected = []
        for row in rows:
            corrected.append(row + self.markov_head(draft_ids[-1]))
            draft_ids.append(int(corrected[-1].argmax()))
        return torch.stack(corrected), draft_ids[1:]


def make_block_draft(model, path, seed):
    draft = Lfm2DSpark().float().eval()
    generator = torch.Generator().manual_seed(seed + 2)
    golden = {"ids": PROMPTS, "greedy": []}
    os.makedirs(path)
    with torch.no_grad():
        for key, p in draft.named_parameters():
            p.copy_(draw(key, p, generator).bfloat16().float())
        for k, prompt in enumerate(PROMPTS):
            rows, draft_ids = draft.propose(model, prompt)
            golden["greedy"].append(draft_ids)
            np.save(os.path.join(path, "draft_logits_%d.npy" % k), rows.numpy())
    write_golden(os.path.join(path, "golden_draft.json"), golden)
    write_golden(os.path.join(path, "config.json"), Lfm2DSpark.CONFIG)
    safetensors.torch.save_file(
        {key: value.bfloat16().contiguous() for key, value in draft.state_dict().items()},
        os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(path, "Modelfile"), "w") as f:
        f.write("FROM ..\nDRAFT .\n")


def make_muse_assistant(path):
    """Muse Glimmer's assistant, beside a checkpoint of its target: the classes and the wiring of transformers."""
    model = transformers.MuseGlimmerForConditionalGeneration.from_pretrained(
        os.path.dirname(path), dtype=torch.float32, attn_implementation="eager").eval()
    text, table = model.config.get_text_config(), model.get_input_embeddings().weight
    config = transformers.MuseGlimmerAssistantConfig(
        hidden_size=text.hidden_size, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, sliding_window=7, block_size=4, mask_token_id=text.vocab_size - 1,
        target_layer_ids=[0, 2], max_position_embeddings=text.max_position_embeddings, vocab_size=text.vocab_size)
    config._attn_implementation = "eager"
    draft = transformers.MuseGlimmerAssistantModel(config).float().eval()
    generator = torch.Generator().manual_seed(5)
    golden = {"ids": PROMPTS, "greedy": []}
    with torch.no_grad():
        for key, p in draft.named_parameters():
            p.copy_(draw(key, p, generator).bfloat16().float())
        copy.deepcopy(draft).bfloat16().save_pretrained(path)
        for k, ids in enumerate(PROMPTS):
            states = model(torch.tensor([ids[:-1]]), use_cache=False, output_hidden_states=True).hidden_states
            context = torch.cat([states[i + 1] for i in config.target_layer_ids], -1)
            noise = table[torch.tensor([ids[-1:] + [config.mask_token_id] * (config.block_size - 1)])]
            cache = transformers.cache_utils.DFlashCache(config=config)
            cache.activate_past_recording()
            cache.set_previous_accepted_tokens(context.shape[1])
            rows = model.lm_head(draft(noise, context, cache=cache).last_hidden_state[0, 1:])
            golden["greedy"].append(rows.argmax(-1).tolist())
            np.save(os.path.join(path, "draft_logits_%d.npy" % k), rows.numpy())
    write_golden(os.path.join(path, "golden_draft.json"), golden)
    with open(os.path.join(path, "Modelfile"), "w") as f:
        f.write("FROM ..\nDRAFT .\n")


def run_head(model, head, ids):
    """Run the head on ids and on its own draft tokens: return rows of logits, and the draft tokens."""
    with torch.no_grad():
        hidden = model.model(torch.tensor([ids[:-1]]), use_cache=False).last_hidden_state
        seen, rows, draft_ids = list(ids[1:]), [], []
        for _ in range(N_STEPS):
            fed_back, out = head(model.model, torch.tensor([seen]), hidden)
            rows.append(model.lm_head(out)[0, -1])
            draft_ids.append(int(rows[-1].argmax()))
            seen.append(draft_ids[-1])
            hidden = torch.cat([hidden, fed_back[:, -1:]], 1)
    return torch.stack(rows), draft_ids


def make_head(model, name, path, seed):
    head = HEADS[name](model.config).float().eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for key, p in head.named_parameters():
            p.copy_(draw(key, p, generator).bfloat16().float())
        for key, b in head.named_buffers():
            b.copy_((0.1 * torch.randn(b.shape, generator=generator)).bfloat16().float())
    head.tables = [t.weight.detach().clone() for t in (model.model.embed_tokens, model.lm_head)]
    golden = {"ids": PROMPTS, "greedy": []}
    for k, prompt in enumerate(PROMPTS):
        rows, draft_ids = run_head(model, head, prompt)
        golden["greedy"].append(draft_ids)
        np.save(os.path.join(path, "draft_logits_%d.npy" % k), rows.numpy())
    write_golden(os.path.join(path, "golden_draft.json"), golden)
    file = os.path.join(path, "model.safetensors")
    tensors = safetensors.torch.load_file(file)
    tensors.update((key, value.bfloat16()) for key, value in head.tensors())
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    with open(os.path.join(path, "Modelfile"), "w") as f:
        f.write("FROM .\n")


def write_golden(path, golden):
    with open(path, "w") as f:
        json.dump(golden, f)
        f.write("\n")


def make(folder, name, seed):
    model = make_model(name, seed)
    path = os.path.join(folder, name)
    shutil.rmtree(path, ignore_errors=True)
    golden = {"transformers": transformers.__version__, "prompts": PROMPTS,
              "greedy": [{"ids": greedy(model, p)} for p in PROMPTS]}
    logits = [run(model, p).numpy() for p in PROMPTS]
    copy.deepcopy(model).bfloat16().save_pretrained(path)
    generation = os.path.join(path, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    for k, values in enumerate(logits):
        np.save(os.path.join(path, "logits_%d.npy" % k), values.astype(np.float32))
    write_golden(os.path.join(path, "golden.json"), golden)
    if name in HEADS:
        make_head(model, name, path, seed)
    if name == "lfm2":
        make_block_draft(model, os.path.join(path, "dspark"), seed)
    size = os.path.getsize(os.path.join(path, "model.safetensors"))
    print(name, size, "largest logit %.2f" % max(abs(v).max() for v in logits))


def main():
    names = sys.argv[2:] or FAMILIES
    for name in names:
        if name == "muse_glimmer/assistant":
            make_muse_assistant(os.path.join(sys.argv[1], name))
            continue
        make(sys.argv[1], name, seed=zlib.crc32(name.encode()))


if __name__ == "__main__":
    main()
