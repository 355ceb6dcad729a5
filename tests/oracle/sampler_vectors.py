#!/usr/bin/env python3
"""Write the expected distributions of test_sampler_vectors: python3 sampler_vectors.py FILE

Implements DRY, top-n-sigma and XTC from their definitions, with numpy: p-e-w's pull requests 5677 and 6335 of
text-generation-webui, Tang et al. 2024 (arXiv 2411.07641), and for breakers of several tokens the rule of llama.cpp:
a repetition ends where a token that contains the breaker stands, or a token that ends in the breaker's beginning and
is followed by the tokens of the rest. The tokens are those of testdata/tiny/target, read by the tokenizers library.

FILE is JSON, one case per line: the options under their names, the history, and how the logits are made: logit i is
(i * step % modulus) / 64. `kept` is the number of tokens that are left, `probs` the probabilities of the most likely
of them and of the tokens of the history."""
import json
import os
import sys

import numpy as np
from tokenizers import Tokenizer

FOLDER = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = Tokenizer.from_file(os.path.join(FOLDER, "../../testdata/tiny/target/tokenizer.json"))
N_VOCAB = TOKENIZER.get_vocab_size()
F = np.float32


def byte_alphabet():
    """The characters that stand for bytes in a byte-level vocabulary (GPT-2)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


ALPHABET = byte_alphabet()


def token_bytes(i):
    return bytes(ALPHABET[c] for c in TOKENIZER.id_to_token(i)) if all(
        c in ALPHABET for c in TOKENIZER.id_to_token(i)) else TOKENIZER.id_to_token(i).encode()


def breaker_ends(history, at, breaker):
    """The indices after the breakers that begin with history[at]."""
    text, token = breaker.encode(), token_bytes(history[at])
    if text in token:
        return [at + 1]
    ends = []
    for begun in range(1, len(text)):
        if not token.endswith(text[:begun]) or text[begun] & 0xC0 == 0x80:
            continue
        rest = TOKENIZER.encode(text[begun:].decode(), add_special_tokens=False).ids
        if history[at + 1:at + 1 + len(rest)] == rest:
            ends.append(at + 1 + len(rest))
    return ends


def dry_penalties(o, history):
    """The penalty of each token."""
    window = history[-o["dry_penalty_last_n"]:] if o["dry_penalty_last_n"] > 0 else history
    n, allowed = len(window), o["dry_allowed_length"]
    limit = n
    for at in reversed(range(n)):
        ends = [e for b in o["dry_breakers"] for e in breaker_ends(window, at, b)]
        if ends:
            limit = n - max(ends)
            break
    longest = {}
    for end in range(n - 1):  # window[end] is the last token of the earlier occurrence
        length = 0
        while length < limit and length <= end and window[end - length] == window[n - 1 - length]:
            length += 1
        if length >= allowed:
            follows = window[end + 1]
            longest[follows] = max(longest.get(follows, 0), length)
    return {
        i: o["dry_multiplier"] * o["dry_base"] ** (length - allowed)
        for i, length in longest.items()
        if not any(b.encode() in token_bytes(i) for b in o["dry_breakers"])
    }


def distribution(o, logits, history):
    """{id: probability} of the tokens that are left."""
    x = logits.astype(F)
    if o["dry_multiplier"] > 0 and o["dry_penalty_last_n"] != 0 and len(history) > o["dry_allowed_length"]:
        for i, penalty in dry_penalties(o, history).items():
            x[i] -= F(min(penalty, 1e30))
    x = x.astype(np.float64)
    ids = np.arange(len(x))
    if o["top_n_sigma"] > 0:
        ids = ids[x >= x.max() - o["top_n_sigma"] * x.std()]
    if o["top_k"] > 0:
        ids = np.sort(sorted(ids, key=lambda i: (-x[i], i))[:o["top_k"]])
    p = np.exp((x[ids] - x.max()) / o["temperature"])
    p /= p.sum()
    ranked = sorted(range(len(ids)), key=lambda i: (-p[i], ids[i]))
    if o["top_p"] < 1:
        before = np.concatenate([[0], np.cumsum(p[ranked])[:-1]])
        ranked = [i for i, b in zip(ranked, before) if b < o["top_p"]]
    ranked = [i for i in ranked if p[i] >= o["min_p"] * p.max()]
    if o["xtc_probability"] == 1:
        total = p[ranked].sum()
        top = [i for i in ranked if p[i] / total >= o["xtc_threshold"]]
        if len(top) > 1:
            ranked = [i for i in ranked if i not in top[:-1]]
    total = p[ranked].sum()
    return {int(ids[i]): float(p[i] / total) for i in ranked}


def case(step, modulus, history, **options):
    o = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "top_n_sigma": 0.0, "xtc_probability": 0,
         "xtc_threshold": 0.125, "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2,
         "dry_penalty_last_n": -1, "dry_breakers": []} | options
    # f32, as the options are stored
    o = {k: float(F(v)) if isinstance(v, float) else v for k, v in o.items()}
    logits = np.array([(i * step % modulus) / 64 for i in range(N_VOCAB)], F)
    kept = distribution(o, logits, history)
    best = sorted(kept, key=lambda i: (-kept[i], i))[:12]
    shown = sorted({*best, *history})
    return o | {"step": step, "modulus": modulus, "history": history, "kept": len(kept),
                "probs": [[i, kept.get(i, 0.0)] for i in shown]}


def ids(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def cases():
    rng = np.random.default_rng(1)
    for sigma in (0.5, 1.0, 2.0):
        yield case(7919, 1009, [], top_n_sigma=sigma)
        yield case(7919, 1009, [], top_n_sigma=sigma, temperature=0.5, top_k=20, min_p=0.25)
    for threshold in (0.01, 0.03125, 0.125, 0.5, 0.75):
        for top_k in (3, 12):
            yield case(104729, 640, [], xtc_probability=1, xtc_threshold=threshold, top_k=top_k)
    yield case(104729, 640, [], xtc_probability=1, xtc_threshold=0.05, top_p=0.75, temperature=0.75)
    yield case(104729, 640, [], xtc_probability=1, xtc_threshold=0.05, top_n_sigma=0.75, min_p=0.3)
    dry = {"dry_multiplier": 0.8, "temperature": 1.0}
    for n, kinds in ((12, 2), (40, 3), (200, 4), (200, 9)):
        for allowed in (0, 1, 2, 4):
            for last_n in (-1, 0, 10, 33):
                history = [int(i) for i in rng.integers(300, 300 + kinds, n)]
                yield case(7919, 320, history, dry_allowed_length=allowed, dry_penalty_last_n=last_n, **dry)
    yield case(7919, 320, [400] * 300, dry_base=3.0, **dry)  # the penalty reaches its limit
    default = ["\n", ":", '"', "*"]
    story = "Tell me a story about a river. Tell me: a story about a river. Tell me a story"
    for breakers in ([], default, [" story about"], ["story about a"], ["a st"], ["r. Tell", "zz"], ["me: a"]):
        yield case(7919, 320, ids(story), dry_breakers=breakers, **dry)
        yield case(7919, 320, ids("\n".join([story] * 3)), dry_breakers=breakers, dry_allowed_length=1, **dry)
    for text in ('say "yes" and say "yes" and say "', "one\ntwo\none\ntwo\none\n", "a: b a: b a"):
        yield case(7919, 320, ids(text), dry_breakers=default, dry_allowed_length=1, **dry)
        yield case(7919, 320, ids(text), dry_allowed_length=1, **dry)


with open(sys.argv[1], "w", encoding="ascii") as f:
    for c in cases():
        f.write(json.dumps(c) + "\n")
