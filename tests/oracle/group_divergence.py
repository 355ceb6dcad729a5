#!/usr/bin/env python3
"""Write the expected values of test_group_divergence: python3 group_divergence.py FOLDER SPECTOOL

The matrices of one group of testdata/tiny/target are rounded by `spectool quantize --rule`, and the model is exported
with their rounded weights. transformers computes the logits of both checkpoints in double precision for the windows of
a text of 600 ids, and numpy the mean KL divergence of the scored tokens:

  group_divergence.txt  kind (enum sp_group_kind), layer + 1, type (enum sp_dtype), KL (f64 bits); all in hex

Needs torch, transformers, numpy."""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata/tiny")
N_IDS, WINDOW, N_WINDOWS = 600, 128, 4
IDS = [(i * i * 7 + 13 * i) % 1500 for i in range(N_IDS)]
TYPES = {"q2": 7, "q3": 8}
# kind, layer, type, patterns
CASES = [
    (0, -1, "q3", ["embed_tokens.weight"]),
    (1, 0, "q2", ["layers.0.self_attn.q_proj.weight", "layers.0.self_attn.o_proj.weight"]),
    (2, 3, "q2", ["layers.3.self_attn.k_proj.weight", "layers.3.self_attn.v_proj.weight"]),
    (3, 2, "q3", ["layers.2.mlp.gate_proj.weight", "layers.2.mlp.up_proj.weight"]),
    (4, 5, "q2", ["layers.5.mlp.down_proj.weight"]),
]


def windows():
    for k in range(N_WINDOWS):
        first = (2 * k + 1) * N_IDS // (2 * N_WINDOWS) - WINDOW // 2
        yield IDS[min(first, N_IDS - WINDOW):][:WINDOW]


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
