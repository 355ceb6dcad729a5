#!/usr/bin/env python3
"""What transformers' configuration classes say where a config.json says nothing:
python3 class_defaults.py >testdata/config/class_defaults.txt

A family a line: model_type; vocabulary, hidden and intermediate size, layers, heads, heads of keys,
size of a head, positions; epsilon of the norms; theta; tied or not. Made with transformers 5.23."""
import transformers

FAMILIES = ["apertus", "arcee", "cwm", "gemma", "granite_swa", "hyperclovax", "internlm3",
            "iquestcoder", "jais2", "lfm3", "nanochat", "nemotron", "olmo", "phi", "stablelm", "afmoe",
            "dots1", "exaone_moe", "granitemoe_swa", "granitemoeshared", "hunyuan_v1_moe",
            "mellum", "qwen2_moe"]
EPSILONS = ["rms_norm_eps", "layer_norm_eps", "norm_eps"]


def line(family):
    c = transformers.AutoConfig.for_model(family)
    rope = c.rope_parameters
    rope = rope.get("full_attention", rope)
    heads = c.num_attention_heads
    eps = next((getattr(c, key) for key in EPSILONS if hasattr(c, key)), 1e-5) # OLMo 1's is fixed
    return [family, c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers, heads,
            c.num_key_value_heads or heads, getattr(c, "head_dim", None) or c.hidden_size // heads,
            c.max_position_embeddings, eps, rope["rope_theta"], int(c.tie_word_embeddings)]


for name in FAMILIES:
    print(*line(name))
