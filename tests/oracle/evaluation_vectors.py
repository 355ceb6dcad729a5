#!/usr/bin/env python3
"""Write the expected values of test_evaluation: python3 evaluation_vectors.py FOLDER ORACLE

ORACLE is the folder of golden logits that test_logits reads (its targets/NAME/logits_K.npy); those of
testdata/tiny are found relative to this script. Everything is computed with numpy's long double from the textbook
formulas. One case per line, numbers in hex, f32 and f64 as their bits:

  logit_scores.txt  16 logits of a reference, 16 of another row, the token; best, log-sum-exp, ln p(token) of
                  the reference; the same of the other; KL(reference || other)
  evaluation.txt  pair, prompt (see PAIRS), n scored; mean and standard error of: loss, right; reference loss,
                  loss change, KL, agreement, probability change; KL's percentiles 50, 90, 99, 99.9 and maximum;
                  root mean square of the probability change

Fixed seed; needs numpy."""
import json
import os
import struct
import sys

import numpy as np

L = np.longdouble
TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata/tiny")
# (model, reference), as in tests/runtime/test_evaluation.c; "tiny/..." or a folder of ORACLE/targets
PAIRS = [("tiny/target", "tiny/ar"), ("tiny/ar", "tiny/target"), ("qwen3", "qwen3_yarn"),
         ("qwen3_5", "qwen3"), ("gpt_oss", "qwen2"), ("llama_gqa_tied", "llama_linear_rope"),
         ("gemma2", "gemma3")]


def f32(values):
    return " ".join("%08x" % struct.unpack("<I", struct.pack("<f", v)) for v in values)


def f64(values):
    return " ".join("%016x" % struct.unpack("<Q", struct.pack("<d", float(v))) for v in values)


def log_sum(x):
    top = x.max()
    return top + np.log(np.exp(x - top).sum())


def divergence(p, q):
    p, q = p - log_sum(p), q - log_sum(q)
    return (np.exp(p) * (p - q)).sum()


def row_cases(rng):
    for scale in (0.1, 1, 5, 30, 300):
        for _ in range(8):
            yield rng.normal(0, scale, 16), rng.normal(0, scale, 16)
    same = rng.normal(0, 3, 16)
    for noise in (0, 1e-6, 1e-3, 0.1):
        yield same, same + rng.normal(0, 1, 16) * noise
    yield np.zeros(16), np.log(np.arange(1, 17))
    yield np.log(np.arange(1, 17)), np.zeros(16)
    yield np.full(16, -7.5), np.full(16, 1e4)
    yield np.arange(16) == 3, np.arange(16) >= 12
    yield (np.arange(16) == 3) * 800.0, (np.arange(16) == 4) * 800.0
    yield np.full(16, 1e30) * (np.arange(16) == 0), np.full(16, -1e30)


def logit_scores(rng):
    for p, q in row_cases(rng):
        p, q = p.astype(np.float32), q.astype(np.float32)
        token = int(rng.integers(16))
        line = [f32(p), f32(q), "%x" % token]
        for x in (p, q):
            x = x.astype(L)
            line += ["%x" % x.argmax(), f64([log_sum(x), x[token] - log_sum(x)])]
        yield " ".join(line + [f64([divergence(p.astype(L), q.astype(L))])])


def golden(oracle, name, prompt):
    if name.startswith("tiny/"):
        base = os.path.join(TINY, name[5:])
        return np.load(f"{base}_logits_{prompt}.npy"), json.load(
            open(os.path.join(TINY, f"golden_{name[5:]}.json")))["prompts"][prompt]
    folder = os.path.join(oracle, "targets", name)
    return np.load(f"{folder}/logits_{prompt}.npy"), json.load(open(f"{folder}/golden.json"))["prompts"][prompt]


def estimate(x):
    return [x.mean(), x.std(ddof=1) / np.sqrt(L(len(x)))]


def nearest_rank(x, share):
    return np.sort(x)[max(int(np.ceil(share * len(x))), 1) - 1]


def evaluation(oracle, pair, prompt):
    (logits, ids), (reference, same) = (golden(oracle, name, prompt) for name in PAIRS[pair])
    assert ids == same
    q, p = logits.astype(L)[:-1], reference.astype(L)[:-1]
    ids = np.array(ids[1:])
    rows = np.arange(len(ids))
    loss = np.array([log_sum(x) for x in q]) - q[rows, ids]
    reference_loss = np.array([log_sum(x) for x in p]) - p[rows, ids]
    kl = np.array([divergence(a, b) for a, b in zip(p, q)])
    change = np.exp(-loss) - np.exp(-reference_loss)
    values = []
    for x in (loss, (q.argmax(1) == ids).astype(L), reference_loss, loss - reference_loss, kl,
              (q.argmax(1) == p.argmax(1)).astype(L), change):
        values += estimate(x)
    values += [nearest_rank(kl, share) for share in (0.5, 0.9, 0.99, 0.999, 1)]
    values.append(np.sqrt((change * change).mean()))
    return "%x %x %x %s" % (pair, prompt, len(ids), f64(values))


def main():
    folder, oracle = sys.argv[1:]
    rng = np.random.default_rng(20261121)
    with open(os.path.join(folder, "logit_scores.txt"), "w") as f:
        f.writelines(line + "\n" for line in logit_scores(rng))
    with open(os.path.join(folder, "evaluation.txt"), "w") as f:
        for pair in range(len(PAIRS)):
            for prompt in range(3):
                f.write(evaluation(oracle, pair, prompt) + "\n")


main()
