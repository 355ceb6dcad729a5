#!/usr/bin/env python3
"""Print the defaults of transformers' configuration classes for members that a config.json omits:
python3 class_defaults.py >testdata/config/class_defaults.txt

One family per line: model_type; vocabulary, hidden and intermediate size, layers, heads, key/value heads,
head size, positions; epsilon of the norms; theta; tied embeddings. Made with transformers 5.23, the
last ones with 5.24."""
import transformers

FAMILIES = ["apertus", "arcee", "cwm", "gemma", "granite_swa", "hyperclovax", "internlm3",
            "iquestcoder", "jais2", "lfm3", "nanochat", "nemotron", "olmo", "phi", "stablelm", "afmoe",
            "dots1", "exaone_moe", "granitemoe_swa", "granitemoeshared", "hunyuan_v1_moe",
            "mellum", "qwen2_moe", "modernbert", "eurobert",
            "cohere2_moe", "nomic_bert",
            # with transformers 5.24
            "apertus1p5_text", "cohere_compass_text", "exaone", "flex_olmo", "kolibri1", "laguna", "lara_mini",
            "muse_glimmer_text", "olmo_hybrid",
            "glm4v_text", "hy_v3", "minimax_m2", "phi4_multimodal", "qwen2_5_vl_text",
            "qwen2_vl_text", "qwen3_vl_moe_text", "qwen3_vl_text", "sarvam_moe", "vaultgemma"]
EPSILONS = ["rms_norm_eps", "layer_norm_eps", "norm_eps"]


def line(family):
    c = transformers.AutoConfig.for_model(family)
    rope = c.rope_parameters or {"rope_theta": 1e4}
    rope = rope.get("full_attention", rope)
    heads = c.num_attention_heads
    eps = next((getattr(c, key) for key in EPSILONS if getattr(c, key, None)), 1e-5) # OLMo 1 has a fixed epsilon
    return [family, c.vocab_size, c.hidden_size, getattr(c, "intermediate_size", None) or c.moe_intermediate_size, c.num_hidden_layers, heads,
            getattr(c, "num_key_value_heads", None) or heads, getattr(c, "head_dim", None) or c.hidden_size // heads,
            c.max_position_embeddings, eps, rope["rope_theta"], int(getattr(c, "tie_word_embeddings", False))]


for name in FAMILIES:
    print(*line(name))
