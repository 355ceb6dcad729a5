#!/usr/bin/env python3
"""Write the expected values of the reference decoder: python3 reference_logits.py SPECTOOL > reference_logits.txt

The forward pass of testdata/tiny/ar, in numpy's float64, with weights that `spectool export` decodes (test_codec has
them from other sources). One line for each type of weights: every hundredth logit (f32 bits) after the ids 582, 580,
258, with activations as they are, then the same with activations rounded to 8 bits (quantize/kernels/kernels.h).

Needs numpy."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata/tiny/ar")


def read_safetensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + x for x in t["data_offsets"])
        if t["dtype"] == "BF16":
            x = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data[begin:end], {"F32": "<f4", "F16": "<f2"}[t["dtype"]])
        out[name] = x.reshape(t["shape"]).astype(np.float64)
    return out


def rounded(x):
    blocks = x.astype(np.float32).reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    scaled = blocks * (np.float32(127) / largest)
    codes = np.rint(scaled)
    margins.append(0.5 - np.abs(scaled - codes).max())
    return (codes.astype(np.float64) * (largest / np.float32(127))).reshape(x.shape)


def logits(ids, w, config, act):
    dim, heads, kv = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
    layer = "model.layers.0."
    norm = lambda x, name: x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * w[name]
    product = lambda x, name: act(x) @ w[name].T

    def rotate(x):
        angle = np.arange(len(ids))[:, None] * config["rope_theta"] ** -(np.arange(dim // 2) * 2 / dim)
        a, b, c, s = x[..., :dim // 2], x[..., dim // 2:], np.cos(angle)[:, None], np.sin(angle)[:, None]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    x = w["model.embed_tokens.weight"][ids]
    h = norm(x, layer + "input_layernorm.weight")
    q, k, v = (product(h, layer + f"self_attn.{n}_proj.weight").reshape(len(ids), -1, dim) for n in "qkv")
    q = rotate(norm(q, layer + "self_attn.q_norm.weight"))
    k = np.repeat(rotate(norm(k, layer + "self_attn.k_norm.weight")), heads // kv, 1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(dim) + np.triu(np.full((len(ids),) * 2, -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    out = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), np.repeat(v, heads // kv, 1))
    x = x + product(out.reshape(len(ids), -1), layer + "self_attn.o_proj.weight")
    h = norm(x, layer + "post_attention_layernorm.weight")
    gate, up = product(h, layer + "mlp.gate_proj.weight"), product(h, layer + "mlp.up_proj.weight")
    x = x + product(gate / (1 + np.exp(-gate)) * up, layer + "mlp.down_proj.weight")
    return product(norm(x, "model.norm.weight"), "model.embed_tokens.weight")[-1]


config = json.load(open(TINY + "/config.json"))
for dtype in ("q8", "q6", "q5", "q4", "q3", "q2"):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "create", TINY, "-q", dtype, "-o", folder + "/p.bin"],
                       check=True, capture_output=True)
        subprocess.run([sys.argv[1], "export", "--type", "f32", folder + "/p.bin", folder + "/e"], check=True, capture_output=True)
        found = [os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs if f.endswith(".safetensors")]
        w = read_safetensors(found[0])
    best = 0
    for first in range(0, 1500, 5):
        margins = []
        candidate = [logits([first, first + 3], w, config, act)[::100] for act in (lambda x: x, rounded)]
        if min(margins) > best:
            best, ids, rows = min(margins), "%x %x" % (first, first + 3), candidate
    print(ids, *("%08x" % struct.unpack("<I", struct.pack("<f", y)) for row in rows for y in row))
    print(dtype, "margin", best, "of a code", file=sys.stderr)
