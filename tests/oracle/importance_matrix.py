#!/usr/bin/env python3
"""Write an importance matrix of a Llama checkpoint: importance_matrix.py FOLDER IDS OUT

NumPy runs the checkpoint FOLDER over the token IDs in the file IDS (spectool tokenize), in windows of 512, and OUT gets
the sums of squares of the inputs of each matrix as llama-imatrix writes them, in GGUF. For tests/bench/RESULTS.md: what
such a file is worth beside spectool calibrate."""
import json
import os
import re
import struct
import sys

import numpy as np

WINDOW = 512


def tensors(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(size)), f.read()
    for name, t in head.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        if t["dtype"] == "BF16":
            x = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(data[begin:end], {"F32": "<f4", "F16": "<f2"}[t["dtype"]]).astype(np.float32)
        yield name.removeprefix("model."), x.reshape(t["shape"])


def norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight


def rotate(x, theta):
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None].astype(np.float32), np.sin(angle)[:, None].astype(np.float32)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v):
    n, repeat = len(q), q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
    q, k, v = (x.transpose(1, 0, 2) for x in (q, k, v))
    s = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(q.shape[-1]))
    s = np.exp(np.where(np.tri(n, dtype=bool), s - s.max(-1, keepdims=True), -np.inf))
    return (s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)


def run(c, w, ids, sums):
    def see(layer, names, x):
        for name in names:
            key = f"blk.{layer}.{name}.weight"
            sums[key] = sums.get(key, 0) + np.sum(np.square(x, dtype=np.float64), 0)

    heads, kv, eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    x = w["embed_tokens.weight"][ids]
    for i in range(c["num_hidden_layers"]):
        p = f"layers.{i}."
        h = norm(x, w[p + "input_layernorm.weight"], eps)
        see(i, ["attn_q", "attn_k", "attn_v"], h)
        q, k, v = (h @ w[p + f"self_attn.{m}_proj.weight"].T for m in "qkv")
        theta = c["rope_theta"]
        o = attend(rotate(q.reshape(len(ids), heads, -1), theta), rotate(k.reshape(len(ids), kv, -1), theta),
                   v.reshape(len(ids), kv, -1))
        see(i, ["attn_output"], o)
        x = x + o @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, w[p + "post_attention_layernorm.weight"], eps)
        see(i, ["ffn_gate", "ffn_up"], h)
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        h = gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj.weight"].T)
        see(i, ["ffn_down"], h)
        x = x + h @ w[p + "mlp.down_proj.weight"].T
    h = norm(x, w["norm.weight"], eps)
    sums["output.weight"] = sums.get("output.weight", 0) + np.sum(np.square(h, dtype=np.float64), 0)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write(path, sums, count):
    parts = []
    for name in sorted(sums):
        parts += [(name + ".in_sum2", np.asarray(sums[name], "<f4")), (name + ".counts", np.asarray([count], "<f4"))]
    head = text("general.type") + struct.pack("<I", 8) + text("imatrix")
    at = 0
    for name, x in parts:
        head += text(name) + struct.pack("<IQQIQ", 2, len(x), 1, 0, at)
        at += -(-x.nbytes // 32) * 32
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(parts), 1) + head)
        for _, x in parts:
            f.write(b"\0" * (-f.tell() % 32) + x.tobytes())


def main():
    folder, ids_path, out = sys.argv[1:]
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    w = dict(tensors(os.path.join(folder, "model.safetensors")))
    with open(ids_path) as f:
        ids = [int(t) for t in re.findall(r"\d+", f.read())]
    sums = {}
    for first in range(0, len(ids), WINDOW):
        run(c, w, ids[first:first + WINDOW], sums)
    write(out, sums, len(ids))


main()
