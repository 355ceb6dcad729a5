#!/usr/bin/env python3
"""Make testdata/adapters: python3 adapters.py FAMILIES FOLDER MLX_LM [NAME...], FAMILIES being
testdata/families and MLX_LM a wheel of mlx-lm, unpacked.

Small random adapters as the PEFT library writes them for the tiny models in FAMILIES, and the logits
of the model with the adapter applied separately, not merged into the weights, in float32. Those
named mlx_* have mlx-lm's format, and their logits are computed with weights that mlx-lm's own layers
merged. NAME/adapter_config.json and the tensors; logits.npy, float32 [tokens,
vocabulary]; base.txt, the model's folder.

phi3 has its own model in phi3/base, whose checkpoint has fused projections. The adapters tiny_* of
testdata/tiny, whose model has a tokenizer and a draft, have no logits. Needs torch,
transformers, peft and mlx."""
import json
import os
import shutil
import sys
import types

import numpy as np
import safetensors.torch
import torch
import transformers
from peft import LoraConfig, get_peft_model

PROMPT = [7, 99, 3, 58, 121, 76, 20, 33, 91, 110, 2, 45, 45, 17, 64, 80, 5, 28, 101, 9]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# By folder: the model, and the options of its adapter.
ADAPTERS = {
    "patterns": ("granite", dict(
        r=4, lora_alpha=8, target_modules=ALL,
        rank_pattern={"q_proj": 2, r"layers\.[01]\.mlp\.up_proj": 6},
        alpha_pattern={"v_proj": 3, "^model.layers.2.self_attn.o_proj": 20})),
    "rslora_biases": ("seed_oss_biases", dict(
        r=4, lora_alpha=6, use_rslora=True, lora_bias=True, bias="none",
        target_modules=["o_proj", "up_proj", "down_proj"])),
    "rslora": ("seed_oss", dict(
        r=4, lora_alpha=6, use_rslora=True, target_modules=["k_proj", "o_proj", "down_proj"])),
    "tiny_attention": ("../tiny/target", dict(
        r=2, lora_alpha=8, target_modules=["q_proj", "o_proj"])),
    "tiny_mlp": ("../tiny/target", dict(r=3, lora_alpha=12, target_modules=["down_proj"])),
    "dora": ("seed_oss", dict(
        r=4, lora_alpha=8, use_dora=True, target_modules=["q_proj", "v_proj", "down_proj"])),
    "tables": ("granite", dict(
        r=3, lora_alpha=5, bias="all", target_modules=["q_proj", "embed_tokens"],
        modules_to_save=["lm_head"])),
    "tied_embedding": ("ernie4_5", dict(r=3, lora_alpha=5, target_modules=["embed_tokens"])),
    "tied_head": ("ernie4_5", dict(r=3, lora_alpha=5, target_modules=["lm_head", "v_proj"])),
    "phi3": ("phi3", dict(
        r=4, lora_alpha=8, target_modules=["qkv_proj", "o_proj", "gate_up_proj"])),
}

PHI3 = dict(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            original_max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            tie_word_embeddings=False)

# By folder: the model, fine_tune_type, rank, scale, and the modules of every layer (or a table's).
MLX = {
    "mlx_lora": ("seed_oss_biases", "lora", 4, 3.0, ["self_attn.q_proj", "mlp.down_proj"]),
    "mlx_dora": ("seed_oss", "dora", 4, 2.5, ["self_attn.v_proj", "mlp.up_proj"]),
    "mlx_tied": ("ernie4_5", "lora", 3, 4.0, ["self_attn.o_proj", "embed_tokens"]),
    "mlx_experts": ("olmoe", None, 2, 5.0, None),
}


def make_phi3(folder):
    torch.manual_seed(11)
    model = transformers.Phi3ForCausalLM(transformers.Phi3Config(**PHI3))
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_((torch.rand_like(p) * 0.6 + 0.7 if "norm" in name
                     else torch.randn_like(p) * 0.25).to(torch.bfloat16))
    model.to(torch.bfloat16).save_pretrained(folder)


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def save_logits(model, path):
    with torch.no_grad():
        np.save(path, model(torch.tensor([PROMPT])).logits[0].float().numpy())


def land_on_bf16(module):
    """Round merged biases to bf16, the type in which they are stored."""
    bias, scale = module.base_layer.bias, module.scaling["default"]
    added = module.lora_B["default"].bias
    added.copy_(((bias + scale * added).to(torch.bfloat16).float() - bias) / scale)


def make_peft(base, out, options, seed):
    torch.manual_seed(seed)
    model = get_peft_model(load(base), LoraConfig(**options)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_magnitude" in name:
                p.mul_(torch.rand_like(p) * 0.5 + 0.75)
            elif p.requires_grad:
                p.copy_((p + torch.randn_like(p) * 0.1).to(torch.bfloat16))
        for module in model.modules():
            if options.get("lora_bias") and hasattr(module, "lora_B"):
                land_on_bf16(module)
    model.save_pretrained(out)
    config = os.path.join(out, "adapter_config.json")
    with open(config) as f:
        text = json.load(f)
    text["base_model_name_or_path"] = os.path.basename(base)
    text["target_modules"] = sorted(text["target_modules"])
    with open(config, "w") as f:
        json.dump(text, f, indent=1, sort_keys=True)
    os.remove(os.path.join(out, "README.md"))
    if "tiny" not in base:
        save_logits(model, os.path.join(out, "logits.npy"))


def mlx_layers(wheel_path):
    """Load LoRALinear and other layers from the sources of mlx-lm, without the rest of the package."""
    import importlib.util

    def load_file(name, path):
        spec = importlib.util.spec_from_file_location(name, os.path.join(wheel_path, path))
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    for package in ("mlx_lm", "mlx_lm.models", "mlx_lm.tuner"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = []
    for module in ("activations", "switch_layers"):
        load_file("mlx_lm.models." + module, "mlx_lm/models/" + module + ".py")
    return (load_file("mlx_lm.tuner.lora", "mlx_lm/tuner/lora.py"),
            load_file("mlx_lm.tuner.dora", "mlx_lm/tuner/dora.py"))


def write_mlx(out, tensors, kind, rank, scale):
    os.makedirs(out)
    safetensors.torch.save_file(tensors, os.path.join(out, "adapters.safetensors"))
    with open(os.path.join(out, "adapter_config.json"), "w") as f:
        json.dump({"fine_tune_type": kind, "num_layers": -1, "iters": 100, "model": "base",
                   "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0}}, f, indent=1)


def make_mlx(base, out, kind, rank, scale, names, seed, wheel):
    import mlx.core as mx
    import mlx.nn as nn
    lora, dora = mlx_layers(wheel)
    rng = np.random.default_rng(seed)
    model = load(base)
    modules = dict(model.named_modules())
    tensors = {}
    wanted = [n for n in modules if any(n.endswith(x) for x in names)]
    for name in wanted:
        module = modules[name]
        weight = module.weight.detach().numpy()
        if isinstance(module, torch.nn.Embedding):
            inner = nn.Embedding(*weight.shape)
            wrapper = lora.LoRAEmbedding
        else:
            inner = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            wrapper = dora.DoRALinear if kind == "dora" else lora.LoRALinear
        inner.weight = mx.array(weight)
        layer = wrapper.from_base(inner, r=rank, scale=scale)
        layer.lora_a = mx.array(rng.normal(0, 0.1, layer.lora_a.shape).astype(np.float32))
        layer.lora_b = mx.array(rng.normal(0, 0.1, layer.lora_b.shape).astype(np.float32))
        tensors[name + ".lora_a"] = torch.tensor(np.array(layer.lora_a))
        tensors[name + ".lora_b"] = torch.tensor(np.array(layer.lora_b))
        if kind == "dora":
            layer.m = layer.m * mx.array(rng.uniform(0.75, 1.25, layer.m.shape).astype(np.float32))
            tensors[name + ".m"] = torch.tensor(np.array(layer.m))
        with torch.no_grad():
            module.weight.copy_(torch.tensor(np.array(layer.fuse().weight)))
    write_mlx(out, tensors, kind, rank, scale)
    save_logits(model, os.path.join(out, "logits.npy"))


def make_mlx_experts(base, out, rank, scale, seed, wheel):
    """Make an adapter for OLMoE, whose checkpoint stores experts separately: merge it and load the result."""
    import mlx.core as mx
    lora, _ = mlx_layers(wheel)
    switch = sys.modules["mlx_lm.models.switch_layers"]
    rng = np.random.default_rng(seed)
    weights = safetensors.torch.load_file(os.path.join(base, "model.safetensors"))
    weights = {k: v.float() for k, v in weights.items()}
    tensors = {}
    for layer in range(sum("input_layernorm" in k for k in weights)):
        for proj in ("gate_proj", "up_proj", "down_proj"):
            names = [f"model.layers.{layer}.mlp.experts.{e}.{proj}.weight" for e in range(1000)]
            names = [n for n in names if n in weights]
            stacked = np.stack([weights[n].numpy() for n in names])
            inner = switch.SwitchLinear(stacked.shape[2], stacked.shape[1], len(names), bias=False)
            inner.weight = mx.array(stacked)
            module = lora.LoRASwitchLinear.from_base(inner, r=rank, scale=scale)
            module.lora_a = mx.array(rng.normal(0, 0.1, module.lora_a.shape).astype(np.float32))
            module.lora_b = mx.array(rng.normal(0, 0.1, module.lora_b.shape).astype(np.float32))
            name = f"model.layers.{layer}.mlp.switch_mlp.{proj}"
            tensors[name + ".lora_a"] = torch.tensor(np.array(module.lora_a))
            tensors[name + ".lora_b"] = torch.tensor(np.array(module.lora_b))
            for n, w in zip(names, np.array(module.fuse().weight)):
                weights[n] = torch.tensor(w)
    write_mlx(out, tensors, "lora", rank, scale)
    merged = os.path.join(out, "merged")
    os.makedirs(merged)
    shutil.copy(os.path.join(base, "config.json"), merged)
    safetensors.torch.save_file(weights, os.path.join(merged, "model.safetensors"),
                                metadata={"format": "pt"})
    save_logits(load(merged), os.path.join(out, "logits.npy"))
    shutil.rmtree(merged)


def main():
    families, folder, wheel = sys.argv[1], sys.argv[2], sys.argv[3]
    # The seed is the place in the order in which the adapters were added.
    last = ["rslora", "tiny_attention", "tiny_mlp"]
    first = [name for name in ADAPTERS if name not in last]
    for i, name in enumerate([*first, *MLX, *last]):
        if sys.argv[4:] and name not in sys.argv[4:]:
            continue
        out = os.path.join(folder, name)
        shutil.rmtree(out, ignore_errors=True)
        base = (ADAPTERS.get(name) or MLX[name])[0]
        path = os.path.join(families, base)
        if base == "phi3":
            path = os.path.join(out, "base")
            os.makedirs(path)
            make_phi3(path)
        if name in ADAPTERS:
            make_peft(path, out, ADAPTERS[name][1], 100 + i)
        elif name == "mlx_experts":
            make_mlx_experts(path, out, *MLX[name][2:4], 100 + i, wheel)
        else:
            make_mlx(path, out, *MLX[name][1:], 100 + i, wheel)
        for root, _, files in os.walk(out):
            for file in files:
                os.chmod(os.path.join(root, file), 0o644)
        with open(os.path.join(out, "base.txt"), "w") as f:
            f.write(("adapters/phi3/base" if base == "phi3" else "families/" + base) + "\n")


main()
