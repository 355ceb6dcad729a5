#!/usr/bin/env python3
"""Make the LoRA adapters in GGUF of testdata/adapters: python3 gguf_adapters.py FAMILIES FOLDER [NAME...]

    python3 tests/oracle/gguf_adapters.py testdata/families testdata/adapters

Small random adapters as llama.cpp's convert_lora_to_gguf.py writes them for the tiny models in FAMILIES: names by the
gguf package's own map, rows of q and k permuted where that converter permutes them, the embedding's first factor
transposed. NAME/adapter.gguf; logits.npy, float32 [tokens, vocabulary], of the model with W + scale B A computed in
double precision; base.txt, the model's folder. Needs gguf, torch and transformers."""
import os
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize, quantize

PROMPT = [7, 99, 3, 58, 121, 76, 20, 33, 91, 110, 2, 45, 45, 17, 64, 80, 5, 28, 101, 9]
ALL = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
       "mlp.down_proj"]
F32, F16, BF16, Q8_0 = (getattr(gguf.GGMLQuantizationType, n) for n in ("F32", "F16", "BF16", "Q8_0"))

# By folder: the model, its architecture in GGUF, alpha, rank, the type of the factors, modules of every layer, other
# modules, and norms that are replaced.
ADAPTERS = {
    "gguf": ("families/granite", "granite", 6, 4, F32, ALL, ["model.embed_tokens", "lm_head"],
             ["model.norm", "model.layers.1.input_layernorm"]),
    "gguf_q8_0": ("adapters/phi3/base", "phi3", 0, 32, Q8_0,
                  ["self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj"], [], []),
    "gguf_shift": ("families/gemma", "gemma", 2.5, 2, BF16, ["self_attn.q_proj", "mlp.down_proj"], [],
                   ["model.layers.0.post_attention_layernorm"]),
}
# Packed files keep in_proj_a and in_proj_b in bfloat16, which rounds what is merged into them.
ADAPTERS["gguf_delta"] = ("families/qwen3_5_bias", "qwen35", 6, 4, F32,
                          ["linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj",
                           "self_attn.q_proj", "mlp.up_proj"], [], [])
PERMUTED = {"llama", "granite", "smollm3"}
SHIFTED = {"gemma"}


def permute(rows, n_head):
    """LlamaModel.permute of llama.cpp's converter."""
    return rows.reshape(n_head, 2, rows.shape[0] // n_head // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def tile(config, proj):
    """The order of value heads that Qwen3.5's converter makes; the axis of the weight."""
    keys, n = config.linear_num_key_heads, config.linear_num_value_heads
    size = config.linear_value_head_dim
    order = np.arange(n * size).reshape(keys, n // keys, size).swapaxes(0, 1).reshape(-1)
    first = 2 * keys * config.linear_key_head_dim if proj == "in_proj_qkv" else 0
    return np.concatenate([np.arange(first), first + order]), proj == "out_proj"


def make(testdata, out, random, base, arch, alpha, rank, kind, layer_modules, modules, norms):
    path = os.path.join(testdata, base)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32,
                                                             attn_implementation="eager").eval()
    config = model.config
    number = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    weights = dict(model.named_parameters(remove_duplicate=False))
    writer = gguf.GGUFWriter(os.path.join(out, "adapter.gguf"), arch)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(alpha))
    scale = alpha / rank if alpha else 1.0

    def put(name, numbers):
        """Writes a factor and returns its numbers as they are read."""
        kind_here = kind if kind != Q8_0 or numbers.shape[-1] % 32 == 0 else F16
        data = quantize(np.ascontiguousarray(numbers), kind_here)
        raw = kind_here not in (F32, F16)
        writer.add_tensor(name, data, raw_dtype=kind_here if raw else None)
        return dequantize(data, kind_here).reshape(numbers.shape).astype(np.float64)

    every = [f"model.layers.{i}.{m}" for i in range(config.num_hidden_layers) for m in layer_modules] + modules
    for module in every:
        if module + ".weight" not in weights: # of another kind of layer
            continue
        weight = weights[module + ".weight"]
        rows, cols = weight.shape
        name = names.get_name(module) + ".weight"
        a = random.normal(0, 0.15, (rank, cols)).astype(np.float32)
        b = random.normal(0, 0.15, (rows, rank)).astype(np.float32)
        proj = module.rsplit(".", 1)[-1]
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(proj)
        if module == "model.embed_tokens":  # lora_embedding_A is [rank, rows], and stored transposed
            left, right = put(name + ".lora_a", b), put(name + ".lora_b", a.T).T
        elif "linear_attn" in module:
            order, by_cols = tile(config, proj)
            right = put(name + ".lora_a", a[:, order] if by_cols else a)
            left = put(name + ".lora_b", b if by_cols else b[order])
            back = np.argsort(order)
            right, left = (right[:, back], left) if by_cols else (right, left[back])
        elif arch in PERMUTED and heads:
            right, left = put(name + ".lora_a", a), put(name + ".lora_b", permute(b, heads))
            order = np.argsort(permute(np.arange(rows), heads))
            left = left[order]
        else:
            right, left = put(name + ".lora_a", a), put(name + ".lora_b", b)
        with torch.no_grad():
            weight.copy_(torch.tensor(weight.double().numpy() + scale * (left @ right)))
    for module in norms:
        weight = weights[module + ".weight"]
        new = random.integers(64, 192, weight.shape).astype(np.float32) / 128 - (arch in SHIFTED)  # exact in bf16
        writer.add_tensor(names.get_name(module) + ".weight", new + (arch in SHIFTED))
        with torch.no_grad():
            weight.copy_(torch.tensor(new))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with torch.no_grad():
        np.save(os.path.join(out, "logits.npy"), model(torch.tensor([PROMPT])).logits[0].float().numpy())
    with open(os.path.join(out, "base.txt"), "w") as f:
        f.write(base + "\n")


def main():
    families, folder = sys.argv[1], sys.argv[2]
    for i, (name, options) in enumerate(ADAPTERS.items()):
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        out = os.path.join(folder, name)
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        make(os.path.dirname(os.path.normpath(families)), out, np.random.default_rng(200 + i), *options)


main()
