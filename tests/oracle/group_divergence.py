#!/usr/bin/env python3
"""Write the expected values of test_group_divergence: python3 group_divergence.py FOLDER SPECTOOL

The matrices of one group of testdata/tiny/target are rounded by `spectool quantize --rule`, and the model is exported
with their rounded weights. transformers computes the logits of both checkpoints in double precision for the windows of
a text of 600 ids, and numpy the mean KL divergence of the scored tokens:

  group_divergence.txt  kind (enum sp_group_kind), layer + 1, type (enum sp_dtype), KL (f64 bits); all in hex

Of the KV caches, the keys, the values and the queries of one layer are rounded as runtime/vector/vector.h defines it:

  cache_divergence.txt  layer, type (enum sp_cache_type), KL (f64 bits); all in hex

Needs torch, transformers, numpy."""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3 import modeling_qwen3

TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata/tiny")
N_IDS, WINDOW, N_WINDOWS = 600, 128, 4
IDS = [(i * i * 7 + 13 * i) % 1500 for i in range(N_IDS)]
TYPES = {"q2": 7, "q3": 8}
# kind, layer, type, patterns
CASES = [
    (0, -1, "q3", ["embed_tokens.weight"]),
    (1, 0, "q2", ["layers.0.self_attn.q_proj.weight", "layers.0.self_attn.o_proj.weight"]),
    (3, 2, "q3", ["layers.2.mlp.gate_proj.weight", "layers.2.mlp.up_proj.weight"]),
    (2, 3, "q2", ["layers.3.self_attn.k_proj.weight", "layers.3.self_attn.v_proj.weight"]),
    (4, 5, "q2", ["layers.5.mlp.down_proj.weight"]),
]


def windows():
    for k in range(N_WINDOWS):
        first = (2 * k + 1) * N_IDS // (2 * N_WINDOWS) - WINDOW // 2
        yield IDS[min(first, N_IDS - WINDOW):][:WINDOW]


# layer, type
CACHE_CASES = [(0, 2), (0, 3), (0, 4), (2, 4), (5, 3), (5, 4)]


def rounded(x, most, group):
    """x in groups, each with a scale by its largest number; most: the largest code."""
    y = x.reshape(*x.shape[:-1], -1, group)
    scale = y.abs().amax(-1, keepdim=True).clamp_min(1e-30) / most
    return ((y / scale).round() * scale).reshape(x.shape)


def rotated(x):
    """x in groups of 32, each multiplied by the orthogonal Hadamard matrix, which is its own inverse."""
    h = torch.ones(1, 1, dtype=x.dtype)
    while h.shape[0] < 32:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return (x.reshape(*x.shape[:-1], -1, 32) @ h / 32 ** 0.5).reshape(x.shape)


class RoundedCache(DynamicCache):
    def __init__(self, layer, type):
        super().__init__()
        self.rounded_layer, self.rounded_type = layer, type

    def update(self, keys, values, layer, *args, **kwargs):
        if layer == self.rounded_layer:
            keys = rotated(rounded(rotated(keys), 7 if self.rounded_type == 4 else 127, 32))
            width = values.shape[-1]
            if self.rounded_type == 2:
                values = rounded(values, 127, width)
            else:
                values = rotated(rounded(rotated(values), 7, width))
        return super().update(keys, values, layer, *args, **kwargs)


def cache_log_probs(model, layer, type):
    plain = modeling_qwen3.eager_attention_forward

    def attend(module, query, *args, **kwargs):
        if module.layer_idx == layer:
            query = rotated(rounded(rotated(query), 127, 32))
        return plain(module, query, *args, **kwargs)

    rows = []
    modeling_qwen3.eager_attention_forward = attend
    with torch.no_grad():
        for ids in windows():
            cache = RoundedCache(layer, type)
            logits = model(torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0, WINDOW // 4:]
            rows.append(torch.log_softmax(logits.double(), -1).numpy())
    modeling_qwen3.eager_attention_forward = plain
    return np.concatenate(rows)


def write_caches(path, before):
    model = AutoModelForCausalLM.from_pretrained(os.path.join(TINY, "target"), dtype=torch.float64,
                                                 attn_implementation="eager")
    with open(path, "w") as f:
        for layer, type in CACHE_CASES:
            kl = (np.exp(before) * (before - cache_log_probs(model, layer, type))).sum(-1).mean()
            f.write("%x %x %016x\n" % (layer, type, struct.unpack("<Q", struct.pack("<d", kl))[0]))
            print(layer, type, kl)


def log_probs(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    rows = []
    with torch.no_grad():
        for ids in windows():
            logits = model(torch.tensor([ids])).logits[0, WINDOW // 4:]
            rows.append(torch.log_softmax(logits.double(), -1).numpy())
    return np.concatenate(rows)


def main():
    out, spectool = map(os.path.abspath, sys.argv[1:3])
    before = log_probs(os.path.join(TINY, "target"))
    write_caches(os.path.join(out, "cache_divergence.txt"), before)
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *a: subprocess.run([spectool, *a], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        with open(os.path.join(folder, "Modelfile"), "w") as f:
            f.write("FROM %s\n" % os.path.join(os.path.abspath(TINY), "target"))
        run("create", "-o", "target.bin")
        with open(os.path.join(out, "group_divergence.txt"), "w") as f:
            for i, (kind, layer, dtype, patterns) in enumerate(CASES):
                rules = [a for p in patterns for a in ("--rule", "%s=%s" % (p, dtype))]
                run("quantize", *rules, "target.bin", "rounded%d.bin" % i)
                run("export", "--type", "f32", "rounded%d.bin" % i, "rounded%d" % i)
                after = log_probs(os.path.join(folder, "rounded%d" % i, "target"))
                kl = (np.exp(before) * (before - after)).sum(-1).mean()
                f.write("%x %x %x %016x\n" % (kind, layer + 1, TYPES[dtype],
                                              struct.unpack("<Q", struct.pack("<d", kl))[0]))
                print(kind, layer, dtype, kl)


main()
